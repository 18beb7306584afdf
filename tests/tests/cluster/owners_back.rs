//! Fields that a run gave back or gave up, of an object that others apply too: the rollback of that run takes them again.

use crate::{Lab, says_all};
use converge_tests::Ran;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A manifest of the only object here.
fn manifest(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "back", "namespace": "default"}, "data": data})
}

/// Runs a command of a project, whose role declares these values; null: none.
fn of(lab: &Lab, project: &str, data: &Value, args: &[&str]) -> Ran {
    let (data, force) = match data.get("force") {
        Some(data) => (data, true),
        None => (data, false),
    };
    let item = if data.is_null() {
        json!({"name": "it is there", "k8s_query": {"kind": "Node"}})
    } else {
        let mut object = manifest(data);
        object["force_conflicts"] = json!(force);
        json!({"name": "cm", "k8s_object": object})
    };
    lab.role("back", &json!({"scope": "cluster", "resources": [item]}).to_string());
    let inventory = lab.world.inventory(&format!("converge_project: {project}"));
    lab.world.write("project.yaml", &inventory).unwrap();
    lab.converge(&[args, &["project.yaml"]].concat())
}

const APPLY: [&str; 2] = ["apply", "--yes"];
const PRUNE: [&str; 3] = ["apply", "--yes", "--prune=1"];
const ROLLBACK: [&str; 2] = ["rollback", "--yes"];

/// Values that somebody else applies under a name of his own.
fn theirs(lab: &Lab, data: &Value) -> bool {
    let args = ["apply", "--server-side", "--field-manager=argo", "-f", "-"];
    lab.api.kubectl_with_input(&args, &manifest(data).to_string()).unwrap().success()
}

/// The object without anything of before.
fn begin(lab: &Lab, data: &Value) {
    lab.forget_records();
    lab.kubectl(&["delete", "configmap", "back", "--ignore-not-found"]);
    if !data.is_null() {
        assert!(theirs(lab, data));
    }
}

fn data(lab: &Lab) -> Value {
    lab.value(&["configmap", "back"], "/data").unwrap_or(Value::Null)
}

/// The managers of each value.
fn owners(lab: &Lab) -> BTreeMap<String, Vec<String>> {
    let reply =
        lab.api.kubectl(&["get", "configmap", "back", "-o", "json", "--show-managed-fields"]).unwrap();
    let object: Value = serde_json::from_str(&reply.stdout).unwrap();
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        for key in entry["fieldsV1"]["f:data"].as_object().into_iter().flatten().map(|(key, _)| key) {
            if let Some(key) = key.strip_prefix("f:") {
                all.entry(key.to_owned()).or_default().push(entry["manager"].as_str().unwrap().to_owned());
            }
        }
    }
    all.values_mut().for_each(|by| by.sort());
    all
}

/// The newest run of all.
fn newest(lab: &Lab) -> String {
    let runs = of(lab, "a", &Value::Null, &["snapshots"]).expect(0);
    runs.stdout.split_whitespace().next().unwrap().to_owned()
}

