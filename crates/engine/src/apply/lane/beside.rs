//! Which items of packages stand beside one another: they may go into one transaction. And what their foreign code may move.

use super::Lane;
use crate::ItemResult;
use converge_objects::{is_of_api, traits_of};
use converge_planner::{Item, Outcome, place};
use converge_resource::{Change, ObjectId, State};
use std::collections::{BTreeMap, BTreeSet};

/// Facts that no package moves, but for those behind which the plan defers what reads them.
const STEADY: [&str; 9] =
    ["os", "arch", "dpkg_arch", "cpus", "cpu", "memory_mib", "machine", "init", "package_manager"];

/// An object that an item claims.
pub(crate) struct ClaimedObject {
    /// The object.
    pub object: ObjectId,
    /// The state that it should be in just now.
    pub state: State,
    /// The role of the first item in question that claims it.
    pub role: String,
}

/// The places of the items across which packages are not joined: all but other items of packages, and what is left out whatever packages do.
pub(super) fn between(items: &[Item]) -> BTreeSet<(u32, u32)> {
    let crossed = |item: &Item| {
        is_package(item) || (matches!(item.outcome, Outcome::Skipped(_)) && reads_what_stays(item))
    };
    items.iter().filter(|item| !crossed(item)).map(|item| place(item.id)).collect()
}

fn is_package(item: &Item) -> bool {
    item.kind == "package" && item.changes().iter().all(|c| traits_of(&c.change.object).one_transaction)
}

fn reads_what_stays(item: &Item) -> bool {
    item.facts.iter().all(|fact| STEADY.contains(&fact.as_str()))
}

/// Whether the object lies at or below such a place.
fn hides(place: &ObjectId, object: &ObjectId) -> bool {
    let is_mount_point =
        || place.kind == object.kind && place.key.strip_suffix('/') == Some(object.key.as_str());
    place.covers(object) || is_mount_point()
}

impl Lane {
    /// Whether these two, the one behind the other, are both of packages, with nothing else between them, and the second is what it is
    /// whatever the first leaves.
    pub fn are_beside(&self, first: &Item, second: &Item) -> bool {
        is_package(first)
            && is_package(second)
            && reads_what_stays(second)
            && place(first.id) < place(second.id)
            && self.between.range(place(first.id)..place(second.id)).next().is_none()
    }

    /// The objects to watch around the foreign code of an item: those that items after it claim, and those that items before it have made. Below
    /// a place at which it mounts or unmounts something nothing is watched: a path there is one file before it and another one after it.
    pub fn watched_around(&self, item: &Item) -> Vec<ClaimedObject> {
        let id = item.id;
        let covered: Vec<ObjectId> =
            item.changes().iter().filter_map(|planned| converge_objects::covered(&planned.change)).collect();
        // An item that must be done first for another has that one's place, and claims nothing itself.
        let mut later: Vec<u32> =
            self.claims.keys().copied().filter(|other| place(*other) > place(id)).collect();
        later.sort_by_key(|id| place(*id));
        let mut first: BTreeMap<&ObjectId, u32> = BTreeMap::new();
        for id in later {
            for object in self.claims.get(&id).into_iter().flatten() {
                first.entry(object).or_insert(id);
            }
        }
        let role = |id: u32| {
            let address = self.addresses.get(&id).map_or("", String::as_str);
            converge_resource::role_of(address).to_owned()
        };
        let made = self.made_before(id);
        let claimed = |(object, id): (&ObjectId, u32)| {
            let (state, _) =
                made.get(object).map_or_else(|| Some((self.base.get(object)?, "")), |m| Some(*m))?;
            Some(ClaimedObject { object: object.clone(), state: state.clone(), role: role(id) })
        };
        let mut watched: Vec<ClaimedObject> =
            first.iter().filter_map(|(object, id)| claimed((object, *id))).collect();
        let earlier = made.into_iter().filter(|(object, _)| !first.contains_key(object));
        watched.extend(earlier.map(|(object, (state, role))| ClaimedObject {
            object: object.clone(),
            state: state.clone(),
            role: role.to_owned(),
        }));
        watched.retain(|own| !covered.iter().any(|place| hides(place, &own.object)));
        watched
    }

    /// The objects that this run makes before this item, with their states and roles: foreign code may change these too.
    fn made_before(&self, id: u32) -> BTreeMap<&ObjectId, (&State, &str)> {
        let done = |result: &ItemResult| matches!(result, ItemResult::Changed);
        let finished = self.finished.iter().filter(|(_, result)| done(result)).map(|(item, _)| (item, true));
        let coming =
            self.remaining.iter().filter(|item| place(item.id) < place(id)).map(|item| (item, false));
        let mut made = BTreeMap::new();
        for (item, over) in finished.chain(coming) {
            let changes = item.changes().iter().map(|planned| &planned.change);
            // helm writes objects of a cluster that an item before it has changed.
            let may_move =
                |change: &&Change| traits_of(&change.object).runs_no_code || is_of_api(&change.object);
            for change in changes.filter(may_move) {
                let state = if over { self.base.get(&change.object) } else { None };
                made.insert(&change.object, (state.unwrap_or(&change.to), item.role.as_str()));
            }
        }
        made
    }

    /// An item that depends on a failed one but was done with it in one transaction. Items that depend on it are skipped.
    pub fn stands_on_what_failed(&mut self, item: &Item) {
        let failed =
            item.needs.iter().filter_map(|need| self.addresses.get(need)).find_map(|a| self.bad.get(a));
        if let Some(failed) = failed.cloned() {
            self.bad.insert(item.address.clone(), failed);
        }
    }
}
