//! The parameter `state` of the kinds whose object is there or not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether something is to be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It is there.
    #[default]
    Present,
    /// It is not there.
    Absent,
}
