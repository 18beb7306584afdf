use super::*;
use crate::testing::{TestShell, fake_tool, shells};
use converge_resource::State;
use std::path::Path;

/// A stand-in for the snap's program: it makes the snap's files and logs its arguments and its standard input. A file `fail` makes it fail.
const K8S: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/log"
[ ! -e "$here/fail" ] || { echo "no: $(cat "$here/fail")"; exit 1; }
case $1 in
bootstrap) cat >"$here/config"; mkdir -p "$CV_K8S_SNAP/args" "$CV_KUBE_DIR"; : >"$CV_K8S_SNAP/args/kubelet"; : >"$CV_KUBE_DIR/admin.conf" ;;
get-join-token) echo 'A token, please keep it:'; echo dG9rZW4tb2Ytb25lLWpvaW4= ;;
esac
"#;

/// A stand-in for curl, behind which a daemon makes a worker: it logs its arguments and keeps the request. A file `fail` makes the daemon refuse.
const CURL: &str = r#"#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/calls"
body= answer=
case $* in
*' http://localhost/1.0') [ ! -e "$here/starts" ] || { rm "$here/starts"; exit 7; } ;;
*' http://localhost/1.0/k8sd/cluster/join')
  while [ $# -gt 0 ]; do
    case $1 in --data-binary) body=${2#@} ;; -o) answer=$2 ;; esac
    shift
  done
  cat "$body" >"$here/body"
  [ ! -e "$here/fail" ] || { printf '{"error":"no: %s"}' "$(cat "$here/fail")" >"$answer"; printf 500; exit 0; }
  mkdir -p "$CV_K8S_SNAP/args" "$CV_K8S_SNAP/lock"; : >"$CV_K8S_SNAP/args/kubelet"; : >"$CV_K8S_SNAP/lock/worker"
  printf 200
  ;;
esac
"#;

/// A stand-in for ip: a host with an address of each sort.
const IP: &str = r#"#!/bin/sh
case $* in
*' to 10.1.0.0/16') echo '3: eth1    inet 10.1.0.7/16 brd 10.1.255.255 scope global eth1' ;;
*' to fd00::/8') echo '3: eth1    inet6 fd00::7/64 scope global' ;;
*' to '*) ;;
*) echo '2: eth0    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth0'; echo '3: eth1    inet 10.1.0.7/16 scope global eth1' ;;
esac
"#;

