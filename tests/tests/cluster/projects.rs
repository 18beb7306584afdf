//! Two projects on one object of a cluster.

use crate::{Lab, says_all};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use converge_tests::Ran;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::{Value, json};
use std::io::Write as _;

/// Runs a command of a project, whose only role says this.
pub fn of(lab: &Lab, project: &str, item: &str, args: &[&str]) -> Ran {
    lab.role("shared", &format!("scope: cluster\nresources:\n{item}"));
    let inventory = lab.world.inventory(&format!("converge_project: {project}"));
    lab.world.write("project.yaml", &inventory).unwrap();
    lab.converge(&[args, &["project.yaml"]].concat())
}

/// A patch of the project's annotation.
pub fn patch(project: &str, value: u8) -> String {
    format!(
        "  - k8s_patch: {{target: configmap/shared, namespace: default, set: {{/metadata/annotations/ex.io~1{project}: '{value}'}}}}\n"
    )
}

/// Other fields are no other project's: each takes its own back, whatever the other one has done since.
#[test]
fn two_projects_that_change_different_fields_take_each_its_own_back() {
    let lab = Lab::get();
    lab.kubectl(&["create", "configmap", "shared", "--from-literal=x=1"]);
    let live = || lab.value(&["configmap", "shared"], "/metadata/annotations").unwrap_or(Value::Null);
    for (project, value) in [("b", 6), ("a", 5), ("b", 5), ("a", 1), ("b", 4)] {
        of(&lab, project, &patch(project, value), &["apply", "--yes"]).expect(0);
    }
    assert_eq!(live(), json!({"ex.io/a": "1", "ex.io/b": "4"}));
    let back = |project: &str| of(&lab, project, &patch(project, 0), &["rollback", "--yes"]).expect(0);
    back("a");
    assert_eq!(live(), json!({"ex.io/a": "5", "ex.io/b": "4"}));
    back("b");
    assert_eq!(live(), json!({"ex.io/a": "5", "ex.io/b": "5"}));
    back("a");
    back("b");
    assert_eq!(live(), json!({"ex.io/b": "6"}));
    back("b");
    assert_eq!(live(), Value::Null);
    lab.kubectl(&["delete", "configmap", "shared"]);
}

/// helm deletes an object with all that other projects have set in it, so the release stays until these have taken that back. So it does for what its own role
/// declares of the object.
#[test]
fn a_release_stays_while_another_project_has_changed_its_object() {
    let lab = Lab::get();
    let chart = "roles/shared/files/held";
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {x: '1'}}\n";
    lab.world
        .write(&format!("{chart}/Chart.yaml"), "{apiVersion: v2, name: held, version: 1.0.0}\n")
        .unwrap();
    lab.world.write(&format!("{chart}/templates/map.yaml"), map).unwrap();
    let release = "  - helm_release: {name: shared, namespace: default, folder: held}\n".to_owned();
    let both = format!("{release}{}", patch("a", 1));
    let none = declared(&Value::Null);
    let live = || lab.value(&["configmap", "shared"], "/metadata/annotations/ex.io~1b");
    let names = [
        "configmap default/shared would be removed with it",
        "of another project (playbook pb:playbooks/site.yaml",
    ];
    for role in [&release, &both] {
        of(&lab, "pa", role, &["apply", "--yes"]).expect(0);
        of(&lab, "pb", &patch("b", 1), &["apply", "--yes"]).expect(0);
        says_all(&of(&lab, "pa", role, &["rollback", "--yes"]).expect(4), &names);
        says_all(&of(&lab, "pa", &none, &["apply", "--yes", "--prune=2"]).expect(4), &names);
        assert_eq!(live(), Some(json!("1")));
        of(&lab, "pb", &patch("b", 1), &["plan"]).expect(0);
        of(&lab, "pb", &patch("b", 1), &["rollback", "--yes"]).expect(0);
        says_all(&of(&lab, "pa", &none, &["apply", "--yes", "--prune=1"]).expect(0), &["helm uninstall"]);
        assert_eq!(lab.value(&["configmap", "shared"], "/data"), None);
    }
    of(&lab, "pa", &both, &["apply", "--yes"]).expect(0);
    let refused = of(&lab, "pa", &patch("a", 1), &["apply", "--yes", "--prune"]);
    says_all(&refused, &["configmap default/shared, declared in the same plan, would be removed with it"]);
    of(&lab, "pa", &none, &["apply", "--yes", "--prune=2"]).expect(0);
}

