//! Measures the speed beside the floor: OpenSSH with one script.

mod files;
mod fleet;

use crate::process::{Result, cargo, output, run as run_command, shown, target_dir, workspace};
use crate::workload;
use converge_lab::{Host, Lab, LabOptions};
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The measurements to make.
#[derive(clap::Args)]
pub struct BenchArguments {
    /// Runs of each case; the median counts.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Numbers of hosts.
    #[arg(long, value_delimiter = ',', default_values_t = [1_u8, 10])]
    hosts: Vec<u8>,
    /// Round-trip times in milliseconds.
    #[arg(long, value_delimiter = ',', default_values_t = [0_u64, 20])]
    rtt: Vec<u64>,
    /// Measure so many small files on one host instead, such as 3000.
    #[arg(long)]
    files: Option<usize>,
    /// Measure fleets of so many simulated hosts instead, such as 100,1000: plans, their processor time and memory.
    #[arg(long, value_delimiter = ',')]
    fleet: Vec<usize>,
    /// Measure with this binary instead of a release build.
    #[arg(long)]
    converge: Option<PathBuf>,
    /// Measure this binary too, such as the one before a change, in turns with the other one.
    #[arg(long)]
    beside: Option<PathBuf>,
    /// Write the table to this file too.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only write the workload's templates into the checkout.
    #[arg(long)]
    write_templates: bool,
}

/// One row of the table, in seconds.
struct BenchRow {
    case: &'static str,
    hosts: u8,
    rtt: u64,
    floor: Vec<f64>,
    converge: Vec<f64>,
    /// The same with the other binary, where one was named.
    beside: Vec<f64>,
    aim: f64,
}

impl BenchRow {
    fn new(case: &'static str, hosts: u8, rtt: u64, aim: f64) -> Self {
        Self { case, hosts, rtt, floor: Vec::new(), converge: Vec::new(), beside: Vec::new(), aim }
    }

    /// A line about the newest times.
    fn newest(&self, turn: usize) -> String {
        let last = |times: &[f64]| times.last().map_or_else(|| "-".to_owned(), |time| format!("{time:.2} s"));
        let Self { case, hosts, rtt, .. } = self;
        let (floor, converge, other) = (last(&self.floor), last(&self.converge), last(&self.beside));
        format!(
            "{case}, {hosts} hosts, {rtt} ms, run {turn}: floor {floor}, converge {converge}, other {other}"
        )
    }
}

struct Bench<'a> {
    lab: &'a Lab,
    converge: &'a Path,
    beside: Option<&'a Path>,
    scratch: &'a Path,
}

/// Measures and prints a Markdown table.
pub fn run(arguments: &BenchArguments) -> Result<()> {
    if arguments.write_templates {
        return workload::write();
    }
    let converge = match &arguments.converge {
        Some(path) => path.clone(),
        None => release("converge-cli", "converge")?,
    };
    if arguments.beside.is_some() && (arguments.files.is_some() || !arguments.fleet.is_empty()) {
        return Err("--beside goes with neither --files nor --fleet: it is for the cases without them".into());
    }
    let scratch = tempfile::tempdir()?;
    let most = match arguments.files {
        Some(_) => 1,
        None if !arguments.fleet.is_empty() => 1,
        None => arguments.hosts.iter().copied().max().ok_or("no number of hosts was given")?,
    };
    let lab = Lab::open(LabOptions::new("bench"))?;
    let all = lab.up(most)?;
    let bench = Bench {
        lab: &lab,
        converge: &converge,
        beside: arguments.beside.as_deref(),
        scratch: scratch.path(),
    };
    if let (false, [host, ..]) = (arguments.fleet.is_empty(), all.as_slice()) {
        let replay = release("converge-replay", "converge-replay")?;
        let table = bench.fleet(host, &arguments.fleet, arguments.runs.max(1), &replay)?;
        return tell(&table, arguments);
    }
    let mut rows = Vec::new();
    if let (Some(number), [host, ..]) = (arguments.files, all.as_slice()) {
        rows.extend(bench.files(host, number, arguments.runs.max(1))?);
    }
    for rtt in arguments.rtt.iter().filter(|_| arguments.files.is_none()) {
        for count in &arguments.hosts {
            let hosts = all.get(..usize::from(*count)).ok_or("fewer hosts are up than are needed")?;
            rows.extend(bench.measure(hosts, *count, *rtt, arguments.runs.max(1))?);
        }
    }
    lab.down()?;
    tell(&table(&rows, arguments.runs), arguments)
}

/// Prints the table, and writes it to the file that was asked for.
fn tell(table: &str, arguments: &BenchArguments) -> Result<()> {
    println!("\n{table}");
    match &arguments.out {
        Some(path) => Ok(fs::write(path, table)?),
        None => Ok(()),
    }
}

