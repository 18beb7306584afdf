//! The device plugin: where it runs, and what it offers.

use super::super::seen::{GPU, Seen, few, full, list, name, resource, text};
use super::{Diagnosis, Health, sharing};
use serde_json::Value;

/// A selector that no node has.
pub(in super::super) const LABEL: Diagnosis = Diagnosis {
    step: "label",
    symptom: "no node offers nvidia.com/gpu, and the DaemonSet shows 0/0, which looks healthy",
    cause: "the device plugin's nodeSelector matches no node",
    help: "name the nodes in `device_plugin_nodes`, or let feature discovery label them",
    role: Some("device_plugin"),
    look: label,
};

/// A taint that the plugin does not tolerate.
pub(in super::super) const TAINT: Diagnosis = Diagnosis {
    step: "taint",
    symptom: "a tainted GPU node gets no device plugin, or loses it",
    cause: "no toleration of the device plugin matches the node's taint: key, value and effect must all match",
    help: "give the plugin the toleration first (`operator: Exists` takes every value), then the node its taint",
    role: Some("gpu_operator"),
    look: taint,
};

/// Nobody who offers GPUs.
pub(in super::super) const GONE: Diagnosis = Diagnosis {
    step: "plugin",
    symptom: "GPU nodes offered GPUs, and offer none any more; capacity stays for minutes",
    cause: "there is no device plugin in the cluster any more",
    help: "let the role make its DaemonSet again; with an operator: what does ClusterPolicy say of devicePlugin.enabled?",
    role: Some("device_plugin"),
    look: gone,
};

/// GPUs that nobody can have.
pub(in super::super) const NONE: Diagnosis = Diagnosis {
    step: "allocatable",
    symptom: "a GPU node offers 0 of its GPUs",
    cause: "the device plugin on the node does not run, or does not find the driver",
    help: "the plugin's log says which: `kubectl logs` of its pod; on the host: `nvidia-smi`",
    role: Some("gpu_host"),
    look: none,
};

/// Some of the GPUs, or of their shares.
pub(in super::super) const SICK: Diagnosis = Diagnosis {
    step: "sick",
    symptom: "a GPU node offers fewer GPUs than its capacity says",
    cause: "the device plugin holds a GPU to be sick (an Xid). Where GPUs are shared only one share of it is taken away: pods still come to the others",
    help: "on the host: `nvidia-smi -L`, `dmesg | grep -i xid`; drain the node, reset or replace the GPU, then restart the device plugin's pod",
    role: Some("gpu_host"),
    look: sick,
};

fn label(seen: &Seen) -> Option<(Health, String)> {
    let set = seen.plugins().find(|set| seen.selected_by(set).is_empty())?;
    let selector = set.pointer("/spec/template/spec/nodeSelector").and_then(Value::as_object)?;
    let pairs = selector.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    Some((Health::Ill, format!("DaemonSet {} wants 0 nodes: none has {}", full(set), few(pairs))))
}

fn tolerates(set: &Value, taint: &Value) -> bool {
    let key = text(taint, "/key");
    // The controller of DaemonSets adds tolerations for these itself.
    if key.starts_with("node.kubernetes.io/") {
        return true;
    }
    list(set, "/spec/template/spec/tolerations").iter().any(|toleration| {
        let exists = text(toleration, "/operator") == "Exists";
        let wanted = text(toleration, "/key");
        let effect = text(toleration, "/effect");
        (wanted == key || (exists && wanted.is_empty()))
            && (exists || text(toleration, "/value") == text(taint, "/value"))
            && (effect.is_empty() || effect == text(taint, "/effect"))
    })
}

/// The GPU nodes of a plugin that keep it out, each with the taint that does.
fn kept_out<'a>(seen: &'a Seen, set: &'a Value) -> Vec<(&'a Value, &'a Value)> {
    let gpu: Vec<&str> = seen.gpu_nodes().map(name).collect();
    let selected = seen.selected_by(set).into_iter().filter(|node| gpu.contains(&name(node)));
    selected
        .filter_map(|node| {
            let taint = list(node, "/spec/taints")
                .iter()
                .find(|taint| text(taint, "/effect") != "PreferNoSchedule" && !tolerates(set, taint))?;
            Some((node, taint))
        })
        .collect()
}

fn taint(seen: &Seen) -> Option<(Health, String)> {
    for set in seen.plugins() {
        let out = kept_out(seen, set);
        let Some((_, taint)) = out.first() else { continue };
        let shown = format!("{}={}:{}", text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        let nodes = few(out.iter().map(|(node, _)| name(node)));
        return Some((Health::Ill, format!("DaemonSet {} does not tolerate {shown} of {nodes}", full(set))));
    }
    None
}

/// Nodes that offer less than their capacity: their name, what they offer, their capacity.
fn lacking(seen: &Seen) -> impl Iterator<Item = (&str, u64, u64)> {
    seen.nodes.iter().filter_map(|node| {
        let capacity = resource(node, "capacity", GPU).filter(|count| *count > 0)?;
        let allocatable = resource(node, "allocatable", GPU).unwrap_or(0);
        (allocatable < capacity).then(|| (name(node), allocatable, capacity))
    })
}

fn told<'a>(nodes: impl Iterator<Item = (&'a str, u64, u64)>) -> Option<String> {
    let nodes: Vec<String> = nodes.map(|(name, has, of)| format!("{name} ({has} of {of})")).collect();
    (!nodes.is_empty()).then(|| few(nodes))
}

fn empty(seen: &Seen) -> Option<String> {
    told(lacking(seen).filter(|(_, has, _)| *has == 0))
}

fn gone(seen: &Seen) -> Option<(Health, String)> {
    if seen.plugins().next().is_some() {
        return None;
    }
    let nodes = empty(seen)?;
    Some((Health::Ill, format!("no DaemonSet of a device plugin, and nothing allocatable on {nodes}")))
}

fn none(seen: &Seen) -> Option<(Health, String)> {
    // A plugin that is not there, and a configuration that it refuses, explain it.
    if seen.plugins().next().is_none() || sharing::is_refused(seen) {
        return None;
    }
    Some((Health::Ill, format!("nothing allocatable on {}", empty(seen)?)))
}

fn sick(seen: &Seen) -> Option<(Health, String)> {
    let nodes = told(lacking(seen).filter(|(_, has, _)| *has > 0))?;
    Some((Health::Ill, format!("fewer allocatable than there are on {nodes}")))
}
