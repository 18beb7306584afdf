//! Requests to the container runtime of a node that it cannot serve.

use super::super::view::{ClusterView, about, few, full, list, name, short, text};
use super::{Diagnosis, Health};
use serde_json::Value;
use std::collections::BTreeSet;

/// Two drivers of control groups.
pub(in super::super) const CGROUP: Diagnosis = Diagnosis {
    step: "cgroup",
    symptom: "pods stay in ContainerCreating: `expected cgroupsPath to be of format \"slice:prefix:name\"`",
    cause: "kubelet and containerd disagree on the driver of control groups (cgroupDriver against SystemdCgroup)",
    help: "make them the same, for runc and for nvidia, and restart containerd, then the kubelet",
    role: Some("k8s"),
    look: cgroup,
};

/// A class whose handler a node does not know.
pub(in super::super) const HANDLER: Diagnosis = Diagnosis {
    step: "handler",
    symptom: "GPU pods stay in ContainerCreating: `no runtime for \"nvidia\" is configured`",
    cause: "the RuntimeClass is there, and containerd on the node does not have its handler",
    help: "is 99-nvidia.toml among the imports of config.toml, and was containerd restarted after it was written?",
    role: Some("gpu_runtime"),
    look: handler,
};

/// A class that is not there.
pub(in super::super) const CLASS: Diagnosis = Diagnosis {
    step: "class",
    symptom: "pods are not made: `RuntimeClass \"nvidia\" not found`",
    cause: "workloads name a RuntimeClass that is not there",
    help: "the GPU operator makes the class; without an operator the role does (`runtime_class_owner: role`)",
    role: Some("runtime_class"),
    look: class,
};

fn cgroup(view: &ClusterView) -> Option<(Health, String)> {
    let event = view.warnings(&["expected cgroupsPath to be of format"]).next()?;
    Some((Health::Ill, format!("{}: runc refuses the pod's control group", about(event))))
}

/// The names of a node's handlers; nothing of an old kubelet that does not tell.
fn handlers(node: &Value) -> Option<BTreeSet<&str>> {
    let all = list(node, "/status/runtimeHandlers");
    (!all.is_empty()).then(|| all.iter().map(|handler| text(handler, "/name")).collect())
}

fn handler(view: &ClusterView) -> Option<(Health, String)> {
    for class in &view.runtime_classes {
        let wanted = text(class, "/handler");
        if !wanted.contains("nvidia") {
            continue;
        }
        let without = |node: &&Value| handlers(node).is_some_and(|known| !known.contains(wanted));
        let nodes: Vec<&Value> = view.gpu_nodes().filter(without).collect();
        if !nodes.is_empty() {
            let all = view.gpu_nodes().count();
            let names = few(nodes.iter().map(|node| name(node)));
            let found = format!(
                "{} of {all} GPU nodes without the handler {wanted} of RuntimeClass {}: {names}",
                nodes.len(),
                name(class)
            );
            return Some((Health::Ill, found));
        }
    }
    let event = view.warnings(&["no runtime for \""]).next()?;
    Some((Health::Ill, format!("{}: {}", about(event), short(text(event, "/message")))))
}

fn class(view: &ClusterView) -> Option<(Health, String)> {
    let there: BTreeSet<&str> = view.runtime_classes.iter().map(name).collect();
    let wanted = |set: &Value| {
        let class = text(set, "/spec/template/spec/runtimeClassName").to_owned();
        (!class.is_empty() && !there.contains(class.as_str())).then(|| (class, full(set)))
    };
    if let Some((class, set)) = view.daemon_sets.iter().find_map(wanted) {
        return Some((
            Health::Ill,
            format!("DaemonSet {set} names RuntimeClass {class}, which is not there"),
        ));
    }
    let missing = |event: &&Value| {
        let message = text(event, "/message");
        message.contains("RuntimeClass") && message.contains("not found")
    };
    if let Some(event) = view.events.iter().find(missing).filter(|_| !there.contains("nvidia")) {
        return Some((Health::Ill, format!("{}: {}", about(event), short(text(event, "/message")))));
    }
    let equipped = view.policies.as_ref().is_some_and(|policies| !policies.is_empty());
    (equipped && view.gpu_nodes().next().is_some() && !there.contains("nvidia"))
        .then(|| (Health::Ill, "the GPU operator runs, and RuntimeClass nvidia is not there".to_owned()))
}
