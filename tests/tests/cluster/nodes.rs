//! The roles of a GPU cluster on fifty simulated nodes, and one that comes later.

use crate::{Lab, says_all};
use converge_lab::kube::NodeSpec;
use converge_tests::{Ran, exec, link_roles, root, until};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Serves a folder over HTTP, as long as the test runs.
fn serve(folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap_or(0);
            let line =
                String::from_utf8_lossy(&request[..read]).lines().next().unwrap_or_default().to_owned();
            let path = line.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
            let (status, body) = match std::fs::read(folder.join(path)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)));
        }
    });
    format!("http://{address}")
}

/// Acts as the operator on nodes that are released to it: they get their GPUs. None is released before the one ahead of it
/// has them.
fn equip(lab: &Lab, nodes: &[&str]) {
    // From the last to the first: what was seen of a later node holds for the ones ahead of it.
    let asked: Vec<&str> = ["node"].into_iter().chain(nodes.iter().rev().copied()).collect();
    let observed: Vec<(bool, bool)> = lab.api.get(&asked).unwrap()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            let at =
                |pointer: &str| node.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            (
                at("/metadata/labels/nvidia.com~1gpu.deploy.operands") == "true",
                at("/status/allocatable/nvidia.com~1gpu") != "0",
            )
        })
        .collect();
    for (index, (released, offers)) in observed.iter().rev().enumerate() {
        let ahead =
            index.checked_sub(1).and_then(|n| observed.iter().rev().nth(n)).is_none_or(|(_, offers)| *offers);
        assert!(
            ahead || !released,
            "{} was released before the node ahead of it offered its GPUs",
            nodes[index]
        );
        if *released && !offers {
            lab.api.set_gpus(&[nodes[index]], 8, 8).unwrap();
        }
    }
}

/// The part of a node's status that names the runtimes of its containerd.
fn handlers() -> Value {
    json!({"runtimeHandlers": [{"name": ""}, {"name": "nvidia"}]})
}

/// The nodes of the list that offer nothing at first.
const SLOW: &[&str] = &["slow-1", "slow-2", "slow-3"];

