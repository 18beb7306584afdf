//! The composition of the changes of several runs, for each object.

use crate::lead::{Lead, LedPath, lead, led_elsewhere, takes_link_away};
use crate::lines::{is_by_fields, is_by_lines};
use crate::paths::is_at_path;
use crate::{MountLayer, SavedChange, SavedGuard, SavedOutcome};
use converge_resource::{FieldOwners, NodeRemoval, ObjectId, Past, State};
use std::collections::{BTreeMap, BTreeSet};

/// A state in which runs found an object or may have left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownState {
    /// The state.
    pub state: State,
    /// The number of pairs in [`Undo::between`] that came before.
    pub pairs: usize,
    /// It is only planned: the step was cut off, and the host's own choices in it are not recorded.
    pub is_planned: bool,
    /// Of one in which a rollback may have left it: the state that the step itself had left.
    pub undone: Option<State>,
}

/// The runs that changed an object, or may have, and are not recorded any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnrecordedRuns {
    /// Between two recorded ones, of which the second found another state than the first left.
    pub between: bool,
    /// After the last recorded one.
    pub since: bool,
}

impl UnrecordedRuns {
    /// Whoever changed an object that no recorded run has left so, for people.
    pub fn who(self) -> &'static str {
        if self.between || self.since {
            "someone else since, or by a run that is not recorded any more"
        } else {
            "someone else since"
        }
    }
}

/// Whether an object in the first of these states is in the second one, which a plan names.
pub type Fulfils<'a> = dyn Fn(&ObjectId, &State, &State) -> bool + 'a;

/// The revert of one object in a rollback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    /// The object.
    pub object: ObjectId,
    /// The file system in which it lies, where runs mount one above it.
    pub layer: MountLayer,
    /// The mounts above it, each with the file system that must be there for it to be visible.
    pub lies_in: Vec<(String, String)>,
    /// The paths above it that runs have led elsewhere, each with where it must lead for this object to be visible.
    pub led_in: Vec<LedPath>,
    /// The directories in which its changes were made, where links led there, each with the number of pairs in [`Undo::between`] that came before. The
    /// object is reverted in the same directory or not at all.
    pub made_in: Vec<(usize, String)>,
    /// The state that the runs left; any other is someone else's.
    pub left: State,
    /// Where it was before them.
    pub before: State,
    /// The state that each run but the last one left, and the state that the next one found.
    pub between: Vec<(State, State)>,
    /// The other end of the last change, or of a rollback of it, when that was cut off: it is not known whether it happened, so either state is what
    /// the runs left.
    pub open: Option<State>,
    /// Every state in which the runs found it or may have left it, oldest first.
    pub states: Vec<KnownState>,
    /// The item that changed it last.
    pub item: String,
    /// True when an item that changed it was declared sensitive.
    pub sensitive: bool,
    /// The run whose records hold the state before.
    pub run: String,
    /// It went with another object, and comes back with it first: in the state that the run left.
    pub comes_back: bool,
    /// The reason why it cannot be undone, when the run itself said so.
    pub lost: Option<String>,
    /// The reason why it is left as it is: a later run of another project changed it, or something that is not reverted belongs to it.
    pub theirs: Option<String>,
    /// The values that it needs to go back are kept, and cannot be read on this machine.
    pub sealed: bool,
    /// The changes that later runs of other projects made, which are in force: the state that each found and the one that it left.
    pub since: Vec<(State, State)>,
    /// In a cluster: the project that made the object has pruned its part of it, and no other one but this has any. The object goes unless somebody else has
    /// fields in it.
    pub is_heir: bool,
    /// The runs that are missing in the records.
    pub unrecorded: UnrecordedRuns,
    /// The data that it needs besides the states.
    pub node_removal: Option<NodeRemoval>,
    /// In a cluster: who owned its fields before each of the changes and after it. `None` for a change whose record does not tell.
    pub owners: Vec<Option<FieldOwners>>,
    /// The guard of the last guarded item that changed it.
    pub guard: Option<SavedGuard>,
    /// The item whose foreign code changed it first, when it was foreign code.
    pub moved_by: Option<String>,
    /// An earlier run, which is not reverted, has changed what it was started with before, and did not come to start it again.
    pub inputs_stay: bool,
}

impl Undo {
    /// The reason why its changes stay in force where it is as before them already: a later run of another project stands on them.
    pub fn hidden(&self) -> Option<&str> {
        let is_shared = is_by_lines(&self.object) || is_by_fields(&self.object);
        self.theirs.as_deref().filter(|_| !self.since.is_empty() && !is_shared)
    }

    /// The directory in which its changes were made, where links led there and it was one.
    pub fn dir(&self) -> Option<&str> {
        let (_, first) = self.made_in.first()?;
        self.made_in.iter().all(|(_, dir)| dir == first).then_some(first)
    }

