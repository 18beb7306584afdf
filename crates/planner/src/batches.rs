//! The order of a play's hosts: `serial` batches as Ansible makes them, and without `serial` one host first, then a few at a
//! time, for disruptive changes. Pure.

use converge_resource::{MinAvailable, Share, percentage};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The percentage of a play's hosts that are disrupted at a time, after the first host.
const AT_A_TIME: f64 = 5.0;

/// The rules for the order of a play's hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The name of the play.
    pub play: String,
    /// `serial`; empty: none.
    pub serial: Vec<Share>,
    /// `max_fail_percentage`.
    pub max_fail_percentage: Option<f64>,
    /// `any_errors_fatal`.
    pub any_errors_fatal: bool,
    /// `min_available`.
    pub min_available: MinAvailable,
}

/// One host of a play, as planned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub host: String,
    /// The host is unreachable, or was refused.
    pub lost: bool,
    /// It has items of the play to run.
    pub work: bool,
    /// Some of them are disruptive.
    pub disruptive: bool,
    /// Some are deferred and may turn out to be disruptive.
    pub perhaps: bool,
    /// Some have failed in the plan.
    pub failed: bool,
}

/// The order of a play, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayOrder {
    /// The name of the play.
    pub play: String,
    /// True: the whole play runs in these batches (`serial`). False: only its disruptive changes do.
    pub serial: bool,
    /// The batches, first to last.
    pub batches: Vec<Vec<String>>,
}

/// Whether an item may begin on a host now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It may begin.
    Go,
    /// It may begin when these hosts have finished.
    Wait(Vec<String>),
    /// It may not begin in this run: why.
    Never(String),
}

/// The batches of one play during an apply.
#[derive(Clone, Debug)]
pub struct Turns {
    rules: Rules,
    members: Vec<Member>,
    batches: Vec<Vec<String>>,
    /// The batch of each host.
    places: BTreeMap<String, usize>,
    /// The number of the first batch that is not finished.
    first_open: usize,
    /// The number of begun batches that were reported.
    reported: usize,
    /// Hosts that have begun the part that runs in batches.
    begun: BTreeSet<String>,
    /// Hosts that have finished.
    over: BTreeSet<String>,
    /// Hosts on which something failed, with the first failure.
    failed: BTreeMap<String, String>,
    /// Hosts that were released from waiting.
    released: BTreeSet<String>,
    /// The reason why no further item of the play may begin.
    stopped: Option<String>,
}

/// The batches of `serial`, as Ansible makes them: the last size applies to all later batches.
pub fn serial_batches(hosts: &[String], serial: &[Share]) -> Vec<Vec<String>> {
    let mut batches = Vec::new();
    let mut rest = hosts;
    let mut sizes = serial.iter();
    let mut size = Share::Hosts(0);
    while !rest.is_empty() {
        size = sizes.next().copied().unwrap_or(size);
        let (batch, later) = rest.split_at(size.of(hosts.len()).clamp(1, rest.len()));
        batches.push(batch.to_vec());
        rest = later;
    }
    batches
}

/// One host first, then 5 % of `all` hosts at a time, at least one.
pub fn careful_batches(hosts: &[String], all: usize) -> Vec<Vec<String>> {
    let Some((first, rest)) = hosts.split_first() else { return Vec::new() };
    let size = Share::Percent(AT_A_TIME).of(all);
    std::iter::once(vec![first.clone()]).chain(rest.chunks(size).map(<[String]>::to_vec)).collect()
}

