//! A file that must be on the controller before an item may begin, as data.

use crate::Digest;
use serde::{Deserialize, Serialize};

/// A file that a host makes, and that is brought to the machine that runs converge and compared there, before the first step of
/// the item that it belongs to. When it does not come, the item has failed and nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// The inventory's name of the host that makes it; without, the item's own host.
    pub host: Option<String>,
    /// POSIX shell text that makes the file, checks it, and prints one line that [`BackupResult::read`] understands. The file
    /// is removed there afterwards.
    pub script: String,
    /// Seconds within which it must be made.
    pub seconds: u64,
    /// A name for people: `snapshot of etcd`.
    pub what: String,
    /// The owner: backups of one owner lie together, and the oldest of them are deleted.
    pub of: String,
    /// The reason, as a part of the file's name: `before-v1.36.2`.
    pub reason: String,
    /// The end of its file's name: `db`.
    pub extension: String,
    /// The ID with which `--allow-destroy` lets the item begin without it.
    pub unless_allowed: Option<String>,
}

/// The result of the script of a [`Backup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupResult {
    /// A file (`file SHA256 SIZE PATH REMARK`).
    File {
        /// Its SHA-256.
        digest: Digest,
        /// Its size in bytes.
        size: u64,
        /// Its path on that host: absolute, without blanks.
        path: String,
        /// A remark for people: `1234 keys`.
        remark: String,
    },
    /// Nothing, for there is nothing of the sort on that host (`none WHY`).
    Nothing(String),
}

impl BackupResult {
    /// Reads the script's line; `None` for anything else.
    pub fn read(reply: &str) -> Option<Self> {
        let line = reply.trim_end_matches('\n');
        if line.contains(|c: char| c.is_control()) {
            return None;
        }
        if let Some(why) = line.strip_prefix("none ") {
            return Some(Self::Nothing(why.to_owned()));
        }
        let mut words = line.strip_prefix("file ")?.splitn(4, ' ');
        let digest = Digest::from_hex(words.next()?)?;
        let size = words.next()?.parse().ok()?;
        let path = words.next().filter(|path| path.starts_with('/'))?.to_owned();
        Some(Self::File { digest, size, path, remark: words.next().unwrap_or_default().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_made_and_nothing_else_does() {
        let digest = Digest::of(b"x");
        let made = BackupResult::read(&format!("file {digest} 12 /var/lib/x.db 7 keys\n"));
        let file = BackupResult::File {
            digest: digest.clone(),
            size: 12,
            path: "/var/lib/x.db".into(),
            remark: "7 keys".into(),
        };
        assert_eq!(made, Some(file));
        assert_eq!(
            BackupResult::read("none it is elsewhere\n"),
            Some(BackupResult::Nothing("it is elsewhere".into()))
        );
        for bad in [
            String::new(),
            "file".to_owned(),
            format!("file {digest} 12 relative 7 keys"),
            format!("file {digest} -1 /x"),
            "file abc 1 /x".to_owned(),
            format!("noise\nfile {digest} 1 /x"),
        ] {
            assert_eq!(BackupResult::read(&bad), None, "{bad}");
        }
    }
}
