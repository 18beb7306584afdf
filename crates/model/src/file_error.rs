//! The reasons why a file of a role has no content.

use std::io;

use camino::Utf8PathBuf;
use converge_syntax::Diagnostic;

use crate::vault::VaultError;

/// The largest file of a role that is sent to hosts.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// The reason why a file of a role has no content.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(
        "it is larger than {} MiB; let the host fetch it: the kind `download` takes an address and its SHA-256",
        MAX_BYTES >> 20
    )]
    TooLarge,
    /// It is encrypted, and its text cannot be had.
    #[error("{}", .0.message)]
    Text(Box<Diagnostic>),
    /// It is encrypted, and its bytes cannot be had.
    #[error("{0}; {help}", help = .0.help())]
    Bytes(#[from] VaultError),
    /// The folder has a link, a device or the like: its path from the folder.
    #[error("`{0}` in it is neither a file nor a folder; put the file itself there")]
    Special(Utf8PathBuf),
}
