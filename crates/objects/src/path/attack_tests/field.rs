//! The setup of an attack: a user's home, root's files beside it, and the user who exchanges two paths while root works there.
//!
//! Shared by the tests of the objects and those of the host's records.

use rustix::fs::{CWD, Gid, RenameFlags, Uid, chown, renameat_with};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// `nobody` stands for the user; the names are on every system.
const USER: u32 = 65534;
/// The content that only root may read.
pub(crate) const SECRET: &[u8] = b"root's own secret\n";
/// The user's own.
pub(crate) const THEIRS: &[u8] = b"the user's own\n";

/// A home with the user's files, and root's files beside it.
pub(crate) struct AttackField {
    _keep: tempfile::TempDir,
    pub home: PathBuf,
    pub victim: PathBuf,
    inode: u64,
}

pub(crate) fn give(path: &Path) {
    chown(path, Some(Uid::from_raw(USER)), Some(Gid::from_raw(USER))).unwrap();
}

pub(crate) fn dir_of(path: &Path, mode: u32) {
    std::fs::create_dir(path).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// An archive of something in this directory.
fn pack(dir: &Path, name: &str) {
    let packed = std::process::Command::new("tar").args(["-cf", "a.tar", name]).current_dir(dir).status();
    assert!(packed.unwrap().success());
}

impl AttackField {
    /// In a directory that only root may change, with all above it.
    pub fn new(keep: tempfile::TempDir) -> Self {
        let (home, victim) = (keep.path().join("home"), keep.path().join("victim"));
        dir_of(&home, 0o755);
        dir_of(&victim, 0o755);
        give(&home);
        for name in ["f", "gone"] {
            std::fs::write(victim.join(name), SECRET).unwrap();
            std::fs::set_permissions(victim.join(name), std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        dir_of(&victim.join("d"), 0o700);
        std::fs::write(victim.join("d/root's own secret"), "").unwrap();
        pack(&victim, "d");
        let inode = std::fs::metadata(&victim).unwrap().ino();
        Self { home, victim, inode, _keep: keep }
    }

    /// A directory of the user's, and a link of that name to root's.
    pub fn linked_dir(&self) -> [PathBuf; 2] {
        let pair = [self.home.join("app"), self.home.join("app.other")];
        dir_of(&pair[0], 0o755);
        give(&pair[0]);
        self.fill(&pair[0]);
        symlink(&self.victim, &pair[1]).unwrap();
        pair
    }

    /// Fills a directory of the user.
    pub fn fill(&self, app: &Path) {
        for name in ["f", "gone"] {
            std::fs::write(app.join(name), THEIRS).unwrap();
            give(&app.join(name));
        }
        dir_of(&app.join("d"), 0o755);
        give(&app.join("d"));
        pack(app, "f");
        give(&app.join("a.tar"));
    }

    /// Everything that only root may change, as a text: names, kinds, owners, modes and contents of all files of root.
    pub fn roots(&self) -> String {
        let places = [self.victim.clone(), self.home.join("app"), self.home.join("app.other")];
        let is = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|m| m.ino() == self.inode);
        let victim = places.into_iter().find(is).unwrap();
        let mut out = Vec::new();
        let mut left = vec![victim];
        while let Some(path) = left.pop() {
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            out.push(format!("{} {} {:o} {:?}", meta.uid(), meta.gid(), meta.mode(), content));
            if meta.is_dir() {
                let mut inside: Vec<PathBuf> =
                    std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()).collect();
                inside.sort();
                out.extend(inside.iter().map(|p| p.file_name().unwrap().to_string_lossy().into_owned()));
                left.extend(inside);
            }
        }
        out.join("\n")
    }
}

/// Exchanges the two as fast as it can while `work` runs, pausing sometimes, so that the attacked work also succeeds.
pub(crate) fn while_exchanging<T>(pair: &[PathBuf; 2], work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                // One of them may be missing for a moment, while root replaces it.
                let _missing = renameat_with(CWD, &pair[0], CWD, &pair[1], RenameFlags::EXCHANGE);
                turn += 1;
                // A tool of root's takes a millisecond to start: many exchanges fall between two of its looks.
                let rest = if turn.is_multiple_of(512) { 20_000 } else { turn * 37 % 251 };
                std::thread::sleep(Duration::from_micros(rest));
            }
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

/// How often each kind of work is done.
pub(crate) fn attempts() -> usize {
    std::env::var("CONVERGE_ATTACKS").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}