/// The only item of a project's role: these values of the ConfigMap, or something else where there are none.
pub fn declared(data: &Value) -> String {
    if data.is_null() {
        return "  - name: it is there\n    k8s_query: {kind: Node}\n".to_owned();
    }
    format!(
        "  - k8s_object: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: shared, namespace: default}}, data: {data}}}\n"
    )
}

/// A project takes its own fields back by a prune too, while another one manages the object: whoever made it.
#[test]
fn a_project_prunes_its_own_fields_of_an_object_that_another_one_manages() {
    let lab = Lab::get();
    let live = || lab.value(&["configmap", "shared"], "/data");
    let none = declared(&Value::Null);
    for foreign in [json!({"f": "0"}), json!({})] {
        if foreign != json!({}) {
            lab.kubectl(&["create", "configmap", "shared", "--from-literal=f=0"]);
        }
        let with = |keys: &[&str]| {
            let mut all = foreign.clone();
            keys.iter().for_each(|key| all[*key] = json!("1"));
            Some(all)
        };
        for project in ["a", "b"] {
            of(&lab, project, &declared(&json!({project: "1"})), &["apply", "--yes"]).expect(0);
        }
        assert_eq!(live(), with(&["a", "b"]));
        of(&lab, "a", &none, &["apply", "--yes", "--prune=1"]).expect(0);
        assert_eq!(live(), with(&["b"]));
        let plan = of(&lab, "a", &none, &["plan", "--prune"]).expect(0);
        assert!(!plan.all().contains("orphaned"), "{}", plan.all());
        of(&lab, "b", &declared(&json!({"b": "1"})), &["plan"]).expect(0);
        // It comes back, and goes again.
        of(&lab, "a", &none, &["rollback", "--yes"]).expect(0);
        assert_eq!(live(), with(&["a", "b"]));
        of(&lab, "a", &none, &["apply", "--yes", "--prune=1"]).expect(0);
        assert_eq!(live(), with(&["b"]));
        of(&lab, "b", &none, &["apply", "--yes", "--prune=1"]).expect(0);
        // The last project takes away what projects made, and leaves what somebody else made.
        assert_eq!(live(), with(&[]).filter(|data| *data != json!({})));
        lab.kubectl(&["delete", "configmap", "shared", "--ignore-not-found"]);
        lab.forget_records();
    }
}

/// A project that is rolled back completely is in nobody's way.
#[test]
fn a_project_that_is_rolled_back_owns_nothing() {
    let lab = Lab::get();
    let a = |data: Value, args: &[&str]| of(&lab, "a", &declared(&data), args);
    let b = |data: Value, args: &[&str]| of(&lab, "b", &declared(&data), args);
    a(json!({"x": "1", "a": "1"}), &["apply", "--yes"]).expect(0);
    b(json!({"x": "1", "b": "1"}), &["apply", "--yes"]).expect(0);
    b(Value::Null, &["rollback", "--yes"]).expect(0);
    a(json!({"x": "3", "a": "1"}), &["apply", "--yes"]).expect(0);
    a(json!({"a": "1"}), &["apply", "--yes"]).expect(0);
    assert_eq!(lab.value(&["configmap", "shared"], "/data"), Some(json!({"a": "1"})));
    for _ in 0..3 {
        a(Value::Null, &["rollback", "--yes"]).expect(0);
    }
    assert_eq!(lab.value(&["configmap", "shared"], "/data"), None);
}

