//! `converge doctor` on a real API server with simulated nodes, through a real sshd: each fault is made, detected, and
//! corrected.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::kube::{ApiOptions, ApiServer, NodeSpec};
use converge_tests::{Ran, World, root};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PLUGIN: &str = "nvidia-device-plugin-daemonset";
const SPACE: &str = "gpu-operator";

struct Lab {
    world: World,
    api: ApiServer,
}

impl Lab {
    /// `name`: two tests of this program may run at once.
    fn new(name: &str) -> Self {
        let world = World::new(&format!("doctor-{name}{}", std::process::id()), 1).unwrap();
        let api = ApiServer::start(&world.hosts()[0], ApiOptions::new().kwok()).unwrap();
        world.write("roles/cluster/role.yaml", "scope: cluster\nresources: []\n").unwrap();
        world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [cluster]\n").unwrap();
        let gpus = NodeSpec::new("gpu", 2)
            .gpus(8)
            .label("nvidia.com/gpu.present", "true")
            .label("nvidia.com/gpu.count", "4")
            .label("nvidia.com/gpu.replicas", "2");
        api.nodes(&gpus).unwrap();
        let lab = Self { world, api };
        for node in ["gpu-1", "gpu-2"] {
            lab.handlers(node, &["", "nvidia", "runc"]);
        }
        lab.kubectl(&["create", "namespace", SPACE]);
        lab.class();
        lab.config(2);
        lab.plugin(&json!({"nvidia.com/gpu.present": "true"}));
        lab
    }

    fn kubectl(&self, args: &[&str]) {
        let reply = self.api.kubectl(args).unwrap();
        assert!(reply.success(), "{args:?}: {reply:?}");
    }

    fn handlers(&self, node: &str, names: &[&str]) {
        let all: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        let patch = json!({"status": {"runtimeHandlers": all}}).to_string();
        self.kubectl(&["patch", "node", node, "--subresource=status", "--type=merge", "-p", &patch]);
    }

    fn class(&self) {
        let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"});
        self.api.apply(&class.to_string()).unwrap();
    }

    fn config(&self, replicas: u32) {
        self.profile("timeSlicing", replicas);
    }

    fn profile(&self, section: &str, replicas: u32) {
        let profile = format!(
            "version: v1\nsharing:\n  {section}:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: {replicas}\n"
        );
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slices", "namespace": SPACE}, "data": {"any": profile}});
        self.api.apply(&map.to_string()).unwrap();
    }

    fn plugin(&self, selector: &Value) {
        let set = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": PLUGIN, "namespace": SPACE},
            "spec": {"selector": {"matchLabels": {"app": "plugin"}}, "template": {
                "metadata": {"labels": {"app": "plugin"}},
                "spec": {
                    "runtimeClassName": "nvidia", "nodeSelector": selector,
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
                    "containers": [{"name": "plugin", "image": "lab.local/plugin:1"}],
                    "volumes": [{"name": "slices", "configMap": {"name": "slices"}}],
                },
            }},
        });
        // A selector is taken as a whole.
        let _ =
            self.api.kubectl(&["delete", "daemonset", "-n", SPACE, PLUGIN, "--ignore-not-found", "--wait"]);
        self.api.apply(&set.to_string()).unwrap();
    }

    /// A pod that does not start, with the warning that a kubelet gives of it.
    fn stuck(&self, message: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stuck", "namespace": "default"},
            "spec": {"nodeSelector": {"no": "where"}, "containers": [{"name": "c", "image": "lab.local/none:1"}]},
        });
        self.api.apply(&pod.to_string()).unwrap();
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "stuck", "namespace": "default"}, "type": "Warning",
            "reason": "FailedCreatePodSandBox", "message": message,
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "stuck"},
        });
        self.api.apply(&event.to_string()).unwrap();
    }

    /// One GPU operator.
    fn operator(&self, name: &str) {
        let operator = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": SPACE, "labels": {"app": "gpu-operator"}},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"own": name}}, "template": {
                "metadata": {"labels": {"own": name}},
                "spec": {"containers": [{"name": "c", "image": "lab.local/none:1"}]},
            }},
        });
        self.api.apply(&operator.to_string()).unwrap();
    }

    fn doctor(&self, args: &[&str]) -> Ran {
        self.world.converge(&[["doctor", "hosts.yaml"].as_slice(), args].concat()).unwrap()
    }

    /// The findings of the cluster that are not well, once they are these steps.
    #[track_caller]
    fn finds(&self, steps: &[&str]) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let ran = self.doctor(&["--output", "json"]);
            let reported = ran.json().unwrap();
            let findings = reported["clusters"][0]["findings"].as_array().unwrap().clone();
            let ill: Vec<Value> = findings.into_iter().filter(|f| f["health"] != "well").collect();
            if ill.iter().map(|f| f["step"].as_str().unwrap()).collect::<Vec<_>>() == steps {
                return ill;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "not {steps:?}: {}", ran.all());
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

