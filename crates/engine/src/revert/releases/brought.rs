//! Objects that come back with a release of the same rollback, and go on from there. Pure.

use converge_ledger::Undo;
use converge_objects::release::{self, ReleaseState};
use converge_objects::{api_ref, release_of};
use converge_planner::Knowledge;
use converge_resource::{ObjectId, State};
use serde_json::Value;

/// The manifests of a state of a release, as far as its text is known.
fn manifests(state: &State, known: &Knowledge) -> Vec<Value> {
    let Ok(ReleaseState::Installed { digest, .. }) = ReleaseState::try_from(state.clone()) else {
        return Vec::new();
    };
    known.content(&digest).and_then(release::manifests_of).unwrap_or_default()
}

/// For each object that is not there now, while the runs have left it there, the place of the release that comes back and brings it: a prune has taken the
/// release away after what was changed of the object.
pub(crate) fn brought_back(undos: &[Undo], known: &Knowledge) -> Vec<Option<usize>> {
    let is_gone = |object: &ObjectId| known.observed(object).is_ok_and(|now| now.state.is_absent());
    let release = |(at, undo): (usize, &Undo)| {
        let (namespace, _) = release_of(&undo.object).filter(|_| is_gone(&undo.object))?;
        Some((at, namespace.to_owned(), manifests(&undo.before, known)))
    };
    let releases: Vec<(usize, String, Vec<Value>)> = (0..).zip(undos).filter_map(release).collect();
    let one = |undo: &Undo| {
        let stands = !undo.left.is_absent() && !undo.before.is_absent();
        let object = api_ref(&undo.object).filter(|_| stands && is_gone(&undo.object))?;
        let brings = |(_, namespace, manifests): &&(usize, String, Vec<Value>)| {
            manifests.iter().any(|manifest| release::is(manifest, &object, namespace))
        };
        releases.iter().find(brings).map(|(at, ..)| *at)
    };
    undos.iter().map(one).collect()
}
