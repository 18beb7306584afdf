//! Events about the parts of a lane's work, for those who look for its time.

use super::HostRun;
use crate::{Activity, Event, ItemPhase};
use converge_planner::Item;

impl HostRun {
    /// The host waits for this, until [`HostRun::wait`] is emptied or another wait begins. It wakes up each time others come further, and
    /// goes on with the same wait.
    pub(super) fn waits_for(&mut self, key: &str, activity: Activity) {
        if self.wait.as_ref().is_none_or(|(present, _)| present != key) {
            self.wait = None;
            self.wait = Some((key.to_owned(), self.context.begin(&self.lane.host, activity)));
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
