//! A run at work on a cluster: its journal, and the contents that it saves.

use crate::api::{APPLY, Api, escaped};
use crate::fault::Fault;
use crate::lease::HeldLease;
use crate::options::ClusterOptions;
use crate::owned::OwnedDoc;
use crate::record_error::RecordsError;
use crate::records::{
    self, Beside, ChangeDoc, ChangeEnd, ContentsDoc, NAMESPACE, Need, RECORD_LABEL, RUN_LABEL, RunDoc,
    RunStanding, StoredContent,
};
use crate::sealed::closed;
use crate::work::ClusterWork;
use converge_executor::RunMeta;
use converge_ledger::{Entry, ManagedObjects, fold};
use converge_resource::{Change, Content, Digest, FIELD_MANAGER, ObjectId, State};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Of an object that a change left: the server's identity of it, and who owns its fields.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) uid: Option<String>,
    pub(crate) owners: Option<Vec<Value>>,
}

/// A run at work.
pub(crate) struct OpenRun {
    pub(crate) api: Arc<Api>,
    pub(crate) meta: RunMeta,
    pub(crate) lease: HeldLease,
    pub(crate) doc: RunDoc,
    /// The managed objects before it.
    pub(crate) base: ManagedObjects,
    /// The contents that the present Secret of contents holds, and its number.
    pub(crate) contents: ContentsDoc,
    pub(crate) number: u32,
    /// The digests that are saved, and whether each is with its further data.
    pub(crate) saved: BTreeMap<Digest, bool>,
    /// The records of all runs as it found them, once they were asked for.
    pub(crate) runs: Option<Arc<[RunDoc]>>,
}

pub(crate) fn secrets() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets")
}

pub(crate) fn labelled(what: &str) -> String {
    let labels = format!("app.kubernetes.io/managed-by={FIELD_MANAGER},{what}");
    format!("{}?labelSelector={}", secrets(), escaped(&labels))
}

pub(crate) async fn put(api: &Api, name: &str, secret: &Value) -> Result<(), Fault> {
    let path = format!("{}/{}?fieldManager={FIELD_MANAGER}&force=true", secrets(), escaped(name));
    api.patch(&path, APPLY, secret).await.map(|_| ())
}

pub(crate) async fn write_owned(api: &Api, managed: &ManagedObjects) -> Result<(), RecordsError> {
    let packed = records::pack(&OwnedDoc::of(managed))?;
    if !records::fits(&packed) {
        return Err(RecordsError::ManagedFull);
    }
    let secret = records::secret("owned", "owned", None, &packed, &[]);
    Ok(put(api, "owned", &secret).await?)
}

impl OpenRun {
    pub(crate) async fn write(&mut self) -> Result<(), RecordsError> {
        let packed = records::pack(&self.doc)?;
        if !records::fits(&packed) {
            return Err(RecordsError::JournalFull);
        }
        let name = format!("run-{}", self.meta.id);
        let seq = self.doc.seq.map(|n| n.to_string()).unwrap_or_default();
        let opened = self.doc.opened.map(|n| n.to_string()).unwrap_or_default();
        let project = format!("{} {}", self.meta.scope.playbook, self.meta.scope.inventory);
        let mut notes = vec![
            ("time", self.meta.time.as_str()),
            ("seq", seq.as_str()),
            ("opened", opened.as_str()),
            ("project", project.as_str()),
        ];
        if !self.doc.forgotten.is_empty() || !self.doc.renamed.is_empty() {
            notes.push(("forgets", "yes"));
        }
        if let Some(result) = &self.doc.result {
            notes.push(("result", result));
        }
        let secret = records::secret(&name, "run", Some(&self.meta.id), &packed, &notes);
        Ok(put(&self.api, &name, &secret).await?)
    }

    /// The managed objects after it.
    pub(crate) fn managed(&self) -> ManagedObjects {
        fold(self.base.clone(), &[self.doc.clone().record()])
    }

    /// The server's identity of what is managed, but for changes that are on their way.
    pub(crate) fn uid(&self, object: &ObjectId) -> Option<String> {
        let mut doc = self.doc.clone();
        doc.changes.retain(|change| change.outcome.is_some());
        let managed = fold(self.base.clone(), &[doc.record()]);
        let of = || managed.present().filter(|thing| thing.object == *object);
        // Another project may manage it too.
        of().find(|thing| thing.scope == self.meta.scope).or_else(|| of().last())?.uid.clone()
    }

    /// Saves a content, before anything changes.
    ///
    /// Of a sensitive item (`sealed`) it is kept for the recipients alone; with none of them it is not kept.
    pub(crate) async fn save(
        &mut self,
        content: &Content,
        beside: Option<Beside>,
        sealed: Option<&ClusterOptions>,
    ) -> Result<(), RecordsError> {
        let digest = content.digest();
        if self.saved.get(digest).is_some_and(|with_more| *with_more || beside.is_none()) {
            return Ok(());
        }
        let with_more = beside.is_some();
        let text = content.text().ok_or(RecordsError::NotText)?.to_owned();
        let mut stored = StoredContent { text, beside };
        if let Some(options) = sealed {
            match closed(&stored, options)? {
                Some(closed) => stored = closed,
                None => return Ok(()),
            }
        }
        let mut next = self.contents.clone();
        next.contents.insert(digest.clone(), stored);
        let mut packed = records::pack(&next)?;
        if !records::fits(&packed) && !self.contents.contents.is_empty() {
            // The present Secret is full.
            self.number += 1;
            next.contents.retain(|d, _| d == digest);
            packed = records::pack(&next)?;
        }
        if !records::fits(&packed) {
            return Err(RecordsError::TooLarge);
        }
        let name = format!("run-{}-{}", self.meta.id, self.number);
        let secret = records::secret(&name, "contents", Some(&self.meta.id), &packed, &[]);
        put(&self.api, &name, &secret).await?;
        self.contents = next;
        self.saved.insert(digest.clone(), with_more);
        Ok(())
    }

