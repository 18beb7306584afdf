//! Applies a plan: the targets begin together, or none does, and work side by side.

use super::{TargetRun, role_states};
use crate::apply::goal::Goal;
use crate::apply::lane::Lane;
use crate::barriers::Gates;
use crate::batches::has_work_on;
use crate::context::RunContext;
use crate::{
    Activity, ApplyReport, Event, FleetPlan, HostApply, HostResult, Purpose, RoleWork, StopSwitch,
    TargetError,
};
use converge_executor::RunEnd;
use converge_planner::HostPlan;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Applies a plan: what it shows is what happens, or it is refused by name.
pub(crate) async fn apply(context: &Arc<RunContext>, plan: FleetPlan, stop: StopSwitch) -> ApplyReport {
    let begun = Instant::now();
    let _applies = context.begin_all(Activity::ApplyAll);
    let purpose = plan.purpose.clone();
    let gates = crate::batches::gates(context, &plan);
    let mut report =
        ApplyReport { run: plan.id.clone(), clusters: plan.clusters.clone(), ..ApplyReport::default() };
    let mut plans = Vec::new();
    for entry in plan.hosts {
        match entry.result {
            HostResult::Lost(lost) => report.hosts.push(out_of_it(entry.host, lost)),
            HostResult::Planned(host_plan) => plans.push(host_plan),
        }
    }
    let (working, idle): (Vec<HostPlan>, Vec<HostPlan>) = plans.into_iter().partition(has_work_on);
    if matches!(purpose, Purpose::Converge) {
        let facts = context.pool.other_facts().clone();
        for plan in working.iter().chain(&idle) {
            gates.alters(&plan.host, facts.items_of(&plan.host));
        }
    }
    for host in idle {
        // Its plan is not the one that alters facts: a saved plan refuses that.
        for item in gates.altering(&host.host) {
            gates.altered(&host.host, &item, Some("is not run"));
        }
        report.hosts.push(untouched(host, &gates));
    }
    if let Some(steps) = &context.options.steps {
        let pending = |plan: &HostPlan| {
            let items = plan.items.iter().filter(|i| i.is_pending()).cloned();
            items.map(|item| (plan.host.clone(), item)).collect::<Vec<_>>()
        };
        gates.ask_before(steps.by_role, working.iter().flat_map(pending));
    }
    let metas = working
        .iter()
        .map(|plan| crate::connect::runs::run_meta(context, plan, &report.run, &purpose))
        .collect::<Vec<_>>();
    let opened = crate::connect::runs::open_runs(context, &working, &metas).await;
    // A host that went away since the plan is taken out; a host that refuses stops all before the first change.
    let refused = opened.iter().any(|(_, r)| r.as_ref().is_err_and(|lost| !lost.is_unreachable()));
    let whole = Whole { context, run: &report.run, stop: &stop, epoch: begun };
    let mut runs = Vec::new();
    for ((host_plan, meta), (name, target)) in working.into_iter().zip(metas).zip(opened) {
        match target {
            Err(lost) => {
                gates.lose(&name);
                report.hosts.push(out_of_it(name, lost));
            }
            // All locks are taken before the first change, or none.
            Ok(target) if refused => {
                target.close(&report.run, RunEnd::Refused).await;
                let message = "nothing was changed here: the run could not begin on another host";
                let lost = TargetError::Refused(message.to_owned());
                report.hosts.push(out_of_it(name, lost));
            }
            Ok(target) => {
                let goal = Goal::new(&purpose, &host_plan);
                runs.push(TargetRun::new(&whole, target, host_plan, meta, gates.clone(), goal));
            }
        }
    }
    context.events.send(Event::RunStarted { run: report.run.clone(), roles: work_of(context, &runs) });
    runs.iter_mut().for_each(TargetRun::report);
    let work = crate::tasks::in_parallel(runs.into_iter().map(TargetRun::complete).collect::<Vec<_>>());
    let finished = telling_of_a_stop(context, &stop, work).await;
    report.hosts.extend(finished);
    let order: BTreeMap<String, usize> =
        context.targets().iter().enumerate().map(|(n, h)| (h.clone(), n)).collect();
    report.hosts.sort_by_key(|h| order.get(&h.host).copied());
    report.critical_path = crate::critical_path(&gates.take_timeline());
    report.took = begun.elapsed();
    report
}

/// Says once that a stop was asked for, while the work goes on to its end.
async fn telling_of_a_stop<T>(context: &RunContext, stop: &StopSwitch, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    tokio::select! {
        biased;
        () = stop.stopped() => context.events.send(Event::Stopping),
        done = &mut work => return done,
    }
    work.await
}

/// The work of each role on each host, in the order of the graph.
fn work_of(context: &RunContext, runs: &[TargetRun]) -> Vec<RoleWork> {
    let graph = &context.graph;
    let requires = |role: &str| graph.requires(role).into_iter().map(str::to_owned).collect();
    let mut all: Vec<RoleWork> = graph
        .order()
        .iter()
        .map(|role| RoleWork { role: role.clone(), requires: requires(role), items: BTreeMap::new() })
        .collect();
    for run in runs {
        for item in run.lane.remaining().iter().filter(|i| i.is_pending()) {
            // A role that is gone from the playbook may still be rolled back.
            let at = all.iter().position(|w| w.role == item.role).unwrap_or_else(|| {
                all.push(RoleWork { role: item.role.clone(), ..RoleWork::default() });
                all.len() - 1
            });
            if let Some(work) = all.get_mut(at) {
                *work.items.entry(run.lane.host.clone()).or_default() += 1;
            }
        }
    }
    all.retain(|work| !work.items.is_empty());
    all
}

/// A host without work still reports what was wrong or refused at plan time.
fn untouched(plan: HostPlan, gates: &Gates) -> HostApply {
    let host = plan.host.clone();
    let contents = plan.contents.clone();
    let lane = Lane::new(plan);
    gates.report(&host, role_states(&lane, &gates.declared(&host)));
    HostApply {
        host,
        items: lane.into_finished(),
        lost: None,
        differences: Vec::new(),
        times: BTreeMap::new(),
        contents,
        took: Duration::ZERO,
    }
}

fn out_of_it(host: String, lost: TargetError) -> HostApply {
    HostApply {
        host,
        items: Vec::new(),
        lost: Some(lost),
        differences: Vec::new(),
        times: BTreeMap::new(),
        contents: BTreeMap::new(),
        took: Duration::ZERO,
    }
}

/// The data that all hosts of an apply share.
pub(super) struct Whole<'a> {
    pub(super) context: &'a Arc<RunContext>,
    pub(super) run: &'a str,
    pub(super) stop: &'a StopSwitch,
    pub(super) epoch: Instant,
}
