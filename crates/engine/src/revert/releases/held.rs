//! Releases that stay since what runs in force have changed would go with them: runs of other projects, and later ones that are not reverted.

use super::taken::{goes_with, taken_with};
use super::unset::{InForce, RetainedChanges};
use crate::TargetError;
use crate::connect::target::Target;
use crate::revert::undo::text_of;
use converge_ledger::Undo;
use converge_objects::api_ref;
use converge_objects::k8s::fields::{leaf_differences, read};
use converge_planner::Knowledge;
use converge_resource::{Change, ObjectId, Probe, State};
use std::collections::BTreeSet;

/// Lets the releases stay with which helm would delete something that these changes in force have made or changed, and that still shows it.
pub(crate) async fn leave_those_that_hold_others(
    target: &Target,
    undos: &mut [Undo],
    retained: &RetainedChanges,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    for undo in undos.iter_mut().filter(|undo| undo.before.is_absent() && undo.theirs.is_none()) {
        let Ok(now) = known.observed(&undo.object) else { continue };
        let goes = Change { object: undo.object.clone(), from: now.state, to: State::absent() };
        let Some((namespace, manifests)) = taken_with(&goes, known) else { continue };
        let keeps = |changes: &[InForce]| changes.iter().any(|change| change.keeps.is_some());
        let inside: BTreeSet<ObjectId> = retained
            .objects()
            .filter(|(object, changes)| {
                **object != undo.object && keeps(changes) && goes_with(&manifests, namespace, object)
            })
            .map(|(object, _)| object.clone())
            .collect();
        retained.learn(&inside, target, known).await?;
        let probes = inside.iter().cloned().map(Probe::Object).filter(|probe| !known.knows(probe)).collect();
        target.look(&probes, known).await?;
        let of_those = retained.objects().filter(|(object, _)| inside.contains(*object));
        undo.theirs = of_those.filter_map(|(object, changes)| holds(object, changes, known)).next();
    }
    Ok(())
}

/// The reason why a release stays with which this object would go.
fn holds(object: &ObjectId, changes: &[InForce], known: &Knowledge) -> Option<String> {
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
    let shown = api_ref(object).map_or_else(|| object.to_string(), |r| r.shown());
    Some(format!(
        "{shown} would go with it, and {run}, has changed it and is in force: take back what that run did first"
    ))
}
