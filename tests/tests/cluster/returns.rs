//! A rollback of a prune in a cluster where something does not come back: what needs it is refused in the plan, and all else comes.

use crate::{Lab, says_all};
use converge_tests::{Ran, until};

/// A namespace with a map in it, a definition with an object of its kind, and a map that needs neither.
const ALL: &str = r"
scope: cluster
resources:
  - name: place
    namespace: {name: wns}
  - name: definition
    k8s_object:
      apiVersion: apiextensions.k8s.io/v1
      kind: CustomResourceDefinition
      metadata: {name: gads.ret.io}
      spec:
        group: ret.io
        scope: Namespaced
        names: {plural: gads, singular: gad, kind: Gad}
        versions:
          - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - name: inside
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: inside, namespace: wns}, data: {v: '1'}}
  - name: gad
    k8s_object: {apiVersion: ret.io/v1, kind: Gad, metadata: {name: g1, namespace: default}, spec: {size: 1}}
  - name: alone
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: alone, namespace: default}, data: {v: '1'}}
";

const NOTHING: &str = "scope: cluster\nresources:\n  - name: it is there\n    k8s_query: {kind: Node}\n";

const PLACE: &str = "k8s:v1/Namespace/wns";
const DEFINITION: &str = "k8s:apiextensions.k8s.io/v1/CustomResourceDefinition/gads.ret.io";
const ALLOWED: [&str; 4] = ["--allow-destroy", PLACE, "--allow-destroy", DEFINITION];

/// Made, and taken away by a prune.
fn pruned(lab: &Lab) {
    lab.role("objs", ALL);
    lab.apply().expect(0);
    lab.role("objs", NOTHING);
    lab.converge(&[&["apply", "--yes", "--prune=5", "hosts.yaml"], &ALLOWED[..]].concat()).expect(0);
    assert_eq!(there(lab), [false; 5]);
}

/// Repeated, the rollback of the prune is complete. The next one takes all away again.
fn the_rest_comes_back(lab: &Lab) {
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(there(lab), [true; 5]);
    lab.converge(&[&["rollback", "--yes", "hosts.yaml"], &ALLOWED[..]].concat()).expect(0);
}

/// The namespace, the definition, what is on them, and the map beside them.
fn there(lab: &Lab) -> [bool; 5] {
    let is = |object: &[&str]| lab.api.get(object).is_ok();
    [
        is(&["namespace", "wns"]),
        is(&["crd", "gads.ret.io"]),
        is(&["configmap", "-n", "wns", "inside"]),
        is(&["gads.ret.io", "g1"]),
        is(&["configmap", "alone"]),
    ]
}

/// A policy that lets nobody create this object; it counts when this returns.
fn deny(lab: &Lab, group: &str, resource: &str, name: &str) {
    let policy = format!(
        r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: returns-{resource}}}
spec:
  matchConstraints:
    resourceRules: [{{apiGroups: ["{group}"], apiVersions: [v1], resources: [{resource}], operations: [CREATE]}}]
  validations: [{{expression: "object.metadata.name != '{name}' && object.metadata.name != 'probe-{resource}.ret.io'", message: nobody makes it}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: returns-{resource}}}
spec: {{policyName: returns-{resource}, validationActions: [Deny]}}
"#
    );
    lab.api.apply(&policy).unwrap();
}

fn allow(lab: &Lab, resource: &str) {
    let name = format!("returns-{resource}");
    lab.kubectl(&["delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", &name]);
}

/// Waits until the plan of the rollback says the policy's message, or does so no more.
fn until_denied(lab: &Lab, denied: bool) -> Ran {
    let mut plan = None;
    until("the policy", 30, || {
        let ran = lab.converge(&["rollback", "hosts.yaml"]);
        let says = ran.all().contains("nobody makes it");
        plan = Some(ran);
        says == denied
    });
    plan.unwrap()
}

