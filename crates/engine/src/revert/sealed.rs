//! Saved values of a cluster that are encrypted, and cannot be read on this machine: what needs them stays. Pure.

use converge_cluster::SecretSealError;
use converge_ledger::Undo;
use converge_objects::k8s::from_text;
use converge_objects::{release, release_of};
use converge_planner::Knowledge;
use converge_resource::{Answer, ApiProbe, Digest, Probe, State};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn content(undo: &Undo, state: &State) -> Option<Digest> {
    converge_objects::object(&undo.object.kind)?.content(state)
}

/// Whether an object has the values of the Secret that it was: then none of them is needed.
fn has_values(undo: &Undo, before: &Digest, known: &Knowledge) -> bool {
    let values = |digest: &Digest| {
        let object: Value = from_text(known.content(digest)?)?;
        Some(object.get("data").and_then(Value::as_object).cloned().unwrap_or_default())
    };
    let now = known.observed(&undo.object).ok().and_then(|found| values(&content(undo, &found.state)?));
    let (Some(before), Some(now)) = (values(before), now) else { return false };
    before.iter().all(|(key, value)| now.get(key) == Some(value))
}

/// Asks for the revisions that helm keeps of a release.
fn revisions(undo: &Undo) -> Option<Probe> {
    let (namespace, name) = release_of(&undo.object)?;
    Some(Probe::Api(ApiProbe::Release { namespace: namespace.to_owned(), name: name.to_owned() }))
}

/// Saved contents that are sealed, each with the reason why it cannot be opened.
pub(crate) type SealedContents = BTreeMap<Digest, SecretSealError>;

/// The content that an object needs to go back, where it is sealed.
fn needed(undo: &Undo, sealed: &SealedContents) -> Option<Digest> {
    content(undo, &undo.before).filter(|digest| sealed.contains_key(digest))
}

/// The questions whether helm itself keeps the releases whose saved contents are sealed.
pub(crate) fn probes(undos: &[Undo], sealed: &SealedContents) -> BTreeSet<Probe> {
    undos.iter().filter(|undo| needed(undo, sealed).is_some()).filter_map(revisions).collect()
}

/// Lets the objects stay whose saved values are sealed, and says why.
pub(crate) fn leave_what_is_sealed(undos: &mut [Undo], sealed: &SealedContents, known: &Knowledge) {
    for undo in undos {
        let Some(digest) = needed(undo, sealed) else { continue };
        let has = match revisions(undo).and_then(|probe| known.answer(&probe)) {
            Some(Answer::Api(revisions)) => {
                revisions.as_array().is_some_and(|all| release::revision_of(all, &digest).is_some())
            }
            _ => has_values(undo, &digest, known),
        };
        if let Some(why) = sealed.get(&digest).filter(|_| !has) {
            undo.theirs = Some(format!("its saved values cannot be read: {why}"));
            undo.sealed = true;
        }
    }
}
