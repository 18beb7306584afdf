//! The role `k8s`: from bare hosts to a kubeadm cluster of real parts, and the failures that may occur.

use converge_lab::Host;
use converge_lab::kube::{Part, ensure, versions};
use converge_tests::kubeadm::Cluster;
use converge_tests::{Error, exec, snaps, until};
use serde_json::json;
use std::time::{Duration, Instant};

fn started(host: &Host) -> String {
    exec(host, "systemctl show containerd -p ActiveEnterTimestampMonotonic -p MainPID")
}

/// One cluster for all of it: making one is what takes the time.
#[test]
fn bare_hosts_become_a_cluster_and_stay_one() {
    let cluster = Cluster::new("k8s", 3);
    let (one, two, three) = (cluster.host(1), cluster.host(2), cluster.host(3));
    let run = |arguments: &[&str]| cluster.world.converge(arguments).unwrap();
    let both: &[&str] = &["hosts.yaml", "--limit", "h1,h2"];
    let with = |first: &[&'static str], rest: &[&'static str]| [first, both, rest].concat();
    // Another network takes kube-proxy's place.
    let etcd = json!({"local": {"imageTag": format!("{}-0", versions::ETCD)}});
    cluster.write_inventory(&json!({"k8s_cluster": {"etcd": etcd, "proxy": {"disabled": true}}}));

    // The plan on bare hosts names all of it, and what waits for what.
    let plan = run(&with(&["plan"], &[])).expect(2);
    let plan = plan
        .says("make the host a control plane of the cluster at")
        .says("note: asks h1 for a join token when its turn comes")
        .says("`--allow-destroy kubeadm:node`")
        .says("may bring /etc/containerd/config.toml");
    assert!(!plan.all().contains("wrong"), "{}", plan.all());

    // The control plane's power is cut in the middle of its init.
    let mut apply = cluster.world.command(&with(&["apply"], &["--yes"])).unwrap();
    let reply = std::fs::File::create(cluster.world.dir().join("said")).unwrap();
    let mut apply = apply.stdout(reply.try_clone().unwrap()).stderr(reply).spawn().unwrap();
    let manifest = one.root_dir().join("etc/kubernetes/manifests/kube-apiserver.yaml");
    let end = Instant::now() + Duration::from_secs(600);
    while !manifest.exists() {
        let ended = apply.try_wait().unwrap();
        let reply = || std::fs::read_to_string(cluster.world.dir().join("said")).unwrap();
        assert!(ended.is_none() && Instant::now() < end, "there is no init ({ended:?}): {}", reply());
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(700));
    one.kill().unwrap();
    assert!(!apply.wait().unwrap().success());
    one.start().unwrap();
    one.wait_until_ready().unwrap();
    run(&with(&["plan"], &[]))
        .expect(2)
        .says("an init was begun here and did not end: it goes on with what is there");

    let made = run(&with(&["apply"], &["--yes"])).expect(0);
    until("two nodes", 120, || cluster.is_ready("h1") && cluster.is_ready("h2"));
    run(&with(&["plan"], &[])).expect(0).says("nothing to change");
    run(&with(&["verify"], &[])).expect(0);
    let kube_system = cluster.kubectl("-n kube-system get daemonsets,configmaps,pods -o name");
    assert!(kube_system.contains("coredns") && !kube_system.contains("kube-proxy"), "{kube_system}");

    // The token was nowhere but in memory.
    let tokens = exec(
        one,
        "kubeadm --kubeconfig /etc/kubernetes/admin.conf token list -o 'jsonpath={.token}{\"\\n\"}'",
    );
    let secrets: Vec<&str> =
        tokens.lines().filter_map(|token| token.split_once('.')).map(|(_, s)| s).collect();
    assert!(!secrets.is_empty(), "{tokens}");
    for secret in secrets {
        assert!(!made.all().contains(secret), "a token was shown");
        let found =
            two.exec(&format!("grep -rl {secret} /etc /run /var/lib/converge /var/log 2>/dev/null")).unwrap();
        assert_eq!(found.stdout, "", "a token stayed on h2");
    }

    // Another user writes in containerd's configuration: nothing is to be done, and nothing restarts.
    let toolkit = ensure(&[Part::Toolkit]).unwrap().program("nvidia-ctk").unwrap();
    two.exec_with_input(
        "cat > /usr/local/bin/nvidia-ctk && chmod 755 /usr/local/bin/nvidia-ctk",
        &std::fs::read(toolkit).unwrap(),
    )
    .unwrap();
    let (before, began) = (exec(two, "sha256sum /etc/containerd/config.toml"), started(two));
    exec(two, "nvidia-ctk runtime configure --runtime=containerd");
    assert_ne!(exec(two, "sha256sum /etc/containerd/config.toml"), before);
    let driver =
        "awk '/runtimes.nvidia.options/ { own = 1 } own && $1 == \"SystemdCgroup\" { print $3; exit }'";
    assert_eq!(
        exec(two, &format!("{driver} /etc/containerd/conf.d/99-nvidia.toml")),
        "true",
        "it copied runc's options"
    );
    run(&with(&["plan"], &[])).expect(0);
    run(&with(&["apply"], &["--yes"])).expect(0);
    assert_eq!(started(two), began, "containerd was restarted");

    // Drift of files, of a hold and of a unit is detected and corrected; containerd restarts for its own fields.
    exec(
        two,
        "sed -i 's/pause:[0-9.]*/pause:1/' /etc/containerd/config.toml; rm /etc/crictl.yaml; systemctl stop kubelet; apt-mark unhold kubelet",
    );
    run(&with(&["plan"], &[]))
        .expect(2)
        .says("pause:1")
        .says("create file /etc/crictl.yaml")
        .says("start kubelet.service");
    run(&with(&["apply"], &["--yes"])).expect(0);
    run(&with(&["plan"], &[])).expect(0);
    // A configuration that containerd refuses is never installed.
    exec(two, "printf '[plugins.x]\\nbad = ' >> /etc/containerd/conf.d/50-bad.toml");
    exec(two, "sed -i 's/pause:[0-9.]*/pause:1/' /etc/containerd/config.toml");
    run(&with(&["apply"], &["--yes"])).expect(1);
    assert_eq!(exec(two, "grep -c pause:1 /etc/containerd/config.toml"), "1");
    exec(two, "rm /etc/containerd/conf.d/50-bad.toml");
    run(&with(&["apply"], &["--yes"])).expect(0);

    // A worker comes later, with nothing else in the run.
    let later = ["apply", "hosts.yaml", "--limit", "h3", "--yes"];
    run(&later).expect(0);
    until("the third node", 120, || cluster.is_ready("h3"));

    // A rollback without `--allow-destroy` does not remove it from the cluster, nor its packages.
    let refused = run(&["rollback", "hosts.yaml", "--limit", "h3"]);
    let refused = refused
        .says("`--allow-destroy kubeadm:node` allows it")
        .says("is not reverted, so nothing that belongs to it is reverted either");
    assert_ne!(refused.code, Some(0));
    exec(three, "systemctl is-active kubelet && test -e /etc/cni/net.d/10-bridge.conflist");
    run(&["rollback", "hosts.yaml", "--limit", "h3", "--yes", "--allow-destroy", "kubeadm:node"]).expect(0);
    assert!(!three.exec("command -v kubeadm || ls /etc/kubernetes/kubelet.conf").unwrap().success());
    assert_eq!(cluster.kubectl("get nodes -o 'jsonpath={.items[*].metadata.name}'"), "h1 h2");

    // A host of another cluster is left alone.
    exec(
        three,
        "mkdir -p /etc/kubernetes && printf 'clusters:\\n- cluster:\\n    server: https://10.9.9.9:6443\\n' > /etc/kubernetes/kubelet.conf",
    );
    run(&["plan", "hosts.yaml", "--limit", "h3"]).expect(1).says("part of another cluster, 10.9.9.9:6443");
    exec(three, "rm -r /etc/kubernetes");

    // Nobody waits longer than that for a token of a host that cannot give one.
    cluster.write_inventory(&json!({"k8s_wait_seconds": 10}));
    one.cut().unwrap();
    run(&later).expect(1).says("h1 did not provide a join token");
    one.heal().unwrap();

    // Two minor versions at a time are refused before anything is done.
    cluster.write_inventory(&json!({"k8s_version": "1.38.0"}));
    run(&["plan", "hosts.yaml", "--limit", "h2"]).expect(1).says("one minor version at a time");

    // The control plane is not reset as long as its etcd cannot be saved.
    cluster.write_inventory(&json!({}));
    let runs =
        run(&["snapshots", "hosts.yaml", "--limit", "h1", "--output", "json"]).expect(0).json().unwrap();
    let first = runs.pointer("/hosts/0/runs").and_then(|runs| runs.as_array()?.last()?.get("run")?.as_str());
    let reset = [
        "rollback",
        "hosts.yaml",
        "--to",
        first.unwrap(),
        "--limit",
        "h1",
        "--yes",
        "--allow-destroy",
        "kubeadm:node",
    ];
    exec(one, "systemctl stop kubelet && pkill -KILL -x etcd");
    run(&reset)
        .expect(1)
        .says("no container of etcd runs here")
        .says("`--allow-destroy etcd:data` goes on without it");
    exec(one, "test -e /etc/kubernetes/admin.conf && test -d /var/lib/etcd/member");
    assert!(cluster.snapshots().is_empty());
    // With the option, the rollback leads to the bare host, and a snapshot of etcd is on the controller. The kubelet starts
    // etcd only with the host: the API server that is left has no answer for it.
    one.reboot().unwrap();
    until("the API", 120, || cluster.says("get --raw /readyz", "ok"));
    run(&reset).expect(0).says("snapshot of etcd: ");
    assert_eq!(cluster.snapshots().len(), 1);
    let left = "command -v kubeadm; ls -d /etc/kubernetes/admin.conf /var/lib/etcd/member 2>/dev/null; true";
    assert_eq!(exec(one, left), "");
}

