//! The items that must have succeeded before others of a rollback or a prune. Pure.

use crate::revert::order::{self, Revert};
use converge_planner::{Item, PlannedChange};
use converge_resource::{ObjectId, State, role_of};
use std::collections::{BTreeMap, BTreeSet};

/// For each group those of other roles that come before it; of one that writes objects of a cluster those of its own role too.
pub(super) fn groups_before(reverts: &[Revert<'_>], order: &[Vec<usize>]) -> Vec<BTreeSet<usize>> {
    let group_of: BTreeMap<usize, usize> =
        (0..).zip(order).flat_map(|(group, places)| places.iter().map(move |at| (*at, group))).collect();
    let role = |at: usize| reverts.get(at).map_or("", |r| role_of(r.item));
    let mut after = vec![BTreeSet::new(); order.len()];
    for edge in order::edges(reverts) {
        let (Some(first), Some(then)) = (group_of.get(&edge.first), group_of.get(&edge.then)) else {
            continue;
        };
        let several = |group: usize| {
            let roles: BTreeSet<&str> = order.get(group).into_iter().flatten().map(|at| role(*at)).collect();
            roles.len() > 1
        };
        let alone = reverts.get(edge.then).is_some_and(|revert| stands_alone(revert.object, revert.to));
        let others = role(edge.first) != role(edge.then) || several(*first) || several(*then);
        if first < then && (others || alone) {
            after.get_mut(*then).map(|list| list.insert(*first));
        }
    }
    after
}

/// Whether an object of a cluster is written: it needs what it stands on, and nothing else of its role. One that goes, a release or a restart may be what
/// something before it still needs.
fn stands_alone(object: &ObjectId, to: &State) -> bool {
    converge_objects::is_of_api(object) && !to.is_absent()
}

/// The items that must have succeeded before one of a group: the latest of its role that is reverted at all, so that a failure stops the rest of
/// the role, as it does on the way there; those whose things stand on it, though they stay; and what comes before it in other roles. Where all that an
/// item does [`stands_alone`], only what it needs.
pub(crate) fn needs(before: &[Item], item: &Item, after: &BTreeSet<usize>) -> Vec<u32> {
    let stays = |planned: &PlannedChange| {
        converge_objects::object(&planned.change.object.kind).is_some_and(|o| o.node().stays_unless_allowed())
    };
    let writes = |planned: &PlannedChange| stands_alone(&planned.change.object, &planned.change.to);
    let alone = |i: &Item| !i.changes().is_empty() && i.changes().iter().all(writes);
    let of_role = || before.iter().filter(|i| i.role == item.role);
    let pending = || of_role().rev().filter(|i| i.is_pending());
    // Those that stand alone wait for none before them: all of them stand for what they do not wait for.
    let chained = pending().position(|i| !alone(i)).map_or(usize::MAX, |at| at.saturating_add(1));
    let latest = pending().take(if alone(item) { 0 } else { chained });
    let retained = of_role().filter(|i| i.changes().iter().any(stays));
    let others = after.iter().filter_map(|at| before.get(*at)).filter(|i| i.is_pending());
    let all: BTreeSet<u32> = retained.chain(latest).chain(others).map(|i| i.id).collect();
    all.into_iter().collect()
}
