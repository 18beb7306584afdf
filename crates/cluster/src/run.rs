//! A run on a cluster: its lock, its journal, what it saves.

use crate::api::{APPLY, Api, Fault, escaped};
use crate::connect::{Cluster, ClusterOptions};
use crate::error::Refused;
use crate::lease::{self, Held};
use crate::owned::OwnedDoc;
use crate::records::{
    self, Beside, ChangeDoc, ContentsDoc, Ended, Kept, Listed, NAMESPACE, RECORD_LABEL, RUN_LABEL, RunDoc,
};
use crate::work::Work;
use converge_executor::RunMeta;
use converge_ledger::{Managed, OwnedRecords, Records, fold};
use converge_resource::{Change, Content, Digest, FIELD_MANAGER, ObjectId, State};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A run at work.
pub(crate) struct OpenRun {
    api: Arc<Api>,
    pub(crate) meta: RunMeta,
    pub(crate) lease: Held,
    doc: RunDoc,
    /// The managed objects before it.
    base: Managed,
    /// The contents that the present Secret of contents holds, and its number.
    contents: ContentsDoc,
    number: u32,
    /// The digests that are saved, and whether each is with its further data.
    saved: BTreeMap<Digest, bool>,
}

fn secrets() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets")
}

fn labelled(what: &str) -> String {
    let labels = format!("app.kubernetes.io/managed-by={FIELD_MANAGER},{what}");
    format!("{}?labelSelector={}", secrets(), escaped(&labels))
}

pub(crate) async fn put(api: &Api, name: &str, secret: &Value) -> Result<(), Fault> {
    let path = format!("{}/{}?fieldManager={FIELD_MANAGER}&force=true", secrets(), escaped(name));
    api.patch(&path, APPLY, secret).await.map(|_| ())
}

async fn read_owned(api: &Api) -> Result<Managed, String> {
    let found = api.find(&format!("{}/owned", secrets())).await.map_err(|e| e.to_string())?;
    let doc: OwnedDoc = match &found {
        Some(secret) => records::unpack(secret)?,
        None => OwnedDoc::default(),
    };
    Ok(doc.managed())
}

async fn write_owned(api: &Api, managed: &Managed) -> Result<(), String> {
    let packed = records::pack(&OwnedDoc::of(managed))?;
    if !records::fits(&packed) {
        return Err("the record of what is managed is full".to_owned());
    }
    let secret = records::secret("owned", "owned", None, &packed, &[]);
    put(api, "owned", &secret).await.map_err(|fault| fault.to_string())
}

/// The managed objects after the recorded runs. A run that was cut off is not in `owned` yet: it is brought there. The lease is held.
async fn settle(api: &Api, runs: &[Listed]) -> Result<Managed, String> {
    let mut managed = read_owned(api).await?;
    let mut cut_off = Vec::new();
    let all = managed.folded.len();
    for run in runs.iter().filter(|r| !managed.folded.contains(&r.id)).map(|r| &r.id).collect::<Vec<_>>() {
        let path = format!("{}/{}", secrets(), escaped(&format!("run-{run}")));
        let Some(secret) = api.find(&path).await.map_err(|e| e.to_string())? else { continue };
        match records::unpack::<RunDoc>(&secret) {
            Ok(doc) if doc.is_in_owned() => drop(managed.folded.insert(doc.id)),
            Ok(doc) => cut_off.push(doc.record()),
            // It is named wherever the runs are read.
            Err(records::Unread::Damaged(_)) => {}
            Err(records::Unread::Format(why)) => return Err(why),
        }
    }
    let managed = fold(managed, &cut_off);
    if managed.folded.len() > all {
        write_owned(api, &managed).await?;
    }
    Ok(managed)
}

/// All recorded runs as they stand there, and those that wrote into `owned` themselves.
async fn read_runs(api: &Api) -> Result<(Records, BTreeSet<String>), String> {
    let found = api.list(&labelled(&format!("{RECORD_LABEL}=run"))).await.map_err(|e| e.to_string())?;
    records::runs(&found, api.now())
}

