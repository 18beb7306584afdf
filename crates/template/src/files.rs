//! Files of the controller that lookups and includes read.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use converge_syntax::Source;

use crate::frame;

/// Largest file that is read.
const MAX_BYTES: u64 = 16 << 20;
const VAULT: &[u8] = b"$ANSIBLE_VAULT";

/// The reason why a file has no text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TextFileError {
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    #[error("larger than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    #[error("not UTF-8 text")]
    NotUtf8,
    /// It is encrypted, and no evaluation is under way that could open it.
    #[error("it is encrypted")]
    Encrypted,
    #[error("{problem}; {help}")]
    NotOpened { problem: String, help: String },
}

/// Does it begin as encrypted files do?
pub(crate) fn is_encrypted(path: &Path) -> bool {
    let mut start = Vec::new();
    let opened = std::fs::File::open(path);
    opened.is_ok_and(|file| file.take(VAULT.len() as u64).read_to_end(&mut start).is_ok() && start == VAULT)
}

/// The text of a file; a secret source where it is encrypted, and the evaluation is sensitive then.
pub(crate) fn read(path: &Path) -> Result<Arc<Source>, TextFileError> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(TextFileError::TooLarge);
    }
    let text = String::from_utf8(bytes).map_err(|_| TextFileError::NotUtf8)?;
    if !text.as_bytes().starts_with(VAULT) {
        return Ok(Source::new(path.to_string_lossy(), text));
    }
    let engine = frame::current_scope().map(|scope| scope.engine().clone());
    let engine = engine.ok_or(TextFileError::Encrypted)?;
    let opened =
        engine.decrypt(&text).map_err(|(problem, help)| TextFileError::NotOpened { problem, help })?;
    Ok(Source::secret(path.to_string_lossy(), opened, []))
}
