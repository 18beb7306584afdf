//! Findings about GPUs: the operator, the device plugins, shared ones, those of AMD.

use super::*;

/// A node with eight GPUs of AMD's, all of them offered.
fn amd_node() -> Value {
    let mut node = node("a1");
    node["metadata"]["labels"] = json!({"amd.com/gpu.device-id": "74a1"});
    for which in ["capacity", "allocatable"] {
        node["status"][which] = json!({"amd.com/gpu": "8"});
    }
    node["status"]["runtimeHandlers"] = json!([{"name": ""}, {"name": "runc"}]);
    node
}

fn amd_plugin() -> Value {
    json!({
        "metadata": {"name": "amdgpu-device-plugin-daemonset", "namespace": "kube-system"},
        "spec": {"template": {"spec": {
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
            "containers": [{"image": "docker.io/rocm/k8s-device-plugin:1.31"}],
        }}},
        "status": {"desiredNumberScheduled": 1, "numberReady": 1},
    })
}

#[test]
fn operators() {
    only("helm", Some("gpu_operator"), "revision 3 is pending-upgrade", |view| {
        view.releases.push(release("pending-upgrade", "3"))
    });
    only("helm", Some("gpu_operator"), "revision 1 is failed", |view| {
        view.releases = vec![release("failed", "1")]
    });
    // Another chart's is not that role's to correct.
    only("helm", None, "monitoring/prometheus revision 2 is pending-upgrade", |view| {
        let mut other = release("pending-upgrade", "2");
        other["metadata"]["namespace"] = json!("monitoring");
        other["metadata"]["labels"]["name"] = json!("prometheus");
        view.releases.push(other);
    });
    // An old failure under a newer revision is history.
    let mut view = well();
    view.releases.push(release("failed", "1"));
    assert_eq!(diagnose(&view), Vec::new());
    only(
        "operators",
        Some("gpu_operator"),
        "2 GPU operators: gpu-operator/gpu-operator, gpu-operator/gpu-operator-1732",
        |view| {
            view.operators
                .push(json!({"metadata": {"name": "gpu-operator-1732", "namespace": "gpu-operator"}}));
        },
    );
    let policy = |view: &mut ClusterView, annotations: Value| {
        view.policies.as_mut().unwrap()[0]["metadata"]["annotations"] = annotations;
    };
    only("policy", Some("gpu_operator"), "does not belong to a helm release", |view| policy(view, json!({})));
    only("policy", Some("gpu_operator"), "gpu-operator-99", |view| {
        policy(view, json!({"meta.helm.sh/release-name": "gpu-operator-99"}))
    });
    let quota = json!({"metadata": {"name": "pods", "namespace": "gpu-operator"}, "status": {"hard": {"pods": "10"}, "used": {"pods": "10"}}});
    only("quota", None, "10 of 10 pods", |view| view.quotas.push(quota.clone()));
    let refused = |message: &str| {
        json!({"type": "Warning", "reason": "FailedCreate", "message": message,
            "involvedObject": {"kind": "DaemonSet", "namespace": "gpu-operator", "name": "gfd"}})
    };
    only("quota", None, "refuses pods of gpu-operator/gfd", |view| {
        view.quotas.push(quota.clone());
        view.events.push(refused(
            "Error creating: pods \"gfd-x\" is forbidden: exceeded quota: pods, requested: pods=1",
        ));
    });
    let insecure =
        "Error creating: pods \"gfd-x\" is forbidden: violates PodSecurity \"baseline:latest\": privileged";
    only("security", Some("gpu_operator"), "violates PodSecurity", |view| {
        view.events.push(refused(insecure))
    });
    // It has all its pods since.
    let mut corrected = well();
    let mut event = refused(insecure);
    event["involvedObject"]["name"] = json!("nvidia-device-plugin-daemonset");
    corrected.events.push(event);
    assert!(diagnose(&corrected).is_empty(), "{:?}", diagnose(&corrected));
}