    /// The path of the object behind all links, where the records say it.
    pub fn real_path(&self) -> Option<String> {
        let name = self.object.key.rsplit_once('/')?.1;
        Some(format!("{}/{name}", self.dir()?.trim_end_matches('/')))
    }

    /// The states it went through, for an object that judges them field by field.
    pub fn past(&self) -> Past<'_, State> {
        Past { before: &self.before, left: &self.left, between: &self.between }
    }

    /// Takes a newer revert of the same object into this one.
    fn go_on(&mut self, newer: &Self) {
        let pairs = self.between.len() + 1;
        self.between.push((self.left.clone(), newer.before.clone()));
        self.between.extend(newer.between.iter().cloned());
        self.states.extend(newer.states.iter().cloned().map(|s| KnownState { pairs: s.pairs + pairs, ..s }));
        self.made_in.extend(newer.made_in.iter().map(|(before, dir)| (before + pairs, dir.clone())));
        self.left = newer.left.clone();
        self.open = newer.open.clone();
        newer.item.clone_into(&mut self.item);
        self.sensitive |= newer.sensitive;
        self.owners.extend(newer.owners.iter().cloned());
        self.guard = newer.guard.clone().or(self.guard.take());
    }

    /// The object is in the state `now`. Where that is one of those that the runs found or may have left, what came after it counts as
    /// reverted already: somebody put it back, or a step was cut off. A step that was cut off left what it planned, with what the host chose.
    pub fn settle(&mut self, now: &State, fulfils: &Fulfils<'_>) {
        if *now == self.left {
            return;
        }
        let is = |known: &&KnownState| {
            known.state == *now || (known.is_planned && fulfils(&self.object, now, &known.state))
        };
        if let Some(known) = self.states.iter().rev().find(is) {
            self.between.truncate(known.pairs);
            self.made_in.retain(|(before, _)| *before <= known.pairs);
            // A rollback took the step back in part, beside changes of others: what the step had changed is still to be reported.
            if let Some(left) = known.undone.clone().filter(|_| !self.before.is_absent()) {
                self.between.push((left, now.clone()));
            }
            self.left = now.clone();
        }
    }
}

/// Composes these changes, oldest first: one entry an object and place, in the reverse of the order in which the runs first touched them. An object that was
/// corrected later still goes before what it stands on: a user before its group. With each change come its run and the states in which a
/// rollback of it may have left the object, and the file system in which it lies. `goes_back` says which changes a rollback takes back at all.
pub(crate) fn compose<'a>(
    steps: impl Iterator<Item = (&'a str, MountLayer, &'a SavedChange, Vec<State>)>,
    goes_back: &dyn Fn(&SavedChange) -> bool,
) -> Vec<Undo> {
    // In the order in which the runs first touched them. The map of places keeps the time linear but for a logarithm: records hold thousands of changes.
    let mut undos: BTreeMap<usize, Undo> = BTreeMap::new();
    let mut places: BTreeMap<(ObjectId, MountLayer), usize> = BTreeMap::new();
    let mut led = BTreeSet::new();
    for (run, layer, change, also) in steps.filter(|(_, _, c, _)| c.may_have_happened() && goes_back(c)) {
        let next = undos.len();
        let place = places.entry((change.object.clone(), layer.clone())).or_insert(next);
        let foreign = change.outcome == SavedOutcome::Moved;
        let leads = led_elsewhere(&change.object, &change.before, &change.after, foreign).is_some();
        if *place != next && (leads || takes_link_away(&change.object, &change.before, &change.after)) {
            // A step of its own.
            led.insert(&change.object);
            *place = next;
        }
        let place = *place;
        let mut undo = match undos.remove(&place) {
            Some(undo) => undo,
            None => Undo {
                object: change.object.clone(),
                layer,
                lies_in: Vec::new(),
                led_in: Vec::new(),
                made_in: Vec::new(),
                left: change.before.clone(),
                before: change.before.clone(),
                between: Vec::new(),
                open: None,
                states: Vec::new(),
                item: String::new(),
                sensitive: false,
                run: run.to_owned(),
                comes_back: false,
                // Nothing but the state before the first one comes back.
                lost: change.no_snapshot.clone(),
                theirs: None,
                sealed: false,
                since: Vec::new(),
                is_heir: false,
                unrecorded: UnrecordedRuns::default(),
                node_removal: None,
                owners: Vec::new(),
                guard: None,
                moved_by: (change.outcome == SavedOutcome::Moved).then(|| change.item.clone()),
                inputs_stay: false,
            },
        };
        if !undo.states.is_empty() {
            undo.between.push((undo.left.clone(), change.before.clone()));
        }
        let pairs = undo.between.len();
        undo.made_in.extend(change.real_dir.iter().map(|dir| (pairs, dir.clone())));
        let is_planned = change.outcome == SavedOutcome::Unknown;
        let known = |state: &State, is_planned, undone| KnownState {
            state: state.clone(),
            pairs,
            is_planned,
            undone,
        };
        undo.states.push(known(&change.before, false, None));
        undo.states.extend(also.iter().map(|state| known(state, false, Some(change.after.clone()))));
        undo.states.push(known(&change.after, is_planned, None));
        undo.left = change.after.clone();
        let unknown = (change.outcome == SavedOutcome::Unknown).then(|| change.before.clone());
        undo.open = unknown.or_else(|| also.last().cloned());
        change.item.clone_into(&mut undo.item);
        undo.sensitive |= change.sensitive;
        undo.node_removal = change.node_removal.clone().or(undo.node_removal);
        undo.owners.push(change.owners.clone());
        undo.guard = change.guard.clone().or(undo.guard);
        undos.insert(place, undo);
    }
    let mut undos: Vec<Undo> = undos.into_values().collect();
    join_leads(&mut undos, &led);
    undos.reverse();
    below_nothing(&mut undos);
    undos
}

