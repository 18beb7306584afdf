//! Debian packages that this machine needs.

use crate::command;
use crate::error::Result;
use std::process::Command;

/// The Debian packages with the tools of the lab itself.
pub(crate) const LAB_TOOLS: &[&str] =
    &["systemd-container", "mmdebstrap", "iptables", "iproute2", "openssh-client", "util-linux", "procps"];

/// Held while apt runs: programs of tests start side by side, and where an image lets apt delete its archives after each update, the update
/// of one would take them from under the installation of another.
const LOCK: &str = "/run/converge-packages.lock";
/// Seconds to wait for whoever else is at work with apt.
const PATIENCE: &str = "900";

/// Installs the Debian packages of `names` that are missing on this machine, saying so through `say` first. Processes that do so at the same
/// time wait for each other.
///
/// Errors when apt fails, or when this is no Debian-like machine.
pub fn ensure(names: &[&str], say: &dyn Fn(&str)) -> Result<()> {
    let missing = missing(names);
    if missing.is_empty() {
        return Ok(());
    }
    say(&format!("apt-get install {}", missing.join(" ")));
    // An unreachable third-party source must not stop the rest: the install itself tells what is missing.
    drop(command::checked(apt().args(["update", "-qq"])));
    command::checked(apt().args(["install", "-y", "-qq", "--no-install-recommends"]).args(&missing)).map(drop)
}

/// apt, while no other process is in here.
fn apt() -> Command {
    let mut apt = command::root("flock");
    let timeout = format!("DPkg::Lock::Timeout={PATIENCE}");
    apt.args([
        "--timeout",
        PATIENCE,
        LOCK,
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-o",
        &timeout,
    ]);
    apt
}

/// The packages that are not installed.
pub(crate) fn missing<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().copied().filter(|name| !installed(name)).collect()
}

fn installed(name: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", name])
        .output()
        .is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}
