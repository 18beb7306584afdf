//! Hosts that join a cluster in a run: what the cluster's roles say of their nodes waits for them.

use crate::connect::target::connect;
use crate::context::RunContext;
use crate::plan::other_targets::OtherRoles;
use crate::{FleetPlan, HostResult};
use converge_planner::{HostPlan, Item, Outcome};
use converge_resource::{Change, ObjectId};
use std::collections::BTreeMap;
use std::time::Instant;

/// Plans a cluster that lacks something again, when hosts join in this run: their nodes are on their way.
pub(crate) async fn wait_for_joining(context: &RunContext, plan: &mut FleetPlan) {
    let joining: BTreeMap<String, String> = plan.planned().flat_map(nodes_of).collect();
    if joining.is_empty() {
        return;
    }
    let failed = |item: &Item| matches!(item.outcome, Outcome::Failed(_));
    let lacking: Vec<String> =
        plan.planned().filter(|host| host.items.iter().any(failed)).map(|host| host.host.clone()).collect();
    let mut roles = OtherRoles::new(context);
    plan.hosts.iter().for_each(|entry| roles.take(entry));
    for entry in plan.hosts.iter_mut().filter(|entry| lacking.contains(&entry.host)) {
        let Ok(target) = connect(context, &entry.host).await else { continue };
        if !target.expect(&joining).await {
            continue;
        }
        let before = roles.before(&entry.host);
        let begun = Instant::now();
        let planned = crate::plan::target::plan_with_records(context, &target, before).await;
        entry.result = planned.map_or_else(HostResult::Lost, HostResult::Planned);
        entry.took += begun.elapsed();
    }
}

/// The nodes that a plan makes of its host, by their names, and the host. A node goes by the name that its rollback has, else by its host's.
fn nodes_of(plan: &HostPlan) -> impl Iterator<Item = (String, String)> {
    let name = |item: &Item| {
        item.node_removal.as_ref().map_or_else(|| plan.host.to_lowercase(), |way| way.name.clone())
    };
    plan.items.iter().filter(|item| joins_a_cluster(item)).map(move |item| (name(item), plan.host.clone()))
}

/// Whether an item makes a node of its host.
fn joins_a_cluster(item: &Item) -> bool {
    let makes_node =
        |id: &ObjectId| converge_objects::object(&id.kind).is_some_and(|o| o.node().makes_node());
    let comes = |change: &Change| change.from.is_absent() && !change.to.is_absent();
    match &item.outcome {
        Outcome::Deferred { objects, .. } => objects.iter().any(makes_node),
        _ => item.changes().iter().any(|c| comes(&c.change) && makes_node(&c.change.object)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_planner::PlannedChange;
    use converge_resource::{NodeRemoval, Reversibility, State};

    #[test]
    fn a_node_goes_by_its_own_name_or_by_its_hosts() {
        let joins = |name: Option<&str>, from: &str, to: &str| Item {
            outcome: Outcome::Changed(vec![PlannedChange {
                change: Change {
                    object: ObjectId::new("kubeadm", "node"),
                    from: State::from_line(from),
                    to: State::from_line(to),
                },
                reversibility: Reversibility::Reversible,
                opaque: true,
            }]),
            node_removal: name.map(|name| NodeRemoval { host: "h1".to_owned(), name: name.to_owned() }),
            ..Item::default()
        };
        let nodes = |item: Item| -> Vec<(String, String)> {
            nodes_of(&HostPlan { host: "H3".to_owned(), items: vec![item], ..HostPlan::default() }).collect()
        };
        let node = |name: &str| vec![(name.to_owned(), "H3".to_owned())];
        assert_eq!(nodes(joins(Some("worker-3"), "absent", "worker a:1")), node("worker-3"));
        assert_eq!(nodes(joins(None, "absent", "control-plane a:1")), node("h3"));
        assert!(nodes(joins(None, "worker a:1", "absent")).is_empty());
    }
}
