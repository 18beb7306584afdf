use super::*;
use crate::testing::{TestShell, fake_tool, shells};
use converge_resource::{State, quote};
use std::path::Path;

/// A stand-in for kubeadm that makes and removes its files and logs its arguments. A file `fail` makes it fail.
const KUBEADM: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/log"
case $*:$(cat "$here/fail" 2>/dev/null) in reset*:late) rm -rf "$CV_KUBE_DIR/pki" ;; esac
[ ! -e "$here/fail" ] || { echo "no: $(cat "$here/secret" 2>/dev/null)"; exit 1; }
case $* in
*'token create'*) echo 'abcdef.0123456789abcdef' ;;
init*)
  mkdir -p "$CV_KUBE_DIR/manifests" "$CV_KUBE_DIR/pki"
  printf '    server: https://10.0.0.1:6443\n    certificate-authority-data: Q0E=\n' >"$CV_KUBE_DIR/admin.conf"
  cp "$CV_KUBE_DIR/admin.conf" "$CV_KUBE_DIR/kubelet.conf"
  : >"$CV_KUBE_DIR/manifests/kube-apiserver.yaml" ; : >"$CV_KUBE_DIR/pki/ca.crt"
  ;;
join*)
  cp "$CV_KUBE_RUN/discovery.conf" "$here/discovery"; cp "$CV_KUBE_RUN/join.yaml" "$here/join"
  echo 'the token abcdef.0123456789abcdef is fine'
  mkdir -p "$CV_KUBE_DIR/pki"; : >"$CV_KUBE_DIR/pki/ca.crt"
  printf '    server: "https://10.0.0.1:6443/"\n' >"$CV_KUBE_DIR/kubelet.conf"
  ;;
reset*) rm -rf "$CV_KUBE_DIR" ;;
esac
"#;