/// The role `k8s_snap`: a snap in the layout of the real one around kubeadm, kubelet and containerd, installed by Debian's snapd where the kernel lets it
/// mount snaps, and else unpacked without it.
#[test]
fn the_snap_makes_a_cluster_of_bare_hosts() {
    let cluster = Cluster::new("k8s-snap", 3);
    let (one, two, three) = (cluster.host(1), cluster.host(2), cluster.host(3));
    let by_snapd = std::thread::scope(|scope| {
        [one, two, three]
            .map(|host| scope.spawn(|| cluster.offer_snap(host).unwrap()))
            .map(|offered| offered.join().unwrap())
    });
    cluster.write_snap_inventory("snap.yaml", &[1, 3], &[2]);
    let run = |arguments: &[&str]| cluster.world.converge(arguments).unwrap();
    let kubectl = |what: &str| {
        let program = "/snap/k8s/current/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf";
        one.exec(&format!("{program} {what}")).unwrap().stdout.trim().to_owned()
    };
    run(&["plan", "snap.yaml"])
        .expect(2)
        .says("snap install k8s (1.36-classic/stable)")
        .says("make the host a control plane of a cluster of the snap k8s")
        .says("note: asks h1 for a join token when its turn comes")
        .says("`--allow-destroy k8s_snap:node`");
    let made = run(&["apply", "snap.yaml", "--yes"]).expect(0);
    let nodes = || kubectl("get nodes -o 'jsonpath={.items[*].metadata.name}'");
    assert_eq!(nodes(), "h1 h2 h3");
    let planes =
        "get nodes -l node-role.kubernetes.io/control-plane= -o 'jsonpath={.items[*].metadata.name}'";
    assert_eq!(kubectl(planes), "h1 h3");
    run(&["plan", "snap.yaml"]).expect(0).says("nothing to change");
    run(&["verify", "snap.yaml"]).expect(0);
    let roots =
        "test -d /var/lib/containerd/k8s-containerd/run/containerd && ! systemctl is-active -q containerd";
    exec(two, roots);
    if by_snapd == [true; 3] {
        for host in [one, two, three] {
            assert_eq!(snaps::row(host, "k8s"), "k8s v1.36.2 x1 1.36-classic/stable - classic,held");
            exec(
                host,
                "mountpoint -q /snap/k8s/x1 && systemctl cat snap.k8s.containerd | grep -qx 'ExecStart=/usr/bin/snap run k8s.containerd'",
            );
        }
    }

    // A token is in no output, on no command line, and in no file but that of the stand-in.
    for host in [two, three] {
        let token = exec(host, "cat /run/k8s-snap-token");
        assert!(token.len() > 60 && !made.all().contains(token.trim()), "a token was shown");
        let lines = exec(host, "cat /run/k8s-snap-seen");
        assert!(lines.contains("/k8sd/cluster/join") && !lines.contains(token.trim()), "{lines}");
        let found = host
            .exec(&format!("grep -rlF '{}' /etc /var/lib/converge /var/log /run/converge*", token.trim()));
        assert_eq!(found.unwrap().stdout, "", "a token stayed on {}", host.name());
        assert_eq!(exec(host, "cat /run/k8s-snap-address"), format!("{}:6400", host.address()));
    }

    // Drift of the drop-in is named, and containerd restarts with it.
    let drop_in = "/etc/containerd/conf.d/00-k8s-runc.toml";
    exec(two, &format!("mv {drop_in} /root/kept"));
    run(&["plan", "snap.yaml"])
        .expect(2)
        .says(&format!("create file {drop_in}"))
        .says("restart snap.k8s.containerd");
    exec(two, &format!("mv /root/kept {drop_in}"));
    // The file is as it was: nothing is to be done.
    run(&["plan", "snap.yaml"]).expect(0);

    // A rollback without `--allow-destroy` takes neither the node nor its snap.
    let refused = run(&["rollback", "snap.yaml", "--limit", "h2"]);
    assert_ne!(refused.code, Some(0));
    refused.says("`--allow-destroy k8s_snap:node` allows it");
    exec(two, "systemctl is-active snap.k8s.kubelet && snap list k8s");
    let go = |host: &str| {
        let allowed = ["--allow-destroy", "k8s_snap:node", "--allow-destroy", "snap:k8s"];
        run(&[&["rollback", "snap.yaml", "--limit", host, "--yes"], &allowed[..]].concat()).expect(0)
    };
    go("h2");
    assert_eq!(nodes(), "h1 h3");
    let left = "ls -d /snap/k8s /var/snap/k8s /etc/kubernetes/*.conf /etc/containerd/conf.d/* 2>/dev/null; snap list k8s 2>/dev/null; true";
    assert_eq!(exec(two, left), "");
    // A control plane goes as a worker does, and the other one serves on.
    go("h3");
    assert_eq!(exec(three, left), "");
    until("the API of the first", 120, || nodes() == "h1");
    go("h1");
    assert_eq!(exec(one, left), "");
}

