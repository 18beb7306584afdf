//! Each diagnosis finds its fault in what an API server says of one, and nothing in a cluster that is well.

mod gpus;

use super::*;
use serde_json::{Value, json};

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {
            "nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "2",
            "nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/device-plugin.config": "any"}},
        "spec": {},
        "status": {
            "capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}],
            "runtimeHandlers": [{"name": ""}, {"name": "nvidia"}, {"name": "runc"}],
        },
    })
}

fn daemon_set() -> Value {
    json!({
        "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": "gpu-operator"},
        "spec": {"template": {"spec": {
            "runtimeClassName": "nvidia",
            "nodeSelector": {"nvidia.com/gpu.present": "true"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
        }}},
        "status": {"desiredNumberScheduled": 2, "numberReady": 2},
    })
}

fn pod(name: &str, phase: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "gpu-operator",
            "ownerReferences": [{"kind": "DaemonSet", "name": "nvidia-device-plugin-daemonset"}]},
        "status": {"phase": phase, "startTime": "2026-11-20T10:00:00Z"},
    })
}

fn release(status: &str, version: &str) -> Value {
    json!({"metadata": {"name": format!("sh.helm.release.v1.gpu-operator.v{version}"), "namespace": "gpu-operator",
        "labels": {"owner": "helm", "name": "gpu-operator", "status": status, "version": version}}})
}

fn event(pod: &str, reason: &str, message: &str) -> Value {
    json!({"type": "Warning", "reason": reason, "message": message,
        "involvedObject": {"kind": "Pod", "namespace": "gpu-operator", "name": pod}})
}

/// A set of runners with this selector and these limits; they tolerate the taint nvidia.com/gpu.
fn runners(selector: Value, limits: Value) -> Value {
    json!({
        "metadata": {"name": "gpu-runners", "namespace": "arc"},
        "spec": {"template": {"spec": {
            "nodeSelector": selector,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [{"name": "runner", "resources": {"limits": limits}}],
        }}},
    })
}

fn well() -> ClusterView {
    ClusterView {
        nodes: vec![node("g1"), node("g2")],
        daemon_sets: vec![daemon_set()],
        operators: vec![json!({"metadata": {"name": "gpu-operator", "namespace": "gpu-operator"}})],
        runtime_classes: vec![json!({"metadata": {"name": "nvidia"}, "handler": "nvidia"})],
        policies: Some(vec![json!({
            "metadata": {"name": "cluster-policy", "annotations": {"meta.helm.sh/release-name": "gpu-operator"}},
            "spec": {"devicePlugin": {"config": {"name": "time-slicing-config", "default": "any"}}},
        })]),
        releases: vec![release("deployed", "2")],
        events: Vec::new(),
        quotas: Vec::new(),
        pods: vec![pod("plugin-a", "Running")],
        config_maps: vec![json!({
            "metadata": {"name": "time-slicing-config", "namespace": "gpu-operator", "creationTimestamp": "2026-11-20T09:00:00Z",
                "managedFields": [{"manager": "converge", "time": "2026-11-20T09:00:00Z", "fieldsV1": {"f:data": {"f:any": {}}}}]},
            "data": {"any": "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 2\n"},
        })],
        nims: vec![
            json!({"kind": "NIMService", "metadata": {"name": "llama", "namespace": "nim"}, "status": {"state": "Ready"}}),
        ],
        runner_sets: vec![runners(json!({"nvidia.com/gpu.present": "true"}), json!({"nvidia.com/gpu": 1}))],
    }
}

/// The one finding of a cluster in which this is wrong.
#[track_caller]
fn only(step: &str, role: Option<&str>, text: &str, damage: impl FnOnce(&mut ClusterView)) {
    let mut view = well();
    damage(&mut view);
    let found = diagnose(&view);
    let [one] = found.as_slice() else { panic!("one finding is wanted: {found:#?}") };
    assert_eq!((one.step, one.role), (step, role));
    assert!(one.found.contains(text), "{}", one.found);
    assert!(one.cause.is_some() && one.help.is_some());
}

fn not_ready(node: &mut Value, message: &str) {
    node["status"]["conditions"][0] =
        json!({"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": message});
}

#[test]
fn a_cluster_that_is_well_has_nothing() {
    assert_eq!(diagnose(&well()), Vec::new());
    assert_eq!(diagnose(&ClusterView::default()), Vec::new());
}

#[test]
fn nodes() {
    let detail = "container runtime is down, failed: no corresponding runtime configured in `containerd.runtimes` for `containerd` `default_runtime_name = \"runc\"`";
    only("runc", Some("k8s"), "g2 (KubeletNotReady", |view| not_ready(&mut view.nodes[1], detail));
    only("runc", Some("k8s"), "g1", |view| {
        not_ready(&mut view.nodes[0], "PLEG is not healthy");
        view.nodes[0]["status"]["runtimeHandlers"] = json!([{"name": "nvidia"}]);
    });
    let detail = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";
    only("network", Some("k8s"), "g1", |view| not_ready(&mut view.nodes[0], detail));
    only("node", Some("k8s"), "Kubelet stopped", |view| {
        not_ready(&mut view.nodes[0], "Kubelet stopped posting node status.")
    });
}

