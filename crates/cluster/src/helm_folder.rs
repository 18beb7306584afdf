//! Folders of this machine with what helm reads: a kubeconfig, values, a login. Only the user who runs converge can enter them.

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

/// The beginning of their names; the ID of the process follows.
const PREFIX: &str = "converge-helm-";

/// Those of this process, each with the helm that reads in it.
static PRESENT: Mutex<BTreeMap<PathBuf, Option<u32>>> = Mutex::new(BTreeMap::new());

fn present() -> std::sync::MutexGuard<'static, BTreeMap<PathBuf, Option<u32>>> {
    PRESENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder for one helm. Dropping it removes it.
pub(crate) struct HelmFolder(PathBuf);

/// The folders of processes that were killed are looked for once.
static SWEEP: Once = Once::new();

impl HelmFolder {
    /// Makes one; the first removes those of processes that were killed.
    pub(crate) fn new() -> io::Result<Self> {
        let all = std::env::temp_dir();
        SWEEP.call_once(|| remove_abandoned(&all));
        let folder = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir_in(all)?
            .keep();
        present().insert(folder.clone(), None);
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The helm that reads in it now; its process leads a group of its own.
    pub(crate) fn read_by(&self, helm: Option<u32>) {
        present().insert(self.0.clone(), helm);
    }
}

impl Drop for HelmFolder {
    fn drop(&mut self) {
        // It stays known until it is gone: the program may end in between.
        drop(std::fs::remove_dir_all(&self.0));
        present().remove(&self.0);
    }
}

/// Ends every helm and removes what it reads: for an end of the program that drops nothing, as after an interrupt.
pub fn abandon_helm() {
    for (folder, helm) in std::mem::take(&mut *present()) {
        if let Some(pid) = helm.and_then(|helm| Pid::from_raw(helm.try_into().ok()?)) {
            // It may have ended by now.
            let _ended = kill_process_group(pid, Signal::KILL);
        }
        // A thread that still drops its call removes the same files.
        for _ in 0..50 {
            if std::fs::remove_dir_all(&folder).is_ok() || !folder.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Removes our folders of processes that are gone.
fn remove_abandoned(all: &Path) {
    let Ok(entries) = std::fs::read_dir(all) else { return };
    let own = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        let Some(pid) = process.and_then(Pid::from_raw) else { continue };
        let is_own = entry.path().symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        if is_own && test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_of_one_process_and_those_of_killed_processes_go() {
        use std::os::unix::process::CommandExt as _;
        let all = tempfile::tempdir().unwrap();
        // No process has the ID of the first; the second is this test's.
        let gone = all.path().join(format!("{PREFIX}2147483647-x"));
        let present_one = all.path().join(format!("{PREFIX}{}-x", std::process::id()));
        for folder in [&gone, &present_one, &all.path().join("other")] {
            std::fs::create_dir(folder).unwrap();
        }
        remove_abandoned(all.path());
        assert!(!gone.exists() && present_one.exists() && all.path().join("other").exists());

        let folder = HelmFolder::new().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists());

        // At an end that drops nothing helm ends too.
        let folder = HelmFolder::new().unwrap();
        let mut helm = std::process::Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        folder.read_by(Some(helm.id()));
        let path = folder.path().to_owned();
        abandon_helm();
        assert!(!path.exists());
        assert!(!helm.wait().unwrap().success());
    }
}