    /// Writes that a change begins; its number in the run.
    pub(crate) async fn begin(
        &mut self,
        change: &Change,
        before: &State,
        work: &ClusterWork,
        no_snapshot: Option<String>,
    ) -> Result<u32, RecordsError> {
        let seq = self.doc.changes.last().map_or(1, |c| c.seq + 1);
        self.doc.changes.push(ChangeDoc {
            seq,
            object: change.object.clone(),
            before: before.clone(),
            after: change.to.clone(),
            item: work.address.clone(),
            owner: Some(work.owner.clone()).filter(|owner| !owner.is_empty()),
            uid: None,
            sensitive: work.sensitive,
            in_part: work.in_part,
            no_snapshot,
            waits: work.release(&change.object).map(|spec| spec.wait_seconds.is_some()),
            parts: work.parts_of(change),
            owners: None,
            owners_left: None,
            managers: BTreeMap::new(),
            applied: None,
            outcome: None,
        });
        let written = self.write().await;
        if written.is_err() {
            self.doc.changes.pop();
        }
        written.map(|()| seq)
    }

    /// Writes who owns the fields that a change is about to make.
    pub(crate) async fn finds(&mut self, seq: u32, owners: Option<Vec<Value>>) -> Result<(), RecordsError> {
        let change = self.doc.changes.iter_mut().find(|c| c.seq == seq);
        let Some(change) = change.filter(|c| c.owners != owners) else { return Ok(()) };
        change.owners = owners;
        self.write().await
    }

    /// The change is about to be made on another state than it began with.
    pub(crate) async fn begin_again(&mut self, seq: u32, before: &State) -> Result<(), RecordsError> {
        if let Some(change) = self.doc.changes.iter_mut().find(|c| c.seq == seq) {
            change.before = before.clone();
        }
        self.write().await
    }

    /// Writes how a change ended. `after` is `None` when nobody could look.
    pub(crate) async fn end(
        &mut self,
        seq: u32,
        ended: ChangeEnd,
        after: Option<&State>,
        left: Left,
    ) -> Result<(), RecordsError> {
        let Some(change) = self.doc.changes.iter_mut().find(|c| c.seq == seq) else { return Ok(()) };
        let Some(after) = after else { return Ok(()) };
        change.outcome = Some(ended);
        change.after = after.clone();
        (change.uid, change.owners_left) = (left.uid, left.owners);
        self.write().await
    }

    /// Writes that foreign code changed an object.
    pub(crate) async fn moved(
        &mut self,
        moved: &[(ObjectId, State, State)],
        item: &str,
    ) -> Result<(), RecordsError> {
        if moved.is_empty() {
            return Ok(());
        }
        for (object, before, after) in moved {
            let seq = self.doc.changes.last().map_or(1, |c| c.seq + 1);
            self.doc.changes.push(ChangeDoc {
                seq,
                object: object.clone(),
                before: before.clone(),
                after: after.clone(),
                item: item.to_owned(),
                owner: None,
                uid: None,
                sensitive: false,
                in_part: false,
                no_snapshot: None,
                waits: None,
                parts: Vec::new(),
                owners: None,
                owners_left: None,
                managers: BTreeMap::new(),
                applied: None,
                outcome: Some(ChangeEnd::Moved),
            });
        }
        self.write().await
    }

    /// Brings what it left managed into `owned`, and then drops old records: none that is not in there.
    pub(crate) async fn settle(&mut self, keep_all_runs: bool) -> Result<(), RecordsError> {
        let mut managed = self.managed();
        let found = self.api.list_metadata(&labelled(RUN_LABEL)).await?;
        let listed = records::listed(&found);
        let now = self.api.now();
        let dropped = if keep_all_runs || !records::is_full(&listed, &self.meta.id, now) {
            Vec::new()
        } else {
            let runs = self.api.list(&labelled(&format!("{RECORD_LABEL}=run"))).await?;
            let standing = RunStanding::of(&records::runs(&runs, now)?.0.runs);
            let entries = managed.entries.iter().flat_map(Entry::all).filter(|e| !e.thing.before.is_absent());
            let needs: Vec<Need> = entries.map(|e| (e.thing.run.clone(), e.gone_by.clone())).collect();
            records::to_drop(&listed, &self.meta.id, &standing, &needs, now)
        };
        managed.forget_gone(&|id| !dropped.iter().any(|d| d == id));
        managed.folded.retain(|id| !dropped.contains(id));
        write_owned(&self.api, &managed).await?;
        for id in &dropped {
            for secret in &found {
                let of =
                    secret.pointer("/metadata/labels").and_then(|l| l.get(RUN_LABEL)).and_then(Value::as_str);
                if of == Some(id) {
                    let name = crate::object::text(secret, "/metadata/name");
                    let path = format!("{}/{}", secrets(), escaped(name));
                    self.api.delete(&path, &json!({})).await?;
                }
            }
        }
        Ok(())
    }
}
