//! Operators that settle after a run, and nodes that never do what they were released for.

use crate::{Lab, says_all};
use converge_lab::kube::NodeSpec;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nodes go in batches: the second has its turn when the first offers its GPUs.
const BATCHES: &str = r#"
scope: cluster
resources:
  - name: a batch
    for_each: [[batch-1], [batch-2]]
    node:
      name: "{{ item }}"
      labels: {released: "true"}
      until: {offers: nvidia.com/gpu, timeout: 4}
"#;

/// A node that was released and never offers its GPUs keeps back the next batch in every run, not only in the one that released it.
#[test]
fn a_batch_that_never_ends_holds_in_the_second_run_too() {
    let lab = Lab::get();
    lab.api.nodes(&NodeSpec::new("batch", 2).gpus(8).allocatable_gpus(0)).unwrap();
    lab.role("batches", BATCHES);
    let released = |node: &str| lab.value(&["node", node], "/metadata/labels/released");
    for _ in 0..2 {
        let reported = lab.apply().expect(1);
        says_all(&reported, &["batches/a batch[0]", "allocatable nvidia.com/gpu"]);
        assert_eq!(
            (released("batch-1"), released("batch-2")),
            (Some(json!("true")), None),
            "{}",
            reported.all()
        );
    }
    lab.plan().expect(2);
    lab.api.set_gpus(&["batch-1", "batch-2"], 8, 8).unwrap();
    lab.apply().expect(0);
    assert_eq!(released("batch-2"), Some(json!("true")));
    lab.plan().expect(0).says("nothing to change");
    lab.kubectl(&["delete", "node", "batch-1", "batch-2"]);
}

/// The state that the operator reports is read before the change that unsettles it.
const SETTLES: &str = r#"
scope: cluster
inputs:
  wish: {type: str}
resources:
  - name: the operator is ready
    k8s_wait: {target: {apiVersion: v1, kind: ConfigMap, namespace: default, name: operator}, jsonpath: "{.data.state}", equals: ready, timeout: 40}
  - name: what it reads
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: wish, namespace: default}, data: {wish: "{{ wish }}"}}
  - name: the operator has seen it
    k8s_wait: {target: {apiVersion: v1, kind: ConfigMap, namespace: default, name: operator}, jsonpath: "{.data.seen}", equals: "{{ wish }}", timeout: 40}
verify:
  - name: it is content
    k8s_wait: {target: {apiVersion: v1, kind: ConfigMap, namespace: default, name: operator}, jsonpath: "{.data.state}", equals: ready, timeout: 30}
  - name: it is content yet
    k8s_wait: {target: {apiVersion: v1, kind: ConfigMap, namespace: default, name: operator}, jsonpath: "{.data.name}", equals: operator, timeout: 30}
"#;

/// The operator reports notReady for some seconds when its input changes. The check after the run waits for it as long as
/// the item itself would; an operator that never settles is reported once, not with everything that depends on it.
#[test]
fn an_operator_that_settles_is_no_difference() {
    let lab = Lab::get();
    let says = |state: &str, observed: &str| {
        let text = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "operator", "namespace": "default"},
            "data": {"state": state, "seen": observed, "name": "operator"}});
        lab.api.apply(&text.to_string()).unwrap();
    };
    says("ready", "");
    lab.role("settles", SETTLES);
    let ended = AtomicBool::new(false);
    let apply = |wish: &str| {
        let set = format!("wish={wish}");
        lab.converge(&["apply", "--yes", "hosts.yaml", "--set", &set])
    };
    let operator = |wish: &str, settles: bool| {
        let begun = Instant::now();
        while !ended.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
            if lab.value(&["configmap", "wish"], "/data/wish") == Some(json!(wish)) {
                says("notReady", wish);
                std::thread::sleep(Duration::from_secs(6));
                if settles {
                    says("ready", wish);
                }
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let reported = std::thread::scope(|scope| {
        scope.spawn(|| operator("one", true));
        let reported = apply("one");
        ended.store(true, Ordering::Relaxed);
        reported
    });
    assert!(!reported.expect(0).all().contains("verification failed"));
    ended.store(false, Ordering::Relaxed);
    let reported = std::thread::scope(|scope| {
        scope.spawn(|| operator("two", false));
        let reported = apply("two");
        ended.store(true, Ordering::Relaxed);
        reported
    });
    let reported = reported.expect(1);
    let lines = reported.all().lines().filter(|line| line.contains("not checked")).count();
    assert!(lines <= 2, "one cause, one message (and one in the summary): {}", reported.all());
    says_all(&reported, &["verification failed", "settles/the operator is ready"]);
    lab.kubectl(&["delete", "configmap", "wish", "operator"]);
}

/// As `time_slicing` does it: the content, the policy that points the operator at it, the operator's workload as it then is, and its restart.
const SHARES: &str = r#"
scope: cluster
inputs:
  shares: {type: int}
resources:
  - name: content
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: shares, namespace: default}, data: {shares: "{{ shares | string }}"}}
  - name: policy
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: policy, namespace: default}, data: {of: "shares-{{ shares }}"}}
  - name: the operator has taken it up
    k8s_wait: {namespace: default, target: [daemonset/sharer], jsonpath: "{.spec.template.metadata.labels.of}", equals: "shares-{{ shares }}", timeout: 60}
  - name: the plugin has read it
    k8s_rollout: {namespace: default, target: [daemonset/sharer], restart_on: [content]}