/// A prune gives a field back to the manager from whom it was taken. Its rollback takes it again, and nothing older goes instead.
#[test]
fn the_rollback_of_a_prune_takes_again_what_the_prune_gave_back() {
    let lab = Lab::get();
    begin(&lab, &json!({"x": "1", "q": "1"}));
    of(&lab, "a", &json!({"force": {"x": "2", "d": "1"}}), &APPLY).expect(0);
    of(&lab, "a", &json!({"force": {"x": "3"}}), &APPLY).expect(0);
    of(&lab, "a", &Value::Null, &PRUNE).expect(0);
    assert_eq!(data(&lab), json!({"q": "1", "x": "1"}));
    assert_eq!(owners(&lab)["x"], ["argo"]);
    let back = of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert!(!back.all().contains("passed over"), "{}", back.all());
    says_all(&back, &["-  x: '1'", "+  x: '3'"]);
    assert_eq!(data(&lab), json!({"q": "1", "x": "3"}));
    assert_eq!(
        (&*owners(&lab)["x"], &*owners(&lab)["q"]),
        (&["converge-a".to_owned()][..], &["argo".to_owned()][..])
    );
    // It goes on from there, one run after the other.
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(data(&lab), json!({"q": "1", "x": "2", "d": "1"}));
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(data(&lab), json!({"q": "1", "x": "1"}));
    assert_eq!(owners(&lab)["x"], ["argo"]);

    // Two projects: the prune of one gives the field back to the other, which has done nothing since.
    begin(&lab, &Value::Null);
    of(&lab, "a", &json!({"x": "1", "a": "1"}), &APPLY).expect(0);
    of(&lab, "b", &json!({"force": {"x": "2", "b": "1"}}), &APPLY).expect(0);
    of(&lab, "b", &Value::Null, &PRUNE).expect(0);
    assert_eq!(data(&lab), json!({"a": "1", "x": "1"}));
    of(&lab, "b", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(data(&lab), json!({"a": "1", "b": "1", "x": "2"}));
    assert_eq!(owners(&lab)["x"], ["converge-b"]);
    begin(&lab, &Value::Null);
}

/// A prune that finds all values as before gives the fields back to their owner: the plan says so, and the run is in force like any other.
#[test]
fn a_prune_that_gives_fields_back_alone_is_a_change() {
    let lab = Lab::get();
    begin(&lab, &json!({"x": "1", "q": "1"}));
    of(&lab, "a", &json!({"force": {"x": "2"}}), &APPLY).expect(0);
    of(&lab, "a", &json!({"force": {"x": "1"}}), &APPLY).expect(0);
    assert_eq!(owners(&lab)["x"], ["converge-a"]);
    let reply = [".data.x stays as it is, and is given back to whom it belonged before", "1 to change"];
    says_all(&of(&lab, "a", &Value::Null, &["plan", "--prune"]).expect(2), &reply);
    of(&lab, "a", &Value::Null, &PRUNE).expect(0);
    assert_eq!((data(&lab), &*owners(&lab)["x"]), (json!({"q": "1", "x": "1"}), &["argo".to_owned()][..]));
    let plan = of(&lab, "a", &Value::Null, &["plan", "--prune"]).expect(0);
    assert!(!plan.all().contains("orphaned"), "{}", plan.all());
    // Where somebody else has the field too since, it is refused by name, and no older run goes back instead.
    let second = |object: &Value| {
        let args = ["apply", "--server-side", "--field-manager=second", "-f", "-"];
        assert!(lab.api.kubectl_with_input(&args, &object.to_string()).unwrap().success());
    };
    second(&manifest(&json!({"x": "1"})));
    let refused = of(&lab, "a", &Value::Null, &ROLLBACK);
    assert_ne!(refused.code, Some(0), "{}", refused.all());
    says_all(
        &refused,
        &[".data.x was given to argo, and belongs to argo, second by now: it is left as it is"],
    );
    second(
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "back", "namespace": "default"}}),
    );
    let back = of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    says_all(&back, &[".data.x stays as it is, and is this project's again"]);
    assert!(!back.all().contains("passed over"), "{}", back.all());
    assert_eq!(owners(&lab)["x"], ["converge-a"]);
    // It goes on from there, one run after the other.
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(
        (data(&lab), &*owners(&lab)["x"]),
        (json!({"q": "1", "x": "2"}), &["converge-a".to_owned()][..])
    );
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!((data(&lab), &*owners(&lab)["x"]), (json!({"q": "1", "x": "1"}), &["argo".to_owned()][..]));
    begin(&lab, &Value::Null);
}

/// Where the field has changed hands since, the object is refused with the names, whatever run is to go back.
#[test]
fn a_field_that_has_changed_hands_since_the_prune_is_refused_by_name() {
    let lab = Lab::get();
    begin(&lab, &json!({"x": "1", "q": "1"}));
    of(&lab, "a", &json!({"force": {"x": "2", "d": "1"}}), &APPLY).expect(0);
    of(&lab, "a", &json!({"force": {"x": "3"}}), &APPLY).expect(0);
    of(&lab, "a", &Value::Null, &PRUNE).expect(0);
    let args = ["apply", "--server-side", "--field-manager=second", "-f", "-"];
    let second = lab.api.kubectl_with_input(&args, &manifest(&json!({"x": "1"})).to_string()).unwrap();
    assert!(second.success(), "{second:?}");
    let back = of(&lab, "a", &Value::Null, &ROLLBACK);
    assert_ne!(back.code, Some(0), "{}", back.all());
    says_all(&back, &[".data.x was given to argo, and belongs to argo, second by now: it is left as it is"]);
    assert_eq!(data(&lab), json!({"q": "1", "x": "1"}));
    assert_eq!(owners(&lab)["x"], ["argo", "second"]);
    // As soon as it is as the prune left it, it goes back.
    let none = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "back", "namespace": "default"}});
    assert!(lab.api.kubectl_with_input(&args, &none.to_string()).unwrap().success());
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(data(&lab), json!({"q": "1", "x": "3"}));
    begin(&lab, &Value::Null);
}

