//! Parts of objects that no role declares any more, while the object itself is still declared.

use crate::{Lab, says_all};
use converge_lab::kube::NodeSpec;
use converge_tests::Ran;
use serde_json::{Value, json};

/// Two roles, one of which has objects that the other one edits.
const BASE: &str = r#"
scope: cluster
resources:
  - name: plugin
    k8s_object:
      apiVersion: apps/v1
      kind: DaemonSet
      metadata: {name: parts, namespace: default}
      spec:
        selector: {matchLabels: {app: parts}}
        template:
          metadata: {labels: {app: parts}}
          spec:
            nodeSelector: {parts: nowhere}
            containers: [{name: main, image: example.com/parts}]
  - name: label of the node
    node: {name: NODE, labels: {base: "1"}}
"#;

/// A volume, a variable, labels, an annotation, a taint, and keys of a ConfigMap that somebody else has made.
const EXTRA: &str = r#"
scope: cluster
requires: [parts_base]
inputs:
  more: {type: bool, default: true}
resources:
  - name: the plugin reads them
    when: more
    k8s_patch:
      target: {apiVersion: apps/v1, kind: DaemonSet, namespace: default, name: parts}
      set:
        /spec/template/spec/volumes/[name=v]: {name: v, configMap: {name: v}}
        /spec/template/spec/containers/[name=main]/env/[name=CONFIG_FILE]: {name: CONFIG_FILE, value: /v/any}
        /spec/template/spec/containers/[name=main]/volumeMounts/[mountPath=~1v]: {name: v, mountPath: /v}
  - name: marks of the node
    when: more
    node:
      name: NODE
      labels: {extra: "1", moved: "1", theirs: ours}
      annotations: {example.com/extra: "1"}
      taints: [{key: extra, value: "1", effect: PreferNoSchedule}]
  - name: keys that somebody else made
    when: more
    k8s_patch:
      target: {apiVersion: v1, kind: ConfigMap, namespace: default, name: parts}
      set: {/data/old: ours, /data/new: ours}
      unset: [/data/gone]
  - name: another key
    k8s_patch:
      target: {apiVersion: v1, kind: ConfigMap, namespace: default, name: parts}
      set: {/data/stays: ours}
"#;

struct Parts<'l> {
    lab: &'l Lab,
    node: String,
}

impl Parts<'_> {
    fn new(lab: &Lab) -> Parts<'_> {
        let node = lab.api.nodes(&NodeSpec::new("parts", 1)).unwrap().remove(0);
        lab.kubectl(&[
            "create",
            "configmap",
            "parts",
            "-n",
            "default",
            "--from-literal=old=1",
            "--from-literal=gone=1",
        ]);
        lab.kubectl(&["label", "node", &node, "theirs=before"]);
        let parts = Parts { lab, node };
        lab.role("parts_base", &BASE.replace("NODE", &parts.node));
        parts.extra(EXTRA);
        lab.world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [parts_base, parts_extra]\n").unwrap();
        parts
    }

    fn extra(&self, text: &str) {
        self.lab.world.write("roles/parts_extra/role.yaml", &text.replace("NODE", &self.node)).unwrap();
    }

    /// The second role with this patch alone, of the object of the test.
    fn patch(&self, kind: &str, set: &str) {
        let target = format!("target: {{{kind}, namespace: default, name: parts}}");
        self.extra(&format!(
            "scope: cluster\nrequires: [parts_base]\nresources:\n  - name: a patch\n    k8s_patch: {{{target}, set: {{{set}}}}}\n"
        ));
    }

    fn converge(&self, command: &str, more: &[&str]) -> Ran {
        let args: Vec<&str> = [command, "hosts.yaml"].iter().chain(more).copied().collect();
        self.lab.converge(&args)
    }

    fn of_node(&self, pointer: &str) -> Option<Value> {
        self.lab.value(&["node", &self.node], pointer)
    }

    fn data(&self) -> Value {
        self.lab.value(&["configmap", "-n", "default", "parts"], "/data").unwrap()
    }

    fn of_plugin(&self, pointer: &str) -> Option<Value> {
        self.lab.value(&["daemonset", "-n", "default", "parts"], &format!("/spec/template/spec/{pointer}"))
    }

    fn taints(&self) -> String {
        self.of_node("/spec/taints").unwrap_or_default().to_string()
    }

    fn end(self) {
        self.lab.kubectl(&["delete", "daemonset,configmap", "parts", "-n", "default"]);
        self.lab.kubectl(&["delete", "node", &self.node]);
    }
}

