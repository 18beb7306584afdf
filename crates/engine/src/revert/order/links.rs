//! Paths that are led back.

use super::commands::is_undone;
use super::{Edges, Revert};
use crate::revert::movers::nearest_older;
use converge_ledger::led_elsewhere;
use converge_objects::is_action;
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

    /// The command of an item that has changed the object at this place, where it goes back and `is_one` holds for it. Another one of the item is none
    /// in its place: of a link that runs lead on and on, only the command of the last one is still done.
    pub(super) fn mover(&self, at: usize, item: &str, is_one: impl Fn(&Revert<'_>) -> bool) -> Option<usize> {
        let all = self.reverts.iter().enumerate();
        let commands = all.filter(|(_, r)| is_action(r.object) && r.item == item);
        let mover = nearest_older(at, commands.map(|(command, _)| command))?;
        self.reverts.get(mover).filter(|command| command.from != command.to && is_one(command)).map(|_| mover)
    }
}
