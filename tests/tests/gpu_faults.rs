//! Faults of a GPU cluster, made on real parts: a kubeadm cluster by the role `k8s`, NVIDIA's device plugin and container
//! toolkit, and GPUs that a library simulates. `verify` or `doctor` names each with its cause and the role that corrects it,
//! and `apply` corrects it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "what goes wrong in a test ends it; its steps are told"
)]

use converge_lab::Host;
use converge_lab::kube::{DEVICE_PLUGIN_IMAGE, FAKE_GPUS, Part, device_plugin_image, show_programs};
use converge_tests::kubeadm::Cluster as Bare;
use converge_tests::{Ran, exec, until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const GPUS: &str = "count=4\nname=NVIDIA H200\n";
const SPACE: &str = "nvidia-device-plugin";
const DROP_IN: &str = "/etc/containerd/conf.d/99-nvidia.toml";

struct Cluster {
    bare: Bare,
    begun: Instant,
}

/// The playbook, with this image of the plugin and these variables of the role `time_slicing`.
fn playbook(image: &str, slicing: &Value) -> String {
    let plugin = json!({
        "device_plugin_nodes": ["h2"],
        "device_plugin_image": image,
        "device_plugin_strategy": "nvml",
        "device_plugin_env": {"DEVICE_LIST_STRATEGY": "envvar"},
        "device_plugin_host_paths": {"lab-gpus": FAKE_GPUS},
    });
    json!([
        {"hosts": "k8s_control_plane:k8s_workers", "roles": ["k8s"]},
        {"hosts": "k8s_workers", "roles": [{"role": "gpu_runtime", "vars": {"gpu_runtime_by": "host"}}]},
        {"hosts": "k8s_control_plane", "roles": [
            {"role": "runtime_class", "vars": {"runtime_class_owner": "role"}},
            {"role": "device_plugin", "vars": plugin},
            {"role": "time_slicing", "vars": slicing},
        ]},
    ])
    .to_string()
}

impl Cluster {
    /// Two bare hosts; h2 has four GPUs and NVIDIA's container toolkit.
    fn new() -> Self {
        let begun = Instant::now();
        let bare = Bare::new("gpufaults", 2);
        let lab = bare.world.lab();
        device_plugin_image(lab).unwrap();
        show_programs(lab, &[Part::Toolkit, Part::DevicePlugin]).unwrap();
        let own = Self { bare, begun };
        own.gpus(GPUS);
        let programs = Part::Toolkit.programs().join(" ");
        exec(own.host(2), &format!("cd /usr/bin && for p in {programs}; do ln -s /run/lab/$p $p; done"));
        own.write_playbook(&json!({"gpu_time_slicing_through": "plugin"}));
        own.step("two bare hosts");
        own
    }

    fn step(&self, what: &str) {
        println!("{:6.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    fn host(&self, number: usize) -> &Host {
        self.bare.host(number)
    }

    fn gpus(&self, lines: &str) {
        self.host(2).fake_gpus(lines).unwrap();
    }

    fn write_playbook(&self, slicing: &Value) {
        self.bare.world.write("playbooks/site.yaml", &playbook(DEVICE_PLUGIN_IMAGE, slicing)).unwrap();
    }

    /// The plugin is to run with this image, and GPUs to be shared so often.
    fn write_image(&self, image: &str, replicas: u32) {
        let slicing = json!({"gpu_time_slicing_through": "plugin", "gpu_time_slicing_replicas": replicas});
        self.bare.world.write("playbooks/site.yaml", &playbook(image, &slicing)).unwrap();
    }

    /// The images of the plugin's pods that run: one that has ended may still be there beside its successor.
    fn images(&self) -> String {
        let path = "{.items[?(@.status.phase==\"Running\")].spec.containers[0].image}";
        self.kubectl(&format!("-n {SPACE} get pods -l name=nvidia-device-plugin-ds -o 'jsonpath={path}'"))
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let (verb, more) = arguments.split_first().unwrap();
        self.bare.world.converge(&[&[*verb, "hosts.yaml"], more].concat()).unwrap()
    }

    fn kubectl(&self, arguments: &str) -> String {
        self.bare.kubectl(arguments)
    }

    /// Waits until h2 offers so many of so many GPUs.
    #[track_caller]
    fn offers(&self, allocatable: u32, capacity: u32) {
        let path = r"{.status.allocatable.nvidia\.com/gpu}/{.status.capacity.nvidia\.com/gpu}";
        let ask = || self.kubectl(&format!("get node h2 -o 'jsonpath={path}'"));
        let wanted = format!("{allocatable}/{capacity}");
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let begun = Instant::now();
            let found = ask();
            if found == wanted {
                return;
            }
            let log = || self.kubectl(&format!("-n {SPACE} logs -l name=nvidia-device-plugin-ds --tail=20"));
            assert!(Instant::now() < end, "h2 offers {found}, not {wanted}: {}", log());
            converge_lab::pause(begun);
        }
    }

    /// Waits until doctor tells this of a host or of the cluster. No role: "".
    #[track_caller]
    fn finds(&self, step: &str, role: &str, text: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let begun = Instant::now();
            let reported = self.run(&["doctor", "--output", "json"]);
            let all = reported.json().unwrap();
            let charts = ["hosts", "clusters"].into_iter().flat_map(|key| all[key].as_array().unwrap());
            let found = charts.flat_map(|chart| chart["findings"].as_array().unwrap()).any(|finding| {
                finding["step"] == step
                    && finding["health"] != "well"
                    && finding["role"].as_str().unwrap_or_default() == role
                    && finding["cause"].is_string()
                    && finding["found"].as_str().unwrap().contains(text)
            });
            if found {
                return;
            }
            if Instant::now() > end {
                let pods = self.kubectl(&format!("-n {SPACE} describe pods"));
                panic!("doctor does not tell {step}, {text:?}: {}\n{pods}", reported.all());
            }
            converge_lab::pause(begun);
        }
    }

    /// Everything is as it was: nothing to change, nothing to tell.
    #[track_caller]
    fn is_well(&self, what: &str) {
        self.offers(16, 16);
        // A plugin that was restarted takes its offer back, some seconds later, before it makes it again.
        let mut plan = None;
        until("a plan without a change", 120, || {
            let last = plan.insert(self.run(&["plan"]));
            last.code != Some(2)
        });
        plan.unwrap().expect(0).says("nothing to change");
        self.run(&["verify"]).expect(0);
        self.run(&["doctor"]).expect(0);
        self.step(what);
    }

    /// The profile that the plugin reads, written by another user.
    fn profile(&self, text: &str) {
        let patch = json!({"data": {"any": text}}).to_string();
        self.kubectl(&format!("-n {SPACE} patch configmap time-slicing-config --type=merge -p '{patch}'"));
    }

    fn restart_plugin(&self) {
        self.kubectl(&format!("-n {SPACE} delete pod -l name=nvidia-device-plugin-ds"));
    }
}

