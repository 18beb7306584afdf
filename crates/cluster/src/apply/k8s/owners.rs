//! The fields that a rollback or a prune writes back, and all that the project owned meanwhile, belong again to whom they belonged before.

use super::failed;
use crate::apply::{Job, shown};
use crate::connect::Cluster;
use crate::open_run::OpenRun;
use crate::ownership::{self, AGAIN, Owners, TRIES, Written};
use crate::record_error::RecordsError;
use crate::records::{RunDoc, StoredContent, owners_before};
use crate::work::WorkEnd;
use converge_ledger::ProjectScope;
use converge_objects::k8s::fields::Field;
use converge_objects::k8s::{K8sState, from_text, normalised};
use converge_resource::{
    ApiRef, ChangedPart, Content, Digest, FIELD_MANAGER, ObjectId, State, field_manager,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::sleep;

/// A write of a previous state.
pub(super) struct WriteBack<'a> {
    pub(super) path: &'a str,
    /// The object as it was found.
    pub(super) live: Option<&'a Value>,
    /// Its state, where it is made anew.
    pub(super) made: Option<&'a State>,
    /// The parts that alone are given back; none where all of the object is.
    pub(super) parts: &'a [ChangedPart],
    /// The fields that were written.
    pub(super) fields: &'a [Field],
    /// The object as it was to be.
    pub(super) to: &'a Value,
}

impl OpenRun {
    /// The runs whose changes of an object are taken back: the targets of a rollback, or of a prune all of the project since the object is managed.
    fn taken_back(&self, object: &ObjectId, docs: &[RunDoc]) -> BTreeSet<String> {
        if !self.meta.rolls_back.is_empty() {
            return self.meta.rolls_back.iter().cloned().collect();
        }
        let project = ProjectScope(self.meta.scope.clone());
        let own = self.base.present().find(|t| t.object == *object && project.is(&t.scope));
        let first = own.and_then(|thing| docs.iter().find(|doc| doc.id == thing.run));
        let Some(first) = first else { return BTreeSet::new() };
        let later = |doc: &&RunDoc| doc.seq >= first.seq && doc.id != self.meta.id;
        let since = docs.iter().filter(later).filter(|doc| project.is(&doc.scope));
        since.map(|doc| doc.id.clone()).collect()
    }

    /// Whether the project whose fields an entry has manages the object.
    fn is_managed_by(&self, object: &ObjectId, entry: &Value) -> bool {
        let mut things = self.base.present().filter(|thing| thing.object == *object);
        things.any(|thing| field_manager(thing.scope.project()) == manager_of(entry))
    }
}

/// Whether the fields of an entry are those of a project with a name.
fn is_of_project(entry: &Value) -> bool {
    manager_of(entry).strip_prefix(FIELD_MANAGER).is_some_and(|name| name.starts_with('-'))
}

fn manager_of(entry: &Value) -> &str {
    entry.get("manager").and_then(Value::as_str).unwrap_or_default()
}

impl Cluster {
    /// Gives the fields of an object that was written back to their previous owners. Where other writers keep changing it, they are left.
    pub(super) async fn give_back_fields(
        &self,
        job: &Job<'_>,
        back: &WriteBack<'_>,
        now: Value,
    ) -> Result<(), WorkEnd> {
        let object = &job.change.object;
        let given = self.settle_owners(object, &job.work.contents, back, now).await;
        given.map_err(|error| failed(format!("{}: {error}", shown(object))))
    }

    /// Takes back what the project owns of an object that it manages no more.
    pub(crate) async fn let_go(&self, object: &ObjectId) -> Result<(), RecordsError> {
        let api = &self.inner.api;
        let Some(wanted) = ApiRef::from_key(&object.key).filter(|_| object.kind == "k8s") else {
            return Ok(());
        };
        let (Some(path), Some(live)) = (api.path(&wanted).await?, api.object(&wanted).await?) else {
            return Ok(());
        };
        let back =
            WriteBack { path: &path, live: Some(&live), made: None, parts: &[], fields: &[], to: &live };
        self.settle_owners(object, &BTreeMap::new(), &back, live.clone()).await
    }

    async fn settle_owners(
        &self,
        object: &ObjectId,
        contents: &BTreeMap<Digest, Content>,
        back: &WriteBack<'_>,
        mut now: Value,
    ) -> Result<(), RecordsError> {
        let api = &self.inner.api;
        let found = self.owners_before(object).await?;
        let (state, mut owners) = found.unwrap_or_else(|| (State::absent(), Owners::default()));
        if let Some(live) = back.live.filter(|_| !back.parts.is_empty()) {
            // All other fields remain the project's own.
            let own = Some(ownership::own_without(live, back.parts, self.manager()));
            owners = Owners { own, others: owners.others, ..Owners::default() };
        }
        if back.made.is_some_and(|made| *made != state) {
            // The project's own fields alone come back, of an object that another one has taken away meanwhile.
            owners = Owners { own: owners.own, ..Owners::default() };
        }
        let before = match K8sState::try_from(state) {
            Ok(K8sState::Present(digest)) if !contents.contains_key(&digest) => {
                let stored = self.stored(&BTreeSet::from([digest.clone()])).await?;
                stored.get(&digest).map(StoredContent::content)
            }
            Ok(K8sState::Present(digest)) => contents.get(&digest).cloned(),
            _ => None,
        };
        let before = before.as_ref().and_then(from_text).unwrap_or_else(|| normalised(back.to));
        let before = Some(&before).filter(|_| back.live.is_some());
        let written = Written { live: back.live, fields: back.fields, before };
        for _ in 0..TRIES {
            let Some(managers) = ownership::settled(&now, &written, &owners, self.manager()) else { break };
            match ownership::set_managers(api, back.path, &now, &managers, self.manager()).await {
                Ok(_) => break,
                Err(fault) if fault.code() == Some(409) => sleep(AGAIN).await,
                Err(fault) => return Err(fault.into()),
            }
            match api.find(back.path).await? {
                Some(observed) => now = observed,
                None => break,
            }
        }
        Ok(())
    }

    /// The owners of an object's fields before the runs that the present one takes back, and the state that the first of them found.
    async fn owners_before(&self, object: &ObjectId) -> Result<Option<(State, Owners)>, RecordsError> {
        let docs = self.docs().await?;
        let slot = self.inner.run.lock().await;
        let Some(open) = slot.as_ref() else { return Ok(None) };
        let runs = open.taken_back(object, &docs);
        let found = owners_before(&docs, object, &|doc| runs.contains(&doc.id), self.manager());
        Ok(found.map(|(state, mut owners)| {
            // Another project may have given its part up since: it would own what it does not manage.
            owners.others.retain(|entry| !is_of_project(entry) || open.is_managed_by(object, entry));
            (state, owners)
        }))
    }
}
