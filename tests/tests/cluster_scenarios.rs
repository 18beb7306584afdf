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
",
        None,
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
    // A controller makes a claim for it, and nobody takes it away.
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
        let told: Vec<(&str, String)> =
            failed.iter().map(|g| (g["gate"].as_str().unwrap(), g["mismatches"].to_string())).collect();
        match caught {
            None => assert!(told.is_empty(), "{name}: {}", run.all()),
            Some((gate, words)) => assert!(
                told.iter().any(|(name, text)| name == gate && text.contains(words)),
                "{name}: {gate} does not say {words:?}: {told:?}"
            ),
        }
    }
}