#[test]
fn plugins() {
    only("label", Some("device_plugin"), "wants 0 nodes: none has nvidia.com/gpu=true", |view| {
        view.daemon_sets[0]["spec"]["template"]["spec"]["nodeSelector"] = json!({"nvidia.com/gpu": "true"});
    });
    let taint = |value: &str| json!([{"key": "nvidia.com/gpu", "value": value, "effect": "NoSchedule"}]);
    only("taint", Some("gpu_operator"), "does not tolerate nvidia.com/gpu=t4:NoSchedule of g1", |view| {
        view.nodes[0]["spec"]["taints"] = taint("t4");
    });
    let mut view = well();
    view.nodes[0]["spec"]["taints"] = taint("true");
    assert_eq!(diagnose(&view), Vec::new());
    only("allocatable", Some("gpu_host"), "g1 (0 of 8)", |view| {
        view.nodes[0]["status"]["allocatable"] = json!({"nvidia.com/gpu": "0"})
    });
    only("plugin", Some("device_plugin"), "no nvidia.com/gpu allocatable on g1 (0 of 8)", |view| {
        view.nodes[0]["status"]["allocatable"] = json!({"nvidia.com/gpu": "0"});
        view.daemon_sets.clear();
    });
    only(
        "sick",
        Some("gpu_host"),
        "fewer nvidia.com/gpu allocatable than there are on g2 (7 of 8)",
        |view| view.nodes[1]["status"]["allocatable"] = json!({"nvidia.com/gpu": "7"}),
    );
}