impl Cluster {
    /// Begins a run: takes the cluster's lock, makes the namespace of the records where there is none, writes the run's record.
    ///
    /// # Errors
    /// Another run is at work, or the cluster takes no records.
    pub async fn open(&self, meta: &RunMeta) -> Result<(), Refused> {
        let api = &self.inner.api;
        let unfit = |why: String| {
            Refused::Unfit(format!("{}: no record of the run can be written: {why}", self.inner.name))
        };
        let mut slot = self.inner.run.lock().await;
        namespace(api).await.map_err(|fault| unfit(fault.to_string()))?;
        let operator = if meta.operator.is_empty() { &self.inner.options.operator } else { &meta.operator };
        let lease = lease::take(api, &meta.id, operator).await?;
        let begin = async {
            let listed = api.list_metadata(&labelled(RUN_LABEL)).await.map_err(|e| e.to_string())?;
            let listed = records::listed(&listed);
            let seq = Some(records::next_seq(&listed));
            let opened = Some(api.now().as_second());
            let mut run = OpenRun {
                api: Arc::clone(api),
                meta: meta.clone(),
                doc: RunDoc { seq, opened, ..RunDoc::of(meta) },
                base: settle(api, &listed).await?,
                lease,
                contents: ContentsDoc { format: 1, ..ContentsDoc::default() },
                number: 2,
                saved: BTreeMap::new(),
            };
            run.write().await?;
            Ok(run)
        };
        *slot = Some(begin.await.map_err(unfit)?);
        Ok(())
    }

    /// Ends a run: `finished` makes it a good one. Old records are dropped, and the lock is given back.
    pub async fn close(&self, run: &str, result: &str) {
        let open = {
            let mut slot = self.inner.run.lock().await;
            if slot.as_ref().is_some_and(|open| open.meta.id == run) { slot.take() } else { None }
        };
        let Some(mut open) = open else { return };
        open.doc.result = Some(result.to_owned());
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
    pub async fn records(&self) -> Result<Records, String> {
        read_runs(&self.inner.api).await.map(|(records, _)| records)
    }

    /// The managed objects of the cluster, and the newest run if it did not end.
    ///
    /// # Errors
    /// As [`Cluster::records`].
    pub async fn owned(&self) -> Result<OwnedRecords, String> {
        let api = &self.inner.api;
        let (mut base, (runs, in_owned)) = futures::try_join!(read_owned(api), read_runs(api))?;
        let Records { mut runs, broken, .. } = runs;
        base.folded.extend(in_owned);
        let managed = fold(base, &runs);
        let cut_off = runs.pop().filter(|run| !run.finished);
        let busy = match cut_off {
            Some(_) => lease::busy(api).await.map_err(|e| e.to_string())?,
            None => false,
        };
        let things = managed.present().cloned().collect();
        Ok(OwnedRecords { things, cut_off, busy, broken, base: None })
    }

    /// Takes an object out of management.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn disown(&self, run: &str, object: &ObjectId) -> Result<(), String> {
        let mut slot = self.inner.run.lock().await;
        let open =
            slot.as_mut().filter(|open| open.meta.id == run).ok_or("the run is not open on the cluster")?;
        open.doc.disowned.push((open.doc.changes.len(), object.clone()));
        open.write().await
    }

    /// The contents of states before, as the runs have saved them: for a rollback. Those that were not saved are missing.
    ///
    /// # Errors
    /// As [`Cluster::records`].
    pub async fn contents(&self, wanted: &BTreeSet<Digest>) -> Result<BTreeMap<Digest, Content>, String> {
        let kept = self.kept(wanted).await?;
        Ok(kept.into_iter().map(|(digest, kept)| (digest, kept.content())).collect())
    }

    /// The same, with what stands beside them. What is sealed as a whole and cannot be read here is missing.
    pub(crate) async fn kept(&self, wanted: &BTreeSet<Digest>) -> Result<BTreeMap<Digest, Kept>, String> {
        if wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        let path = labelled(&format!("{RECORD_LABEL}=contents"));
        let found = self.inner.api.list(&path).await.map_err(|e| e.to_string())?;
        let mut all: BTreeMap<Digest, Kept> = BTreeMap::new();
        for secret in &found {
            for (digest, kept) in records::unpack::<ContentsDoc>(secret).map_err(String::from)?.contents {
                // Of two the one with more.
                if !wanted.contains(&digest) || all.get(&digest).is_some_and(|old| old.beside.is_some()) {
                    continue;
                }
                match opened(kept, &self.inner.options) {
                    Ok(kept) => drop(all.insert(digest, kept)),
                    Err(why) => tracing::warn!(%why, "a sensitive state cannot be read"),
                }
            }
        }
        Ok(all)
    }
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

impl OpenRun {
    async fn write(&mut self) -> Result<(), String> {
        let packed = records::pack(&self.doc)?;
        if !records::fits(&packed) {
            return Err("the journal of this run is full; divide the run with --tags or --limit".to_owned());
        }
        let name = format!("run-{}", self.meta.id);
        let seq = self.doc.seq.map(|n| n.to_string()).unwrap_or_default();
        let opened = self.doc.opened.map(|n| n.to_string()).unwrap_or_default();
        let mut notes =
            vec![("time", self.meta.time.as_str()), ("seq", seq.as_str()), ("opened", opened.as_str())];
        if let Some(result) = &self.doc.result {
            notes.push(("result", result));
        }
        let secret = records::secret(&name, "run", Some(&self.meta.id), &packed, &notes);
        put(&self.api, &name, &secret).await.map_err(|fault| fault.to_string())
    }

