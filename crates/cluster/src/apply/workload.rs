//! Restarts of workloads, and waits for them.

use super::{Done, Job, failed, shown};
use crate::api::{MERGE, escaped};
use crate::connect::Cluster;
use crate::object::{seconds, text};
use crate::observe::{RunningWorkload, no_key};
use crate::open_run::Left;
use crate::records::ChangeEnd;
use crate::rollout::on_delete;
use crate::started::StartedWorkload;
use crate::work::WorkEnd;
use converge_objects::workload::{self, RESTARTED, STARTED_WITH, WorkloadState, restarts};
use converge_resource::{ApiRef, Change, State};
use serde_json::{Value, json};
use std::fmt::Display;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// All pods must be there within this.
const ROLLOUT: Duration = Duration::from_secs(workload::ROLLOUT);

/// Restarts of one workload that another client takes back.
const RESTARTS: usize = 3;

/// Comparisons when others write at the same time.
const TRIES: usize = 6;

impl Cluster {
    /// Restarts a workload where that is planned, and waits until all of its pods are there.
    pub(super) async fn change_workload(&self, job: &Job<'_>) -> Result<Done, WorkEnd> {
        let id = &job.change.object;
        let refused = |why: &dyn Display| WorkEnd::Refused(format!("{}: {why}", shown(id)));
        let wanted = ApiRef::from_key(&id.key).ok_or_else(|| refused(&no_key(id)))?;
        let state = |state: &State| WorkloadState::try_from(state.clone()).map_err(|e| refused(&e));
        let (from, to) = (state(&job.change.from)?, state(&job.change.to)?);
        let WorkloadState::Running { started_with: with, .. } = &to else {
            return Err(refused(&"a workload goes with its object, not by itself"));
        };
        // Back to before the first restart there is no record of what it was started with.
        let restart = restarts(&from, &to).then_some(with.as_deref());
        let present = self.running(&wanted).await.map_err(|e| refused(&e))?;
        let Some(present) = present else {
            // Taken back: what has gone with its release runs with nothing.
            return match job.work.owner.is_empty() {
                true => Ok(Done { after: State::absent(), contents: Vec::new() }),
                false => Err(refused(&"it is not there")),
            };
        };
        let before = present.observed().state;
        if let (Some(_), WorkloadState::Running { started_with: planned, .. }) = (restart, &from) {
            let found = state(&before)?;
            if !matches!(&found, WorkloadState::Running { started_with, .. } if started_with == planned) {
                return Err(refused(&"somebody has restarted it since this was planned; plan again"));
            }
        }
        let seq = self.begin(job, &before, Vec::new(), None).await?;
        let result = async {
            let Some(with) = restart else { return self.rolled_out(job, &wanted).await };
            let mut present = present;
            for _ in 0..RESTARTS {
                (job.tell)(&format!("restarting {}", wanted.shown()));
                // Not this moment's second: times of pods have no fractions.
                let begun = self.inner.api.now().as_second() - 1;
                self.restart(&wanted, present, with).await?;
                self.rolled_out(job, &wanted).await?;
                let Some(now) = self.running(&wanted).await.map_err(failed)? else { return Ok(()) };
                // The node of an old pod may be away.
                let old = |pod: &&Value| {
                    pod.pointer("/metadata/creationTimestamp").and_then(seconds).is_some_and(|at| at < begun)
                };
                let marked = now.object.pointer("/spec/template/metadata/annotations");
                if marked.is_some_and(|marks| marks.get(RESTARTED).is_some()) || !now.pods.iter().any(|p| old(&p)) {
                    return Ok(());
                }
                // Whoever owns it has written it was before its pods were replaced.
                present = now;
            }
            Err(failed(format!(
                "{} was restarted {RESTARTS} times, but its owner removed the restart each time: pods of the previous template are still there",
                wanted.shown()
            )))
        }
        .await;
        let after = self.running(&wanted).await.ok();
        let after = after.map(|now| now.map_or_else(State::absent, |running| running.observed().state));
        let ended = if result.is_ok() { ChangeEnd::Done } else { ChangeEnd::Failed };
        self.end(job, seq, ended, after.as_ref().map(|state| (state, &[][..])), Left::default()).await?;
        result?;
        Ok(Done { after: after.unwrap_or_else(|| job.change.to.clone()), contents: Vec::new() })
    }

