//! Which objects are managed: made or changed by runs, and not given back. One fold, for hosts and clusters.

use crate::found::{adopted, first};
use crate::lines::is_by_fields;
use crate::parts::{self, gives_back_parts};
use crate::{
    Adoption, MountLayer, MountLayers, OwnedObject, ProjectName, Renaming, RunPurpose, RunRecord,
    SavedChange, SavedOutcome, renumbering,
};
use converge_resource::ObjectId;
use std::collections::{BTreeMap, BTreeSet};

/// The managed objects of a host or cluster, as some runs left them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedObjects {
    /// In the order in which they came to be managed, those that were given back among them.
    pub entries: Vec<Entry>,
    /// The runs that are folded in, by ID.
    pub folded: BTreeSet<String>,
}

/// An object that is managed, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The object, and how it came to be managed.
    pub thing: OwnedObject,
    /// The run that gave it back: it is managed again when that run is rolled back. None while it is managed.
    pub gone_by: Option<String>,
    /// Of an object that others share by its fields, which the project gave back and has made its own anew: as it was given back. The rollback of the run that
    /// gave it back leads there, whatever others have changed in it since.
    pub earlier: Option<Box<Entry>>,
}

impl Entry {
    /// An entry of a managed object.
    pub fn of(thing: OwnedObject) -> Self {
        Self { thing, gone_by: None, earlier: None }
    }

    /// The entry and its earlier versions, newest first.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |entry| entry.earlier.as_deref())
    }

    fn rename(&mut self, renaming: &Renaming) {
        let mut entry = Some(self);
        while let Some(Self { thing, earlier, .. }) = entry {
            renaming.rename(thing);
            entry = earlier.as_deref_mut();
        }
    }

    /// Restores the version of the entry that the oldest of these runs ended. The later versions remain in its history.
    fn go_back_to(&mut self, by: &BTreeSet<&str>) {
        let gave = |entry: &Self| entry.gone_by.as_deref().is_some_and(|run| by.contains(run));
        while self.earlier.iter().flat_map(|earlier| earlier.all()).any(gave) {
            let Some(earlier) = self.earlier.take() else { return };
            let later = std::mem::replace(self, *earlier).thing;
            let thing = &mut self.thing;
            if thing.left != later.before {
                thing.between.push((thing.left.clone(), later.before));
            }
            thing.between.extend(later.between);
            (thing.left, thing.open, thing.uid) = (later.left, later.open, later.uid);
            thing.sensitive |= later.sensitive;
        }
    }

    /// Forgets what was given back by runs that are not recorded any more; `None` where nothing stays of it.
    fn remembered(mut self, is_recorded: &dyn Fn(&str) -> bool) -> Option<Self> {
        parts::forget_gone(&mut self.thing, is_recorded);
        let earlier = self.earlier.take().and_then(|earlier| earlier.remembered(is_recorded));
        if self.gone_by.as_deref().is_none_or(is_recorded) {
            self.earlier = earlier.map(Box::new);
            return Some(self);
        }
        earlier
    }
}

impl ManagedObjects {
    /// The objects that are managed now.
    pub fn present(&self) -> impl Iterator<Item = &OwnedObject> {
        self.entries.iter().filter(|e| e.gone_by.is_none()).map(|e| &e.thing)
    }

    /// Forgets what was given back by runs that are not recorded any more, since nobody can roll these back.
    pub fn forget_gone(&mut self, is_recorded: &dyn Fn(&str) -> bool) {
        let entries = std::mem::take(&mut self.entries);
        self.entries = entries.into_iter().filter_map(|entry| entry.remembered(is_recorded)).collect();
    }
}