/// A path that was led elsewhere more than once goes back step by step only where the runs have changed something behind it in between, and where
/// foreign code has put a link in the place of a directory that they had changed: all other steps are one. Oldest first.
fn join_leads(undos: &mut Vec<Undo>, led: &BTreeSet<&ObjectId>) {
    let mut at = 0;
    while let Some(undo) = undos.get(at) {
        let is_older = |older: &Undo| older.object == undo.object && older.layer == undo.layer;
        let older = led.contains(&undo.object).then(|| undos.iter().take(at).rposition(is_older)).flatten();
        match older.filter(|older| goes_with(undos, *older, at)) {
            Some(older) => {
                let newer = undos.remove(at);
                undos.get_mut(older).into_iter().for_each(|undo| undo.go_on(&newer));
                at = older;
            }
            None => at += 1,
        }
    }
}

/// Whether two steps of a path go back as one.
fn goes_with(undos: &[Undo], older: usize, newer: usize) -> bool {
    let (Some(first), Some(then)) = (undos.get(older), undos.get(newer)) else { return false };
    let is_replaced = |undo: &Undo| {
        let ends = (lead(&undo.before), lead(&undo.left));
        undo.moved_by.is_some() && matches!(ends, (Some(Lead::Here), Some(Lead::To(_))))
    };
    let is_behind = |key: &str| key.strip_prefix(&first.object.key).is_some_and(|rest| rest.starts_with('/'));
    let between = undos.iter().take(newer).skip(older + 1);
    let mut changed = between.filter(|undo| undo.left != undo.before || undo.open.is_some());
    (is_replaced(first) || !is_replaced(then))
        && !changed.any(|undo| is_at_path(&undo.object.kind) && is_behind(&undo.object.key))
}

/// The state before the runs of a path that was absent then, and its real path where the record says it.
type AbsentPath = (State, Option<String>);

/// Below a path that was absent before the runs there was nothing: what foreign code put there, and an item then changed or removed, does not
/// come back without it. What lies in a file system that a run has mounted there was there before, and so was what a link leads to, wherever the link is.
fn below_nothing(undos: &mut [Undo]) {
    let is_link = |known: &KnownState| matches!(lead(&known.state), Some(Lead::To(_)));
    let paths = || undos.iter().filter(|u| u.object.kind == "path");
    let place = |u: &Undo| (u.object.key.clone(), u.layer.without_dir());
    let links: BTreeSet<(String, MountLayer)> =
        paths().filter(|u| u.states.iter().any(is_link)).map(place).collect();
    let mut absent: BTreeMap<(String, MountLayer), Vec<AbsentPath>> = BTreeMap::new();
    for undo in paths().filter(|u| u.before.is_absent()) {
        absent.entry(place(undo)).or_default().push((undo.before.clone(), undo.real_path()));
    }
    for undo in undos.iter_mut().filter(|u| u.object.kind == "path") {
        let mut above = undo.object.key.clone();
        let mut real = undo.real_path();
        while let Some((parent, _)) = above.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            let parent = (parent.to_owned(), undo.layer.without_dir());
            if links.contains(&parent) {
                break;
            }
            real = real.and_then(|real| Some(real.rsplit_once('/')?.0.to_owned()));
            let is_above = |at: &&AbsentPath| at.1.is_none() || real.is_none() || at.1 == real;
            if let Some((before, _)) = absent.get(&parent).and_then(|all| all.iter().find(is_above)) {
                undo.before = before.clone();
            }
            above = parent.0;
        }
    }
}

#[cfg(test)]
#[path = "compose_tests.rs"]
mod tests;
