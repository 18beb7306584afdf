//! Whether all pods of a workload are there, of its present template, and ready. Pure.

use crate::object::{is_being_deleted, text};
use converge_objects::condition::ready;
use converge_resource::counted;
use serde_json::Value;
use std::collections::BTreeSet;

/// The reason why a rollout is not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Incomplete {
    #[error("its controller has not observed the change yet")]
    NotObserved,
    #[error(
        "of {} {updated} have the current template and {available} are ready{}{}",
        counted(usize::try_from(*wanted).unwrap_or_default(), "pod"),
        if *paused { ", and it is paused" } else { "" },
        if unready.is_empty() { String::new() } else { format!(": {}", unready.join("; ")) }
    )]
    Pods {
        wanted: u64,
        updated: u64,
        available: u64,
        paused: bool,
        /// The first few pods that are not ready, and why.
        unready: Vec<String>,
    },
}

/// A workload with all that its judgement needs.
pub(crate) struct Rollout<'a> {
    pub(crate) object: &'a Value,
    pub(crate) pods: &'a [Value],
    pub(crate) nodes: &'a [Value],
    /// The label value that pods of the present template have; `None` when it is not known.
    pub(crate) newest: Option<&'a str>,
}

fn number(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Pods are replaced only when a user deletes them.
pub(crate) fn on_delete(object: &Value) -> bool {
    text(object, "/spec/updateStrategy/type") == "OnDelete"
}

/// Pods wanted, of the present template, available.
fn counts(object: &Value) -> (u64, u64, u64) {
    let n = |field: &str| number(object, &format!("/status/{field}"));
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1);
    match text(object, "/kind") {
        "DaemonSet" => (n("desiredNumberScheduled"), n("updatedNumberScheduled"), n("numberAvailable")),
        "StatefulSet" => {
            let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition").min(replicas);
            (replicas, n("updatedReplicas").saturating_add(partition).min(replicas), n("readyReplicas"))
        }
        _ => (replicas, n("updatedReplicas"), n("availableReplicas")),
    }
}

impl Rollout<'_> {
    /// Whether all wanted pods are there.
    pub(crate) fn complete(&self) -> Result<(), Incomplete> {
        let object = self.object;
        if number(object, "/status/observedGeneration") < number(object, "/metadata/generation") {
            return Err(Incomplete::NotObserved);
        }
        let (wanted, updated, available) = counts(object);
        let updated = if on_delete(object) { wanted } else { updated };
        let total = number(object, "/status/replicas");
        let old = if text(object, "/kind") == "Deployment" { total.saturating_sub(updated) } else { 0 };
        if updated >= wanted && available >= wanted && old == 0 {
            return Ok(());
        }
        let missing = || Incomplete::Pods {
            wanted,
            updated,
            available,
            paused: object.pointer("/spec/paused") == Some(&Value::Bool(true)),
            unready: self.unready(),
        };
        // Pods on nodes that are not ready themselves, or are gone, do not count; then each other pod must be right.
        let (away, here): (Vec<&Value>, Vec<&Value>) = self.pods.iter().partition(|pod| self.is_away(pod));
        let places: BTreeSet<String> = away.iter().map(|pod| place(pod)).collect();
        if places.is_empty() {
            return Err(missing());
        }
        let excused = if text(object, "/kind") == "DaemonSet" { places.len() } else { away.len() };
        let needed = wanted.saturating_sub(u64::try_from(excused).unwrap_or(0));
        let right = here.iter().filter(|pod| self.is_right(pod)).count();
        let all = here.iter().all(|pod| self.is_right(pod));
        if all && u64::try_from(right).unwrap_or(0) >= needed { Ok(()) } else { Err(missing()) }
    }

    /// Some pods are of an old template, where nobody replaces them by himself.
    pub(crate) fn old(&self) -> Vec<&Value> {
        let newest = self.newest;
        self.pods.iter().filter(|pod| newest.is_some() && !self.is_away(pod) && hash(pod) != newest).collect()
    }

    fn is_right(&self, pod: &Value) -> bool {
        let going = is_being_deleted(pod);
        let present = on_delete(self.object) || (self.newest.is_some() && hash(pod) == self.newest);
        !going && present && ready(pod)
    }

    fn is_away(&self, pod: &Value) -> bool {
        let name = place(pod);
        let node = self.nodes.iter().find(|node| text(node, "/metadata/name") == name);
        !name.is_empty() && !node.is_some_and(ready)
    }

    /// Pods that are not ready, and why, the first few.
    fn unready(&self) -> Vec<String> {
        let bad = self.pods.iter().filter(|pod| !ready(pod) && !self.is_away(pod));
        bad.take(4).map(listed).collect()
    }
}