/// Lays runs, oldest first, over what was managed before them. A run that the base holds already is passed over.
///
/// Each project has an entry of its own for an object, with the state that its own runs found. Runs of other projects change nothing of it, but for
/// bringing the object back to that state.
///
/// * What a role's item makes or changes is managed. So is what changes besides with such an item (a package's dependency), unless that was
///   managed before: a by-product.
/// * A change that was cut off counts: it may have happened. It gives nothing back: it may not have happened, unless a plan has found it since.
/// * The state before is the one that the first of these changes found. An object that was given back and is changed by a role again begins anew.
/// * An object that is back in the state before, by whatever run, is given back. So is one that a rollback of the run which first changed it
///   has reverted, also to where that run found it before its own foreign code changed it, or has had removed by a command's `undo` or a package.
/// * A change without a role that came out as planned gives an object that others share by its fields back, and any other that it was to lead to where
///   the project, or the maker, found it: a prune takes the project's own fields and leaves what others have there, and it stops a unit whose file goes
///   after it. So does foreign code that brings an object back to where its maker
///   found it, in a run that releases that item.
/// * It is managed again when the run that gave it back is rolled back, or when a run without a role changes it from the state before.
/// * What foreign code of a run changes counts as left by the run; nothing comes to be managed by that.
/// * Of an object that others share by its fields, those that a role declares are its project's: it stays managed in the state before too, also where a later
///   run is rolled back to that, or another project's run brings it there.
/// * What a run adopts (`state adopt`) is managed, with the state that it found as the original one, and stays so in that state until a prune or a rollback past
///   the adoption gives it back; the first run that changes it then counts as the one that first did.
/// * A file shows another owner when the number of an account changes: so do its recorded states.
/// * What a run renames (`state move`) remains its project's, under the new name.
pub fn fold(base: ManagedObjects, runs: &[RunRecord]) -> ManagedObjects {
    let ManagedObjects { entries, mut folded } = base;
    let mut table = Table::default();
    for entry in entries {
        let OwnedObject { object, before, left, .. } = &entry.thing;
        table.layers.take(object, before, if entry.gone_by.is_some() { before } else { left });
        table.put(entry);
    }
    for run in runs {
        if folded.insert(run.id.clone()) {
            // `undo.sh` of older versions wrote no project: what it undid says it.
            let target = run.attempts.as_ref().filter(|_| run.scope == ProjectName::default());
            let target = target.and_then(|id| runs.iter().find(|r| r.id == *id));
            table.lay(run, target.map_or(&run.scope, |r| &r.scope));
        }
    }
    let Table { entries, layers, .. } = table;
    let mut entries: Vec<Entry> = entries.into_iter().flatten().collect();
    for Entry { thing, .. } in &mut entries {
        thing.lies_in = layers.needed(&thing.object, &thing.layer);
    }
    ManagedObjects { entries, folded }
}

#[derive(Default)]
struct Table {
    entries: Vec<Option<Entry>>,
    places: BTreeMap<(ObjectId, MountLayer), Vec<usize>>,
    layers: MountLayers,
}

impl Table {
    /// Puts an entry at the end, in the place of an earlier one of the object for the same project.
    fn put(&mut self, entry: Entry) {
        let place = (entry.thing.object.clone(), entry.thing.layer.clone());
        self.remove(&place, &entry.thing.scope);
        self.places.entry(place).or_default().push(self.entries.len());
        self.entries.push(Some(entry));
    }

    fn remove(&mut self, place: &(ObjectId, MountLayer), scope: &ProjectName) {
        let (entries, places) = (&mut self.entries, &mut self.places);
        places.entry(place.clone()).or_default().retain(|at| {
            let entry = entries.get_mut(*at);
            entry.is_some_and(|e| e.take_if(|e| e.thing.scope.is_same_project(scope)).is_none())
        });
    }

    /// The entries of the object in the file system in which it lies now, with their places.
    fn all(&self, object: &ObjectId) -> impl Iterator<Item = (usize, &Entry)> {
        let at = self.places.get(&(object.clone(), self.layers.of(object)));
        at.into_iter().flatten().filter_map(|at| Some((*at, self.entries.get(*at)?.as_ref()?)))
    }

    /// The place of the entry that a change of this project's concerns. A run that names no project concerns the one that left the state which it found.
    fn place(&self, change: &SavedChange, scope: &ProjectName) -> Option<usize> {
        let all = || self.all(&change.object);
        if *scope != ProjectName::default() {
            return all().find(|(_, e)| e.thing.scope.is_same_project(scope)).map(|(at, _)| at);
        }
        let left = |e: &Entry| e.gone_by.is_none() && e.thing.left == change.before;
        all().filter(|(_, e)| left(e)).last().or_else(|| all().last()).map(|(at, _)| at)
    }

    fn get(&mut self, change: &SavedChange, scope: &ProjectName) -> Option<&mut Entry> {
        let at = self.place(change, scope)?;
        self.entries.get_mut(at)?.as_mut()
    }

