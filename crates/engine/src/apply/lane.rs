//! The sequence of one target's items in an apply: the next items, and whether a new observation still permits them. Pure.

mod behind;
mod beside;
mod rebind;

pub(crate) use beside::ClaimedObject;

use crate::ItemResult;
use crate::barriers::Permit;
use converge_planner::{History, HostPlan, Item, Outcome, place};
use converge_resource::{Change, Content, Digest, ObjectId, State};
use std::collections::{BTreeMap, BTreeSet};

/// The word for a fact among the objects of a window.
pub(crate) const FACT: &str = "fact";

/// The unfinished items of one target, and the results of the finished ones.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub host: String,
    remaining: Vec<Item>,
    finished: Vec<(Item, ItemResult)>,
    /// Items under a pending automatic revert, each with its own result: not confirmed yet.
    unconfirmed: Vec<(Item, ItemResult)>,
    /// Items without work, by address: foreign code may still give them some.
    resting: BTreeMap<String, (Item, ItemResult)>,
    /// The address of every item by its number in the latest plan: what `needs` names.
    addresses: BTreeMap<u32, String>,
    /// Failed items, and items that depended on one but were done in the same transaction; nothing may depend on them. Each with the failed one.
    bad: BTreeMap<String, String>,
    /// Positions across which package items must not be joined into one transaction.
    between: BTreeSet<(u32, u32)>,
    history: History,
    /// The claims of every item, by its number in the latest plan.
    claims: BTreeMap<u32, Vec<ObjectId>>,
    /// Every claimed object as planned or accepted so far.
    base: BTreeMap<ObjectId, State>,
    /// Objects that foreign code changed in an opaque window: their new state was accepted.
    accepted: BTreeSet<ObjectId>,
    /// The changes of objects of a cluster by the foreign code of items, each with the number of items that had finished before.
    moved: Vec<(usize, Change)>,
    /// The facts that every item reads, by its number in the latest plan.
    reads: BTreeMap<u32, BTreeSet<String>>,
    /// Facts that foreign code has changed, with the address of the item that did it last.
    moved_facts: BTreeMap<String, String>,
    contents: BTreeMap<Digest, Content>,
    look_again: bool,
    in_order: bool,
    /// Nothing is planned again: from the first deferred item on, all are skipped.
    stops_at_deferred: bool,
    /// Items, by address, of which what must be on this machine first is there, or need not be.
    brought: BTreeSet<String>,
}

/// The next step of a lane.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send these items, by number.
    Send(Vec<u32>),
    /// Restart the host for this item, by number, and go on in another session.
    Restart(u32),
    /// Send these items, by number, behind a switch: they are guarded.
    Guarded(Vec<u32>),
    /// Ask another host for what this item needs, by number, or bring what must be here before it, and send it alone.
    Fetch(u32),
    /// Look at the host again and plan the rest anew.
    Replan,
    /// Confirm the items under the pending automatic revert: no further item can join them now.
    Confirm,
    /// Everything waits for other hosts; this is what the first item waits for.
    Wait {
        /// Its role.
        role: String,
        /// For what, for people.
        on: String,
        /// The same for what need not be reported twice.
        key: String,
    },
    /// All is over.
    Done,
}

impl Lane {
    pub fn new(plan: HostPlan) -> Self {
        let mut lane = Self {
            host: plan.host,
            base: plan.base.into_iter().collect(),
            contents: plan.contents,
            addresses: plan.items.iter().map(|i| (i.id, i.address.clone())).collect(),
            claims: plan.items.iter().map(|i| (i.id, i.claims.clone())).collect(),
            reads: facts_by_item(&plan.items),
            between: beside::between(&plan.items),
            ..Self::default()
        };
        for item in plan.items {
            lane.admit(item);
        }
        lane
    }

    fn admit(&mut self, item: Item) {
        match &item.outcome {
            Outcome::Changed(_) | Outcome::Deferred { .. } | Outcome::Adopt(_) | Outcome::Forget(_) => {
                self.remaining.push(item);
            }
            Outcome::Failed(problem) => {
                let message = problem.message.clone();
                self.end(item, ItemResult::Failed { message, output: String::new() });
            }
            Outcome::Refused(why) => {
                let message = why.clone();
                self.end(item, ItemResult::Refused { message });
            }
            Outcome::Unchanged => self.rest(item, ItemResult::Unchanged),
            Outcome::Skipped(why) => {
                let why = why.clone();
                self.rest(item, ItemResult::NotApplicable { why });
            }
        }
    }

    fn rest(&mut self, item: Item, result: ItemResult) {
        // A wait whose turn has come is over, whatever comes after it: it must not hold up what follows when that is planned anew.
        if item.only_waits() {
            self.history.over.insert(item.address.clone());
        }
        self.resting.insert(item.address.clone(), (item, result));
    }

