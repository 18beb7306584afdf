//! A fleet of simulated hosts: what its controller costs. `converge-replay` answers for them as a real host of the lab does, in a process
//! of its own; keys, logins and every byte between the two are real.

use super::{Bench, apply, median};
use crate::process::{Result, shown, workspace};
use converge_lab::Host;
use fs_err as fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The port of all simulated hosts, which differ in their address.
const PORT: u16 = 2222;
/// Hosts at a time, for both: the default of `--forks`.
const FORKS: usize = 20;
/// Ticks of a second in /proc, on every Linux.
const TICKS: f64 = 100.0;

/// The cost of a run.
struct RunCost {
    wall: f64,
    /// Seconds of processor time, of all its processes.
    processor: f64,
    /// The most memory it had, in MiB; of many processes none is told.
    memory: Option<f64>,
}

/// The simulated hosts; they end with this value.
struct FleetProcess {
    child: Child,
    input: Option<ChildStdin>,
    known_hosts: PathBuf,
}

impl Drop for FleetProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends with its input.
        drop(self.child.wait());
    }
}

impl Bench<'_> {
    /// A Markdown table for these numbers of hosts, each as `host` after the role was applied to it.
    pub(super) fn fleet(&self, host: &Host, numbers: &[usize], runs: usize, replay: &Path) -> Result<String> {
        self.fresh(std::slice::from_ref(host), 0)?;
        apply(self.converge, &self.inventory(std::slice::from_ref(host))?)?;
        let fleet = self.replay(host, replay)?;
        let mut table = format!(
            "Medians of {runs} runs, {FORKS} hosts at a time; seconds of wall and processor time, and the most memory of one process in MiB.\n\n\
             | case | hosts | floor | floor's processor | converge | converge's processor | memory |\n|---|---|---|---|---|---|---|\n"
        );
        // The first question of each sort goes to the real host.
        let one = self.fleet_inventory(1, &fleet)?;
        let cases: [(&str, &[&str]); 2] = [
            ("plan, nothing to change", &[]),
            ("plan, 20 files change, diffs shown", &["-e", "site=site-south"]),
        ];
        for (_, variables) in cases {
            self.plan(&one, variables)?;
        }
        self.ssh_all(1, &fleet)?;
        for number in numbers {
            let inventory = self.fleet_inventory(*number, &fleet)?;
            for (case, variables) in cases {
                let mut floors = Vec::new();
                let mut plans = Vec::new();
                for turn in 1..=runs {
                    floors.push(self.ssh_all(*number, &fleet)?);
                    plans.push(self.plan(&inventory, variables)?);
                    println!("{case}, {number} hosts, run {turn} of {runs}");
                }
                let of = |costs: &[RunCost], value: fn(&RunCost) -> f64| {
                    median(&costs.iter().map(value).collect::<Vec<_>>())
                };
                table.push_str(&format!(
                    "| {case} | {number} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} |\n",
                    of(&floors, |cost| cost.wall),
                    of(&floors, |cost| cost.processor),
                    of(&plans, |cost| cost.wall),
                    of(&plans, |cost| cost.processor),
                    of(&plans, |cost| cost.memory.unwrap_or(f64::NAN)),
                ));
            }
        }
        Ok(table)
    }

    fn replay(&self, host: &Host, program: &Path) -> Result<FleetProcess> {
        let known_hosts = self.scratch.join("fleet-known-hosts");
        let mut command = Command::new(program);
        command
            .arg("--listen")
            .arg(format!("0.0.0.0:{PORT}"))
            .arg("--known-hosts")
            .arg(&known_hosts)
            .arg("--");
        let real = self.lab.ssh_command("root", host);
        command.arg(real.get_program()).args(real.get_args()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        let input = child.stdin.take();
        let fleet = FleetProcess { child, input, known_hosts };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.trim() == "ready" {
            Ok(fleet)
        } else {
            Err(format!("{} did not start", shown(&command)).into())
        }
    }

    fn fleet_inventory(&self, number: usize, fleet: &FleetProcess) -> Result<PathBuf> {
        let path = self.scratch.join(format!("fleet-{number}.yaml"));
        let hosts = (0..number).map(|host| (format!("n{host:05}"), address(host)));
        self.write_inventory(path, PORT, &fleet.known_hosts, hosts)
    }

    fn plan(&self, inventory: &Path, variables: &[&str]) -> Result<RunCost> {
        let mut command = Command::new(self.converge);
        command.arg("plan").arg(inventory).arg("--playbook");
        command.arg(workspace().join("bench/workload/playbooks/site.yaml")).args(variables);
        command.args(["--forks", &FORKS.to_string()]);
        let (before, start) = (processor_of_children()?, Instant::now());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let status = format!("/proc/{}/status", child.id());
        let mut memory = None;
        let exit = loop {
            if let Some(exit) = child.try_wait()? {
                break exit;
            }
            // The process may end meanwhile.
            memory = fs::read_to_string(&status).ok().and_then(|text| most_memory(&text)).or(memory);
            std::thread::sleep(Duration::from_millis(20));
        };
        let wall = start.elapsed().as_secs_f64();
        // 2: there are changes.
        if !matches!(exit.code(), Some(0 | 2)) {
            return Err(format!("{}: {exit}", shown(&command)).into());
        }
        Ok(RunCost { wall, processor: processor_of_children()? - before, memory })
    }

    /// One cold `ssh` a host with the script that reads its state.
    fn ssh_all(&self, number: usize, fleet: &FleetProcess) -> Result<RunCost> {
        let script = workspace().join("bench/floor-probe.sh");
        let next = AtomicUsize::new(0);
        let one_after_another = || -> Result<()> {
            loop {
                let host = next.fetch_add(1, Ordering::Relaxed);
                if host >= number {
                    return Ok(());
                }
                let mut ssh = Command::new("ssh");
                ssh.args(["-F", "none", "-l", "root", "-p", &PORT.to_string(), "-i"])
                    .arg(self.lab.identity());
                ssh.args(["-o", "BatchMode=yes", "-o"]);
                ssh.arg(format!("UserKnownHostsFile={}", fleet.known_hosts.display()));
                ssh.args([&address(host), "sh -s"])
                    .stdin(fs::File::open(&script)?.into_parts().0)
                    .stdout(Stdio::null());
                let status = ssh.status()?;
                if !status.success() {
                    return Err(format!("{}: {status}", shown(&ssh)).into());
                }
            }
        };
        let (before, start) = (processor_of_children()?, Instant::now());
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..FORKS).map(|_| scope.spawn(one_after_another)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread ended early")?)
        })?;
        let wall = start.elapsed().as_secs_f64();
        Ok(RunCost { wall, processor: processor_of_children()? - before, memory: None })
    }
}

/// The address of a simulated host.
fn address(host: usize) -> String {
    format!("127.64.{}.{}", host / 250, host % 250 + 1)
}

/// Seconds of processor time of all processes that this one has waited for.
fn processor_of_children() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    children_ticks(&text).map(|ticks| ticks / TICKS).ok_or_else(|| "/proc/self/stat is not understood".into())
}

/// User and system time of waited-for children (proc_pid_stat(5), fields 16 and 17); the second field may hold blanks.
fn children_ticks(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(fields.get(13)?.parse::<f64>().ok()? + fields.get(14)?.parse::<f64>().ok()?)
}

/// MiB of the most memory that a process had, of its /proc/PID/status.
fn most_memory(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_read_from_proc() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 0 0 0 0 0 11 12 130 40 20 0 1 0 5 0";
        assert_eq!(children_ticks(stat), Some(170.0));
        assert_eq!(most_memory("VmPeak:\t 9 kB\nVmHWM:\t  2048 kB\n"), Some(2.0));
    }

    #[test]
    fn every_simulated_host_has_an_address_of_its_own() {
        let all: std::collections::BTreeSet<String> = (0..5000).map(address).collect();
        assert_eq!(all.len(), 5000);
    }
}
