//! Roles of the cluster that wait for what roles on hosts bring about.

use crate::{Lab, says_all};
use std::time::{Duration, Instant};

/// On the host: brings about what the cluster's role waits for.
const BRINGS: &str = "
resources:
  - name: the sign
    command:
      run: |
        export KUBECONFIG=/etc/kubernetes/admin.conf PATH=$PATH:/run/lab
        kubectl create configmap sign --from-literal=state=ready && touch /srv/sign
      creates: /srv/sign
";

/// On the cluster. Each wait stands still for ten minutes at most.
const WAITS: &str = r#"
scope: cluster
after: [brings]
resources:
  - name: the sign is there
    k8s_wait: {target: {apiVersion: v1, kind: ConfigMap, namespace: default, name: sign}, jsonpath: "{.data.state}", equals: ready, timeout: 600}
  - name: what comes after it
    k8s_object: {apiVersion: v1, kind: ConfigMap, metadata: {name: after-sign, namespace: default}, data: {a: b}}
  - name: the sign is there yet
    k8s_wait: {target: {apiVersion: v1, kind: ConfigMap, namespace: default, name: sign}, jsonpath: "{.data.state}", equals: ready, timeout: 600}
"#;

/// A plan does not stand still for what only the apply of another target brings about; the wait is resolved when that is done. Once nothing is to
/// be done before it, the plan looks.
#[test]
fn a_wait_behind_a_role_of_a_host_is_deferred() {
    let lab = Lab::get();
    lab.role("waits", WAITS);
    lab.world.write("roles/brings/role.yaml", BRINGS).unwrap();
    lab.world.write("playbooks/site.yaml", "- hosts: lab\n  roles: [brings, waits]\n").unwrap();
    let begun = Instant::now();
    let plan = lab.plan().expect(2);
    assert!(begun.elapsed() < Duration::from_secs(300), "the plan stood still for a wait of ten minutes");
    says_all(&plan, &["? the sign is there", "role `brings` on", "comes first"]);
    lab.converge(&["drift", "hosts.yaml"]).expect(2).says("role `brings` on");
    says_all(&lab.apply().expect(0), &["create configmap default/after-sign"]);
    lab.plan().expect(0).says("nothing to change");
    lab.kubectl(&["delete", "configmap", "sign", "after-sign"]);
}
