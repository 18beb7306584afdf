//! Restarts of workloads, and waits for them.

use super::{Done, Job, failed, shown};
use crate::api::MERGE;
use crate::connect::Cluster;
use crate::object::text;
use crate::observe::{Running, no_key};
use crate::records::Ended;
use crate::rollout::on_delete;
use crate::work::WorkEnd;
use converge_objects::workload::{RESTARTED, STARTED_WITH, WorkloadState, restarts};
use converge_resource::{ApiRef, Change, State};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// All pods must be there within this.
const ROLLOUT: Duration = Duration::from_secs(600);

/// Comparisons when others write at the same time.
const TRIES: usize = 6;

impl Cluster {
    /// Restarts a workload where that is planned, and waits until all of its pods are there.
    pub(super) async fn change_workload(&self, job: &Job<'_>) -> Result<Done, WorkEnd> {
        let id = &job.change.object;
        let refused = |why: String| WorkEnd::Refused(format!("{}: {why}", shown(id)));
        let wanted = ApiRef::from_key(&id.key).ok_or_else(|| refused(no_key(id)))?;
        let state =
            |state: &State| WorkloadState::try_from(state.clone()).map_err(|e| refused(e.to_string()));
        let (from, to) = (state(&job.change.from)?, state(&job.change.to)?);
        let WorkloadState::Running { started_with: with, .. } = &to else {
            return Err(refused("a workload goes with its object, not by itself".to_owned()));
        };
        // Back to before the first restart there is no record of what it was started with.
        let restart = restarts(&from, &to).then_some(with.as_deref());
        let seen = self.running(&wanted).await.map_err(&refused)?;
        let seen = seen.ok_or_else(|| refused("it is not there".to_owned()))?;
        let before = seen.observed().state;
        if let (Some(_), WorkloadState::Running { started_with: planned, .. }) = (restart, &from) {
            let found = state(&before)?;
            if !matches!(&found, WorkloadState::Running { started_with, .. } if started_with == planned) {
                return Err(refused(
                    "somebody has restarted it since this was planned; plan again".to_owned(),
                ));
            }
        }
        let seq = self.begin(job, &before, Vec::new(), None).await?;
        let result = async {
            if let Some(with) = restart {
                (job.tell)(&format!("restarting {}", wanted.shown()));
                self.restart(&wanted, seen, with).await?;
            }
            self.rolled_out(job, &wanted).await
        }
        .await;
        let after = self.running(&wanted).await.ok().flatten();
        let after = after.map(|running| running.observed().state);
        let ended = if result.is_ok() { Ended::Done } else { Ended::Failed };
        self.end(job, seq, ended, after.as_ref().map(|state| (state, &[][..])), None).await?;
        result?;
        Ok(Done { after: after.unwrap_or_else(|| job.change.to.clone()), contents: Vec::new() })
    }

    /// Writes at a workload what it was started with, where nothing is restarted.
    pub(super) async fn note_started(&self, change: &Change) -> Result<(), WorkEnd> {
        let fail =
            |why: String| failed(format!("{}: its record was not written: {why}", shown(&change.object)));
        let to = WorkloadState::try_from(change.to.clone()).map_err(|e| fail(e.to_string()))?;
        let WorkloadState::Running { started_with: Some(with), .. } = to else { return Ok(()) };
        let wanted = ApiRef::from_key(&change.object.key).ok_or_else(|| fail(no_key(&change.object)))?;
        let path = self.inner.api.path(&wanted).await.map_err(|e| fail(e.to_string()))?.unwrap_or_default();
        let path = format!("{path}?fieldManager={}", converge_resource::FIELD_MANAGER);
        let patch = json!({"metadata": {"annotations": {STARTED_WITH: with}}});
        self.inner.api.patch(&path, MERGE, &patch).await.map_err(|e| fail(e.to_string()))?;
        Ok(())
    }

    /// Sets the annotations that make its controller start all pods anew, and that tell with what.
    async fn restart(&self, wanted: &ApiRef, seen: Running, with: Option<&str>) -> Result<(), WorkEnd> {
        let api = &self.inner.api;
        let fail = |why: String| failed(format!("{} was not restarted: {why}", wanted.shown()));
        let path = api.path(wanted).await.map_err(|e| fail(e.to_string()))?.unwrap_or_default();
        let path = format!("{path}?fieldManager={}", converge_resource::FIELD_MANAGER);
        let mut object = seen.object;
        for _ in 0..TRIES {
            let template = object.pointer("/spec/template/metadata/annotations");
            let last = template.and_then(|a| a.get(RESTARTED)).and_then(Value::as_str).unwrap_or_default();
            // The same words again would start nothing.
            let mark = match with {
                Some(with) if last != with => with.to_owned(),
                with => format!("{}.{}", with.unwrap_or("before"), api.now().as_second()),
            };
            let patch = json!({
                "metadata": {"resourceVersion": text(&object, "/metadata/resourceVersion"), "annotations": {STARTED_WITH: with}},
                "spec": {"template": {"metadata": {"annotations": {RESTARTED: mark}}}},
            });
            match api.patch(&path, MERGE, &patch).await {
                Ok(_) => return Ok(()),
                Err(fault) if fault.code() == Some(409) => {
                    let found = api.object(wanted).await.map_err(|e| fail(e.to_string()))?;
                    object = found.ok_or_else(|| fail("it is gone".to_owned()))?;
                }
                Err(fault) => return Err(fail(fault.to_string())),
            }
        }
        Err(fail(format!("others write it all the time; it was tried {TRIES} times")))
    }

    /// Waits until it is complete.
    async fn rolled_out(&self, job: &Job<'_>, wanted: &ApiRef) -> Result<(), WorkEnd> {
        let (start, mut told) = (Instant::now(), String::new());
        let namespace = wanted.namespace.as_deref().unwrap_or_default();
        loop {
            let why = match self.running(wanted).await {
                Ok(None) => {
                    return Err(failed(format!("{} has gone while it was waited for", wanted.shown())));
                }
                // The API server may be away for a moment; the deadline counts.
                Err(why) => why,
                Ok(Some(running)) => match running.rollout().complete() {
                    Ok(()) => match running.rollout().old().first().filter(|_| on_delete(&running.object)) {
                        None => return Ok(()),
                        Some(pod) => self.replace(namespace, pod).await,
                    },
                    Err(why) => why,
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
            if why != told {
                (job.tell)(&format!("{}: {why}", wanted.shown()));
                told = why;
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