fn shares(section: &str, replicas: u32) -> String {
    format!(
        "version: v1\nsharing:\n  {section}:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: {replicas}\n"
    )
}

/// One cluster for all of it: making one is what takes the time.
#[test]
fn faults_of_a_gpu_cluster_are_named_and_corrected() {
    let cluster = Cluster::new();
    programs_see_the_gpus(&cluster);
    refused_before_anything_is_done(&cluster);
    cluster.run(&["apply", "--yes"]).expect(0);
    cluster.is_well("a cluster with shared GPUs");
    content_that_nobody_reads(&cluster);
    content_that_the_plugin_refuses(&cluster);
    another_plugin_and_other_content(&cluster);
    shares_with_a_name_of_their_own(&cluster);
    a_plugin_that_is_gone(&cluster);
    gpus_that_are_sick_or_gone(&cluster);
    parts_that_do_not_run(&cluster);
    a_pod_that_asks_for_two_shares(&cluster);
    a_node_that_is_not_ready(&cluster);
    a_configuration_that_containerd_refuses(&cluster);
    a_handler_that_is_missing(&cluster);
    a_shadowed_driver_of_control_groups(&cluster);
    a_service_that_answers(&cluster);
}

/// NVIDIA's own programs over the library that plays the GPUs, on the host itself.
fn programs_see_the_gpus(cluster: &Cluster) {
    assert_eq!(exec(cluster.host(2), "nvidia-smi -L | wc -l"), "4");
    let features = "/run/lab/gpu-feature-discovery --oneshot --use-node-feature-api=false --no-timestamp --output-file= \
                    --machine-type-file=/etc/hostname 2>/dev/null";
    let labels = exec(cluster.host(2), features);
    assert!(labels.lines().any(|line| line == "nvidia.com/gpu.count=4"), "{labels}");
}

fn refused_before_anything_is_done(cluster: &Cluster) {
    cluster
        .run(&["plan", "--set", "gpu_time_slicing_replicas=0"])
        .expect(64)
        .says("the input `gpu_time_slicing_replicas` must be at least 1");
    cluster.write_playbook(&json!({"gpu_time_slicing_through": "plugin", "gpu_time_slicing_replica": 4}));
    cluster.run(&["plan"]).expect(64).says("gpu_time_slicing_replica").says("gpu_time_slicing_replicas");
    cluster.write_playbook(&json!({"gpu_time_slicing_through": "plugin"}));
}