/// A rollback is undone by `--to`: what it gave back is taken again, and goes back again.
#[test]
fn a_rollback_that_is_undone_takes_again_what_it_gave_back() {
    let lab = Lab::get();
    begin(&lab, &json!({"x": "1", "q": "1"}));
    of(&lab, "a", &json!({"force": {"x": "2", "d": "1"}}), &APPLY).expect(0);
    let left = owners(&lab);
    for _ in 0..2 {
        of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
        assert_eq!(data(&lab), json!({"q": "1", "x": "1"}));
        assert_eq!(owners(&lab)["x"], ["argo"]);
        let run = newest(&lab);
        of(&lab, "a", &Value::Null, &[&ROLLBACK[..], &["--to", &run]].concat()).expect(0);
        assert_eq!(data(&lab), json!({"q": "1", "x": "2", "d": "1"}));
        assert_eq!(owners(&lab), left);
    }
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(data(&lab), json!({"q": "1", "x": "1"}));
    begin(&lab, &Value::Null);
}

/// A field that a role drops is given up, also where another project declares it too, and the plan says so; the rollback takes it up again.
#[test]
fn a_field_of_both_that_a_role_drops_is_given_up() {
    let lab = Lab::get();
    let apply = |project: &str, data: Value| {
        of(&lab, project, &data, &APPLY).expect(0);
        of(&lab, project, &data, &["plan"]).expect(0).says("nothing to change")
    };
    begin(&lab, &Value::Null);
    apply("a", json!({"x": "1", "a": "1"}));
    apply("b", json!({"x": "1", "b": "1"}));
    let both = ["converge-a", "converge-b"];
    assert_eq!(owners(&lab)["x"], both);
    // A declaration of the same value alone changes nothing.
    let plan = of(&lab, "b", &json!({"b": "1"}), &["plan"]).expect(2);
    says_all(
        &plan,
        &[".data.x stays as it is, and is no longer this project's: it belongs to converge-a too"],
    );
    of(&lab, "b", &json!({"b": "1"}), &["drift"]).expect(2);
    assert_eq!(owners(&lab)["x"], both);
    apply("b", json!({"b": "1"}));
    assert_eq!(owners(&lab)["x"], ["converge-a"]);
    // The rollback takes it up again, and the next one gives up what the first apply had.
    let back = of(&lab, "b", &Value::Null, &ROLLBACK).expect(0);
    says_all(&back, &[".data.x"]);
    assert_eq!(owners(&lab)["x"], both);
    apply("b", json!({"b": "1"}));
    // The other one is not stood in its way, and what both drop goes.
    apply("a", json!({"x": "3", "a": "1"}));
    apply("b", json!({"b": "1"}));
    apply("a", json!({"a": "1"}));
    assert_eq!(data(&lab), json!({"a": "1", "b": "1"}));

    begin(&lab, &Value::Null);
    apply("a", json!({"x": "1", "a": "1"}));
    apply("b", json!({"x": "1", "b": "1"}));
    apply("a", json!({"a": "1"}));
    apply("b", json!({"b": "1"}));
    assert_eq!(data(&lab), json!({"a": "1", "b": "1"}));
    for _ in 0..2 {
        of(&lab, "b", &Value::Null, &ROLLBACK).expect(0);
    }
    assert_eq!(data(&lab), json!({"a": "1", "x": "1"}));

    // Another deployer.
    begin(&lab, &json!({"x": "1", "q": "1"}));
    apply("a", json!({"x": "1", "a": "1"}));
    apply("a", json!({"a": "1"}));
    assert!(theirs(&lab, &json!({"x": "2", "q": "1"})), "a dropped field is in argo's way");
    begin(&lab, &Value::Null);
}

