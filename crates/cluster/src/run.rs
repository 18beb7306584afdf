//! A run on a cluster: its lock, its journal, what it saves.

use crate::api::{Api, escaped};
use crate::connect::Cluster;
use crate::error::RunRefusal;
use crate::fault::Fault;
use crate::lease;
use crate::open_run::{OpenRun, labelled, secrets, write_owned};
use crate::owned::OwnedDoc;
use crate::record_error::{RecordReadError, RecordsError, SecretSealError};
use crate::records::{
    self, Beside, ContentsDoc, ListedRun, NAMESPACE, RECORD_LABEL, RUN_LABEL, RunDoc, StoredContent,
};
use crate::sealed::{opened, unseal};
use converge_executor::{ArrivedChanges, RunEnd, RunMeta};
use converge_ledger::{ManagedObjects, OwnedRecords, Records, RunRecord, fold};
use converge_resource::{Content, Digest, FIELD_MANAGER, ObjectId};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

async fn read_owned(api: &Api) -> Result<ManagedObjects, RecordsError> {
    let found = api.find(&format!("{}/owned", secrets())).await?;
    let doc: OwnedDoc = match &found {
        Some(secret) => records::unpack(secret)?,
        None => OwnedDoc::default(),
    };
    Ok(doc.managed())
}

/// The managed objects after the recorded runs. A run that was cut off is not in `owned` yet: it is brought there. The lease is held.
/// `arrived` is what its plan has found of such a run.
async fn settle(
    api: &Api,
    runs: &[ListedRun],
    arrived: Option<&ArrivedChanges>,
) -> Result<ManagedObjects, RecordsError> {
    let mut managed = read_owned(api).await?;
    let mut cut_off = Vec::new();
    let all = managed.folded.len();
    for run in runs.iter().filter(|r| !managed.folded.contains(&r.id)).map(|r| &r.id).collect::<Vec<_>>() {
        let path = format!("{}/{}", secrets(), escaped(&format!("run-{run}")));
        let Some(secret) = api.find(&path).await? else { continue };
        match records::unpack::<RunDoc>(&secret) {
            Ok(doc) if doc.is_in_owned() => drop(managed.folded.insert(doc.id)),
            Ok(doc) => cut_off.push(with_arrived(doc.record(), arrived)),
            // It is named wherever the runs are read.
            Err(RecordReadError::Damaged { .. }) => {}
            Err(unread @ RecordReadError::Format { .. }) => return Err(unread.into()),
        }
    }
    let managed = fold(managed, &cut_off);
    if managed.folded.len() > all {
        write_owned(api, &managed).await?;
    }
    Ok(managed)
}

/// All recorded runs as they stand there, and those that wrote into `owned` themselves.
async fn read_runs(api: &Api) -> Result<(Records, BTreeSet<String>), RecordsError> {
    let found = api.list(&labelled(&format!("{RECORD_LABEL}=run"))).await?;
    Ok(records::runs(&found, api.now())?)
}

/// The record of a run that was cut off, with what a plan has found of it since.
fn with_arrived(mut record: RunRecord, arrived: Option<&ArrivedChanges>) -> RunRecord {
    for (seq, state) in arrived.iter().filter(|a| a.run == record.id).flat_map(|a| &a.changes) {
        let mut changes = record.changes.iter_mut();
        if let Some(change) = changes.find(|c| c.seq == *seq && c.after == *state) {
            change.arrived = true;
        }
    }
    record
}