fn content_that_nobody_reads(cluster: &Cluster) {
    // A running plugin does not notice.
    cluster.profile(&shares("timeSlicing", 2));
    cluster.finds("slices", "time_slicing", "started before that: nvidia-device-plugin-daemonset-");
    cluster.run(&["plan"]).expect(2).says("time-slicing profiles").says("replicas: 2");
    cluster.offers(16, 16);
    // A misspelled key is taken without a word: nothing is shared.
    cluster.profile(&shares("timeSlicin", 4));
    cluster.restart_plugin();
    cluster.offers(4, 4);
    cluster.finds("key", "time_slicing", "profile any: `timeSlicin`, where `timeSlicing` is meant");
    cluster.run(&["verify"]).expect(2).says("node h2: allocatable nvidia.com/gpu is 4, expected 16");
    // The run restores the content that the plugin was once started with, which is not the content that it runs with.
    cluster.run(&["apply", "--yes"]).expect(0);
    cluster.is_well("content that nobody reads");
}

fn content_that_the_plugin_refuses(cluster: &Cluster) {
    cluster.profile(&shares("timeSlicing", 1));
    cluster.restart_plugin();
    cluster.offers(0, 16);
    cluster.finds("replicas", "time_slicing", "profile any: replicas 1");
    cluster
        .run(&["verify"])
        .expect(2)
        .says("node h2: allocatable nvidia.com/gpu is 0 of capacity 16, expected");
    // A profile that is not there.
    cluster.kubectl(&format!(
        "-n {SPACE} set env daemonset/nvidia-device-plugin-daemonset CONFIG_FILE=/time-slicing/tesla"
    ));
    cluster.finds("profile", "time_slicing", "is to read the profile tesla; there is any");
    let families =
        json!({"gpu_time_slicing_through": "plugin", "gpu_time_slicing_families": {"hopper": "tesla"}});
    cluster.write_playbook(&families);
    let refused = cluster.run(&["plan"]).says("does not have: tesla");
    assert_ne!(refused.code, Some(0));
    cluster.write_playbook(&json!({"gpu_time_slicing_through": "plugin"}));
    // The earlier role leaves the wait for the plugin, which cannot start, to the role that corrects it.
    cluster.run(&["apply", "--yes"]).expect(0);
    cluster.is_well("content that the plugin refuses");
}

/// Another version of the plugin, other content, and both while the plugin refuses the content that is there.
fn another_plugin_and_other_content(cluster: &Cluster) {
    let other = format!("{DEVICE_PLUGIN_IMAGE}-other");
    exec(cluster.host(2), &format!("ctr -n k8s.io images tag {DEVICE_PLUGIN_IMAGE} {other}"));
    cluster.write_image(&other, 4);
    let plan = cluster.run(&["plan"]).expect(2);
    plan.says(
        "waits for device_plugin/the device plugin: `device_plugin/the device plugin` changes it first",
    );
    cluster.run(&["apply", "--yes"]).expect(0);
    assert_eq!(cluster.images(), other, "the apply has waited for the new pods");
    cluster.is_well("another version of the plugin");
    cluster.write_image(&other, 2);
    cluster.run(&["apply", "--yes"]).expect(0);
    cluster.offers(8, 8);
    cluster.run(&["plan"]).expect(0);
    cluster.profile(&shares("timeSlicing", 1));
    cluster.restart_plugin();
    cluster.offers(0, 8);
    cluster.write_image(DEVICE_PLUGIN_IMAGE, 4);
    cluster.run(&["apply", "--yes"]).expect(0);
    assert_eq!(cluster.images(), DEVICE_PLUGIN_IMAGE);
    cluster.is_well("another version over content that the plugin refuses");
}

fn shares_with_a_name_of_their_own(cluster: &Cluster) {
    let renamed = json!({"gpu_time_slicing_through": "plugin", "gpu_time_slicing_rename": true});
    cluster.write_playbook(&renamed);
    cluster.run(&["apply", "--yes"]).expect(0);
    let path = r"jsonpath='{.status.allocatable.nvidia\.com/gpu\.shared}'";
    assert_eq!(cluster.kubectl(&format!("get node h2 -o {path}")), "16");
    cluster.run(&["plan"]).expect(0);
    cluster.run(&["verify"]).expect(0);
    cluster.write_playbook(&json!({"gpu_time_slicing_through": "plugin"}));
    cluster.run(&["apply", "--yes"]).expect(0);
    cluster.is_well("shares with a name of their own");
}

