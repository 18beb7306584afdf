//! The plan: the changes on each host, item by item.

use crate::{Alteration, EarlierRuns};
use converge_objects::traits_of;
use converge_resource::{
    ApiCall, Backup, Change, Content, Digest, Disruption, NodeRemoval, ObjectId, OtherHostQuestion,
    Reversibility, Segment, State, Wait,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The plan of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostPlan {
    /// The inventory's name of the host.
    pub host: String,
    /// All items, in the order in which they run.
    pub items: Vec<Item>,
    /// Every object that an item claims, in its present state.
    pub base: Vec<(ObjectId, State)>,
    /// The results of earlier runs.
    #[serde(rename = "ours", default)]
    pub earlier_runs: EarlierRuns,
    /// Contents that changes name: the new bytes, and the old ones if a diff needs them (never those of a secret).
    #[serde(skip)]
    pub contents: BTreeMap<Digest, Content>,
    /// The facts that its items alter, in their order.
    #[serde(skip)]
    pub alterations: Vec<Alteration>,
}

/// The origin of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemOrigin {
    /// A role declares it.
    #[default]
    Declared,
    /// A rollback takes back what earlier runs did.
    Rollback,
    /// `--prune` gives back what is no longer declared.
    Prune,
}

/// One resource on one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its number on this host; later items have higher numbers.
    pub id: u32,
    /// `role/name`, with `[key]` for an element of `for_each`. Unique on a host.
    pub address: String,
    /// The user's name for it.
    pub name: String,
    /// A short name for references, if the user has given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// The role that declares it.
    pub role: String,
    /// The kind: `file`, `package` …
    pub kind: String,
    /// Its origin.
    pub origin: ItemOrigin,
    /// Where it is written: `file:line`.
    pub location: String,
    /// The items of this host that must have succeeded before: numbers below its own.
    pub needs: Vec<u32>,
    /// The objects that it manages.
    pub claims: Vec<ObjectId>,
    /// The planned outcome.
    pub outcome: Outcome,
    /// Remarks for people.
    pub notes: Vec<String>,
    /// True if it reads a sensitive value: none of its content is shown or stored.
    pub sensitive: bool,
    /// The effect of applying it on the work that runs on the host.
    #[serde(default)]
    pub disruption: Disruption,
    /// The guard: an automatic revert on the host unless the change is confirmed in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<crate::ItemGuard>,
    /// Shell variables for the item's steps.
    pub settings: Vec<(String, String)>,
    /// The question to another host that comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<OtherHostQuestion>,
    /// The file that must reach the controller first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
    /// The name of another host that a rollback needs besides the states.
    #[serde(rename = "way_back", default, skip_serializing_if = "Option::is_none")]
    pub node_removal: Option<NodeRemoval>,
    /// The resolved parameters; `None` when they are sensitive or not known yet.
    pub params: Option<serde_json::Value>,
    /// The first names of the facts that it reads.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub facts: BTreeSet<String>,
    /// The items of other hosts that must be over before, because they alter facts that it reads: each as host and address.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub waits_for_others: BTreeSet<(String, String)>,
    /// The digest by which a saved plan binds a deferred item: over its source and inputs, sealed if they are secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// The text of that digest.
    #[serde(skip)]
    pub source: Option<SourceText>,
    /// On a cluster: the API calls that make the changes, if the states do not tell them. They may hold secrets: never
    /// stored.
    #[serde(skip)]
    pub calls: Vec<ApiCall>,
    /// On a cluster: the fields that it declares of objects that others may have parts of too; of a prune, those that it gives back.
    #[serde(skip)]
    pub parts: Vec<(ObjectId, Vec<Segment>)>,
}

/// The source and the inputs of an item as one text. Never stored.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceText {
    /// The text. It may hold secrets.
    pub text: String,
    /// True if it holds a secret.
    pub sensitive: bool,
}

impl fmt::Debug for SourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceText").field("sensitive", &self.sensitive).finish_non_exhaustive()
    }
}

