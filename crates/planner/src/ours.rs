//! What former runs left on a host: things that no role declares any more, and a run that did not end.

use converge_resource::ObjectId;
use serde::{Deserialize, Serialize};

/// What the records of a host say to a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ours {
    /// How many things on the host belong to this playbook and inventory.
    pub owned: usize,
    /// Those that are no longer declared, in the order in which they would go.
    pub undeclared: Vec<Undeclared>,
    /// The newest run, when it did not end.
    pub cut_off: Option<Box<CutOff>>,
    /// What of the records is damaged, and so not considered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// Something that a run made and that no role declares any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undeclared {
    /// What it is.
    pub object: ObjectId,
    /// The role that it belongs to.
    pub role: String,
    /// The address of the item that made it or changed it last.
    pub item: String,
    /// Since when it is ours, RFC 3339 UTC.
    pub since: String,
    /// What `--prune` does with it.
    pub fate: Fate,
}

/// What becomes of something that is no longer declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It was not there before us: it is removed.
    Removed,
    /// It was there before us: it gets that state back.
    GivenBack,
    /// It stays as it is and is no longer recorded as ours: why.
    Forgotten(String),
    /// It is left alone, and stays recorded: why.
    LeftAlone(String),
}

/// A run that did not end by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOff {
    /// Its ID.
    pub run: String,
    /// When it began, RFC 3339 UTC.
    pub time: String,
    /// Who ran it.
    pub operator: String,
    /// True when some process holds the host's lock: it may still be at work.
    pub busy: bool,
    /// Why the host has put back what stood behind a switch, and the addresses of those items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_back: Option<(String, Vec<String>)>,
    /// The addresses of the items that it ended.
    pub done: Vec<String>,
    /// The items that it was cut off in, each with what the host shows now.
    pub unknown: Vec<(String, String)>,
    /// The addresses of the items that it did not begin.
    pub not_begun: Vec<String>,
}
