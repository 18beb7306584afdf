//! Fields that a prune gave back to a release, and that an upgrade of it in the same runs has set since: they are as these runs left them. Pure.

use crate::revert::shared::state_with;
use crate::revert::undo::text_of;
use converge_ledger::Undo;
use converge_objects::k8s::fields::{Field, leaf_differences, read};
use converge_objects::release::{self, manifests_of};
use converge_objects::{api_ref, is_of_api, release_of};
use converge_planner::Knowledge;
use converge_resource::{ObjectId, State};
use serde_json::Value;
use std::collections::BTreeMap;

/// The manifests of a release now and before the runs to revert.
struct ReleaseManifests {
    now: Vec<Value>,
    before: Vec<Value>,
}

impl ReleaseManifests {
    fn by(undo: &Undo, known: &Knowledge) -> Option<(ObjectId, Self)> {
        release_of(&undo.object)?;
        let manifests = |state: &State| {
            let digest = converge_objects::object(&undo.object.kind)?.content(state)?;
            manifests_of(known.content(&digest)?)
        };
        let now = manifests(&known.observed(&undo.object).ok()?.state)?;
        Some((undo.object.clone(), Self { now, before: manifests(&undo.before).unwrap_or_default() }))
    }
}

/// Takes what the releases to revert have set of an object since for the state in which these runs left it.
pub(crate) fn follow_upgrades(undos: &mut [Undo], known: &mut Knowledge) {
    let releases: BTreeMap<ObjectId, ReleaseManifests> =
        undos.iter().filter_map(|undo| ReleaseManifests::by(undo, known)).collect();
    for undo in undos.iter_mut().filter(|undo| !releases.is_empty() && is_of_api(&undo.object)) {
        if let Some(left) = with_upgrade(undo, &releases, known) {
            undo.left = left;
        }
    }
}

fn with_upgrade(
    undo: &Undo,
    releases: &BTreeMap<ObjectId, ReleaseManifests>,
    known: &mut Knowledge,
) -> Option<State> {
    let object = api_ref(&undo.object).filter(|object| object.kind != "Secret")?;
    let text = |state: &State| text_of(&undo.object, state, known);
    let now = text(&known.observed(&undo.object).ok()?.state)?;
    let (left, before) = (text(&undo.left)?, text(&undo.before)?);
    let of = release::marked(&now)?;
    let (namespace, _) = release_of(&of)?;
    let declared = releases.get(&of)?;
    let find = |manifests: &[Value]| manifests.iter().find(|m| release::is(m, &object, namespace)).cloned();
    let (declares, declared) = (find(&declared.now)?, find(&declared.before));
    let is_of_release = |field: &Field| {
        let live = read(&now, &field.path);
        let dropped = || declared.as_ref().is_some_and(|then| read(then, &field.path).is_some());
        live != field.before.as_ref() && live == read(&declares, &field.path) && (live.is_some() || dropped())
    };
    let fields = leaf_differences(&left, &before).into_iter().filter(is_of_release);
    let fields: Vec<Field> =
        fields.map(|field| Field { after: read(&now, &field.path).cloned(), ..field }).collect();
    if fields.is_empty() { None } else { state_with(&left, &fields, &now, known) }
}
