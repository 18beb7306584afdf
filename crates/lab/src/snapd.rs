//! Hosts with snapd.

use crate::command;
use crate::error::{LabError, Result};
use crate::host::{ExecOutput, Host};
use crate::session::{Lab, LabOptions};
use fs_err as fs;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};

/// The Debian release of which the snap `snapd` is made: that of the hosts has a snapd that cannot hold a single snap.
const NEWER: &str = "trixie";
const FILES: &str = include_str!("scripts/snapd-files.sh");
const INSTALL: &str = include_str!("scripts/snapd.sh");
/// A mount without a file system behind it, which takes what snapd needs: the device, and the right to mount by it.
const TRY: &str = "[ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229 && mkdir -p /run/lab-try && exec 3<>/dev/fuse && \
                   mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 lab /run/lab-try && umount -l /run/lab-try && rmdir /run/lab-try";

impl Lab {
    /// The reason why snapd cannot run on a host: the machine's kernel, or `CONVERGE_LAB_SNAPD=no` in the environment. Nothing where it can.
    pub fn snapd_obstacle(&self, host: &Host) -> Result<Option<String>> {
        if std::env::var_os("CONVERGE_LAB_SNAPD").is_some_and(|value| value == "no") {
            return Ok(Some("CONVERGE_LAB_SNAPD=no is set".to_owned()));
        }
        let tried = host.exec(TRY)?;
        Ok((!tried.success()).then(|| format!("no mount by /dev/fuse: {}", tried.stderr.trim())))
    }

    /// Installs Debian's snapd on a host, as it is on a Debian host on which a first snap was installed: the package of the host's release, and the
    /// snap `snapd`, which is newer and takes its place, here made of the package of the next release. There is a base for snaps of classic
    /// confinement, `lab-base`. Snaps are mounted by squashfuse, as snapd itself does in a container. There is no store, and no AppArmor.
    ///
    /// Errors where [`Lab::snapd_obstacle`] names a reason.
    pub fn install_snapd(&self, host: &Host) -> Result<()> {
        let files = self.snapd_files()?;
        let mut folder = String::new();
        for entry in fs::read_dir(&files)? {
            let shown = host.inner().share(&entry?.path(), "snapd")?;
            folder = shown.rsplit_once('/').map(|(folder, _)| folder.to_owned()).unwrap_or_default();
        }
        done(&host.exec(&format!("set -- {folder}\n{INSTALL}"))?, || {
            format!("installing snapd on {}", host.name())
        })
    }

    /// The folder with the files of hosts with snapd, from the cache or made now, in a lab of its own.
    fn snapd_files(&self) -> Result<PathBuf> {
        let cache = self.cache();
        let lock = fs::File::create(cache.join("snapd.lock"))?;
        lock.file().lock()?;
        let folder = cache.join(format!("snapd-{}", recipe()));
        if folder.is_dir() {
            return Ok(folder);
        }
        self.say("making the files of hosts with snapd (a minute, once)");
        let new = cache.join("snapd.new");
        command::checked(command::root("rm").args(["-rf", "--"]).arg(&new))?;
        make(cache, &new)?;
        fs::rename(&new, &folder)?;
        Ok(folder)
    }
}

/// Makes the files in a disposable host, since packages are installed for that, and leaves them in `new`.
fn make(cache: &Path, new: &Path) -> Result<()> {
    let lab = Lab::open(LabOptions::new("files-of-snapd").cache_dir(cache))?;
    for host in lab.up(1)? {
        let made = host.exec(&format!("set -- {NEWER}\n{FILES}"))?;
        done(&made, || "making the files of hosts with snapd".to_owned())?;
        command::checked(
            command::root("cp").arg("-r").arg(host.root_dir().join("var/lib/lab-snapd")).arg(new),
        )?;
    }
    lab.down()
}

fn done(output: &ExecOutput, what: impl Fn() -> String) -> Result<()> {
    if output.success() {
        return Ok(());
    }
    Err(LabError::Tool {
        command: what(),
        status: output.status.map_or_else(|| "a signal".to_owned(), |status| status.to_string()),
        detail: output.stderr.clone(),
    })
}

/// Changes with the scripts.
fn recipe() -> String {
    let mut hash = Sha256::new();
    for text in [FILES, NEWER] {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}
