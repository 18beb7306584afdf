//! A release and a patch of one of its objects in one role: what the patch owns is no drift of the release.

use crate::{Lab, says_all};
use serde_json::{Value, json};

const CHART: &str = "apiVersion: v2\nname: held\nversion: 1.0.0\n";
pub(super) const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held}\n\
    data: {own: {{ .Values.own | quote }}, both: {{ .Values.both | quote }}}\n";

pub(super) fn lay_chart(lab: &Lab, map: &str) {
    lab.world.write("roles/held/files/held/Chart.yaml", CHART).unwrap();
    lab.world.write("roles/held/files/held/templates/map.yaml", map).unwrap();
}

/// The release and, with a value, the patch of a field that its chart declares.
pub(super) fn declare(lab: &Lab, own: &str, patched: Option<&str>) {
    let patch = patched.map_or_else(String::new, |both| {
        format!(
            "  - name: a patch\n    k8s_patch: {{target: configmap/held, namespace: held, set: {{/data/both: {both}, /data/extra: more}}}}\n"
        )
    });
    let role = format!(
        "scope: cluster\nresources:\n  - name: a place for it\n    namespace: {{name: held}}\n  \
         - name: a release\n    helm_release: {{name: held, namespace: held, folder: held, values: {{own: '{own}', both: '1'}}}}\n{patch}"
    );
    lab.role("held", &role);
}

/// The release, and a patch that takes a field of its chart away.
fn declare_unset(lab: &Lab, own: &str) {
    declare(lab, own, None);
    let release = std::fs::read_to_string(lab.world.dir().join("roles/held/role.yaml")).unwrap();
    let patch =
        "  - name: a patch\n    k8s_patch: {target: configmap/held, namespace: held, unset: [/data/both]}\n";
    lab.role("held", &format!("{release}{patch}"));
}

pub(super) fn data(lab: &Lab) -> Value {
    lab.value(&["configmap", "-n", "held", "held"], "/data").unwrap_or(Value::Null)
}

/// The number of revisions that helm has.
fn revisions(lab: &Lab) -> usize {
    let secrets = lab.value(&["secrets", "-n", "held", "-l", "owner=helm,name=held"], "/items").unwrap();
    secrets.as_array().unwrap().len()
}

#[track_caller]
pub(super) fn nothing_to_change(lab: &Lab) {
    for command in ["plan", "drift"] {
        lab.converge(&[command, "hosts.yaml"]).expect(0);
    }
}

