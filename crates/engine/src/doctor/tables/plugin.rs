//! The device plugin: where it runs, and what it offers.

use super::super::view::{
    AMD, ClusterView, Maker, NVIDIA, few, full, list, name, offers, resource, text, tolerates,
};
use super::{Diagnosis, Health, sharing};
use serde_json::Value;

/// A selector that no node has.
pub(in super::super) const LABEL: Diagnosis = Diagnosis {
    step: "label",
    symptom: "no node offers nvidia.com/gpu, and the DaemonSet shows 0/0, which looks healthy",
    cause: "the device plugin's nodeSelector matches no node",
    help: "name the nodes in `device_plugin_nodes`, or let feature discovery label them",
    role: Some("device_plugin"),
    look: |view| label(view, &NVIDIA),
};

/// The same of AMD's plugin.
pub(in super::super) const AMD_LABEL: Diagnosis = Diagnosis {
    symptom: "no node offers amd.com/gpu, and the DaemonSet shows 0/0, which looks healthy",
    help: "name the nodes in `amd_device_plugin_nodes`, or let AMD's labeller or feature discovery label them",
    role: Some("amd_device_plugin"),
    look: |view| label(view, &AMD),
    ..LABEL
};

/// A taint that the plugin does not tolerate.
pub(in super::super) const TAINT: Diagnosis = Diagnosis {
    step: "taint",
    symptom: "a tainted GPU node gets no device plugin, or loses it",
    cause: "no toleration of the device plugin matches the node's taint: key, value and effect must all match",
    help: "give the plugin the toleration first (`operator: Exists` takes every value), then the node its taint",
    role: Some("gpu_operator"),
    look: |view| taint(view, &NVIDIA),
};

/// The same of AMD's plugin.
pub(in super::super) const AMD_TAINT: Diagnosis =
    Diagnosis { role: Some("amd_device_plugin"), look: |view| taint(view, &AMD), ..TAINT };

/// Nobody who offers GPUs.
pub(in super::super) const GONE: Diagnosis = Diagnosis {
    step: "plugin",
    symptom: "GPU nodes offer no GPUs, or offer none any more; capacity stays for minutes",
    cause: "there is no device plugin in the cluster",
    help: "let the role make its DaemonSet again; with an operator: what does ClusterPolicy say of devicePlugin.enabled?",
    role: Some("device_plugin"),
    look: |view| gone(view, &NVIDIA),
};

/// The same of AMD's plugin.
pub(in super::super) const AMD_GONE: Diagnosis = Diagnosis {
    symptom: "nodes with AMD's GPUs offer no amd.com/gpu",
    help: "let the role make AMD's device plugin, or AMD's operator: has its DeviceConfig `devicePlugin`, and does cert-manager run?",
    role: Some("amd_device_plugin"),
    look: |view| gone(view, &AMD),
    ..GONE
};

/// GPUs that nobody can have.
pub(in super::super) const NONE: Diagnosis = Diagnosis {
    step: "allocatable",
    symptom: "a GPU node offers 0 of its GPUs",
    cause: "the device plugin on the node does not run, or does not find the driver",
    help: "the plugin's log says which: `kubectl logs` of its pod; on the host: `nvidia-smi`",
    role: Some("gpu_host"),
    look: |view| none(view, &NVIDIA),
};

/// The same of AMD's.
pub(in super::super) const AMD_NONE: Diagnosis = Diagnosis {
    symptom: "a node offers 0 of its AMD GPUs",
    cause: "the device plugin on the node does not run, does not find the driver, or began before amdgpu was loaded: it looks for devices once",
    help: "the plugin's log says which: `kubectl logs` of its pod; on the host: `ls -l /dev/kfd /dev/dri`, `lsmod | grep amdgpu`, `rocm-smi`; where amdgpu came later: `kubectl rollout restart` of the plugin's DaemonSet",
    role: Some("amd_device_plugin"),
    look: |view| none(view, &AMD),
    ..NONE
};

/// Some of the GPUs, or of their shares.
pub(in super::super) const SICK: Diagnosis = Diagnosis {
    step: "sick",
    symptom: "a GPU node offers fewer GPUs than its capacity says",
    cause: "the device plugin marked a GPU as unhealthy (an Xid). Where GPUs are shared only one share of it is withdrawn: pods are still placed on the others",
    help: "on the host: `nvidia-smi -L`, `dmesg | grep -i xid`; drain the node, reset or replace the GPU, then restart the device plugin's pod",
    role: Some("gpu_host"),
    look: |view| sick(view, &NVIDIA),
};

