//! Accounts that something belongs to which is not reverted: they stay. Pure, and by the records alone: what a program or a content names is not in them.

use converge_ledger::{Ledger, OwnedObject, ProjectScope, SavedChange, Undo};
use converge_planner::{HostPlan, Item, Knowledge};
use converge_resource::{ObjectId, State};
use std::collections::{BTreeMap, BTreeSet};

/// The accounts that an object in one of these states belongs to.
fn accounts<'a>(object: &'a ObjectId, states: impl IntoIterator<Item = &'a State>) -> Vec<ObjectId> {
    let Some(kind) = converge_objects::object(&object.kind) else { return Vec::new() };
    states.into_iter().flat_map(|state| kind.relations().accounts(&object.key, state)).collect()
}

/// The reverts that remove an object, as far as nothing else keeps it already.
fn removed(undos: &mut [Undo]) -> impl Iterator<Item = &mut Undo> {
    undos.iter_mut().filter(|u| u.before.is_absent() && u.theirs.is_none())
}

/// Lets the accounts stay to which objects of the same or later runs belong, where these changes are in force and are not reverted with the runs `reverted`:
/// those of another project, and of roles that the rollback leaves. The same rule as in `undo.sh`.
pub(crate) fn leave_those_of_others(
    undos: &mut [Undo],
    ledger: &Ledger<'_>,
    reverted: &[usize],
    project: &ProjectScope,
) {
    let objects: BTreeSet<ObjectId> = undos.iter().map(|u| u.object.clone()).collect();
    let goes =
        |(at, change): &(usize, &SavedChange)| reverted.contains(at) && objects.contains(&change.object);
    let mut holders: BTreeMap<ObjectId, (usize, &SavedChange)> = BTreeMap::new();
    for (at, change) in ledger.changes_in_force().filter(|step| !goes(step)) {
        for account in accounts(&change.object, [&change.before, &change.after]) {
            let holder = holders.entry(account).or_insert((at, change));
            if holder.0 < at {
                *holder = (at, change);
            }
        }
    }
    for undo in removed(undos) {
        let since = ledger.place(&undo.run).unwrap_or(0);
        let holder = holders.get(&undo.object).copied().filter(|(at, _)| *at >= since);
        undo.theirs = holder.and_then(|(at, change)| {
            let run = ledger.run_in_force(at, project)?;
            Some(format!("{} of {run}, belongs to it: it is left as it is", change.object))
        });
    }
}

/// Lets the accounts stay to which something belongs that remains managed or declared after the plan.
pub(crate) fn leave_those_that_remain_needed(
    undos: &mut [Undo],
    plan: &HostPlan,
    things: &[OwnedObject],
    known: &Knowledge,
) {
    let go: BTreeSet<ObjectId> = undos.iter().map(|u| u.object.clone()).collect();
    let remaining: Vec<&OwnedObject> = things.iter().filter(|thing| !go.contains(&thing.object)).collect();
    let mut then: BTreeMap<&ObjectId, State> =
        remaining.iter().map(|thing| (&thing.object, thing.left.clone())).collect();
    for object in plan.items.iter().flat_map(|item| &item.claims) {
        if let Ok(found) = known.observed(object) {
            then.insert(object, found.state);
        }
    }
    for planned in plan.items.iter().flat_map(Item::changes) {
        then.insert(&planned.change.object, planned.change.to.clone());
    }
    // Their rollback leads to the states before.
    let before = remaining.iter().map(|thing| (&thing.object, &thing.before));
    let all: Vec<(&ObjectId, &State)> =
        then.iter().map(|(object, state)| (*object, state)).chain(before).collect();
    let holders = all
        .into_iter()
        .flat_map(|(object, state)| accounts(object, [state]).into_iter().map(move |a| (a, object)));
    let holders: BTreeMap<ObjectId, &ObjectId> = holders.collect();
    for undo in removed(undos) {
        let holder = holders.get(&undo.object);
        undo.theirs = holder.map(|object| format!("{object} still belongs to it: it is left as it is"));
    }
}

#[cfg(test)]
#[path = "holders_tests.rs"]
mod tests;
