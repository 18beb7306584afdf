//! Hosts with snapd, and a store for it.

use crate::{Error, exec};
use converge_lab::{Host, Lab};
use std::io::Write as _;
use std::path::Path;

/// Gives a host Debian's snapd, and a store before it that has the snaps of the given recipes. Where the machine's kernel does not let snapd mount
/// snaps, a line on standard error says so, the host gets `without` as its `snap`, and the answer is false.
///
/// # Errors
/// The files cannot be written, or snapd cannot be installed.
pub fn offer_snapd(lab: &Lab, host: &Host, without: &Path, recipes: &[(&str, &Path)]) -> Result<bool, Error> {
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("stand_ins/snap_store/snap");
    let obstacle = lab.snapd_obstacle(host)?;
    if let Some(why) = &obstacle {
        let line = format!("WITHOUT snapd, a program takes its place on {}: {why}\n", host.name());
        std::io::stderr().write_all(line.as_bytes())?;
        put(host, "/usr/bin/snap", without)?;
    } else {
        lab.install_snapd(host)?;
    }
    put(host, "/usr/local/bin/snap", &store)?;
    for (name, recipe) in recipes {
        put(host, &format!("/opt/snap-store/{name}"), recipe)?;
    }
    Ok(obstacle.is_none())
}

/// Copies a program to a host.
///
/// # Errors
/// It cannot be read or written.
pub fn put(host: &Host, path: &str, program: &Path) -> Result<(), Error> {
    let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
    let script = format!("mkdir -p {folder} && cat >{path} && chmod 755 {path}");
    let done = host.exec_with_input(&script, &std::fs::read(program)?)?;
    if done.success() { Ok(()) } else { Err(done.stderr.into()) }
}

/// The row of a snap in the list of snapd: name, version, revision, channel, publisher and notes. Nothing of one that is not installed.
///
/// # Panics
/// The list cannot be had.
#[must_use]
pub fn row(host: &Host, name: &str) -> String {
    let listed = exec(host, &format!("snap list --unicode=never {name} 2>/dev/null || true"));
    listed.lines().nth(1).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
