//! The results of commands, as data.

use crate::{ItemResult, PathStep, exit_code};
use converge_executor::TargetError;
use converge_planner::{HostPlan, Item, ItemOrigin, PlayOrder};
use converge_resource::{Content, Digest};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The plans of all hosts of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetPlan {
    /// A UUID v7; the run that applies it bears the same.
    pub id: String,
    /// The purpose of the plan.
    pub purpose: Purpose,
    /// When it was made, RFC 3339 UTC.
    pub created: String,
    /// One entry a host, in inventory order.
    pub hosts: Vec<HostEntry>,
    /// Those of them that are clusters.
    #[serde(default)]
    pub clusters: Vec<String>,
    /// Of a rollback: the runs before which the hosts return to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returns: Vec<Return>,
    /// Remarks: a pattern that matches nothing, an unread file.
    pub warnings: Vec<String>,
    /// The order of plays that go over their hosts in several batches.
    #[serde(default)]
    pub order: Vec<PlayOrder>,
}

impl FleetPlan {
    /// The IDs that `--allow-destroy` may name: those of all objects of the plan, `kind:key`. `None` where a host could not be looked at: it may have others.
    pub fn object_ids(&self) -> Option<BTreeSet<String>> {
        let is_whole = self.hosts.iter().all(|host| matches!(host.result, HostResult::Planned(_)));
        let ids = |plan: &HostPlan| -> Vec<String> {
            let of_items = plan.items.iter().flat_map(|item| {
                let deferred = match &item.outcome {
                    converge_planner::Outcome::Deferred { objects, .. } => objects.as_slice(),
                    _ => &[],
                };
                let changed = item.changes().iter().map(|planned| &planned.change.object);
                item.claims.iter().chain(deferred).chain(changed)
            });
            of_items
                .chain(plan.earlier_runs.undeclared.iter().map(|thing| &thing.object))
                .map(ToString::to_string)
                .collect()
        };
        let mut all: BTreeSet<String> = self.planned().flat_map(ids).collect();
        if all.iter().any(|id| id.starts_with("kubeadm:")) {
            all.insert(converge_objects::kubeadm::WITHOUT_SNAPSHOT.to_owned());
        }
        is_whole.then_some(all)
    }
}

/// A prune of more objects than this on one host needs their number from the user.
const MANY_THINGS: usize = 10;
/// The same, as a share of the managed objects on the host.
const MANY_PERCENT: usize = 10;

/// The extent of a prune.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneExtent {
    /// The number of objects, on all hosts.
    pub things: usize,
    /// True when on some host it is more than 10 things, or more than 10 % of the managed objects there.
    pub many: bool,
    /// True when a run was cut off on some host: it may have been a prune that has removed some of the objects.
    pub cut_off: bool,
}

impl PruneExtent {
    /// Whether the number of objects that a user has agreed to covers this: it is theirs, or a prune that was cut off has left fewer of them.
    pub fn is_covered_by(&self, given: usize) -> bool {
        given == self.things || (given > self.things && (self.cut_off || self.things == 0))
    }
}

/// The purpose of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The declared states.
    #[default]
    Converge,
    /// Back to the state before these runs: (host, run id).
    Rollback(Vec<(String, String)>),
    /// The changes of these roles, back to the state before these runs: (host, run id). The runs still count.
    RollbackOf {
        /// The roles.
        roles: Vec<String>,
        /// The runs.
        before: Vec<(String, String)>,
    },
}

/// A run before which hosts return to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// Its ID.
    pub run: String,
    /// When it began, RFC 3339 UTC.
    pub time: String,
    /// Who ran it, `user@machine`.
    pub operator: String,
    /// Its playbook, as the operator named it, behind the name of its project.
    pub playbook: String,
    /// Its inventory, likewise.
    pub inventory: String,
    /// The roles that it worked on.
    pub roles: Vec<String>,
    /// The hosts that return there.
    pub hosts: Vec<String>,
}

/// One host of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostEntry {
    /// The inventory's name.
    pub host: String,
    /// Its plan, or why there is none.
    pub result: HostResult,
    /// The time that connecting and reading took.
    #[serde(skip)]
    pub took: Duration,
}

/// A plan, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostResult {
    /// The plan.
    Planned(HostPlan),
    /// The host could not be reached, looked at, or logged into.
    Lost(TargetError),
}

impl FleetPlan {
    /// All host plans.
    pub fn planned(&self) -> impl Iterator<Item = &HostPlan> {
        self.hosts.iter().filter_map(|h| match &h.result {
            HostResult::Planned(plan) => Some(plan),
            HostResult::Lost(_) => None,
        })
    }

    /// The extent of `--prune` in this plan.
    pub fn pruned(&self) -> PruneExtent {
        let mut all = PruneExtent::default();
        for plan in self.planned() {
            let items = plan.items.iter().filter(|i| i.origin == ItemOrigin::Prune);
            // Where only fields go back to their owners, nothing is removed and no value changes.
            let changes = items.flat_map(|item| item.changes());
            let things = changes.filter(|planned| planned.change.from != planned.change.to).count();
            all.things += things;
            all.cut_off |= plan.earlier_runs.cut_off.is_some();
            all.many |= things > MANY_THINGS || things * 100 > plan.earlier_runs.owned * MANY_PERCENT;
        }
        all
    }

    /// True when no host has anything to do.
    pub fn is_empty(&self) -> bool {
        self.planned().all(HostPlan::is_empty)
    }