/// A stand-in for systemctl: the kubelet runs. A file `broken` keeps it from starting.
const SYSTEMCTL: &str = r#"#!/bin/sh
here=${0%/*}
case $1 in
show) echo MainPID=7 ;;
restart) [ ! -e "$here/broken" ] || exit 1; echo "$*" >>"$here/restarts" ;;
esac
"#;

struct FakeHost<'a> {
    shell: &'a TestShell,
    root: tempfile::TempDir,
    tools: String,
}

impl FakeHost<'_> {
    fn vars(&self) -> String {
        let root = self.root.path().display();
        format!(
            "PATH={}:$PATH CV_KUBE_DIR={root}/kubernetes CV_KUBE_RUN={root}/run CV_CNI_DIR={root}/cni; export PATH CV_KUBE_DIR CV_KUBE_RUN; ",
            quote(&self.tools)
        )
    }

    fn good(&self, script: &str, stdin: &str) -> String {
        self.shell.good(self.root.path(), &format!("{}{script}", self.vars()), &[], stdin.as_bytes())
    }

    fn run(&self, script: &str) -> (i32, String) {
        let output = self.shell.run(self.root.path(), &format!("{}{script}", self.vars()), &[], b"");
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap(), text)
    }

    fn line(&self) -> String {
        self.good("cv_line_kubeadm node", "").trim_end().to_owned()
    }

    fn tool(&self, name: &str) -> String {
        std::fs::read_to_string(Path::new(&self.tools).join(name)).unwrap_or_default()
    }
}

fn every_host(test: impl Fn(&FakeHost<'_>)) {
    let dir = tempfile::tempdir().unwrap();
    for shell in shells(dir.path()) {
        let root = tempfile::tempdir().unwrap();
        let tools = fake_tool(root.path(), "kubeadm", KUBEADM);
        test(&FakeHost { shell: &shell, root, tools });
    }
}

const INIT: &str = "CV_KUBEADM_HOW=init CV_KUBEADM_CONFIG='{}' CV_KUBEADM_IGNORE=SystemVerification; cv_apply_kubeadm node 'control-plane 10.0.0.1:6443'";
const JOIN: &str = "CV_KUBEADM_HOW=join CV_KUBEADM_CONFIG='{\"k\": \"@certificate-key@\"}'; cv_apply_kubeadm node 'worker 10.0.0.1:6443'";

#[test]
fn states_are_lines_and_lines_are_states() {
    let endpoint = "10.0.0.1:6443".to_owned();
    for (state, line) in [
        (KubeadmState::Absent, "absent"),
        (KubeadmState::ControlPlane { endpoint: endpoint.clone() }, "control-plane 10.0.0.1:6443"),
        (KubeadmState::Worker { endpoint: endpoint.clone() }, "worker 10.0.0.1:6443"),
        (KubeadmState::Begun { what: "init".into(), endpoint }, "begun init 10.0.0.1:6443"),
        (KubeadmState::Version { runs: "v1.36.2".into(), says: "v1.35.4".into() }, "version v1.36.2 v1.35.4"),
    ] {
        assert_eq!(State::from(state.clone()).line(), line);
        assert_eq!(KubeadmState::try_from(State::from_line(line)), Ok(state));
    }
    assert!(KubeadmState::try_from(State::from_line("begun reset x")).is_err());
}

#[test]
fn only_the_way_out_destroys() {
    let there = KubeadmState::ControlPlane { endpoint: "a:1".into() };
    assert_eq!(Kubeadm::reversibility("node", &KubeadmState::Absent, &there), Reversibility::Reversible);
    let out = Kubeadm::reversibility("node", &there, &KubeadmState::Absent);
    assert!(matches!(out, Reversibility::Irreversible(why) if why.contains("etcd")));
    // A copy of the data that it destroys is on the controller first, if there is any.
    let backup = Kubeadm::backup(&there, &KubeadmState::Absent).unwrap();
    assert_eq!((backup.host, backup.unless_allowed.as_deref()), (None, Some("etcd:data")));
    let begun = KubeadmState::Begun { what: "init".into(), endpoint: "a:1".into() };
    for state in [begun, KubeadmState::Worker { endpoint: "a:1".into() }] {
        assert_eq!(Kubeadm::backup(&state, &KubeadmState::Absent), None);
    }
}

#[test]
fn a_host_is_made_a_control_plane_invites_others_and_is_reset_in_every_shell() {
    every_host(|host| {
        assert_eq!(host.line(), "absent", "{}", host.shell.name);
        let (status, reply) = host.run("cv_kubeadm_invite worker 10.0.0.1:6443");
        assert_eq!(status, 75, "{reply}");
        host.good(INIT, "");
        assert_eq!(host.line(), "control-plane 10.0.0.1:6443");
        assert!(host.tool("log").contains("init --config"), "{}", host.tool("log"));
        assert!(!host.root.path().join("run").exists(), "nothing is left in memory");
        let reply = host.good("cv_kubeadm_invite worker 10.0.0.1:6443", "");
        assert_eq!(reply, "token abcdef.0123456789abcdef\nca Q0E=\n");
        let (status, reply) = host.run("cv_kubeadm_invite worker 10.0.0.2:6443");
        assert!(status == 1 && reply.contains("not of 10.0.0.2:6443"), "{reply}");
        std::fs::create_dir_all(host.root.path().join("cni")).unwrap();
        std::fs::write(host.root.path().join("cni/10-pods.conflist"), "{}").unwrap();
        let (status, reply) = host.run("cv_restore_kubeadm node absent");
        assert!(status == 1 && reply.contains("kubeadm reset"), "undo.sh destroys nothing: {reply}");
        host.good("cv_apply_kubeadm node absent >/dev/null", "");
        assert_eq!(host.line(), "absent");
        assert!(!host.root.path().join("cni/10-pods.conflist").exists());
    });
}

#[test]
fn a_token_is_in_a_file_of_its_own_and_never_printed() {
    every_host(|host| {
        let reply = host.good(JOIN, "token abcdef.0123456789abcdef\nca Q0E=\nkey fedcba9876\n");
        assert_eq!(reply, "the token <secret> is fine\n", "{}", host.shell.name);
        assert_eq!(host.line(), "worker 10.0.0.1:6443");
        assert!(!host.tool("log").contains("abcdef"), "{}", host.tool("log"));
        assert!(
            host.tool("discovery").contains("token: abcdef.0123456789abcdef"),
            "{}",
            host.tool("discovery")
        );
        assert!(host.tool("discovery").contains("server: https://10.0.0.1:6443"));
        assert_eq!(host.tool("join"), "{\"k\": \"fedcba9876\"}\n");
        assert!(!host.root.path().join("run").exists());
        let (status, _) = host.run("rm -rf \"$CV_KUBE_DIR\"; CV_KUBEADM_HOW=join CV_KUBEADM_CONFIG=x; cv_apply_kubeadm node 'worker a:1'");
        assert_eq!(status, 1, "without a token nothing is begun");
    });
}

#[test]
fn what_was_begun_is_found_and_goes_on() {
    every_host(|host| {
        let fail = Path::new(&host.tools).join("fail");
        std::fs::write(&fail, "").unwrap();
        assert_eq!(host.run(INIT).0, 1);
        assert_eq!(host.line(), "absent", "{}: kubeadm refused before it did anything", host.shell.name);
        // A power cut in the middle: the record is there, and so is half of the cluster.
        host.good("cv_write_record \"$CV_ROOT/kubeadm\" 'init 10.0.0.1:6443'; mkdir -p \"$CV_KUBE_DIR/pki\"; : >\"$CV_KUBE_DIR/pki/ca.crt\"", "");
        assert_eq!(host.line(), "begun init 10.0.0.1:6443");
        assert_eq!(host.run(INIT).0, 1);
        assert_eq!(host.line(), "begun init 10.0.0.1:6443");
        assert_eq!(host.run("cv_kubeadm_invite worker 10.0.0.1:6443").0, 75);
        std::fs::remove_file(&fail).unwrap();
        host.good(INIT, "");
        assert!(host.tool("log").contains("DirAvailable--var-lib-etcd"));
        assert_eq!(host.line(), "control-plane 10.0.0.1:6443");
        // Without a record of converge the cluster belongs to others.
        host.good("rm -f \"$CV_KUBE_DIR/kubelet.conf\"", "");
        assert!(host.line().starts_with("partial "), "{}", host.line());
    });
}

#[test]
fn a_reset_that_is_cut_off_is_on_record_and_goes_on() {
    every_host(|host| {
        let token = "token abcdef.0123456789abcdef\nca Q0E=\nkey fedcba9876\n";
        host.good(JOIN, token);
        let fail = Path::new(&host.tools).join("fail");
        std::fs::write(&fail, "").unwrap();
        std::fs::write(&fail, "late").unwrap();
        let (status, _) = host.run("cv_apply_kubeadm node absent");
        assert_eq!((status, host.line().as_str()), (1, "begun leave 10.0.0.1:6443"), "{}", host.shell.name);
        for end in ["absent", "'worker 10.0.0.1:6443'"] {
            let (status, reply) = host.run(&format!("cv_restore_kubeadm node {end}"));
            assert!(status == 1 && reply.contains("run converge"), "{reply}");
        }
        std::fs::remove_file(&fail).unwrap();
        // Where it is to stay after all, it joins again.
        let reply = host.good(JOIN, token);
        assert!(reply.starts_with("a leave was begun here"), "{reply}");
        assert!(host.tool("log").contains("reset --force\njoin"), "{}", host.tool("log"));
        assert_eq!(host.line(), "worker 10.0.0.1:6443");
        host.good("cv_write_record \"$CV_ROOT/kubeadm\" 'leave 10.0.0.1:6443'; cv_apply_kubeadm node absent >/dev/null", "");
        assert_eq!(host.line(), "absent");
    });
}

#[test]
fn a_reset_that_fails_before_it_changes_anything_begins_no_leave() {
    every_host(|host| {
        let token = "token abcdef.0123456789abcdef\nca Q0E=\nkey fedcba9876\n";
        let name = host.shell.name;
        fake_tool(host.root.path(), "systemctl", SYSTEMCTL);
        host.good(JOIN, token);
        let fail = Path::new(&host.tools).join("fail");
        std::fs::write(&fail, "").unwrap();
        let leave = "CV_KUBEADM_HOW=leave; cv_apply_kubeadm node absent";
        let asked = |script: &str| host.run(&format!("printf 'gone w1\\n' | ({script})"));
        let (status, reply) = asked(leave);
        assert!(status == 1 && reply.contains("kubeadm reset ended with status 1"), "{name}: {reply}");
        // The cluster has let the worker go: its kubelet registers it again.
        assert_eq!(
            (host.line().as_str(), host.tool("restarts").as_str()),
            ("worker 10.0.0.1:6443", "restart kubelet\n"),
            "{name}"
        );
        let (status, _) = host.run("cv_apply_kubeadm node absent");
        assert_eq!((status, host.line().as_str()), (1, "worker 10.0.0.1:6443"), "{name}");
        assert_eq!(host.tool("restarts"), "restart kubelet\n", "nobody has let it go");
        // Where the kubelet cannot be started, it is not part of the cluster again. The same leave goes on.
        let broken = Path::new(&host.tools).join("broken");
        std::fs::write(&broken, "").unwrap();
        assert_eq!(asked(leave).0, 1);
        assert_eq!(host.line(), "begun leave 10.0.0.1:6443", "{name}");
        std::fs::remove_file(&broken).unwrap();
        assert_eq!(asked(leave).0, 1);
        assert_eq!(host.line(), "begun leave 10.0.0.1:6443", "{name}");
        std::fs::remove_file(&fail).unwrap();
        assert_eq!(asked(leave).0, 0);
        assert_eq!(host.line(), "absent");
        // A member of etcd that has gone does not come back by itself.
        host.good(INIT, "");
        std::fs::write(&fail, "").unwrap();
        assert_eq!(host.run("cv_apply_kubeadm node absent").0, 1);
        assert_eq!(host.line(), "control-plane 10.0.0.1:6443", "{name}");
        assert_eq!(asked(leave).0, 1);
        assert_eq!(host.line(), "begun leave 10.0.0.1:6443", "{name}");
    });
}

#[test]
fn a_step_passes_through_what_was_begun() {
    let state = |line: &str| KubeadmState::try_from(State::from_line(line)).unwrap();
    let (worker, absent, leave) = (state("worker a:1"), state("absent"), state("begun leave a:1"));
    assert!(Kubeadm::amid(&worker, &absent, &leave) && Kubeadm::amid(&absent, &worker, &leave));
    assert!(Kubeadm::amid(&absent, &worker, &state("begun join a:1")));
    assert!(
        !Kubeadm::amid(&worker, &absent, &worker)
            && !Kubeadm::amid(&worker, &state("control-plane a:1"), &leave)
    );
    // A rollback of the run that completed it.
    assert!(matches!(Kubeadm::reversibility("node", &worker, &leave), Reversibility::Irreversible(_)));
    assert!(Kubeadm::fulfils(&absent, &leave) && !Kubeadm::fulfils(&worker, &leave));
    assert_eq!(Kubeadm::reversibility("node", &absent, &absent), Reversibility::Reversible);
    assert!(matches!(Kubeadm::reversibility("node", &leave, &absent), Reversibility::Irreversible(_)));
}

/// containerd with one container of etcd, and the programs in it. Files beside it say what is wrong.
const CTR: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/ctr.log"
case $* in
*'containers list'*) echo etcd-1; echo etcd-0 ;;
*'tasks list'*) echo 'TASK PID STATUS'; echo 'other 7 RUNNING'; echo 'etcd-0 8 STOPPED'; [ -e "$here/stopped" ] || echo 'etcd-1 9 RUNNING' ;;
*' etcd-1 etcdctl '*'snapshot save '*)
  [ ! -e "$here/silent" ] || { echo 'Error: context deadline exceeded' >&2; exit 1; }
  for file; do :; done
  printf 'data of etcd' >"$file"
  ;;
*' etcd-1 etcdutl snapshot status '*)
  [ ! -e "$here/torn" ] || { echo 'Error: snapshot file integrity verification failed' >&2; exit 1; }
  [ -e "$here/empty" ] && echo 'fe01cf57, 1, 0, 12 B' || echo 'fe01cf57, 10, 1234, 12 B'
  ;;
*) exit 9 ;;
esac
"#;

#[test]
fn a_snapshot_of_etcd_is_checked_and_errors_are_reported() {
    every_host(|host| {
        host.good(INIT, "");
        fake_tool(host.root.path(), "ctr", CTR);
        let data = host.root.path().join("etcd");
        std::fs::create_dir_all(&data).unwrap();
        let left = || std::fs::read_dir(&data).unwrap().count();
        let server = |of: &str| {
            host.good(
                &format!(
                    "printf '    - --etcd-servers=%s\\n' {of} >\"$CV_KUBE_DIR/manifests/kube-apiserver.yaml\""
                ),
                "",
            );
        };
        let take = || host.run("cv_kubeadm_snapshot");
        // Whose etcd it is.
        server("https://127.0.0.1:2379");
        let (status, reply) = take();
        assert!(status == 1 && reply.contains("etcd does not run here"), "{}: {reply}", host.shell.name);
        server("https://10.0.0.9:2379");
        let reply = host.good("cv_kubeadm_snapshot", "");
        assert!(
            reply.starts_with("none ") && reply.contains("yours to save: https://10.0.0.9:2379"),
            "{reply}"
        );
        let data_dir =
            format!("printf '    - --data-dir={}\\n' >\"$CV_KUBE_DIR/manifests/etcd.yaml\"", data.display());
        host.good(&data_dir, "");
        for (what, says) in [
            ("stopped", "no container of etcd runs here"),
            ("silent", "etcd gives no snapshot: Error: context deadline exceeded"),
            ("torn", "is broken: Error: snapshot file integrity verification failed"),
            ("empty", "is empty"),
        ] {
            let mark = Path::new(&host.tools).join(what);
            std::fs::write(&mark, "").unwrap();
            let (status, reply) = take();
            assert!(status == 1 && reply.contains(says), "{}: {what}: {reply}", host.shell.name);
            assert_eq!(left(), 0, "{what}: a file stays");
            std::fs::remove_file(&mark).unwrap();
        }
        let reply = host.good("cv_kubeadm_snapshot", "");
        let Some(converge_resource::BackupResult::File { digest, size, path, remark }) =
            converge_resource::BackupResult::read(&reply)
        else {
            panic!("{}: {reply}", host.shell.name)
        };
        assert_eq!(
            (digest, size, remark.as_str()),
            (converge_resource::Digest::of(b"data of etcd"), 12, "1234 keys")
        );
        assert!(path.starts_with(&data.display().to_string()) && Path::new(&path).exists(), "{path}");
        // A disk that etcd needs itself is not filled.
        let full = fake_tool(host.root.path(), "df", "#!/bin/sh\necho head\necho 'x 1 1 100 1% /'\n");
        let (status, reply) = take();
        assert!(status == 1 && reply.contains("no disk space for a snapshot: 100 KiB are free"), "{reply}");
        std::fs::remove_file(Path::new(&full).join("df")).unwrap();
    });
}

#[test]
fn the_version_is_read_in_the_files_and_goes_up() {
    every_host(|host| {
        let line = || host.good("cv_line_kubeadm version", "").trim_end().to_owned();
        assert_eq!(line(), "absent", "{}", host.shell.name);
        host.good(INIT, "");
        let runs = |version: &str| {
            let text = format!(
                "    image: registry.k8s.io/kube-apiserver:{version}\n    imagePullPolicy: IfNotPresent\n"
            );
            std::fs::write(host.root.path().join("kubernetes/manifests/kube-apiserver.yaml"), text).unwrap();
        };
        runs("v1.35.4");
        // Nobody answers.
        fake_tool(host.root.path(), "kubectl", "#!/bin/sh\nexit 1\n");
        assert_eq!(line(), "version v1.35.4 v1.35.4");
        // An upgrade that was cut off.
        runs("v1.36.2");
        fake_tool(
            host.root.path(),
            "kubectl",
            "#!/bin/sh\necho 'kind: ClusterConfiguration'; echo 'kubernetesVersion: v1.35.4'\n",
        );
        assert_eq!(line(), "version v1.36.2 v1.35.4");
        host.good("CV_KUBEADM_IGNORE=A,B; cv_apply_kubeadm version 'version v1.36.2 v1.36.2' >/dev/null", "");
        assert!(
            host.tool("log").contains("upgrade apply --yes --ignore-preflight-errors=A,B v1.36.2"),
            "{}",
            host.tool("log")
        );
        let (status, reply) = host.run("cv_restore_kubeadm version 'version v1.35.4 v1.35.4'");
        assert!(status == 1 && reply.contains("takes no version back"), "{reply}");
        host.good("cv_write_record \"$CV_ROOT/kubeadm\" 'init 10.0.0.1:6443'", "");
        assert_eq!(line(), "absent", "an init that did not end is not upgraded");
    });
}

/// A stand-in for kubectl and etcdctl of a control plane: files beside it say which nodes exist, which members there are and
/// which of them are unhealthy.
const KUBECTL: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/asked"
case $* in
*'{.spec.unschedulable} {.metadata.annotations.converge/cordoned-to}'*)
  [ ! -e "$here/cordoned" ] || printf true
  printf ' %s' "$(cat "$here/ours" 2>/dev/null)"
  ;;
*'annotate --overwrite node h2 converge/cordoned-to=leave'*) printf leave >"$here/ours" ;;
*'annotate node h2 converge/cordoned-to-'*) rm -f "$here/ours" ;;
*'uncordon h2'*) rm "$here/cordoned" ;;
*'get node h2 -o jsonpath'*) printf '10.0.0.2 h2-name' ;;
*'get node '*) [ -e "$here/known" ] && echo node/h2 || { echo 'Error from server (NotFound): nodes "h2" not found' >&2; exit 1; } ;;
*'drain h2'*dry-run*) [ ! -e "$here/bare" ] || { echo 'cannot delete Pods that declare no controller (use --force to override): default/x' >&2; exit 1; } ;;
*'drain h2'*)
  : >"$here/cordoned"
  [ ! -e "$here/budget" ] || { echo 'error when evicting pods/"web-1" -n "shop" (will retry after 5s): Cannot evict pod' >&2; echo 'global timeout' >&2; exit 1; }
  ;;
*'get poddisruptionbudgets'*) printf 'web ' ;;
*'delete node h2'*) rm "$here/known" ;;
*member/list*)
  cat >/dev/null
  first='{"ID":"11","name":"h1","peerURLs":["https://10.0.0.1:2380"],"clientURLs":["https://10.0.0.1:2379"]}'
  printf '{"header":{"cluster_id":"1","member_id":"11"},"members":['
  [ ! -e "$here/strange" ] || exit 0
  [ -e "$here/last" ] || printf %s "$first"
  [ ! -e "$here/member" ] || printf %s ',{"ID": "22",  "name": "h2", "peerURLs": ["https://10.0.0.2:2380"], "clientURLs": ["https://10.0.0.2:2379"]}'
  echo ']}'
  ;;
*member/remove*) read -r id; [ "$id" = '{"ID":"22"}' ] && rm "$here/member" ;;
*'get --raw /health'*) [ ! -e "$here/ill" ] && echo '{"health":"true","reason":""}' ;;
esac
"#;

#[test]
fn a_node_is_let_go_when_its_pods_and_its_member_may_go() {
    every_host(|host| {
        host.good(INIT, "");
        host.good(": >\"$CV_KUBE_DIR/manifests/etcd.yaml\"", "");
        fake_tool(host.root.path(), "kubectl", KUBECTL);
        let mark = |name: &str, there: bool| {
            let path = Path::new(&host.tools).join(name);
            if there { std::fs::write(path, "").unwrap() } else { std::fs::remove_file(path).unwrap() }
        };
        let ask = || host.run("CV_FETCH_FOR=h2; cv_kubeadm_let_go h2 10.0.0.1:6443");
        mark("known", true);
        mark("member", true);
        // A host that calls another one's node its own: the API, and etcd where the API has no node, tell otherwise.
        for (known, asks, knows) in [
            (true, "CV_FETCH_FOR='w9 10.0.0.9'; ", "w9 10.0.0.9"),
            (false, "CV_FETCH_FOR='w9 10.0.0.9'; ", "w9 10.0.0.9"),
            (true, "", "unknown"),
        ] {
            mark("known", known);
            let (ended, reply) = host.run(&format!("{asks}cv_kubeadm_let_go h2 10.0.0.1:6443"));
            assert!(ended == 1 && reply.contains("addresses 10.0.0.2") && reply.contains(knows), "{reply}");
            let asked = host.tool("asked");
            assert!(
                !asked.contains("drain") && !asked.contains("delete") && !asked.contains("member/remove"),
                "{asked}"
            );
        }
        mark("known", true);
        for (what, status, says) in [
            ("strange", 1, "is not understood"),
            ("last", 1, "is the last one"),
            ("ill", 1, "member h1 is not healthy"),
            ("bare", 1, "declare no controller: default/x"),
            ("budget", 74, "pod shop/web-1 stays on the node: no eviction is allowed by the budget web"),
        ] {
            mark(what, true);
            let (ended, reply) = ask();
            assert!(ended == status && reply.contains(says), "{}: {what}: {ended}: {reply}", host.shell.name);
            assert!(!host.tool("asked").contains("member/remove"), "{what}");
            mark(what, false);
        }
        // The last try takes no longer than is left.
        mark("budget", true);
        assert_eq!(host.run("CV_FETCH_SECONDS=8 CV_FETCH_FOR=h2; cv_kubeadm_let_go h2 10.0.0.1:6443").0, 74);
        assert!(host.tool("asked").contains("--timeout=8s"), "{}", host.tool("asked"));
        mark("budget", false);
        // It does not leave in time: what we have cordoned takes pods again, what another user has stays so.
        let cordoned = || Path::new(&host.tools).join("cordoned").exists();
        let keep = || host.run("cv_kubeadm_keep h2 10.0.0.1:6443 leave");
        assert!(cordoned(), "{}", host.shell.name);
        assert_eq!(keep(), (0, "it takes pods again\n".to_owned()));
        assert!(!cordoned());
        mark("cordoned", true);
        mark("budget", true);
        assert_eq!(ask().0, 74);
        mark("budget", false);
        assert_eq!(keep(), (0, String::new()));
        assert!(cordoned(), "it was not ours");
        let own = host.run("CV_FETCH_FOR='w2 10.0.0.2'; cv_kubeadm_let_go h2 10.0.0.1:6443");
        assert_eq!(own, (0, "gone h2\n".to_owned()));
        assert!(host.tool("asked").contains("delete node h2"));
        assert!(!Path::new(&host.tools).join("member").exists(), "its member is still in etcd");
        assert_eq!(ask(), (0, "gone h2\n".to_owned()), "asked again it says the same");
        assert_eq!(host.run("cv_kubeadm_let_go h2 10.0.0.9:6443").0, 1);
        let leave = "CV_KUBEADM_HOW=leave; cv_apply_kubeadm node absent";
        let (status, reply) = host.run(leave);
        assert!(status == 1 && reply.contains("it is not reset"), "{reply}");
        host.good(leave, "gone h2\n");
        assert_eq!(host.line(), "absent");
    });
}
