//! Whether this machine can run a lab, and what labs were left on it.

use crate::error::Result;
use crate::mirror::Mirror;
use crate::session::{Lab, LabOptions, default_cache_dir};
use crate::{base, command};
use fs_err as fs;
use std::path::Path;

/// Something that a lab needs and this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The missing part.
    pub what: String,
    /// The remedy.
    pub help: String,
}

/// Programs, and the Debian packages that bring them.
const PROGRAMS: &[(&str, &str)] = &[
    ("systemd-nspawn", "systemd-container"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
    ("ssh-keygen", "openssh-client"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setsid", "util-linux"),
];

/// Everything that is missing for a lab; empty when one can be opened. Nothing is changed.
pub fn missing() -> Vec<Missing> {
    let mut out = Vec::new();
    let mut add = |what: &str, help: String| out.push(Missing { what: what.to_owned(), help });
    if !rustix::process::geteuid().is_root() && !command::succeeds("true", &[]) {
        add("the rights of root", "run it as root, or allow `sudo -n` without a password".to_owned());
    }
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
        && !Path::new("/sys/fs/cgroup/unified/cgroup.procs").exists()
    {
        add("cgroup2", "mount it at /sys/fs/cgroup, as systemd does".to_owned());
    }
    let mut programs: Vec<(&str, &str)> = PROGRAMS.to_vec();
    if !base::is_built(&default_cache_dir()) {
        programs.push(("mmdebstrap", "mmdebstrap"));
        if Mirror::find().is_err() {
            let help = "set CONVERGE_LAB_MIRROR to a Debian mirror, as http://HOST";
            add("a Debian mirror", help.to_owned());
        }
    }
    for (program, package) in programs {
        if !is_program(program) {
            add(program, format!("install it: apt-get install {package}"));
        }
    }
    out
}

pub(crate) fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A user's path often lacks these, and sudo's has them.
    let more = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path).chain(more).any(|folder| folder.join(name).is_file())
}

/// Takes down labs whose names begin so and that no living process holds; their names come back, sorted.
///
/// Errors when one cannot be taken down.
pub fn remove_left(prefix: &str) -> Result<Vec<String>> {
    let cache = default_cache_dir();
    let mut removed = Vec::new();
    for entry in fs::read_dir(&cache).into_iter().flatten().filter_map(std::result::Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with(prefix) || !entry.path().is_dir() {
            continue;
        }
        let lock = cache.join(format!("{name}.lock"));
        if fs::File::open(&lock).is_ok_and(|file| file.file().try_lock().is_err()) {
            continue;
        }
        Lab::attach(LabOptions::new(name.clone()).on_progress(|_| ())).and_then(Lab::down)?;
        // The guard of a lab that was left has ended without its last deed.
        drop(fs::remove_file(&lock));
        removed.push(name);
    }
    removed.sort();
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_where_root_finds_them() {
        assert!(is_program("sh"));
        assert!(!is_program("no-such-program-of-converge"));
    }
}
