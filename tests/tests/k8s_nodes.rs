//! The life of a cluster's nodes with the role `k8s`: a second control plane, certificates, inputs that change, and node
//! removal.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_lab::kube::{Repositories, pod_routes, versions};
use converge_tests::kubeadm::Cluster;
use converge_tests::{exec, until};
use serde_json::{Value, json};

/// Asks etcd's own gateway on the first host, through kubectl.
const MEMBERS: &str = "cd /etc/kubernetes/pki/etcd && echo '{}' | kubectl --kubeconfig /dev/null --server https://127.0.0.1:2379 \
    --certificate-authority ca.crt --client-certificate healthcheck-client.crt --client-key healthcheck-client.key \
    create --raw /v3/cluster/member/list -f -";

/// A workload of which the only pod may not go.
fn held() -> String {
    let labels = json!({"app": "held"});
    let pod = json!({"containers": [{
        "name": "held", "image": format!("registry.k8s.io/pause:{}", versions::PAUSE), "imagePullPolicy": "IfNotPresent",
    }], "terminationGracePeriodSeconds": 1});
    let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "held"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "stays"}, "spec": {
        "minAvailable": 1, "selector": {"matchLabels": labels},
    }});
    json!({"apiVersion": "v1", "kind": "List", "items": [workload, budget]}).to_string()
}

