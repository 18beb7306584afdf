//! Paths of files of ssh.

use camino::{Utf8Path, Utf8PathBuf};

/// Whether others may read or write a private key file, by the rule of ssh: only files of the present user are checked.
pub(crate) fn is_open(path: &Utf8Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let own = || std::fs::metadata("/proc/self").map(|me| me.uid()).ok();
    std::fs::metadata(path).is_ok_and(|file| file.mode() & 0o077 != 0 && Some(file.uid()) == own())
}

/// `~/` at the beginning means the home directory, as ssh takes it.
pub fn expand(path: &Utf8Path, home: Option<&Utf8Path>) -> Utf8PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
