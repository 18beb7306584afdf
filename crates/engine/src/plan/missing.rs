//! Resources that need an object of a cluster which is gone, and which the project has changed before: the plan says who took it away, and what to do.

use crate::TargetError;
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::revert::gone::ProjectRuns;
use crate::revert::undo::forget;
use converge_ledger::{Ledger, OwnedObject};
use converge_objects::is_of_api;
use converge_planner::{HostPlan, Item, Knowledge, Outcome};
use converge_resource::ObjectId;
use std::collections::BTreeMap;

/// Names the runs that have taken away what items in error had changed.
pub(crate) async fn name_takers(
    context: &RunContext,
    target: &Target,
    plan: &mut HostPlan,
    things: &[OwnedObject],
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let scope = context.project_of(target.name());
    let is_gone = |object: &ObjectId| known.observed(object).is_ok_and(|now| now.state.is_absent());
    let in_error = |item: &&mut Item| matches!(&item.outcome, Outcome::Failed(problem) if !problem.blocked);
    let lacks = |item: &Item| {
        let of_item = |thing: &&OwnedObject| scope.is(&thing.scope) && thing.item == item.address;
        let mut lost = things.iter().filter(|thing| is_of_api(&thing.object) && is_gone(&thing.object));
        lost.find(of_item).map(|thing| (thing.object.clone(), thing.run.clone()))
    };
    let failed = plan.items.iter_mut().filter(in_error).filter_map(|item| Some((lacks(item)?, item)));
    let failed: Vec<((ObjectId, String), &mut Item)> = failed.collect();
    if failed.is_empty() {
        return Ok(());
    }
    let records = target.history(context).await?;
    let ledger = Ledger::of(&records.runs);
    let all = ProjectRuns { runs: &records.runs, ledger: &ledger, project: &scope };
    let gone: BTreeMap<ObjectId, String> = failed.iter().map(|(lost, _)| lost.clone()).collect();
    let takers = all.takers(target, &gone, known).await?;
    for ((object, _), item) in failed {
        let Outcome::Failed(problem) = &mut item.outcome else { continue };
        if let Some(taker) = takers.get(&object) {
            problem.message = format!("{}: {taker}", problem.message);
        }
        let forget = format!("or take this resource out of its role: {}", forget(&object));
        problem.help =
            Some(problem.help.take().map_or_else(|| forget.clone(), |help| format!("{help}; {forget}")));
    }
    Ok(())
}
