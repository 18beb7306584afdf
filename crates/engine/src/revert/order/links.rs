//! Paths that are led back.

use super::commands::is_undone;
use super::{Edges, Revert, place};
use crate::revert::movers::nearest_older;
use crate::revert::paths::above;
use converge_ledger::{led_elsewhere, turns_link};
use converge_objects::is_action;
use converge_objects::path::{led_to, link_target};
use std::collections::HashMap;

/// Links and mounts that go or are turned, each by the path that it is at or leads to: its place, and the command whose `undo` does that.
#[derive(Default)]
pub(super) struct TurnedPaths<'a> {
    at: HashMap<&'a str, Vec<(usize, Option<usize>)>>,
    behind: HashMap<String, Vec<(usize, Option<usize>)>>,
}

impl TurnedPaths<'_> {
    /// Those over which the host comes to an object: by its name, or since its real place is one to which a link leads and which its name does not say.
    pub(super) fn around(&self, inner: &Revert<'_>) -> Vec<(usize, Option<usize>)> {
        let key = place(inner.object).unwrap_or_default();
        let real = inner.real.unwrap_or_default();
        let led = above(real).filter(|dir| !above(key).any(|own| own == *dir));
        let by_name = above(key).filter_map(|dir| self.at.get(dir)).flatten();
        by_name.chain(led.filter_map(|dir| self.behind.get(dir)).flatten()).copied().collect()
    }
}

impl<'a> Edges<'a> {
    /// The links and mounts behind which another object is visible after their revert.
    pub(super) fn turned(&self) -> TurnedPaths<'a> {
        let mut turned = TurnedPaths::default();
        let command =
            |at: usize, revert: &Revert<'_>| revert.moved_by.and_then(|item| self.mover(at, item, is_undone));
        for (at, revert) in self.of("path").filter(|(_, r)| turns_link(r.object, r.from, r.to)) {
            let Some(target) = link_target(revert.from) else { continue };
            let one = (at, command(at, revert));
            turned.at.entry(revert.object.key.as_str()).or_default().push(one);
            let behind = led_to(&revert.object.key, &target);
            behind.into_iter().for_each(|dir| turned.behind.entry(dir).or_default().push(one));
        }
        for (at, revert) in self.with(|object| object.traits().mounts).filter(|(_, r)| r.goes()) {
            // Without a command its own order is enough.
            if let Some(command) = command(at, revert) {
                turned.at.entry(revert.object.key.as_str()).or_default().push((at, Some(command)));
            }
        }
        turned
    }

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
