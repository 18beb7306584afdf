//! A rollback in a cluster knows before what it cannot do, and reverts the rest.

use crate::{Lab, says_all};
use converge_tests::until;
use serde_json::json;

/// A policy that lets nobody change the ConfigMap c2.
const FROZEN: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: frozen}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [UPDATE]}]
  validations: [{expression: "object.metadata.name != 'c2'", message: it is frozen}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: frozen}
spec: {policyName: frozen, validationActions: [Deny]}
"#;

#[test]
fn an_object_that_a_policy_has_frozen_keeps_the_others_from_nothing() {
    let lab = Lab::get();
    let role = |value: u8| {
        let one = |name: &str| {
            format!(
                "  - name: {name}\n    k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: default}}, data: {{v: '{value}'}}}}\n"
            )
        };
        lab.role("objs", &format!("scope: cluster\nresources:\n{}", ["c1", "c2", "c3"].map(one).concat()));
        lab.apply().expect(0);
    };
    role(1);
    role(2);
    lab.api.apply(FROZEN).unwrap();
    let denied = || {
        lab.api
            .kubectl(&["label", "configmap", "c2", "--dry-run=server", "x=1"])
            .is_ok_and(|reply| !reply.success())
    };
    until("the policy", 30, denied);
    let rollback = |code: i32| lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(code);
    let values = || ["c1", "c2", "c3"].map(|name| lab.value(&["configmap", name], "/data/v"));
    says_all(&rollback(4), &["the API server would refuse it", "it is frozen"]);
    assert_eq!(values(), [Some(json!("1")), Some(json!("2")), Some(json!("1"))]);
    lab.kubectl(&["delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "frozen"]);
    until("its end", 30, || !denied());
    rollback(0);
    assert_eq!(values(), ["1"; 3].map(|value| Some(json!(value))));
    lab.kubectl(&["delete", "configmap", "c1", "c2", "c3"]);
}

/// Without age recipients the previous value of a Secret is not kept. The Secret is not somebody else's for that: the rollback of the run that made it takes it away.
#[test]
fn a_secret_whose_value_was_not_kept_goes_with_the_run_that_made_it() {
    let lab = Lab::get();
    let role = |value: &str| {
        let text = format!(
            "scope: cluster\nresources:\n  - k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: sx, namespace: default}}, data: {{v: {value}}}}}\n  - secret: {{name: sx, namespace: default, data: {{p: {value}}}}}\n"
        );
        lab.role("kept", &text);
        lab.apply().expect(0);
    };
    role("six");
    role("one");
    let map = || lab.value(&["configmap", "sx"], "/data/v");
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(1);
    says_all(&back, &["cannot be undone", "age recipients"]);
    assert_eq!(map(), Some(json!("six")));
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert!(map().is_none() && lab.api.get(&["secret", "sx"]).is_err());
}

/// A namespace and a definition of a kind, each with an object on it.
const PLACES: &str = r"
  - name: a place
    namespace: {name: xns}
  - name: a definition
    k8s_object:
      apiVersion: apiextensions.k8s.io/v1
      kind: CustomResourceDefinition
      metadata: {name: widgets.ex.io}
      spec:
        group: ex.io
        scope: Namespaced
        names: {plural: widgets, singular: widget, kind: Widget}
        versions:
          - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - name: a map there
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: xc, namespace: xns}, data: {a: '1'}}
  - name: a widget
    k8s_object: {apiVersion: ex.io/v1, kind: Widget, metadata: {name: w1, namespace: default}, spec: {size: 1}}
";