const SNAP: &str = r#"#!/bin/sh
here=${0%/*}
case $1 in
list)
  echo 'Name Version Rev Tracking Publisher Notes'
  row='k8s v1.34.1 3070 1.34-classic/stable canonical classic,held'
  [ ! -e "$here/row" ] || read -r row <"$here/row"
  [ -e "$here/removed" ] || echo "$row"
  ;;
remove) echo "$*" >>"$here/snaps"; : >"$here/removed"; rm -rf "$CV_K8S_SNAP" "$CV_KUBE_DIR"; [ ! -e "$here/cut" ] || exit 1 ;;
install) echo "$*" >>"$here/snaps"; rm -f "$here/removed" ;;
*) echo "$*" >>"$here/snaps" ;;
esac
"#;

struct SnapHost<'a> {
    shell: &'a TestShell,
    root: tempfile::TempDir,
    tools: String,
}

impl SnapHost<'_> {
    fn run(&self, script: &str, stdin: &str) -> (i32, String) {
        let root = self.root.path().display();
        let text = format!(
            "PATH={}:$PATH CV_KUBE_DIR={root}/kubernetes CV_KUBE_RUN={root}/run CV_K8S_SNAP={root}/snap; \
             export PATH CV_KUBE_DIR CV_K8S_SNAP; {script}",
            quote(&self.tools)
        );
        let output = self.shell.run(self.root.path(), &text, &[], stdin.as_bytes());
        let reply =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap(), reply)
    }

    fn good(&self, script: &str, stdin: &str) -> String {
        let (status, reply) = self.run(script, stdin);
        assert_eq!(status, 0, "{}: {script}: {reply}", self.shell.name);
        reply
    }

    fn line(&self) -> String {
        self.good("cv_line_k8s_snap node", "").trim_end().to_owned()
    }

    fn tool(&self, name: &str) -> String {
        std::fs::read_to_string(Path::new(&self.tools).join(name)).unwrap_or_default()
    }

    fn mark(&self, name: &str, text: &str) {
        std::fs::write(Path::new(&self.tools).join(name), text).unwrap();
    }
}

fn every_host(test: impl Fn(&SnapHost<'_>)) {
    let dir = tempfile::tempdir().unwrap();
    for shell in shells(dir.path()) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in [("snap", SNAP), ("curl", CURL), ("ip", IP)] {
            fake_tool(root.path(), name, text);
        }
        let tools = fake_tool(root.path(), "k8s", K8S);
        test(&SnapHost { shell: &shell, root, tools });
    }
}

const SETTINGS: &str =
    "CV_K8S_SNAP_NAME=n1 CV_K8S_SNAP_ADDRESS= CV_K8S_SNAP_SECONDS=9 CV_K8S_SNAP_CONFIG='{\"a\":\"b\\\\\"}';";
const TOKEN: &str = "token dG9rZW4tb2Ytb25lLWpvaW4=\n";

#[test]
fn states_are_lines_and_lines_are_states() {
    for (state, line) in [
        (K8sSnapState::Absent, "absent"),
        (K8sSnapState::ControlPlane, "control-plane"),
        (K8sSnapState::Worker, "worker"),
        (K8sSnapState::Begun { what: "leave".into() }, "begun leave"),
        (K8sSnapState::Partial, "partial"),
    ] {
        assert_eq!(State::from(state.clone()).line(), line);
        assert_eq!(K8sSnapState::try_from(State::from_line(line)), Ok(state));
    }
    assert!(K8sSnapState::try_from(State::from_line("begun reset")).is_err());
}

#[test]
fn only_the_way_out_destroys() {
    let there = K8sSnapState::ControlPlane;
    assert_eq!(K8sSnap::reversibility("node", &K8sSnapState::Absent, &there), Reversibility::Reversible);
    let out = K8sSnap::reversibility("node", &there, &K8sSnapState::Absent);
    assert!(matches!(out, Reversibility::Irreversible(why) if why.contains("the cluster's data")));
    let way = |name: &str| NodeRemoval { host: "cp1".to_owned(), name: name.to_owned() };
    let asked = K8sSnap::removal_request(&way("w1"), &K8sSnapState::Worker, &K8sSnapState::Absent).unwrap();
    assert_eq!(asked.fetch.script, "cv_k8s_snap_let_go w1");
    for (name, from) in [("$(reboot)", K8sSnapState::Worker), ("w1", K8sSnapState::Absent)] {
        assert_eq!(K8sSnap::removal_request(&way(name), &from, &K8sSnapState::Absent), None);
    }
}

#[test]
fn a_host_makes_a_cluster_and_invites_others_in_every_shell() {
    every_host(|host| {
        assert_eq!(host.line(), "absent", "{}", host.shell.name);
        let (status, reply) = host.run("cv_k8s_snap_invite worker w1", "");
        assert_eq!(status, 75, "{reply}");
        host.good(&format!("{SETTINGS} CV_K8S_SNAP_HOW=bootstrap; cv_apply_k8s_snap node control-plane"), "");
        assert_eq!(
            (host.line().as_str(), host.tool("config").as_str()),
            ("control-plane", "{\"a\":\"b\\\\\"}\n")
        );
        assert!(
            host.tool("log").contains("bootstrap --name n1 --timeout 9s --file -"),
            "{}",
            host.tool("log")
        );
        assert!(host.tool("log").contains("status --wait-ready"));
        assert!(!host.root.path().join("run").exists(), "nothing is left in memory");
        assert_eq!(host.good("cv_k8s_snap_invite worker w1", ""), TOKEN);
        assert!(host.tool("log").contains("get-join-token w1 --expires-in 15m --timeout 50s --worker"));
        let (status, reply) = host.run("cv_restore_k8s_snap node absent", "");
        assert!(status == 1 && reply.contains("snap remove"), "undo.sh destroys nothing: {reply}");
    });
}

#[test]
fn a_join_hides_its_token_and_a_refused_one_has_begun_nothing() {
    every_host(|host| {
        let join = format!("{SETTINGS} CV_K8S_SNAP_HOW=join; cv_apply_k8s_snap node worker");
        host.mark("fail", "bad dG9rZW4tb2Ytb25lLWpvaW4=");
        host.mark("starts", "");
        let (status, reply) = host.run(&join, TOKEN);
        assert!(
            status == 1 && reply.contains("refuses the join (500)") && reply.contains("no: bad <secret>"),
            "{reply}"
        );
        assert!(!reply.contains("dG9"), "{reply}");
        assert_eq!(host.line(), "absent", "{}", host.shell.name);
        let (status, reply) = host.run(&join, "");
        assert!(status == 1 && reply.contains("sent no token"), "{reply}");
        std::fs::remove_file(Path::new(&host.tools).join("fail")).unwrap();
        host.good(&join, TOKEN);
        assert_eq!(host.line(), "worker");
        let body: serde_json::Value = serde_json::from_str(&host.tool("body")).unwrap();
        let sent = serde_json::json!({"name": "n1", "address": "192.0.2.7:6400", "token": "dG9rZW4tb2Ytb25lLWpvaW4=",
            "timeout": 9_000_000_000_u64, "config": "{\"a\":\"b\\\\\"}"});
        assert_eq!(body, sent, "{}", host.shell.name);
        assert!(!host.tool("calls").contains("dG9"), "a token is an argument: {}", host.tool("calls"));
        assert!(!host.root.path().join("run").exists(), "nothing is left in memory");
    });
}

#[test]
fn a_node_has_the_address_that_the_snap_would_choose() {
    every_host(|host| {
        for (given, address) in [
            ("", "192.0.2.7:6400"),
            ("10.1.0.0/16", "10.1.0.7:6400"),
            ("fd00::/8", "[fd00::7]:6400"),
            ("192.0.2.9", "192.0.2.9:6400"),
            ("192.0.2.9:7000", "192.0.2.9:7000"),
            ("fd00::9", "[fd00::9]:6400"),
            ("[fd00::9]", "[fd00::9]:6400"),
            ("[fd00::9]:7000", "[fd00::9]:7000"),
        ] {
            let found = host.good(&format!("CV_K8S_SNAP_ADDRESS={given} cv_k8s_snap_address"), "");
            assert_eq!(found.trim_end(), address, "{}: {given}", host.shell.name);
        }
        let (status, reply) = host.run("CV_K8S_SNAP_ADDRESS=172.16.0.0/12; cv_k8s_snap_address", "");
        assert!(status == 1 && reply.contains("no address in 172.16.0.0/12"), "{reply}");
    });
}

#[test]
fn a_node_goes_once_the_cluster_has_let_it_go_and_its_snap_comes_again_as_it_was() {
    every_host(|host| {
        host.good(&format!("{SETTINGS} CV_K8S_SNAP_HOW=join; cv_apply_k8s_snap node worker"), TOKEN);
        let leave = "CV_K8S_SNAP_HOW=leave; cv_apply_k8s_snap node absent";
        let (status, reply) = host.run(leave, "");
        assert!(status == 1 && reply.contains("no control plane says"), "{reply}");
        assert_eq!((host.line().as_str(), host.tool("snaps").as_str()), ("worker", ""));
        // It is cut off after the snap has gone: what it was is on record.
        host.mark("cut", "");
        let (status, _) = host.run(leave, "gone n1\n");
        assert_eq!((status, host.line().as_str()), (1, "begun leave"), "{}", host.shell.name);
        std::fs::remove_file(Path::new(&host.tools).join("cut")).unwrap();
        host.good(leave, "gone n1\n");
        assert_eq!(host.line(), "absent");
        let snaps = host.tool("snaps");
        assert!(
            snaps.contains("install --channel=1.34-classic/stable --revision=3070 --classic k8s"),
            "{snaps}"
        );
        assert!(snaps.contains("refresh --hold k8s"), "{snaps}");
    });
}

/// No store knows a snap that came from a file: snapd's own copy is kept while the snap is away, also over a reset that is cut off.
#[test]
fn a_snap_from_a_file_comes_again_from_it() {
    every_host(|host| {
        let root = host.root.path();
        let (copy, files) = (root.join("k8s.snap"), root.join("snapd/snaps"));
        std::fs::create_dir_all(&files).unwrap();
        std::fs::write(files.join("k8s_x3.snap"), "the snap").unwrap();
        std::fs::write(
            Path::new(&host.tools).join("row"),
            "k8s v1.34.1 x3 1.34-classic/stable - classic,held\n",
        )
        .unwrap();
        host.good(&format!("{SETTINGS} CV_K8S_SNAP_HOW=join; cv_apply_k8s_snap node worker"), TOKEN);
        let leave = format!(
            "CV_SNAPD={}/snapd CV_K8S_SNAP_HOW=leave; cv_apply_k8s_snap node absent",
            quote(&root.display().to_string())
        );
        host.mark("cut", "");
        let (status, _) = host.run(&leave, "gone n1\n");
        assert_eq!((status, host.line().as_str()), (1, "begun leave"), "{}", host.shell.name);
        std::fs::remove_dir_all(&files).unwrap();
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), "the snap");
        std::fs::remove_file(Path::new(&host.tools).join("cut")).unwrap();
        // snapd counts from 1 again.
        std::fs::write(Path::new(&host.tools).join("row"), "k8s v1.34.1 x1 - - classic\n").unwrap();
        host.good(&leave, "gone n1\n");
        assert_eq!(host.line(), "absent");
        let snaps = host.tool("snaps");
        assert!(snaps.contains(&format!("install --dangerous --classic {}", copy.display())), "{snaps}");
        assert!(snaps.contains("switch --channel=1.34-classic/stable k8s\nrefresh --hold k8s"), "{snaps}");
        assert!(!copy.exists());
    });
}

#[test]
fn what_the_daemon_has_ended_after_a_power_cut_is_not_done_again() {
    every_host(|host| {
        let bootstrap = format!("{SETTINGS} CV_K8S_SNAP_HOW=bootstrap; cv_apply_k8s_snap node control-plane");
        host.good(&bootstrap, "");
        std::fs::write(host.root.path().join("k8s_snap"), "bootstrap\n").unwrap();
        assert_eq!(host.line(), "begun bootstrap");
        host.good(&bootstrap, "");
        assert_eq!(host.line(), "control-plane");
        assert_eq!(host.tool("log").matches("bootstrap --name").count(), 1, "{}", host.tool("log"));
    });
}