/// Projects whose files have the same names are told apart by their names.
#[test]
fn the_project_of_a_run_is_named() {
    let lab = Lab::get();
    lab.kubectl(&["create", "configmap", "shared", "--from-literal=x=1"]);
    let set = |value: u8| {
        format!(
            "  - k8s_patch: {{target: configmap/shared, namespace: default, set: {{/data/x: '{value}'}}}}\n"
        )
    };
    for (project, value) in [("pa", 5), ("pb", 6)] {
        of(&lab, project, &set(value), &["apply", "--yes"]).expect(0);
    }
    let ran = of(&lab, "pa", &set(5), &["rollback", "--yes"]);
    says_all(&ran, &["of another project changed it too (playbook pb:playbooks/site.yaml"]);
    let runs = of(&lab, "pa", &set(5), &["snapshots"]).expect(0);
    says_all(&runs, &["playbook pa:playbooks/site.yaml", "playbook pb:playbooks/site.yaml"]);
    let theirs = runs.stdout.split_whitespace().next().unwrap().to_owned();
    let refused = of(&lab, "pa", &set(5), &["rollback", "--yes", "--to", &theirs]);
    says_all(&refused, &["is of another project: playbook pb:playbooks/site.yaml"]);
    lab.kubectl(&["delete", "configmap", "shared"]);
}

/// The objects that a project manages.
fn managed(lab: &Lab, project: &str) -> String {
    of(lab, project, &declared(&Value::Null), &["state", "list"]).all()
}

/// An object that one project has made and that another has fields in belongs to the other when the first has pruned it: with the last of them it goes.
#[test]
fn the_last_project_in_an_object_that_projects_made_takes_it_away() {
    let lab = Lab::get();
    lab.kubectl(&["delete", "configmap", "shared", "--ignore-not-found"]);
    let live = || lab.value(&["configmap", "shared"], "/data");
    let none = declared(&Value::Null);
    for last in [&["rollback", "--yes"][..], &["apply", "--yes", "--prune=1"]] {
        of(&lab, "a", &declared(&json!({"w": "1", "c": "1"})), &["apply", "--yes"]).expect(0);
        of(&lab, "b", &declared(&json!({"z": "1", "c": "1"})), &["apply", "--yes"]).expect(0);
        of(&lab, "a", &none, &["apply", "--yes", "--prune=1"]).expect(0);
        assert_eq!(live(), Some(json!({"z": "1", "c": "1"})));
        let gone = of(&lab, "b", &none, last).expect(0);
        says_all(&gone, &["delete configmap default/shared"]);
        assert_eq!(live(), None, "{last:?}");
        // It comes back as it was.
        let run = newest(&lab);
        of(&lab, "b", &none, &["rollback", "--yes", "--to", &run]).expect(0);
        assert_eq!(live(), Some(json!({"z": "1", "c": "1"})), "{last:?}");
        // The first takes its part again: then it is the one that made it.
        of(&lab, "a", &none, &["rollback", "--yes"]).expect(0);
        assert_eq!(live(), Some(json!({"w": "1", "z": "1", "c": "1"})));
        of(&lab, "b", &none, last).expect(0);
        assert_eq!(live(), Some(json!({"w": "1", "c": "1"})));
        of(&lab, "a", &none, &["apply", "--yes", "--prune=1"]).expect(0);
        assert_eq!(live(), None);
        lab.forget_records();
    }
}

