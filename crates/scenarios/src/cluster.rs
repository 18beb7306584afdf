//! The cluster of a scenario while it runs: what it is given, and all its objects, listed before and after.

use crate::cluster_spec::{ClusterSpec, taint};
use converge_lab::kube::{ApiOptions, ApiServer, Kubectl, NodeSpec};
use converge_lab::{Host, LabError};
use converge_objects::k8s::{self, fields};
use converge_objects::workload;
use converge_resource::ApiRef;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The longest time for controllers to come to rest.
const REST: Duration = Duration::from_secs(60);
/// The time that the preconditions may take to run.
const ROLLOUT: &str = "--timeout=120s";
const PAUSE: Duration = Duration::from_millis(700);

/// Kinds that Kubernetes writes by itself all the time, or that follow from others.
const NOISE: [&str; 8] = [
    "componentstatuses",
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
    "endpoints",
    "ipaddresses.networking.k8s.io",
    "pods",
    "controllerrevisions.apps",
];

/// The namespace of converge's records.
const RECORDS: &str = "converge-system";

/// Annotations about restarts, which are not part of the wanted state.
const NOTES: [&str; 2] = [workload::STARTED_WITH, workload::RESTARTED];

/// The reason why the cluster of a scenario cannot be made, or its objects are not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterFault {
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("kubectl's list cannot be read: {0}")]
    List(serde_json::Error),
    /// Objects that go on changing.
    #[error("the cluster does not come to rest: {}", .0.join(", "))]
    Restless(Vec<String>),
    /// A host does not take the administrator's kubeconfig: its words.
    #[error("{host}: {reply}")]
    Kubeconfig { host: String, reply: String },
}

/// Starts an API server in a host and gives it what the scenario says.
pub(crate) fn start(host: &Host, spec: &ClusterSpec) -> Result<ApiServer, ClusterFault> {
    let api = ApiServer::start(host, ApiOptions::new().kwok())?;
    let asked = Kubectl::of_api_server(host);
    for nodes in &spec.nodes {
        let mut wanted = NodeSpec::new(nodes.prefix.value.clone(), nodes.count).gpus(nodes.gpus);
        if let Some(count) = nodes.allocatable {
            wanted = wanted.allocatable_gpus(count);
        }
        for (key, value) in &nodes.labels {
            wanted = wanted.label(key, value);
        }
        for (key, value, effect) in nodes.taints.iter().filter_map(|text| taint(&text.value)) {
            wanted = wanted.taint(key, value, effect);
        }
        if !nodes.ready {
            wanted = wanted.not_ready();
        }
        if nodes.cordoned {
            wanted = wanted.cordoned();
        }
        let names = api.nodes(&wanted)?;
        let Some(status) = &nodes.status else { continue };
        api.patch_status(&names, &status.to_json())?;
    }
    objects(&asked, spec)?;
    Ok(api)
}

/// Makes the objects that the scenario gives, and waits for the workloads among them.
pub(crate) fn objects(api: &Kubectl, spec: &ClusterSpec) -> Result<(), ClusterFault> {
    for object in &spec.objects {
        give(api, object)?;
    }
    for object in spec.objects.iter().filter_map(ApiRef::of) {
        if ["DaemonSet", "Deployment", "StatefulSet"].contains(&object.kind.as_str()) {
            let target = format!("{}/{}", object.kind.to_lowercase(), object.name);
            let namespace = object.namespace.as_deref().unwrap_or("default");
            api.reply(&["rollout", "status", &target, "--namespace", namespace, ROLLOUT])?;
        }
    }
    Ok(())
}

/// Makes an object; one of a kind that was defined a moment ago takes a moment.
fn give(api: &Kubectl, object: &Value) -> Result<(), LabError> {
    let deadline = Instant::now() + REST;
    loop {
        let Err(error) = api.apply(&object.to_string()) else { return Ok(()) };
        // kubectl tells it in words alone.
        let comes = matches!(&error, LabError::Tool { detail, .. } if detail.contains("no matches for kind"));
        if !comes || Instant::now() > deadline {
            return Err(error);
        }
        std::thread::sleep(PAUSE);
    }
}

/// All objects of a cluster by their keys, as their owners mean them.
pub(crate) type Objects = BTreeMap<String, Value>;

/// The objects of a cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClusterObjects {
    /// As their owners mean them.
    pub(crate) meant: Objects,
    /// The same, with the fields that tell apart two objects of one name and content; so every write of converge shows.
    pub(crate) exact: Objects,
}

/// Lists all objects.
pub(crate) fn list(api: &Kubectl) -> Result<ClusterObjects, ClusterFault> {
    list_of(api, &kinds(api)?)
}

/// The kinds that can be listed, without noise, in the form that kubectl takes.
fn kinds(api: &Kubectl) -> Result<String, LabError> {
    let kinds = api.reply(&["api-resources", "--verbs=list", "--output=name"])?;
    Ok(kinds.lines().filter(|kind| !NOISE.contains(kind)).collect::<Vec<_>>().join(","))
}

fn list_of(api: &Kubectl, kinds: &str) -> Result<ClusterObjects, ClusterFault> {
    let arguments =
        ["get", kinds, "--all-namespaces", "--show-managed-fields", "--output=json", "--ignore-not-found"];
    let text = api.reply(&arguments)?;
    let all: Value = serde_json::from_str(&text).map_err(ClusterFault::List)?;
    let objects = all.get("items").and_then(Value::as_array).into_iter().flatten();
    let mut listed = ClusterObjects::default();
    for (key, meant, exact) in objects.filter(|object| counts(object)).filter_map(entry) {
        listed.meant.insert(key.clone(), meant);
        listed.exact.insert(key, exact);
    }
    Ok(listed)
}

