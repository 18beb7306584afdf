//! Work on a cluster: look, compare, save, change, look again, record.

mod condition;
mod k8s;
mod release;
mod workload;

use crate::connect::Cluster;
use crate::open_run::Left;
use crate::options::ClusterOptions;
use crate::record_error::RecordsError;
use crate::records::{Beside, ChangeEnd};
use crate::work::{ClusterWork, WorkEnd, WorkResult};
use converge_objects::k8s::fields::{self, Segment};
use converge_objects::release as releases;
use converge_objects::{k8s as text, release_of};
use converge_resource::{ApiRef, Change, Content, Digest, ObjectId, State};
use serde_json::Value;

/// For people, while it goes on.
pub(crate) type Tell<'a> = &'a (dyn Fn(&str) + Sync);

/// One change on its way.
pub(crate) struct Job<'a> {
    pub(crate) run: &'a str,
    pub(crate) work: &'a ClusterWork,
    pub(crate) change: &'a Change,
    pub(crate) tell: Tell<'a>,
    /// The releases that the item has changed before it.
    pub(crate) laid: &'a [LaidRelease],
}

impl Job<'_> {
    /// Whether a release of the item has given this field of an object this value.
    pub(crate) fn is_laid(&self, object: &ApiRef, path: &[Segment], found: Option<&Value>) -> bool {
        self.laid.iter().any(|laid| {
            let manifest = laid.manifests.iter().find(|m| releases::is(m, object, &laid.namespace));
            found.is_some() && manifest.is_some_and(|manifest| fields::read(manifest, path) == found)
        })
    }
}

/// A release that was changed, with its manifests since.
pub(crate) struct LaidRelease {
    namespace: String,
    manifests: Vec<Value>,
}

impl LaidRelease {
    fn of(object: &ObjectId, contents: &[Content]) -> Option<Self> {
        let (namespace, _) = release_of(object)?;
        let manifests = contents.iter().find_map(releases::manifests_of)?;
        Some(Self { namespace: namespace.to_owned(), manifests })
    }
}

/// A content to save, and what stands beside it.
pub(crate) type Save = (Content, Option<Beside>);

/// The result of a change.
pub(crate) struct Done {
    pub(crate) after: State,
    pub(crate) contents: Vec<Content>,
}

impl Cluster {
    /// Does an item. What it finds otherwise than planned it leaves alone; what it changes it saves before.
    pub async fn work(&self, run: &str, work: &ClusterWork, tell: &(dyn Fn(&str) + Sync)) -> WorkResult {
        let mut worked = WorkResult::default();
        if work.adopt {
            if let Err(end) = self.adopt(run, work).await {
                worked.end = end;
            }
            return worked;
        }
        let mut laid = Vec::new();
        for change in &work.changes {
            let job = Job { run, work, change, tell, laid: &laid };
            let result = match change.object.kind.as_str() {
                "k8s" => self.change_k8s(&job).await,
                "workload" => self.change_workload(&job).await,
                "release" => self.change_release(&job, &mut worked.window).await,
                "condition" => self.change_condition(&job).await,
                other => Err(WorkEnd::Refused(format!("`{other}` is not of a cluster"))),
            };
            match result {
                Ok(done) => {
                    worked.after.push((change.object.clone(), done.after));
                    laid.extend(LaidRelease::of(&change.object, &done.contents));
                    worked.contents.extend(done.contents);
                }
                Err(end) => {
                    if matches!(end, WorkEnd::Failed { .. })
                        && let Ok((observed, contents)) = self.look(&change.object).await
                    {
                        worked.after.push((change.object.clone(), observed.state));
                        worked.contents.extend(contents);
                    } else if !worked.after.is_empty() {
                        self.left_alone(&job).await;
                    }
                    worked.end = end;
                    break;
                }
            }
        }
        // A definition of kinds may be among what was done.
        self.inner.api.forget_kinds().await;
        worked
    }

    /// Records that an object was left alone of which the item has changed others: a rollback with such an item is not whole.
    async fn left_alone(&self, job: &Job<'_>) {
        let recorded = async {
            let (observed, _) = self.look(&job.change.object).await.map_err(failed)?;
            let seq = self.begin(job, &observed.state, Vec::new(), None).await?;
            self.end(job, seq, ChangeEnd::Failed, Some((&observed.state, &[])), Left::default()).await
        };
        if let Err(end) = recorded.await {
            tracing::warn!(?end, "it is not recorded that an object was left alone");
        }
    }

    /// Only records are written. Without an owner objects are released; of a workload the inputs with which it runs are recorded.
    async fn adopt(&self, run: &str, work: &ClusterWork) -> Result<(), WorkEnd> {
        for change in &work.changes {
            if work.owner.is_empty() {
                self.disown(run, &change.object).await.map_err(failed)?;
            } else if change.object.kind == "workload" {
                self.note_started(change).await?;
            }
        }
        Ok(())
    }