    /// The managed objects after it.
    fn managed(&self) -> Managed {
        fold(self.base.clone(), &[self.doc.clone().record()])
    }

    /// The server's identity of what is managed, but for changes that are on their way.
    pub(crate) fn uid(&self, object: &ObjectId) -> Option<String> {
        let mut doc = self.doc.clone();
        doc.changes.retain(|change| change.outcome.is_some());
        let managed = fold(self.base.clone(), &[doc.record()]);
        managed.present().find(|thing| thing.object == *object)?.uid.clone()
    }

    /// Saves a content, before anything changes.
    ///
    /// Of a sensitive item (`sealed`) it is kept for the recipients alone; with none of them it is not kept.
    pub(crate) async fn save(
        &mut self,
        content: &Content,
        beside: Option<Beside>,
        sealed: Option<&ClusterOptions>,
    ) -> Result<(), String> {
        let digest = content.digest();
        if self.saved.get(digest).is_some_and(|with_more| *with_more || beside.is_none()) {
            return Ok(());
        }
        let with_more = beside.is_some();
        let text = content.text().ok_or("the state before is no text")?.to_owned();
        let mut kept = Kept { text, beside };
        if let Some(options) = sealed {
            match closed(&kept, options)? {
                Some(closed) => kept = closed,
                None => return Ok(()),
            }
        }
        let mut next = self.contents.clone();
        next.contents.insert(digest.clone(), kept);
        let mut packed = records::pack(&next)?;
        if !records::fits(&packed) && !self.contents.contents.is_empty() {
            // The present Secret is full.
            self.number += 1;
            next.contents.retain(|d, _| d == digest);
            packed = records::pack(&next)?;
        }
        if !records::fits(&packed) {
            return Err("it is too large for a Secret".to_owned());
        }
        let name = format!("run-{}-{}", self.meta.id, self.number);
        let secret = records::secret(&name, "contents", Some(&self.meta.id), &packed, &[]);
        put(&self.api, &name, &secret).await.map_err(|fault| fault.to_string())?;
        self.contents = next;
        self.saved.insert(digest.clone(), with_more);
        Ok(())
    }

    /// Writes that a change begins; its number in the run.
    pub(crate) async fn begin(
        &mut self,
        change: &Change,
        before: &State,
        work: &Work,
        unsaved: Option<String>,
    ) -> Result<u32, String> {
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
            unsaved,
            outcome: None,
        });
        let written = self.write().await;
        if written.is_err() {
            self.doc.changes.pop();
        }
        written.map(|()| seq)
    }

    /// The change is about to be made on another state than it began with.
    pub(crate) async fn begin_again(&mut self, seq: u32, before: &State) -> Result<(), String> {
        if let Some(change) = self.doc.changes.iter_mut().find(|c| c.seq == seq) {
            change.before = before.clone();
        }
        self.write().await
    }

    /// Writes how a change ended. `after` is `None` when nobody could look; `contents` are what it names.
    pub(crate) async fn end(
        &mut self,
        seq: u32,
        ended: Ended,
        after: Option<&State>,
        uid: Option<String>,
    ) -> Result<(), String> {
        let Some(change) = self.doc.changes.iter_mut().find(|c| c.seq == seq) else { return Ok(()) };
        let Some(after) = after else { return Ok(()) };
        change.outcome = Some(ended);
        change.after = after.clone();
        change.uid = uid;
        self.write().await
    }

    /// Writes that foreign code moved an object.
    pub(crate) async fn moved(
        &mut self,
        moved: &[(ObjectId, State, State)],
        item: &str,
    ) -> Result<(), String> {
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
                unsaved: None,
                outcome: Some(Ended::Moved),
            });
        }
        self.write().await
    }

    /// Brings what it left managed into `owned`, and then drops old records: none that is not in there.
    async fn settle(&mut self, keep_all_runs: bool) -> Result<(), String> {
        let mut managed = self.managed();
        let found = self.api.list_metadata(&labelled(RUN_LABEL)).await.map_err(|e| e.to_string())?;
        let dropped = if keep_all_runs {
            Vec::new()
        } else {
            let things = managed.entries.iter().map(|e| &e.thing);
            let needed = things.filter(|t| !t.before.is_absent()).map(|t| t.run.clone());
            // A rollback can be repeated: what it set out for stays until another run comes.
            let needed = needed.chain(self.meta.rolls_back.iter().cloned()).collect();
            records::to_drop(&records::listed(&found), &self.meta.id, &needed, self.api.now())
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
                    self.api.delete(&path, &json!({})).await.map_err(|e| e.to_string())?;
                }
            }
        }
        Ok(())
    }
}

