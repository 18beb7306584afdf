//! The tester of cluster roles tested: roles that are broken on purpose are caught on a real API server, each by its gate; a good one passes.

use converge_tests::{binary, ran};
use serde_json::Value;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The gate that fails and what it says; `None` where the role is good.
type Caught = Option<(&'static str, &'static str)>;

/// `(name, role.yaml, what catches it)`.
const ROLES: &[(&str, &str, Caught)] = &[
    (
        "good",
        "scope: cluster
resources:
  - name: settings
    k8s_object: {apiVersion: v1, kind: ConfigMap, force_conflicts: true, metadata: {name: good, namespace: default}, data: {a: x}}
  - name: whether there is another
    k8s_query: {kind: ConfigMap, namespace: default, selector: another=one}
    register: another
  # Skipped where it is, and not where it is gone.
  - name: another
    when: another == []
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: another, namespace: default, labels: {another: one}}}
",
        None,
    ),
    // It looks at a mark, and not at what it has made: what becomes of that it never sees.
    (
        "blind",
        "scope: cluster
resources:
  - name: whether it was here
    k8s_query: {kind: ConfigMap, namespace: default, selector: mark=blind}
    register: marks
  - name: settings
    when: marks == []
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: blind, namespace: default}, data: {a: x}}
  - name: mark
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: mark, namespace: default, labels: {mark: blind}}}
",
        Some(("drift", "`blind/settings` is skipped")),
    ),
    // It counts its own runs: it is never as declared.
    (
        "restless",
        "scope: cluster
resources:
  - name: last time
    k8s_query: {kind: ConfigMap, namespace: default, selector: runs=counted}
    register: last
  - name: counter
    k8s_object:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: counter, namespace: default, labels: {runs: counted}}
      data: {runs: \"{{ last[0].data.runs if last else '' }}x\"}
",
        Some(("plan-is-empty", "restless/counter")),
    ),
    // A controller makes a claim for it, and the claim is never removed.
    (
        "messy",
        "scope: cluster
resources:
  - name: database
    k8s_object:
      apiVersion: apps/v1
      kind: StatefulSet
      metadata: {name: db, namespace: default}
      spec:
        serviceName: db
        selector: {matchLabels: {app: db}}
        template:
          metadata: {labels: {app: db}}
          spec: {containers: [{name: db, image: example.com/db}]}
        volumeClaimTemplates:
          - metadata: {name: data}
            spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
",
        Some(("rollback", "+ v1/PersistentVolumeClaim/default/data-db-0")),
    ),
];

#[test]
fn broken_cluster_roles_are_caught_each_by_its_gate() {
    let dir = TempDir::new().unwrap();
    for (name, text, _) in ROLES {
        let folder = dir.path().join("roles").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("role.yaml"), text).unwrap();
    }
    let mut command = Command::new(binary().unwrap());
    command.args(["test", "--all", "--output", "json"]).current_dir(dir.path()).env("HOME", dir.path());
    let run = ran(command.env_remove("SSH_AUTH_SOCK").stdin(Stdio::null())).unwrap().expect(1);
    let document = run.json().unwrap();
    for (name, _, caught) in ROLES {
        let cases = document["scenarios"].as_array().unwrap();
        let case = cases.iter().find(|case| case["role"] == *name).unwrap();
        let failed: Vec<&Value> =
            case["gates"].as_array().unwrap().iter().filter(|gate| gate["result"] == "failed").collect();
        let reported: Vec<(&str, String)> =
            failed.iter().map(|g| (g["gate"].as_str().unwrap(), g["mismatches"].to_string())).collect();
        match caught {
            None => {
                assert!(reported.is_empty(), "{name}: {}", run.all());
                let drift = case["gates"].as_array().unwrap().iter().find(|gate| gate["gate"] == "drift");
                let notes = drift.unwrap()["notes"].to_string();
                assert!(
                    notes.contains("drift injected, detected, corrected in 3 objects"),
                    "{name}: {notes}"
                );
            }
            Some((gate, words)) => assert!(
                reported.iter().any(|(name, text)| name == gate && text.contains(words)),
                "{name}: {gate} does not say {words:?}: {reported:?}"
            ),
        }
    }
}
