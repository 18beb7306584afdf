//! Events about the parts of a lane's work, for those who look for its time.

use super::TargetRun;
use crate::event::InProgress;
use crate::{Activity, Event, ItemPhase, TimedItem};
use converge_planner::Item;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The times of a lane, and what of its work was reported.
pub(super) struct LaneProgress {
    /// Waits that were reported.
    pub(super) waits: BTreeSet<String>,
    /// Roles with work here that were not said to be over yet.
    pub(super) untold: BTreeSet<String>,
    /// The duration of each item, by address.
    pub(super) times: BTreeMap<String, Duration>,
    /// When the apply began.
    pub(super) epoch: Instant,
    /// Since when this host has done nothing but wait.
    pub(super) idle_since: Option<Duration>,
    /// The present wait for others, by the key of what it waits for.
    pub(super) wait: Option<(String, InProgress)>,
    /// Items that the host does together now.
    pub(super) together: Option<InProgress>,
}

impl LaneProgress {
    pub(super) fn new(epoch: Instant, untold: BTreeSet<String>) -> Self {
        Self {
            waits: BTreeSet::new(),
            untold,
            times: BTreeMap::new(),
            epoch,
            idle_since: None,
            wait: None,
            together: None,
        }
    }
}

impl TargetRun {
    /// The host waits for this, until `wait` is emptied or another wait begins. It wakes up each time others come further, and
    /// goes on with the same wait.
    pub(super) fn waits_for(&mut self, key: &str, activity: Activity) {
        if self.progress.wait.as_ref().is_none_or(|(present, _)| present != key) {
            self.progress.wait = None;
            self.progress.wait = Some((key.to_owned(), self.context.begin(&self.lane.host, activity)));
        }
    }

    /// Reports the parts of an item's work that these lines of its host name.
    pub(super) fn tell_phases(&self, id: u32, token: &str, lines: &[u8]) {
        if self.context.options.phases {
            for phase in phases(token, lines) {
                self.context.events.send(Event::ItemPhase { host: self.lane.host.clone(), id, phase });
            }
        }
    }

    /// Records the time of an item. Both ends count from the beginning of the apply.
    pub(super) fn record_time(&mut self, item: &Item, begun: Duration, ended: Duration) {
        self.gates.record(TimedItem {
            host: self.lane.host.clone(),
            address: item.address.clone(),
            begun,
            ended,
            waited: self.progress.idle_since.take(),
        });
    }

    /// An item that had begun comes again.
    pub(super) fn put_off(&self, item: &Item) {
        self.context.events.send(Event::ItemPutOff { host: self.lane.host.clone(), id: item.id });
    }

    /// The same, after a fresh look.
    pub(super) fn begin_again(&mut self, item: &Item) {
        self.put_off(item);
        self.lane.ask_to_look_again();
    }
}

fn phases(token: &str, lines: &[u8]) -> Vec<ItemPhase> {
    let mark = format!("cv:{token}\tphase\t");
    let text = String::from_utf8_lossy(lines);
    text.lines().filter_map(|line| ItemPhase::parse(line.split_once(&mark)?.1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_with_the_token_name_a_part() {
        let lines = b"cv:a\tphase\tsave\nsaid cv:a\tphase\tchange\ncv:b\tphase\tcheck\ncv:a\tphase\tx\ncv:a\tnow\t1\n";
        assert_eq!(phases("a", lines), [ItemPhase::Save, ItemPhase::Change]);
    }
}