fn a_plugin_that_is_gone(cluster: &Cluster) {
    cluster.kubectl(&format!("-n {SPACE} delete daemonset nvidia-device-plugin-daemonset"));
    cluster.offers(0, 16);
    cluster.finds("plugin", "device_plugin", "no nvidia.com/gpu allocatable on h2 (0 of 16)");
    cluster.run(&["verify"]).expect(2).says("allocatable nvidia.com/gpu is 0 of capacity 16");
    cluster.run(&["apply", "--yes"]).expect(0);
    cluster.is_well("a plugin that is gone");
}

/// No role repairs a GPU: an unhealthy one is named, until the GPU is replaced.
fn gpus_that_are_sick_or_gone(cluster: &Cluster) {
    cluster.gpus(&format!("{GPUS}xid.1=79\n"));
    // One share of the sick GPU: allocatable is no measure of health.
    cluster.offers(15, 16);
    cluster.finds("sick", "gpu_host", "h2 (15 of 16)");
    cluster.run(&["verify"]).expect(2).says("node h2: allocatable nvidia.com/gpu is 15 of capacity 16");
    cluster.gpus(&format!("{GPUS}absent.1=1\n"));
    cluster.restart_plugin();
    cluster.offers(12, 12);
    cluster.finds("shares", "time_slicing", "h2 offers 12, not 4 × 4");
    let verify = cluster.run(&["verify"]).expect(2);
    verify.says("is 12, expected 16 (its label nvidia.com/gpu.count = 4, times 4)");
    cluster.gpus(GPUS);
    cluster.restart_plugin();
    cluster.is_well("GPUs that are sick or gone");
}

fn a_handler_that_is_missing(cluster: &Cluster) {
    let node = cluster.host(2);
    exec(node, &format!("rm {DROP_IN} && systemctl restart containerd"));
    cluster.finds("handler", "gpu_runtime", "without the handler nvidia of RuntimeClass nvidia: h2");
    cluster
        .run(&["verify"])
        .expect(2)
        .says("node h2")
        .says("no runtime nvidia in the effective configuration");
    cluster.run(&["apply", "--yes"]).expect(0);
    // The drop-in is there and nobody imports it; what containerd says of its imports is no help.
    exec(node, "sed -i '/^imports/d' /etc/containerd/config.toml");
    assert!(exec(node, "containerd config dump").contains("imports"));
    cluster.finds("handler", "gpu_runtime", &format!("{DROP_IN} is there"));
    let verify = cluster.run(&["verify"]).expect(2);
    verify.says(&format!("does /etc/containerd/config.toml import {DROP_IN}?"));
    cluster.run(&["apply", "--yes", "--role", "gpu_runtime"]).expect(0);
    // The kubelet tells of it some seconds later: the role runtime_class waits for that.
    cluster.run(&["apply", "--yes"]).expect(0);
    cluster.is_well("a handler that is missing");
}

/// The toolkit's drop-in has a copy of runc's options, which goes before config.toml.
fn a_shadowed_driver_of_control_groups(cluster: &Cluster) {
    let node = cluster.host(2);
    assert_eq!(exec(node, &format!("grep -c 'SystemdCgroup = true' {DROP_IN}")), "2");
    exec(node, &format!("sed -i 's/SystemdCgroup = true/SystemdCgroup = false/' {DROP_IN}"));
    cluster.finds("cgroup", "k8s", &format!("SystemdCgroup = false, which stands in {DROP_IN}"));
    let verify = cluster.run(&["verify"]).expect(2);
    verify.says("the runtime runc has cgroupfs in the effective configuration of containerd");
    cluster.run(&["apply", "--yes", "--role", "gpu_runtime"]).expect(0);
    cluster.is_well("a shadowed driver of control groups");
}

fn parts_that_do_not_run(cluster: &Cluster) {
    let image = |image: &str| {
        cluster.kubectl(&format!(
            "-n {SPACE} set image daemonset/nvidia-device-plugin-daemonset nvidia-device-plugin={image}"
        ))
    };
    image("lab.local/none:1");
    cluster.finds("image", "gpu_operator", "lab.local/none:1 cannot be pulled");
    image(DEVICE_PLUGIN_IMAGE);
    cluster.is_well("an image that is not there");
    // Its driver is gone: the plugin ends as soon as it begins.
    cluster.gpus("driver=none\n");
    cluster.restart_plugin();
    cluster.finds("crash", "gpu_host", "in CrashLoopBackOff: ");
    cluster.finds("allocatable", "gpu_host", "no nvidia.com/gpu allocatable on h2 (0 of ");
    cluster.gpus(GPUS);
    cluster.restart_plugin();
    cluster.is_well("a driver that is gone");
}

