//! The part of a lane that stands behind a switch: which items go together, and what becomes of them in the end.

use super::{Lane, Next, is_deferred};
use crate::ItemResult;
use crate::barriers::Permit;
use converge_planner::Item;

impl Lane {
    /// The guarded items of one role from this place on that are known by now. When one of them must wait, all do: the switch
    /// waits for nobody.
    pub(super) fn guarded_from(&self, at: usize, gate: &dyn Fn(&Item) -> Permit) -> Result<Vec<u32>, Next> {
        let mut ids = Vec::new();
        let mut group = self.remaining.iter().skip(at);
        let first = group.next();
        let same = |i: &&Item| first.is_some_and(|f| f.role == i.role && f.guard == i.guard);
        for item in first.into_iter().chain(group.take_while(same)) {
            match gate(item) {
                Permit::Go if is_deferred(item) => break,
                Permit::Go => ids.push(item.id),
                Permit::Wait(on, key) => return Err(Next::Wait { role: item.role.clone(), on, key }),
                Permit::Never(_) => break,
            }
        }
        Ok(ids)
    }

    /// Items under the pending automatic revert, each with its own result.
    pub fn unconfirmed(&self) -> &[(Item, ItemResult)] {
        &self.unconfirmed
    }

    /// Whether the next item of the role goes behind the same switch.
    pub fn more_behind(&self, item: &Item) -> bool {
        self.remaining.iter().find(|i| i.role == item.role).is_some_and(|next| next.guard == item.guard)
    }

    /// The next items of a guarded change that is pending. Items that must wait do not join it: its confirmation timeout runs.
    pub(super) fn next_behind(&self, gate: &dyn Fn(&Item) -> Permit) -> Next {
        let last = self.unconfirmed.last().map(|(item, _)| item);
        let Some(last) = last.filter(|last| self.more_behind(last)) else { return Next::Confirm };
        let at = self.remaining.iter().position(|i| i.role == last.role);
        let Some((at, item)) = at.and_then(|at| Some((at, self.remaining.get(at)?))) else {
            return Next::Confirm;
        };
        let group =
            || self.remaining.iter().skip(at).filter(|i| i.role == last.role && i.guard == last.guard);
        let open = |need: &&u32| self.remaining.iter().any(|i| i.id == **need);
        if item.needs.iter().filter(open).any(|need| !group().any(|i| i.id == *need)) {
            return Next::Confirm;
        }
        match self.guarded_from(at, gate) {
            Ok(ids) if ids.is_empty() && is_deferred(item) => Next::Replan,
            Ok(ids) if ids.is_empty() => Next::Confirm,
            Ok(ids) => Next::Guarded(ids),
            Err(_) => Next::Confirm,
        }
    }

    /// Confirms the pending items: their changes stay.
    pub fn confirm(&mut self) -> Vec<(Item, ItemResult)> {
        self.settle(|_, result| result.clone())
    }

    /// Gives the pending items another end than they seemed to have.
    pub fn settle(&mut self, end: impl Fn(&Item, &ItemResult) -> ItemResult) -> Vec<(Item, ItemResult)> {
        let held = std::mem::take(&mut self.unconfirmed);
        let ended: Vec<(Item, ItemResult)> =
            held.into_iter().map(|(item, result)| (item.clone(), end(&item, &result))).collect();
        for (item, result) in &ended {
            if result.is_bad() {
                self.history.changed.remove(&item.address);
                for planned in item.changes() {
                    self.base.insert(planned.change.object.clone(), planned.change.from.clone());
                }
            }
            self.end(item.clone(), result.clone());
        }
        ended
    }
}
