//! The rest of a lane, planned again: what changed meanwhile, and whether the new plan stays inside the one that was shown and agreed to.

use super::{FACT, Lane, beside, element_of, facts_by_item};
use crate::ItemResult;
use crate::apply::outside_plan::OutsidePlan;
use converge_objects::{is_of_api, k8s as text};
use converge_planner::{HostPlan, Item, Outcome, Problem, place};
use converge_resource::{Change, ObjectId, State};
use std::collections::BTreeMap;

impl Lane {
    /// Foreign code ran: `before` and `after` are what the host showed around it. A change is accepted when it
    /// was as planned before.
    pub fn window(
        &mut self,
        by: &Item,
        before: &BTreeMap<ObjectId, State>,
        after: &BTreeMap<ObjectId, State>,
    ) {
        for (object, now) in after {
            if object.kind == FACT {
                if before.get(object) != Some(now) {
                    self.look_again = true;
                    self.moved_facts.insert(object.key.clone(), by.address.clone());
                }
                continue;
            }
            let as_planned = before.get(object).is_some_and(|b| self.base.get(object) == Some(b));
            if before.get(object) != Some(now) {
                self.look_again = true;
                if let Some(from) = before.get(object).filter(|_| is_of_api(object)) {
                    let change = Change { object: object.clone(), from: from.clone(), to: now.clone() };
                    self.moved.push((self.finished.len(), change));
                }
                if as_planned {
                    self.base.insert(object.clone(), now.clone());
                    self.accepted.insert(object.clone());
                }
            }
        }
    }

    /// The changes that releases made of objects of a cluster after the run's own last changes of these.
    pub fn moved_last(&self) -> impl Iterator<Item = &Change> {
        let own = |change: &Change, (item, _): &(Item, ItemResult)| {
            item.changes().iter().any(|own| own.change.object == change.object)
        };
        let is_last = move |(at, change): &&(usize, Change)| {
            let mut since = self.finished.iter().skip(*at);
            let is_done = since.next().is_some_and(|(_, result)| *result == ItemResult::Changed);
            is_done && !since.any(|finished| own(change, finished))
        };
        self.moved.iter().filter(is_last).map(|(_, change)| change)
    }

    /// The host has restarted. What that changed is accepted, and the rest is planned again.
    pub fn restarted(&mut self, by: &str) {
        let read = self.reads.values().flatten();
        self.moved_facts.extend(read.map(|fact| (fact.clone(), by.to_owned())));
        self.accepted.extend(self.claims.values().flatten().cloned());
        self.base.clear();
        self.look_again = true;
    }

    /// The host asks for a fresh look before it goes on.
    pub fn ask_to_look_again(&mut self) {
        self.look_again = true;
    }

    /// Takes a plan made on a fresh look for what is left. Returns the items that were deferred or planned against
    /// another base, and are resolved.
    pub fn rebind(&mut self, fresh: HostPlan) -> Vec<Item> {
        self.look_again = false;
        for (object, state) in fresh.base {
            self.base.entry(object).or_insert(state);
        }
        self.contents.extend(fresh.contents);
        self.claims = fresh.items.iter().map(|i| (i.id, i.claims.clone())).collect();
        self.reads = facts_by_item(&fresh.items);
        self.between = beside::between(&fresh.items);
        self.addresses = fresh.items.iter().map(|i| (i.id, i.address.clone())).collect();
        let mut old: BTreeMap<String, Item> =
            std::mem::take(&mut self.remaining).into_iter().map(|i| (i.address.clone(), i)).collect();
        let mut resolved = Vec::new();
        for new in fresh.items {
            if self.history.changed.contains(&new.address) || self.history.over.contains(&new.address) {
                continue;
            }
            match old.remove(&new.address) {
                Some(before) => {
                    // An item of a guarded group stays in it.
                    let guard = new.guard.or(before.guard);
                    let new = Item { guard, ..new };
                    match self.allowed(&before, &new) {
                        Err(outside) => {
                            self.end(before, ItemResult::Refused { message: outside.to_string() })
                        }
                        Ok(()) => self.take(before, new, &mut resolved),
                    }
                }
                // An element of a `for_each` over what was not known.
                None if new.is_pending() && old.contains_key(element_of(&new.address)) => {
                    resolved.push(new.clone());
                    self.remaining.push(new);
                }
                // A deferred item needs something to be done first.
                None if place(new.id).1 != u32::MAX && new.is_pending() => {
                    resolved.push(new.clone());
                    self.remaining.push(new);
                }
                // It was unchanged, and foreign code of this run has changed it, or made it apply.
                None if new.is_pending() && (self.is_accepted(&new) || self.reads_what_moved(&new)) => {
                    resolved.push(new.clone());
                    self.remaining.push(new);
                }
                None => {}
            }
        }
        // The items that are left are lists of `for_each` whose elements stand for them now.
        for (_, item) in old {
            self.end(item, ItemResult::Unchanged);
        }
        resolved
    }