"#;

/// Writes its workload as a whole some time after its policy has changed, and takes it away with the policy: what others have set there goes each time.
fn operator(lab: &Lab, ended: &AtomicBool) {
    let mut written = None;
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(200));
        let wanted = lab.value(&["configmap", "policy"], "/data/of");
        if wanted == written {
            continue;
        }
        std::thread::sleep(Duration::from_millis(1500));
        let done = match &wanted {
            None => lab.api.kubectl(&["delete", "daemonset", "sharer", "--ignore-not-found"]),
            Some(of) => {
                let labels = json!({"app": "sharer", "of": of});
                let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "sharer", "namespace": "default"},
                    "spec": {"selector": {"matchLabels": {"app": "sharer"}}, "template": {"metadata": {"labels": labels},
                    "spec": {"nodeSelector": {"sharer": "yes"}, "containers": [{"name": "c", "image": "lab.local/none:1"}]}}}});
                let verb = if written.is_some() { "replace" } else { "create" };
                lab.api.kubectl_with_input(&[verb, "-f", "-"], &set.to_string())
            }
        };
        if done.is_ok_and(|reply| reply.success()) {
            written = wanted;
        }
    }
}

/// Runs go back one by one and several at once while the operator writes its workload anew behind each of their steps; what is done is done.
#[test]
fn a_rollback_over_several_runs_while_the_operator_works() {
    let lab = Lab::get();
    lab.api.nodes(&NodeSpec::new("sharer", 2).label("sharer", "yes")).unwrap();
    lab.role("sharing", SHARES);
    let set = |verb: &[&str], shares: u32| {
        let set = format!("shares={shares}");
        lab.converge(&[verb, &["hosts.yaml", "--set", &set]].concat())
    };
    let apply = |shares: u32| set(&["apply", "--yes"], shares).expect(0);
    let newest = || {
        let runs = lab.converge(&["snapshots", "hosts.yaml", "--output", "json"]).expect(0).json().unwrap();
        let of_cluster = |host: &&Value| host["runs"].as_array().is_some_and(|runs| !runs.is_empty());
        let cluster = runs["hosts"].as_array().unwrap().iter().find(of_cluster).unwrap();
        cluster["runs"][0]["run"].as_str().unwrap().to_owned()
    };
    let back = |more: &[&str]| lab.converge(&[&["rollback", "--yes", "hosts.yaml"], more].concat());
    let pods = || {
        let list = lab.api.get(&["pods", "-l", "app=sharer"]).unwrap();
        let there = |p: &&Value| p["metadata"]["deletionTimestamp"].is_null();
        let of = |p: &Value| p["metadata"]["labels"]["of"].as_str().unwrap_or_default().to_owned();
        list["items"].as_array().unwrap().iter().filter(there).map(of).collect::<Vec<String>>()
    };
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| operator(&lab, &ended));
        let _end = Ends(&ended);
        for once in [true, false] {
            apply(2);
            set(&["plan"], 2).expect(0).says("nothing to change");
            let first = newest();
            apply(4);
            let second = newest();
            apply(8);
            if once {
                back(&["--to", &second]).expect(0);
                assert_eq!(lab.value(&["configmap", "shares"], "/data/shares"), Some(json!("2")));
                // The operator follows its policy some time later.
                converge_tests::until("the pods of before", 60, || pods() == ["shares-2", "shares-2"]);
                // The pods run with the inputs that are declared again: once they are ready, nothing is restarted once more.
                let mut plan = None;
                converge_tests::until("a plan without a change", 60, || {
                    plan.insert(set(&["plan"], 2)).code == Some(0)
                });
                plan.unwrap().says("nothing to change");
                back(&[]).expect(0);
            } else {
                back(&["--to", &first]).expect(0);
            }
            converge_tests::until("the end of the workload", 30, || {
                lab.api.get(&["daemonset", "sharer"]).is_err()
            });
            for object in ["shares", "policy"] {
                assert!(lab.api.get(&["configmap", object]).is_err(), "{object} is there yet");
            }
            // It is done, and nothing of it is refused when it is asked for once more.
            back(&[]).expect(0).says("no host has a run to roll back");
        }
    });
    lab.kubectl(&["delete", "node", "sharer-1", "sharer-2"]);
}

/// Ends the operator, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