/// The control plane is a host of rpm, the worker one of Debian.
#[test]
fn hosts_of_rpm_and_of_apt_become_one_cluster() {
    let cluster = Cluster::new("k8s-rpm", 2);
    let one = cluster.host(1);
    let packages = cluster.become_rpm(one).unwrap();
    cluster.write_inventory_of(&[1], &json!({}), &json!({"h1": packages}));
    let run = |arguments: &[&str]| cluster.world.converge(arguments).unwrap();
    // `kubeadm reset` leaves its folders, empty.
    let shown = "rpm -qa 'kube*' 'containerd*' '*versionlock' | sort; sort /etc/dnf/plugins/versionlock.list; ls /etc/yum.repos.d /etc/containerd 2>&1; \
                 find /etc/kubernetes ! -type d 2>/dev/null | sort; true";
    let before = exec(one, shown);
    run(&["plan", "hosts.yaml"]).expect(2).says("make the host a control plane of the cluster at");
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    until("two nodes", 120, || cluster.is_ready("h1") && cluster.is_ready("h2"));
    run(&["plan", "hosts.yaml"]).expect(0).says("nothing to change");
    run(&["verify", "hosts.yaml"]).expect(0);
    let made = exec(one, shown);
    for text in
        ["kubelet-0:1.36.2-150500.1.1.*", "containerd.io-0:2.2.9-1.el9.*", "kubernetes.repo", "admin.conf"]
    {
        assert!(made.contains(text), "{text}: {made}");
    }

    // Drift of a lock and of the unit is detected and corrected.
    exec(one, "dnf -q versionlock delete kubelet; systemctl stop kubelet");
    run(&["plan", "hosts.yaml"]).expect(2).says("kubelet").says("start kubelet.service");
    run(&["apply", "hosts.yaml", "--yes"]).expect(0);
    assert_eq!(exec(one, shown), made);

    // The correction goes back with the run before it: alone, it would bring back what somebody has made of the lock.
    let all = run(&["snapshots", "hosts.yaml", "--output", "json", "--limit", "h1"]).json().unwrap();
    let runs = all["hosts"][0]["runs"].as_array().unwrap();
    let first = runs.last().unwrap()["run"].as_str().unwrap().to_owned();
    for host in ["h2", "h1"] {
        let to = ["--to", &first, "--allow-destroy", "kubeadm:node"];
        run(&[&["rollback", "hosts.yaml", "--yes", "--limit", host], &to[..]].concat()).expect(0);
    }
    assert_eq!(exec(one, shown), before);
}