/// The saved part of a sensitive item, as it was before it was sealed.
fn opened(kept: Kept, options: &ClusterOptions) -> Result<Kept, String> {
    let Some(Beside::Whole(sealed)) = &kept.beside else { return Ok(kept) };
    serde_json::from_value(unseal(sealed, options)?).map_err(|e| e.to_string())
}

/// Seals the saved part of a sensitive item: nothing of it is in the clear. `None` where there is no recipient.
fn closed(kept: &Kept, options: &ClusterOptions) -> Result<Option<Kept>, String> {
    let whole = serde_json::to_value(kept).map_err(|e| e.to_string())?;
    let sealed = seal(&whole, options)?;
    Ok(sealed.map(|sealed| Kept { text: String::new(), beside: Some(Beside::Whole(sealed)) }))
}

/// Encrypts values to the recipients; `None` when there are none.
pub(crate) fn seal(values: &Value, options: &ClusterOptions) -> Result<Option<String>, String> {
    use base64::Engine as _;
    use std::io::Write as _;
    let recipients: Vec<age::x25519::Recipient> =
        options.recipients.iter().map(|r| r.parse()).collect::<Result<_, &str>>()?;
    if recipients.is_empty() {
        return Ok(None);
    }
    let encryptor = age::Encryptor::with_recipients(recipients.iter().map(|r| r as &dyn age::Recipient))
        .map_err(|e| e.to_string())?;
    let mut sealed = Vec::new();
    let mut writer = encryptor.wrap_output(&mut sealed).map_err(|e| e.to_string())?;
    writer.write_all(values.to_string().as_bytes()).map_err(|e| e.to_string())?;
    writer.finish().map_err(|e| e.to_string())?;
    Ok(Some(base64::engine::general_purpose::STANDARD.encode(sealed)))
}

/// Reads what [`seal`] wrote.
pub(crate) fn unseal(sealed: &str, options: &ClusterOptions) -> Result<Value, String> {
    use base64::Engine as _;
    use secrecy::ExposeSecret as _;
    use std::io::Read as _;
    let identities: Vec<age::x25519::Identity> = options
        .identities
        .iter()
        .map(|i| i.expose_secret().parse())
        .collect::<Result<_, &str>>()
        .map_err(|_| "an age identity is not of the form AGE-SECRET-KEY-1…")?;
    if identities.is_empty() {
        return Err("no age identity was given to read it with".to_owned());
    }
    let sealed = base64::engine::general_purpose::STANDARD.decode(sealed).map_err(|e| e.to_string())?;
    let decryptor = age::Decryptor::new(sealed.as_slice()).map_err(|e| e.to_string())?;
    let identities = identities.iter().map(|i| i as &dyn age::Identity);
    let mut reader = decryptor.decrypt(identities).map_err(|e| e.to_string())?;
    let mut text = String::new();
    reader.read_to_string(&mut text).map_err(|e| e.to_string())?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    #[test]
    fn values_are_sealed_to_the_recipients_only() {
        let identity = age::x25519::Identity::generate();
        let mut options = ClusterOptions {
            recipients: vec![identity.to_public().to_string()],
            ..ClusterOptions::default()
        };
        let values = json!({"token": "aHVudGVyMg=="});
        let sealed = seal(&values, &options).unwrap().unwrap();
        assert!(unseal(&sealed, &options).unwrap_err().contains("no age identity"));
        options.identities =
            vec![age::x25519::Identity::generate().to_string().expose_secret().to_owned().into()];
        assert!(unseal(&sealed, &options).is_err());
        options.identities = vec![identity.to_string().expose_secret().to_owned().into()];
        assert_eq!(unseal(&sealed, &options), Ok(values.clone()));
        assert_eq!(seal(&values, &ClusterOptions::default()), Ok(None));
        // A sensitive item is kept as a whole, and nothing of it stands in the open.
        let kept = Kept { text: "data: hunter2".to_owned(), beside: Some(Beside::Plain("x".to_owned())) };
        let shut = closed(&kept, &options).unwrap().unwrap();
        assert!(!serde_json::to_string(&shut).unwrap().contains("hunter2"));
        assert_eq!(opened(shut.clone(), &options), Ok(kept.clone()));
        assert!(opened(shut, &ClusterOptions::default()).is_err());
        assert_eq!(closed(&kept, &ClusterOptions::default()), Ok(None));
        assert_eq!(opened(kept.clone(), &ClusterOptions::default()), Ok(kept));
    }
}
