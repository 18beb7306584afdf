//! Results of earlier runs on a host: managed objects that no role declares any more, and an unfinished run.

use converge_resource::{ObjectId, State};
use serde::{Deserialize, Serialize};

/// The parts of a host's records that a plan shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierRuns {
    /// The number of objects on the host that this playbook and inventory manage.
    pub owned: usize,
    /// The orphaned ones, in the order in which they would be removed.
    pub undeclared: Vec<Orphan>,
    /// The newest run, if it is unfinished.
    pub cut_off: Option<Box<CutOff>>,
    /// Damaged parts of the records, which are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// An orphaned object: a run made or changed it, and no role declares it any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    /// The object.
    pub object: ObjectId,
    /// The role that it belongs to.
    pub role: String,
    /// The address of the item that made it or changed it last.
    pub item: String,
    /// The time since when it is managed, RFC 3339 UTC.
    pub since: String,
    /// The parts of it, for people, where the object itself is still declared: `label gpu of node n`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<String>,
    /// The effect of `--prune` on it.
    pub fate: Fate,
}

/// The effect of `--prune` on an orphaned object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It did not exist before converge: it is removed.
    Removed,
    /// It existed before converge: it gets that state back.
    GivenBack,
    /// It did not exist before converge, and others have parts of it by now: the project's own are removed.
    OwnPartRemoved,
    /// It stays as it is and is no longer managed: why.
    Forgotten(String),
    /// It is left alone and stays managed: why.
    LeftAlone(String),
}

/// An unfinished run.
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
    /// The reason why the host has automatically reverted guarded items, and their addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_back: Option<(String, Vec<String>)>,
    /// The addresses of the items that it ended.
    pub done: Vec<String>,
    /// The items that it was cut off in, each with what the host shows now.
    pub unknown: Vec<(String, String)>,
    /// The changes that it was cut off in and whose objects are in the planned states now, by their numbers in the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrived: Vec<(u32, State)>,
    /// The addresses of the items that it did not begin.
    pub not_begun: Vec<String>,
}
