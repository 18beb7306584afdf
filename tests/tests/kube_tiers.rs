//! The tiers of real Kubernetes that other tests stand on. Without the parts, or Go to build them, these fail.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]
#![expect(clippy::print_stdout, reason = "the times of each step are what a reader wants to see")]

use converge_lab::kube::{Administrator, ApiOptions, ApiServer, Component, LocalApi, NodeSpec};
use converge_lab::{Lab, LabOptions};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn wait(what: &str, seconds: u64, done: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(seconds), "{what} took more than {seconds} s");
        std::thread::sleep(Duration::from_millis(100));
    }
    begun.elapsed()
}

/// A workload of one pod for each selector, with an annotation of its pods.
fn pods(annotation: Option<&str>) -> Value {
    let mut template = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "lab.local/none:1"}], "tolerations": [{"operator": "Exists"}]},
    });
    if let Some(end) = annotation {
        template["metadata"]["annotations"] = json!({"converge-lab/pod": end});
    }
    template
}

fn daemon_set(name: &str, annotation: Option<&str>) -> String {
    let spec = json!({"selector": {"matchLabels": {"app": "x"}}, "template": pods(annotation)});
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "default"}, "spec": spec}).to_string()
}

fn job(name: &str, annotation: Option<&str>) -> String {
    let mut template = pods(annotation);
    template["spec"]["restartPolicy"] = "Never".into();
    let spec = json!({"backoffLimit": 0, "template": template});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec}).to_string()
}

fn numbers(api: &ApiServer, object: &str) -> [i64; 2] {
    let status = api.get(&[object]).unwrap()["status"].clone();
    ["desiredNumberScheduled", "numberReady"].map(|key| status[key].as_i64().unwrap_or(-1))
}

/// Properties that hold wherever the API server runs.
fn nodes_and_pods_move(api: &ApiServer) {
    let begun = Instant::now();
    api.nodes(&NodeSpec::new("cpu", 1)).unwrap();
    api.nodes(&NodeSpec::new("gpu", 3).gpus(8).taint("nvidia.com/gpu", "present", "NoSchedule")).unwrap();
    api.nodes(&NodeSpec::new("odd", 1).gpus(8).allocatable_gpus(7).cordoned()).unwrap();
    api.nodes(&NodeSpec::new("dead", 1).not_ready()).unwrap();
    println!("{:6.1} s  six nodes", begun.elapsed().as_secs_f64());
    let odd = api.get(&["node", "odd-1"]).unwrap();
    assert_eq!(odd["status"]["capacity"]["nvidia.com/gpu"], "8");
    assert_eq!(odd["status"]["allocatable"]["nvidia.com/gpu"], "7");
    assert_eq!(odd["spec"]["unschedulable"], true);

    // Every node wants a pod, and the dead one's never gets ready.
    api.apply(&daemon_set("rolls", None)).unwrap();
    let took = wait("the rollout", 30, || numbers(api, "daemonset/rolls") == [6, 5]);
    println!("{:6.1} s  a DaemonSet on six nodes, one of them dead", took.as_secs_f64());
    api.set_ready("dead-1", true).unwrap();
    let took = wait("the node's return", 30, || numbers(api, "daemonset/rolls") == [6, 6]);
    println!("{:6.1} s  the dead node is back and runs its pod", took.as_secs_f64());
    api.set_ready("gpu-3", false).unwrap();
    let not_ready = |node: &str| {
        let conditions = api.get(&["node", node]).unwrap()["status"]["conditions"].clone();
        let ready = conditions.as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap().clone();
        ready["status"] != "True"
    };
    std::thread::sleep(Duration::from_secs(2));
    assert!(not_ready("gpu-3"), "kwok must not wake a node that was told to die");
    assert!(!not_ready("gpu-2"));

    api.apply(&daemon_set("hangs", Some("never-ready"))).unwrap();
    api.apply(&job("completes", None)).unwrap();
    api.apply(&job("fails", Some("fails"))).unwrap();
    let jobs = |key: &str, name: &str| api.get(&["job", name]).unwrap()["status"][key].as_i64().unwrap_or(0);
    let took = wait("a Job", 30, || jobs("succeeded", "completes") == 1 && jobs("failed", "fails") == 1);
    println!("{:6.1} s  a Job completed, another failed", took.as_secs_f64());
    assert_eq!(numbers(api, "daemonset/hangs")[1], 0);
    let logs = api.kubectl(&["logs", "job/completes"]).unwrap();
    assert_eq!(logs.stdout, "simulated\nTest PASSED\n", "{logs:?}");

    api.set_gpus(&["gpu-1"], 32, 32).unwrap();
    assert_eq!(api.get(&["node", "gpu-1"]).unwrap()["status"]["allocatable"]["nvidia.com/gpu"], "32");

    // Pods go when they are deleted.
    assert!(api.kubectl(&["delete", "daemonset", "hangs", "--timeout=30s"]).unwrap().success());
}

