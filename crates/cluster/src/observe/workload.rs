//! Workloads with their pods.

use super::LookError;
use crate::connect::Cluster;
use crate::fault::Fault;
use crate::object::{seconds, selector, text};
use crate::rollout::Rollout;
use converge_objects::workload::{STARTED_WITH, WorkloadState};
use converge_resource::{ApiRef, Observation};
use serde_json::Value;

/// A workload as it stands.
pub(crate) struct RunningWorkload {
    pub(crate) object: Value,
    pub(crate) pods: Vec<Value>,
    nodes: Vec<Value>,
    newest: Option<String>,
    /// The content with which its pods were started last.
    with: Option<String>,
}

impl RunningWorkload {
    pub(crate) fn rollout(&self) -> Rollout<'_> {
        Rollout { object: &self.object, pods: &self.pods, nodes: &self.nodes, newest: self.newest.as_deref() }
    }

    /// The state, and since when its oldest pod is there.
    pub(crate) fn observed(&self) -> Observation {
        let complete = self.rollout().complete().is_ok();
        let state = WorkloadState::Running { started_with: self.with.clone(), complete };
        Observation::new(state.into(), self.oldest())
    }

    /// Since when its oldest pod is there.
    pub(crate) fn oldest(&self) -> Option<i64> {
        let times = self.pods.iter().filter_map(|pod| pod.pointer("/metadata/creationTimestamp"));
        times.filter_map(seconds).min()
    }
}

impl Cluster {
    /// The workload; `None` when there is none.
    pub(crate) async fn running(&self, wanted: &ApiRef) -> Result<Option<RunningWorkload>, LookError> {
        let Some(mut object) = self.inner.api.object(wanted).await? else { return Ok(None) };
        if let Some(map) = object.as_object_mut() {
            map.entry("kind").or_insert_with(|| Value::from(wanted.kind.clone()));
        }
        let namespace = wanted.namespace.as_deref();
        let labels = selector(object.pointer("/spec/selector").unwrap_or(&Value::Null));
        let (pods, nodes, newest) = futures::try_join!(
            self.list("v1", "Pod", namespace, Some(&labels)),
            self.list("v1", "Node", None, None),
            self.newest(wanted, &object, &labels),
        )?;
        // Of what has the same labels only its own.
        let uid = text(&object, "/metadata/uid");
        let own = |pod: &Value| {
            let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            wanted.kind == "Deployment" || owners.into_iter().flatten().any(|o| text(o, "/uid") == uid)
        };
        let pods = pods.unwrap_or_default().into_iter().filter(own).collect();
        let with = match self.started(&wanted.key(), uid).await? {
            Some(started) => started.with,
            // Where an older converge kept it.
            None => {
                let annotations = object.pointer("/metadata/annotations");
                annotations.and_then(|a| a.get(STARTED_WITH)).and_then(Value::as_str).map(str::to_owned)
            }
        };
        Ok(Some(RunningWorkload { object, pods, nodes: nodes.unwrap_or_default(), newest, with }))
    }

    /// The label value that pods of the present template have.
    async fn newest(&self, wanted: &ApiRef, object: &Value, labels: &str) -> Result<Option<String>, Fault> {
        let namespace = wanted.namespace.as_deref();
        let uid = text(object, "/metadata/uid");
        let owned = |o: &&Value| {
            let owners = o.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            owners.into_iter().flatten().any(|owner| text(owner, "/uid") == uid)
        };
        let label = |o: &Value, key: &str| {
            o.pointer("/metadata/labels").and_then(|l| l.get(key)).and_then(Value::as_str).map(str::to_owned)
        };
        match wanted.kind.as_str() {
            "DaemonSet" => {
                let list = self.list("apps/v1", "ControllerRevision", namespace, Some(labels)).await?;
                let list = list.unwrap_or_default();
                let newest =
                    list.iter().filter(owned).max_by_key(|r| r.get("revision").and_then(Value::as_i64));
                Ok(newest.and_then(|r| label(r, "controller-revision-hash")))
            }
            "StatefulSet" => {
                Ok(object.pointer("/status/updateRevision").and_then(Value::as_str).map(str::to_owned))
            }
            _ => {
                let list = self.list("apps/v1", "ReplicaSet", namespace, Some(labels)).await?;
                let list = list.unwrap_or_default();
                let revision = |o: &Value| {
                    let annotations = o.pointer("/metadata/annotations")?;
                    annotations.get("deployment.kubernetes.io/revision")?.as_str()?.parse::<u64>().ok()
                };
                let newest = list.iter().filter(owned).max_by_key(|r| revision(r));
                Ok(newest.and_then(|r| label(r, "pod-template-hash")))
            }
        }
    }

    /// The newest warnings of a namespace about objects whose names begin so; the newest last.
    pub(crate) async fn warnings(&self, namespace: &str, prefix: &str) -> String {
        let path = format!(
            "/api/v1/namespaces/{}/events?fieldSelector=type%3DWarning",
            crate::api::escaped(namespace)
        );
        let Ok(mut events) = self.inner.api.list(&path).await else { return String::new() };
        events.retain(|e| text(e, "/involvedObject/name").starts_with(prefix));
        let when = |e: &Value| {
            let times = ["/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
            times.into_iter().map(|t| text(e, t)).find(|t| !t.is_empty()).unwrap_or_default().to_owned()
        };
        events.sort_by_cached_key(when);
        let listed = events.iter().rev().take(6).rev().map(|e| {
            let message: String = text(e, "/message").chars().filter(|c| !c.is_control()).take(300).collect();
            let (kind, name) =
                (text(e, "/involvedObject/kind").to_lowercase(), text(e, "/involvedObject/name"));
            format!("{} {kind} {name}: {}: {message}", when(e), text(e, "/reason"))
        });
        listed.collect::<Vec<_>>().join("\n")
    }
}