/// The plugin refuses it where the profile says so; the kubelet then gives the pod up for good.
fn a_pod_that_asks_for_two_shares(cluster: &Cluster) {
    let strict =
        shares("timeSlicing", 4).replace("resources:", "failRequestsGreaterThanOne: true\n    resources:");
    cluster.profile(&strict);
    cluster.restart_plugin();
    cluster.kubectl(&format!(
        "-n {SPACE} wait --for=condition=Ready pod -l name=nvidia-device-plugin-ds --timeout=60s"
    ));
    cluster.offers(16, 16);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "greedy"},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "lab.local/busybox:1", "imagePullPolicy": "IfNotPresent",
            "command": ["true"], "resources": {"limits": {"nvidia.com/gpu": 2}}}]},
    });
    // doctor looks at pods elsewhere only when an event tells of them.
    cluster.kubectl(&format!("-n {SPACE} apply -f - << 'END'\n{pod}\nEND"));
    cluster.finds("admission", "", &format!("{SPACE}/greedy: "));
    cluster.kubectl(&format!("-n {SPACE} delete pod greedy"));
    cluster.run(&["apply", "--yes"]).expect(0);
    cluster.is_well("a pod that asks for two shares");
}

fn a_node_that_is_not_ready(cluster: &Cluster) {
    let node = cluster.host(2);
    let is = |ready: bool| {
        until("the node's readiness", 120, || cluster.bare.is_ready("h2") == ready);
    };
    // The network of its pods is gone; the role k8s makes it again.
    exec(node, "rm /etc/cni/net.d/*");
    cluster.finds("network", "k8s", "not Ready: h2 (KubeletNotReady: ");
    cluster.run(&["apply", "--yes"]).expect(0);
    is(true);
    cluster.is_well("no network of the pods");
    // containerd's default runtime is defined nowhere: it serves no pods.
    let default = "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".containerd]\ndefault_runtime_name = \"gone\"\n";
    let file = "/etc/containerd/conf.d/zz-default.toml";
    exec(node, &format!("printf '%s' '{default}' > {file} && systemctl restart containerd"));
    is(false);
    cluster.finds("runc", "k8s", "no runtime gone in containerd's configuration, only ");
    exec(node, &format!("rm {file} && systemctl restart containerd"));
    is(true);
    cluster.is_well("a default runtime that is not defined");
}

/// Of files that it would not start with again; it still runs with the old ones.
fn a_configuration_that_containerd_refuses(cluster: &Cluster) {
    let node = cluster.host(2);
    let file = "/etc/containerd/conf.d/zz-later.toml";
    exec(node, &format!("echo 'version = 4' > {file}"));
    cluster.finds("containerd", "gpu_operator", &format!("{file} has version 4, config.toml has version 3"));
    exec(node, &format!("echo 'x = [' > {file}"));
    cluster.finds("containerd", "k8s", "its configuration cannot be read: ");
    exec(node, &format!("rm {file}"));
    cluster.is_well("a configuration that containerd refuses");
}

/// The role `discovery` asks what it describes, through the API server: a pod behind a Service, first well, then not. It is on the node of the API
/// server: pods of these nodes have a network each.
fn a_service_that_answers(cluster: &Cluster) {
    let web = json!({"kind": "List", "apiVersion": "v1", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "services"}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "services"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 9400, "targetPort": 8080}]}},
        {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "services", "labels": {"app": "web"}},
            "spec": {"nodeName": "h1", "tolerations": [{"operator": "Exists"}], "containers": [{
                "name": "web", "image": "lab.local/busybox:1", "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", "mkdir /w; echo 1 > /w/metrics; exec httpd -f -p 8080 -h /w"],
            }]}},
    ]});
    let role = json!({"role": "discovery", "vars": {
        "discovery_namespace": "services",
        "discovery_endpoints": [{"name": "metrics", "service": "web", "port": 9400, "type": "http", "health_path": "/metrics"}],
    }});
    cluster.kubectl(&format!("apply -f - << 'END'\n{web}\nEND"));
    let playbook = json!([{"hosts": "k8s_control_plane", "roles": [role]}]);
    cluster.bare.world.write("playbooks/site.yaml", &playbook.to_string()).unwrap();
    cluster.run(&["apply", "--yes"]).expect(0);
    cluster.run(&["verify"]).expect(0).says("2 checks hold");
    cluster.kubectl("-n services exec web -- rm /w/metrics");
    cluster.run(&["verify"]).expect(2).says("the service services/web or its path is not there");
    cluster.step("a service that answers");
}