/// The rollback of a prune brings back the project's own fields, and none of another project that has taken its part away since, and the object with it.
#[test]
fn a_part_that_was_pruned_comes_back_without_the_part_that_another_project_took_away_since() {
    let lab = Lab::get();
    let maps = |project: &str| declared(&json!({project: "1"}));
    let deployments = |project: &str| {
        format!(
            "  - k8s_object: {{apiVersion: apps/v1, kind: Deployment, metadata: {{name: shared, namespace: default, labels: {{{project}: '1'}}}}, spec: {{replicas: 0, selector: {{matchLabels: {{a: s}}}}, template: {{metadata: {{labels: {{a: s}}}}, spec: {{containers: [{{name: c, image: pause}}]}}}}}}}}\n"
        )
    };
    let none = declared(&Value::Null);
    for (kind, fields) in [("configmap", "/data"), ("deployment", "/metadata/labels")] {
        let item = |project: &str| if kind == "configmap" { maps(project) } else { deployments(project) };
        lab.kubectl(&["delete", kind, "shared", "--ignore-not-found"]);
        let live = || lab.value(&[kind, "shared"], fields);
        for project in ["a", "b"] {
            of(&lab, project, &item(project), &["apply", "--yes"]).expect(0);
        }
        assert_eq!(live(), Some(json!({"a": "1", "b": "1"})), "{kind}");
        of(&lab, "a", &none, &["apply", "--yes", "--prune=1"]).expect(0);
        assert_eq!(live(), Some(json!({"b": "1"})), "{kind}");
        of(&lab, "b", &none, &["rollback", "--yes"]).expect(0);
        assert_eq!(live(), None, "{kind}");
        of(&lab, "a", &none, &["rollback", "--yes"]).expect(0);
        assert_eq!(live(), Some(json!({"a": "1"})), "{kind}");
        // Nothing is left to do, and all of it is the project's.
        of(&lab, "a", &item("a"), &["plan"]).expect(0);
        of(&lab, "a", &none, &["rollback", "--yes"]).expect(0);
        assert_eq!(live(), None, "{kind}");
        lab.forget_records();
    }
}

/// A project that has pruned its part of an object and declares it anew manages it after the rollback of both, as before.
#[test]
fn a_part_that_was_pruned_and_made_anew_is_managed_after_the_rollback_of_both() {
    let lab = Lab::get();
    lab.kubectl(&["delete", "configmap", "shared", "--ignore-not-found"]);
    let live = || lab.value(&["configmap", "shared"], "/data");
    let none = declared(&Value::Null);
    let apply =
        |project: &str, data: Value| of(&lab, project, &declared(&data), &["apply", "--yes"]).expect(0);
    apply("a", json!({"w": "1"}));
    apply("b", json!({"y": "1"}));
    of(&lab, "a", &none, &["apply", "--yes", "--prune=1"]).expect(0);
    apply("a", json!({"w": "2"}));
    of(&lab, "a", &none, &["rollback", "--yes"]).expect(0);
    assert_eq!(live(), Some(json!({"y": "1"})));
    // The other one's fields change meanwhile.
    apply("b", json!({"y": "2"}));
    of(&lab, "a", &none, &["rollback", "--yes"]).expect(0);
    assert_eq!(live(), Some(json!({"w": "1", "y": "2"})));
    assert!(managed(&lab, "a").contains("ConfigMap/default/shared"), "{}", managed(&lab, "a"));
    of(&lab, "a", &none, &["apply", "--yes", "--prune=1"]).expect(0);
    assert_eq!(live(), Some(json!({"y": "2"})));
    of(&lab, "b", &none, &["apply", "--yes", "--prune=1"]).expect(0);
    assert_eq!(live(), None);
}