/// A `dd` that loses what it reads of a snapshot.
const TORN: &str = r#"
printf '#!/bin/sh\ncase "$*" in *converge-snapshot*) set -- "$@" count=0 ;; esac\nexec /usr/bin/dd "$@"\n' >/usr/local/sbin/dd &&
  chmod 755 /usr/local/sbin/dd
"#;

/// A pod on h2 whose budget forbids any eviction.
const HELD: &str = r#"
{apiVersion: apps/v1, kind: Deployment, metadata: {name: held}, spec: {replicas: 1, selector: {matchLabels: {app: held}},
 template: {metadata: {labels: {app: held}}, spec: {terminationGracePeriodSeconds: 1, containers: [
  {name: c, image: "lab.local/busybox:1", imagePullPolicy: IfNotPresent, command: [sleep, "100000"]}]}}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: held}, spec: {minAvailable: 1, selector: {matchLabels: {app: held}}}}
"#;

#[test]
fn a_minor_version_goes_over_the_control_plane_first_then_over_drained_workers() {
    let cluster = Cluster::with_older("k8s-older", 2);
    let (one, two) = (cluster.host(1), cluster.host(2));
    let run = |arguments: &[&str]| cluster.world.converge(arguments).unwrap();
    let apply = || run(&["apply", "hosts.yaml", "--yes"]);
    let shows = |first: &str, second: &str| {
        let kubelets = "get nodes -o 'jsonpath={.items[*].status.nodeInfo.kubeletVersion}'";
        cluster.says(kubelets, &format!("v{first} v{second}"))
    };
    let takes_pods = || cluster.says("get node h2 -o 'jsonpath={.spec.unschedulable}'", "");
    let (older, newer) = (versions::KUBERNETES_OLDER, versions::KUBERNETES);

    // A worker is never newer than its control plane.
    cluster.write_inventory_of(&[1], &cluster.older(), &json!({"h2": {"k8s_version": newer}}));
    run(&["plan", "hosts.yaml", "--limit", "h2"]).expect(1).says("the control plane comes first");

    cluster.write_inventory(&cluster.older());
    apply().expect(0);
    until("two nodes", 120, || cluster.is_ready("h1") && cluster.is_ready("h2"));
    assert!(shows(older, older));
    run(&["plan", "hosts.yaml"]).expect(0);
    one.exec_with_input("kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f -", HELD.as_bytes())
        .unwrap();
    let ready = || cluster.says("get deployment held -o 'jsonpath={.status.readyReplicas}'", "1");
    until("the pod", 120, ready);
    let uid = || cluster.kubectl("get pods -l app=held -o 'jsonpath={.items[*].metadata.uid}'");
    let before = uid();

    // A snapshot of etcd that does not come whole is none, without one nothing is upgraded, and the worker does not wait for it.
    cluster.write_inventory(&json!({}));
    let note =
        format!("a snapshot of etcd is brought to {}", cluster.world.dir().join(".local/state").display());
    run(&["plan", "hosts.yaml", "--limit", "h1"])
        .expect(2)
        .says(&format!("kubeadm upgrade apply: from v{older} to v{newer}"))
        .says(&note);
    exec(one, TORN);
    apply().expect(1).says("the snapshot of etcd of h1 could not be copied to this machine: 0 bytes arrived of").says(
        &format!(
            "the cluster has the version v{older}, and v{newer} comes first; this run makes no further request to that host"
        ),
    );
    exec(one, "rm /usr/local/sbin/dd; ! ls /var/lib/etcd/converge-snapshot*");
    exec(one, &format!("grep -q 'kube-apiserver:v{older}$' /etc/kubernetes/manifests/kube-apiserver.yaml"));
    assert!(cluster.snapshots().is_empty() && shows(older, older), "{:?}", cluster.snapshots());

    // The budget holds its pod: the worker keeps its kubelet, and takes pods as before.
    cluster.write_inventory(&json!({"k8s_drain_seconds": 3}));
    run(&["plan", "hosts.yaml"])
        .expect(2)
        .says("the control plane has the version")
        .says("the node is free of pods before its kubelet changes")
        .says("needs drain");
    let held = apply().expect(1).says("h1 did not provide a drain of the node h2: not within 3 s");
    let held = held.says("no eviction is allowed by the budget held").says("it takes pods again");
    assert!(held.all().contains("the pod default/held-"), "{}", held.all());
    until("the first kubelet", 120, || shows(newer, older));
    assert!(takes_pods() && uid() == before);
    // A snapshot of etcd from before the upgrade is here, and nothing of it is there.
    let snapshots = cluster.snapshots();
    let [snapshot] = snapshots.as_slice() else { panic!("{snapshots:?}") };
    let path = snapshot.display().to_string();
    assert!(path.ends_with(&format!("Z-h1-before-v{newer}.db")), "{path}");
    held.says(&format!("snapshot of etcd: {path} (")).says(" keys, checked)");
    let bytes = std::fs::read(snapshot).unwrap();
    let key = b"/registry/deployments/default/held";
    assert!(bytes.windows(key.len()).any(|part| part == key), "it is of another cluster");
    exec(one, "! ls /var/lib/etcd/converge-snapshot* /var/backups/etcd");
    assert!(!two.exec("test -e /var/lib/kubelet/drained-by-converge").unwrap().success());

    // The controller is killed in the drain: the node says whose cordon it is, and the next run completes the upgrade.
    cluster.write_inventory(&json!({"k8s_drain_seconds": 600}));
    let cordon =
        "get node h2 -o 'jsonpath={.spec.unschedulable} {.metadata.annotations.converge/cordoned-to}'";
    cluster.killed_when("the cordon", &["apply", "hosts.yaml", "--yes"], || {
        cluster.says(cordon, "true upgrade")
    });
    assert!(shows(newer, older) && uid() == before, "the drain went on");
    cluster
        .converge_once_free(&["plan", "hosts.yaml"])
        .expect(2)
        .says("cordon and drain the node h2 for the kubelet")
        .says("the node h2 takes pods again");

    cluster.kubectl("delete poddisruptionbudget held");
    cluster.write_inventory(&json!({"k8s_drain_seconds": 120}));
    cluster.converge_once_free(&["apply", "hosts.yaml", "--yes"]).expect(0);
    until("the kubelets", 120, || shows(newer, newer));
    assert!(takes_pods());
    until("the pod again", 120, ready);
    assert_ne!(uid(), before);
    let images =
        cluster.kubectl("-n kube-system get pods -o 'jsonpath={.items[*].spec.containers[*].image}'");
    assert!(images.contains(&format!("kube-apiserver:v{newer}")), "{images}");
    assert!(!images.contains(older), "{images}");
    until("both are Ready", 120, || cluster.is_ready("h1") && cluster.is_ready("h2"));
    let settled = run(&["plan", "hosts.yaml"]).expect(0);
    assert!(!settled.all().contains("orphaned"), "{}", settled.all());

    // Nothing goes back.
    cluster.write_inventory(&cluster.older());
    run(&["plan", "hosts.yaml"]).expect(1).says("and never back");

    the_upgrade_goes_with_the_nodes(&cluster).unwrap();
}