#[test]
fn a_namespace_and_a_definition_come_back_before_what_stands_on_them() {
    let lab = Lab::get();
    let role = |value: u8, more: &str, args: &[&str]| {
        let own = format!(
            "scope: cluster\nresources:\n  - name: own\n    k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: xo, namespace: default}}, data: {{v: '{value}'}}}}\n"
        );
        lab.role("places", &format!("{own}{more}"));
        lab.converge(&[&["apply", "--yes", "hosts.yaml"], args].concat()).expect(0);
    };
    let (place, kind) =
        ("k8s:v1/Namespace/xns", "k8s:apiextensions.k8s.io/v1/CustomResourceDefinition/widgets.ex.io");
    role(1, PLACES, &[]);
    role(2, PLACES, &[]);
    role(2, "", &["--prune=4", "--allow-destroy", place, "--allow-destroy", kind]);
    let map = || lab.value(&["configmap", "-n", "xns", "xc"], "/data/a");
    let widget = || lab.value(&["widget", "w1"], "/spec/size");
    let own = || lab.value(&["configmap", "xo"], "/data/v");
    assert!(lab.api.get(&["namespace", "xns"]).is_err() && lab.api.get(&["crd", "widgets.ex.io"]).is_err());
    says_all(
        &lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0),
        &["create namespace xns", "it comes back empty", "it comes back alone"],
    );
    assert_eq!((map(), widget()), (Some(json!("1")), Some(json!(1))));
    // Older runs are in reach.
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(own(), Some(json!("1")));

    // A namespace and a kind that somebody else has taken away: what stood on them is refused, the rest goes back.
    let few: String = PLACES.split("  - name: a map there").next().unwrap().to_owned();
    role(3, &few, &["--prune=2"]);
    lab.kubectl(&["delete", "namespace", "xns"]);
    lab.kubectl(&["delete", "crd", "widgets.ex.io"]);
    let plan = lab.converge(&["rollback", "hosts.yaml"]);
    says_all(&plan, &["its namespace xns is not there", "has no kind ex.io/v1 Widget", "1 to change"]);
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(4);
    assert!(!back.all().contains("not found"), "{}", back.all());
    assert_eq!(own(), Some(json!("1")));
    lab.kubectl(&["delete", "configmap", "xo"]);
}

/// An object that the role still declares is not destroyed with the namespace, or the definition of its kind, that it has no more.
#[test]
fn what_is_declared_keeps_its_namespace_and_its_definition_from_a_prune() {
    let lab = Lab::get();
    let (_, inside) = PLACES.split_once("  - name: a map there").unwrap();
    let inside = format!("  - name: a map there{inside}");
    let role = |text: &str| lab.role("places", &format!("scope: cluster\nresources:\n{text}"));
    role(PLACES);
    lab.apply().expect(0);
    role(&inside);
    let ids = ["k8s:v1/Namespace/xns", "k8s:apiextensions.k8s.io/v1/CustomResourceDefinition/widgets.ex.io"];
    let allowed = ["--allow-destroy", ids[0], "--allow-destroy", ids[1]];
    let prune = |args: &[&str]| lab.converge(&[args, &["hosts.yaml"], &allowed[..]].concat());
    let declared =
        ["configmap xns/xc, declared in the same plan", "widget default/w1, declared in the same plan"];
    says_all(&prune(&["plan", "--prune"]), &declared);
    says_all(&prune(&["apply", "--yes", "--prune=2"]).expect(4), &declared);
    lab.plan().expect(0);
    // Without them both go.
    role("  - name: it is there\n    k8s_query: {kind: Node}\n");
    prune(&["apply", "--yes", "--prune=4"]).expect(0);
    assert!(lab.api.get(&["namespace", "xns"]).is_err() && lab.api.get(&["crd", "widgets.ex.io"]).is_err());
}

/// The fields of a Secret that somebody has taken are named, with the manager; its values are not.
#[test]
fn a_secret_that_somebody_has_edited_is_reported_with_field_and_manager() {
    let lab = Lab::get();
    let role = |value: &str, more: &str| {
        let text = format!(
            "scope: cluster\nresources:\n  - secret: {{name: sx, namespace: default, data: {{p: {value}, q: two}}{more}}}\n"
        );
        lab.role("sec", &text);
    };
    role("one", "");
    lab.apply().expect(0);
    lab.kubectl(&["patch", "secret", "sx", "-p", r#"{"stringData":{"p":"HAND"}}"#]);
    for command in [&["plan"][..], &["drift"], &["apply", "--yes"]] {
        let ran = lab.converge(&[command, &["hosts.yaml"]].concat()).expect(1);
        says_all(&ran, &[".data.p belongs to `kubectl-patch`", "force_conflicts: true"]);
        assert!(!ran.all().contains("HAND") && !ran.all().contains("SEFORA"), "{}", ran.all());
    }
    // A rollback says it too.
    let ran = lab.converge(&["rollback", "--yes", "hosts.yaml"]);
    says_all(&ran, &[".data.p"]);
    role("one", ", force_conflicts: true");
    lab.apply().expect(0);
    role("six", ", force_conflicts: true");
    lab.apply().expect(0);
    lab.kubectl(&["patch", "secret", "sx", "-p", r#"{"stringData":{"p":"HAND"}}"#]);
    let ran = lab.converge(&["rollback", "--yes", "hosts.yaml"]);
    says_all(&ran, &["changed by someone else since (.data.p by `kubectl-patch`)"]);
    assert!(!ran.all().contains("HAND") && !ran.all().contains("SEFORA"), "{}", ran.all());
    lab.kubectl(&["delete", "secret", "sx"]);
}

/// A policy that lets nobody delete the ConfigMap d2, and a webhook that must be asked of d3 and does not answer.
const HELD: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: held}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [DELETE]}]
  validations: [{expression: "oldObject.metadata.name != 'd2'", message: nobody deletes it}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: held}
spec: {policyName: held, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: held}
webhooks:
  - name: held.example.com
    clientConfig: {url: "https://127.0.0.1:9/held"}
    rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [DELETE]}]
    matchConditions: [{name: d3, expression: "oldObject.metadata.name == 'd3'"}]
    failurePolicy: Fail
    sideEffects: None
    timeoutSeconds: 2
    admissionReviewVersions: [v1]