/// Acts as an operator and a device plugin until the run has ended: the policy gets ready, the plugin registers shares.
fn play(lab: &Lab, mut run: std::process::Child, ready: &[String], shares: u32) -> Ran {
    let begun = Instant::now();
    let (mut content, mut shared) = (false, false);
    while run.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(300) {
            run.kill().unwrap();
            let reply = converge_tests::ended(run).unwrap();
            assert_eq!(reply.code, Some(0), "the run does not end: {}", reply.all());
            return reply;
        }
        if !content && lab.api.get(&["clusterpolicy", "cluster-policy"]).is_ok() {
            let state = r#"{"status":{"state":"ready"}}"#;
            let patch = [
                "patch",
                "clusterpolicy",
                "cluster-policy",
                "--subresource=status",
                "--type",
                "merge",
                "-p",
                state,
            ];
            content = lab.api.kubectl(&patch).unwrap().success();
        }
        equip(lab, SLOW);
        if !shared && lab.api.get(&["configmap", "-n", "gpu-operator", "time-slicing-config"]).is_ok() {
            lab.api.set_gpus(ready, 8 * shares, 8 * shares).unwrap();
            shared = true;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    converge_tests::ended(run).unwrap()
}

#[test]
fn the_roles_of_a_gpu_cluster_on_fifty_nodes() {
    let lab = Lab::get();
    let nodes = |spec: NodeSpec| {
        lab.api
            .nodes(&spec.gpus(8).label("nvidia.com/gpu.present", "true").label("nvidia.com/gpu.count", "8"))
            .unwrap()
    };
    let mut ready = nodes(NodeSpec::new("gpu", 46));
    ready.extend(nodes(NodeSpec::new("cordoned", 1).cordoned()));
    nodes(NodeSpec::new("dead", 2).not_ready());
    nodes(NodeSpec::new("odd", 1).allocatable_gpus(7));
    let slow = nodes(NodeSpec::new("slow", 3).allocatable_gpus(0));
    let all: Vec<&str> = ready.iter().chain(&slow).map(String::as_str).chain(["odd-1"]).collect();
    lab.api.patch_status(&all, &handlers()).unwrap();
    let charts = tempfile::tempdir().unwrap();
    let helm = |args: &[&str]| {
        let reply = Command::new(&lab.helm).args(args).current_dir(charts.path()).output().unwrap();
        assert!(reply.status.success(), "{reply:?}");
    };
    for chart in ["gpu-operator", "pod-network"] {
        helm(&["package", root().join("tests/charts").join(chart).to_str().unwrap()]);
    }
    helm(&["repo", "index", "."]);
    let repository = serve(charts.path());
    drop(std::fs::remove_dir_all(lab.world.dir().join("roles")));
    link_roles(lab.world.dir()).unwrap();
    let roles = "- hosts: lab\n  roles: [pod_network, gpu_operator, gpu_ready, time_slicing, discovery, runtime_class]\n";
    lab.world.write("playbooks/site.yaml", roles).unwrap();
    let more = format!(
        "gpu_time_slicing_profiles: {{half: 2}}\ngpu_time_slicing_families: {{late: half}}\ngpu_operator_version: v25.10.0\ngpu_operator_repository: {repository}\ngpu_operator_validation: \"\"\ngpu_operator_wait: 60\ngpu_operator_values: {{dcgmExportr: {{enabled: true}}}}\ngpu_operator_hosts: [slow-1, slow-2, slow-3, dead-1]\ngpu_operator_batch: 1\ndiscovery_ask: false\npod_network_repository: {repository}\npod_network_chart: pod-network\npod_network_version: 1.0.0\npod_network_workloads: [daemonset/agent]\npod_network_nodes: [gpu-1, odd-1]\npod_network_probe: \"\""
    );
    lab.world.write("hosts.yaml", &lab.world.inventory(&more)).unwrap();

    // One plan before anything is there: the release with its diff or its wait, and what waits for it.
    let plan = lab.plan().expect(2);
    says_all(&plan, &["create namespace gpu-operator", "the operator", "time-slicing profiles", "deferred"]);
    assert!(!plan.all().contains("error on this host"), "{}", plan.all());

    let spawn = || {
        let mut command = lab.command(&["apply", "--yes", "hosts.yaml"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // A node that has lost a GPU is named, and nothing is held against the others or against nodes that are not ready.
    let mut short =
        lab.command(&["apply", "--yes", "hosts.yaml", "--role", "gpu_operator", "--role", "gpu_ready"]);
    let short = play(&lab, short.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), &ready, 1);
    assert_eq!(short.code, Some(1), "{}", short.all());
    says_all(&short, &["node odd-1: allocatable nvidia.com/gpu is 7 of capacity 8", "dcgmExporter"]);
    assert!(
        !short.all().contains("node gpu-1:") && !short.all().contains("node dead-1: allocatable"),
        "{}",
        short.all()
    );

    // Nodes went to the operator batch by batch.
    says_all(&short, &["gpu_operator/a batch of nodes is the operator's[2]"]);
    for node in SLOW {
        let label = "/metadata/labels/nvidia.com~1gpu.deploy.operands";
        assert_eq!(lab.value(&["node", node], label).unwrap(), "true", "{node}");
    }

    // Mended, everything comes. The network is asked for addresses of the nodes' own.
    lab.api.set_gpus(&["odd-1"], 8, 8).unwrap();
    ready.push("odd-1".to_owned());
    ready.extend(slow);
    let done = play(&lab, spawn(), &ready, 4);
    assert_eq!(done.code, Some(0), "{}", done.all());
    says_all(&done, &["time_slicing/the device plugin has read them", "runtime_class"]);
    let template = "/spec/template/metadata/annotations";
    let plugin = ["daemonset", "-n", "gpu-operator", "nvidia-device-plugin-daemonset"];
    assert!(lab.value(&plugin, template).is_some(), "the plugin was not restarted");
    let agent = ["daemonset", "-n", "kube-system", "agent"];
    assert_eq!(lab.value(&agent, "/metadata/annotations/ipam").unwrap(), "kubernetes");
    let policy = ["clusterpolicy", "cluster-policy"];
    assert_eq!(lab.value(&policy, "/spec/devicePlugin/config/name").unwrap(), "time-slicing-config");

    // The operator's role after time_slicing finds nothing to do, and neither do all of them; their live checks hold.
    lab.converge(&["plan", "hosts.yaml", "--role", "gpu_operator"]).expect(0);
    lab.plan().expect(0).says("nothing to change");
    lab.converge(&["verify", "hosts.yaml"]).expect(0);
    a_network_without_a_dns_is_not_proved(&lab);

    // One object is deleted: found, made again, and the plugin restarted for nothing that did not change.
    lab.kubectl(&["-n", "gpu-operator", "delete", "configmap", "thinkube-service-config"]);
    says_all(&lab.plan().expect(2), &["create configmap gpu-operator/thinkube-service-config"]);
    lab.apply().expect(0);

    // Other content, and nothing else: both readers are restarted.
    let before = lab.value(&plugin, template);
    let two = ["plan", "hosts.yaml", "--set", "gpu_time_slicing_replicas=2"];
    says_all(
        &lab.converge(&two).expect(2),
        &["replicas: 4", "replicas: 2", "restart daemonset gpu-operator/gpu-feature-discovery"],
    );
    assert_eq!(lab.value(&plugin, template), before, "planning restarted something");

    a_worker_joins(&lab, &mut ready, &more);

    // Back to the start: the release is uninstalled, the policy's field is gone with it, and nodes and namespace stay.
    let oldest = lab.oldest_run();
    let back = [
        "rollback",
        "--yes",
        "hosts.yaml",
        "--to",
        &oldest,
        "--allow-destroy",
        "k8s:v1/Namespace/gpu-operator",
    ];
    lab.converge(&back).expect(0);
    assert!(lab.api.get(&plugin).is_err() && lab.api.get(&agent).is_err(), "something is still there");
    assert!(lab.value(&["namespace", "gpu-operator"], "/metadata/name").is_none());
}

/// `verify` of the network needs a pod that other pods speak to: none is an error, which names what was looked for.
fn a_network_without_a_dns_is_not_proved(lab: &Lab) {
    let probe = ["--set", "pod_network_probe=example.com/agnhost", "--set", "pod_network_wait=10"];
    let verify = || lab.converge(&[&["verify", "hosts.yaml", "--role", "pod_network"], &probe[..]].concat());
    says_all(&verify().expect(2), &["a pod of the cluster's DNS runs", "k8s-app=kube-dns"]);
    let labels = json!({"k8s-app": "kube-dns"});
    let dns = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "coredns", "image": "example.com/x"}]},
        }},
    });
    lab.api.apply(&dns.to_string()).unwrap();
    verify().expect(0);
    lab.kubectl(&["-n", "kube-system", "delete", "deployment", "coredns"]);
}