#[test]
fn what_a_patch_owns_is_no_drift_of_its_release() {
    let lab = Lab::get();
    lay_chart(&lab, MAP);
    declare(&lab, "1", Some("patched"));
    lab.apply().expect(0);
    let patched = json!({"own": "1", "both": "patched", "extra": "more"});
    assert_eq!((data(&lab), revisions(&lab)), (patched.clone(), 1));
    nothing_to_change(&lab);

    // Another value of the patch is a change of the object alone.
    declare(&lab, "1", Some("again"));
    lab.apply().expect(0);
    nothing_to_change(&lab);
    assert_eq!((data(&lab)["both"].clone(), revisions(&lab)), (json!("again"), 1));
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!((data(&lab), revisions(&lab)), (patched.clone(), 1));
    declare(&lab, "1", Some("patched"));
    nothing_to_change(&lab);

    // Other fields of the object are helm's: what changed behind its back is set back, and a user's edit is reported.
    let edit = |manager: &str| {
        let manager = format!("--field-manager={manager}");
        lab.kubectl(&["-n", "held", "patch", "configmap", "held", &manager, "-p", r#"{"data":{"own":"9"}}"#]);
    };
    edit("helm");
    lab.converge(&["drift", "hosts.yaml"]).expect(2);
    lab.apply().expect(0);
    assert_eq!((data(&lab), revisions(&lab)), (patched.clone(), 1));
    nothing_to_change(&lab);
    edit("kubectl-patch");
    let drift = lab.converge(&["drift", "hosts.yaml"]);
    says_all(&drift, &[".data.own was changed by `kubectl-patch`"]);
    edit("helm");
    lab.kubectl(&["-n", "held", "delete", "configmap", "held"]);
    lab.converge(&["drift", "hosts.yaml"]).expect(2);
    lab.apply().expect(0);
    assert_eq!((data(&lab), revisions(&lab)), (patched.clone(), 1));
    nothing_to_change(&lab);

    // An upgrade leaves the patch its field, and helm's record has what the chart declares. Then too nothing is left to change, and its rollback is its own.
    declare(&lab, "2", Some("patched"));
    lab.apply().expect(0);
    assert_eq!((data(&lab)["own"].clone(), data(&lab)["both"].clone()), (json!("2"), json!("patched")));
    nothing_to_change(&lab);
    declare(&lab, "2", Some("again"));
    lab.apply().expect(0);
    nothing_to_change(&lab);
    assert_eq!(revisions(&lab), 2);
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!((data(&lab), revisions(&lab)), (patched, 3));
    declare(&lab, "1", Some("patched"));
    nothing_to_change(&lab);

    // The chart's own new field comes nevertheless.
    lay_chart(&lab, &MAP.replace("data: {", "data: {new: '1', "));
    lab.converge(&["plan", "hosts.yaml"]).expect(2);
    lab.apply().expect(0);
    assert_eq!((data(&lab)["new"].clone(), data(&lab)["both"].clone()), (json!("1"), json!("patched")));
    nothing_to_change(&lab);
    lab.kubectl(&["delete", "namespace", "held"]);
}

/// A patch that takes away a field which the chart sets, and a chart that sets a field no more which a patch owns.
#[test]
fn a_field_that_one_of_chart_and_patch_leaves_out_is_the_others_to_say() {
    let lab = Lab::get();
    lay_chart(&lab, MAP);
    declare(&lab, "1", None);
    lab.apply().expect(0);
    let release = std::fs::read_to_string(lab.world.dir().join("roles/held/role.yaml")).unwrap();
    let patch =
        "  - name: a patch\n    k8s_patch: {target: configmap/held, namespace: held, unset: [/data/both]}\n";
    lab.role("held", &format!("{release}{patch}"));
    lab.apply().expect(0);
    assert_eq!((data(&lab), revisions(&lab)), (json!({"own": "1"}), 1));
    nothing_to_change(&lab);
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!((data(&lab), revisions(&lab)), (json!({"own": "1", "both": "1"}), 1));

    declare(&lab, "1", Some("patched"));
    lab.apply().expect(0);
    lay_chart(&lab, &MAP.replace(", both: {{ .Values.both | quote }}", ""));
    let patched = json!({"own": "1", "both": "patched", "extra": "more"});
    // Nothing but helm's record of that field would change.
    nothing_to_change(&lab);
    declare(&lab, "2", Some("patched"));
    let ran = lab.apply().expect(0);
    assert!(!ran.all().contains("changed  held/a patch"), "{}", ran.all());
    assert_eq!(
        (data(&lab)["both"].clone(), data(&lab)["own"].clone(), revisions(&lab)),
        (json!("patched"), json!("2"), 2)
    );
    nothing_to_change(&lab);
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!((data(&lab), revisions(&lab)), (patched, 3));
    declare(&lab, "1", Some("patched"));
    nothing_to_change(&lab);
    lab.kubectl(&["delete", "namespace", "held"]);
}

/// A field that a patch takes away, and a release that goes back to a chart which declares it.
#[test]
fn a_field_that_a_patch_takes_away_stays_away_when_the_release_goes_back() {
    let lab = Lab::get();
    lay_chart(&lab, MAP);
    let with_patch = |own: &str| declare_unset(&lab, own);
    declare(&lab, "1", None);
    lab.apply().expect(0);
    with_patch("1");
    lab.apply().expect(0);
    let unset = json!({"own": "1"});
    assert_eq!(data(&lab), unset);

    // The chart drops the field.
    lay_chart(&lab, &MAP.replace(", both: {{ .Values.both | quote }}", ""));
    with_patch("2");
    lab.apply().expect(0);
    assert_eq!(data(&lab), json!({"own": "2"}));
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    says_all(&back, &["configmap held/held: .data.both stays unset"]);
    assert_eq!(data(&lab), unset, "{}", back.all());
    lay_chart(&lab, MAP);
    with_patch("1");
    nothing_to_change(&lab);

    // The chart lays it anew, and the patch takes it away in the same run.
    with_patch("3");
    lab.apply().expect(0);
    assert_eq!(data(&lab), json!({"own": "3"}));
    let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(data(&lab), unset, "{}", back.all());
    with_patch("1");
    nothing_to_change(&lab);

    // With the patch itself the field comes back.
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(data(&lab), json!({"own": "1", "both": "1"}));
    lab.kubectl(&["delete", "namespace", "held"]);
}

/// A prune has taken a release and a patch of its object away: the patch comes back behind the release, in the same run.
#[test]
fn a_patch_comes_back_behind_the_release_that_brings_its_object() {
    let lab = Lab::get();
    lay_chart(&lab, MAP);
    declare(&lab, "1", Some("patched"));
    lab.apply().expect(0);
    let patched = json!({"own": "1", "both": "patched", "extra": "more"});
    assert_eq!(data(&lab), patched);
    lab.role("held", "scope: cluster\nresources:\n  - {name: a place for it, namespace: {name: held}}\n");
    lab.converge(&["apply", "--yes", "--prune=2", "hosts.yaml"]).expect(0);
    assert_eq!((data(&lab), revisions(&lab)), (Value::Null, 0));

    let plan = lab.converge(&["rollback", "hosts.yaml"]);
    says_all(&plan, &["deferred until the release held/held brings it"]);
    assert!(!plan.all().contains("refused"), "{}", plan.all());
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!((data(&lab), revisions(&lab)), (patched, 1));
    declare(&lab, "1", Some("patched"));
    nothing_to_change(&lab);

    // From there, all goes back to the beginning.
    let to = ["--allow-destroy", "k8s:v1/Namespace/held", "--to", &lab.oldest_run()];
    for _ in 0..2 {
        // Another time there is nothing to do, and nobody is accused.
        lab.converge(&[&["rollback", "--yes", "hosts.yaml"], &to[..]].concat()).expect(0);
        assert_eq!((data(&lab), revisions(&lab)), (Value::Null, 0));
    }
    lab.kubectl(&["delete", "namespace", "held", "--ignore-not-found"]);
}

/// The managers of the field that chart and patch both set.
fn owners_of_both(lab: &Lab) -> Vec<String> {
    let args = ["get", "configmap", "held", "-n", "held", "-o", "json", "--show-managed-fields"];
    let object: Value = serde_json::from_str(&lab.api.kubectl(&args).unwrap().stdout).unwrap();
    let entries = object.pointer("/metadata/managedFields").unwrap().as_array().unwrap().clone();
    let has = |entry: &&Value| entry.pointer("/fieldsV1/f:data/f:both").is_some();
    entries.iter().filter(has).map(|entry| entry["manager"].as_str().unwrap().to_owned()).collect()
}

/// One run upgrades the release, whose field has a new value, and prunes a patch of that field; the rollback of that run brings both back.
#[test]
fn a_release_that_is_upgraded_and_its_pruned_patch_go_back_together() {
    let lab = Lab::get();
    let chart =
        |both: &str| lay_chart(&lab, &MAP.replace("{{ .Values.both | quote }}", &format!("'{both}'")));
    // The record of helm has the patched value where an upgrade has left the field to the patch.
    for is_upgraded_between in [false, true] {
        chart("1");
        declare(&lab, "1", Some("patched"));
        lab.apply().expect(0);
        if is_upgraded_between {
            declare(&lab, "2", Some("patched"));
            lab.apply().expect(0);
        }
        let patched =
            json!({"own": if is_upgraded_between { "2" } else { "1" }, "both": "patched", "extra": "more"});
        assert_eq!(data(&lab), patched);
        chart("2");
        declare(&lab, "3", None);
        let plan = lab.converge(&["plan", "hosts.yaml"]).expect(2);
        says_all(&plan, &["orphaned", "k8s:v1/ConfigMap/held/held"]);
        let pruned = lab.converge(&["apply", "--yes", "--prune=1", "hosts.yaml"]).expect(0);
        assert_eq!(data(&lab), json!({"own": "3", "both": "2"}), "{}", pruned.all());
        assert_eq!(owners_of_both(&lab), ["helm"]);
        nothing_to_change(&lab);
        let back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
        assert_eq!(data(&lab), patched, "{}", back.all());
        let owners = owners_of_both(&lab);
        assert!(owners.len() == 1 && owners[0].starts_with("converge"), "{owners:?}");
        chart("1");
        declare(&lab, patched["own"].as_str().unwrap(), Some("patched"));
        nothing_to_change(&lab);
        lab.kubectl(&["delete", "namespace", "held"]);
    }
}

/// A chart that stays as it is gets its own value with the prune of the patch, in helm's record too.
#[test]
fn a_chart_has_its_own_value_again_once_the_patch_is_pruned() {
    let lab = Lab::get();
    lay_chart(&lab, MAP);
    declare(&lab, "1", Some("patched"));
    lab.apply().expect(0);
    declare(&lab, "2", Some("patched"));
    lab.apply().expect(0);
    declare(&lab, "2", None);
    lab.converge(&["apply", "--yes", "--prune=1", "hosts.yaml"]).expect(0);
    assert_eq!(data(&lab), json!({"own": "2", "both": "1"}));
    assert_eq!(owners_of_both(&lab), ["helm"]);
    nothing_to_change(&lab);
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(data(&lab), json!({"own": "2", "both": "patched", "extra": "more"}));
    declare(&lab, "2", Some("patched"));
    nothing_to_change(&lab);
    lab.kubectl(&["delete", "namespace", "held"]);
}

/// A patch takes a field away that the chart of the same run, or of the one before, changes: the field has its first value after the rollback.
#[test]
fn a_field_that_a_patch_takes_away_has_the_value_of_the_older_chart_after_a_rollback() {
    let lab = Lab::get();
    let with = |both: &str, unset: bool| {
        lay_chart(&lab, &MAP.replace("{{ .Values.both | quote }}", &format!("'{both}'")));
        if unset { declare_unset(&lab, "1") } else { declare(&lab, "1", None) }
    };
    for at_once in [true, false] {
        with("1", false);
        lab.apply().expect(0);
        if !at_once {
            with("2", false);
            lab.apply().expect(0);
        }
        with("2", true);
        lab.apply().expect(0);
        assert_eq!(data(&lab), json!({"own": "1"}));
        // Of one run the patch goes back to the new chart's value, which the release then replaces.
        let mut back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
        if !at_once {
            assert_eq!(data(&lab), json!({"own": "1", "both": "2"}), "{}", back.all());
            back = lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
        }
        assert_eq!(data(&lab), json!({"own": "1", "both": "1"}), "{at_once}: {}", back.all());
        lab.kubectl(&["delete", "namespace", "held"]);
    }
}

/// Charts do not say where their objects live, of whichever kind.
const LEASE: &str = "\n---\napiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: held}\nspec: {holderIdentity: chart}\n";

/// helm and kubectl read YAML 1.1, in which a plain `n` is a truth value.
#[test]
fn a_chart_with_words_of_yaml_settles() {
    let lab = Lab::get();
    lay_chart(&lab, &(MAP.replace("data: {", "data: {n: new, on: 'on', ") + LEASE));
    declare(&lab, "1", None);
    lab.apply().expect(0);
    assert_eq!((&data(&lab)["false"], &data(&lab)["true"]), (&json!("new"), &json!("on")));
    nothing_to_change(&lab);
    lab.kubectl(&["delete", "lease", "held", "--namespace", "held"]);
    lab.apply().expect(0);
    lab.kubectl(&["get", "lease", "held", "--namespace", "held"]);
    nothing_to_change(&lab);
    lab.kubectl(&["delete", "namespace", "held"]);
}

/// The server drops an empty value of a field that may be missing, and writes a quantity in its own way: the plan says so, and nothing is left to do after it.
#[test]
fn a_patch_is_planned_as_the_server_keeps_it() {
    let lab = Lab::get();
    let container = "{name: c, image: pause, workingDir: /srv}";
    let template =
        format!("{{metadata: {{labels: {{a: k}}}}, spec: {{hostname: old, containers: [{container}]}}}}");
    let spec = format!("{{replicas: 0, selector: {{matchLabels: {{a: k}}}}, template: {template}}}");
    let workload = format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: kept, namespace: default}}, spec: {spec}}}"
    );
    lab.api.apply(&workload).unwrap();
    let pod = || lab.value(&["deployment", "kept"], "/spec/template/spec").unwrap();
    let before = pod();
    let patch = |set: &str| {
        let target = "{apiVersion: apps/v1, kind: Deployment, namespace: default, name: kept}";
        lab.role(
            "kept",
            &format!("scope: cluster\nresources:\n  - k8s_patch: {{target: {target}, set: {{{set}}}}}\n"),
        );
    };
    // Of a field that is not there an empty value is nothing to do.
    patch("/spec/template/spec/priorityClassName: '', '/spec/template/spec/containers/[name=c]/env': []");
    nothing_to_change(&lab);
    let at = "/spec/template/spec/containers/[name=c]";
    patch(&format!(
        "/spec/template/spec/hostname: '', '{at}/workingDir': '', '{at}/env': [{{name: E, value: ''}}], '{at}/resources/limits/cpu': 1000m"
    ));
    let applied = lab.apply().expect(0);
    says_all(
        &applied,
        &["-      hostname: old", "-        workingDir: /srv", "+        - name: E", "cpu: '1'"],
    );
    assert_eq!(pod().get("hostname"), None);
    assert_eq!(pod().pointer("/containers/0/resources/limits/cpu"), Some(&json!("1")));
    nothing_to_change(&lab);
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(pod(), before);
    lab.kubectl(&["delete", "deployment", "kept"]);
}

