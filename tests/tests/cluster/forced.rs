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