    pub fn remaining(&self) -> &[Item] {
        &self.remaining
    }

    /// The address of every item by its number in the latest plan.
    pub fn addresses(&self) -> &BTreeMap<u32, String> {
        &self.addresses
    }

    /// The items that have ended.
    pub fn history(&self) -> History {
        let mut history = self.history.clone();
        history.over.extend(self.passed());
        history
    }

    /// Items that only check, and whose moment has passed: the check held then, whatever the run has made since.
    pub fn passed(&self) -> BTreeSet<String> {
        let next = self.remaining.iter().map(|i| place(i.id)).min();
        let held = self.resting.values().filter(|(item, _)| item.outcome == Outcome::Unchanged);
        let resting = held.map(|(item, _)| item);
        let passed =
            resting.filter(|item| item.claims.is_empty() && next.is_none_or(|next| place(item.id) < next));
        passed.map(|item| item.address.clone()).collect()
    }

    /// Takes contents that the items' states name.
    pub fn learn(&mut self, contents: Vec<Content>) {
        self.contents.extend(contents.into_iter().map(|c| (c.digest().clone(), c)));
    }

    pub fn contents(&self) -> &BTreeMap<Digest, Content> {
        &self.contents
    }

    /// The facts that items after this one read.
    pub fn facts_read_after(&self, id: u32) -> BTreeSet<String> {
        let later = self.reads.iter().filter(|(other, _)| place(**other) > place(id));
        later.flat_map(|(_, facts)| facts).cloned().collect()
    }

    pub fn finished(&self) -> &[(Item, ItemResult)] {
        &self.finished
    }

    /// Every item with how it ended, in the order of the plan.
    pub fn into_finished(self) -> Vec<(Item, ItemResult)> {
        let mut finished = self.finished;
        finished.extend(self.resting.into_values());
        finished.sort_by_key(|(item, _)| place(item.id));
        finished
    }

    /// Whether an item with such an address is still to come, or not confirmed.
    pub fn is_open(&self, is: impl Fn(&str) -> bool) -> bool {
        let open = self.remaining.iter().chain(self.unconfirmed.iter().map(|(item, _)| item));
        open.into_iter().any(|item| is(&item.address))
    }

    /// Whether any item of this role is still to come, and whether one has failed.
    pub fn role_state(&self, role: &str) -> (bool, bool) {
        let open = self.remaining.iter().chain(self.unconfirmed.iter().map(|(i, _)| i));
        let open = open.into_iter().any(|i| i.role == role);
        let failed = self.finished.iter().any(|(i, r)| i.role == role && r.is_bad());
        (open, failed)
    }

    /// Skips all items from the first deferred one on, instead of planning them again.
    pub fn stop_at_deferred(&mut self) {
        self.stops_at_deferred = true;
    }

    /// Decides what comes next. `gate` tells whether an item may begin.
    pub fn next(&mut self, gate: &dyn Fn(&Item) -> Permit) -> Next {
        self.skip_what_cannot_be(gate);
        if self.stops_at_deferred
            && let Some(at) = self.remaining.iter().position(is_deferred)
        {
            for item in self.remaining.split_off(at) {
                self.end(item, ItemResult::Skipped { because: "--no-deferred stops here".to_owned() });
            }
        }
        // Changed objects may be claimed by items that had nothing to do so far.
        if self.look_again {
            return Next::Replan;
        }
        // Nothing else begins while an automatic revert is pending: its confirmation timeout runs.
        if !self.unconfirmed.is_empty() {
            return self.next_behind(gate);
        }
        let mut send = Vec::new();
        let mut held: BTreeSet<u32> = BTreeSet::new();
        let mut wait = None;
        for (at, item) in self.remaining.iter().enumerate() {
            if !item.needs.iter().any(|need| held.contains(need)) {
                match gate(item) {
                    Permit::Go if is_deferred(item) && send.is_empty() && held.is_empty() => {
                        return Next::Replan;
                    }
                    // A deferred item ends a stretch.
                    Permit::Go if is_deferred(item) => break,
                    // So does what is guarded. Its group is sent whole or not at all.
                    Permit::Go if item.guard.is_some() => {
                        if !send.is_empty() {
                            break;
                        }
                        match self.guarded_from(at, gate) {
                            Ok(ids) => return Next::Guarded(ids),
                            Err(waits) => {
                                wait.get_or_insert(waits);
                            }
                        }
                    }
                    // So does a restart, which comes alone, and not before what still waits for other hosts.
                    Permit::Go if restarts(item) => {
                        if !send.is_empty() {
                            break;
                        }
                        if held.is_empty() {
                            return Next::Restart(item.id);
                        }
                    }
                    // An item that asks another host, or fetches a copy, may take its time: the others come first.
                    Permit::Go if item.comes_alone() => {
                        if send.is_empty() {
                            return Next::Fetch(item.id);
                        }
                        break;
                    }
                    Permit::Go => {
                        send.push(item.id);
                        continue;
                    }
                    Permit::Wait(on, key) => {
                        wait.get_or_insert_with(|| Next::Wait { role: item.role.clone(), on, key });
                    }
                    Permit::Never(_) => {}
                }
            }
            // Others go on past an item that waits, unless they stand on it.
            held.insert(item.id);
            if self.in_order {
                break;
            }
        }
        if !send.is_empty() {
            return Next::Send(send);
        }
        match wait {
            Some(wait) => wait,
            None if self.remaining.is_empty() => Next::Done,
            // A gate has closed for good in the meantime.
            None => self.next(gate),
        }
    }

