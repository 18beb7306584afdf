//! Requests of reverting items to other hosts: a cluster drains and deletes a node before the host resets itself.

use crate::{FleetPlan, HostResult};
use converge_planner::{Item, ItemOrigin, PlannedChange};
use converge_resource::{NodeRemoval, NodeRemovalRequest, ObjectId};
use std::collections::BTreeSet;

/// Has the items of a rollback or a prune ask the hosts that they need to be reverted. One that goes itself is not asked: where a cluster's
/// control plane leaves, nobody has to be let go.
pub(crate) fn ask_hosts(fleet: &mut FleetPlan) {
    let gone = gone(fleet);
    for entry in &mut fleet.hosts {
        let HostResult::Planned(plan) = &mut entry.result else { continue };
        for item in plan.items.iter_mut().filter(|i| goes_back(i)) {
            let Some(way) = item.node_removal.take() else { continue };
            let goes = |p: &PlannedChange| gone.contains(&(way.host.clone(), p.change.object.clone()));
            if item.changes().iter().any(goes) {
                continue;
            }
            if let Some(NodeRemovalRequest { fetch, settings, note }) = removal_request(item, &way) {
                item.settings.extend(settings);
                item.notes.push(note);
                item.fetch = Some(fetch);
            }
        }
    }
}

fn removal_request(item: &Item, way: &NodeRemoval) -> Option<NodeRemovalRequest> {
    let mut changes = item.changes().iter().map(|planned| &planned.change);
    changes
        .find_map(|change| converge_objects::object(&change.object.kind)?.node().removal_request(way, change))
}

/// Whether an item gives back what a run has made; all others keep what their rollback needs for the record of their run.
fn goes_back(item: &Item) -> bool {
    item.origin != ItemOrigin::Declared
}

/// The objects that are gone afterwards, each with its host.
fn gone(fleet: &FleetPlan) -> BTreeSet<(String, ObjectId)> {
    let mut gone = BTreeSet::new();
    for plan in fleet.planned() {
        let changes = plan.items.iter().flat_map(Item::changes).map(|planned| &planned.change);
        gone.extend(changes.filter(|c| c.to.is_absent()).map(|c| (plan.host.clone(), c.object.clone())));
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostEntry;
    use converge_planner::{HostPlan, Outcome};
    use converge_resource::{Change, Reversibility, State};
    use std::time::Duration;

    fn leaves(host: &str, name: &str, through: Option<&str>) -> HostEntry {
        let change = Change {
            object: ObjectId::new("kubeadm", "node"),
            from: State::from_line("worker a:1"),
            to: State::absent(),
        };
        let item = Item {
            origin: ItemOrigin::Rollback,
            kind: "rollback".to_owned(),
            outcome: Outcome::Changed(vec![PlannedChange {
                change,
                reversibility: Reversibility::Reversible,
                opaque: true,
            }]),
            node_removal: through.map(|host| NodeRemoval { host: host.to_owned(), name: name.to_owned() }),
            ..Item::default()
        };
        let plan = HostPlan { host: host.to_owned(), items: vec![item], ..HostPlan::default() };
        HostEntry { host: host.to_owned(), result: HostResult::Planned(plan), took: Duration::ZERO }
    }

    /// A rollback of these, when it was observed whom it asks.
    fn asked(hosts: Vec<HostEntry>) -> FleetPlan {
        let mut fleet = FleetPlan { hosts, ..FleetPlan::default() };
        ask_hosts(&mut fleet);
        fleet
    }

    fn items(fleet: &FleetPlan) -> Vec<&Item> {
        fleet.planned().flat_map(|plan| &plan.items).collect()
    }

    #[test]
    fn a_host_that_stays_is_asked_and_one_that_goes_is_not() {
        let late = asked(vec![leaves("w2", "h2", Some("h1"))]);
        let [item] = items(&late)[..] else { panic!("one item") };
        let fetch = item.fetch.as_ref().unwrap();
        assert_eq!((fetch.host.as_str(), fetch.script.as_str()), ("h1", "cv_kubeadm_let_go h2 a:1"));
        assert_eq!(item.settings, [("CV_KUBEADM_HOW".to_owned(), "leave".to_owned())]);
        assert!(item.notes[0].starts_with("h1 drains and deletes the node h2"), "{:?}", item.notes);
        // An odd value in a record is not a valid name of a node; the cluster goes as a whole.
        let odd = vec![leaves("h2", "$(reboot)", Some("h1"))];
        let all = vec![leaves("h1", "h1", None), leaves("h2", "h2", Some("h1"))];
        for fleet in [asked(odd), asked(all)] {
            let quiet = |item: &&Item| {
                item.fetch.is_none() && item.settings.is_empty() && item.node_removal.is_none()
            };
            assert!(items(&fleet).iter().all(quiet));
        }
    }
}
