//! The path to a field of an object of a cluster.

use serde::{Deserialize, Serialize};

/// A key as a JSON pointer has it (RFC 6901).
pub fn pointer_word(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// One step of the path to a field. Items of a list are found by their key, never by their position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Segment {
    /// A key of a map.
    Key(String),
    /// The item of a list whose key `.0` has the value `.1` (JSON text).
    Item(String, String),
}