    /// The copies that an item needs on this machine are there, or are not needed: adds a note that says so.
    pub fn brought(&mut self, id: u32, note: String) {
        if let Some(item) = self.note(id, note) {
            self.brought.insert(item);
        }
    }

    /// Adds a remark to an item that is still to come, and returns its address.
    pub fn note(&mut self, id: u32, note: String) -> Option<String> {
        let item = self.remaining.iter_mut().find(|i| i.id == id)?;
        item.notes.push(note);
        Some(item.address.clone())
    }

    /// Whether an item may begin as far as that goes.
    pub fn is_backed_up(&self, item: &Item) -> bool {
        item.backup.is_none() || self.brought.contains(&item.address)
    }

    /// Nothing overtakes an item that waits, whatever it needs.
    pub fn keep_order(&mut self) {
        self.in_order = true;
    }

    fn skip_what_cannot_be(&mut self, gate: &dyn Fn(&Item) -> Permit) {
        let mut at = 0;
        while let Some(item) = self.remaining.get(at) {
            let mut needs = item.needs.iter().filter_map(|n| self.addresses.get(n));
            let need = needs.find_map(|a| self.bad.get(a)).map(|a| format!("`{a}`"));
            let because = need.or_else(|| match gate(item) {
                Permit::Never(why) => Some(why),
                Permit::Go | Permit::Wait(..) => None,
            });
            match because {
                Some(because) => {
                    let item = self.remaining.remove(at);
                    self.end(item, ItemResult::Skipped { because });
                }
                None => at += 1,
            }
        }
    }

    /// Records how an item ended.
    pub fn finish(&mut self, id: u32, result: ItemResult, after: &[(ObjectId, State)]) -> Option<Item> {
        let at = self.remaining.iter().position(|i| i.id == id)?;
        let item = self.remaining.remove(at);
        for (object, state) in after {
            self.base.insert(object.clone(), state.clone());
        }
        let ended = matches!(
            result,
            ItemResult::Unchanged | ItemResult::NotApplicable { .. } | ItemResult::Skipped { .. }
        );
        if item.guard.is_some() && !ended {
            self.resting.remove(&item.address);
            self.history.changed.insert(item.address.clone());
            self.unconfirmed.push((item.clone(), result));
        } else {
            self.end(item.clone(), result);
        }
        Some(item)
    }

    fn end(&mut self, item: Item, result: ItemResult) {
        let address = item.address.clone();
        self.resting.remove(&address);
        let recorded = item.only_records() && !result.is_bad();
        let result = if recorded { ItemResult::Unchanged } else { result };
        if result == ItemResult::Changed {
            self.history.changed.insert(address);
        } else {
            if result.is_bad() {
                self.bad.insert(address.clone(), address.clone());
            }
            self.history.over.insert(address);
        }
        self.finished.push((item, result));
    }

    /// Everything that is left ends so.
    pub fn end_all(&mut self, result: &ItemResult) {
        let message = "it was not confirmed: the host reverts it by itself".to_owned();
        self.settle(|_, _| ItemResult::PutBack { message: message.clone(), output: String::new() });
        for item in std::mem::take(&mut self.remaining) {
            self.end(item, result.clone());
        }
    }
}

/// The facts that each item reads, by its number.
fn facts_by_item(items: &[Item]) -> BTreeMap<u32, BTreeSet<String>> {
    items.iter().map(|i| (i.id, i.facts.clone())).collect()
}

/// `role/name[key]` → `role/name`
pub(crate) fn element_of(address: &str) -> &str {
    address.split_once('[').map_or(address, |(list, _)| list)
}

fn is_deferred(item: &Item) -> bool {
    matches!(item.outcome, Outcome::Deferred { .. })
}

/// Whether it restarts its host.
pub(crate) fn restarts(item: &Item) -> bool {
    item.changes().iter().any(|c| converge_objects::traits_of(&c.change.object).restarts_host)
}

#[cfg(test)]
#[path = "lane_tests.rs"]
pub(crate) mod tests;