"#;

#[test]
fn a_deletion_that_a_policy_denies_is_known_in_the_plan() {
    let lab = Lab::get();
    let one = |name: &str| {
        format!(
            "  - name: {name}\n    k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: default}}, data: {{v: '1'}}}}\n"
        )
    };
    let role = |text: &str| lab.role("held", &format!("scope: cluster\nresources:\n{text}"));
    role(&["d1", "d2", "d3"].map(one).concat());
    lab.apply().expect(0);
    lab.api.apply(HELD).unwrap();
    let denied = |name: &str| {
        lab.api
            .kubectl(&["delete", "configmap", name, "--dry-run=server"])
            .is_ok_and(|reply| !reply.success())
    };
    until("the policy and the webhook", 30, || denied("d2") && denied("d3"));
    let back = lab.converge(&["rollback", "hosts.yaml"]);
    says_all(
        &back,
        &["the API server would refuse it", "nobody deletes it", "failed calling webhook", "1 to change"],
    );
    role("  - name: it is there\n    k8s_query: {kind: Node}\n");
    let plan = lab.converge(&["plan", "--prune", "hosts.yaml"]);
    says_all(
        &plan,
        &["the API server would refuse it", "nobody deletes it", "failed calling webhook", "1 to change"],
    );
    lab.converge(&["apply", "--yes", "--prune=1", "hosts.yaml"]).expect(4);
    let there = || ["d1", "d2", "d3"].map(|name| lab.api.get(&["configmap", name]).is_ok());
    assert_eq!(there(), [false, true, true]);
    lab.kubectl(&["delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "held"]);
    lab.kubectl(&["delete", "validatingwebhookconfiguration", "held"]);
    until("their end", 30, || !denied("d2") && !denied("d3"));
    lab.converge(&["apply", "--yes", "--prune=2", "hosts.yaml"]).expect(0);
    assert_eq!(there(), [false; 3]);
}

/// A plan refuses to delete what is others' too, as the apply would, and changes the rest.
#[test]
fn an_object_of_others_that_a_role_wants_absent_is_refused_in_the_plan() {
    let lab = Lab::get();
    let absent = |kind: &str, name: &str| {
        let place = if kind == "Namespace" { "" } else { ", namespace: default" };
        format!(
            "  - name: {kind} {name} goes\n    k8s_object: {{apiVersion: v1, kind: {kind}, metadata: {{name: {name}{place}}}, state: absent}}\n"
        )
    };
    let made = |value: u8| {
        format!(
            "  - name: own\n    k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: own, namespace: default}}, data: {{v: '{value}'}}}}\n"
        )
    };
    let role = |text: &str| lab.role("gone", &format!("scope: cluster\nresources:\n{text}"));
    let there = || ["configmap/theirs", "namespace/theirs"].map(|name| lab.api.get(&[name]).is_ok());
    lab.kubectl(&["create", "configmap", "theirs", "--from-literal=a=1"]);
    lab.kubectl(&["create", "namespace", "theirs"]);
    role(&[made(1), absent("ConfigMap", "theirs"), absent("Namespace", "theirs")].concat());
    let ids = ["k8s:v1/ConfigMap/default/theirs", "k8s:v1/Namespace/theirs"];
    let asks = ids.map(|id| format!("`--allow-destroy {id}` allows it"));
    let reply = [
        &["fields of it belong to kubectl-create", "all that is in the namespace", "1 to change"][..],
        &asks.each_ref().map(String::as_str),
    ]
    .concat();
    says_all(&lab.plan(), &reply);
    says_all(&lab.apply().expect(4), &reply[..2]);
    assert_eq!((there(), lab.value(&["configmap", "own"], "/data/v")), ([true; 2], Some(json!("1"))));
    let allowed = ["hosts.yaml", "--allow-destroy", ids[0], "--allow-destroy", ids[1]];
    says_all(&lab.converge(&[&["plan"][..], &allowed].concat()).expect(2), &["2 to change"]);
    lab.converge(&[&["apply", "--yes"][..], &allowed].concat()).expect(0);
    assert_eq!(there(), [false; 2]);
    lab.plan().expect(0);
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(lab.value(&["configmap", "theirs"], "/data"), Some(json!({"a": "1"})));
    // An object that the project alone has made goes without a word.
    role(&absent("ConfigMap", "own"));
    lab.apply().expect(0);
    assert!(lab.api.get(&["configmap", "own"]).is_err());
    lab.kubectl(&["delete", "configmap", "theirs"]);
    lab.kubectl(&["delete", "namespace", "theirs"]);
}

/// A policy that sets a label on this map.
const LABELS: &str = r#"
  - name: policy
    k8s_object:
      apiVersion: admissionregistration.k8s.io/v1
      kind: MutatingAdmissionPolicy
      metadata: {name: sets-label}
      spec:
        matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}
        matchConditions: [{name: this, expression: "object.metadata.name == 'labelled'"}]
        failurePolicy: Fail
        reinvocationPolicy: Never
        mutations:
          - patchType: ApplyConfiguration
            applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'mut': 'yes'}}}"}
  - name: binding
    k8s_object:
      apiVersion: admissionregistration.k8s.io/v1
      kind: MutatingAdmissionPolicyBinding
      metadata: {name: sets-label}
      spec: {policyName: sets-label}
