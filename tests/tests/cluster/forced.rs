//! A release that took a field from somebody (`force_conflicts`), and goes back.

use crate::{Lab, says_all};
use serde_json::{Value, json};

const MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: taken}\ndata: {{ toYaml .Values.data | nindent 2 }}\n";

fn declare(lab: &Lab, values: &str, force: bool) {
    lab.role(
        "taken",
        &format!(
            "scope: cluster\nresources:\n  - name: a place for it\n    namespace: {{name: taken}}\n  - name: a release\n    \
             helm_release: {{name: taken, namespace: taken, folder: taken, force_conflicts: {force}, values: {{data: {values}}}}}\n"
        ),
    );
}

/// The values, and who owns the field `mode`.
fn shown(lab: &Lab) -> (Value, Vec<String>) {
    let object = lab.value(&["configmap", "-n", "taken", "taken", "--show-managed-fields"], "").unwrap();
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let owns = |entry: &&Value| entry["fieldsV1"]["f:data"].get("f:mode").is_some();
    let owners = entries.iter().filter(owns).map(|entry| entry["manager"].as_str().unwrap().to_owned());
    (object["data"].clone(), owners.collect())
}

/// The value that was taken comes back, with its owner, also where the release changes the very field.
#[test]
fn what_a_release_took_goes_back_to_its_owner_behind_the_release() {
    let lab = Lab::get();
    lab.world
        .write("roles/taken/files/taken/Chart.yaml", "apiVersion: v2\nname: taken\nversion: 1.0.0\n")
        .unwrap();
    lab.world.write("roles/taken/files/taken/templates/map.yaml", MAP).unwrap();
    for (first, second) in [("{mode: a}", "{mode: b}"), ("{mode: a}", "{mode: a, more: '1'}")] {
        declare(&lab, first, false);
        lab.apply().expect(0);
        lab.kubectl(&["-n", "taken", "patch", "configmap", "taken", "-p", r#"{"data":{"mode":"hand"}}"#]);
        let before = shown(&lab);
        assert_eq!(before, (json!({"mode": "hand"}), vec!["kubectl-patch".to_owned()]));
        declare(&lab, second, true);
        lab.apply().expect(0);
        assert_eq!(shown(&lab).1, ["helm"]);
        lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
        assert_eq!(shown(&lab), before, "{second}");
        declare(&lab, first, false);
        let drift = lab.converge(&["drift", "hosts.yaml"]);
        says_all(&drift, &[".data.mode was changed by `kubectl-patch`"]);
        // The run that installed it is the next one: nothing was passed over.
        let allow = ["--allow-destroy", "k8s:v1/Namespace/taken"];
        lab.converge(&[&["rollback", "--yes", "hosts.yaml"], &allow[..]].concat()).expect(0);
        assert!(lab.value(&["namespace", "taken"], "/metadata/name").is_none(), "{second}");
    }
}

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {note: {{ .Values.data.mode | quote }}}}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    \
    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: web, image: \"web:1\"}]\n      tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}, {key: x, operator: Exists}]\n";

/// The server knows the tolerations of a pod as one field: an upgrade leaves them to the manager that has written them, as a whole.
#[test]
fn a_list_that_another_manager_has_written_stays_with_an_upgrade() {
    let lab = Lab::get();
    lab.world
        .write("roles/taken/files/taken/Chart.yaml", "apiVersion: v2\nname: taken\nversion: 1.0.0\n")
        .unwrap();
    lab.world.write("roles/taken/files/taken/templates/map.yaml", WEB).unwrap();
    declare(&lab, "{mode: a}", false);
    lab.apply().expect(0);
    let tolerations = json!([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, {"key": "y", "operator": "Exists"}]);
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "taken"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}], "tolerations": tolerations}}}});
    let args = ["apply", "--server-side", "--field-manager=x", "--force-conflicts", "-f", "-"];
    assert!(lab.api.kubectl_with_input(&args, &applied.to_string()).unwrap().success());
    let live =
        || lab.value(&["deployment", "-n", "taken", "web"], "/spec/template/spec/tolerations").unwrap();
    for command in ["plan", "drift"] {
        lab.converge(&[command, "hosts.yaml"]).expect(0);
    }
    declare(&lab, "{mode: b}", false);
    let done = lab.apply().expect(0);
    says_all(&done, &[".spec.template.spec.tolerations belongs to `x`: left as it is"]);
    assert_eq!(live(), tolerations);
    for command in ["plan", "drift"] {
        lab.converge(&[command, "hosts.yaml"]).expect(0);
    }
    lab.converge(&["rollback", "--yes", "hosts.yaml"]).expect(0);
    assert_eq!(live(), tolerations);
    lab.kubectl(&["delete", "namespace", "taken"]);
}
