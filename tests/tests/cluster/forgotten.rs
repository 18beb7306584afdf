//! `state forget` leaves the objects of a cluster as they are, and the project in nobody's way.

use crate::{Lab, says_all};
use converge_tests::Ran;
use serde_json::{Value, json};

/// Runs a command of a project, whose only role has this map, or none.
fn of(lab: &Lab, project: &str, map: Option<&str>, args: &[&str]) -> Ran {
    let item = map.map_or("  - name: it is there\n    k8s_query: {kind: Node}\n".to_owned(), |map| {
        format!("  - name: map\n    k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: left, namespace: default}}, {map}}}\n")
    });
    lab.role("left", &format!("scope: cluster\nresources:\n{item}"));
    let inventory = lab.world.inventory(&format!("converge_project: {project}"));
    lab.world.write("left.yaml", &inventory).unwrap();
    lab.converge(&[args, &["left.yaml"]].concat())
}

fn forget(lab: &Lab, project: &str) -> Ran {
    let inventory = lab.world.inventory(&format!("converge_project: {project}"));
    lab.world.write("left.yaml", &inventory).unwrap();
    lab.converge(&["state", "forget", "--yes", "left.yaml", "left/map"])
}

/// The managers of the object that have fields of it.
fn managers(lab: &Lab) -> Vec<String> {
    let shown =
        lab.api.kubectl(&["get", "configmap", "left", "-o", "json", "--show-managed-fields"]).unwrap();
    let object: Value = serde_json::from_str(&shown.stdout).unwrap();
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).unwrap();
    entries.iter().filter_map(|entry| entry["manager"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_project_that_has_forgotten_an_object_is_in_nobodys_way() {
    let lab = Lab::get();
    let live = || lab.value(&["configmap", "left"], "/data").unwrap();
    of(&lab, "fa", Some("data: {x: '1', z: '1'}"), &["apply", "--yes"]).expect(0);
    let uid = || lab.value(&["configmap", "left"], "/metadata/uid");
    let before = uid();
    forget(&lab, "fa").expect(0).says("1 object forgotten");
    assert_eq!((live(), uid()), (json!({"x": "1", "z": "1"}), before));
    assert!(!managers(&lab).contains(&"converge-fa".to_owned()), "{:?}", managers(&lab));
    // Another project takes the field without force, and so does another tool.
    of(&lab, "fb", Some("data: {x: '2'}"), &["apply", "--yes"]).expect(0);
    let theirs =
        r#"{apiVersion: v1, kind: ConfigMap, metadata: {name: left, namespace: default}, data: {z: "2"}}"#;
    let reply = lab
        .api
        .kubectl_with_input(&["apply", "--server-side", "--field-manager=argo", "-f", "-"], theirs)
        .unwrap();
    assert!(reply.success(), "{reply:?}");
    assert_eq!(live(), json!({"x": "2", "z": "2"}));
    // Its rollback gives the field back to nobody.
    of(&lab, "fb", None, &["rollback", "--yes"]).expect(0);
    assert_eq!(live(), json!({"x": "1", "z": "2"}));
    assert!(!managers(&lab).iter().any(|manager| manager.starts_with("converge-")), "{:?}", managers(&lab));
    // A role that declares it finds it unchanged, and manages it anew when it changes it.
    of(&lab, "fa", Some("data: {x: '1'}"), &["plan"]).expect(0);
    of(&lab, "fa", Some("data: {x: '3'}"), &["apply", "--yes"]).expect(0);
    of(&lab, "fa", None, &["rollback", "--yes"]).expect(0);
    assert_eq!(live(), json!({"x": "1", "z": "2"}));
    lab.kubectl(&["delete", "configmap", "left"]);
}

/// A field that a project has taken by force and then forgotten does not hinder its previous owner.
#[test]
fn a_field_that_was_taken_and_forgotten_is_in_no_projects_way() {
    let lab = Lab::get();
    let live = || lab.value(&["configmap", "left"], "/data");
    let own = Some("data: {x: '1', a: '1'}");
    for again in [true, false] {
        of(&lab, "fa", own, &["apply", "--yes"]).expect(0);
        of(&lab, "fb", Some("force_conflicts: true, data: {x: '2'}"), &["apply", "--yes"]).expect(0);
        forget(&lab, "fb").expect(0);
        assert_eq!(live(), Some(json!({"x": "2", "a": "1"})));
        if again {
            of(&lab, "fa", own, &["apply", "--yes"]).expect(0);
            assert_eq!(live(), Some(json!({"x": "1", "a": "1"})));
            of(&lab, "fa", None, &["rollback", "--yes"]).expect(0);
            of(&lab, "fa", own, &["apply", "--yes"]).expect(0);
            of(&lab, "fa", None, &["apply", "--yes", "--prune=1"]).expect(0);
        } else {
            // The value is another one's than the run left, so it is named.
            let prune = ["apply", "--yes", "--prune=1"];
            let refused = of(&lab, "fa", None, &["plan", "--prune"]);
            says_all(&refused, &[".data.x"]);
            assert!(!refused.all().contains("converge-fb"), "{}", refused.all());
            let allowed = ["--allow-destroy", "k8s:v1/ConfigMap/default/left"];
            of(&lab, "fa", None, &[&prune[..], &allowed].concat()).expect(0);
        }
        assert_eq!(live(), None);
        lab.forget_records();
    }
}

/// Where the server does not take that, the object is forgotten nevertheless, and what stays is named. So it is by a rollback to before.
#[test]
fn what_a_forgotten_object_keeps_is_named() {
    let lab = Lab::get();
    of(&lab, "fa", Some("data: {x: '1'}"), &["apply", "--yes"]).expect(0);
    let oldest = {
        let runs = of(&lab, "fa", None, &["snapshots"]).expect(0);
        runs.stdout.split_whitespace().next().unwrap().to_owned()
    };
    of(&lab, "fa", Some("data: {x: '1'}, immutable: true"), &["apply", "--yes"]).expect(0);
    lab.api.apply(STILL).unwrap();
    let label = ["label", "configmap", "left", "--dry-run=server", "x=1"];
    converge_tests::until("the policy", 30, || lab.api.kubectl(&label).is_ok_and(|reply| !reply.success()));
    let reply = forget(&lab, "fa").expect(0);
    says_all(&reply, &["1 object forgotten", "k8s:v1/ConfigMap/default/left", "converge-fa", "it stays so"]);
    assert!(managers(&lab).contains(&"converge-fa".to_owned()));
    let back = of(&lab, "fa", None, &["rollback", "--to", &oldest]);
    says_all(&back, &["no longer managed (`converge state forget`)"]);
    lab.kubectl(&["delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "still"]);
    converge_tests::until("its end", 30, || lab.api.kubectl(&label).is_ok_and(|reply| reply.success()));
    lab.kubectl(&["delete", "configmap", "left"]);
}

/// A policy that lets nobody change the ConfigMap.
const STILL: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: still}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [UPDATE]}]
  validations: [{expression: "object.metadata.name != 'left'", message: it stays so}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: still}
spec: {policyName: still, validationActions: [Deny]}
"#;

/// An object that the project made and in which others have fields by now was not there before; a declared value that somebody has changed is shown with
/// who did that, also where it is taken back.
#[test]
fn a_plan_says_whose_the_fields_are() {
    let lab = Lab::get();
    of(&lab, "fa", Some("data: {x: '1'}"), &["apply", "--yes"]).expect(0);
    of(&lab, "fb", Some("data: {y: '1'}"), &["apply", "--yes"]).expect(0);
    for command in ["plan", "drift"] {
        let ran = of(&lab, "fa", None, &[command]);
        says_all(
            &ran,
            &[
                "~ k8s:v1/ConfigMap/default/left",
                "others own parts of it: what this project has set is removed",
            ],
        );
        assert!(!ran.all().contains("was there before"), "{}", ran.all());
    }
    let json = of(&lab, "fa", None, &["plan", "--output", "json"]);
    says_all(&json, &["own_part_removed"]);
    lab.kubectl(&["patch", "configmap", "left", "--field-manager=hand", "-p", r#"{"data":{"x":"9"}}"#]);
    for command in ["plan", "drift"] {
        let ran = of(&lab, "fa", Some("force_conflicts: true, data: {x: '1'}"), &[command]);
        says_all(&ran, &["-  x: '9'", "configmap default/left: .data.x belongs to `hand`"]);
    }
    lab.kubectl(&["delete", "configmap", "left"]);
}

/// A role that declares the value which it once found still owns the field: its object is managed until the role drops it, and then the field is whose it was.
#[test]
fn what_a_role_declares_stays_managed_with_the_value_that_it_found() {
    let lab = Lab::get();
    let live = || lab.value(&["configmap", "left"], "/data").unwrap();
    let own = || managers(&lab).contains(&"converge-fa".to_owned());
    let listed = |objects: &str| {
        lab.converge(&["state", "list", "left.yaml"]).expect(0).says(objects);
    };
    let [forced, changed] =
        ["force_conflicts: true, data: {x: '2'}", "force_conflicts: true, data: {x: '1'}"].map(Some);
    for pruned in [true, false] {
        lab.forget_records();
        lab.kubectl(&["create", "configmap", "left", "--from-literal=x=1"]);
        of(&lab, "fa", forced, &["apply", "--yes"]).expect(0);
        of(&lab, "fa", changed, &["apply", "--yes"]).expect(0);
        assert_eq!((live(), own()), (json!({"x": "1"}), true));
        listed("1 managed object");
        if pruned {
            says_all(&of(&lab, "fa", None, &["plan"]).expect(0), &["orphaned", "v1/ConfigMap/default/left"]);
            of(&lab, "fa", None, &["apply", "--yes", "--prune"]).expect(0);
        } else {
            of(&lab, "fa", None, &["rollback", "--yes"]).expect(0);
            assert_eq!(live(), json!({"x": "2"}));
            listed("1 managed object");
            of(&lab, "fa", None, &["rollback", "--yes"]).expect(0);
        }
        assert_eq!((live(), own()), (json!({"x": "1"}), false), "{pruned}: {:?}", managers(&lab));
        listed("0 managed objects");
        lab.kubectl(&["delete", "configmap", "left"]);
    }
}