/// A plan without a change and without a word of orphans.
#[track_caller]
fn is_empty(plan: &Ran) {
    assert!(plan.all().contains("nothing to change") && !plan.all().contains("orphaned"), "{}", plan.all());
}

/// `more=false` drops them: they are named, taken back field by field by a prune, and given back by its rollback.
#[test]
fn parts_that_no_role_declares_any_more_go_with_a_prune() {
    let lab = Lab::get();
    let parts = Parts::new(&lab);
    parts.converge("apply", &["--yes"]).expect(0);
    assert_eq!(parts.data(), json!({"old": "ours", "new": "ours", "stays": "ours"}));
    let with_all = parts.of_plugin("containers").unwrap();
    assert!(with_all.to_string().contains("CONFIG_FILE"), "{with_all}");
    is_empty(&parts.converge("plan", &[]).expect(0));
    // Somebody changes one label, and another manager comes to own a field too.
    lab.kubectl(&["label", "node", &parts.node, "moved=2", "--overwrite"]);

    let fewer = EXTRA.replace("more: {type: bool, default: true}", "more: {type: bool, default: false}");
    parts.extra(&fewer);
    let plan = parts.converge("plan", &[]).expect(0);
    let on_node = format!("of node {}", parts.node);
    says_all(
        &plan,
        &[
            "orphaned",
            "labels extra, theirs",
            "annotation example.com/extra",
            "taint extra",
            &on_node,
            "keys gone, new, old of configmap default/parts",
            "of daemonset default/parts",
            "env[name=CONFIG_FILE]",
            "volumeMounts[mountPath=/v]",
            ".metadata.labels.moved was changed by",
        ],
    );
    assert_eq!(parts.of_node("/metadata/labels/extra"), Some(json!("1")), "planning changes nothing");
    // Without --prune an apply leaves them.
    parts.converge("apply", &["--yes"]).expect(0);
    assert_eq!(parts.of_node("/metadata/labels/extra"), Some(json!("1")));

    let prune = parts.converge("apply", &["--yes", "--prune=3"]).expect(0);
    let of = |name: &str| parts.of_node(&format!("/metadata/labels/{name}"));
    assert_eq!(
        (of("extra"), of("theirs"), of("moved"), of("base")),
        (None, Some(json!("before")), Some(json!("2")), Some(json!("1"))),
        "{}",
        prune.all()
    );
    assert_eq!(parts.of_node("/metadata/annotations/example.com~1extra"), None);
    assert!(!parts.taints().contains("extra"), "{}", parts.taints());
    assert_eq!(parts.data(), json!({"old": "1", "gone": "1", "stays": "ours"}));
    assert_eq!(
        (
            parts.of_plugin("volumes"),
            parts.of_plugin("containers/0/env"),
            parts.of_plugin("containers/0/volumeMounts")
        ),
        (None, None, None)
    );

    // The label that somebody has changed is left.
    let plan = parts.converge("plan", &[]).expect(0);
    says_all(&plan, &["nothing to change", "label moved"]);
    assert!(!plan.all().contains("CONFIG_FILE") && !plan.all().contains("labels extra"), "{}", plan.all());
    parts.converge("drift", &[]).expect(0);
    let state = lab.converge(&["state", "list", "hosts.yaml"]).expect(0);
    says_all(&state, &["v1/Node", "apps/v1/DaemonSet", "v1/ConfigMap"]);

    // The rollback of the prune brings them back, and they are orphaned again.
    parts.converge("rollback", &["--yes"]).expect(0);
    assert_eq!(parts.of_plugin("containers").unwrap(), with_all);
    assert_eq!((of("extra"), of("theirs")), (Some(json!("1")), Some(json!("ours"))));
    assert_eq!(parts.data(), json!({"old": "ours", "new": "ours", "stays": "ours"}));
    assert!(parts.taints().contains("extra"), "{}", parts.taints());
    says_all(&parts.converge("plan", &[]).expect(0), &["labels extra, theirs", "CONFIG_FILE"]);
    // Declared again, they are the role's as before, and their previous values are still known.
    parts.extra(EXTRA);
    parts.converge("apply", &["--yes"]).expect(0);
    parts.extra(&fewer);
    parts.converge("apply", &["--yes", "--prune=3"]).expect(0);
    assert_eq!((of("extra"), of("theirs")), (None, Some(json!("before"))));
    assert_eq!(parts.data(), json!({"old": "1", "gone": "1", "stays": "ours"}));
    is_empty(&parts.converge("plan", &[]).expect(0));
    parts.end();
}

