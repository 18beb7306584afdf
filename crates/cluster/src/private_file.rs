//! Files for helm that only the user who runs converge can read.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A file of this machine that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub(crate) struct HelmFileError {
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
}

/// Puts a file there that only we can read.
pub(crate) fn private(path: &Path, text: &[u8]) -> Result<(), HelmFileError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text))
        .map_err(|error| HelmFileError { path: path.to_owned(), error })
}
