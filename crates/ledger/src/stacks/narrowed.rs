//! Rollbacks of some roles: what other roles have changed before in the same objects stays.

use super::{Ledger, Thing, is_done};
use crate::layers::MountLayer;
use crate::{RunPurpose, RunRecord, SavedChange};
use converge_resource::{ObjectId, State, role_of};
use std::collections::BTreeSet;

/// A change with the place of its run, the file system in which its object lies, and the states in which a rollback may have left the object.
type StackedChange<'a> = (usize, MountLayer, &'a SavedChange, Vec<State>);

impl<'a> Ledger<'a> {
    /// The same, of which reverts take back only what these roles have changed last; all if none is named.
    #[must_use]
    pub fn of_roles(self, roles: &[String]) -> Self {
        Self { roles: roles.to_vec(), ..self }
    }

    /// Whether a rollback of some roles has brought an object to the state in which a step found it: the earlier ones are those of other roles.
    pub(super) fn is_back_to_other_role(
        &self,
        run: &RunRecord,
        object: &Thing<'a>,
        change: &SavedChange,
    ) -> bool {
        let of_roles = matches!(&run.purpose, RunPurpose::Rollback(roles) if !roles.is_empty());
        let mut steps = self.stacks.get(object).into_iter().flatten().filter_map(|step| self.change(step));
        of_roles && is_done(change) && steps.any(|step| step.before == change.after)
    }
}

/// Of these steps, oldest first, those after the last one that another role has made in the same object.
pub(super) fn last_of<'a>(
    roles: &[String],
    steps: impl Iterator<Item = StackedChange<'a>>,
) -> Vec<StackedChange<'a>> {
    let mut steps: Vec<StackedChange<'a>> = steps.collect();
    if roles.is_empty() {
        return steps;
    }
    let mut others: BTreeSet<(ObjectId, MountLayer)> = BTreeSet::new();
    steps.reverse();
    steps.retain(|(_, layer, change, _)| {
        let thing = (change.object.clone(), layer.clone());
        if change.may_have_happened() && !roles.iter().any(|role| role == role_of(&change.item)) {
            others.insert(thing.clone());
        }
        !others.contains(&thing)
    });
    steps.reverse();
    steps
}