/// The same of AMD's.
pub(in super::super) const AMD_SICK: Diagnosis = Diagnosis {
    symptom: "a node offers fewer AMD GPUs than its capacity says",
    cause: "AMD's device plugin marked a GPU as unhealthy: its exporter reports it so, or the card does not answer",
    help: "on the host: `rocm-smi`, `dmesg | grep -i amdgpu`; drain the node, reset or replace the GPU, then restart the device plugin's pod",
    role: Some("amd_device_plugin"),
    look: |view| sick(view, &AMD),
    ..SICK
};

fn label(view: &ClusterView, maker: &Maker) -> Option<(Health, String)> {
    let set = view.plugins_of(maker).find(|set| view.selected_by(set).is_empty())?;
    let selector = set.pointer("/spec/template/spec/nodeSelector").and_then(Value::as_object)?;
    let pairs = selector.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    Some((Health::Ill, format!("DaemonSet {} wants 0 nodes: none has {}", full(set), few(pairs))))
}

/// Whether the plugin is kept out by this taint. The controller of DaemonSets adds tolerations of the node's own conditions.
fn keeps_out(set: &Value, taint: &Value) -> bool {
    let spec = set.pointer("/spec/template/spec").unwrap_or(&Value::Null);
    text(taint, "/effect") != "PreferNoSchedule"
        && !text(taint, "/key").starts_with("node.kubernetes.io/")
        && !tolerates(spec, taint)
}

/// The GPU nodes of a plugin that keep it out, each with the taint that does.
fn barred_nodes<'a>(view: &'a ClusterView, maker: &Maker, set: &'a Value) -> Vec<(&'a Value, &'a Value)> {
    let gpu: Vec<&str> = view.nodes_of(maker).map(name).collect();
    let selected = view.selected_by(set).into_iter().filter(|node| gpu.contains(&name(node)));
    selected
        .filter_map(|node| {
            let taint = list(node, "/spec/taints").iter().find(|taint| keeps_out(set, taint))?;
            Some((node, taint))
        })
        .collect()
}

fn taint(view: &ClusterView, maker: &Maker) -> Option<(Health, String)> {
    for set in view.plugins_of(maker) {
        let out = barred_nodes(view, maker, set);
        let Some((_, taint)) = out.first() else { continue };
        let shown = format!("{}={}:{}", text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        let nodes = few(out.iter().map(|(node, _)| name(node)));
        return Some((Health::Ill, format!("DaemonSet {} does not tolerate {shown} of {nodes}", full(set))));
    }
    None
}

/// Nodes that offer less than their capacity, or nothing of this maker although they have its GPUs: their name, what they offer, their capacity.
fn lacking<'a>(view: &'a ClusterView, maker: &'a Maker) -> impl Iterator<Item = (&'a str, u64, u64)> {
    view.nodes_of(maker).filter_map(|node| {
        let capacity = resource(node, "capacity", maker.resource).unwrap_or(0);
        let allocatable = resource(node, "allocatable", maker.resource).unwrap_or(0);
        (allocatable < capacity || !offers(node, maker)).then(|| (name(node), allocatable, capacity))
    })
}

fn node_list<'a>(nodes: impl Iterator<Item = (&'a str, u64, u64)>) -> Option<String> {
    let shortage = |(name, has, of): (&str, u64, u64)| match of {
        0 => name.to_owned(),
        _ => format!("{name} ({has} of {of})"),
    };
    let nodes: Vec<String> = nodes.map(shortage).collect();
    (!nodes.is_empty()).then(|| few(nodes))
}

fn empty(view: &ClusterView, maker: &Maker) -> Option<String> {
    node_list(lacking(view, maker).filter(|(_, has, _)| *has == 0))
}

fn gone(view: &ClusterView, maker: &Maker) -> Option<(Health, String)> {
    if view.plugins_of(maker).next().is_some() {
        return None;
    }
    let nodes = empty(view, maker)?;
    Some((
        Health::Ill,
        format!("no DaemonSet of a device plugin, and no {} allocatable on {nodes}", maker.resource),
    ))
}

fn none(view: &ClusterView, maker: &Maker) -> Option<(Health, String)> {
    // A plugin that is not there, that no node takes, and a configuration that it refuses, explain it.
    let explained = view.plugins_of(maker).next().is_none()
        || label(view, maker).is_some()
        || taint(view, maker).is_some()
        || sharing::is_refused(view);
    if explained {
        return None;
    }
    Some((Health::Ill, format!("no {} allocatable on {}", maker.resource, empty(view, maker)?)))
}

fn sick(view: &ClusterView, maker: &Maker) -> Option<(Health, String)> {
    let nodes = node_list(lacking(view, maker).filter(|(_, has, _)| *has > 0))?;
    Some((Health::Ill, format!("fewer {} allocatable than there are on {nodes}", maker.resource)))
}
