//! Parts of an object of a cluster: fields that an item sets while others have further fields of the object.

use crate::Segment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A field that a change has set, or taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedPart {
    /// The path to it.
    pub path: Vec<Segment>,
    /// The number of steps of the path that led somewhere before: the maps and lists behind them came with the field, and go with it.
    #[serde(default)]
    pub depth: usize,
    /// The value before; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value that was set; `None` where the field was taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// True where a prune has given it back: nothing else is said of it then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
}
