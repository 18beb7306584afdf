//! Debian packages that this machine needs.

use crate::command;
use crate::error::Result;
use std::process::Command;

/// What the lab itself runs.
pub(crate) const LAB_TOOLS: &[&str] =
    &["systemd-container", "mmdebstrap", "iptables", "iproute2", "openssh-client", "util-linux", "procps"];

/// Installs the Debian packages of `names` that are missing on this machine, saying so through `say` first.
///
/// Errors when apt fails, or when this is no Debian-like machine.
pub fn ensure(names: &[&str], say: &dyn Fn(&str)) -> Result<()> {
    let missing = missing(names);
    if missing.is_empty() {
        return Ok(());
    }
    say(&format!("apt-get install {}", missing.join(" ")));
    // An unreachable third-party source must not stop the rest: the install itself tells what is missing.
    command::succeeds("apt-get", &["update", "-qq"]);
    let options =
        ["DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", "--no-install-recommends"];
    command::checked(command::root("env").args(options).args(&missing)).map(drop)
}

/// Those that are not installed.
pub(crate) fn missing<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().copied().filter(|name| !installed(name)).collect()
}

fn installed(name: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", name])
        .output()
        .is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}
