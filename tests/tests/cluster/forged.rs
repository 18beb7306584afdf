//! Records that a host's root has forged.

use crate::Lab;
use converge_lab::kube::NodeSpec;
use converge_tests::exec;
use serde_json::{Value, json};

/// One change, so that the host has a record of a run.
const ROLE: &str =
    "resources:\n  - name: a file\n    file: {path: /etc/worker, content: \"{{ inventory_hostname }}\\n\"}\n";

/// The host was made a worker through h1, by the name of another node.
const CLAIM: &str = "\
begin\\t9\\tkubeadm\\tnode\\tabsent\\tworker 127.0.0.1:6443\\twork/node\\t-\\n\
back\\t9\\th1\\tvictim-1\\n\
owns\\t9\\twork\\n\
done\\t9\\tworker 127.0.0.1:6443\\n";

/// A rollback lets the node go that the host calls its own: the API must say that this node is the host. A name in the host's records and a kubeconfig
/// on it are claims of whoever is root there.
#[test]
fn a_host_that_calls_another_node_its_own_takes_nothing_from_it() {
    let lab = Lab::get();
    let control = &lab.world.hosts()[0];
    let worker = lab.world.lab().start_hosts(&["worker"]).unwrap().remove(0);
    let address = worker.address().to_string();
    let inventory = lab.world.inventory("");
    let ssh: String =
        inventory.lines().filter(|l| l.contains("ansible_ssh_")).map(|l| format!("{l}\n")).collect();
    let workers = format!(
        "workers:\n  hosts:\n    worker: {{ansible_host: {address}}}\n  vars:\n    ansible_user: root\n{ssh}"
    );
    lab.world.write("hosts.yaml", &format!("{inventory}{workers}")).unwrap();
    lab.role("work", ROLE);
    lab.world.write("playbooks/site.yaml", "- hosts: all\n  roles: [work]\n").unwrap();
    // Files that kubeadm leaves on a control plane beside the kubeconfig.
    exec(
        control,
        "mkdir -p /etc/kubernetes/manifests && : >/etc/kubernetes/manifests/kube-apiserver.yaml && \
         ln -s /run/lab/kubectl /usr/local/bin/kubectl",
    );
    for (name, at) in [("victim", "192.0.2.9"), ("own", address.as_str())] {
        let node = lab.api.nodes(&NodeSpec::new(name, 1)).unwrap().remove(0);
        let addresses = json!({"addresses": [{"type": "InternalIP", "address": at}, {"type": "Hostname", "address": node}]});
        lab.api.patch_status(&[&node], &addresses).unwrap();
    }
    lab.converge(&["apply", "--yes", "hosts.yaml", "--limit", "worker"]).expect(0);
    let journal = "/var/lib/converge/runs/*/journal";
    exec(
        &worker,
        &format!(
            "printf '{CLAIM}' >/run/claim && sed -i -e '/^close/{{e cat /run/claim' -e '}}' {journal} && grep -q victim-1 {journal} && \
             mkdir -p /etc/kubernetes && printf 'clusters:\\n- cluster:\\n    server: https://127.0.0.1:6443\\n' >/etc/kubernetes/kubelet.conf && \
             printf '#!/bin/sh\\nrm -r /etc/kubernetes\\n' >/usr/local/bin/kubeadm && chmod 755 /usr/local/bin/kubeadm"
        ),
    );
    let back = || {
        let arguments =
            ["rollback", "--yes", "hosts.yaml", "--limit", "worker", "--allow-destroy", "kubeadm:node"];
        lab.converge(&arguments)
    };
    let refused = back().expect(1);
    refused.says("the node victim-1 has the addresses 192.0.2.9").says("the node is left alone");
    assert_eq!(lab.value(&["node", "victim-1"], "/spec/unschedulable"), None, "it was cordoned");
    let marks = lab.value(&["node", "victim-1"], "/metadata/annotations").unwrap_or(Value::Null);
    assert!(!marks.to_string().contains("converge/"), "{marks}");
    exec(&worker, "test -e /etc/kubernetes/kubelet.conf");
    // The node that is the host, under another name than the inventory's, goes.
    exec(&worker, &format!("sed -i 's/victim-1/own-1/' {journal}"));
    back().expect(0).says("h1 drains and deletes the node own-1");
    assert!(lab.api.get(&["node", "own-1"]).is_err() && lab.api.get(&["node", "victim-1"]).is_ok());
    exec(&worker, "test ! -e /etc/kubernetes");
    exec(control, "rm -r /etc/kubernetes/manifests /usr/local/bin/kubectl");
    lab.kubectl(&["delete", "node", "victim-1"]);
    lab.world.write("hosts.yaml", &inventory).unwrap();
}
