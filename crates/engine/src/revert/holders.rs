//! Objects that are not reverted and keep what they need: accounts that they belong to, and packages. Pure, and by the records alone: what a program or a
//! content names is not in them.

use converge_ledger::{Ledger, OwnedObject, ProjectScope, SavedChange, SavedOutcome, Undo};
use converge_objects::traits_of;
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

/// The programs and files that an object in this state needs.
pub(crate) fn words(object: &ObjectId, states: &[&State]) -> Vec<String> {
    let Some(kind) = converge_objects::object(&object.kind) else { return Vec::new() };
    states.iter().flat_map(|state| kind.needs().stands_on(&object.key, state)).collect()
}

/// An object that is not reverted.
#[derive(Clone, Debug)]
pub(crate) struct StayingObject {
    pub object: ObjectId,
    /// The programs and files that it needs.
    pub words: Vec<String>,
    /// Whether it is there afterwards.
    pub is_there: bool,
    /// The run that has changed it, where it keeps only what came before.
    pub at: Option<usize>,
    /// The object and its run, for people.
    pub whose: String,
}

impl StayingObject {
    /// Whether it may keep a package at all.
    fn may_hold(&self) -> bool {
        !self.words.is_empty() || traits_of(&self.object).at_path
    }
}

/// The objects of changes that are in force and are not reverted with the runs `reverted`.
pub(crate) fn others_in_force(
    undos: &[Undo],
    ledger: &Ledger<'_>,
    reverted: &[usize],
    project: &ProjectScope,
) -> Vec<StayingObject> {
    let objects: BTreeSet<&ObjectId> = undos.iter().map(|u| &u.object).collect();
    let stays = |(at, change): &(usize, &SavedChange)| {
        let goes = reverted.contains(at) && objects.contains(&change.object);
        !goes && change.outcome != SavedOutcome::Moved
    };
    let holders = ledger.changes_in_force().filter(stays).filter_map(|(at, change)| {
        let run = ledger.run_in_force(at, project)?;
        Some(StayingObject {
            object: change.object.clone(),
            words: words(&change.object, &[&change.before, &change.after]),
            is_there: !change.after.is_absent(),
            at: Some(at),
            whose: format!("{} of {run}", change.object),
        })
    });
    holders.filter(StayingObject::may_hold).collect()
}

/// The objects that remain managed or declared after the plan.
pub(crate) fn remaining(
    undos: &[Undo],
    plan: &HostPlan,
    things: &[OwnedObject],
    known: &Knowledge,
) -> Vec<StayingObject> {
    let go: BTreeSet<&ObjectId> = undos.iter().map(|u| &u.object).collect();
    let things = things.iter().filter(|thing| !go.contains(&thing.object) && !thing.by_product);
    let mut then: BTreeMap<&ObjectId, State> =
        things.map(|thing| (&thing.object, thing.left.clone())).collect();
    for object in plan.items.iter().flat_map(|item| &item.claims).filter(|object| !go.contains(object)) {
        if let Ok(found) = known.observed(object) {
            then.insert(object, found.state);
        }
    }
    for planned in plan.items.iter().flat_map(Item::changes) {
        then.insert(&planned.change.object, planned.change.to.clone());
    }
    let holders = then.into_iter().map(|(object, state)| StayingObject {
        object: object.clone(),
        words: words(object, &[&state]),
        is_there: !state.is_absent(),
        at: None,
        whose: format!("{object}, which is managed or declared"),
    });
    holders.filter(|holder| holder.is_there && holder.may_hold()).collect()
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