#[test]
fn faults_of_a_cluster_are_found_until_they_are_corrected() {
    let lab = Lab::new("p");
    lab.finds(&[]);
    let well = lab.doctor(&["-v"]).expect(0);
    well.says("cluster · healthy").says("2 nodes, 2 with GPUs").says("1 host, 1 cluster: 2 healthy");

    // The handler is missing on one node, and the class is there.
    lab.handlers("gpu-2", &["", "runc"]);
    let found = lab.finds(&["handler"]);
    assert_eq!(found[0]["role"], "gpu_runtime");
    let reported = lab.doctor(&[]).expect(1);
    reported
        .says("cluster · unhealthy")
        .says("✗ handler")
        .says("without the handler nvidia of RuntimeClass nvidia: gpu-2")
        .says("cause: the RuntimeClass is there")
        .says("role: gpu_runtime");
    lab.handlers("gpu-2", &["", "nvidia", "runc"]);

    // No class.
    lab.kubectl(&["delete", "runtimeclass", "nvidia"]);
    lab.finds(&["class"]);
    lab.class();

    // A kubelet that does not report.
    lab.api.set_ready("gpu-1", false).unwrap();
    assert_eq!(lab.finds(&["node"])[0]["role"], "k8s");
    lab.api.set_ready("gpu-1", true).unwrap();
    lab.finds(&[]);

    // containerd knows NVIDIA's runtime, and no other any more.
    lab.handlers("gpu-1", &["nvidia"]);
    lab.api.set_ready("gpu-1", false).unwrap();
    assert_eq!(lab.finds(&["runc"])[0]["role"], "k8s");
    lab.handlers("gpu-1", &["", "nvidia", "runc"]);
    lab.api.set_ready("gpu-1", true).unwrap();
    lab.finds(&[]);

    // Two drivers of control groups, as the kubelet tells of it.
    lab.stuck("expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got \"/kubepods/x\" instead");
    assert_eq!(lab.finds(&["cgroup"])[0]["role"], "k8s");
    lab.kubectl(&["delete", "pod,event", "stuck"]);
    lab.finds(&[]);

    // Label and taint.
    lab.plugin(&json!({"nvidia.com/gpu": "true"}));
    assert!(lab.finds(&["label"])[0]["found"].as_str().unwrap().contains("none has nvidia.com/gpu=true"));
    lab.plugin(&json!({"nvidia.com/gpu.present": "true"}));
    lab.kubectl(&["taint", "node", "gpu-1", "nvidia.com/gpu=t4:NoSchedule"]);
    assert_eq!(lab.finds(&["taint"])[0]["role"], "gpu_operator");
    lab.kubectl(&["taint", "node", "gpu-1", "nvidia.com/gpu-"]);

    // The resources that the device plugin offers.
    lab.api.set_gpus(&["gpu-1"], 8, 0).unwrap();
    lab.finds(&["allocatable"]);
    lab.api.set_gpus(&["gpu-1"], 8, 6).unwrap();
    assert_eq!(
        lab.finds(&["sick"])[0]["found"],
        "fewer nvidia.com/gpu allocatable than there are on gpu-1 (6 of 8)"
    );
    lab.api.set_gpus(&["gpu-1"], 6, 6).unwrap();
    assert_eq!(lab.finds(&["shares"])[0]["found"], "gpu-1 offers 6, not 4 × 2");
    lab.api.set_gpus(&["gpu-1"], 8, 8).unwrap();
    lab.finds(&[]);
    lab.api.set_gpus(&["gpu-1"], 8, 0).unwrap();
    lab.kubectl(&["delete", "daemonset", "-n", SPACE, PLUGIN]);
    assert_eq!(lab.finds(&["plugin"])[0]["role"], "device_plugin");
    lab.plugin(&json!({"nvidia.com/gpu.present": "true"}));
    lab.api.set_gpus(&["gpu-1"], 8, 8).unwrap();
    lab.finds(&[]);

    // Time-slicing: moments are whole seconds.
    std::thread::sleep(Duration::from_secs(2));
    lab.config(1);
    lab.finds(&["replicas", "slices"]);
    lab.profile("timeSlicin", 2);
    lab.finds(&["key", "slices"]);
    lab.config(3);
    lab.finds(&["slices"]);
    lab.plugin(&json!({"nvidia.com/gpu.present": "true"}));
    lab.finds(&[]);
    lab.kubectl(&["label", "node", "gpu-2", "nvidia.com/device-plugin.config=tesla"]);
    lab.finds(&["profile"]);
    lab.kubectl(&["label", "node", "gpu-2", "nvidia.com/device-plugin.config-"]);

    // helm's Secrets, as an interrupted upgrade leaves them.
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "data": {"release": ""},
        "metadata": {"name": "sh.helm.release.v1.gpu-operator.v2", "namespace": SPACE,
            "labels": {"owner": "helm", "name": "gpu-operator", "status": "pending-upgrade", "version": "2"}},
    });
    lab.api.apply(&secret.to_string()).unwrap();
    assert!(lab.finds(&["helm"])[0]["found"].as_str().unwrap().contains("revision 2 is pending-upgrade"));
    lab.kubectl(&["delete", "secret", "-n", SPACE, "sh.helm.release.v1.gpu-operator.v2"]);

    // Two operators, and a policy that is of neither.
    lab.operator("gpu-operator");
    lab.finds(&[]);
    lab.operator("gpu-operator-1764");
    assert_eq!(lab.finds(&["operators"])[0]["role"], "gpu_operator");
    lab.kubectl(&["delete", "deployment", "-n", SPACE, "gpu-operator", "gpu-operator-1764"]);
    let crd = root().join("tests/charts/gpu-operator/crds/clusterpolicy.yaml");
    lab.api.apply(&std::fs::read_to_string(crd).unwrap()).unwrap();
    lab.kubectl(&["wait", "--for=condition=Established", "crd/clusterpolicies.nvidia.com", "--timeout=30s"]);
    lab.api
        .apply("{apiVersion: nvidia.com/v1, kind: ClusterPolicy, metadata: {name: cluster-policy}}")
        .unwrap();
    assert_eq!(
        lab.finds(&["policy"])[0]["found"],
        "ClusterPolicy cluster-policy does not belong to a helm release"
    );
    lab.kubectl(&["annotate", "clusterpolicy", "cluster-policy", "meta.helm.sh/release-name=gone"]);
    let found = lab.finds(&["policy"]);
    assert_eq!(found[0]["found"], "ClusterPolicy cluster-policy is of helm release gone, which is not there");
    lab.kubectl(&["delete", "clusterpolicy", "cluster-policy"]);
    lab.finds(&[]);

    // A namespace in which the plugin's pods are refused: the controller's own event.
    lab.kubectl(&["label", "namespace", SPACE, "pod-security.kubernetes.io/enforce=restricted"]);
    lab.plugin(&json!({"nvidia.com/gpu.present": "true"}));
    assert_eq!(lab.finds(&["security"])[0]["role"], "gpu_operator");
    lab.kubectl(&["label", "namespace", SPACE, "pod-security.kubernetes.io/enforce-"]);
    lab.plugin(&json!({"nvidia.com/gpu.present": "true"}));
    lab.finds(&[]);

    // A quota, and a pod that asks for more than there is: the scheduler's own event.
    lab.kubectl(&["create", "quota", "few", "-n", SPACE, "--hard=pods=3"]);
    lab.finds(&["quota"]);
    lab.kubectl(&["delete", "quota", "few", "-n", SPACE]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "big", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "lab.local/none:1", "resources": {"limits": {"nvidia.com/gpu": "9"}}}]},
    });
    lab.api.apply(&pod.to_string()).unwrap();
    let found = lab.finds(&["gpus"]);
    assert_eq!(found[0]["found"], "Pending for want of GPUs (16 allocatable in all): default/big");
    lab.kubectl(&["delete", "pod", "big"]);
    lab.finds(&[]);

    // No API server.
    lab.api.stop().unwrap();
    lab.doctor(&[]).expect(3).says("cluster · cannot be reached");
}