    /// An object that is given out of management is that in every file system.
    fn disown(&mut self, object: &ObjectId, scope: &ProjectName) {
        let places: Vec<_> = self.places.keys().filter(|(of, _)| of == object).cloned().collect();
        places.iter().for_each(|place| self.remove(place, scope));
    }

    /// The effect of a change on the entries of other projects.
    fn pass_by(
        &mut self,
        run: &RunRecord,
        change: &SavedChange,
        own: Option<usize>,
        reverts: &BTreeSet<&str>,
    ) {
        let others: Vec<usize> =
            self.all(&change.object).map(|(at, _)| at).filter(|at| Some(*at) != own).collect();
        for at in others {
            let Some(entry) = self.entries.get_mut(at).and_then(Option::as_mut) else { continue };
            let thing = &entry.thing;
            let is_back = change.after == thing.before;
            // Its role declares what was there before.
            let is_held =
                is_by_fields(&thing.object) && thing.left == thing.before && !thing.before.is_absent();
            match &entry.gone_by {
                None if is_back && change.is_known() && thing.adopted_by.is_none() && !is_held => {
                    entry.gone_by = Some(run.id.clone());
                }
                Some(by) if !is_back && reverts.contains(by.as_str()) => entry.gone_by = None,
                _ => {}
            }
        }
    }

    /// Takes an object into management; one that is managed already stays as it is.
    fn adopt(&mut self, run: &RunRecord, scope: &ProjectName, adoption: &Adoption) {
        let own = |e: &Entry| e.gone_by.is_none() && e.thing.scope.is_same_project(scope);
        if self.all(&adoption.object).any(|(_, e)| own(e)) {
            return;
        }
        let layer = self.layers.of(&adoption.object);
        self.put(Entry::of(adopted(run, adoption, layer)));
    }

    /// A run of this project.
    fn lay(&mut self, run: &RunRecord, scope: &ProjectName) {
        let reverts: BTreeSet<&str> =
            run.rolls_back.iter().chain(&run.attempts).map(String::as_str).collect();
        let owners: BTreeMap<&str, &str> =
            run.changes.iter().filter_map(|c| Some((c.item.as_str(), c.owner.as_deref()?))).collect();
        let entries = self.entries.iter_mut().flatten();
        for entry in entries.filter(|entry| entry.thing.scope.is_same_project(scope)) {
            run.renamed.iter().for_each(|renaming| entry.rename(renaming));
        }
        run.adopted.iter().for_each(|adoption| self.adopt(run, scope, adoption));
        let mut disowned = run.disowned.iter().peekable();
        for (at, change) in run.changes.iter().enumerate() {
            while let Some((_, object)) = disowned.next_if(|(before, _)| *before <= at) {
                self.disown(object, scope);
            }
            self.renumber(change);
            self.take((run, scope), at, change, &reverts, &owners);
            self.layers.take(&change.object, &change.before, &change.after);
        }
        for (_, object) in disowned {
            self.disown(object, scope);
        }
        if run.is_rollback() {
            self.go_past_adoptions(run, scope);
        }
    }

    /// Files show another owner after the change of an account.
    fn renumber(&mut self, change: &SavedChange) {
        if change.is_known() {
            let left = self.all(&change.object).last().map(|(_, entry)| entry.thing.left.clone());
            let things = self.entries.iter_mut().flatten().map(|entry| &mut entry.thing);
            renumbering::follow(things, change, left.as_ref());
        }
    }

    /// A rollback past an adoption gives an object back that it found as it was adopted, without a change; the rollback of that one takes it again.
    fn go_past_adoptions(&mut self, run: &RunRecord, scope: &ProjectName) {
        let changed: BTreeSet<&ObjectId> = run.changes.iter().map(|change| &change.object).collect();
        let reverts = |by: Option<&String>| by.is_some_and(|by| run.rolls_back.contains(by));
        for entry in self.entries.iter_mut().flatten() {
            let thing = &entry.thing;
            let is_as_adopted = thing.left == thing.before && thing.open.is_none();
            let is_of = match &run.purpose {
                RunPurpose::Rollback(roles) if !roles.is_empty() => {
                    thing.roles.first().is_some_and(|role| roles.contains(role))
                }
                _ => true,
            };
            if !thing.scope.is_same_project(scope)
                || !is_as_adopted
                || !is_of
                || changed.contains(&thing.object)
            {
                continue;
            }
            match &entry.gone_by {
                None if reverts(thing.adopted_by.as_ref()) => entry.gone_by = Some(run.id.clone()),
                Some(_) if thing.adopted_by.is_some() && reverts(entry.gone_by.as_ref()) => {
                    entry.gone_by = None
                }
                _ => {}
            }
        }
    }