    fn take(&mut self, before: Item, new: Item, resolved: &mut Vec<Item>) {
        match &new.outcome {
            Outcome::Unchanged => self.end(new, ItemResult::Unchanged),
            Outcome::Skipped(why) => {
                let why = why.clone();
                self.end(new, ItemResult::NotApplicable { why });
            }
            Outcome::Failed(Problem { message, .. }) => {
                let message = message.clone();
                self.end(new, ItemResult::Failed { message, output: String::new() });
            }
            Outcome::Refused(message) => {
                let message = message.clone();
                self.end(new, ItemResult::Refused { message });
            }
            // Other hosts still make it known.
            Outcome::Deferred { .. } if !new.waits_for_others.is_empty() => self.remaining.push(new),
            Outcome::Deferred { wait, .. } if self.remaining.is_empty() => {
                // Everything before it is over, so nothing can make it known any more.
                let message =
                    format!("it is still not known after all earlier resources have run: {}", wait.reason);
                self.end(new, ItemResult::Failed { message, output: String::new() });
            }
            Outcome::Deferred { .. } | Outcome::Adopt(_) | Outcome::Forget(_) => self.remaining.push(new),
            Outcome::Changed(_) => {
                if new.outcome != before.outcome {
                    resolved.push(new.clone());
                }
                self.remaining.push(new);
            }
        }
    }

    fn is_accepted(&self, item: &Item) -> bool {
        item.changes().iter().any(|c| self.accepted.contains(&c.change.object))
    }

    /// Whether an item reads facts that earlier foreign code has changed: then its result may differ from the shown plan.
    fn reads_what_moved(&self, item: &Item) -> bool {
        let number = |address: &String| self.addresses.iter().find(|(_, a)| *a == address).map(|(id, _)| *id);
        let moved = item.facts.iter().filter_map(|fact| self.moved_facts.get(fact));
        moved.filter_map(number).any(|by| place(by) < place(item.id))
    }

    /// Whether a fresh plan of an item stays inside what was shown and agreed to.
    fn allowed(&self, before: &Item, new: &Item) -> Result<(), OutsidePlan> {
        let moved = |object: &ObjectId| self.accepted.contains(object);
        match (&before.outcome, &new.outcome) {
            (Outcome::Changed(old), Outcome::Changed(fresh)) => {
                for planned in fresh {
                    let object = &planned.change.object;
                    match old.iter().find(|c| c.change.object == *object) {
                        _ if moved(object) => {}
                        Some(was) if was.change.from == planned.change.from => {}
                        Some(was) if comes_by_itself(object, &was.change.from, &planned.change.from) => {}
                        Some(was) if self.same_fields(&was.change, &planned.change) => {}
                        Some(was) => {
                            return Err(OutsidePlan::Moved {
                                object: object.clone(),
                                planned: was.change.from.clone(),
                                found: planned.change.from.clone(),
                            });
                        }
                        None => return Err(OutsidePlan::Added(object.clone())),
                    }
                }
                Ok(())
            }
            (Outcome::Changed(_), Outcome::Unchanged) if self.reads_what_moved(new) => Ok(()),
            (Outcome::Changed(old), Outcome::Unchanged) => {
                let settled = |c: &Change| comes_by_itself(&c.object, &c.from, &c.to);
                match old.iter().find(|c| !moved(&c.change.object) && !settled(&c.change)) {
                    Some(was) => Err(OutsidePlan::ChangedByOthers {
                        object: was.change.object.clone(),
                        planned: was.change.from.clone(),
                    }),
                    None => Ok(()),
                }
            }
            (Outcome::Deferred { objects, .. }, Outcome::Changed(fresh)) if !objects.is_empty() => {
                match fresh.iter().find(|c| {
                    !converge_objects::traits_of(&c.change.object).one_transaction
                        && !objects.iter().any(|o| o.covers(&c.change.object))
                }) {
                    Some(c) => Err(OutsidePlan::NotNamed(c.change.object.clone())),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether two changes of an object of a cluster set the same fields from the same values: others may write its other fields at any time.
    pub(super) fn same_fields(&self, old: &Change, new: &Change) -> bool {
        let Some(object) = converge_objects::object(&old.object.kind) else { return false };
        let read = |state: &State| text::from_text(self.contents.get(&object.content(state)?)?);
        let fields =
            |change: &Change| Some(text::fields::differences(&read(&change.from)?, &read(&change.to)?));
        object.cluster().of_api() && fields(old).is_some_and(|was| fields(new) == Some(was))
    }
}

/// Whether an object comes from the one state to the other with nobody's doing: what is waited for, the pods of a workload, a unit whose file
/// is there now.
fn comes_by_itself(object: &ObjectId, from: &State, to: &State) -> bool {
    converge_objects::object(&object.kind).is_some_and(|o| {
        o.traits().passes || o.shared().same(from, to) || (from.is_absent() && o.links().bare(to))
    })
}