/// Whether an object is declared by a user: not records of converge, and not made by a controller.
fn counts(object: &Value) -> bool {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, namespace, name) = (text("/kind"), text("/metadata/namespace"), text("/metadata/name"));
    let own = namespace == RECORDS || (kind == "Namespace" && name == RECORDS);
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let follows =
        owners.is_some_and(|owners| owners.iter().any(|o| o.get("controller") == Some(&true.into())));
    let of_namespace = (kind == "ConfigMap" && name == "kube-root-ca.crt")
        || (kind == "ServiceAccount" && name == "default")
        || text("/metadata/labels/endpointslice.kubernetes.io~1managed-by").ends_with(".k8s.io");
    let release = text("/type").starts_with("helm.sh/release");
    !(own || follows || of_namespace || release)
}

/// The key of an object, what is meant, and what it is exactly.
fn entry(object: &Value) -> Option<(String, Value, Value)> {
    let key = ApiRef::of(object)?.key();
    let mut meant = k8s::normalised(object);
    for place in ["/metadata/annotations", "/spec/template/metadata/annotations"] {
        if let Some(notes) = meant.pointer_mut(place).and_then(Value::as_object_mut) {
            notes.retain(|note, _| !NOTES.contains(&note.as_str()));
        }
    }
    // An empty map of annotations is none.
    for place in ["/metadata", "/spec/template/metadata"] {
        if let Some(map) = meant.pointer_mut(place).and_then(Value::as_object_mut) {
            map.retain(|key, value| {
                !(key == "annotations" && value.as_object().is_some_and(serde_json::Map::is_empty))
            });
        }
    }
    let mut exact = meant.clone();
    if let Some(map) = exact.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let own = managers.into_iter().flatten().filter(|m| {
            m.get("manager").and_then(Value::as_str).is_some_and(|name| name.starts_with("converge"))
        });
        map.insert("managers".to_owned(), own.cloned().collect());
        map.insert("uid".to_owned(), object.pointer("/metadata/uid").cloned().unwrap_or_default());
    }
    Some((key, meant, exact))
}

/// Lists all objects once controllers are at rest: two lists, one after the other, are the same.
pub(crate) fn at_rest(api: &Kubectl) -> Result<ClusterObjects, ClusterFault> {
    let deadline = Instant::now() + REST;
    let kinds = kinds(api)?;
    let mut last = list_of(api, &kinds)?;
    loop {
        std::thread::sleep(PAUSE);
        let now = list_of(api, &kinds)?;
        if now == last {
            return Ok(now);
        }
        if Instant::now() > deadline {
            return Err(ClusterFault::Restless(differences(&last.exact, &now.exact)));
        }
        last = now;
    }
}

/// The differences from this list that remain once the cluster is at rest.
pub(crate) fn left(api: &Kubectl, before: &Objects) -> Result<Vec<String>, ClusterFault> {
    let deadline = Instant::now() + REST;
    loop {
        let left = differences(before, &list(api)?.meant);
        if left.is_empty() || Instant::now() > deadline {
            return Ok(left);
        }
        std::thread::sleep(PAUSE);
    }
}

/// `+ v1/ConfigMap/n/x`, `- …`, `~ … (.data.key)`: no value is shown, it may be a secret.
pub(crate) fn differences(before: &Objects, after: &Objects) -> Vec<String> {
    let mut out = Vec::new();
    for (key, was) in before {
        match after.get(key) {
            None => out.push(format!("- {key}")),
            Some(is) if is != was => {
                let places: Vec<String> =
                    fields::differences(was, is).iter().map(|field| fields::shown(&field.path)).collect();
                out.push(format!("~ {key} ({})", places.join(", ")));
            }
            Some(_) => {}
        }
    }
    out.extend(after.keys().filter(|key| !before.contains_key(*key)).map(|key| format!("+ {key}")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listed(objects: &[Value]) -> Objects {
        let meant = |(key, meant, _)| (key, meant);
        objects.iter().filter(|o| counts(o)).filter_map(entry).map(meant).collect()
    }

    #[test]
    fn what_controllers_make_and_what_we_keep_does_not_count() {
        let object = |kind: &str, namespace: &str, name: &str, more: Value| {
            let mut object =
                json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
            object["metadata"]["ownerReferences"] = more;
            object
        };
        let all = listed(&[
            object("Secret", RECORDS, "run", json!([])),
            object("ConfigMap", "a", "kube-root-ca.crt", json!([])),
            object("ServiceAccount", "a", "default", json!([])),
            object("ReplicaSet", "a", "b", json!([{"kind": "Deployment", "name": "b", "controller": true}])),
            object("ConfigMap", "a", "b", json!([])),
        ]);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["v1/ConfigMap/a/b"]);
    }

    #[test]
    fn differences_name_fields_and_no_values() {
        let map = |name: &str, value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}, "data": {"k": value}});
        let before = listed(&[map("a", "hunter"), map("gone", "")]);
        let after = listed(&[map("a", "other"), map("new", "")]);
        let shown = differences(&before, &after);
        assert_eq!(shown, ["~ v1/ConfigMap/n/a (.data.k)", "- v1/ConfigMap/n/gone", "+ v1/ConfigMap/n/new"]);
    }

    #[test]
    fn a_restart_is_no_difference() {
        let workload = |notes: Value| {
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "n", "generation": 2},
            "spec": {"template": {"metadata": {"annotations": notes}}}})
        };
        let before = listed(&[workload(json!({}))]);
        let after = listed(&[workload(json!({"converge/restarted": "now"}))]);
        assert_eq!(differences(&before, &after), Vec::<String>::new());
    }
}
