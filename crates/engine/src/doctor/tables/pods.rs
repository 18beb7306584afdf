//! Pods that do not run.

use super::super::view::{AMD, ClusterView, Maker, NVIDIA, about, few, full, list, resource, short, text};
use super::{Diagnosis, Health, sharing};
use serde_json::Value;

/// An image that does not come.
pub(in super::super) const IMAGE: Diagnosis = Diagnosis {
    step: "image",
    symptom: "GPU parts stay in ImagePullBackOff",
    cause: "the node cannot pull the image: its name or version, the registry, or the way to it",
    help: "on the node: `crictl pull IMAGE`. A mirror goes into the role's values (repository, image, version)",
    role: Some("gpu_operator"),
    look: image,
};

/// A program that ends again and again.
pub(in super::super) const CRASH: Diagnosis = Diagnosis {
    step: "crash",
    symptom: "GPU parts are in CrashLoopBackOff",
    cause: "a part starts and ends at once; the device plugin does when it finds no driver (ERROR_LIBRARY_NOT_FOUND without the runtime class)",
    help: "`kubectl logs --previous` of the pod says why; on the host: `nvidia-smi`",
    role: Some("gpu_host"),
    look: crash,
};

/// Bound too early.
pub(in super::super) const ADMISSION: Diagnosis = Diagnosis {
    step: "admission",
    symptom: "a GPU pod fails for good: `UnexpectedAdmissionError`",
    cause: "it was bound while the device plugin registered: allocatable trails the plugin by up to 10 s. Or it asks for more shares than one",
    help: "delete the pod; a Job or Deployment makes a new one. After a restart of the plugin, wait for allocatable first",
    role: None,
    look: admission,
};

/// No free GPU.
pub(in super::super) const FULL: Diagnosis = Diagnosis {
    step: "gpus",
    symptom: "GPU pods stay Pending: `Insufficient nvidia.com/gpu`",
    cause: "all GPUs that the scheduler knows of are taken, or the node that the pod asks for has none",
    help: "free some, add nodes, or share the GPUs",
    role: Some("time_slicing"),
    look: |view| full_up(view, &NVIDIA),
};

/// No free GPU of AMD's.
pub(in super::super) const AMD_FULL: Diagnosis = Diagnosis {
    symptom: "GPU pods stay Pending: `Insufficient amd.com/gpu`",
    help: "free some, or add nodes",
    role: None,
    look: |view| full_up(view, &AMD),
    ..FULL
};

/// The statuses of a pod's containers, as the kubelet reports them.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/status/initContainerStatuses").iter().chain(list(pod, "/status/containerStatuses"))
}

/// The reason why a pod's containers wait: (reason, image, message).
pub(super) fn waits(pod: &Value) -> impl Iterator<Item = (&str, &str, &str)> {
    containers(pod).map(|status| {
        (
            text(status, "/state/waiting/reason"),
            text(status, "/image"),
            text(status, "/state/waiting/message"),
        )
    })
}

fn image(view: &ClusterView) -> Option<(Health, String)> {
    let bad = |reason: &str| {
        matches!(reason, "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull")
    };
    let pods: Vec<(&Value, &str)> = view
        .gpu_pods()
        .filter_map(|pod| waits(pod).find(|wait| bad(wait.0)).map(|wait| (pod, wait.1)))
        .collect();
    let (_, image) = pods.first()?;
    Some((Health::Ill, format!("{image} cannot be pulled: {}", few(pods.iter().map(|(pod, _)| full(pod))))))
}

/// It waits to be started again, or has ended badly once more: the kubelet may tell of the wait only when that is over.
fn crashes(status: &Value) -> bool {
    let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    text(status, "/state/waiting/reason") == "CrashLoopBackOff"
        || number("/state/terminated/exitCode") != 0 && number("/restartCount") > 1
}

fn crash(view: &ClusterView) -> Option<(Health, String)> {
    if sharing::is_refused(view) {
        return None;
    }
    let pods: Vec<String> = view.gpu_pods().filter(|pod| containers(pod).any(crashes)).map(full).collect();
    (!pods.is_empty()).then(|| (Health::Ill, format!("in CrashLoopBackOff: {}", few(pods))))
}

fn admission(view: &ClusterView) -> Option<(Health, String)> {
    let failed = view.pods.iter().filter(|pod| text(pod, "/status/reason") == "UnexpectedAdmissionError");
    let failed: Vec<&Value> = failed.collect();
    let first = failed.first()?;
    let detail = short(text(first, "/status/message"));
    Some((Health::Odd, format!("{}: {detail}", few(failed.iter().map(|pod| full(pod))))))
}

fn full_up(view: &ClusterView, maker: &Maker) -> Option<(Health, String)> {
    let detail = format!("Insufficient {}", maker.resource);
    let mut waiting: Vec<String> = view.warnings(&[&detail]).map(about).collect();
    waiting.sort();
    waiting.dedup();
    if waiting.is_empty() {
        return None;
    }
    let all: u64 = view.nodes.iter().filter_map(|node| resource(node, "allocatable", maker.resource)).sum();
    Some((Health::Odd, format!("Pending for want of GPUs ({all} allocatable in all): {}", few(waiting))))
}