impl Turns {
    /// The batches of a play. `members` are all hosts of the play in this run, in inventory order, without those in maintenance.
    pub fn new(rules: Rules, members: Vec<Member>) -> Self {
        let there: Vec<&Member> = members.iter().filter(|m| !m.lost).collect();
        let names = |list: Vec<&Member>| -> Vec<String> { list.iter().map(|m| m.host.clone()).collect() };
        let batches = if rules.serial.is_empty() {
            let mut careful: Vec<&Member> =
                there.iter().copied().filter(|m| m.disruptive || m.perhaps).collect();
            // The first host must be representative: one that is disrupted for sure, and has no errors.
            let canary = |m: &&Member| (m.failed, !m.disruptive);
            let best = careful.iter().enumerate().min_by_key(|(_, m)| canary(m)).map(|(at, _)| at);
            if let Some(best) = best {
                let first = careful.remove(best);
                careful.insert(0, first);
            }
            careful_batches(&names(careful), there.len())
        } else {
            serial_batches(&names(there.clone()), &rules.serial)
        };
        let over = there.iter().filter(|m| !m.work).map(|m| m.host.clone()).collect();
        let places = batches
            .iter()
            .enumerate()
            .flat_map(|(at, batch)| batch.iter().map(move |h| (h.clone(), at)))
            .collect();
        let mut turns = Self {
            rules,
            batches,
            places,
            first_open: 0,
            reported: 0,
            begun: BTreeSet::new(),
            over,
            failed: BTreeMap::new(),
            released: BTreeSet::new(),
            stopped: None,
            members: members.clone(),
        };
        for member in members.iter().filter(|m| m.failed && !m.lost) {
            if turns.counts_planned() {
                turns.fail(&member.host, "its plan has errors");
            }
        }
        turns
    }

    /// Failures that a confirmed plan shows already stop batches only if a rule counts all failures.
    fn counts_planned(&self) -> bool {
        !self.rules.serial.is_empty()
            || self.rules.any_errors_fatal
            || self.rules.max_fail_percentage.is_some()
    }

    /// The order, for people.
    pub fn order(&self) -> PlayOrder {
        PlayOrder {
            play: self.rules.play.clone(),
            serial: !self.rules.serial.is_empty(),
            batches: self.batches.clone(),
        }
    }

    /// Whether an item of the play may begin on this host.
    pub fn may(&mut self, host: &str, disruptive: bool) -> Turn {
        if let Some(why) = &self.stopped {
            return Turn::Never(why.clone());
        }
        if self.rules.serial.is_empty() && !disruptive {
            return Turn::Go;
        }
        let at = match self.places.get(host) {
            Some(at) => *at,
            None => {
                // A host that turns out to be disruptive late comes last.
                let at = self.batches.len();
                self.batches.push(vec![host.to_owned()]);
                self.places.insert(host.to_owned(), at);
                at
            }
        };
        // Only begun batches can have failed.
        for number in 0..at.min(self.first_open + 1) {
            if let Some(why) = self.failure(number) {
                return Turn::Never(why);
            }
        }
        while self.first_open < at
            && let Some(batch) = self.batches.get(self.first_open)
            && !batch.iter().any(|h| self.is_open(h))
        {
            self.first_open += 1;
            if let Some(why) = self.first_open.checked_sub(1).and_then(|n| self.failure(n)) {
                return Turn::Never(why);
            }
        }
        if self.first_open < at && !self.released.contains(host) {
            let batch = self.batches.get(self.first_open).into_iter().flatten();
            return Turn::Wait(batch.filter(|h| self.is_open(h)).cloned().collect());
        }
        if at > 0
            && disruptive
            && !self.begun.contains(host)
            && let Some(why) = self.too_few()
        {
            return Turn::Never(why);
        }
        self.begun.insert(host.to_owned());
        Turn::Go
    }

    fn is_open(&self, host: &str) -> bool {
        let lost = self.members.iter().any(|m| m.host == host && m.lost);
        !self.over.contains(host) && !lost
    }

    /// Takes the batches that have begun and were not reported yet: number, of how many, hosts. Empty if there is only one
    /// batch.
    pub fn take_begun(&mut self) -> Vec<(usize, usize, Vec<String>)> {
        let mut begun = Vec::new();
        while let Some(batch) = self.batches.get(self.reported)
            && (batch.iter().any(|h| self.begun.contains(h)) || !batch.iter().any(|h| self.is_open(h)))
        {
            self.reported += 1;
            if self.batches.len() > 1 && batch.iter().any(|h| self.begun.contains(h)) {
                begun.push((self.reported, self.batches.len(), batch.clone()));
            }
        }
        begun
    }

    /// The play's name.
    pub fn play(&self) -> &str {
        &self.rules.play
    }

