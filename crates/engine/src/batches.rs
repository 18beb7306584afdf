//! The batches of the plays of a project: from playbook and plan to batches and gates.

use crate::barriers::{Gates, RequiredRole};
use crate::context::{RunContext, now};
use crate::{FleetPlan, HostEntry, HostResult, Purpose, TargetError};
use converge_model as model;
use converge_planner::{EdgeScope, HostPlan, Item, Member, Outcome, PlayOrder, Rules, Turns};
use converge_resource::{MinAvailable, Share};
use std::collections::BTreeMap;

/// Groups that hold a cluster's control plane, as people call them.
const CONTROL_PLANES: [&str; 4] = ["k8s_control_plane", "kube_control_plane", "control_plane", "kube-master"];

/// `min_available` of a play that says nothing.
const MIN_AVAILABLE: f64 = 95.0;

fn has_work(item: &Item) -> bool {
    item.is_pending() || item.only_records()
}

/// One host of a play, as its plan has it; `None` for a host in maintenance.
fn member(host: &str, result: &HostResult, mine: impl Fn(&Item) -> bool) -> Option<Member> {
    let host = host.to_owned();
    let plan = match result {
        HostResult::Lost(TargetError::Maintenance) => return None,
        HostResult::Lost(_) => return Some(Member { host, lost: true, ..Member::default() }),
        HostResult::Planned(plan) => plan,
    };
    let items = || plan.items.iter().filter(|item| mine(item));
    Some(Member {
        host,
        lost: false,
        work: items().any(has_work),
        disruptive: items().any(|i| matches!(i.outcome, Outcome::Changed(_)) && i.disruption.is_some()),
        perhaps: items().any(|i| matches!(i.outcome, Outcome::Deferred { .. })),
        failed: items().any(|i| matches!(i.outcome, Outcome::Failed(_) | Outcome::Refused(_))),
    })
}

/// A new plan of these, without an order yet.
pub(crate) fn new_plan(context: &RunContext, purpose: Purpose, hosts: Vec<HostEntry>) -> FleetPlan {
    let names = hosts.iter().map(|entry| &entry.host);
    let clusters = names.filter(|name| context.project.entry_hosts(name).is_some()).cloned().collect();
    let warnings = match purpose {
        Purpose::Converge => context.project.warnings().iter().map(|w| w.message.clone()).collect(),
        Purpose::Rollback(_) | Purpose::RollbackOf { .. } => Vec::new(),
    };
    let id = uuid::Uuid::now_v7().to_string();
    let returns = Vec::new();
    FleetPlan { id, purpose, created: now(), hosts, clusters, returns, warnings, order: Vec::new() }
}

/// The batches of each play for this plan.
pub(crate) fn turns(context: &RunContext, plan: &FleetPlan) -> Vec<Turns> {
    let plays = context.project.playbook().plays.iter();
    plays.map(|play| Turns::new(rules(context, play), members(context, play, plan))).collect()
}

/// Plays that need more than one batch for this plan.
pub(crate) fn order(context: &RunContext, plan: &FleetPlan) -> Vec<PlayOrder> {
    let orders = turns(context, plan).into_iter().map(|turns| turns.order());
    orders.filter(|order| order.batches.len() > 1).collect()
}

fn members(context: &RunContext, play: &model::Play, plan: &FleetPlan) -> Vec<Member> {
    let of_play = |host: &str, role: &str| context.project.play_of(host, role) == Some(play.index);
    plan.hosts
        .iter()
        .filter(|entry| context.project.roles_of(&entry.host).iter().any(|role| of_play(&entry.host, role)))
        .filter_map(|entry| member(&entry.host, &entry.result, |item| of_play(&entry.host, &item.role)))
        .collect()
}

fn rules(context: &RunContext, play: &model::Play) -> Rules {
    let min_available = match play.min_available {
        Some(declared) => declared,
        None if is_control_plane(context, play) => MinAvailable::Majority,
        None => MinAvailable::Share(Share::Percent(MIN_AVAILABLE)),
    };
    Rules {
        play: play.title(),
        serial: play.serial.clone(),
        max_fail_percentage: play.max_fail_percentage,
        any_errors_fatal: play.any_errors_fatal,
        min_available,
    }
}

/// True when all hosts of the play are a cluster's control plane.
fn is_control_plane(context: &RunContext, play: &model::Play) -> bool {
    let inventory = context.project.inventory();
    let mut hosts = context
        .project
        .all_hosts()
        .filter(|host| {
            let roles = context.project.roles_of(host);
            roles.iter().any(|role| context.project.play_of(host, role) == Some(play.index))
        })
        .peekable();
    hosts.peek().is_some()
        && hosts.all(|host| inventory.groups_of(host).iter().any(|group| CONTROL_PLANES.contains(group)))
}

/// The gates that lanes ask before they go on.
pub(crate) fn gates(context: &RunContext, plan: &FleetPlan) -> Gates {
    let hosts = plan.hosts.iter().map(|entry| entry.host.as_str());
    let declared = hosts
        .map(|host| {
            let roles = context.project.roles_of(host).into_iter();
            let plays =
                roles.filter_map(|role| Some((role.to_owned(), context.project.play_of(host, role)?)));
            (host.to_owned(), plays.collect())
        })
        .collect();
    Gates::new(requires(context, plan), declared, turns(context, plan))
}

/// Which role waits for which. In a rollback it is the other way round.
/// A role does not wait for one with which it is interleaved on some host: there the order of the single things counts.
fn requires(context: &RunContext, plan: &FleetPlan) -> BTreeMap<String, Vec<RequiredRole>> {
    let mut requires: BTreeMap<String, Vec<RequiredRole>> = BTreeMap::new();
    for (first, then) in context.graph.edges() {
        let everywhere = context.graph.edge_scope(first, then) == EdgeScope::Fleet;
        let (first, then) = match plan.purpose {
            Purpose::Converge => (first, then),
            Purpose::Rollback(_) | Purpose::RollbackOf { .. } => (then, first),
        };
        if plan.purpose != Purpose::Converge && plan.planned().any(|host| is_ahead_of(host, then, first)) {
            continue;
        }
        let required = RequiredRole { role: first.to_owned(), everywhere };
        requires.entry(then.to_owned()).or_default().push(required);
    }
    requires
}

/// Whether something of the role `early` comes before something of the role `late` on this host.
fn is_ahead_of(plan: &HostPlan, early: &str, late: &str) -> bool {
    let pending = |role: &str| {
        let of_role = plan.items.iter().enumerate().filter(move |(_, i)| i.is_pending() && i.role == role);
        of_role.map(|(at, _)| at).collect::<Vec<_>>()
    };
    matches!((pending(early).first(), pending(late).last()), (Some(first), Some(last)) if first < last)
}

/// True when an apply has something to do or to write on this host.
pub(crate) fn has_work_on(plan: &HostPlan) -> bool {
    // A run that was cut off is ended by the next one, even if that finds nothing to do.
    plan.earlier_runs.cut_off.as_ref().is_some_and(|c| !c.busy) || plan.items.iter().any(has_work)
}