/// One cluster for all of it: making one is what takes the time.
#[test]
fn certificates_inputs_and_nodes_come_and_go() {
    let cluster = Cluster::new("k8s-nodes", 3);
    let (one, two, three) = (cluster.host(1), cluster.host(2), cluster.host(3));
    let run = |arguments: &[&str]| cluster.world.converge(arguments).unwrap();
    let write = |more: Value, of_hosts: Value| cluster.write_inventory_of(&[1, 2], &more, &of_hosts);
    let etcd = json!({"local": {"imageTag": format!("{}-0", versions::ETCD)}});
    let members = || exec(one, MEMBERS).matches("\"clientURLs\"").count();

    // Two control planes and a worker, in one run.
    let first = json!({"k8s_cluster": {"etcd": etcd, "apiServer": {
        "extraArgs": [{"name": "max-mutating-requests-inflight", "value": "199"}],
    }}});
    write(first.clone(), json!({}));
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    until("three nodes", 120, || ["h1", "h2", "h3"].iter().all(|node| cluster.is_ready(node)));
    assert_eq!(members(), 2);
    // Nor does looking leave anything on control planes: kubectl keeps a cache in the home of its user.
    for host in [one, two, three] {
        exec(host, "rm -rf /root/.kube /.kube");
    }
    run(&["plan", "hosts.yaml"]).expect(0).says("nothing to change");
    for host in [one, two, three] {
        exec(host, "! ls -A -d /root/.kube /.kube 2>/dev/null");
    }
    a_pod_asks_a_service_of_another_node(&cluster);

    // A certificate that ends soon is a fact, a line of doctor, and a renewal.
    let pki = "cd /etc/kubernetes/pki && printf 'extendedKeyUsage=clientAuth\n' >/run/usage && \
        openssl req -new -key front-proxy-client.key -subj /CN=front-proxy-client 2>/dev/null | \
        openssl x509 -req -CA front-proxy-ca.crt -CAkey front-proxy-ca.key -set_serial 7 -days 10 -extfile /run/usage \
            -out front-proxy-client.crt 2>/dev/null";
    exec(one, pki);
    let end = exec(
        one,
        "date -u -d \"$(openssl x509 -noout -enddate -in /etc/kubernetes/pki/front-proxy-client.crt | cut -d= -f2)\" +%FT%TZ",
    );
    run(&["facts", "hosts.yaml", "kubernetes.certificates_end", "--limit", "h1"]).expect(0).says(&end);
    run(&["doctor", "hosts.yaml", "--limit", "h1"]).says("front-proxy-client.crt ends in 9 days");
    run(&["plan", "hosts.yaml"]).expect(2).says(&format!("pki/front-proxy-client.crt ends {end}"));
    let server = "pgrep -x kube-apiserver";
    let before = exec(one, server);
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    assert_ne!(exec(one, server), before, "the API server still runs with the old ones");
    exec(one, "openssl x509 -noout -checkend 30000000 -in /etc/kubernetes/pki/front-proxy-client.crt");
    run(&["plan", "hosts.yaml"]).expect(0);

    // A value that cannot change is an error that names both values.
    let mut moved = first;
    moved["k8s_pod_cidr"] = json!("10.55.0.0/16");
    write(moved, json!({}));
    run(&["plan", "hosts.yaml"]).expect(1).says("10.244.0.0/16").says("10.55.0.0/16").says("cannot change");

    // Other values are planned and changed.
    let changed = json!({
        "k8s_kubelet": {"failCgroupV1": false, "maxPods": 77},
        "k8s_kube_proxy": {"conntrack": {"maxPerCore": 0}, "metricsBindAddress": "0.0.0.0:10249"},
        "k8s_proxy_mode": "iptables",
        "k8s_cluster": {"etcd": etcd, "apiServer": {
            "certSANs": ["api.cluster.example", "192.0.2.7"], "extraArgs": [{"name": "max-requests-inflight", "value": "321"}],
        }, "scheduler": {"extraVolumes": [
            {"name": "notes", "hostPath": "/etc/kubernetes/notes", "mountPath": "/notes", "pathType": "DirectoryOrCreate"},
        ]}},
    });
    write(changed.clone(), json!({}));
    run(&["plan", "hosts.yaml"])
        .expect(2)
        .says("maxPods")
        .says("the API server's names")
        .says("change the configuration of kubeadm in the cluster")
        .says("change the configuration of the kubelets in the cluster")
        .says("metricsBindAddress '' → 0.0.0.0:10249")
        .says("mode '' → iptables");
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    let retained =
        cluster.kubectl("-n kube-system get configmap kubelet-config -o 'jsonpath={.data.kubelet}'");
    assert!(retained.lines().any(|line| line == "maxPods: 77"), "{retained}");
    let listening = "ss -Hltn 'sport = :10249'";
    until("kube-proxy with it", 120, || exec(one, listening).contains("*:10249"));
    until("77 pods", 120, || {
        cluster.kubectl("get nodes -o 'jsonpath={.items[*].status.capacity.pods}'") == "77 77 77"
    });
    for plane in [one, two] {
        let names =
            exec(plane, "openssl x509 -noout -ext subjectAltName -in /etc/kubernetes/pki/apiserver.crt");
        assert!(
            names.contains("DNS:api.cluster.example") && names.contains("IP Address:192.0.2.7"),
            "{names}"
        );
        let arguments = exec(plane, "tr '\\0' '\\n' </proc/$(pgrep -x kube-apiserver)/cmdline");
        assert!(arguments.contains("--max-requests-inflight=321"), "{arguments}");
        assert!(!arguments.contains("--max-mutating"), "what is no longer declared stays: {arguments}");
        exec(plane, "grep -q 'mountPath: /notes' /etc/kubernetes/manifests/kube-scheduler.yaml");
    }
    run(&["plan", "hosts.yaml"]).expect(0);

    // A rollback brings the arguments of before back, and the API server answers when the run ends.
    let manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml";
    // Nothing while the process that was found ends.
    let server = || exec(one, "tr '\\0' '\\n' </proc/$(pgrep -x kube-apiserver)/cmdline || :");
    let mut other = changed.clone();
    other["k8s_cluster"]["apiServer"]["extraArgs"] = json!([{"name": "max-requests-inflight", "value": "333"}, {"name": "min-request-timeout", "value": "1801"}]);
    write(other, json!({}));
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    assert!(server().contains("--max-requests-inflight=333"), "{}", server());
    run(&["rollback", "hosts.yaml", "--yes"]).expect(0);
    assert!(
        server().contains("--max-requests-inflight=321") && !server().contains("--min-request-timeout"),
        "{}",
        server()
    );
    write(changed.clone(), json!({}));
    run(&["plan", "hosts.yaml"]).expect(0).says("nothing to change");

    // A setting that opens the API to everyone, and that nobody has declared, is detected by all commands that read the
    // host, and removed.
    exec(
        one,
        &format!("sed -i 's/--authorization-mode=Node,RBAC/--authorization-mode=AlwaysAllow/' {manifest}"),
    );
    until("the open API server", 120, || server().contains("AlwaysAllow") && cluster.is_ready("h1"));
    run(&["drift", "hosts.yaml", "--limit", "h1"])
        .expect(2)
        .says("the API server's names and the control plane's arguments");
    let reported = run(&["verify", "hosts.yaml", "--limit", "h1"])
        .says("--authorization-mode=AlwaysAllow, which nobody has declared");
    assert_ne!(reported.code, Some(0));
    run(&["doctor", "hosts.yaml", "--limit", "h1"])
        .says("the API server runs with --authorization-mode=AlwaysAllow");
    // A cordon of converge outlives the run that was to drain the node: now the node stays, and takes pods again.
    cluster.kubectl("cordon h3");
    cluster.kubectl("annotate node h3 converge/cordoned-to=leave");
    run(&["apply", "hosts.yaml", "--yes", "--limit", "h3"]).expect(0);
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    assert!(server().contains("--authorization-mode=Node,RBAC"), "{}", server());
    assert!(cluster.says("get node h3 -o 'jsonpath={.spec.unschedulable}'", ""), "it stays cordoned");
    run(&["plan", "hosts.yaml"]).expect(0);

    // A worker leaves: not unless it is allowed, and not while a budget holds a pod.
    one.exec_with_input("kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f -", held().as_bytes())
        .unwrap();
    until("the pod", 120, || {
        cluster.kubectl("get deployment held -o 'jsonpath={.status.availableReplicas}'") == "1"
    });
    let mut quick = changed.clone();
    quick["k8s_leave_timeout"] = json!(5);
    let leave = |host: &'static str| {
        ["apply", "hosts.yaml", "--limit", host, "--yes", "--allow-destroy", "kubeadm:node"]
    };
    // A copied line of the inventory names another host's node: that one stays.
    write(quick.clone(), json!({"h3": {"k8s_state": "absent", "k8s_node_name": "h2"}}));
    run(&leave("h3")).expect(1).says("the node h2 has the addresses").says("the node is left alone");
    assert_eq!(cluster.kubectl("get nodes -o 'jsonpath={.items[*].metadata.name}'"), "h1 h2 h3");
    assert!(cluster.says("get node h2 -o 'jsonpath={.spec.unschedulable}'", ""), "it is cordoned");
    write(quick, json!({"h3": {"k8s_state": "absent"}}));
    let refused = run(&["apply", "hosts.yaml", "--limit", "h3", "--yes"]);
    let refused = refused.says("`--allow-destroy kubeadm:node` allows it");
    assert_ne!(refused.code, Some(0));
    let begun = std::time::Instant::now();
    run(&leave("h3"))
        .expect(1)
        .says("no eviction is allowed by the budget stays")
        .says("it takes pods again");
    assert!(begun.elapsed().as_secs() < 35, "5 s were declared, and it took {:?}", begun.elapsed());
    assert!(cluster.says("get node h3 -o 'jsonpath={.spec.unschedulable}'", ""), "it stays cordoned");
    assert!(cluster.is_ready("h3"), "it was reset");
    cluster.kubectl("delete poddisruptionbudget stays");
    write(changed.clone(), json!({"h3": {"k8s_state": "absent"}}));
    run(&["plan", "hosts.yaml", "--limit", "h3", "--allow-destroy", "kubeadm:node"])
        .expect(2)
        .says("h1 drains and deletes the node h3");
    run(&leave("h3")).expect(0);
    assert_eq!(cluster.kubectl("get nodes -o 'jsonpath={.items[*].metadata.name}'"), "h1 h2");
    assert!(!three.exec("ls /etc/kubernetes/kubelet.conf /etc/cni/net.d/*").unwrap().success());
    run(&["plan", "hosts.yaml"]).expect(0).says("nothing to change");
    a_worker_comes_and_goes(&cluster, &changed);

    // So does a control plane: etcd is back at one member, and the API answers.
    // A snapshot of etcd's earlier content is kept on the controller.
    assert!(cluster.snapshots().is_empty(), "a worker has none");
    write(changed.clone(), json!({"h2": {"k8s_state": "absent"}, "h3": {"k8s_state": "absent"}}));
    run(&["plan", "hosts.yaml", "--limit", "h2", "--allow-destroy", "kubeadm:node"])
        .expect(2)
        .says("a snapshot of etcd of h1 is brought to");
    run(&leave("h2")).expect(0).says("snapshot of etcd: ");
    let snapshots = cluster.snapshots();
    let [snapshot] = snapshots.as_slice() else { panic!("{snapshots:?}") };
    assert!(snapshot.display().to_string().ends_with("Z-h1-before-h2-leaves.db"), "{}", snapshot.display());
    let (bytes, key) = (std::fs::read(snapshot).unwrap(), b"/registry/minions/h2");
    assert!(bytes.windows(key.len()).any(|part| part == key), "it was taken too late");
    assert_eq!(members(), 1);
    assert_eq!(cluster.kubectl("get nodes -o 'jsonpath={.items[*].metadata.name}'"), "h1");
    assert!(!two.exec("ls /etc/kubernetes/admin.conf /etc/kubernetes/manifests/*").unwrap().success());
    cluster.kubectl("create configmap still-there");

    // The last one stays.
    cluster.write_inventory_of(&[1], &changed, &json!({"h1": {"k8s_state": "absent"}}));
    run(&["plan", "hosts.yaml", "--limit", "h1"]).expect(1).says("is the only host of the group");
}