    /// Saves contents and writes that a change begins. Afterwards it may be made.
    pub(crate) async fn begin(
        &self,
        job: &Job<'_>,
        before: &State,
        saves: Vec<Save>,
        no_snapshot: Option<String>,
    ) -> Result<u32, WorkEnd> {
        let not_saved =
            |why: RecordsError| WorkEnd::NotSaved(format!("{}: {why}", shown(&job.change.object)));
        let mut slot = self.inner.run.lock().await;
        let open = slot.as_mut().filter(|open| open.meta.id == job.run);
        let open = open.ok_or_else(|| not_saved(RecordsError::NotOpen))?;
        open.lease.confirm().await.map_err(|error| WorkEnd::Refused(error.to_string()))?;
        let sealed = self.sealed(job);
        // helm itself keeps what a release was.
        let saved_by_run = job.change.object.kind == "k8s" && !before.is_absent();
        let no_snapshot = no_snapshot.or_else(|| sealed.filter(|_| saved_by_run).and_then(not_sealed));
        for (content, beside) in saves {
            open.save(&content, beside, sealed).await.map_err(not_saved)?;
        }
        let work = job.work;
        // Should we be cut off, a rollback needs to know what was meant to come.
        let planned = job.change.to.words().unwrap_or_default();
        for content in work.contents.values().filter(|c| planned.iter().any(|w| w == c.digest().as_str())) {
            open.save(content, None, sealed).await.map_err(not_saved)?;
        }
        open.begin(job.change, before, work, no_snapshot).await.map_err(not_saved)
    }

    /// Writes who owns the fields that a change makes, before it is made.
    pub(crate) async fn finds(
        &self,
        job: &Job<'_>,
        seq: u32,
        owners: Option<Vec<Value>>,
    ) -> Result<(), WorkEnd> {
        let mut slot = self.inner.run.lock().await;
        let Some(open) = slot.as_mut().filter(|open| open.meta.id == job.run) else { return Ok(()) };
        open.finds(seq, owners).await.map_err(failed)
    }

    /// The options to seal the records of a sensitive item; of a Secret the values alone are sealed, for its text holds none.
    fn sealed(&self, job: &Job<'_>) -> Option<&ClusterOptions> {
        let secret = ApiRef::from_key(&job.change.object.key).is_some_and(|object| object.kind == "Secret");
        (job.work.sensitive && !secret).then_some(&self.inner.options)
    }

    /// The same for a change that has to begin again, since another client wrote in between.
    pub(crate) async fn begin_again(
        &self,
        job: &Job<'_>,
        seq: u32,
        before: &State,
        saves: Vec<Save>,
    ) -> Result<u32, WorkEnd> {
        let mut slot = self.inner.run.lock().await;
        let Some(open) = slot.as_mut().filter(|open| open.meta.id == job.run) else { return Ok(seq) };
        for (content, beside) in saves {
            open.save(&content, beside, self.sealed(job)).await.map_err(failed)?;
        }
        open.begin_again(seq, before).await.map_err(failed)?;
        Ok(seq)
    }

    /// Writes how it ended.
    pub(crate) async fn end(
        &self,
        job: &Job<'_>,
        seq: u32,
        ended: ChangeEnd,
        after: Option<(&State, &[Content])>,
        left: Left,
    ) -> Result<(), WorkEnd> {
        let mut slot = self.inner.run.lock().await;
        let Some(open) = slot.as_mut().filter(|open| open.meta.id == job.run) else { return Ok(()) };
        for content in after.iter().flat_map(|(_, contents)| contents.iter()) {
            if let Err(why) = open.save(content, None, self.sealed(job)).await {
                tracing::warn!(%why, "what a change left was not kept");
            }
        }
        let after = after.map(|(state, _)| state);
        open.end(seq, ended, after, left).await.map_err(|why| {
            failed(format!(
                "{} was changed, but its record was not written: {why}",
                shown(&job.change.object)
            ))
        })
    }
}

/// The reason why nothing of a sensitive item is kept.
fn not_sealed(options: &ClusterOptions) -> Option<String> {
    let none = options.recipients.is_empty();
    none.then(|| {
        "the inventory names no age recipients, so what a sensitive resource has changed is not kept"
            .to_owned()
    })
}

/// A failure of one line.
pub(crate) fn failed(message: impl ToString) -> WorkEnd {
    WorkEnd::Failed { message: message.to_string(), output: String::new() }
}

/// An object as people name it.
pub(crate) fn shown(id: &ObjectId) -> String {
    match id.kind.as_str() {
        "k8s" | "workload" => ApiRef::from_key(&id.key).map_or_else(|| id.key.clone(), |r| r.shown()),
        "release" => format!("release {}", id.key),
        _ => id.kind.clone(),
    }
}

/// The object that a state names.
pub(crate) fn named(work: &ClusterWork, digest: &Digest) -> Option<Value> {
    work.contents.get(digest).and_then(text::from_text)
}