    /// Records what a workload was started with, where nothing is restarted.
    pub(super) async fn note_started(&self, change: &Change) -> Result<(), WorkEnd> {
        let fail = |why: &dyn Display| {
            failed(format!("{}: its record was not written: {why}", shown(&change.object)))
        };
        let to = WorkloadState::try_from(change.to.clone()).map_err(|e| fail(&e))?;
        let WorkloadState::Running { started_with: Some(with), .. } = to else { return Ok(()) };
        let wanted = ApiRef::from_key(&change.object.key).ok_or_else(|| fail(&no_key(&change.object)))?;
        let found = self.inner.api.object(&wanted).await.map_err(|e| fail(&e))?;
        let uid = found.map(|object| text(&object, "/metadata/uid").to_owned()).unwrap_or_default();
        self.note(&wanted.key(), StartedWorkload { uid, with: Some(with) }).await.map_err(|e| fail(&e))
    }

    /// Sets the annotation that makes its controller start all pods anew, and records with what.
    async fn restart(
        &self,
        wanted: &ApiRef,
        present: RunningWorkload,
        with: Option<&str>,
    ) -> Result<(), WorkEnd> {
        let api = &self.inner.api;
        let fail = |why: &dyn Display| failed(format!("{} was not restarted: {why}", wanted.shown()));
        let path = api.path(wanted).await.map_err(|e| fail(&e))?.unwrap_or_default();
        let path = format!("{path}?fieldManager={}", escaped(self.manager()));
        let mut object = present.object;
        for _ in 0..TRIES {
            let template = object.pointer("/spec/template/metadata/annotations");
            let last = template.and_then(|a| a.get(RESTARTED)).and_then(Value::as_str).unwrap_or_default();
            // The same words again would start nothing.
            let mark = match with {
                Some(with) if last != with => with.to_owned(),
                with => format!("{}.{}", with.unwrap_or("before"), api.now().as_second()),
            };
            let patch = json!({
                "metadata": {"resourceVersion": text(&object, "/metadata/resourceVersion"), "annotations": {STARTED_WITH: null}},
                "spec": {"template": {"metadata": {"annotations": {RESTARTED: mark}}}},
            });
            match api.patch(&path, MERGE, &patch).await {
                Ok(object) => {
                    let uid = text(&object, "/metadata/uid").to_owned();
                    let started = StartedWorkload { uid, with: with.map(str::to_owned) };
                    return self.note(&wanted.key(), started).await.map_err(|why| {
                        failed(format!(
                            "{} was restarted, but its record was not written: {why}",
                            wanted.shown()
                        ))
                    });
                }
                Err(fault) if fault.code() == Some(409) => {
                    let found = api.object(wanted).await.map_err(|e| fail(&e))?;
                    object = found.ok_or_else(|| fail(&"it is gone"))?;
                }
                Err(fault) => return Err(fail(&fault)),
            }
        }
        Err(fail(&format!("other writers kept changing it; it was tried {TRIES} times")))
    }

    /// Waits until it is complete.
    async fn rolled_out(&self, job: &Job<'_>, wanted: &ApiRef) -> Result<(), WorkEnd> {
        let (start, mut listed) = (Instant::now(), String::new());
        let namespace = wanted.namespace.as_deref().unwrap_or_default();
        loop {
            let why = match self.running(wanted).await {
                // A rollback deletes what owns it as well: a workload that has gone holds no earlier state.
                Ok(None) if job.work.owner.is_empty() => return Ok(()),
                Ok(None) => {
                    return Err(failed(format!("{} has gone while it was waited for", wanted.shown())));
                }
                // The API server may be away for a moment; the deadline counts.
                Err(error) => error.to_string(),
                Ok(Some(running)) => match running.rollout().complete() {
                    Ok(()) => match running.rollout().old().first().filter(|_| on_delete(&running.object)) {
                        None => return Ok(()),
                        Some(pod) => self.replace(namespace, pod).await,
                    },
                    Err(incomplete) => incomplete.to_string(),
                },
            };
            if start.elapsed() > ROLLOUT {
                return Err(WorkEnd::Failed {
                    message: format!(
                        "{} is not complete after {} s: {why}",
                        wanted.shown(),
                        ROLLOUT.as_secs()
                    ),
                    output: self.warnings(namespace, &wanted.name).await,
                });
            }
            if why != listed {
                (job.tell)(&format!("{}: {why}", wanted.shown()));
                listed = why;
            }
            sleep(Duration::from_millis(if start.elapsed() < Duration::from_secs(3) { 200 } else { 1000 }))
                .await;
        }
    }

    /// Deletes a pod that nobody else would replace (`updateStrategy: OnDelete`), one after another.
    async fn replace(&self, namespace: &str, pod: &Value) -> String {
        let name = text(pod, "/metadata/name");
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let options = json!({"preconditions": {"uid": text(pod, "/metadata/uid")}});
        match self.inner.api.delete(&path, &options).await {
            Ok(_) => format!("pod {name} was started before and is replaced"),
            Err(fault) => fault.to_string(),
        }
    }
}