#[test]
fn runtimes() {
    let detail = "Failed to create pod sandbox: runc create failed: expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups";
    only("cgroup", Some("k8s"), "gpu-operator/x", |view| {
        view.pods.push(pod("x", "Pending"));
        view.events.push(event("x", "FailedCreatePodSandBox", detail));
    });
    only(
        "handler",
        Some("gpu_runtime"),
        "1 of 2 GPU nodes without the handler nvidia of RuntimeClass nvidia: g2",
        |view| {
            view.nodes[1]["status"]["runtimeHandlers"] = json!([{"name": ""}, {"name": "runc"}]);
        },
    );
    let detail = "Failed to create pod sandbox: rpc error: code = Unknown desc = no runtime for \"nvidia\" is configured";
    only("handler", Some("gpu_runtime"), "no runtime for", |view| {
        view.pods.push(pod("x", "Pending"));
        view.events.push(event("x", "FailedCreatePodSandBox", detail));
    });
    only("class", Some("runtime_class"), "names RuntimeClass nvidia, which is not there", |view| {
        view.runtime_classes.clear()
    });
    only("class", Some("runtime_class"), "the GPU operator runs", |view| {
        view.runtime_classes.clear();
        view.daemon_sets.clear();
    });
}

#[test]
fn an_event_of_a_pod_that_runs_by_now_is_history() {
    let mut view = well();
    view.events.push(event("plugin-a", "FailedCreatePodSandBox", "no runtime for \"nvidia\" is configured"));
    view.events.push(event(
        "gone",
        "FailedScheduling",
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
    ));
    assert_eq!(diagnose(&view), Vec::new());
}

#[test]
fn pods_that_do_not_run() {
    only("image", Some("gpu_operator"), "nvcr.io/nvidia/x:v9 cannot be pulled: gpu-operator/y", |view| {
        let mut pod = pod("y", "Pending");
        pod["status"]["containerStatuses"] =
            json!([{"image": "nvcr.io/nvidia/x:v9", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
        view.pods.push(pod);
    });
    for state in [json!({"waiting": {"reason": "CrashLoopBackOff"}}), json!({"terminated": {"exitCode": 1}})]
    {
        only("crash", Some("gpu_host"), "gpu-operator/plugin-a", |view| {
            view.pods[0]["status"]["containerStatuses"] =
                json!([{"image": "p", "restartCount": 3, "state": state}]);
        });
    }
    only("admission", None, "no healthy devices present", |view| {
        let mut pod = pod("early", "Failed");
        pod["status"]["reason"] = "UnexpectedAdmissionError".into();
        pod["status"]["message"] = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected".into();
        view.pods.push(pod);
    });
    only("gpus", Some("time_slicing"), "16 allocatable in all): gpu-operator/big", |view| {
        view.pods.push(pod("big", "Pending"));
        view.events.push(event(
            "big",
            "FailedScheduling",
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
        ));
    });
}

#[test]
fn models() {
    let role = Some("nim_service");
    let nim_pod = |reason: &str, message: &str| {
        let mut pod = pod("llama-0", "Pending");
        pod["metadata"]["namespace"] = json!("nim");
        pod["status"]["containerStatuses"] = json!([{"image": "nvcr.io/nim/x:1", "state": {"waiting": {"reason": reason, "message": message}}}]);
        pod
    };
    let not_ready = |view: &mut ClusterView, state: &str| {
        view.nims[0]["status"] = json!({"state": state, "conditions": [
            {"type": "Ready", "status": "False", "message": "deployment \"llama\" not ready"}]});
    };
    only("nim", role, "NIMService nim/llama is NotReady: deployment", |view| not_ready(view, "NotReady"));
    only("nim", role, "is Failed", |view| not_ready(view, "Failed"));
    only("ngc", role, "nim/llama-0: ", |view| {
        not_ready(view, "NotReady");
        view.pods.push(nim_pod("ErrImagePull", "failed to authorize: unexpected status 401 Unauthorized"));
    });
    only("ngc", role, "secret \"ngc-api-secret\" not found", |view| {
        view.pods.push(nim_pod("CreateContainerConfigError", "secret \"ngc-api-secret\" not found"));
    });
    // Another pod of the namespace with another reason is no missing key.
    only("nim", role, "nim/llama is NotReady", |view| {
        not_ready(view, "NotReady");
        view.pods.push(nim_pod("ErrImagePull", "not found"));
    });
}

#[test]
fn runners_and_gpus() {
    let role = Some("arc_runner_set");
    only("runners", role, "no such node has what their nodeSelector asks for", |view| {
        view.runner_sets[0] = runners(json!({"pool": "gpu"}), json!({"nvidia.com/gpu": 1}));
    });
    only("runners", role, "they do not tolerate pool:NoSchedule of g1", |view| {
        view.daemon_sets[0]["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        for node in &mut view.nodes {
            node["spec"]["taints"] = json!([{"key": "pool", "value": "gpu", "effect": "NoSchedule"}]);
        }
    });
    for limits in [json!({}), json!({"nvidia.com/gpu": "0"})] {
        only("runners", role, "the runners of arc/gpu-runners ask for no GPU", |view| {
            view.runner_sets[0] = runners(json!({"nvidia.com/gpu.present": "true"}), limits.clone());
        });
    }
    // Runners of no GPU may run anywhere, and so may those of a cluster without any.
    let mut view = well();
    view.runner_sets[0] = json!({"spec": {"template": {"spec": {"containers": [{"name": "runner"}]}}}});
    assert_eq!(diagnose(&view), Vec::new());
}

/// The page has a row for each: what people notice, what doctor says, which role corrects it.
#[test]
fn the_page_has_every_diagnosis() {
    let page = include_str!("../../../../../docs/troubleshooting.md");
    let row = |entry: &Diagnosis| {
        let role = entry.role.map_or("–".to_owned(), |role| format!("`{role}`"));
        format!("| {} | `{}`: {} | {role} |", entry.symptom, entry.step, entry.cause)
    };
    let lacking: Vec<String> = TABLE.iter().map(row).filter(|row| !page.contains(row)).collect();
    assert!(lacking.is_empty(), "docs/troubleshooting.md lacks these rows:\n{}", lacking.join("\n"));
}