"#;

/// A label that a policy sets in every write stays, and keeps neither the other fields nor older runs from going back.
#[test]
fn what_a_policy_sets_anew_stays_and_holds_up_no_rollback() {
    let lab = Lab::get();
    let role = |value: u8| {
        let map = format!(
            "scope: cluster\nresources:\n  - name: map\n    k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: labelled, namespace: default}}, data: {{v: '{value}'}}}}\n"
        );
        lab.role("labels", &format!("{map}{LABELS}"));
    };
    let map = |pointer: &str| lab.value(&["configmap", "labelled"], pointer);
    let with_the_policy = || {
        role(1);
        // Where the server takes up the policy before the verification ends, the map is not as declared any more.
        let ran = lab.apply();
        let is_seen = |text: &str| ran.all().contains(text);
        assert!(ran.code == Some(0) || is_seen("mut:") || is_seen("differs from the plan"), "{}", ran.all());
        until("the policy", 60, || lab.plan().all().contains("mut:"));
    };
    with_the_policy();
    lab.apply().expect(0);
    assert_eq!(map("/metadata/labels/mut"), Some(json!("yes")));
    let plan = lab.converge(&["rollback", "hosts.yaml"]);
    says_all(
        &plan,
        &[
            "passed over",
            ".metadata.labels.mut: a policy or webhook of the API server sets this again in the same request",
        ],
    );
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert!(map("/metadata").is_none());
    assert!(lab.api.get(&["mutatingadmissionpolicy", "sets-label"]).is_err());

    // The server forgets a policy a moment after it is gone: until then it labels the map when that is made.
    until("the end of the policy", 60, || {
        let dry = ["create", "configmap", "labelled", "--dry-run=server", "--output", "json"];
        !lab.api.kubectl(&dry).unwrap().stdout.contains("\"mut\"")
    });
    // Beside a field that goes back.
    with_the_policy();
    role(2);
    lab.apply().expect(0);
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    says_all(
        &back,
        &[".metadata.labels.mut: a policy or webhook of the API server sets this again in the same request"],
    );
    assert_eq!((map("/data/v"), map("/metadata/labels/mut")), (Some(json!("1")), Some(json!("yes"))));
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert!(map("/metadata").is_none());
}
