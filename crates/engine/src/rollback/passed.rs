//! Runs that a rollback passes over, and why.

use super::ReturnPoint;
use crate::{FleetPlan, HostResult};
use converge_ledger::{Ledger, ProjectScope, Records, SavedChange};
use converge_planner::Outcome;
use std::collections::BTreeSet;

/// The runs of a project behind these places that left all as it was, on each host: a failed upgrade, say.
pub(super) fn idle_runs<'a>(
    ledgers: &[Option<(Ledger<'_>, ProjectScope, &'a Records)>],
    starts: &[Option<ReturnPoint>],
) -> BTreeSet<&'a str> {
    let mut idle = BTreeSet::new();
    let mut others = BTreeSet::new();
    for (of, start) in ledgers.iter().zip(starts) {
        let (Some((ledger, project, records)), Some(ReturnPoint::From(at) | ReturnPoint::To(at))) =
            (of, start)
        else {
            continue;
        };
        for (at, run) in records.runs.iter().enumerate().skip(*at) {
            let has_changed = run.changes.iter().any(SavedChange::may_have_happened);
            let counts = !run.is_rollback() && ledger.is_of(at, project);
            if !has_changed && counts && !run.planned.is_empty() {
                idle.insert(run.id.as_str());
            } else {
                others.insert(run.id.as_str());
            }
        }
    }
    idle.difference(&others).copied().collect()
}

/// The runs of a project behind this place of which nothing is in force since a rollback.
pub(super) fn taken_back<'a>(
    ledger: &Ledger<'_>,
    project: &ProjectScope,
    records: &'a Records,
    start: usize,
) -> Vec<&'a str> {
    let later = records.runs.iter().enumerate().skip(start + 1);
    let those = later
        .filter(|(at, run)| !run.is_rollback() && run.rolled_back_by.is_some() && ledger.is_of(*at, project));
    those.map(|(_, run)| run.id.as_str()).collect()
}

/// The reason why nothing is done about the newest run.
pub(super) fn why_passed_over(plan: &FleetPlan) -> String {
    let items = plan.hosts.iter().filter_map(|h| match &h.result {
        HostResult::Planned(plan) => Some(&plan.items),
        _ => None,
    });
    let why = items.flatten().find_map(|item| match &item.outcome {
        Outcome::Refused(why) => Some(why.clone()),
        Outcome::Failed(problem) => Some(problem.message.clone()),
        _ => None,
    });
    match why {
        Some(why) => format!("of which nothing can be reverted ({why})"),
        None => "since all is as it was before it".to_owned(),
    }
}

/// Says which newer runs the plan does not revert.
pub(super) fn say_passed_over(plan: &mut FleetPlan, over: &[String]) {
    if !over.is_empty() {
        plan.warnings.push(format!("passed over: {}", over.join("; ")));
    }
}