/// By the service's name; and a pod on the node without the API reaches that. The role gives each node a network of its own; the routes between them are the lab's.
fn a_pod_asks_a_service_of_another_node(cluster: &Cluster) {
    let hosts = cluster.world.hosts();
    let cidr =
        |host: &Host| cluster.kubectl(&format!("get node {} -o 'jsonpath={{.spec.podCIDR}}'", host.name()));
    let cidrs: Vec<String> = hosts.iter().map(cidr).collect();
    let nodes: Vec<(&Host, &str)> =
        hosts.iter().zip(&cidrs).map(|(host, cidr)| (host, cidr.as_str())).collect();
    pod_routes(&nodes).unwrap();
    let image = Repositories::BUSYBOX_IMAGE;
    let on = |node: &str| {
        format!(r#"--overrides='{{"spec":{{"nodeName":"{node}","tolerations":[{{"operator":"Exists"}}]}}}}'"#)
    };
    let serves = "mkdir /tmp/w; echo hello > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w";
    let asks =
        "for i in 1 2 3 4 5 6 7 8 9; do timeout 3 wget -qO- http://web && exit 0; sleep 1; done; exit 1";
    // The reply takes the route from a host's own address to a pod's.
    let calls =
        "for i in 1 2 3 4 5 6 7 8 9; do echo | timeout 3 nc 10.96.0.1 443 && exit 0; sleep 1; done; exit 1";
    cluster.kubectl(&format!("run call --image={image} --restart=Never {} -- sh -c '{calls}'", on("h3")));
    cluster.kubectl("wait --for=jsonpath='{.status.phase}'=Succeeded pod/call --timeout=120s");
    cluster.kubectl("-n kube-system rollout status deployment/coredns --timeout=120s");
    cluster.kubectl(&format!(
        "run web --image={image} --port=8080 --labels=app=web {} -- sh -c '{serves}'",
        on("h3")
    ));
    cluster.kubectl("expose pod web --port=80 --target-port=8080");
    cluster.kubectl("wait --for=condition=Ready pod/web --timeout=120s");
    cluster.kubectl(&format!("run ask --image={image} --restart=Never {} -- sh -c '{asks}'", on("h1")));
    cluster.kubectl("wait --for=jsonpath='{.status.phase}'=Succeeded pod/ask --timeout=120s");
    // A question that had to be asked again has left a line of its own.
    assert_eq!(cluster.kubectl("logs ask").lines().last(), Some("hello"));
    cluster.kubectl("delete pod/web pod/ask pod/call service/web --grace-period=1");
}

/// A worker joins by a name of its own, and a role of the cluster labels it in the same run: the plan waits for the node, and the run does not miss
/// it. Then all of it is rolled back.
fn a_worker_comes_and_goes(cluster: &Cluster, inputs: &Value) {
    let run = |arguments: &[&str]| cluster.world.converge(arguments).unwrap();
    let labels = "scope: cluster\nafter: [k8s]\ncheck:\n  - name: they are there\n    for_each: [h2, worker-3]\n    k8s_query: {target: \"node/{{ item }}\"}\n\
        resources:\n  - name: workers\n    node: {name: [h2, worker-3], labels: {example.com/worker: \"true\"}}\n";
    cluster.world.write("roles/labels/role.yaml", labels).unwrap();
    let hosts = "- hosts: k8s_control_plane:k8s_workers\n  roles: [k8s]\n";
    let both = format!("{hosts}- hosts: k8s_control_plane\n  roles: [labels]\n");
    cluster.world.write("playbooks/site.yaml", &both).unwrap();
    // Where nothing brings it, that is a mistake.
    cluster.write_inventory_of(&[1, 2], inputs, &json!({"h3": {"k8s_state": "absent"}}));
    run(&["plan", "hosts.yaml"]).expect(1).says("node worker-3 is not there");
    cluster.write_inventory_of(&[1, 2], inputs, &json!({"h3": {"k8s_node_name": "worker-3"}}));
    run(&["plan", "hosts.yaml"]).expect(2).says("h3 joins the cluster in this run");
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    let label = "-o 'jsonpath={.metadata.labels.example\\.com/worker}'";
    assert_eq!(cluster.kubectl(&format!("get node worker-3 {label}")), "true");
    run(&["plan", "hosts.yaml"]).expect(0).says("nothing to change");
    // The rollback of a join is a leave: the cluster removes the node before it is reset.
    let labelled = format!("get node h2 {label}");
    run(&["rollback", "hosts.yaml", "--yes"]).says("`--allow-destroy kubeadm:node` allows it");
    let three = &cluster.world.hosts()[2];
    exec(three, "systemctl is-active kubelet && test -e /etc/cni/net.d/10-bridge.conflist");
    let back = run(&["rollback", "hosts.yaml", "--yes", "--allow-destroy", "kubeadm:node"]);
    back.expect(0).says("h1 drains and deletes the node worker-3");
    assert_eq!(cluster.kubectl("get nodes -o 'jsonpath={.items[*].metadata.name}'"), "h1 h2");
    assert!(cluster.says(&labelled, ""), "the label stays");
    assert!(!three.exec("ls /etc/kubernetes/kubelet.conf /etc/cni/net.d/*").unwrap().success());
    cluster.world.write("playbooks/site.yaml", hosts).unwrap();
}