/// A container that a patch has added, and that somebody has extended: without its image the server would refuse it.
#[test]
fn an_item_of_a_list_that_somebody_has_extended_is_left_by_a_prune() {
    let lab = Lab::get();
    let parts = Parts::new(&lab);
    let with = |set: &str| parts.patch("apiVersion: apps/v1, kind: DaemonSet", set);
    let main = "'/spec/template/spec/containers/[name=main]/workingDir': /tmp";
    let side = "'/spec/template/spec/containers/[name=side]': {name: side, image: example.com/side}";
    with(&format!("{main}, {side}"));
    parts.converge("apply", &["--yes"]).expect(0);
    let more =
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","env":[{"name":"E","value":"1"}]}]}}}}"#;
    lab.kubectl(&["patch", "daemonset", "parts", "-n", "default", "-p", more, "--field-manager", "somebody"]);
    let extended = parts.of_plugin("containers").unwrap();
    with(main);
    let plan = parts.converge("plan", &["--prune"]).expect(0);
    says_all(&plan, &["containers[name=side] was extended by `somebody`"]);
    parts.converge("apply", &["--yes", "--prune"]).expect(0);
    assert_eq!(parts.of_plugin("containers").unwrap(), extended);
    // Without that extension it goes.
    let less = r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","env":null}]}}}}"#;
    lab.kubectl(&["patch", "daemonset", "parts", "-n", "default", "-p", less, "--field-manager", "somebody"]);
    parts.converge("apply", &["--yes", "--prune=1"]).expect(0);
    assert!(!parts.of_plugin("containers").unwrap().to_string().contains("side"));
    parts.end();
}

/// A prune gives up the fields that another manager has too, and says nothing of them from then on.
#[test]
fn a_part_that_another_manager_has_too_is_given_up_once() {
    let lab = Lab::get();
    let parts = Parts::new(&lab);
    let with = |set: &str| parts.patch("apiVersion: v1, kind: ConfigMap", set);
    with("/data/both: x, /data/stays: x");
    parts.converge("apply", &["--yes"]).expect(0);
    for value in ["y", "x"] {
        let patch = json!({"data": {"both": value}}).to_string();
        let args =
            ["patch", "configmap", "parts", "-n", "default", "-p", &patch, "--field-manager", "somebody"];
        lab.kubectl(&args);
    }
    with("/data/stays: x");
    says_all(&parts.converge("plan", &[]).expect(0), &["orphaned", "key both of configmap default/parts"]);
    parts.converge("apply", &["--yes", "--prune"]).expect(0);
    assert_eq!(parts.data()["both"], json!("x"));
    is_empty(&parts.converge("plan", &[]).expect(0));
    parts.end();
}
