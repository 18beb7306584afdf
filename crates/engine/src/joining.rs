//! Hosts that join a cluster in a run: what the cluster's roles say of their nodes waits for them.

use crate::engine::Engine;
use crate::reach::Reach;
use crate::{FleetPlan, HostResult};
use converge_planner::{Item, Outcome};
use converge_resource::{Change, ObjectId};
use std::time::Instant;

impl Engine {
    /// Plans a cluster that lacks something again, when hosts join in this run: their nodes are on their way.
    pub(crate) async fn wait_for_joining(&self, plan: &mut FleetPlan) {
        let with = |is: fn(&Item) -> bool| -> Vec<String> {
            plan.planned().filter(|host| host.items.iter().any(is)).map(|host| host.host.clone()).collect()
        };
        let joining = with(joins_a_cluster);
        if joining.is_empty() {
            return;
        }
        let lacking = with(|item| matches!(item.outcome, Outcome::Failed(_)));
        for entry in plan.hosts.iter_mut().filter(|entry| lacking.contains(&entry.host)) {
            let Ok(Reach::Cluster(link)) = self.reach(&entry.host).await else { continue };
            link.expect(&joining).await;
            let begun = Instant::now();
            let planned = self.plan_with_records(&Reach::Cluster(link)).await;
            entry.result = planned.map_or_else(HostResult::Lost, HostResult::Planned);
            entry.took += begun.elapsed();
        }
    }
}

/// Whether an item makes a node of its host.
fn joins_a_cluster(item: &Item) -> bool {
    let makes_node = |id: &ObjectId| converge_objects::object(&id.kind).is_some_and(|o| o.makes_node());
    let comes = |change: &Change| change.from.is_absent() && !change.to.is_absent();
    match &item.outcome {
        Outcome::Deferred { objects, .. } => objects.iter().any(makes_node),
        _ => item.changes().iter().any(|c| comes(&c.change) && makes_node(&c.change.object)),
    }
}