/// A field that another project has brought back already hinders nobody: the rest goes back.
#[test]
fn a_field_that_another_project_has_brought_back_already_stays_its() {
    let lab = Lab::get();
    begin(&lab, &Value::Null);
    of(&lab, "a", &json!({"v": "1", "c": "s"}), &APPLY).expect(0);
    of(&lab, "a", &json!({"v": "2"}), &APPLY).expect(0);
    of(&lab, "b", &json!({"c": "s"}), &APPLY).expect(0);
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(data(&lab), json!({"v": "1", "c": "s"}));
    assert!(owners(&lab)["c"].contains(&"converge-b".to_owned()));
    begin(&lab, &Value::Null);
}

/// Two own a field with one value and one of them forces another value: its rollback gives it back to both, the next one to the other alone.
#[test]
fn a_field_of_both_that_one_of_them_forces_comes_back_to_both() {
    let lab = Lab::get();
    begin(&lab, &Value::Null);
    of(&lab, "a", &json!({"c": "1", "v": "1"}), &APPLY).expect(0);
    of(&lab, "b", &json!({"c": "1", "y": "1"}), &APPLY).expect(0);
    let both = owners(&lab);
    assert_eq!(both["c"], ["converge-a", "converge-b"]);
    // Its own other fields count too: a run in between that does not touch the field.
    of(&lab, "b", &json!({"c": "1", "y": "2"}), &APPLY).expect(0);
    let between = newest(&lab);
    of(&lab, "b", &json!({"force": {"c": "2", "y": "2"}}), &APPLY).expect(0);
    let forced = owners(&lab);
    assert_eq!(forced["c"], ["converge-b"]);
    let to = |run: &str| of(&lab, "b", &Value::Null, &[&ROLLBACK[..], &["--to", run]].concat()).expect(0);
    to(&between);
    assert_eq!((data(&lab), owners(&lab)), (json!({"c": "1", "v": "1", "y": "1"}), both.clone()));
    to(&newest(&lab));
    assert_eq!((data(&lab), owners(&lab)), (json!({"c": "2", "v": "1", "y": "2"}), forced));
    for _ in 0..2 {
        of(&lab, "b", &Value::Null, &ROLLBACK).expect(0);
        assert_eq!(owners(&lab), both);
    }
    of(&lab, "b", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(data(&lab), json!({"c": "1", "v": "1"}));
    assert_eq!(owners(&lab)["c"], ["converge-a"]);

    // Another deployer's, and one project.
    begin(&lab, &json!({"c": "1", "q": "1"}));
    of(&lab, "a", &json!({"c": "1", "v": "1"}), &APPLY).expect(0);
    let both = owners(&lab);
    of(&lab, "a", &json!({"force": {"c": "2", "v": "1"}}), &APPLY).expect(0);
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!((data(&lab)["c"].clone(), owners(&lab)), (json!("1"), both));
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(
        (data(&lab), owners(&lab)["c"].clone()),
        (json!({"c": "1", "q": "1"}), vec!["argo".to_owned()])
    );
    begin(&lab, &Value::Null);
}

/// The part of a field that a prune, or a rollback, brought back goes again with the rollback of that, where the role had dropped the field before.
#[test]
fn a_field_that_a_prune_brought_back_goes_again_where_the_role_had_dropped_it() {
    let lab = Lab::get();
    begin(&lab, &json!({"c": "1", "q": "1"}));
    of(&lab, "a", &json!({"force": {"c": "2", "v": "1"}}), &APPLY).expect(0);
    let first = newest(&lab);
    of(&lab, "a", &json!({"v": "1"}), &APPLY).expect(0);
    let (then, owned) = (json!({"q": "1", "v": "1"}), owners(&lab));
    assert_eq!(data(&lab), then);
    let to = |run: &str| of(&lab, "a", &Value::Null, &[&ROLLBACK[..], &["--to", run]].concat()).expect(0);
    of(&lab, "a", &Value::Null, &PRUNE).expect(0);
    assert_eq!((data(&lab), &*owners(&lab)["c"]), (json!({"c": "1", "q": "1"}), &["argo".to_owned()][..]));
    let back = of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert!(!back.all().contains("stays as it is"), "{}", back.all());
    assert_eq!((data(&lab), owners(&lab)), (then.clone(), owned.clone()));
    for _ in 0..2 {
        to(&first);
        assert_eq!(
            (data(&lab), &*owners(&lab)["c"]),
            (json!({"c": "1", "q": "1"}), &["argo".to_owned()][..])
        );
        to(&newest(&lab));
        assert_eq!((data(&lab), owners(&lab)), (then.clone(), owned.clone()));
    }
    begin(&lab, &Value::Null);
}

/// A field that a prune gave back has another value since: no older run goes back in its place, and nothing is used up.
#[test]
fn a_field_that_has_another_value_since_the_prune_is_refused_by_name() {
    let lab = Lab::get();
    begin(&lab, &json!({"x": "1", "q": "1"}));
    of(&lab, "a", &json!({"force": {"x": "2", "d": "1"}}), &APPLY).expect(0);
    of(&lab, "a", &Value::Null, &PRUNE).expect(0);
    assert!(theirs(&lab, &json!({"x": "5", "q": "1"})));
    let back = of(&lab, "a", &Value::Null, &ROLLBACK).expect(4);
    says_all(&back, &[".data.x by `argo`"]);
    assert_eq!(data(&lab), json!({"q": "1", "x": "5"}));
    // As soon as it is as the prune left it, both go back.
    assert!(theirs(&lab, &json!({"x": "1", "q": "1"})));
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(data(&lab), json!({"d": "1", "q": "1", "x": "2"}));
    of(&lab, "a", &Value::Null, &ROLLBACK).expect(0);
    assert_eq!(data(&lab), json!({"q": "1", "x": "1"}));
    begin(&lab, &Value::Null);
}

/// The plan of an apply that gives a field up names it with its managers, with `force_conflicts` too, and all of them.
#[test]
fn a_field_that_is_given_up_is_named_with_force_too() {
    let lab = Lab::get();
    begin(&lab, &json!({"c": "1", "e": "1", "f": "1", "g": "1"}));
    of(&lab, "a", &json!({"force": {"c": "1", "e": "1", "g": "1", "v": "1"}}), &APPLY).expect(0);
    let plan = of(&lab, "a", &json!({"force": {"v": "1"}}), &["plan"]).expect(2);
    let note = ".data.c, .data.e and .data.g stay as they are, and are no longer this project's: they belong to argo too";
    says_all(&plan, &[note]);
    let plan = of(&lab, "a", &json!({"force": {"v": "1", "e": "1", "g": "1"}}), &["plan"]).expect(2);
    says_all(&plan, &[".data.c stays as it is, and is no longer this project's: it belongs to argo too"]);
    begin(&lab, &Value::Null);
}

/// A field that has the previous value already, under the project's own name, belongs after the rollback to whom it belonged before.
#[test]
fn a_field_with_the_value_of_before_goes_back_to_its_owner() {
    let lab = Lab::get();
    let managed = || of(&lab, "a", &Value::Null, &["state", "list"]).all();
    for to in [false, true] {
        begin(&lab, &json!({"x": "1", "q": "1"}));
        of(&lab, "a", &json!({"force": {"x": "2"}}), &APPLY).expect(0);
        let run = newest(&lab);
        let own = ["patch", "configmap", "back", "--field-manager=converge-a", "--type=merge", "-p"];
        lab.kubectl(&[&own[..], &[r#"{"data":{"x":"1"}}"#]].concat());
        assert_eq!(owners(&lab)["x"], ["converge-a"]);
        let to = if to { vec!["--to", &run] } else { Vec::new() };
        let back = of(&lab, "a", &Value::Null, &[&ROLLBACK[..], &to].concat()).expect(0);
        says_all(&back, &[".data.x stays as it is, and is no longer this project's"]);
        assert_eq!(
            (data(&lab), &*owners(&lab)["x"]),
            (json!({"q": "1", "x": "1"}), &["argo".to_owned()][..])
        );
        assert!(managed().contains("0 managed objects"), "{}", managed());
        of(&lab, "a", &Value::Null, &ROLLBACK).expect(0).says("no host has a run to roll back");
    }
    // The project's own runs have led it there.
    begin(&lab, &json!({"x": "1", "q": "1"}));
    of(&lab, "a", &json!({"force": {"x": "2"}}), &APPLY).expect(0);
    let run = newest(&lab);
    of(&lab, "a", &json!({"x": "1"}), &APPLY).expect(0);
    of(&lab, "a", &Value::Null, &[&ROLLBACK[..], &["--to", &run]].concat()).expect(0);
    assert_eq!(owners(&lab)["x"], ["argo"]);
    begin(&lab, &Value::Null);
}
