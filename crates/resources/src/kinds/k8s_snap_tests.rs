use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use serde_json::json;

fn host(state: K8sSnapState) -> FakeView {
    FakeView::new().has(K8sSnap::id(), state)
}

fn begun(what: &str) -> K8sSnapState {
    K8sSnapState::Begun { what: what.to_owned() }
}

fn join(role: &str) -> Value {
    json!({"node": "w1", "join": {"control_plane": "cp1", "role": role, "config": {"extra-node-kubelet-args": {"--max-pods": "500"}}}})
}

fn bootstrap() -> Value {
    json!({"node": "cp1", "address": "10.0.0.1:6400", "bootstrap": {"config": {"containerd-base-dir": "/var/lib/k8s-containerd"}}})
}

fn setting(wanted: &WantedStates, name: &str) -> String {
    wanted.settings.iter().find(|(n, _)| n == name).unwrap().1.clone()
}

#[test]
fn a_bare_host_becomes_what_it_is_to_be_and_stays_so() {
    for (params, line) in
        [(bootstrap(), "control-plane"), (join("worker"), "worker"), (join("control_plane"), "control-plane")]
    {
        let kind = read::<K8sSnap>(params);
        let view = settle(&kind, host(K8sSnapState::Absent));
        assert_eq!(view.line(&K8sSnap::id()), line);
        let again = kind.plan(&view).unwrap();
        assert!(again.fetch.is_none() && again.settings.is_empty() && again.notes.is_empty());
    }
    let gone = read::<K8sSnap>(json!({"node": "w1", "leave": {"control_plane": "cp1"}}));
    let again = gone.plan(&host(K8sSnapState::Absent)).unwrap();
    assert!(again.fetch.is_none(), "a host that is not a node asks nobody");
}

#[test]
fn only_a_join_asks_for_a_token_and_knows_its_rollback() {
    let first = read::<K8sSnap>(bootstrap()).plan(&host(K8sSnapState::Absent)).unwrap();
    assert_eq!((first.fetch.as_ref(), first.node_removal.as_ref()), (None, None));
    assert_eq!(setting(&first, "CV_K8S_SNAP_CONFIG"), r#"{"containerd-base-dir":"/var/lib/k8s-containerd"}"#);
    assert_eq!(setting(&first, "CV_K8S_SNAP_ADDRESS"), "10.0.0.1:6400");
    let worker = read::<K8sSnap>(join("worker")).plan(&host(K8sSnapState::Absent)).unwrap();
    assert_eq!(worker.fetch.unwrap().script, "cv_k8s_snap_invite worker w1");
    assert_eq!(worker.node_removal, Some(NodeRemoval { host: "cp1".into(), name: "w1".into() }));
    let second = read::<K8sSnap>(join("control_plane")).plan(&host(K8sSnapState::Absent)).unwrap();
    assert_eq!(second.fetch.unwrap().script, "cv_k8s_snap_invite control-plane w1");
}

#[test]
fn a_host_with_another_part_is_refused_and_what_was_begun_goes_on() {
    let worker = read::<K8sSnap>(join("worker"));
    for state in [K8sSnapState::ControlPlane, K8sSnapState::Partial, begun("bootstrap")] {
        let Err(Stop::Failed(why)) = worker.plan(&host(state)) else { panic!("refused") };
        assert!(why.contains("snap remove --purge k8s"), "the way out is named: {why}");
    }
    for what in ["join", "leave"] {
        let goes_on = worker.plan(&host(begun(what))).unwrap();
        assert!(goes_on.notes[0].contains(what) && goes_on.fetch.is_some(), "{:?}", goes_on.notes);
    }
    let leave = read::<K8sSnap>(json!({"node": "w1", "leave": {"control_plane": "cp1"}}));
    for state in [K8sSnapState::Worker, K8sSnapState::ControlPlane, begun("join")] {
        let goes = leave.plan(&host(state)).unwrap();
        assert_eq!(goes.fetch.unwrap().script, "cv_k8s_snap_let_go w1");
    }
}

#[test]
fn wrong_parameters_are_named() {
    assert_eq!(wrong::<K8sSnap>(json!({"node": "w1"})), [""]);
    assert_eq!(
        wrong::<K8sSnap>(json!({"node": "-x", "address": "-a", "bootstrap": {}})),
        ["/node", "/address"]
    );
    let both = json!({"node": "w1", "bootstrap": {}, "join": {"control_plane": "", "timeout": 0}});
    assert_eq!(wrong::<K8sSnap>(both), ["", "/join/control_plane", "/join/timeout"]);
    assert_eq!(wrong::<K8sSnap>(json!({"node": "w1", "wait": 901, "bootstrap": {}})), ["/wait"]);
}