/// A host joins with `--limit`: it alone is worked on, and the cluster's roles see its node in the next whole run.
fn a_worker_joins(lab: &Lab, ready: &mut Vec<String>, more: &str) {
    let late = lab.world.lab().start_hosts(&["late"]).unwrap().remove(0);
    let address = late.address();
    let workers = format!(
        "workers:\n  hosts:\n    late: {{ansible_host: {address}}}\n  vars:\n    ansible_user: root\n"
    );
    let ssh: Vec<String> =
        lab.world.inventory("").lines().filter(|l| l.contains("ansible_ssh_")).map(str::to_owned).collect();
    lab.world
        .write("hosts.yaml", &format!("{}{workers}{}\n", lab.world.inventory(more), ssh.join("\n")))
        .unwrap();
    // It stands for the join.
    let join = "resources:\n  - name: joined\n    file: {path: /etc/joined, content: \"{{ inventory_hostname }}\\n\"}\n";
    lab.world.write("roles/join/role.yaml", join).unwrap();
    let site = "- hosts: all\n  roles: [join]\n- hosts: lab\n  roles: [gpu_operator, gpu_ready, time_slicing, discovery, runtime_class]\n";
    lab.world.write("playbooks/site.yaml", site).unwrap();

    let nodes = || {
        lab.api.get(&["nodes"]).unwrap()["items"].as_array().unwrap().iter().map(labels).collect::<Vec<_>>()
    };
    let runs = || {
        lab.api.get(&["secrets", "-n", "converge-system", "-l", "converge/record=run"]).unwrap()["items"]
            .as_array()
            .unwrap()
            .len()
    };
    let before = (nodes(), runs());
    let limited = lab.converge(&["apply", "--yes", "hosts.yaml", "--limit", "late"]).expect(0);
    assert!(
        !limited.all().contains("gpu_operator") && !limited.all().contains("time_slicing"),
        "{}",
        limited.all()
    );
    assert_eq!(exec(&late, "cat /etc/joined"), "late");
    assert!(!lab.world.hosts()[0].exec("test -e /etc/joined").unwrap().success(), "the limit did not hold");
    assert_eq!((nodes(), runs()), before, "the cluster was touched");

    // Its kubelet registers; the next whole run labels that node, waits for its shares, and does nothing to the others.
    let spec = NodeSpec::new("late", 1)
        .gpus(8)
        .label("nvidia.com/gpu.present", "true")
        .label("nvidia.com/gpu.count", "8");
    ready.extend(lab.api.nodes(&spec.label("nvidia.com/gpu.family", "late")).unwrap());
    lab.api.patch_status(&["late-1"], &handlers()).unwrap();
    let plan = lab.plan().expect(2);
    says_all(&plan, &["late-1", "nvidia.com/device-plugin.config"]);
    assert!(!plan.all().contains("restart ") && !plan.all().contains("helm "), "{}", plan.all());
    let mut apply = lab.command(&["apply", "--yes", "hosts.yaml"]);
    let mut apply = apply.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let label = || lab.value(&["node", "late-1"], "/metadata/labels/nvidia.com~1device-plugin.config");
    until("the label, or the end", 120, || label().is_some() || apply.try_wait().unwrap().is_some());
    lab.api.set_gpus(&["late-1"], 16, 16).unwrap();
    let applied = converge_tests::ended(apply).unwrap();
    assert_eq!(applied.code, Some(0), "{}", applied.all());
    assert_eq!(label().unwrap(), "half");
    assert!(
        nodes()
            .iter()
            .all(|(name, labels)| name == "late-1" || before.0.contains(&(name.clone(), labels.clone())))
    );
    lab.plan().expect(0).says("nothing to change");
    lab.converge(&["verify", "hosts.yaml"]).expect(0);
}