    /// The exit code of `plan` and `drift`, the first of these that holds: items with an error, a refused host, an unreachable one, pending changes, nothing.
    pub fn exit_code(&self) -> u8 {
        let lost: Vec<&TargetError> = self
            .hosts
            .iter()
            .filter_map(|h| match &h.result {
                HostResult::Lost(l) => Some(l),
                HostResult::Planned(_) => None,
            })
            .collect();
        if self.planned().any(|p| p.summary().failed > 0) {
            exit_code::FAILED
        } else if lost.iter().any(|l| !l.is_unreachable()) {
            exit_code::REFUSED
        } else if !lost.is_empty() {
            exit_code::UNREACHABLE
        } else if self.is_empty() {
            exit_code::DONE
        } else {
            exit_code::PENDING
        }
    }
}

/// The result of an apply.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ApplyReport {
    /// The run.
    pub run: String,
    /// One entry a host.
    pub hosts: Vec<HostApply>,
    /// Those of them that are clusters.
    #[serde(skip)]
    pub clusters: Vec<String>,
    /// The chain of items that made it take so long, first to last.
    pub critical_path: Vec<PathStep>,
    /// From the first change to the last look.
    #[serde(skip)]
    pub took: Duration,
}

/// The result of an apply on one host.
#[derive(Clone, Debug, Serialize)]
pub struct HostApply {
    /// The inventory's name.
    pub host: String,
    /// Every item (as it was planned in the end) and how it ended.
    pub items: Vec<(Item, ItemResult)>,
    /// The reason why the host dropped out, if it did.
    pub lost: Option<TargetError>,
    /// The differences from the plan when the engine looked again.
    pub differences: Vec<String>,
    /// The duration of each item on the host, by address; those that were not begun are missing.
    #[serde(skip)]
    pub times: BTreeMap<String, Duration>,
    /// Contents that the diffs of the items show.
    #[serde(skip)]
    pub contents: BTreeMap<Digest, Content>,
    /// The duration on the host.
    #[serde(skip)]
    pub took: Duration,
}

impl ApplyReport {
    /// The exit code of `apply`, the first of these that holds: a guarded change was reverted, something failed, was refused, was unreachable, all is done.
    pub fn exit_code(&self) -> u8 {
        let items = || self.hosts.iter().flat_map(|h| h.items.iter().map(|(_, r)| r));
        if items().any(|r| matches!(r, ItemResult::PutBack { .. })) {
            return exit_code::REVERTED;
        }
        let failed = items().any(|r| {
            matches!(r, ItemResult::Failed { .. } | ItemResult::Stopped | ItemResult::Unknown { .. })
        });
        if failed || self.hosts.iter().any(|h| !h.differences.is_empty()) {
            exit_code::FAILED
        } else if items().any(|r| matches!(r, ItemResult::Refused { .. }))
            || self.hosts.iter().any(|h| h.lost.as_ref().is_some_and(|l| !l.is_unreachable()))
        {
            exit_code::REFUSED
        } else if self.hosts.iter().any(|h| h.lost.is_some()) {
            exit_code::UNREACHABLE
        } else if items().any(ItemResult::is_bad) {
            exit_code::FAILED
        } else {
            exit_code::DONE
        }
    }
}

/// The facts of one host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostAnswer {
    /// The inventory's name.
    pub host: String,
    /// The facts, in the shape of [`crate::HostFacts`]; or the reason why nothing could be asked.
    pub result: Result<serde_json::Value, TargetError>,
}

/// The live checks of one host.
#[derive(Clone, Debug, Serialize)]
pub struct HostVerify {
    /// The inventory's name.
    pub host: String,
    /// Address and what went wrong; `None` when the check holds.
    pub checks: Vec<(String, Option<CheckFailure>)>,
    /// The reason why nothing could be checked.
    pub lost: Option<TargetError>,
}

/// Why a live check does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum CheckFailure {
    /// Something is not as it should be, in words for people.
    Differs(String),
    /// Nobody could look: another check comes first and does not hold, at this address.
    Behind(String),
    /// Nobody could look, for this reason.
    NotChecked(String),
}

impl std::fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Differs(why) => f.write_str(why),
            Self::Behind(first) => write!(f, "not checked: `{first}` comes first and does not hold"),
            Self::NotChecked(why) => write!(f, "not checked: {why}"),
        }
    }
}

/// The snapshots of one host.
#[derive(Clone, Debug, Serialize)]
pub struct HostSnapshots {
    /// The inventory's name.
    pub host: String,
    /// Newest first.
    pub runs: Vec<Snapshot>,
    /// The reason why they could not be read.
    pub lost: Option<TargetError>,
    /// The damaged parts of the records, which are ignored.
    pub remarks: Vec<String>,
}

/// One run on a host that can be rolled back.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// The run.
    pub run: String,
    /// When it began, RFC 3339 UTC.
    pub time: String,
    /// Who ran it, `user@machine`.
    pub operator: String,
    /// `converge_project` of its inventory, where it has one.
    pub project: Option<String>,
    /// Its playbook, as the operator named it.
    pub playbook: String,
    /// Its inventory, likewise.
    pub inventory: String,
    /// The roles that it worked on.
    pub roles: Vec<String>,
    /// The purpose of the run: `converge` or `rollback of ID`.
    pub purpose: String,
    /// The number of changes that it made.
    pub changes: usize,
    /// The number of objects that it has taken out of management for good, among the changes.
    pub forgotten: usize,
    /// True when it ended by itself.
    pub finished: bool,
    /// The run that rolled it back.
    pub rolled_back_by: Option<String>,
}

/// One command on one host.
#[derive(Clone, Debug)]
pub struct HostRan {
    /// The inventory's name.
    pub host: String,
    /// Its result, or the reason why the host could not be asked.
    pub result: Result<RanCommand, TargetError>,
    /// From the connection to the end.
    pub took: Duration,
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RanCommand {
    /// Its exit status; `None` when it took too long and was ended.
    pub status: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// True when more was written than is kept.
    pub cut: bool,
}
