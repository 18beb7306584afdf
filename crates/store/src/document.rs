//! Versioned JSON documents on this machine, such as plan files.

use camino::Utf8Path;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write as _;
use std::ops::RangeInclusive;

/// Plan files and the like are refused above this many bytes.
const LIMIT: u64 = 256 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    format: String,
    version: u32,
    body: Value,
}

/// The reason why a document cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The file system said no.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is not a document of converge.
    #[error("{path} is no {wanted} file: {why}")]
    Foreign {
        /// The file.
        path: String,
        /// The format that was wanted.
        wanted: &'static str,
        /// The content that was found.
        why: String,
    },
    /// A document of converge in a version that this program does not read.
    #[error(
        "{path} is a {wanted} file of version {found}, {} than this converge reads ({} to {})",
        if found > supported.end() { "newer" } else { "older" }, supported.start(), supported.end()
    )]
    Version {
        /// The file.
        path: String,
        /// The format.
        wanted: &'static str,
        /// Its version.
        found: u32,
        /// The versions that this program reads.
        supported: RangeInclusive<u32>,
    },
}

/// Writes a document, replacing what was there in one step. Only its owner may read it.
///
/// # Errors
/// The file system's.
pub fn write_document(
    path: &Utf8Path,
    format: &'static str,
    version: u32,
    body: Value,
) -> Result<(), DocumentError> {
    let text = serde_json::to_vec(&Envelope { format: format.to_owned(), version, body })
        .map_err(|e| DocumentError::Io(e.into()))?;
    write_private(path, &text)?;
    Ok(())
}

/// Reads a document of this format and of one of these versions: its version and its body.
///
/// # Errors
/// A file that is not there, too large, foreign, or of another version.
pub fn read_document(
    path: &Utf8Path,
    format: &'static str,
    versions: RangeInclusive<u32>,
) -> Result<(u32, Value), DocumentError> {
    let foreign = |why: String| DocumentError::Foreign { path: path.to_string(), wanted: format, why };
    let size = fs_err::metadata(path)?.len();
    if size > LIMIT {
        return Err(foreign(format!("it has {size} bytes")));
    }
    let text = fs_err::read(path)?;
    let envelope: Envelope = serde_json::from_slice(&text).map_err(|e| foreign(e.to_string()))?;
    if envelope.format != format {
        return Err(foreign(format!("it says that it is `{}`", envelope.format)));
    }
    if !versions.contains(&envelope.version) {
        return Err(DocumentError::Version {
            path: path.to_string(),
            wanted: format,
            found: envelope.version,
            supported: versions,
        });
    }
    Ok((envelope.version, envelope.body))
}

/// Writes a file that only its owner may read, by a temporary file beside it and a rename. What is there and is no regular file (a device,
/// a link, a directory) is left as it is: the rename would replace it.
pub(crate) fn write_private(path: &Utf8Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if std::fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        return Err(std::io::Error::other(format!(
            "{path} is no regular file, and is left as it is: name another file"
        )));
    }
    let name = path.file_name().unwrap_or("document");
    let temporary = path.with_file_name(format!(".{name}.{:016x}", rand::random::<u64>()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs_err::rename(&temporary, path));
    if written.is_err() {
        let _best_effort = fs_err::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dir() -> (tempfile::TempDir, camino::Utf8PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("a.plan")).unwrap();
        (dir, path)
    }

    #[test]
    fn what_is_written_is_read_and_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_dir, path) = dir();
        write_document(&path, "converge-plan", 3, json!({"a": [1, "x"]})).unwrap();
        for versions in [3..=3, 2..=4] {
            let read = read_document(&path, "converge-plan", versions).unwrap();
            assert_eq!(read, (3, json!({"a": [1, "x"]})));
        }
        assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_regular_file_is_never_replaced() {
        let (dir, path) = dir();
        let there = dir.path().join("there");
        fs_err::write(&there, "kept").unwrap();
        std::os::unix::fs::symlink(&there, &path).unwrap();
        let refused = write_document(&path, "converge-plan", 3, json!({})).unwrap_err().to_string();
        assert!(refused.contains("is no regular file"), "{refused}");
        assert!(fs_err::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs_err::read_to_string(&there).unwrap(), "kept");
        assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn foreign_and_other_versions_are_refused_with_a_reason() {
        let (_dir, path) = dir();
        let refused = |text: &str| {
            fs_err::write(&path, text).unwrap();
            read_document(&path, "converge-plan", 2..=2).unwrap_err().to_string()
        };
        assert!(refused("hello").contains("is no converge-plan file"));
        assert!(refused(r#"{"format":"tf","version":2,"body":1}"#).contains("it says that it is `tf`"));
        assert!(
            refused(r#"{"format":"converge-plan","version":3,"body":1}"#)
                .contains("newer than this converge reads (2 to 2)")
        );
        assert!(refused(r#"{"format":"converge-plan","version":1,"body":1}"#).contains("older than this"));
        assert!(
            refused(r#"{"format":"converge-plan","version":2,"body":1,"x":1}"#).contains("unknown field")
        );
    }
}