/// AMD's GPUs, models of the NIM operator and runners of GitHub's controller.
#[test]
fn faults_of_amd_of_models_and_of_runners_are_found() {
    let lab = Lab::new("a");
    let amd = NodeSpec::new("amd", 1).label("amd.com/gpu.device-id", "74a1");
    lab.api.nodes(&amd).unwrap();
    let offers = |count: u32| {
        let status = json!({"status": {"capacity": {"amd.com/gpu": "8"}, "allocatable": {"amd.com/gpu": count.to_string()}}});
        lab.kubectl(&[
            "patch",
            "node",
            "amd-1",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status.to_string(),
        ]);
    };
    let finds = |step: &str, role: &str, text: &str| {
        let found = lab.finds(&[step]);
        assert_eq!(found[0]["role"], role, "{found:?}");
        assert!(found[0]["found"].as_str().unwrap().contains(text), "{found:?}");
    };
    finds("plugin", "amd_device_plugin", "no amd.com/gpu allocatable on amd-1");
    let plugin = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "amdgpu-device-plugin-daemonset", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": "amd"}}, "template": {
            "metadata": {"labels": {"app": "amd"}},
            "spec": {"containers": [{"name": "plugin", "image": "docker.io/rocm/k8s-device-plugin:1.31"}]},
        }},
    });
    lab.api.apply(&plugin.to_string()).unwrap();
    offers(0);
    finds("allocatable", "amd_device_plugin", "no amd.com/gpu allocatable on amd-1 (0 of 8)");
    let later = &lab.finds(&["allocatable"])[0];
    assert!(later["cause"].as_str().unwrap().contains("began before amdgpu was loaded"), "{later:?}");
    assert!(later["help"].as_str().unwrap().contains("kubectl rollout restart"), "{later:?}");
    offers(7);
    finds("sick", "amd_device_plugin", "amd-1 (7 of 8)");
    offers(8);
    lab.finds(&[]);

    for (group, kind, plural) in [
        ("apps.nvidia.com", "NIMService", "nimservices"),
        ("actions.github.com", "AutoscalingRunnerSet", "autoscalingrunnersets"),
    ] {
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}]},
        });
        lab.api.apply(&crd.to_string()).unwrap();
        lab.kubectl(&[
            "wait",
            "--for=condition=Established",
            &format!("crd/{plural}.{group}"),
            "--timeout=30s",
        ]);
    }
    lab.kubectl(&["create", "namespace", "nim"]);
    let model = |state: &str| {
        let service = json!({
            "apiVersion": "apps.nvidia.com/v1alpha1", "kind": "NIMService",
            "metadata": {"name": "llama", "namespace": "nim"}, "status": {"state": state},
        });
        lab.api.apply(&service.to_string()).unwrap();
    };
    model("NotReady");
    finds("nim", "nim_service", "NIMService nim/llama is NotReady");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llama-0", "namespace": "nim"},
        "spec": {"nodeSelector": {"no": "where"}, "containers": [{"name": "c", "image": "nvcr.io/nim/meta/llama:1"}]},
    });
    lab.api.apply(&pod.to_string()).unwrap();
    let waits = json!({"status": {"containerStatuses": [{
        "name": "c", "image": "nvcr.io/nim/meta/llama:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "failed to fetch anonymous token: 401 Unauthorized"}},
    }]}});
    let patch = waits.to_string();
    lab.kubectl(&[
        "patch",
        "pod",
        "-n",
        "nim",
        "llama-0",
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ]);
    finds("ngc", "nim_service", "nim/llama-0: failed to fetch anonymous token");
    lab.kubectl(&["delete", "pod", "-n", "nim", "llama-0"]);
    model("Ready");
    lab.finds(&[]);

    let runners = |selector: &Value, limits: &Value| {
        let set = json!({
            "apiVersion": "actions.github.com/v1alpha1", "kind": "AutoscalingRunnerSet",
            "metadata": {"name": "gpu-runners", "namespace": "default"},
            "spec": {"template": {"spec": {
                "nodeSelector": selector, "containers": [{"name": "runner", "resources": {"limits": limits}}]}}},
        });
        let _ = lab.api.kubectl(&["delete", "autoscalingrunnerset", "gpu-runners", "--ignore-not-found"]);
        lab.api.apply(&set.to_string()).unwrap();
    };
    let one = json!({"nvidia.com/gpu": "1"});
    let selector = json!({"nvidia.com/gpu.present": "true"});
    runners(&selector, &json!({"cpu": "1"}));
    finds("runners", "arc_runner_set", "the runners of default/gpu-runners ask for no GPU");
    runners(&json!({"pool": "gpu"}), &one);
    finds("runners", "arc_runner_set", "no such node has what their nodeSelector asks for");
    runners(&selector, &one);
    lab.finds(&[]);
    lab.kubectl(&["taint", "node", "gpu-1", "gpu-2", "pool=ci:NoSchedule"]);
    let found = lab.finds(&["taint", "runners"]);
    assert!(
        found[1]["found"].as_str().unwrap().contains("they do not tolerate pool:NoSchedule of gpu-"),
        "{found:?}"
    );
}

