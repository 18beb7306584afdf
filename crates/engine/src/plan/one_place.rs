//! Places on this machine that several hosts would write: none of them may.

use crate::context::RunContext;
use crate::controller::is_here;
use crate::plan::source::{HostSource, ItemSelection};
use crate::{HostEntry, HostResult};
use converge_model::Facts;
use converge_planner::{Item, Outcome, Outputs, Problem};
use converge_resource::ObjectId;
use std::collections::{BTreeMap, BTreeSet};

/// By object of this machine, the hosts that claim it.
type ClaimingHosts = BTreeMap<ObjectId, BTreeSet<String>>;

/// The objects of this machine that are declared for hosts without a plan: those outside `--limit`, and those that do not answer. None where no plan
/// claims such an object.
pub(crate) fn declared_elsewhere(context: &RunContext, entries: &[HostEntry]) -> ClaimingHosts {
    let mut hosts = ClaimingHosts::new();
    let plans = entries.iter().filter_map(|entry| match &entry.result {
        HostResult::Planned(plan) => Some((entry.host.as_str(), plan)),
        HostResult::Lost(_) => None,
    });
    if plans.clone().flat_map(|(_, plan)| &plan.items).flat_map(claimed).next().is_none() {
        return hosts;
    }
    let planned: BTreeSet<&str> = plans.map(|(host, _)| host).collect();
    let (facts, nothing) = (Facts::none(), Outputs::new());
    for host in context.project.all_hosts().filter(|host| !planned.contains(host)) {
        let source = HostSource::new(
            &context.project,
            &context.graph,
            host,
            &facts,
            ItemSelection::Converge,
            &nothing,
        );
        for object in source.declares(&nothing).objects.into_keys().filter(is_here) {
            hosts.entry(object).or_default().insert(host.to_owned());
        }
    }
    hosts
}

/// Refuses the items of all hosts that claim one object of this machine, or one that lies in another. `hosts`: the objects that other hosts have there.
pub(crate) fn refuse_shared(entries: &mut [HostEntry], mut hosts: ClaimingHosts) {
    for entry in entries.iter() {
        let HostResult::Planned(plan) = &entry.result else { continue };
        for object in plan.items.iter().flat_map(claimed) {
            hosts.entry(object.clone()).or_default().insert(entry.host.clone());
        }
    }
    for entry in entries {
        let HostResult::Planned(plan) = &mut entry.result else { continue };
        for item in &mut plan.items {
            let of_others = claimed(item).find_map(|own| {
                meeting(&hosts, own).find_map(|(object, of)| {
                    let others: Vec<&str> =
                        of.iter().map(String::as_str).filter(|host| *host != entry.host).collect();
                    (!others.is_empty()).then(|| (object, others.join(", ")))
                })
            });
            let Some((object, others)) = of_others else { continue };
            let message = format!("{others} also writes fetched/{} on this machine", object.key);
            item.outcome = Outcome::Failed(Problem {
                help: Some("give each host a path of its own: `to: {{ inventory_hostname }}/…`".to_owned()),
                pointer: "/to".to_owned(),
                ..Problem::new(message)
            });
        }
    }
}

/// The entries of an object, of what lies in it, and of what it lies in.
fn meeting<'a, T>(
    all: &'a BTreeMap<ObjectId, T>,
    own: &ObjectId,
) -> impl Iterator<Item = (&'a ObjectId, &'a T)> {
    let at = |key: &str| ObjectId::new(&own.kind, key);
    let above: Vec<ObjectId> = own.key.match_indices('/').map(|(end, _)| at(&own.key[..end])).collect();
    let inside = at(&format!("{}/", own.key));
    let below = all.range(inside.clone()..).take_while(move |(object, _)| inside.covers(object));
    let same = all.get_key_value(own);
    above.into_iter().filter_map(|object| all.get_key_value(&object)).chain(same).chain(below)
}

/// The objects of this machine that an item claims, if it applies.
fn claimed(item: &Item) -> impl Iterator<Item = &ObjectId> {
    let applies = !matches!(item.outcome, Outcome::Skipped(_) | Outcome::Failed(_) | Outcome::Refused(_));
    item.claims.iter().filter(move |object| applies && is_here(object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_planner::HostPlan;
    use std::time::Duration;

    fn entry(host: &str, key: &str, outcome: Outcome) -> HostEntry {
        let item = Item { claims: vec![ObjectId::new("fetched", key)], outcome, ..Item::default() };
        let plan = HostPlan { host: host.to_owned(), items: vec![item], ..HostPlan::default() };
        HostEntry { host: host.to_owned(), result: HostResult::Planned(plan), took: Duration::ZERO }
    }

    #[test]
    fn one_place_is_one_hosts() {
        let skipped = Outcome::Skipped("it is off".to_owned());
        let mut entries = vec![
            entry("a", "same", Outcome::Unchanged),
            entry("b", "same", Outcome::Unchanged),
            entry("c", "own", Outcome::Unchanged),
            entry("d", "own", skipped),
            entry("e", "folder", Outcome::Unchanged),
            entry("f", "folder/file", Outcome::Unchanged),
            entry("g", "folder-2", Outcome::Unchanged),
        ];
        refuse_shared(&mut entries, ClaimingHosts::new());
        let failed: Vec<bool> = entries
            .iter()
            .map(|entry| match &entry.result {
                HostResult::Planned(plan) => matches!(plan.items[0].outcome, Outcome::Failed(_)),
                HostResult::Lost(_) => false,
            })
            .collect();
        assert_eq!(failed, [true, true, false, false, true, true, false]);
        let elsewhere =
            ClaimingHosts::from([(ObjectId::new("fetched", "own/file"), BTreeSet::from(["h".to_owned()]))]);
        let mut entries = vec![entry("c", "own", Outcome::Unchanged)];
        refuse_shared(&mut entries, elsewhere);
        assert!(
            matches!(&entries[0].result, HostResult::Planned(plan) if matches!(plan.items[0].outcome, Outcome::Failed(_)))
        );
    }
}
