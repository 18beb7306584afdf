//! Jobs that prove something: run to their end, read, and taken away in every case.

use crate::api::{Api, escaped};
use crate::connect::Cluster;
use crate::fault::Fault;
use crate::object::text;
use converge_resource::{ApiRef, FIELD_MANAGER};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The time within which the rest of a Job is removed.
const GOING: Duration = Duration::from_secs(30);

/// Bytes of a log that are read.
const LOG: u64 = 256 << 10;

/// The reason why a Job did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    #[error("the Job is not JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("the Job needs apiVersion, kind and metadata.name")]
    NoName,
    #[error("{0} is no Job")]
    NotAJob(String),
    #[error("the API server has no Jobs")]
    NoJobs,
    #[error("{job}: {fault}")]
    Api { job: String, fault: Fault },
    #[error("{0} of a previous run is not deleted")]
    Leftover(String),
}

/// Takes the Job away, also when nobody waits for its end any more.
struct JobRemoval {
    api: Arc<Api>,
    path: String,
    armed: bool,
}

impl Drop for JobRemoval {
    fn drop(&mut self) {
        // At the end of the process there is nobody left to ask; the Job ends by its own deadline then.
        if self.armed
            && let Ok(handle) = tokio::runtime::Handle::try_current()
        {
            let (api, path) = (Arc::clone(&self.api), self.path.clone());
            handle.spawn(async move { take(&api, &path).await });
        }
    }
}

async fn take(api: &Api, path: &str) {
    let options = json!({"propagationPolicy": "Background"});
    if let Err(fault) = api.delete(path, &options).await {
        tracing::warn!(%fault, path, "a Job was not taken away; it goes by itself some time after its end");
    }
}

impl Cluster {
    /// See [`converge_resource::ApiProbe::Job`].
    pub(super) async fn job(&self, manifest: &str, seconds: u64) -> Result<Value, JobError> {
        let api = &self.inner.api;
        let mut manifest: Value = serde_json::from_str(manifest)?;
        let wanted = ApiRef::of(&manifest).ok_or(JobError::NoName)?;
        let fail = |fault: Fault| JobError::Api { job: wanted.shown(), fault };
        if wanted.kind != "Job" {
            return Err(JobError::NotAJob(wanted.shown()));
        }
        if let Some(map) = manifest.as_object_mut() {
            let spec = map.entry("spec").or_insert_with(|| json!({}));
            if let Some(spec) = spec.as_object_mut() {
                // Should we die, the cluster ends it and takes it away.
                spec.entry("activeDeadlineSeconds").or_insert_with(|| json!(seconds));
                spec.entry("ttlSecondsAfterFinished").or_insert_with(|| json!(300));
            }
        }
        let start = Instant::now();
        let path = api.path(&wanted).await.map_err(fail)?.ok_or(JobError::NoJobs)?;
        self.leftover(&wanted, &path).await?;
        let namespace = wanted.namespace.clone().unwrap_or_default();
        let list =
            api.collection("batch/v1", "Job", Some(&namespace)).await.map_err(fail)?.unwrap_or_default();
        let taken = JobRemoval { api: Arc::clone(api), path: path.clone(), armed: true };
        api.post(&format!("{list}?fieldManager={FIELD_MANAGER}"), &manifest).await.map_err(fail)?;
        let limit = Duration::from_secs(seconds);
        let end = loop {
            // The API server may be away for a moment; the deadline counts.
            let live = api.object(&wanted).await;
            let end = match &live {
                Ok(Some(live)) => ended(live),
                Ok(None) => Some((false, "somebody has deleted it".to_owned())),
                Err(_) => None,
            };
            match end {
                Some(end) => break end,
                None if start.elapsed() >= limit => {
                    let why = match live {
                        Err(fault) => fault.to_string(),
                        Ok(_) => self.stuck(&namespace, &wanted.name).await,
                    };
                    break (false, format!("it did not end within {seconds} s{why}"));
                }
                None => {
                    sleep(Duration::from_millis(if start.elapsed() < Duration::from_secs(5) {
                        200
                    } else {
                        1000
                    }))
                    .await;
                }
            }
        };
        let took = start.elapsed().as_secs();
        let log = self.log(&namespace, &wanted.name).await;
        let mut taken = taken;
        taken.armed = false;
        take(api, &path).await;
        Ok(json!({"succeeded": end.0, "log": log, "reason": end.1, "seconds": took}))
    }

    /// One of a previous run is removed first.
    async fn leftover(&self, wanted: &ApiRef, path: &str) -> Result<(), JobError> {
        let api = &self.inner.api;
        let start = Instant::now();
        let fail = |fault: Fault| JobError::Api { job: wanted.shown(), fault };
        while api.object(wanted).await.map_err(fail)?.is_some() {
            if start.elapsed() > GOING {
                return Err(JobError::Leftover(wanted.shown()));
            }
            take(api, path).await;
            sleep(Duration::from_millis(300)).await;
        }
        Ok(())
    }

    async fn pods_of(&self, namespace: &str, job: &str) -> Vec<Value> {
        let labels = format!("batch.kubernetes.io/job-name={job}");
        let found = self.list("v1", "Pod", Some(namespace), Some(&labels)).await;
        let mut pods = found.ok().flatten().unwrap_or_default();
        pods.sort_by_cached_key(|pod| text(pod, "/metadata/creationTimestamp").to_owned());
        pods
    }

    /// The log of its newest pod.
    async fn log(&self, namespace: &str, job: &str) -> String {
        let pods = self.pods_of(namespace, job).await;
        let Some(pod) = pods.last() else { return String::new() };
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/log?limitBytes={LOG}",
            escaped(namespace),
            escaped(text(pod, "/metadata/name"))
        );
        self.inner.api.text(&path).await.unwrap_or_else(|fault| format!("(its log cannot be read: {fault})"))
    }

    /// The reason why its pods do not get on.
    async fn stuck(&self, namespace: &str, job: &str) -> String {
        let pods = self.pods_of(namespace, job).await;
        let listed: Vec<String> = pods.iter().map(crate::rollout::listed).collect();
        let events = self.warnings(namespace, job).await;
        let list = listed.into_iter().chain(events.lines().map(str::to_owned)).collect::<Vec<_>>().join("; ");
        if list.is_empty() { list } else { format!(": {list}") }
    }
}

/// Whether it has ended, how, and why.
fn ended(job: &Value) -> Option<(bool, String)> {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array)?;
    let on =
        |name: &str| conditions.iter().find(|c| text(c, "/type") == name && text(c, "/status") == "True");
    if on("Complete").is_some() {
        return Some((true, String::new()));
    }
    on("Failed").map(|c| (false, format!("{}: {}", text(c, "/reason"), text(c, "/message"))))
}