    fn take(
        &mut self,
        (run, scope): (&RunRecord, &ProjectName),
        at: usize,
        change: &SavedChange,
        reverts: &BTreeSet<&str>,
        owners: &BTreeMap<&str, &str>,
    ) {
        let of_owners = is_by_fields(&change.object) && (change.owner.is_none() || gives_back_parts(change));
        if change.before == change.after && !of_owners {
            return;
        }
        if change.outcome == SavedOutcome::Moved {
            return self.take_foreign((run, scope), change, reverts);
        }
        self.pass_by(run, change, self.place(change, scope), reverts);
        let own = change.owner.as_deref();
        let known = self.get(change, scope);
        let is_managed = known.as_ref().is_some_and(|e| e.gone_by.is_none());
        let beside = || {
            let of_item = owners.get(change.item.as_str()).copied();
            of_item.filter(|_| known.is_none() && run.purpose == RunPurpose::Converge)
        };
        if let Some(role) = own.or_else(beside) {
            if !is_managed {
                let earlier = known.filter(|_| is_by_fields(&change.object)).cloned().map(Box::new);
                let thing = OwnedObject { layer: self.layers.of(&change.object), ..first(run, at, change) };
                self.put(Entry { earlier, ..Entry::of(thing) });
            }
            let Some(Entry { thing, .. }) = self.get(change, scope) else { return };
            thing.by_product = own.is_none();
            thing.scope = run.scope.clone();
            if !gives_back_parts(change) {
                thing.roles.retain(|r| r != role);
                thing.roles.insert(0, role.to_owned());
                change.item.clone_into(&mut thing.item);
            }
        }
        let as_planned = change.outcome == SavedOutcome::Done || change.arrived;
        let Some(entry) = self.get(change, scope) else { return };
        entry.thing.sensitive |= change.sensitive;
        if as_planned {
            entry.go_back_to(reverts);
            parts::follow(&mut entry.thing, run, change, reverts);
        }
        let gone_by = entry.gone_by.clone();
        if let Some(by) = &gone_by {
            // Something of it is there again, and not as that rollback wanted it.
            let is_left = *by == run.id && change.outcome != SavedOutcome::Done && !change.arrived;
            if !is_left && change.before != entry.thing.before && !reverts.contains(by.as_str()) {
                return;
            }
            entry.gone_by = None;
        }
        let thing = &mut entry.thing;
        // The first change of what was adopted.
        let is_as_adopted = thing.adopted_by.is_some() && thing.left == thing.before && thing.open.is_none();
        if is_as_adopted && entry.gone_by.is_none() && own.is_some() {
            thing.run.clone_from(&run.id);
        }
        left(thing, change);
        // Of a change that was cut off nobody knows the identity of what it left.
        if change.is_known() || change.before.is_absent() {
            thing.uid.clone_from(&change.uid);
        }
        thing.node_removal = change.node_removal.clone().or(thing.node_removal.take());
        thing.guard = change.guard.clone().or(thing.guard.take());
        // A prune leads an object that is shared to where the project has nothing of it, and not to the state before; a unit to where nothing is left
        // to take but its file, which goes after it.
        let is_shared = is_by_fields(&change.object);
        let is_to_end = change.goal == thing.before
            || thing.moved.as_ref().is_some_and(|moved| moved.before == change.goal);
        let pruned = own.is_none() && !run.is_rollback() && (is_shared || is_to_end);
        let put_back = as_planned
            && (pruned || (reverts.contains(thing.run.as_str()) && !is_left_to_others(thing, run, change)));
        let is_heir = thing.before.is_absent() || thing.heir_by.is_some();
        let back = (change.is_known() && change.after == thing.before) || put_back;
        if back && !stays(thing, run, change, reverts) {
            entry.gone_by = Some(run.id.clone());
        }
        let leaves =
            (put_back && pruned && is_shared && is_heir && !change.after.is_absent()).then_some(&run.id);
        self.inherit(change, scope, gone_by.as_ref(), leaves);
    }

