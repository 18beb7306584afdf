//! Taints and cordons in a rollback: a Job of a chart that goes must find a node.

use crate::{Lab, says_all};
use converge_lab::kube::NodeSpec;
use serde_json::Value;

/// As the prune Job of node feature discovery: `helm uninstall` waits for it. It tolerates nothing, and runs on the nodes of this test alone.
const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-prune
  annotations: {helm.sh/hook: post-delete, helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"}
spec:
  template: {spec: {restartPolicy: Never, nodeSelector: {machine: {{ .Release.Namespace }}}, containers: [{name: c, image: x}]}}
"#;

/// The only machine of a cluster: its own taint goes before the release comes, another comes after it.
const ROLES: &str = r#"
scope: cluster
inputs:
  closed: {type: bool, default: true}
resources:
  - name: takes pods
    node: {name: NODE, labels: {open: "yes"}, taints: [{key: control-plane, effect: NoSchedule, state: absent}]}
  - name: release
    helm_release: {name: r, namespace: NODE, folder: hooked, create_namespace: true, timeout: 60}
  - name: labels
    when: closed
    node: {name: NODE, labels: {role: ai}}
  - name: taints
    when: closed
    node: {name: NODE, taints: [{key: workload, value: ai, effect: NoSchedule}]}
"#;

/// In one run, or in two: the taint goes first, then the release, whose Job runs on the node, then the taint of before comes back. A prune does the same.
#[test]
fn a_taint_goes_before_a_release_whose_job_needs_the_node() {
    let lab = Lab::get();
    let folder = lab.world.dir().join("roles/admitted/files/hooked");
    for (round, verbs) in [&["apply"][..], &["apply", "apply"]].iter().enumerate() {
        let node = lab.api.nodes(&NodeSpec::new(format!("machine{round}"), 1)).unwrap().remove(0);
        lab.kubectl(&["label", "node", &node, &format!("machine={node}")]);
        lab.kubectl(&["taint", "node", &node, "control-plane=:NoSchedule"]);
        lab.role("admitted", &ROLES.replace("NODE", &node));
        std::fs::create_dir_all(folder.join("templates")).unwrap();
        std::fs::write(folder.join("Chart.yaml"), "{apiVersion: v2, name: hooked, version: 1.0.0}\n")
            .unwrap();
        std::fs::write(folder.join("templates/job.yaml"), JOB).unwrap();
        lab.forget_records();
        for (number, verb) in verbs.iter().enumerate() {
            let closed = format!("closed={}", number + 1 == verbs.len());
            lab.converge(&[verb, "--yes", "hosts.yaml", "--set", &closed]).expect(0);
        }
        let spec = |pointer: &str| lab.value(&["node", &node], pointer);
        let taints = || -> Vec<String> {
            let taints = spec("/spec/taints").and_then(|t| t.as_array().cloned()).unwrap_or_default();
            taints.iter().filter_map(|t| t["key"].as_str().map(str::to_owned)).collect()
        };
        assert_eq!(taints(), ["workload"]);
        let back = lab.converge(&["rollback", "--yes", "hosts.yaml", "--to", &lab.oldest_run()]).expect(0);
        assert_eq!(taints(), ["control-plane"], "{}", back.all());
        let label = |name: &str| spec(&format!("/metadata/labels/{name}"));
        assert_eq!((label("open"), label("role")), (None, None), "{}", back.all());
        assert_eq!(label("machine"), Some(Value::from(node.as_str())));
        assert!(lab.value(&["secret", "-n", &node, "sh.helm.release.v1.r.v1"], "/metadata").is_none());
        says_all(&lab.converge(&["rollback", "--yes", "hosts.yaml"]), &["no host has a run to roll back"]);

        // The same by a prune.
        lab.apply().expect(0);
        lab.role("admitted", "scope: cluster\nresources: []\n");
        lab.converge(&["apply", "--yes", "--prune=3", "hosts.yaml"]).expect(0);
        assert_eq!(taints(), ["control-plane"]);
        assert_eq!((label("open"), label("role")), (None, None));
        assert!(lab.value(&["secret", "-n", &node, "sh.helm.release.v1.r.v1"], "/metadata").is_none());
        lab.plan().expect(0);
        lab.kubectl(&["delete", "node", &node]);
        lab.kubectl(&["delete", "namespace", &node, "--wait=false"]);
    }
}
