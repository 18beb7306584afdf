//! Runs that a rollback passes over, and why.

use super::{ProjectRecords, ReturnPoint};
use crate::revert::TAKES_ON;
use crate::{FleetPlan, HostResult};
use converge_ledger::SavedChange;
use converge_planner::Outcome;
use converge_resource::{ObjectId, counted};
use std::collections::BTreeSet;

/// The hosts that were read, each with the place of the run where it returns to.
fn returning<'h, 'a>(
    hosts: &'h [Option<ProjectRecords<'a>>],
    starts: &'h [Option<ReturnPoint>],
) -> impl Iterator<Item = (&'h ProjectRecords<'a>, usize)> {
    hosts.iter().zip(starts).filter_map(|(of, start)| Some((of.as_ref()?, (*start)?.place())))
}

/// Says which runs of a project behind these places left all as it was, on each host: a failed upgrade, say.
pub(super) fn say_idle(
    over: &mut Vec<String>,
    hosts: &[Option<ProjectRecords<'_>>],
    starts: &[Option<ReturnPoint>],
) {
    let mut idle = BTreeSet::new();
    let mut others = BTreeSet::new();
    for (ProjectRecords { ledger, project, records }, start) in returning(hosts, starts) {
        for (at, run) in records.runs.iter().enumerate().skip(start) {
            let has_changed = run.changes.iter().any(SavedChange::may_have_happened);
            let counts = !run.is_rollback() && ledger.is_of(at, project);
            if !has_changed && counts && !run.planned.is_empty() {
                idle.insert(run.id.as_str());
            } else {
                others.insert(run.id.as_str());
            }
        }
    }
    over.extend(idle.difference(&others).map(|id| format!("run {id}, which changed nothing")));
}

/// Says how many runs of a project behind these places have nothing in force since a rollback.
pub(super) fn say_taken_back(
    over: &mut Vec<String>,
    hosts: &[Option<ProjectRecords<'_>>],
    starts: &[Option<ReturnPoint>],
) {
    let mut back: BTreeSet<&str> = BTreeSet::new();
    for (ProjectRecords { ledger, project, records }, start) in returning(hosts, starts) {
        let later = records.runs.iter().enumerate().skip(start + 1);
        let those = later.filter(|(at, run)| {
            !run.is_rollback() && run.rolled_back_by.is_some() && ledger.is_of(*at, project)
        });
        back.extend(those.map(|(_, run)| run.id.as_str()));
    }
    if !back.is_empty() {
        over.push(format!("{} rolled back already", counted(back.len(), "run")));
    }
}

/// The first reason why something of a plan is not done.
fn first_reason(plan: &FleetPlan) -> Option<String> {
    let items = plan.hosts.iter().filter_map(|h| match &h.result {
        HostResult::Planned(plan) => Some(&plan.items),
        _ => None,
    });
    items.flatten().find_map(|item| match &item.outcome {
        Outcome::Refused(why) => Some(why.clone()),
        Outcome::Failed(problem) => Some(problem.message.clone()),
        _ => None,
    })
}

/// The reason why nothing is done about the newest run.
pub(super) fn why_passed_over(plan: &FleetPlan) -> String {
    match first_reason(plan) {
        Some(why) => format!("of which nothing can be reverted ({why})"),
        None => "since all its objects have their previous states already".to_owned(),
    }
}

/// The reason why no older run is taken in the place of one of which nothing can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The saved values of an object cannot be read on this machine.
    Sealed,
    /// A step that cannot be reverted was cut off, and has left an object between its ends.
    Midway,
    /// A link above an object leads to another directory than the one in which it was changed.
    Elsewhere,
}

/// The objects of a target for which a rollback takes no run older than the newest one.
pub(super) type Halts = Vec<(ObjectId, Halt)>;

/// The first of them among the targets, with its target.
pub(super) type FirstHalt = Option<(String, ObjectId, Halt)>;

/// Says that no older run is taken in the place of this one.
pub(super) fn say_halt(plan: &mut FleetPlan, newest: &str, (host, object, halt): (String, ObjectId, Halt)) {
    let instead = format!("so no older run is taken in the place of {newest}");
    plan.warnings.push(match halt {
        Halt::Sealed => format!(
            "{host}: the saved values of {object} cannot be read here, {instead}: correct `converge_age_identity`, or name a run with `--to`"
        ),
        Halt::Elsewhere => format!(
            "{host}: the path of {object} leads to another directory than the one in which it was changed, {instead}: lead the link back, or name a run with `--to`"
        ),
        Halt::Midway => format!(
            "{host}: {object} is in an intermediate state, in which a run was interrupted, {instead}: {TAKES_ON}; or name a run with `--to`"
        ),
    });
}

/// Says which newer runs the plan does not revert. A reason that one of its items gives stands there alone.
pub(super) fn say_passed_over(plan: &mut FleetPlan, over: &[String]) {
    if over.is_empty() {
        return;
    }
    let list = over.join("; ");
    let list = match first_reason(plan) {
        Some(why) => list.replace(&format!(" ({why})"), ""),
        None => list,
    };
    plan.warnings.push(format!("passed over: {list}"));
}