/// Builds a program for release and returns its path.
fn release(package: &str, program: &str) -> Result<PathBuf> {
    run_command(&mut cargo(&["build", "--release", "--locked", "-p", package, "--bin", program]))?;
    Ok(target_dir().join("release").join(program))
}

impl Bench<'_> {
    /// The two rows of one fleet; the floor and converge take turns.
    fn measure(&self, hosts: &[Host], count: u8, rtt: u64, runs: usize) -> Result<[BenchRow; 2]> {
        let inventory = self.inventory(hosts)?;
        let row = |case, aim| BenchRow::new(case, count, rtt, aim);
        let (mut first, mut noop) = (row("first apply", 2.0), row("no-op", 1.5));
        let payloads = hosts.iter().map(|host| self.payload(host)).collect::<Result<Vec<_>>>()?;
        for turn in 1..=runs {
            self.fresh(hosts, rtt)?;
            first.floor.push(self.floor_apply(hosts, &payloads)?);
            // The last state is that of the binary itself: the no-op below is measured on it.
            for (binary, times) in self.binaries(&mut first) {
                self.fresh(hosts, rtt)?;
                times.push(apply(binary, &inventory)?);
            }
            println!("{}", first.newest(turn));
        }
        for turn in 1..=runs {
            noop.floor.push(self.floor_probe(hosts)?);
            for (binary, times) in self.binaries(&mut noop) {
                times.push(apply(binary, &inventory)?);
            }
            println!("{}", noop.newest(turn));
        }
        self.lab.rtt(0)?;
        Ok([first, noop])
    }

    /// The binaries to measure, each with its times in this row.
    fn binaries<'r>(&self, row: &'r mut BenchRow) -> impl Iterator<Item = (&Path, &'r mut Vec<f64>)> {
        let beside = self.beside.map(|binary| (binary, &mut row.beside));
        beside.into_iter().chain([(self.converge, &mut row.converge)])
    }

    /// Hosts on fresh disks, with that round-trip time, and with their boot behind them.
    fn fresh(&self, hosts: &[Host], rtt: u64) -> Result<()> {
        self.lab.rtt(0)?;
        self.lab.reset_hosts(hosts)?;
        for host in hosts {
            let state = host.exec("systemctl is-system-running --wait")?;
            if state.stdout.trim() != "running" {
                return Err(format!("{} is {} after its boot", host.name(), state.stdout.trim()).into());
            }
        }
        Ok(self.lab.rtt(rtt)?)
    }

    fn inventory(&self, hosts: &[Host]) -> Result<PathBuf> {
        let path = self.scratch.join(format!("inventory-{}.yaml", hosts.len()));
        let hosts = hosts.iter().map(|host| (host.name().to_owned(), host.address().to_string()));
        self.write_inventory(path, 22, &self.lab.known_hosts(), hosts)
    }

    /// An inventory of these names and addresses.
    fn write_inventory(
        &self,
        path: PathBuf,
        port: u16,
        known_hosts: &Path,
        hosts: impl Iterator<Item = (String, String)>,
    ) -> Result<PathBuf> {
        let mut text = format!(
            "all:\n  vars:\n    ansible_user: root\n    ansible_port: {port}\n    ansible_ssh_private_key_file: {}\n    \
             ansible_ssh_common_args: -o UserKnownHostsFile={}\n  hosts:\n",
            self.lab.identity().display(),
            known_hosts.display()
        );
        for (name, address) in hosts {
            text.push_str(&format!("    {name}: {{ansible_host: {address}}}\n"));
        }
        fs::write(&path, text)?;
        Ok(path)
    }

    /// A tar with the host's files and the script.
    fn payload(&self, host: &Host) -> Result<PathBuf> {
        let tree = self.scratch.join(format!("tree-{}", host.name()));
        let (settings, units) = (tree.join("etc/accel/conf.d"), tree.join("etc/systemd/system"));
        let (sysctls, script) = (tree.join("etc/sysctl.d"), tree.join("root/.floor"));
        for folder in [&settings, &units, &sysctls, &script] {
            fs::create_dir_all(folder)?;
        }
        for (number, text) in workload::rendered(host.name()) {
            fs::write(settings.join(format!("{number}.conf")), text)?;
        }
        for (name, text) in [
            ("90-accel-net", "net.core.rmem_max = 268435456\nnet.core.wmem_max = 268435456\n"),
            ("91-accel-vm", "vm.max_map_count = 1048576\nvm.swappiness = 1\n"),
            ("92-accel-fs", "fs.inotify.max_user_instances = 8192\nfs.file-max = 4194304\n"),
        ] {
            fs::write(sysctls.join(format!("{name}.conf")), text)?;
        }
        for letter in ["a", "b", "c"] {
            let name = format!("accel-agent-{letter}.service");
            fs::copy(workload::template_dir().join("../files").join(&name), units.join(&name))?;
        }
        fs::copy(workspace().join("bench/floor-apply.sh"), script.join("apply.sh"))?;
        let payload = self.scratch.join(format!("{}.tar", host.name()));
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&tree).args(["--owner=0", "--group=0", "--mode=0644", "-cf"]).arg(&payload);
        // Files only: the host's own directories keep what they have.
        let found = output(Command::new("find").arg(&tree).args(["-type", "f", "-printf", "%P\\n"]))?;
        run_command(tar.args(found.lines()))?;
        Ok(payload)
    }

    fn floor_apply(&self, hosts: &[Host], payloads: &[PathBuf]) -> Result<f64> {
        self.side_by_side(hosts, payloads, "tar -xf - -C / && sh /root/.floor/apply.sh")
    }

    fn floor_probe(&self, hosts: &[Host]) -> Result<f64> {
        let script = workspace().join("bench/floor-probe.sh");
        self.side_by_side(hosts, &vec![script; hosts.len()], "sh -s")
    }

    /// One cold `ssh` a host, all at once, each with its input; seconds until the last has ended.
    fn side_by_side(&self, hosts: &[Host], inputs: &[PathBuf], remote: &str) -> Result<f64> {
        let start = Instant::now();
        let mut running = Vec::new();
        for (host, input) in hosts.iter().zip(inputs) {
            let mut ssh = self.lab.ssh_command("root", host);
            ssh.arg(remote).stdin(fs::File::open(input)?.into_parts().0).stdout(Stdio::null());
            running.push((shown(&ssh), ssh.spawn()?));
        }
        for (line, mut child) in running {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("{line}: {status}").into());
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Seconds of an apply of the workload by this binary.
fn apply(binary: &Path, inventory: &Path) -> Result<f64> {
    let mut command = Command::new(binary);
    command.arg("apply").arg(inventory).arg("--playbook");
    command.arg(workspace().join("bench/workload/playbooks/site.yaml")).arg("--yes");
    let start = Instant::now();
    output(&mut command)?;
    Ok(start.elapsed().as_secs_f64())
}

fn table(rows: &[BenchRow], runs: usize) -> String {
    let with_other = rows.iter().any(|row| !row.beside.is_empty());
    let (head, rule) = if with_other { (" other | converge to other |", "---|---|") } else { ("", "") };
    let mut text = format!(
        "Medians of {runs} runs, wall seconds; the floor is OpenSSH with one script a host.\n\n\
         | case | hosts | RTT ms | floor | converge | ratio | aim |{head}\n|---|---|---|---|---|---|---|{rule}\n"
    );
    for row in rows {
        let (floor, converge) = (median(&row.floor), median(&row.converge));
        text.push_str(&format!(
            "| {} | {} | {} | {floor:.2} | {converge:.2} | {:.2} | {:.1} |",
            row.case,
            row.hosts,
            row.rtt,
            ratio(converge, floor),
            row.aim
        ));
        if with_other {
            let other = median(&row.beside);
            text.push_str(&format!(" {other:.2} | {:.2} |", ratio(converge, other)));
        }
        text.push('\n');
    }
    text
}

/// A time in parts of another one, of which none counts as shorter than a millisecond.
fn ratio(time: f64, of: f64) -> f64 {
    time / of.max(Duration::from_millis(1).as_secs_f64())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied().unwrap_or(f64::NAN);
    if sorted.len() % 2 == 1 {
        return upper;
    }
    let lower = middle.checked_sub(1).and_then(|index| sorted.get(index)).copied().unwrap_or(upper);
    f64::midpoint(lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn a_row_shows_the_ratios() {
        let row = |beside| BenchRow {
            floor: vec![0.5],
            converge: vec![0.6],
            beside,
            ..BenchRow::new("no-op", 1, 20, 1.5)
        };
        assert!(table(&[row(Vec::new())], 1).ends_with("| no-op | 1 | 20 | 0.50 | 0.60 | 1.20 | 1.5 |\n"));
        assert!(table(&[row(vec![0.75])], 1).ends_with("| 1.20 | 1.5 | 0.75 | 0.80 |\n"));
    }

    #[test]
    fn the_floor_knows_every_directory_of_the_role() {
        let read = |path: &str| fs::read_to_string(workspace().join(path)).unwrap();
        let role = read("bench/workload/roles/gpu_node/role.yaml");
        let (probe, apply) = (read("bench/floor-probe.sh"), read("bench/floor-apply.sh"));
        let directories: Vec<&str> = role.lines().filter_map(|line| line.strip_prefix("      - /")).collect();
        assert_eq!(directories.len(), 20);
        for directory in directories {
            assert!(probe.contains(directory) && apply.contains(directory), "{directory}");
        }
    }
}