#[test]
fn shares() {
    only("replicas", Some("time_slicing"), "profile any: replicas 1", |view| {
        view.config_maps[0]["data"]["any"] =
            "sharing:\n  timeSlicing:\n    resources:\n    - replicas: 1\n      name: nvidia.com/gpu\n"
                .into();
        // The plugin exits: the node offers nothing, and its pod crashes. That is one trouble.
        view.nodes[0]["status"]["allocatable"] = json!({"nvidia.com/gpu": "0"});
        view.pods[0]["status"]["containerStatuses"] =
            json!([{"image": "p", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]);
    });
    only("profile", Some("time_slicing"), "node g2 wants the profile tesla; there is any", |view| {
        view.nodes[1]["metadata"]["labels"]["nvidia.com/device-plugin.config"] = "tesla".into();
    });
    only("profile", Some("time_slicing"), "has the default all", |view| {
        view.policies.as_mut().unwrap()[0]["spec"]["devicePlugin"]["config"]["default"] = "all".into();
    });
    only(
        "profile",
        Some("time_slicing"),
        "ConfigMap gpu-operator/time-slicing-config, which is not there",
        |view| view.config_maps.clear(),
    );
    only("slices", Some("time_slicing"), "started before that: plugin-a", |view| {
        view.config_maps[0]["metadata"]["managedFields"][0]["time"] = "2026-11-20T11:00:00Z".into();
    });
    let six = |view: &mut ClusterView| {
        for which in ["capacity", "allocatable"] {
            view.nodes[0]["status"][which] = json!({"nvidia.com/gpu": "6"});
        }
    };
    only("shares", Some("time_slicing"), "g1 offers 6, not 4 × 2", six);
    only("key", Some("time_slicing"), "profile any: `timeSlicin`, where `timeSlicing` is meant", |view| {
        view.config_maps[0]["data"]["any"] =
            "version: v1\nsharing:\n  timeSlicin:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 2\n".into();
    });
}

/// Without an operator the plugin is pointed at a file, and feature discovery may be missing.
#[test]
fn shares_without_an_operator() {
    let own = |view: &mut ClusterView, file: &str| {
        view.policies = None;
        view.operators.clear();
        for node in &mut view.nodes {
            node["metadata"]["labels"] =
                json!({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "4"});
        }
        let pod = &mut view.daemon_sets[0]["spec"]["template"]["spec"];
        pod["volumes"] = json!([{"name": "slices", "configMap": {"name": "time-slicing-config"}}]);
        pod["containers"] = json!([{
            "env": [{"name": "CONFIG_FILE", "value": format!("/slices/{file}")}],
            "volumeMounts": [{"name": "slices", "mountPath": "/slices"}],
        }]);
    };
    let mut view = well();
    own(&mut view, "any");
    assert_eq!(diagnose(&view), Vec::new());
    only("profile", Some("time_slicing"), "is to read the profile tesla; there is any", |view| {
        own(view, "tesla");
        view.nodes[0]["status"]["allocatable"] = json!({"nvidia.com/gpu": "0"});
    });
    only("shares", Some("time_slicing"), "g1 offers 4, not 4 × 2", |view| {
        own(view, "any");
        for which in ["capacity", "allocatable"] {
            view.nodes[0]["status"][which] = json!({"nvidia.com/gpu": "4"});
        }
    });
}

#[test]
fn a_node_with_gpus_that_never_offered_any_and_one_with_parts_of_gpus() {
    let labelled = |view: &mut ClusterView, status: Value| {
        view.nodes[0]["metadata"]["labels"] = json!({"nvidia.com/gpu.present": "true"});
        for which in ["capacity", "allocatable"] {
            view.nodes[0]["status"][which] = status.clone();
        }
    };
    only("allocatable", Some("gpu_host"), "no nvidia.com/gpu allocatable on g1", |view| {
        labelled(view, json!({"cpu": "8"}));
    });
    let mut view = well();
    labelled(&mut view, json!({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7"}));
    assert_eq!(diagnose(&view), Vec::new());
}

/// A cluster of AMD's alone, with this change.
fn amd(change: impl FnOnce(&mut ClusterView)) -> impl FnOnce(&mut ClusterView) {
    move |view: &mut ClusterView| {
        view.nodes = vec![amd_node()];
        view.nodes[0]["metadata"]["labels"]["kubernetes.io/arch"] = json!("amd64");
        view.daemon_sets = vec![amd_plugin()];
        view.runner_sets.clear();
        (view.policies, view.operators) = (None, Vec::new());
        change(view);
    }
}

#[test]
fn gpus_of_amd() {
    let role = Some("amd_device_plugin");
    let mut view = well();
    amd(|_| {})(&mut view);
    assert_eq!(diagnose(&view), Vec::new());
    assert_eq!(view.with_gpus(), 1);
    only(
        "allocatable",
        role,
        "no amd.com/gpu allocatable on a1 (0 of 8)",
        amd(|view| {
            view.nodes[0]["status"]["allocatable"] = json!({"amd.com/gpu": "0"});
        }),
    );
    only(
        "plugin",
        role,
        "no DaemonSet of a device plugin, and no amd.com/gpu allocatable on a1",
        amd(|view| {
            view.daemon_sets.clear();
            view.nodes[0]["status"]["capacity"] = json!({});
            view.nodes[0]["status"]["allocatable"] = json!({});
        }),
    );
    only(
        "sick",
        role,
        "fewer amd.com/gpu allocatable than there are on a1 (7 of 8)",
        amd(|view| {
            view.nodes[0]["status"]["allocatable"] = json!({"amd.com/gpu": "7"});
        }),
    );
    only(
        "label",
        role,
        "wants 0 nodes",
        amd(|view| {
            view.nodes[0]["metadata"]["labels"]["kubernetes.io/arch"] = json!("arm64");
            view.nodes[0]["status"]["allocatable"] = json!({"amd.com/gpu": "0"});
        }),
    );
    only(
        "taint",
        role,
        "does not tolerate amd.com/gpu=:NoSchedule of a1",
        amd(|view| {
            view.nodes[0]["spec"]["taints"] = json!([{"key": "amd.com/gpu", "effect": "NoSchedule"}]);
        }),
    );
    only(
        "gpus",
        None,
        "8 allocatable in all): gpu-operator/big",
        amd(|view| {
            view.pods.push(pod("big", "Pending"));
            view.events.push(event(
                "big",
                "FailedScheduling",
                "0/1 nodes are available: 1 Insufficient amd.com/gpu.",
            ));
        }),
    );
}
