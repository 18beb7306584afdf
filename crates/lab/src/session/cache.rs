//! The lab's cache folder and the locks of labs in it.

use crate::command;
use crate::error::{LabError, Result};
use crate::host::is_name;
use crate::net::Net;
use fs_err as fs;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

pub(super) const TEARDOWN: &str = include_str!("../scripts/teardown.sh");

/// The time that a lab whose owner died may take to clean up before a new owner gives up waiting.
pub(super) const CLEANING: Duration = Duration::from_secs(60);

/// `$CONVERGE_LAB_CACHE`, else `/var/cache/converge-lab`.
pub fn default_cache_dir() -> PathBuf {
    std::env::var_os("CONVERGE_LAB_CACHE")
        .map_or_else(|| PathBuf::from("/var/cache/converge-lab"), PathBuf::from)
}

/// Takes everything away that labs keep on this machine between runs: the base, the key. Labs must be down.
pub fn wipe(cache: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    if mounts.contains(&format!(" {}/", cache.display())) {
        return Err(LabError::Busy {
            name: cache.display().to_string(),
            owner: "with mounts in it".to_owned(),
        });
    }
    command::checked(command::root("rm").args(["-rf", "--one-file-system", "--"]).arg(cache)).map(drop)
}

pub(super) fn check_name(name: &str) -> Result<()> {
    // The cache's own directories.
    let reserved =
        ["base", "kube", "snapd", "target", "tools", "venv"].iter().any(|own| name.starts_with(own));
    if is_name(name) && !reserved { Ok(()) } else { Err(LabError::Name(name.to_owned(), "lab")) }
}

/// Makes the directory that labs and tests cache things in, owned by the caller, when it is not there yet.
pub fn make_cache(cache: &Path) -> Result<()> {
    if cache.is_dir() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (user, group) = (user.to_string(), group.to_string());
    command::checked(command::root("install").args(["-d", "-m", "755", "-o", &user, "-g", &group]).arg(cache))
        .map(drop)
}

/// Takes the lab's lock. It is held by this process and by its guard, so that nobody starts while the guard still cleans; the
/// guard deletes the file last.
pub(super) fn lock(cache: &Path, name: &str) -> Result<fs::File> {
    let path = cache.join(format!("{name}.lock"));
    let deadline = Instant::now() + CLEANING;
    loop {
        let mut file =
            fs::OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path)?;
        match file.file().try_lock() {
            // A file that was deleted meanwhile locks nothing.
            Ok(()) if is_at(&file, &path) => {
                file.set_len(0)?;
                writeln!(file, "{}", std::process::id())?;
                return Ok(file);
            }
            Ok(()) | Err(std::fs::TryLockError::WouldBlock) => {}
            Err(std::fs::TryLockError::Error(error)) => return Err(error.into()),
        }
        let owner = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
        let alive = !owner.is_empty() && Path::new("/proc").join(&owner).exists();
        if alive || Instant::now() > deadline {
            return Err(LabError::Busy { name: name.to_owned(), owner });
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(super) fn is_at(file: &fs::File, path: &Path) -> bool {
    let same = |there: std::fs::Metadata| {
        file.metadata().is_ok_and(|own| own.ino() == there.ino() && own.dev() == there.dev())
    };
    fs::metadata(path).is_ok_and(same)
}

/// Starts the process that takes the lab down when this one is done or dead.
pub(super) fn start_guard(net: Net, cgroup2: &Path, state: &Path, lock: &fs::File) -> Result<Child> {
    let mut guard = command::root("setsid");
    guard.args(["sh", "-c", TEARDOWN, "converge-lab-guard", &net.number.to_string()]);
    guard.arg(cgroup2).arg(state).arg("guard");
    // Its standard output is the lock: nothing is written to it.
    guard.stdin(Stdio::piped()).stdout(Stdio::from(lock.file().try_clone()?)).stderr(Stdio::null());
    guard.spawn().map_err(|error| command::failed_start(&guard, &error))
}

/// Removes the rest of a lab and checks that it is gone.
pub(super) fn clean(state: &Path, cgroup2: &Path) -> Result<()> {
    let net = Net::find(&state.to_string_lossy());
    if net.is_none() && !state.exists() {
        return Ok(());
    }
    // No lab has the number 0: with it only the directory is cleaned.
    let number = net.map_or(0, |net| net.number).to_string();
    let mut teardown = command::root("sh");
    command::checked(teardown.args(["-c", TEARDOWN, "converge-lab", &number]).arg(cgroup2).arg(state))?;
    gone(state)
}

/// Checks that a lab left nothing that would hold its name.
pub(super) fn gone(state: &Path) -> Result<()> {
    if state.exists() || Net::find(&state.to_string_lossy()).is_some() {
        return Err(LabError::Stuck {
            what: format!("taking down what lies in {}", state.display()),
            seconds: 20,
        });
    }
    Ok(())
}

/// Where cgroup2 is mounted: at the top, or beside the v1 hierarchies.
pub(super) fn cgroup2_mount() -> PathBuf {
    let top = Path::new("/sys/fs/cgroup");
    if top.join("cgroup.controllers").exists() { top.to_owned() } else { top.join("unified") }
}

/// `hN` has the address .(10+N); other names get one from .100 on.
pub(super) fn free_address(name: &str, taken: &BTreeMap<String, u8>) -> Option<u8> {
    let number = name.strip_prefix('h').and_then(|digits| digits.parse::<u8>().ok());
    if let Some(number) = number.filter(|number| (1..=89).contains(number) && format!("h{number}") == name) {
        return Some(10 + number);
    }
    (100..=250).find(|last| !taken.values().any(|other| other == last))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new owner of the name must not begin while the guard of the last one still deletes.
    #[test]
    fn a_guard_holds_the_lock_until_all_is_gone() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: a guard tears down as root");
            return;
        }
        let cache = tempfile::tempdir().unwrap();
        let state = cache.path().join("t");
        // No lab has the number 0. Its processes take their time to die.
        let net = Net { number: 0 };
        let group = cache.path().join(net.cgroup());
        fs::create_dir(&state).unwrap();
        fs::create_dir(&group).unwrap();
        fs::write(group.join("cgroup.events"), "populated 1\n").unwrap();
        let held = lock(cache.path(), "t").unwrap();
        let mut guard = start_guard(net, cache.path(), &state, &held).unwrap();
        drop(held);
        drop(guard.stdin.take());
        let output = PathBuf::from(format!("/proc/{}/fd/1", guard.id()));
        let deadline = Instant::now() + CLEANING;
        while !fs::read_link(&output).is_ok_and(|to| to == Path::new("/dev/null")) {
            assert!(Instant::now() < deadline, "the guard does not begin");
            std::thread::sleep(Duration::from_millis(10));
        }
        let file = fs::File::open(state.with_extension("lock")).unwrap();
        let next = file.file().try_lock();
        assert!(matches!(next, Err(std::fs::TryLockError::WouldBlock)), "{next:?}");
        fs::write(group.join("cgroup.events"), "populated 0\n").unwrap();
        assert!(guard.wait().unwrap().success());
        assert!(file.file().try_lock().is_ok() && !state.exists());
    }
}
