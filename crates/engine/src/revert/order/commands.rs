//! Commands among the reverts: what was changed in what they make, and what they work with.

use super::unit::{UnitTurn, a_unit_may_run_with, turn_of};
use super::{Edges, Revert, is_dir};
use crate::revert::paths::above;
use crate::revert::undo::creates;
use converge_objects::{action_of, is_action};
use converge_resource::Change;
use std::collections::{BTreeSet, HashMap};

/// Whether the revert runs a command's `undo`.
pub(super) fn is_undone(revert: &Revert<'_>) -> bool {
    let change = Change { object: revert.object.clone(), from: revert.from.clone(), to: revert.to.clone() };
    action_of(revert.object).undoes(&change)
}

/// Whether the revert runs a command, or its `undo`.
fn is_run(revert: &Revert<'_>) -> bool {
    is_undone(revert) || action_of(revert.object).is_pending(revert.from)
}

/// The objects that are reverted before or after commands that run, since they lie in what these make: each place with that of the command.
#[derive(Default)]
pub(super) struct CommandSides {
    before: BTreeSet<(usize, usize)>,
    after: BTreeSet<(usize, usize)>,
    /// The same for the links and mounts behind which an object is visible.
    behind: BTreeSet<(usize, usize)>,
}

impl CommandSides {
    /// Whether the object goes with a command that is reverted before what stands at this place: nothing of that comes before the object then.
    pub(super) fn is_before(&self, object: usize, place: usize) -> bool {
        self.before.range((object, 0)..(object, place)).next().is_some()
    }

    /// Whether the object goes while something else is still there: what a command makes, or the link or mount behind which it is visible.
    pub(super) fn is_bound(&self, object: usize) -> bool {
        self.is_before(object, usize::MAX)
            || self.behind.range((object, 0)..=(object, usize::MAX)).next().is_some()
    }

    /// Whether the object lies in what the command makes.
    fn have(&self, object: usize, command: usize) -> bool {
        [&self.before, &self.after].into_iter().any(|side| side.contains(&(object, command)))
    }

    /// Whether the object comes with a command that is reverted after what stands at this place.
    pub(super) fn is_after(&self, object: usize, place: usize) -> bool {
        self.after.range((object, place)..=(object, usize::MAX)).next().is_some()
    }
}

impl<'a> Edges<'a> {
    /// The commands that run, with their places.
    fn commands_that_run(&self) -> impl Iterator<Item = (usize, &'a Revert<'a>)> + use<'a> {
        self.with(|object| object.action().is_action()).filter(|(_, r)| is_run(r))
    }

    /// A command's own `undo` comes before the edits of what it made are settled: it finds what its guard names. What others have put into that goes
    /// before it. One that runs again comes before the edits of what it makes.
    pub(super) fn command_sides(&self) -> CommandSides {
        let mut sides = CommandSides::default();
        let mut by_item: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, revert) in self.reverts.iter().enumerate().filter(|(_, r)| r.from != r.to) {
            if let Some(item) = revert.moved_by.filter(|_| !is_action(revert.object)) {
                by_item.entry(item).or_default().push(at);
            }
        }
        for (at, command) in self.commands_that_run() {
            let undone = is_undone(command);
            let mut made: BTreeSet<String> = creates(command.object).into_iter().collect();
            for &moved in by_item.get(command.item).into_iter().flatten() {
                // Not older ones of the item: what they have changed is a step of its own.
                if self.mover(moved, command.item, is_run).is_some_and(|mover| at <= mover) {
                    sides.after.insert((moved, at));
                    let is_whole = |r: &&Revert<'_>| if undone { r.goes() } else { r.comes() };
                    let whole = self.reverts.get(moved).filter(is_whole).filter(|r| r.object.kind == "path");
                    made.extend(whole.map(|r| r.object.key.clone()));
                }
            }
            for (path, revert) in self.of("path") {
                let is_inside = || above(&revert.object.key).any(|folder| made.contains(folder));
                if made.contains(&revert.object.key) {
                    sides.after.insert((path, at));
                } else if is_inside() && !sides.after.contains(&(path, at)) {
                    let goes = undone || revert.to.is_absent();
                    if goes { &mut sides.before } else { &mut sides.after }.insert((path, at));
                }
            }
        }
        let turned = self.turned();
        for (at, inner) in self.reverts.iter().enumerate().filter(|(_, r)| r.from != r.to) {
            for (place, command) in turned.around(inner).into_iter().filter(|(place, _)| at < *place) {
                sides.behind.insert((at, place));
                sides.before.extend(command.map(|command| (at, command)));
            }
        }
        sides
    }

    /// Commands among what lies in what they make, and among what they may work with: the directories and mounts in which they make it, and what of their
    /// role was there when they ran. What that is to a command is not recorded.
    pub(super) fn commands(&mut self) {
        let (before, after) = (&self.sides.before | &self.sides.behind, self.sides.after.clone());
        before.into_iter().for_each(|(object, command)| self.order(object, command));
        after.into_iter().for_each(|(object, command)| self.order(command, object));
        for (at, command) in self.commands_that_run() {
            let undone = is_undone(command);
            let made = creates(command.object);
            for (outer, revert) in self.of("path").filter(|(_, r)| is_dir(r.from) != is_dir(r.to)) {
                let holds =
                    made.as_deref().is_some_and(|made| above(made).any(|dir| dir == revert.object.key));
                match (undone, is_dir(revert.from)) {
                    (true, true) if holds && (revert.to.is_absent() || at < outer) => self.need(at, outer),
                    (false, false) if holds && (revert.from.is_absent() || outer < at) => {
                        self.need(outer, at)
                    }
                    _ => {}
                }
            }
            for (other, revert) in self.reverts.iter().enumerate().filter(|(_, r)| r.from != r.to) {
                if revert.role() != command.role() || self.sides.have(other, at) {
                    continue;
                }
                let (goes, comes) = match revert.object.kind.as_str() {
                    "unit" => match turn_of(revert) {
                        UnitTurn::Stops => (true, false),
                        UnitTurn::Starts { runs } => (false, !runs),
                        UnitTurn::Settles => (false, false),
                    },
                    _ if is_action(revert.object) => (is_run(revert), false),
                    _ if a_unit_may_run_with(revert.object) => (revert.goes(), revert.comes()),
                    // It has a turn of its own.
                    _ => (false, false),
                };
                if goes && other > at && (undone || is_action(revert.object)) {
                    self.order(at, other);
                } else if comes && other < at && !undone {
                    self.order(other, at);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