impl Cluster {
    /// Begins a run: takes the cluster's lock, makes the namespace of the records where there is none, writes the run's record.
    ///
    /// # Errors
    /// Another run is at work, or the cluster takes no records.
    pub(crate) async fn begin_run(&self, meta: &RunMeta) -> Result<(), RunRefusal> {
        let api = &self.inner.api;
        let unfit = |why: RecordsError| {
            RunRefusal::Unfit(format!("{}: no record of the run can be written: {why}", self.inner.name))
        };
        let mut slot = self.inner.run.lock().await;
        namespace(api).await.map_err(|fault| unfit(fault.into()))?;
        let operator = if meta.operator.is_empty() { &self.inner.options.operator } else { &meta.operator };
        let lease = lease::take(api, &meta.id, operator).await?;
        let begin = async {
            let listed = api.list_metadata(&labelled(RUN_LABEL)).await?;
            let listed = records::listed(&listed);
            let seq = Some(records::next_seq(&listed));
            let opened = Some(api.now().as_second());
            let manager = Some(self.manager()).filter(|own| *own != FIELD_MANAGER).map(str::to_owned);
            let mut run = OpenRun {
                api: Arc::clone(api),
                meta: meta.clone(),
                doc: RunDoc { seq, opened, manager, ..RunDoc::of(meta) },
                base: settle(api, &listed, meta.arrived.as_ref()).await?,
                lease,
                contents: ContentsDoc { format: 1, ..ContentsDoc::default() },
                number: 2,
                saved: BTreeMap::new(),
                runs: None,
            };
            run.write().await?;
            Ok::<_, RecordsError>(run)
        };
        *slot = Some(begin.await.map_err(unfit)?);
        Ok(())
    }

    /// Ends a run. Old records are dropped, and the lock is given back.
    pub(crate) async fn end_run(&self, run: &str, end: RunEnd) {
        let open = {
            let mut slot = self.inner.run.lock().await;
            if slot.as_ref().is_some_and(|open| open.meta.id == run) { slot.take() } else { None }
        };
        let Some(mut open) = open else { return };
        open.doc.result = Some(end.word().to_owned());
        if let Err(why) = open.write().await {
            tracing::warn!(%why, "the end of the run was not recorded");
        }
        if let Err(why) = open.settle(self.inner.options.keep_all_runs).await {
            tracing::warn!(%why, "what is managed was not recorded, or old records were not dropped: the next run does it");
        }
        open.lease.give_back().await;
    }

    /// The runs that the cluster has recorded, oldest first.
    ///
    /// # Errors
    /// No answer, or records of another format.
    pub async fn records(&self) -> Result<Records, RecordsError> {
        read_runs(&self.inner.api).await.map(|(records, _)| records)
    }

    /// As [`records::waits`].
    pub(crate) async fn waits(&self, release: &ObjectId, to: Option<&Digest>) -> Result<bool, RecordsError> {
        Ok(records::waits(&self.docs().await?, release, to))
    }

    /// The records of runs, which are read once in a run: while it holds the lock, no other one is written. One that cannot be read is named wherever the
    /// runs are read.
    pub(crate) async fn docs(&self) -> Result<Arc<[RunDoc]>, RecordsError> {
        let mut slot = self.inner.run.lock().await;
        if let Some(docs) = slot.as_ref().and_then(|open| open.runs.clone()) {
            return Ok(docs);
        }
        let found = self.inner.api.list(&labelled(&format!("{RECORD_LABEL}=run"))).await?;
        let docs: Arc<[RunDoc]> = found.iter().filter_map(|secret| records::unpack(secret).ok()).collect();
        if let Some(open) = slot.as_mut() {
            open.runs = Some(Arc::clone(&docs));
        }
        Ok(docs)
    }

    /// The managed objects as the last run that ended has left them.
    pub(crate) async fn managed(&self) -> Result<ManagedObjects, RecordsError> {
        read_owned(&self.inner.api).await
    }

    /// The managed objects of the cluster, and the newest run if it did not end.
    ///
    /// # Errors
    /// As [`Cluster::records`].
    pub async fn owned(&self) -> Result<OwnedRecords, RecordsError> {
        let api = &self.inner.api;
        let (mut base, (runs, in_owned)) = futures::try_join!(read_owned(api), read_runs(api))?;
        let Records { mut runs, broken, .. } = runs;
        base.folded.extend(in_owned);
        let managed = fold(base, &runs);
        let cut_off = runs.pop().filter(|run| !run.finished);
        let busy = match cut_off {
            Some(_) => lease::busy(api).await?,
            None => false,
        };
        let things = managed.present().cloned().collect();
        Ok(OwnedRecords { things, cut_off, busy, broken, base: None })
    }

