//! The state that the hosts of a lab share.

use crate::error::{LabError, Result};
use crate::mirror::MirrorAddress;
use crate::net::Net;
use crate::packages;
use fs_err as fs;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Where hosts see what the lab shows them.
pub(crate) const SHARE: &str = "/run/lab";

/// The state that the hosts of a lab share.
pub(crate) struct Inner {
    pub net: Net,
    pub base: PathBuf,
    pub state: PathBuf,
    pub cgroup2: PathBuf,
    pub mirror: Vec<MirrorAddress>,
    /// Whether hosts can become nodes.
    pub kube: bool,
    /// Whether Debian packages that are missing on this machine are installed.
    pub install: bool,
    pub hosts: Mutex<BTreeMap<String, u8>>,
    pub delay: Mutex<Option<DelayLine>>,
}

impl Inner {
    /// The folder that all labs share; the state lies in it.
    pub(crate) fn cache(&self) -> &Path {
        self.state.parent().unwrap_or(&self.state)
    }

    /// Sees to it that these Debian packages are on this machine, for a build.
    pub(crate) fn tools(&self, names: &[&str], say: &dyn Fn(&str)) -> Result<()> {
        if self.install {
            return packages::ensure(names, say);
        }
        match packages::missing(names).as_slice() {
            [] => Ok(()),
            missing => Err(LabError::Packages(missing.join(" "))),
        }
    }

    /// Shows a file of this machine to all hosts, without a copy where it can be, in a folder below [`SHARE`]; says where they have it.
    pub(crate) fn share(&self, file: &Path, folder: &str) -> Result<String> {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder_here = self.state.join("share").join(folder);
        fs::create_dir_all(&folder_here)?;
        let to = folder_here.join(&name);
        if !to.exists() {
            // Two hosts may be given the same file side by side.
            static GIVEN: AtomicU64 = AtomicU64::new(0);
            let number = GIVEN.fetch_add(1, Ordering::Relaxed);
            let new = self.state.join("share").join(format!(".new-{}-{number}", std::process::id()));
            if fs::hard_link(file, &new).is_err() {
                fs::copy(file, &new)?;
            }
            fs::rename(new, &to)?;
        }
        Ok(Path::new(SHARE).join(folder).join(name).display().to_string())
    }
}

/// The delay of all packets, which a thread makes.
pub(crate) struct DelayLine {
    pub stop: Arc<AtomicBool>,
    pub thread: JoinHandle<io::Result<()>>,
}