/// The record of a run as it was when the run had done its changes and nothing had said so yet.
fn cut_off(lab: &Lab, run: &str) {
    let of_run = format!("converge/record=run,converge/run={run}");
    let found = lab.api.get(&["secret", "-n", "converge-system", "-l", &of_run]).unwrap();
    let mut secret = found["items"][0].clone();
    let packed = STANDARD.decode(secret["data"]["record"].as_str().unwrap()).unwrap();
    let mut record: Value = serde_json::from_reader(GzDecoder::new(&packed[..])).unwrap();
    record.as_object_mut().unwrap().remove("result");
    for change in record["changes"].as_array_mut().unwrap() {
        change.as_object_mut().unwrap().retain(|field, _| field != "outcome" && field != "owners_left");
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(record.to_string().as_bytes()).unwrap();
    secret["data"]["record"] = json!(STANDARD.encode(packed.finish().unwrap()));
    secret["metadata"].as_object_mut().unwrap().remove("managedFields");
    secret["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let reply = lab.api.kubectl_with_input(&["replace", "-f", "-"], &secret.to_string()).unwrap();
    assert!(reply.success(), "{reply:?}");
}

/// Of a prune that was cut off nobody knows whether it happened. The fields tell: nobody else has any.
#[test]
fn what_a_prune_that_was_cut_off_left_goes_with_the_last_project() {
    let lab = Lab::get();
    lab.kubectl(&["delete", "configmap", "shared", "--ignore-not-found"]);
    lab.forget_records();
    let live = || lab.value(&["configmap", "shared"], "/data");
    let none = declared(&Value::Null);
    of(&lab, "a", &declared(&json!({"w": "1"})), &["apply", "--yes"]).expect(0);
    of(&lab, "b", &declared(&json!({"z": "1"})), &["apply", "--yes"]).expect(0);
    of(&lab, "a", &none, &["apply", "--yes", "--prune=1"]).expect(0);
    cut_off(&lab, &newest(&lab));
    assert_eq!(live(), Some(json!({"z": "1"})));
    says_all(&of(&lab, "b", &none, &["rollback", "--yes"]).expect(0), &["delete configmap default/shared"]);
    assert_eq!(lab.value(&["configmap", "shared"], "/metadata/name"), None);
    lab.forget_records();
}

fn newest(lab: &Lab) -> String {
    let runs = of(lab, "a", &declared(&Value::Null), &["snapshots"]).expect(0);
    runs.stdout.split_whitespace().next().unwrap().to_owned()
}

/// A Deployment that the project declares with these replicas, and a label of its own.
fn scaled(project: &str, label: u8, replicas: u8) -> String {
    format!(
        "  - k8s_object: {{force_conflicts: true, apiVersion: apps/v1, kind: Deployment, metadata: {{name: scaled, namespace: default, labels: {{{project}: '{label}'}}}}, spec: {{replicas: {replicas}, selector: {{matchLabels: {{a: s}}}}, template: {{metadata: {{labels: {{a: s}}}}, spec: {{containers: [{{name: c, image: pause}}]}}}}}}}}\n"
    )
}

/// A field that one of two projects gives up with its prune is no change of somebody else's for the other one, which owns it too.
#[test]
fn a_field_of_two_projects_that_one_of_them_prunes_is_the_other_ones() {
    let lab = Lab::get();
    lab.kubectl(&["delete", "deployment", "scaled", "--ignore-not-found"]);
    let live = || {
        let of = |pointer: &str| lab.value(&["deployment", "scaled"], pointer).unwrap_or(Value::Null);
        (of("/metadata/labels"), of("/spec/replicas"))
    };
    let run = |project: &str, item: &str, args: &[&str]| of(&lab, project, item, args).expect(0);
    let none = declared(&Value::Null);
    let (apply, prune, back) = (["apply", "--yes"], ["apply", "--yes", "--prune=1"], ["rollback", "--yes"]);
    run("a", &scaled("a", 1, 2), &apply);
    run("b", &scaled("b", 1, 2), &apply);
    run("b", &scaled("b", 2, 2), &apply);
    run("a", &none, &prune);
    run("b", &scaled("b", 2, 2), &["drift"]);
    run("b", &scaled("b", 2, 3), &apply);
    for (label, replicas) in [("2", 2), ("1", 2)] {
        run("b", &none, &back);
        assert_eq!(live(), (json!({"b": label}), json!(replicas)));
    }
    run("b", &none, &back);
    assert_eq!(live(), (Value::Null, Value::Null));
    lab.forget_records();

    // One that has taken the field from the other takes it back to the value of then, and gives it to nobody: the other one has pruned its part.
    run("a", &scaled("a", 1, 2), &apply);
    run("b", &scaled("b", 1, 2), &apply);
    run("b", &scaled("b", 1, 3), &apply);
    run("a", &none, &prune);
    run("b", &none, &back);
    assert_eq!(live(), (json!({"b": "1"}), json!(2)));
    let shown =
        lab.api.kubectl(&["get", "deployment", "scaled", "-o", "json", "--show-managed-fields"]).unwrap();
    assert!(!shown.stdout.contains("converge-a"), "{}", shown.stdout);
    run("b", &none, &back);
    assert_eq!(live(), (Value::Null, Value::Null));
    lab.forget_records();
}