#[test]
fn what_needs_a_refused_namespace_is_refused_and_all_else_comes_back() {
    let lab = Lab::get();
    pruned(&lab);
    deny(&lab, "", "namespaces", "wns");
    let plan = until_denied(&lab, true);
    says_all(&plan, &["3 to change", "2 refused", "its namespace wns does not come back"]);
    // Each reason is said once.
    assert_eq!(plan.all().matches("nobody makes it").count(), 1, "{}", plan.all());
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(4);
    assert!(!back.all().contains("not found") && !back.all().contains("skipped"), "{}", back.all());
    assert_eq!(there(&lab), [false, true, false, true, true]);
    allow(&lab, "namespaces");
    until_denied(&lab, false);
    the_rest_comes_back(&lab);
}

#[test]
fn what_needs_a_refused_definition_is_refused_and_all_else_comes_back() {
    let lab = Lab::get();
    pruned(&lab);
    deny(&lab, "apiextensions.k8s.io", "customresourcedefinitions", "gads.ret.io");
    let plan = until_denied(&lab, true);
    says_all(&plan, &["3 to change", "2 refused", "the definition of its kind does not come back"]);
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(4);
    assert!(!back.all().contains("skipped"), "{}", back.all());
    assert_eq!(there(&lab), [true, false, true, false, true]);
    allow(&lab, "customresourcedefinitions");
    until_denied(&lab, false);
    the_rest_comes_back(&lab);
}

/// An object that is denied in a namespace that comes back is known only then: it fails by itself, and holds back nothing that does not need it.
#[test]
fn what_fails_in_a_rollback_keeps_only_what_needs_it() {
    let lab = Lab::get();
    pruned(&lab);
    deny(&lab, "", "configmaps", "inside");
    let probe = ["create", "configmap", "inside", "--dry-run=server"];
    until("the policy", 30, || lab.api.kubectl(&probe).is_ok_and(|reply| !reply.success()));
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(1);
    says_all(&back, &["nobody makes it", "1 failed"]);
    assert!(!back.all().contains("skipped"), "{}", back.all());
    assert_eq!(there(&lab), [true, true, false, true, true]);
    allow(&lab, "configmaps");
    until("its end", 30, || lab.api.kubectl(&probe).is_ok_and(|reply| reply.success()));
    the_rest_comes_back(&lab);
}

/// The way out that a refusal names leads to the state that was wanted, however often the rollback was repeated meanwhile.
#[test]
fn the_remedy_for_a_missing_namespace_is_not_one_run_too_far() {
    let lab = Lab::get();
    let role = |value: &str| {
        lab.role(
            "objs",
            &ALL.replace("namespace: {name: wns}", "k8s_query: {kind: Node}")
                .replace("v: '1'", &format!("v: '{value}'")),
        )
    };
    let one = |lab: &Lab, name: &[&str]| lab.value(name, "/data/v");
    lab.kubectl(&["create", "namespace", "wns"]);
    let alone = || one(&lab, &["configmap", "alone"]);
    role("0");
    lab.apply().expect(0);
    lab.role("objs", &format!("{}{}", NOTHING, "  - name: alone\n    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: alone, namespace: default}, data: {v: '0'}}\n"));
    lab.converge(&["apply", "--yes", "--prune=3", "--allow-destroy", DEFINITION, "hosts.yaml"]).expect(0);
    lab.kubectl(&["delete", "namespace", "wns"]);
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(4);
    let reply = back.all();
    let remedy =
        reply.split("`converge rollback --to ").nth(1).unwrap_or_else(|| panic!("no remedy\n{reply}"));
    let run = remedy.split('`').next().unwrap();
    // Repeated first: it goes one run further.
    lab.converge(&["rollback", "--yes", "hosts.yaml", "--allow-destroy", DEFINITION]);
    lab.kubectl(&["create", "namespace", "wns"]);
    lab.converge(&["rollback", "--yes", "hosts.yaml", "--to", run]).expect(0);
    assert_eq!(there(&lab), [true; 5]);
    assert_eq!(alone(), Some(serde_json::json!("0")));
    lab.kubectl(&["delete", "namespace", "wns"]);
    lab.kubectl(&["delete", "crd", "gads.ret.io"]);
    lab.kubectl(&["delete", "configmap", "alone"]);
}
