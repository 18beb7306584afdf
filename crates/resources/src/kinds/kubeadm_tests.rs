use super::*;
use crate::fake::{FakeView, read, settle, wrong};

const AT: &str = "10.0.0.1:6443";

fn init() -> Value {
    json!({"endpoint": AT, "init": {"ignore_preflight": ["SystemVerification"], "config": [{
        "apiVersion": API, "kind": "ClusterConfiguration", "kubernetesVersion": "v1.36.2", "controlPlaneEndpoint": AT,
    }]}})
}

fn join(role: &str) -> Value {
    json!({"endpoint": AT, "join": {"control_plane": "cp1", "role": role}})
}

fn host(state: KubeadmState) -> FakeView {
    FakeView::new().has(Kubeadm::id(), state)
}

fn setting(wanted: &WantedStates, name: &str) -> String {
    wanted.settings.iter().find(|(n, _)| n == name).unwrap().1.clone()
}

#[test]
fn a_bare_host_becomes_what_it_is_to_be_and_stays_so() {
    for (params, line) in [
        (init(), "control-plane 10.0.0.1:6443"),
        (join("worker"), "worker 10.0.0.1:6443"),
        (join("control_plane"), "control-plane 10.0.0.1:6443"),
    ] {
        let kind = read::<Kubeadm>(params);
        let view = settle(&kind, host(KubeadmState::Absent));
        assert_eq!(view.line(&Kubeadm::id()), line);
        let again = kind.plan(&view).unwrap();
        assert!(
            again.fetch.is_none() && again.settings.is_empty(),
            "nothing is asked for where nothing changes"
        );
    }
}

#[test]
fn only_a_join_asks_for_a_token() {
    let first = read::<Kubeadm>(init()).plan(&host(KubeadmState::Absent)).unwrap();
    assert_eq!(first.fetch, None);
    assert_eq!(setting(&first, "CV_KUBEADM_HOW"), "init");
    assert_eq!(setting(&first, "CV_KUBEADM_IGNORE"), "SystemVerification");
    let worker = read::<Kubeadm>(join("worker")).plan(&host(KubeadmState::Absent)).unwrap();
    let fetch = worker.fetch.clone().unwrap();
    assert_eq!((fetch.host.as_str(), fetch.seconds), ("cp1", 900));
    assert_eq!(fetch.script, "cv_kubeadm_invite worker 10.0.0.1:6443");
    let document: Value = serde_json::from_str(&setting(&worker, "CV_KUBEADM_CONFIG")).unwrap();
    assert_eq!(document["discovery"]["file"]["kubeConfigPath"], DISCOVERY);
    assert!(document.get("controlPlane").is_none());
    let second = read::<Kubeadm>(join("control_plane")).plan(&host(KubeadmState::Absent)).unwrap();
    assert!(setting(&second, "CV_KUBEADM_CONFIG").contains(KEY));
    assert!(second.fetch.unwrap().script.starts_with("cv_kubeadm_invite control-plane"));
}

#[test]
fn a_rollback_of_a_join_is_a_leave_where_the_name_of_the_node_is_known() {
    let planned =
        |params: Value| read::<Kubeadm>(params).plan(&host(KubeadmState::Absent)).unwrap().node_removal;
    let mut named = join("worker");
    named["join"]["config"] = json!({"nodeRegistration": {"name": "w1"}});
    assert_eq!(planned(named.clone()), Some(NodeRemoval { host: "cp1".into(), name: "w1".into() }));
    named["join"]["config"]["nodeRegistration"]["name"] = json!("$(reboot)");
    for params in [init(), join("worker"), named] {
        assert_eq!(planned(params), None);
    }
}

#[test]
fn a_host_leaves_when_a_control_plane_that_stays_has_let_it_go() {
    let leave = json!({"endpoint": AT, "leave": {"control_plane": "cp1", "node": "w1", "delete_emptydir_data": true}});
    let kind = read::<Kubeadm>(leave);
    for state in [
        KubeadmState::Worker { endpoint: AT.into() },
        KubeadmState::ControlPlane { endpoint: AT.into() },
        KubeadmState::Begun { what: "join".into(), endpoint: AT.into() },
    ] {
        let wanted = kind.plan(&host(state.clone())).unwrap();
        assert_eq!(setting(&wanted, "CV_KUBEADM_HOW"), "leave");
        let fetch = wanted.fetch.unwrap();
        assert_eq!((fetch.host.as_str(), fetch.seconds), ("cp1", 600));
        assert_eq!(fetch.script, "cv_kubeadm_let_go w1 10.0.0.1:6443 --delete-emptydir-data");
        assert_eq!(fetch.give_up.as_deref(), Some("cv_kubeadm_keep w1 10.0.0.1:6443 leave"));
        let view = settle(&kind, host(state));
        assert_eq!(view.line(&Kubeadm::id()), "absent");
    }
    let elsewhere = KubeadmState::Worker { endpoint: "10.9.9.9:6443".into() };
    assert!(matches!(kind.plan(&host(elsewhere)), Err(Stop::Failed(why)) if why.contains("another cluster")));
    let both = json!({
        "endpoint": AT, "join": {"control_plane": "cp1"},
        "leave": {"control_plane": "", "node": "W 1", "timeout": 0},
    });
    assert_eq!(wrong::<Kubeadm>(both), ["/leave", "/leave/control_plane", "/leave/node", "/leave/timeout"]);
}

