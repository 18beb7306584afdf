//! The plan: what would happen on each host, item by item.

use crate::Ours;
use converge_resource::{
    ApiCall, Backup, Change, Content, Digest, Disruption, Fetch, ObjectId, Reversibility, State, Wait,
    WayBack,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Everything that is planned for one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostPlan {
    /// The inventory's name of the host.
    pub host: String,
    /// All items, in the order in which they run.
    pub items: Vec<Item>,
    /// Every object that an item claims, as it was seen.
    pub base: Vec<(ObjectId, State)>,
    /// What former runs left here.
    #[serde(default)]
    pub ours: Ours,
    /// Content that changes name: the new bytes, and the old ones where a diff needs them (never a secret's).
    #[serde(skip)]
    pub contents: BTreeMap<Digest, Content>,
}

/// One resource on one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its number on this host; later items have higher numbers.
    pub id: u32,
    /// `role/name`, with `[key]` for an element of `for_each`. Unique on a host.
    pub address: String,
    /// What the user called it.
    pub name: String,
    /// The role that declares it.
    pub role: String,
    /// The kind: `file`, `package` …
    pub kind: String,
    /// Where it is written: `file:line`.
    pub origin: String,
    /// The items of this host that must have succeeded before: numbers below its own.
    pub needs: Vec<u32>,
    /// The objects that it answers for.
    pub claims: Vec<ObjectId>,
    /// What would happen.
    pub outcome: Outcome,
    /// Remarks for people.
    pub notes: Vec<String>,
    /// True when a sensitive value was in reach: nothing of its content is shown or stored.
    pub sensitive: bool,
    /// What applying it does to what runs on the host.
    #[serde(default)]
    pub disruption: Disruption,
    /// How it is guarded: a switch on the host puts it back unless it is confirmed in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<crate::Guarded>,
    /// Shell variables for the item's steps.
    pub settings: Vec<(String, String)>,
    /// What another host must say first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<Fetch>,
    /// What must be brought to this machine first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
    /// What a rollback of it needs besides the states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way_back: Option<WayBack>,
    /// The resolved parameters; `None` when they are sensitive or not known yet.
    pub params: Option<serde_json::Value>,
    /// First names of the facts that it reads.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub facts: BTreeSet<String>,
    /// What a saved plan binds of a deferred item: a digest of its source and inputs, sealed where they are secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// What that is a digest of.
    #[serde(skip)]
    pub source: Option<SourceText>,
    /// On a cluster: how the changes are made, where their states do not say it. They may hold secrets: never stored.
    #[serde(skip)]
    pub calls: Vec<ApiCall>,
}

/// The source and the inputs of an item as one text. Never stored.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceText {
    /// The text. It may hold secrets.
    pub text: String,
    /// A secret went into it.
    pub sensitive: bool,
}

impl fmt::Debug for SourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceText").field("sensitive", &self.sensitive).finish_non_exhaustive()
    }
}

/// What would happen to an item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is as declared.
    #[default]
    Unchanged,
    /// It is as declared; only a record of ours is to be written.
    Adopt(Vec<Change>),
    /// It is to be changed.
    Changed(Vec<PlannedChange>),
    /// Nothing can know yet.
    Deferred {
        /// What it waits for.
        wait: Wait,
        /// The only objects that it may touch when its turn comes.
        objects: Vec<ObjectId>,
    },
    /// It does not apply to this host: why (`when` is false).
    Skipped(String),
    /// It is wrong on this host, or a check does not hold.
    Failed(Problem),
    /// The host, or the project, is not as a saved plan saw it. Nothing is done here.
    Refused(String),
}

/// A change with what people must know beforehand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// The object and its states.
    pub change: Change,
    /// Whether a rollback can undo it.
    pub reversibility: Reversibility,
    /// True when it runs code that is not ours.
    pub opaque: bool,
}

/// What is wrong with an item on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What is wrong.
    pub message: String,
    /// What to write or do instead.
    pub help: Option<String>,
    /// JSON pointer of the parameter at fault; empty for the item.
    pub pointer: String,
    /// `file:line:column`, when a part of a file is at fault.
    pub at: Option<String>,
}

impl Problem {
    /// A problem of the whole item.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, pointer: String::new(), at: None }
    }
}

/// How many items end how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// As declared already.
    pub unchanged: usize,
    /// To be changed.
    pub changed: usize,
    /// Not known yet.
    pub deferred: usize,
    /// Not for this host.
    pub skipped: usize,
    /// Wrong.
    pub failed: usize,
    /// Not as a saved plan saw it.
    pub refused: usize,
}

impl Item {
    /// The changes, when it has some.
    pub fn changes(&self) -> &[PlannedChange] {
        match &self.outcome {
            Outcome::Changed(changes) => changes,
            _ => &[],
        }
    }

    /// True when it only waits for something: it changes nothing, and its notes say what does not hold yet.
    pub fn only_waits(&self) -> bool {
        let waits = |id: &ObjectId| converge_objects::object(&id.kind).is_some_and(|o| o.passes());
        !self.claims.is_empty() && self.claims.iter().all(waits)
    }

    /// What it would wait for now, if that is all that it would do: the objects of its changes, each a moment to come.
    pub fn awaits(&self) -> Vec<&ObjectId> {
        let objects: Vec<&ObjectId> = self.changes().iter().map(|c| &c.change.object).collect();
        let passes = |id: &&ObjectId| converge_objects::object(&id.kind).is_some_and(|o| o.passes());
        if objects.iter().all(passes) { objects } else { Vec::new() }
    }

    /// True when something must come from a host, or to this machine, before its first step: it is sent alone, and behind no switch.
    pub fn comes_alone(&self) -> bool {
        self.fetch.is_some() || self.backup.is_some()
    }

    /// True when applying does, or may do, something here.
    pub fn is_pending(&self) -> bool {
        matches!(self.outcome, Outcome::Changed(_) | Outcome::Deferred { .. })
    }
}

impl HostPlan {
    /// Counts the items by outcome.
    pub fn summary(&self) -> Summary {
        let mut s = Summary::default();
        for item in &self.items {
            match item.outcome {
                Outcome::Unchanged | Outcome::Adopt(_) => s.unchanged += 1,
                Outcome::Changed(_) => s.changed += 1,
                Outcome::Deferred { .. } => s.deferred += 1,
                Outcome::Skipped(_) => s.skipped += 1,
                Outcome::Failed(_) => s.failed += 1,
                Outcome::Refused(_) => s.refused += 1,
            }
        }
        s
    }

    /// The worst that its pending items do to what runs.
    pub fn disruption(&self) -> Disruption {
        let pending = self.items.iter().filter(|i| i.is_pending());
        pending.map(|i| i.disruption).max().unwrap_or_default()
    }

    /// True when nothing is to be done and nothing is wrong.
    pub fn is_empty(&self) -> bool {
        let s = self.summary();
        s.changed == 0 && s.deferred == 0 && s.failed == 0 && s.refused == 0
    }
}