/// Faults of a node itself: files and programs in the places where real ones are.
#[test]
fn faults_of_a_node_are_found_on_the_host() {
    let world = World::new(&format!("doctor-n{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    let made = host
        .exec(
            r#"set -e
mkdir -p /etc/containerd/conf.d /var/lib/kubelet/pki
printf 'version = 2\n' > /etc/containerd/config.toml
printf 'version = 2\n' > /etc/containerd/conf.d/99-nvidia.toml
printf 'kind: KubeletConfiguration\ncgroupDriver: systemd\n' > /var/lib/kubelet/config.yaml
cat > /usr/local/bin/containerd << 'END'
#!/bin/sh
cat /etc/dump
END
cat > /etc/dump << 'END'
version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd]
  default_runtime_name = 'runc'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = 'io.containerd.runc.v2'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
END
chmod +x /usr/local/bin/containerd
openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -days 5 -subj /CN=node -out /var/lib/kubelet/pki/kubelet-client-current.pem 2>/dev/null"#,
        )
        .unwrap();
    assert!(made.success(), "{made:?}");
    let doctor = || world.converge(&["doctor", "hosts.yaml"]).unwrap();
    doctor()
        .expect(1)
        .says("✗ handler")
        .says("has no runtime nvidia")
        .says("✗ cgroup")
        .says("runtime runc has SystemdCgroup = false")
        .says("! certs")
        .says("role: gpu_runtime");
    host.exec("sed -i 's/runtimes.runc/runtimes.nvidia/; s/false/true/' /etc/dump").unwrap();
    doctor().expect(1).says("✗ runc").says("only nvidia");
    host.exec("printf 'version = 4\n' > /etc/containerd/conf.d/99-nvidia.toml").unwrap();
    doctor().expect(1).says("99-nvidia.toml has version 4, config.toml has version 2");
}
