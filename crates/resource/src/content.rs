//! Bytes, named by their SHA-256.

use crate::hex::to_hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// SHA-256 in lower-case hexadecimal, as `sha256sum` prints it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(String);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(to_hex(&Sha256::digest(bytes)))
    }

    /// Takes 64 hexadecimal digits; `None` for anything else.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let good = hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        good.then(|| Self(hex.to_owned()))
    }

    /// The 64 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first twelve digits, for people.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Bytes with their digest. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    digest: Digest,
    bytes: Arc<[u8]>,
}

impl Content {
    /// Takes bytes and names them.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { digest: Digest::of(&bytes), bytes }
    }

    /// Their SHA-256.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as text, when they are UTF-8 without NUL.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok().filter(|t| !t.contains('\0'))
    }
}

// The bytes may be a secret: only their digest and size are shown.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({}, {} bytes)", self.digest.short(), self.bytes.len())
    }
}