#[test]
fn an_api_server_in_a_lab_host() {
    let lab = Lab::open(LabOptions::new(format!("t-kube-{}", std::process::id()))).unwrap();
    let hosts = lab.up(1).unwrap();
    let host = &hosts[0];
    let begun = Instant::now();
    let api = ApiServer::start(host, ApiOptions::new().kwok()).unwrap();
    println!("{:6.1} s  API server, controllers, scheduler, kwok", begun.elapsed().as_secs_f64());
    let shown = host
        .exec("stat -c '%U %a' /etc/kubernetes/admin.conf; grep server: /etc/kubernetes/admin.conf")
        .unwrap();
    assert_eq!(shown.stdout, "root 600\n    server: https://127.0.0.1:6443\n", "{shown:?}");
    let asked = |conf: &str| {
        host.exec(&format!("/run/lab/kubectl --kubeconfig=/etc/kubernetes/{conf} get --raw=/readyz")).unwrap()
    };
    assert_eq!(asked("admin.conf").stdout, "ok");

    nodes_and_pods_move(&api);

    // An expired certificate is refused by the server; the lab's own is not.
    api.administrator(Administrator::Expired).unwrap();
    assert!(!asked("admin.conf").success() && api.is_ready());
    api.administrator(Administrator::Valid).unwrap();
    assert!(asked("admin.conf").success());

    // Dead, slow, back again with the data.
    api.kill(Component::ApiServer).unwrap();
    assert!(!api.is_ready());
    let begun = Instant::now();
    api.start_one(Component::ApiServer).unwrap();
    api.wait_until_ready().unwrap();
    println!("{:6.1} s  API server killed, back", begun.elapsed().as_secs_f64());
    api.pause(Component::ApiServer).unwrap();
    assert!(!api.is_ready(), "a paused server must not answer");
    api.resume(Component::ApiServer).unwrap();
    api.wait_until_ready().unwrap();
    assert_eq!(numbers(&api, "daemonset/rolls")[0], 6);

    // A power cut: it comes back with the host.
    host.kill().unwrap();
    let begun = Instant::now();
    host.start().unwrap();
    api.wait_until_ready().unwrap();
    println!("{:6.1} s  power cut, the API server is back", begun.elapsed().as_secs_f64());
    assert_eq!(numbers(&api, "daemonset/rolls")[0], 6);

    let begun = Instant::now();
    drop(api);
    println!("{:6.1} s  taken away", begun.elapsed().as_secs_f64());
    let left =
        host.exec("ls -d /etc/kubernetes /var/lib/converge-lab-etcd; pgrep -l 'etcd|kube|kwok'").unwrap();
    assert_eq!(left.stdout, "", "{left:?}");
}

#[test]
fn an_api_server_on_loopback() {
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let api = LocalApi::start(dir.path(), ApiOptions::new().kwok()).unwrap();
    println!("{:6.1} s  on loopback, port {}", begun.elapsed().as_secs_f64(), api.port());
    let config = std::fs::read_to_string(api.kubeconfig()).unwrap();
    assert!(config.contains(&format!("https://127.0.0.1:{}", api.port())), "{config}");
    nodes_and_pods_move(&api);
    api.stop().unwrap();
    assert!(!api.is_ready());
    let begun = Instant::now();
    api.start_again().unwrap();
    println!("{:6.1} s  stopped, started again", begun.elapsed().as_secs_f64());
    assert_eq!(numbers(&api, "daemonset/rolls")[0], 6);
    drop(api);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "its folder is left");
}
