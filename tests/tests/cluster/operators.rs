//! Operators that settle after a run, and nodes that never do what they were released for.

use crate::{Lab, says_all};
use converge_lab::kube::NodeSpec;
use serde_json::json;
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
        let told = lab.apply().expect(1);
        says_all(&told, &["batches/a batch[0]", "allocatable nvidia.com/gpu"]);
        assert_eq!((released("batch-1"), released("batch-2")), (Some(json!("true")), None), "{}", told.all());
    }
    lab.plan().expect(2);
    lab.api.set_gpus(&["batch-1", "batch-2"], 8, 8).unwrap();
    lab.apply().expect(0);
    assert_eq!(released("batch-2"), Some(json!("true")));
    lab.plan().expect(0).says("nothing to change");
    lab.kubectl(&["delete", "node", "batch-1", "batch-2"]);
}

/// What the operator says is asked before the change that unsettles it.
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

/// The operator says notReady for some seconds when its input changes. The look after the run waits for it as long as the item itself would; one that
/// never settles is told once, not with everything that stands behind it.
#[test]
fn an_operator_that_settles_is_no_difference() {
    let lab = Lab::get();
    let says = |state: &str, seen: &str| {
        let text = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "operator", "namespace": "default"},
            "data": {"state": state, "seen": seen, "name": "operator"}});
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
    let told = std::thread::scope(|scope| {
        scope.spawn(|| operator("one", true));
        let told = apply("one");
        ended.store(true, Ordering::Relaxed);
        told
    });
    assert!(!told.expect(0).all().contains("not as planned"));
    ended.store(false, Ordering::Relaxed);
    let told = std::thread::scope(|scope| {
        scope.spawn(|| operator("two", false));
        let told = apply("two");
        ended.store(true, Ordering::Relaxed);
        told
    });
    let told = told.expect(1);
    let lines = told.all().lines().filter(|line| line.contains("not checked")).count();
    assert!(lines <= 2, "one cause, one message (and one in the summary): {}", told.all());
    says_all(&told, &["not as planned", "settles/the operator is ready"]);
    lab.kubectl(&["delete", "configmap", "wish", "operator"]);
}