fn hash(pod: &Value) -> Option<&str> {
    let labels = pod.pointer("/metadata/labels")?;
    ["controller-revision-hash", "pod-template-hash"]
        .into_iter()
        .find_map(|key| labels.get(key))
        .and_then(Value::as_str)
}

/// The node of a pod; of a pod of a DaemonSet that waits, the one that it is meant for.
fn place(pod: &Value) -> String {
    let bound = text(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return bound.to_owned();
    }
    let terms =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let fields = pod.pointer(&format!("{terms}/0/matchFields/0"));
    let name = fields.filter(|f| text(f, "/key") == "metadata.name").map(|f| text(f, "/values/0"));
    name.unwrap_or_default().to_owned()
}

/// `pod x on h1 (ImagePullBackOff: …)`.
pub(crate) fn listed(pod: &Value) -> String {
    let node = place(pod);
    let on = if node.is_empty() { String::new() } else { format!(" on {node}") };
    let containers = ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .filter_map(|list| pod.pointer(&format!("/status/{list}")).and_then(Value::as_array));
    let waiting = containers.flatten().find_map(|c| c.pointer("/state/waiting")).map(|w| {
        let (reason, message) = (text(w, "/reason"), text(w, "/message"));
        if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") }
    });
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let unscheduled = conditions
        .into_iter()
        .flatten()
        .find(|c| text(c, "/type") == "PodScheduled" && text(c, "/status") == "False");
    let why = waiting.or_else(|| unscheduled.map(|c| text(c, "/message").to_owned()));
    let why = why.unwrap_or_else(|| text(pod, "/status/phase").to_owned());
    let why: String = why.chars().take(160).collect();
    format!("pod {}{on} ({why})", text(pod, "/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, ready: bool) -> Value {
        let status = if ready { "True" } else { "Unknown" };
        json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": status}]}})
    }

    fn pod(node: &str, hash: &str, ready: bool) -> Value {
        let status = if ready { "True" } else { "False" };
        json!({"metadata": {"name": format!("p-{node}"), "labels": {"controller-revision-hash": hash}},
            "spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}})
    }

    fn daemons(desired: u64, updated: u64, available: u64) -> Value {
        json!({"kind": "DaemonSet", "metadata": {"generation": 2}, "status": {"observedGeneration": 2,
            "desiredNumberScheduled": desired, "updatedNumberScheduled": updated, "numberAvailable": available}})
    }

    fn judge(object: &Value, pods: &[Value], nodes: &[Value]) -> Result<(), Incomplete> {
        Rollout { object, pods, nodes, newest: Some("new") }.complete()
    }

    #[test]
    fn counts_suffice_where_all_nodes_are_ready() {
        assert_eq!(judge(&daemons(2, 2, 2), &[], &[]), Ok(()));
        assert_eq!(judge(&daemons(0, 0, 0), &[], &[]), Ok(()));
        let nodes = [node("a", true), node("b", true)];
        let why =
            judge(&daemons(2, 1, 1), &[pod("a", "new", true), pod("b", "new", false)], &nodes).unwrap_err();
        assert_eq!(
            why.to_string(),
            "of 2 pods 1 have the current template and 1 are ready: pod p-b on b (Running)"
        );
        let mut unseen = daemons(2, 2, 2);
        unseen["metadata"]["generation"] = json!(3);
        assert_eq!(judge(&unseen, &[], &[]), Err(Incomplete::NotObserved));
        let deployment = json!({"kind": "Deployment", "spec": {"replicas": 2}, "metadata": {"generation": 1},
            "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 2}});
        assert!(judge(&deployment, &[], &[]).is_err(), "an old pod is there yet");
    }

    #[test]
    fn pods_on_nodes_that_are_not_ready_do_not_count_but_all_others_do() {
        let nodes = [node("a", true), node("b", false), node("c", true)];
        let right = [pod("a", "new", true), pod("b", "old", false), pod("c", "new", true)];
        assert_eq!(judge(&daemons(3, 2, 2), &right, &nodes), Ok(()));
        // Equal counts, but the old pod is on a node that is ready.
        let wrong = [pod("a", "old", true), pod("b", "new", false), pod("c", "new", true)];
        assert!(judge(&daemons(3, 2, 2), &wrong, &nodes).is_err());
        // A node is gone; a pod is missing on a ready one.
        let gone = [pod("a", "new", true), pod("x", "new", false), pod("c", "new", true)];
        assert_eq!(judge(&daemons(3, 3, 2), &gone, &nodes), Ok(()));
        assert!(judge(&daemons(3, 2, 1), &gone[..2], &nodes).is_err());
    }
}