    /// Whether other hosts wait for this one to finish.
    pub fn is_awaited(&self, host: &str) -> bool {
        let later = |batch: &Vec<String>| batch.iter().any(|h| self.is_open(h));
        match self.places.get(host) {
            Some(at) => self.is_open(host) && self.batches.iter().skip(at + 1).any(later),
            None => false,
        }
    }

    /// Records that the host has finished the play.
    pub fn finish(&mut self, host: &str) {
        self.over.insert(host.to_owned());
    }

    /// Records a failure of the play on the host; true if it is the first one there.
    pub fn fail(&mut self, host: &str, what: &str) -> bool {
        if self.failed.contains_key(host) {
            return false;
        }
        self.failed.insert(host.to_owned(), what.to_owned());
        if self.rules.any_errors_fatal {
            self.stopped =
                Some(format!("{host}: {what} (`any_errors_fatal` of the play `{}`)", self.rules.play));
        }
        let Some(limit) = self.rules.max_fail_percentage else { return true };
        let all: Vec<String>;
        let batch = match self.places.get(host).and_then(|at| self.batches.get(*at)) {
            Some(batch) if !self.rules.serial.is_empty() => batch,
            _ => {
                all = self.members.iter().filter(|m| !m.lost).map(|m| m.host.clone()).collect();
                &all
            }
        };
        let failed: Vec<&str> =
            batch.iter().filter(|h| self.failed.contains_key(*h)).map(String::as_str).collect();
        if percentage(failed.len(), batch.len()) > limit && self.stopped.is_none() {
            self.stopped = Some(format!(
                "{} of {} failed ({}), and `max_fail_percentage` of the play `{}` is {limit}",
                failed.len(),
                converge_resource::counted(batch.len(), "host"),
                failed.join(", "),
                self.rules.play
            ));
        }
        true
    }

    /// Records that the host is lost. In its own turn that is a failure: the change may have cut it off.
    pub fn lose(&mut self, host: &str) {
        if self.begun.contains(host) && self.is_open(host) {
            self.fail(host, "it was lost in its turn");
        }
        if let Some(member) = self.members.iter_mut().find(|m| m.host == host) {
            member.lost = true;
        }
    }

    /// Releases the first host that waits for its turn; true if there is one.
    pub fn release(&mut self, waiting: &BTreeSet<String>) -> bool {
        let next = self.batches.iter().flatten().find(|h| {
            waiting.contains(*h) && !self.released.contains(*h) && !self.begun.contains(*h) && self.is_open(h)
        });
        let Some(next) = next.cloned() else { return false };
        self.released.insert(next)
    }

    /// The reason why no batch after this one may begin.
    fn failure(&self, number: usize) -> Option<String> {
        let batch = self.batches.get(number)?;
        let failed: Vec<String> =
            batch.iter().filter_map(|h| self.failed.get(h).map(|what| format!("{h}: {what}"))).collect();
        let allowed = match (self.rules.max_fail_percentage, self.rules.serial.is_empty()) {
            (Some(limit), _) => percentage(failed.len(), batch.len()) <= limit,
            (None, true) => failed.is_empty(),
            // As in Ansible: the play ends if a whole batch has failed.
            (None, false) => failed.len() < batch.len(),
        };
        if allowed {
            return None;
        }
        let which = match (number, batch.len(), self.rules.serial.is_empty()) {
            (0, 1, true) => "the first host".to_owned(),
            _ => format!("batch {}", number + 1),
        };
        Some(format!("{which} of the play `{}` failed ({})", self.rules.play, failed.join("; ")))
    }

    fn too_few(&self) -> Option<String> {
        let all = self.members.len();
        let there = self.members.iter().filter(|m| !m.lost).count();
        if self.rules.min_available.holds(there, all) {
            return None;
        }
        Some(format!(
            "only {there} of {} of the play `{}` are there, and `min_available` is {}",
            converge_resource::counted(all, "host"),
            self.rules.play,
            self.rules.min_available
        ))
    }
}

#[cfg(test)]
#[path = "batches_tests.rs"]
mod tests;
