//! The main job before your eyes, on three disposable real hosts.

use crate::process::{Result, cargo, output, run as run_command, shown, target_dir, workspace};
use converge_lab::{Lab, LabOptions};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The inventory that is committed names the hosts, the key and the `known_hosts` file of this lab.
const INVENTORY: &str = "inventories/demo.yaml";
const LAB: &str = "demo";
const SUBNET: u8 = 77;
const CACHE: &str = "/var/cache/converge-lab";
/// A file that the demo's roles manage on every host.
const DAMAGED: &str = "/etc/motd";

struct Demo {
    lab: Lab,
    done: Vec<String>,
}

/// Plans, applies, applies again, corrects drift, rolls back; cleans up, also after a failure.
pub fn run() -> Result<()> {
    let start = Instant::now();
    println!("== building converge");
    run_command(&mut cargo(&["build", "--locked", "-p", "converge-cli", "--bin", "converge"]))?;
    println!("== starting three Debian hosts");
    let built = Instant::now();
    let lab = Lab::open(
        LabOptions::new(LAB).subnet(SUBNET).cache_dir(CACHE).on_progress(|line| println!("   {line}")),
    )?;
    for host in lab.up(3)? {
        println!("   {} {}", host.name(), host.address());
    }
    let mut demo = Demo { lab, done: Vec::new() };
    let result = demo.show();
    println!("\n== cleaning up");
    let Demo { lab, done } = demo;
    lab.down()?;
    println!("\n== what you saw");
    for line in &done {
        println!("   {line}");
    }
    result?;
    println!(
        "   all of it took {:.0} s, after a build of {:.0} s",
        built.elapsed().as_secs_f64(),
        (built - start).as_secs_f64()
    );
    Ok(())
}

impl Demo {
    fn show(&mut self) -> Result<()> {
        self.converge("Look: the plan is exact, and nothing is changed yet", &["plan", INVENTORY], 2)?;
        self.converge("Converge", &["apply", INVENTORY, "--yes"], 0)?;
        self.look()?;
        self.converge("Again: a second run changes nothing", &["apply", INVENTORY, "--yes"], 0)?;
        self.damage()?;
        self.converge("The drift is found", &["plan", INVENTORY], 2)?;
        self.converge("And corrected", &["apply", INVENTORY, "--yes"], 0)?;
        let oldest = self.snapshots()?;
        let back = ["rollback", INVENTORY, "--to", &oldest, "--yes"];
        self.converge("Revert everything: to the state before the first run", &back, 0)?;
        self.converge("The plan is the one of the beginning", &["plan", INVENTORY], 2)
    }

    fn binary() -> Command {
        let mut command = Command::new(target_dir().join("debug/converge"));
        command.current_dir(workspace());
        command
    }

    /// Runs the real binary as a person would, and checks its exit code.
    fn converge(&mut self, what: &str, arguments: &[&str], expected: i32) -> Result<()> {
        let mut command = Self::binary();
        command.args(arguments).stdin(Stdio::null());
        println!("\n== {what}\n$ {}", shown(&command));
        let start = Instant::now();
        let status = command.status()?;
        let took = start.elapsed().as_secs_f64();
        if status.code() != Some(expected) {
            return Err(
                format!("{}: {status}, but exit code {expected} was expected", shown(&command)).into()
            );
        }
        println!("   (exit code {expected}, {took:.1} s)");
        self.done.push(format!("{:60} {took:5.1} s, exit code {expected}", shown(&command)));
        Ok(())
    }

    /// Shows what can be rolled back to; returns the ID of the oldest run, which is the last one shown.
    fn snapshots(&mut self) -> Result<String> {
        self.converge("What can be rolled back to", &["snapshots", INVENTORY], 0)?;
        let text = output(Self::binary().args(["snapshots", INVENTORY]))?;
        let runs = text.lines().filter(|line| !line.starts_with(' '));
        let oldest = runs.filter_map(|line| line.split_whitespace().next()).next_back();
        Ok(oldest.ok_or("no run can be rolled back to")?.to_owned())
    }

    /// Shows the answers of the web servers.
    fn look(&mut self) -> Result<()> {
        println!();
        for name in ["h1", "h2"] {
            let host = self.lab.host(name).ok_or("the lab lacks a web server")?;
            let page = host.exec("curl -fsS http://127.0.0.1/")?;
            if !page.success() {
                return Err(format!("the web server of {name} does not answer: {}", page.stderr).into());
            }
            println!("$ ssh {name} curl -s http://127.0.0.1/\n{}", page.stdout.trim_end());
        }
        Ok(())
    }

    fn damage(&mut self) -> Result<()> {
        let host = self.lab.host("h2").ok_or("the lab has no host h2")?;
        println!("\n== Drift: somebody overwrites a file on h2\n$ ssh h2 'echo oops > {DAMAGED}'");
        let output = host.exec(&format!("test -f {DAMAGED} && echo oops > {DAMAGED}"))?;
        if !output.success() {
            return Err(format!("{DAMAGED} is not there on h2: {}", output.stderr).into());
        }
        self.done.push(format!("{DAMAGED} was overwritten on h2"));
        Ok(())
    }
}