/// A patch is asked about as it is planned: a field that cannot change, a value that is none, and a field that the kind has not.
#[test]
fn a_patch_that_the_server_refuses_is_an_error_of_the_plan() {
    let lab = Lab::get();
    let template = "{metadata: {labels: {a: r}}, spec: {containers: [{name: c, image: pause}]}}";
    let spec = format!("{{replicas: 0, selector: {{matchLabels: {{a: r}}}}, template: {template}}}");
    lab.api
        .apply(&format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: asked, namespace: default}}, spec: {spec}}}"
        ))
        .unwrap();
    let patch = |set: &str| {
        let target = "{apiVersion: apps/v1, kind: Deployment, namespace: default, name: asked}";
        lab.role(
            "asked",
            &format!("scope: cluster\nresources:\n  - k8s_patch: {{target: {target}, set: {{{set}}}}}\n"),
        );
        lab.converge(&["plan", "hosts.yaml"])
    };
    says_all(
        &patch("/spec/selector/matchLabels/b: c").expect(1),
        &["the server refuses deployment default/asked", "field is immutable"],
    );
    says_all(&patch("/spec/replicas: -1").expect(1), &["must be greater than or equal to 0"]);
    says_all(
        &patch("/spec/replica: 1").expect(1),
        &["the server does not keep .spec.replica as declared: it drops the field"],
    );
    // Defaults of the server are in the plan.
    let added = "'/spec/template/spec/containers/[name=d]': {name: d, image: pause}";
    says_all(&patch(added).expect(2), &["+      - name: d", "+        terminationMessagePath"]);
    lab.apply().expect(0);
    nothing_to_change(&lab);
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    lab.kubectl(&["delete", "deployment", "asked"]);
}
