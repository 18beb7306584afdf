//! Paths that are led back.

use super::{Edges, Revert, is_undone};
use converge_ledger::led_elsewhere;
use std::collections::HashMap;

impl<'a> Edges<'a> {
    /// The steps back of each path that runs have led elsewhere, each with the command whose `undo` leads it back.
    pub(super) fn links(&self) -> HashMap<&'a str, Vec<(usize, Option<usize>)>> {
        let led = |(_, r): &(usize, &Revert<'_>)| {
            led_elsewhere(r.object, r.to, r.from, r.moved_by.is_some()).is_some()
        };
        let mut links: HashMap<&str, Vec<(usize, Option<usize>)>> = HashMap::new();
        for (at, revert) in self.of("path").filter(led) {
            let command = revert.moved_by.and_then(|item| self.mover(at, item, is_undone));
            links.entry(revert.object.key.as_str()).or_default().push((at, command));
        }
        links
    }

    /// The command of an item that has changed the object at this place, among those for which `is_one` holds.
    pub(super) fn mover(&self, at: usize, item: &str, is_one: impl Fn(&Revert<'_>) -> bool) -> Option<usize> {
        let commands = self.of("command").filter(|(_, c)| c.item == item && is_one(c));
        nearest_older(at, commands.map(|(command, _)| command))
    }
}

/// The run of a command that has changed the object at this place: an item of one name can be another command in each run, and what foreign code has
/// changed is recorded after it.
pub(crate) fn nearest_older(at: usize, commands: impl Iterator<Item = usize>) -> Option<usize> {
    commands.min_by_key(|command| (*command < at, *command))
}