    /// A change that foreign code of the run has made.
    fn take_foreign(
        &mut self,
        (run, scope): (&RunRecord, &ProjectName),
        change: &SavedChange,
        reverts: &BTreeSet<&str>,
    ) {
        let went_with_maker = self.goes_with_its_maker((run, scope), change);
        let Some(entry) = self.get(change, scope).filter(|e| e.gone_by.is_none()) else { return };
        left(&mut entry.thing, change);
        let reverted = change.after.is_absent() && reverts.contains(entry.thing.run.as_str());
        if reverted || went_with_maker {
            entry.gone_by = Some(run.id.clone());
        }
    }

    /// Whether foreign code has brought an object back to where its maker found it, in a run that gives the maker back: a prune of a command takes along
    /// what the command had made, also where another item has edited that.
    fn goes_with_its_maker(&self, (run, scope): (&RunRecord, &ProjectName), change: &SavedChange) -> bool {
        let entry = self.place(change, scope).and_then(|at| self.entries.get(at)?.as_ref());
        let Some(moved) = entry.and_then(|entry| entry.thing.moved.as_ref()) else { return false };
        let is_gone = |entry: &Entry| entry.gone_by.as_deref() == Some(run.id.as_str());
        let is_maker =
            |entry: &Entry| entry.thing.item == moved.by && entry.thing.scope.is_same_project(scope);
        change.after == moved.before && self.entries.iter().flatten().any(|e| is_maker(e) && is_gone(e))
    }

    /// The other projects in an object that a project made: a prune of its leaves the object to them, until that is rolled back.
    fn inherit(
        &mut self,
        change: &SavedChange,
        scope: &ProjectName,
        back: Option<&String>,
        leaves: Option<&String>,
    ) {
        let places: Vec<usize> = self.all(&change.object).map(|(at, _)| at).collect();
        for at in places {
            let Some(entry) = self.entries.get_mut(at).and_then(Option::as_mut) else { continue };
            let thing = &mut entry.thing;
            if back.is_some() && thing.heir_by.as_ref() == back {
                thing.heir_by = None;
            }
            if entry.gone_by.is_none() && !thing.scope.is_same_project(scope) && !thing.before.is_absent() {
                thing.heir_by = thing.heir_by.take().or(leaves.cloned());
            }
        }
    }
}

/// Whether an object that is back in the state before remains managed: a role declares fields of it, or a rollback returns to where a role did, or it was
/// adopted in that state and its adoption is not what goes back.
fn stays(thing: &OwnedObject, run: &RunRecord, change: &SavedChange, reverts: &BTreeSet<&str>) -> bool {
    let is_declared = change.owner.is_some();
    // Others have restored the state in which they found it: no role has declared that.
    let put_back = || thing.between.iter().any(|(_, found)| *found == thing.before);
    let returns = || run.is_rollback() && !reverts.contains(thing.run.as_str()) && !put_back();
    let of_fields = is_by_fields(&change.object) && !change.after.is_absent() && (is_declared || returns());
    let is_retained = is_declared || run.is_rollback();
    let adopted_by = thing.adopted_by.as_deref().filter(|_| is_retained);
    of_fields || adopted_by.is_some_and(|by| !reverts.contains(by))
}

/// Whether a rollback of some roles has left an object as another role has it.
fn is_left_to_others(thing: &OwnedObject, run: &RunRecord, change: &SavedChange) -> bool {
    let RunPurpose::Rollback(roles) = &run.purpose else { return false };
    let of_others = thing.roles.iter().any(|role| !roles.contains(role));
    !roles.is_empty() && of_others && !change.after.is_absent()
}

fn left(thing: &mut OwnedObject, change: &SavedChange) {
    if thing.left != change.before {
        thing.between.push((thing.left.clone(), change.before.clone()));
    }
    thing.left = change.after.clone();
    // An adopted object stays managed in that state, and in the directory in which it was adopted.
    if thing.left == thing.before && change.is_known() && thing.adopted_by.is_none() {
        thing.made_in.clear();
    } else {
        thing.made_in.extend(change.real_dir.clone());
    }
    thing.open = (!change.is_known()).then(|| change.before.clone());
}

#[cfg(test)]
#[path = "managed_tests.rs"]
mod tests;
