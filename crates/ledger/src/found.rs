//! The descriptions of objects with which they come to be managed.

use crate::{Adoption, ForeignChange, MountLayer, OwnedObject, RunRecord, SavedChange, SavedOutcome};
use converge_resource::{ObjectId, State};
use std::collections::BTreeSet;

/// The description of an object by the change, at this place of its run, with which it comes to be managed.
pub(crate) fn first(run: &RunRecord, at: usize, change: &SavedChange) -> OwnedObject {
    let is_moved = |c: &&SavedChange| c.outcome == SavedOutcome::Moved && c.object == change.object;
    let moved = run.changes.iter().take(at).find(is_moved);
    let moved = moved.map(|c| ForeignChange { by: c.item.clone(), before: c.before.clone() });
    OwnedObject {
        moved: moved.filter(|m| m.before != change.before),
        sensitive: change.sensitive,
        no_snapshot: change.no_snapshot.clone(),
        ..found(run, &change.object, &change.before)
    }
}

/// The description of an object that a run adopts.
pub(crate) fn adopted(run: &RunRecord, adoption: &Adoption, layer: MountLayer) -> OwnedObject {
    let role = converge_resource::role_of(&adoption.item);
    OwnedObject {
        layer,
        roles: vec![role.to_owned()],
        item: adoption.item.clone(),
        adopted_by: Some(run.id.clone()),
        sensitive: adoption.sensitive,
        made_in: adoption.real_dir.iter().cloned().collect(),
        ..found(run, &adoption.object, &adoption.state)
    }
}

/// The description of an object as a run found it.
fn found(run: &RunRecord, object: &ObjectId, state: &State) -> OwnedObject {
    OwnedObject {
        object: object.clone(),
        layer: MountLayer::default(),
        lies_in: Vec::new(),
        uid: None,
        heir_by: None,
        scope: run.scope.clone(),
        roles: Vec::new(),
        item: String::new(),
        since: run.time.clone(),
        run: run.id.clone(),
        adopted_by: None,
        made_in: BTreeSet::new(),
        before: state.clone(),
        moved: None,
        left: state.clone(),
        open: None,
        between: Vec::new(),
        sensitive: false,
        by_product: false,
        no_snapshot: None,
        node_removal: None,
        guard: None,
        parts: Vec::new(),
    }
}
