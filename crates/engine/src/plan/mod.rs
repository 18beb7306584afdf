//! Plans all targets of a run.

pub(crate) mod along;
pub(crate) mod check;
pub(crate) mod facts;
pub(crate) mod irreversible;
pub(crate) mod joining_nodes;
pub(crate) mod look;
pub(crate) mod managed;
pub(crate) mod missing;
pub(crate) mod node_removal;
pub(crate) mod one_place;
pub(crate) mod other_hosts;
pub(crate) mod other_targets;
pub mod saved;
pub(crate) mod source;
pub(crate) mod target;

use crate::context::RunContext;
use crate::plan::other_targets::OtherRoles;
use crate::plan::target::plan_one;
use crate::tasks::on_each;
use crate::{Activity, FleetPlan, Purpose};
use converge_syntax::Diagnostics;
use std::sync::Arc;

/// Looks at every host and plans. Changes nothing anywhere.
///
/// # Errors
/// The errors of the project, found without any host: nothing was contacted then.
pub(crate) async fn plan_fleet(context: &Arc<RunContext>) -> Result<FleetPlan, Diagnostics> {
    check::check_without_hosts(context)?;
    let _plans = context.begin_all(Activity::PlanAll);
    context.pool.begin().await;
    let roles = OtherRoles::new(context);
    let begun = on_each(context, context.targets(), |context, target| {
        let before = roles.before(&target);
        async move { plan_one(&context, &target, before).await }
    });
    let begun = begun.await;
    let mut entries = target::complete(context, roles, begun).await;
    let elsewhere = one_place::declared_elsewhere(context, &entries);
    one_place::refuse_shared(&mut entries, elsewhere);
    let mut plan = crate::batches::new_plan(context, Purpose::Converge, entries);
    joining_nodes::wait_for_joining(context, &mut plan).await;
    node_removal::ask_hosts(&mut plan);
    plan.order = crate::batches::order(context, &plan);
    Ok(plan)
}
