//! Releases that stay since what runs in force have changed would go with them, for good or with the revision to which they are led: runs of other projects,
//! and later ones that are not reverted. A namespace and the definition of a kind take such objects along too, and need a permission anyway: it is named with them.

use super::taken::{goes_with, taken_with, takes_others};
use super::unset::{InForce, RetainedChanges};
use crate::TargetError;
use crate::connect::target::Target;
use crate::revert::RevertGroup;
use crate::revert::order::namespaces::goes_along;
use crate::revert::undo::{Verdict, text_of};
use converge_ledger::Undo;
use converge_objects::k8s::fields::{leaf_differences, read};
use converge_objects::{api_ref, release_of, title_of};
use converge_planner::Knowledge;
use converge_resource::{ApiRef, Change, ObjectId, Probe, State};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The objects that go along with another by a change of it.
enum Dependents<'c> {
    /// The objects that helm deletes, and the release's namespace.
    Release(&'c str, Vec<Value>),
    /// The objects that lie in a namespace, or are of the kind that a definition, by its text, defines.
    Inside(ApiRef, Option<Value>),
}

impl<'c> Dependents<'c> {
    fn by(change: &'c Change, known: &Knowledge) -> Option<Self> {
        if release_of(&change.object).is_some() {
            let (namespace, manifests) = taken_with(change, known)?;
            return Some(Self::Release(namespace, manifests));
        }
        let goes = !change.from.is_absent() && change.to.is_absent() && takes_others(&change.object);
        let outer = api_ref(&change.object).filter(|_| goes)?;
        Some(Self::Inside(outer, text_of(&change.object, &change.from, known)))
    }

    fn takes(&self, object: &ObjectId) -> bool {
        match self {
            Self::Release(namespace, manifests) => goes_with(manifests, namespace, object),
            Self::Inside(outer, text) => goes_along(outer, text.as_ref(), object),
        }
    }
}

/// Whether an object goes along with another one by this change of that.
pub(crate) fn goes_by(change: &Change, object: &ObjectId, known: &Knowledge) -> bool {
    change.object != *object && Dependents::by(change, known).is_some_and(|along| along.takes(object))
}

/// An object that would go with another one, and the run in force that has changed it, for people.
pub(crate) struct DependentObject {
    object: String,
    run: String,
}

impl DependentObject {
    /// The reason why a release stays.
    pub fn refusal(&self, release: &ObjectId) -> String {
        let Self { object, run } = self;
        format!(
            "{object} would be removed with it, and was changed by {run}, which is in force: roll that run back first, \
             or `--allow-destroy {release}` takes it along"
        )
    }

    /// The sentence about what goes by a permission.
    pub fn note(&self) -> String {
        format!("{} goes with it, and {}, has changed it and is in force", self.object, self.run)
    }
}

/// The first object that this change takes along and that shows what one of these changes in force has made of it.
pub(crate) async fn held_by(
    target: &Target,
    change: &Change,
    retained: &RetainedChanges,
    known: &mut Knowledge,
) -> Result<Option<DependentObject>, TargetError> {
    let Some(along) = Dependents::by(change, known) else { return Ok(None) };
    let keeps = |changes: &[InForce]| changes.iter().any(|change| change.keeps.is_some());
    let inside = retained
        .objects()
        .filter(|(object, changes)| **object != change.object && keeps(changes) && along.takes(object));
    let inside: BTreeSet<ObjectId> = inside.map(|(object, _)| object.clone()).collect();
    retained.learn(&inside, target, known).await?;
    let probes = inside.iter().cloned().map(Probe::Object).filter(|probe| !known.knows(probe)).collect();
    target.look(&probes, known).await?;
    let mut of_those = retained.objects().filter(|(object, _)| inside.contains(*object));
    Ok(of_those.find_map(|(object, changes)| holds(object, changes, known)))
}

/// Lets the releases stay with which helm would delete something that these changes in force have made or changed, and that still shows it, unless the user
/// has allowed that by their IDs. Returns the sentences about what goes nevertheless, or would if it were allowed.
pub(crate) async fn leave_those_that_hold_others(
    target: &Target,
    undos: &mut [Undo],
    retained: &RetainedChanges,
    allowed: &[String],
    known: &mut Knowledge,
) -> Result<BTreeMap<ObjectId, String>, TargetError> {
    let mut notes = BTreeMap::new();
    for undo in undos.iter_mut().filter(|undo| undo.theirs.is_none()) {
        let Ok(now) = known.observed(&undo.object) else { continue };
        let change = Change { object: undo.object.clone(), from: now.state, to: undo.before.clone() };
        let Some(held) = held_by(target, &change, retained, known).await? else { continue };
        if release_of(&undo.object).is_some() && !allowed.contains(&undo.object.to_string()) {
            undo.theirs = Some(held.refusal(&undo.object));
        } else {
            notes.insert(undo.object.clone(), held.note());
        }
    }
    Ok(notes)
}

/// Says what others lose with an object: beside the permission that it asks for, or at its removal.
pub(crate) fn name_what_goes_along(groups: &mut [RevertGroup], notes: &BTreeMap<ObjectId, String>) {
    for judged in groups.iter_mut().flat_map(|group| &mut group.members) {
        let Some(note) = notes.get(&judged.undo.object) else { continue };
        match &mut judged.verdict {
            Verdict::NotAllowed(why) => *why = format!("{why}; {note}"),
            Verdict::Back(_) => judged.notes.push(format!("{}: {note}", judged.undo.object)),
            _ => {}
        }
    }
}

/// The object with the run for which a release stays.
fn holds(object: &ObjectId, changes: &[InForce], known: &Knowledge) -> Option<DependentObject> {
    let now = known.observed(object).ok().filter(|now| !now.state.is_absent())?;
    let shows = |change: &&InForce| {
        let text = |state: &State| text_of(object, state, known);
        match (text(&change.before), text(&change.after), text(&now.state)) {
            (Some(before), Some(after), Some(now)) if before != after => {
                leaf_differences(&before, &after).iter().any(|f| read(&now, &f.path) == f.after.as_ref())
            }
            // It has come as a whole, or nothing but its owners was changed, or nobody knows what was.
            _ => !change.after.is_absent(),
        }
    };
    let keeps = |change: &InForce| change.keeps.clone();
    let run = changes.iter().rev().filter(shows).find_map(keeps)?;
    Some(DependentObject { object: title_of(object), run })
}
