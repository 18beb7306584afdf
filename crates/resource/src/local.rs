//! Questions to the machine that runs converge, as data.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A question to the machine that runs converge. It changes nothing there. Answer: an object with one of `text` (the text) and `invalid` (the
/// words of the program that gave none).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LocalProbe {
    /// The manifests that kustomize makes of a folder.
    Kustomize {
        /// Its files by their paths in it.
        files: BTreeMap<String, String>,
        /// The folder in it that has the kustomization; empty for the whole.
        overlay: String,
    },
    /// The text at an address.
    Url {
        /// The address.
        url: String,
        /// Its SHA-256 in hexadecimal.
        sha256: String,
    },
}