/// A node's name and labels.
fn labels(node: &Value) -> (String, Value) {
    (node["metadata"]["name"].as_str().unwrap_or_default().to_owned(), node["metadata"]["labels"].clone())
}

/// The labels of a run before feature discovery was asked for, or of somebody else, say nothing of it.
#[test]
fn feature_discovery_is_waited_for_whoever_counted_the_gpus_before() {
    let lab = Lab::get();
    let labels = [("example.com/counted", "true"), ("nvidia.com/gpu.count", "2")];
    let spec = labels.iter().fold(NodeSpec::new("counted", 1).gpus(2), |spec, (k, v)| spec.label(*k, *v));
    let node = lab.api.nodes(&spec).unwrap().remove(0);
    drop(std::fs::remove_dir_all(lab.world.dir().join("roles")));
    link_roles(lab.world.dir()).unwrap();
    lab.world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [device_plugin]\n").unwrap();
    let more = "device_plugin_discovery: true\ndevice_plugin_discovery_wait: 5\ndevice_plugin_nfd_chart: {}\ndevice_plugin_node_label: example.com/counted\n\
        device_plugin_runtime_class: \"\"\ndevice_plugin_namespace: counted";
    lab.world.write("hosts.yaml", &lab.world.inventory(more)).unwrap();
    let early = lab.apply().expect(1);
    says_all(&early, &["feature discovery has labelled every node", &node]);
    lab.kubectl(&["label", "node", &node, "nvidia.com/gfd.timestamp=1764144000"]);
    lab.apply().expect(0);
    lab.plan().expect(0);
    let to = lab.oldest_run();
    let back =
        ["rollback", "--yes", "hosts.yaml", "--to", &to, "--allow-destroy", "k8s:v1/Namespace/counted"];
    lab.converge(&back).expect(0);
    lab.kubectl(&["delete", "node", &node]);
    lab.world.write("hosts.yaml", &lab.world.inventory("")).unwrap();
    drop(std::fs::remove_dir_all(lab.world.dir().join("roles")));
}
