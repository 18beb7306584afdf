//! Beginning and ending a run on targets: locks and records.

use crate::connect::target::{Target, connect};
use crate::context::RunContext;
use crate::tasks::in_parallel;
use crate::{Activity, Purpose, TargetError};
use converge_executor::{ArrivedChanges, RunMeta};
use converge_ledger::{Records, RunPurpose};
use converge_planner::{HostPlan, Item as PlannedItem, ItemOrigin, Outcome};
use std::sync::Arc;

/// A session with a target, and the records of its runs.
pub(crate) async fn records(context: &RunContext, name: &str) -> Result<(Target, Records), TargetError> {
    let _reads = context.begin(name, Activity::Records);
    let target = connect(context, name).await?;
    let records = target.history(context).await?;
    Ok((target, records))
}

/// The difference of the clock of a host that is not reported, in seconds.
const SKEW: i64 = 120;

/// Remarks on the records of a host: damaged parts, and a clock that is off.
pub(crate) fn remarks(host: &str, records: &Records) -> Vec<String> {
    let here = jiff::Timestamp::now().as_second();
    let mut notes: Vec<String> = records.broken.iter().map(|what| format!("{host}: {what}")).collect();
    let off = records.now.map_or(0, |now| now.saturating_sub(here));
    if off.abs() > SKEW {
        let which = if off > 0 { "ahead of" } else { "behind" };
        notes.push(format!(
            "{host}: its clock is {} s {which} the clock here; runs are ordered by the host's own count",
            off.abs()
        ));
    }
    notes
}

/// Whether a run sets out to do this item; a rollback also what is refused now, and which the next one may be allowed to do, and objects whose state
/// before cannot be restored, but may be with an older run.
fn is_set_out(item: &PlannedItem) -> bool {
    let is_left = match item.outcome {
        Outcome::Refused(_) => true,
        Outcome::Failed(_) => item.claims.iter().any(|object| !converge_objects::is_action(object)),
        _ => false,
    };
    item.is_pending() || (item.origin == ItemOrigin::Rollback && is_left)
}

/// The header of the record of a run on a host.
pub(crate) fn run_meta(context: &RunContext, plan: &HostPlan, run: &str, purpose: &Purpose) -> RunMeta {
    let of_host = |runs: &[(String, String)]| -> Vec<String> {
        runs.iter().filter(|(host, _)| *host == plan.host).map(|(_, id)| id.clone()).collect()
    };
    let (of, rolls_back) = match purpose {
        Purpose::Converge => (RunPurpose::Converge, Vec::new()),
        Purpose::Rollback(runs) => (RunPurpose::Rollback(Vec::new()), of_host(runs)),
        Purpose::RollbackOf { roles, before } => (RunPurpose::Rollback(roles.clone()), of_host(before)),
    };
    RunMeta {
        purpose: of,
        rolls_back,
        planned: plan.items.iter().filter(|i| is_set_out(i)).map(|i| i.address.clone()).collect(),
        arrived: plan
            .earlier_runs
            .cut_off
            .as_deref()
            .map(|cut| ArrivedChanges { run: cut.run.clone(), changes: cut.arrived.clone() }),
        ..bare_meta(context, &plan.host, run)
    }
}

/// The description of a run on a target that has planned nothing.
pub(crate) fn bare_meta(context: &RunContext, target: &str, run: &str) -> RunMeta {
    RunMeta {
        id: run.to_owned(),
        time: crate::context::now(),
        operator: context.options.operator.clone(),
        inventory: context.options.scope.inventory.clone(),
        playbook: context.options.scope.playbook.clone(),
        scope: context.scope(target),
        ..RunMeta::default()
    }
}

/// Takes the lock of every host that has work and begins the run there.
pub(crate) async fn open_runs(
    context: &Arc<RunContext>,
    plans: &[HostPlan],
    metas: &[RunMeta],
) -> Vec<(String, Result<Target, TargetError>)> {
    let opening = plans.iter().zip(metas).map(|(plan, meta)| {
        let (context, host, meta) = (Arc::clone(context), plan.host.clone(), meta.clone());
        async move {
            let opened = open_run(&context, &host, &meta).await;
            (host, opened)
        }
    });
    in_parallel(opening).await
}

/// Takes the lock of one target and begins the run there, or goes on with it in another session. A cluster that is not there yet is locked
/// once it is.
pub(crate) async fn open_run(
    context: &RunContext,
    name: &str,
    meta: &RunMeta,
) -> Result<Target, TargetError> {
    let _opens = context.begin(name, Activity::Open);
    let target = connect(context, name).await?;
    target.open(context, meta).await?;
    Ok(target)
}