/// The planned outcome of an item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The item has its declared state.
    #[default]
    Unchanged,
    /// The item has its declared state; only a record of converge is written.
    Adopt(Vec<Change>),
    /// Objects that are no longer declared leave the records, and stay as they are: a prune has nothing to remove of them.
    Forget(Vec<Change>),
    /// The item will be changed.
    Changed(Vec<PlannedChange>),
    /// The outcome is not known yet.
    Deferred {
        /// The reason.
        wait: Wait,
        /// The only objects that it may touch when its turn comes.
        objects: Vec<ObjectId>,
    },
    /// The item does not apply to this host (`when` is false): why.
    Skipped(String),
    /// The declaration is invalid on this host, or a check does not hold.
    Failed(Problem),
    /// The host, or the project, differs from the saved plan. Nothing is changed here.
    Refused(String),
}

/// A change with its properties for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedChange {
    /// The object and its states.
    pub change: Change,
    /// Whether a rollback can revert it.
    pub reversibility: Reversibility,
    /// True if the change runs foreign code.
    pub opaque: bool,
}

/// An error of an item on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The error.
    pub message: String,
    /// The correction to write or make.
    pub help: Option<String>,
    /// JSON pointer of the parameter at fault; empty for the item.
    pub pointer: String,
    /// `file:line:column`, when a part of a file is at fault.
    pub at: Option<String>,
    /// True if the item has no error of its own: it is blocked by an earlier item with an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
}

impl Problem {
    /// An error of the whole item.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, pointer: String::new(), at: None, blocked: false }
    }

    /// An item that an earlier item with an error blocks.
    pub(crate) fn blocked(message: impl Into<String>) -> Self {
        Self { blocked: true, ..Self::new(message) }
    }
}

/// The number of items by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// In the declared state.
    pub unchanged: usize,
    /// To change.
    pub changed: usize,
    /// Not known yet.
    pub deferred: usize,
    /// Skipped: the condition is false.
    pub skipped: usize,
    /// Failed, blocked ones included.
    pub failed: usize,
    /// Blocked by an earlier item that failed.
    pub blocked: usize,
    /// Different from the saved plan.
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

    /// True if the item can only wait: it changes nothing, and its notes tell which condition does not hold yet.
    pub fn only_waits(&self) -> bool {
        !self.claims.is_empty() && self.claims.iter().all(|id| traits_of(id).passes)
    }

    /// The objects to wait for now, if the item does nothing but wait (each change is a state that comes by itself).
    pub fn awaits(&self) -> Vec<&ObjectId> {
        let objects: Vec<&ObjectId> = self.changes().iter().map(|c| &c.change.object).collect();
        if objects.iter().all(|id| traits_of(id).passes) { objects } else { Vec::new() }
    }

    /// True if something must come from another host, or to the controller, before its first step: it is sent alone, and not
    /// guarded.
    pub fn comes_alone(&self) -> bool {
        self.fetch.is_some() || self.backup.is_some()
    }

    /// True if an apply only writes records: it adopts or forgets, and changes nothing on the target.
    pub fn only_records(&self) -> bool {
        matches!(self.outcome, Outcome::Adopt(_) | Outcome::Forget(_))
    }

    /// True if an apply has, or may have, work here.
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
                Outcome::Unchanged | Outcome::Adopt(_) | Outcome::Forget(_) => s.unchanged += 1,
                Outcome::Changed(_) => s.changed += 1,
                Outcome::Deferred { .. } => s.deferred += 1,
                Outcome::Skipped(_) => s.skipped += 1,
                Outcome::Failed(ref problem) => {
                    s.failed += 1;
                    s.blocked += usize::from(problem.blocked);
                }
                Outcome::Refused(_) => s.refused += 1,
            }
        }
        s
    }

    /// The worst effect of its pending items on running work.
    pub fn disruption(&self) -> Disruption {
        let pending = self.items.iter().filter(|i| i.is_pending());
        pending.map(|i| i.disruption).max().unwrap_or_default()
    }

    /// True if there is nothing to do and no error.
    pub fn is_empty(&self) -> bool {
        let s = self.summary();
        s.changed == 0 && s.deferred == 0 && s.failed == 0 && s.refused == 0
    }
}