/// A rollback of the run that made the cluster takes its upgrade along, or is refused before anything is destroyed.
fn the_upgrade_goes_with_the_nodes(cluster: &Cluster) -> Result<(), Error> {
    let (one, two) = (cluster.host(1), cluster.host(2));
    let run = |arguments: &[&str]| cluster.world.converge(arguments);
    cluster.write_inventory(&json!({}));
    let listed = run(&["snapshots", "hosts.yaml", "--output", "json"])?.expect(0);
    let runs = listed.json()?;
    let first = |host: usize| {
        let runs = runs.pointer(&format!("/hosts/{host}/runs"))?;
        runs.as_array()?.last()?.get("run")?.as_str()
    };
    assert_eq!(first(0), first(1), "{runs}");
    let back = ["rollback", "hosts.yaml", "--to", first(0).unwrap_or_default(), "--yes"];
    let whole = [back.as_slice(), &["--allow-destroy", "kubeadm:node"]].concat();

    // Without the permission nothing is touched.
    let outside = "dpkg -l kubeadm kubelet kubectl; find /etc/kubernetes /etc/containerd /var/lib/kubelet/config.yaml -type f -exec sha256sum {} +; \
        systemctl show kubelet containerd -p ActiveEnterTimestampMonotonic -p MainPID";
    let before = [exec(one, outside), exec(two, outside)];
    let refused = run(&back)?.says("`--allow-destroy kubeadm:node` allows it");
    assert_ne!(refused.code, Some(0));
    assert_eq!([exec(one, outside), exec(two, outside)], before);
    assert!(cluster.is_ready("h1") && cluster.is_ready("h2"));

    // With it all of it goes, though nothing takes a version back and some commands have no `undo`.
    let gone = run(&whole)?.expect(0).says("snapshot of etcd: ");
    assert!(!gone.all().contains("has no `undo`"), "{}", gone.all());
    let left = "command -v kubeadm kubelet kubectl containerd; ls -d /etc/kubernetes/*.conf /etc/kubernetes/manifests/* \
        /var/lib/etcd/member /var/lib/kubelet/config.yaml /etc/cni/net.d/* 2>/dev/null; true";
    assert_eq!([exec(one, left), exec(two, left)], [String::new(), String::new()]);
    // The same command again finds its run, and nothing to do.
    run(&whole)?.expect(0).says("nothing to change");
    Ok(())
}
