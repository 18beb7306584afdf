//! Hosts that join a cluster in a run: what the cluster's roles say of their nodes waits for them.

use crate::engine::Engine;
use crate::reach::Reach;
use crate::{HostEntry, HostResult};
use converge_planner::{Item, Outcome};
use converge_resource::{Change, ObjectId};
use std::time::Instant;

impl Engine {
    /// Plans a cluster that lacks something again, when hosts join in this run: their nodes are on their way.
    pub(crate) async fn wait_for_joining(&self, entries: &mut [HostEntry]) {
        let joins = |entry: &&HostEntry| items(entry).iter().any(joins_a_cluster);
        let joining: Vec<String> = entries.iter().filter(joins).map(|entry| entry.host.clone()).collect();
        let lacks = |entry: &HostEntry| items(entry).iter().any(|i| matches!(i.outcome, Outcome::Failed(_)));
        for entry in entries.iter_mut().filter(|entry| !joining.is_empty() && lacks(entry)) {
            let Ok(Reach::Cluster(link)) = self.reach(&entry.host).await else { continue };
            link.expect(&joining);
            let begun = Instant::now();
            let planned = self.plan_with_records(&Reach::Cluster(link)).await;
            entry.result = planned.map_or_else(HostResult::Lost, HostResult::Planned);
            entry.took += begun.elapsed();
        }
    }
}

fn items(entry: &HostEntry) -> &[Item] {
    match &entry.result {
        HostResult::Planned(plan) => &plan.items,
        HostResult::Lost(_) => &[],
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