#[test]
fn a_control_plane_leaves_or_is_upgraded_after_a_snapshot_of_etcd() {
    let leave = read::<Kubeadm>(json!({"endpoint": AT, "leave": {"control_plane": "cp1", "node": "n1"}}));
    let of = |state| leave.plan(&host(state)).unwrap().backup;
    assert_eq!(of(KubeadmState::Worker { endpoint: AT.into() }), None);
    // A join that was begun may have made it a member of etcd.
    for state in [
        KubeadmState::ControlPlane { endpoint: AT.into() },
        KubeadmState::Begun { what: "join".into(), endpoint: AT.into() },
    ] {
        let backup = of(state).unwrap();
        assert_eq!((backup.host.as_deref(), backup.reason.as_str()), (Some("cp1"), "before-n1-leaves"));
        assert_eq!((backup.of.as_str(), backup.unless_allowed.as_deref()), (AT, Some("etcd:data")));
    }
    let upgrade =
        read::<Kubeadm>(json!({"endpoint": AT, "upgrade": {"version": "1.36.2", "ignore_preflight": ["X"]}}));
    let runs = |runs: &str, says: &str| {
        let state = KubeadmState::Version { runs: runs.into(), says: says.into() };
        FakeView::new().has(Kubeadm::version(), state)
    };
    // The second one was cut off in the middle of its upgrade.
    for view in [runs("v1.35.4", "v1.35.4"), runs("v1.36.2", "v1.35.4")] {
        let wanted = upgrade.plan(&view).unwrap();
        assert_eq!(wanted.targets[0].1.line(), "version v1.36.2 v1.36.2");
        assert_eq!(setting(&wanted, "CV_KUBEADM_IGNORE"), "X");
        let backup = wanted.backup.unwrap();
        assert_eq!((backup.host, backup.reason.as_str()), (None, "before-v1.36.2"));
        assert_eq!(backup.unless_allowed, None, "no upgrade without a snapshot");
    }
    for view in [runs("v1.36.2", "v1.36.2"), FakeView::new().has(Kubeadm::version(), KubeadmState::Absent)] {
        let wanted = upgrade.plan(&view).unwrap();
        assert!(wanted.backup.is_none() && wanted.settings.is_empty(), "there is nothing to upgrade");
    }
    let mut both = init();
    both["upgrade"] = json!({"version": "next", "ignore_preflight": [""]});
    assert_eq!(wrong::<Kubeadm>(both), ["/upgrade", "/upgrade/version", "/upgrade/ignore_preflight/0"]);
}

#[test]
fn what_was_begun_goes_on_and_what_others_left_is_an_error() {
    let begun =
        |what: &str, endpoint: &str| KubeadmState::Begun { what: what.into(), endpoint: endpoint.into() };
    let notes = read::<Kubeadm>(init()).plan(&host(begun("init", AT))).unwrap().notes;
    assert!(notes[0].contains("goes on"), "{notes:?}");
    // The rest that a reset has left is taken away before the host joins again; a leave goes on.
    let joins = read::<Kubeadm>(join("worker")).plan(&host(begun("leave", AT))).unwrap();
    assert!(joins.notes[0].contains("a leave was begun here") && joins.notes[0].contains("before the join"));
    let leave = json!({"endpoint": AT, "leave": {"control_plane": "cp1", "node": "n1"}});
    let goes = read::<Kubeadm>(leave).plan(&host(begun("leave", AT))).unwrap();
    assert!(goes.notes[0].contains("goes on") && goes.fetch.is_some(), "{:?}", goes.notes);
    let worker = KubeadmState::Worker { endpoint: AT.into() };
    for (params, state, says) in [
        (init(), begun("join", AT), "begun here"),
        (init(), begun("leave", AT), "a leave was begun here"),
        (init(), begun("init", "10.9.9.9:6443"), "another cluster, 10.9.9.9:6443"),
        (join("worker"), KubeadmState::Worker { endpoint: "10.9.9.9:6443".into() }, "another cluster"),
        (join("worker"), KubeadmState::ControlPlane { endpoint: AT.into() }, "is to be a worker"),
        (join("control_plane"), worker.clone(), "is to be a control plane"),
        (init(), worker, "is to be a control plane"),
        (join("worker"), KubeadmState::Partial { files: "pki/ca.crt".into() }, "kubeadm reset"),
    ] {
        match read::<Kubeadm>(params).plan(&host(state)) {
            Err(Stop::Failed(why)) => assert!(why.contains(says), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn wrong_parameters_are_named() {
    assert_eq!(wrong::<Kubeadm>(json!({"endpoint": AT})), [""]);
    assert_eq!(
        wrong::<Kubeadm>(json!({"endpoint": "x", "join": {"control_plane": ""}})),
        ["/endpoint", "/join/control_plane"]
    );
    assert_eq!(wrong::<Kubeadm>(json!({"endpoint": AT, "init": {"config": []}})), ["/init/config"]);
    let mut other = init();
    other["endpoint"] = json!("10.0.0.2:6443");
    assert_eq!(wrong::<Kubeadm>(other), ["/init/config/0"]);
    let mut open = init();
    open["init"]["config"][0].as_object_mut().unwrap().remove("kubernetesVersion");
    assert_eq!(wrong::<Kubeadm>(open), ["/init/config/0"]);
    let mut bad = join("worker");
    bad["join"]["config"] = json!({"discovery": {}, "controlPlane": {}});
    bad["join"]["ignore_preflight"] = json!(["a,b"]);
    bad["join"]["timeout"] = json!(0);
    let found = wrong::<Kubeadm>(bad);
    let all =
        ["/join/config/discovery", "/join/config/controlPlane", "/join/timeout", "/join/ignore_preflight/0"];
    assert_eq!(found, all);
}