    /// Takes an object out of management: nothing of it is the project's own any more.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn disown(&self, run: &str, object: &ObjectId) -> Result<(), RecordsError> {
        self.let_go(object).await?;
        let mut slot = self.inner.run.lock().await;
        let open = slot.as_mut().filter(|open| open.meta.id == run).ok_or(RecordsError::NotOpen)?;
        open.doc.disowned.push((open.doc.changes.len(), object.clone()));
        open.write().await
    }

    /// The contents of states before, as the runs have saved them: for a rollback.
    ///
    /// # Errors
    /// As [`Cluster::records`].
    pub async fn contents(&self, wanted: &BTreeSet<Digest>) -> Result<SavedContents, RecordsError> {
        let (stored, mut sealed) = self.stored_or_sealed(wanted).await?;
        for (digest, stored) in &stored {
            if let Some(Beside::Sealed(text)) = &stored.beside
                && let Err(why) = unseal(text, &self.inner.options)
            {
                sealed.insert(digest.clone(), why);
            }
        }
        let found = stored.into_iter().map(|(digest, stored)| (digest, stored.content())).collect();
        Ok(SavedContents { found, sealed })
    }

    /// The same, with what stands beside them. What is sealed as a whole and cannot be read here is missing.
    pub(crate) async fn stored(
        &self,
        wanted: &BTreeSet<Digest>,
    ) -> Result<BTreeMap<Digest, StoredContent>, RecordsError> {
        Ok(self.stored_or_sealed(wanted).await?.0)
    }

    /// The same, with the reasons why those that are sealed as a whole cannot be read here.
    async fn stored_or_sealed(&self, wanted: &BTreeSet<Digest>) -> Result<StoredContents, RecordsError> {
        let (mut all, mut shut) = StoredContents::default();
        if wanted.is_empty() {
            return Ok((all, shut));
        }
        let path = labelled(&format!("{RECORD_LABEL}=contents"));
        let found = self.inner.api.list(&path).await?;
        for secret in &found {
            for (digest, stored) in records::unpack::<ContentsDoc>(secret)?.contents {
                // Of two the one with more.
                if !wanted.contains(&digest) || all.get(&digest).is_some_and(|old| old.beside.is_some()) {
                    continue;
                }
                match opened(stored, &self.inner.options) {
                    Ok(stored) => drop(all.insert(digest, stored)),
                    Err(why) => drop(shut.insert(digest, why)),
                }
            }
        }
        shut.retain(|digest, _| !all.contains_key(digest));
        Ok((all, shut))
    }
}

/// Contents of states with what stands beside them, and those that stay sealed.
type StoredContents = (BTreeMap<Digest, StoredContent>, BTreeMap<Digest, SecretSealError>);

/// Contents that runs have saved. Those that were not saved are missing.
#[derive(Debug, Default)]
pub struct SavedContents {
    /// Those that can be read.
    pub found: BTreeMap<Digest, Content>,
    /// Those of which the values, or all, are encrypted and cannot be read here.
    pub sealed: BTreeMap<Digest, SecretSealError>,
}

/// Makes the namespace of the records.
async fn namespace(api: &Api) -> Result<(), Fault> {
    if api.find(&format!("/api/v1/namespaces/{NAMESPACE}")).await?.is_some() {
        return Ok(());
    }
    let manifest = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER}},
    });
    match api.post("/api/v1/namespaces", &manifest).await {
        Err(fault) if fault.code() == Some(409) => Ok(()),
        result => result.map(|_| ()),
    }
}
