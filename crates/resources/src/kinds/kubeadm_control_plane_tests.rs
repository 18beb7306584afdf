use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use serde_json::json;

const DEFAULTS: [&str; 3] = [
    "kube-apiserver:--authorization-mode=Node,RBAC",
    "kube-apiserver:--enable-admission-plugins=NodeRestriction",
    "name:kubernetes",
];

fn config(api_server: &Value) -> Value {
    json!({"config": [
        {"kind": "InitConfiguration"},
        {"kind": "ClusterConfiguration", "kubernetesVersion": "v1.36.2", "apiServer": api_server},
    ]})
}

fn kind(api_server: &Value) -> KubeadmControlPlane {
    read(config(api_server))
}

fn host(record: &str, words: &[&str]) -> FakeView {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    let state = ControlPlaneState::There { record: record.to_owned(), words };
    FakeView::new().has(KubeadmControlPlane::id(), state)
}

fn target(kind: &KubeadmControlPlane, view: &FakeView) -> ControlPlaneState {
    kind.plan(view).unwrap().targets[0].1.clone().try_into().unwrap()
}

/// The words that must be there and those that must go.
fn planned(kind: &KubeadmControlPlane, view: &FakeView) -> (Vec<String>, Vec<String>) {
    match target(kind, view) {
        ControlPlaneState::Planned { with, without, .. } => (with, without),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_argument_that_lacks_or_has_another_value_is_a_difference() {
    let declared =
        json!({"extraArgs": [{"name": "v", "value": "4"}], "certSANs": ["api.example", "fd00::1"]});
    let own = kind(&declared);
    let record = json!({"apiServer": declared}).to_string();
    let all =
        [&DEFAULTS[..], &["kube-apiserver:--v=4", "name:api.example", "name:FD00:0:0:0:0:0:0:1"]].concat();
    let view = host(&record, &all);
    settle(&own, view.clone());
    assert_eq!(own.plan(&view).unwrap().targets[0].1.line(), view.line(&KubeadmControlPlane::id()));
    // In another order it is the same declaration.
    let turned =
        json!({"apiServer": {"certSANs": ["api.example", "fd00::1"], "extraArgs": declared["extraArgs"]}});
    assert!(matches!(target(&own, &host(&turned.to_string(), &all)), ControlPlaneState::There { .. }));

    let other =
        [&DEFAULTS[..], &["kube-apiserver:--v=2", "name:api.example", "kube-scheduler:--v=2"]].concat();
    let (with, without) = planned(&own, &host(&record, &other));
    assert_eq!(with, ["kube-apiserver:--v=4", "name:api.example", "name:FD00:0:0:0:0:0:0:1"]);
    assert_eq!(without, ["kube-apiserver:--v=2"]);
    let wanted = own.plan(&host(&record, &other)).unwrap();
    assert!(wanted.settings[0].1.contains("\n---\n"), "{:?}", wanted.settings);
}

#[test]
fn what_is_no_longer_declared_and_a_run_that_was_cut_off_make_it_anew() {
    let own = kind(&json!({}));
    let with_nothing = "{}".to_owned();
    let before = json!({"apiServer": {"extraArgs": [{"name": "v", "value": "4"}]}}).to_string();
    let words = [&DEFAULTS[..], &["kube-apiserver:--v=4"]].concat();
    for record in [before.as_str(), "begun"] {
        assert!(matches!(target(&own, &host(record, &words)), ControlPlaneState::Planned { .. }), "{record}");
    }
    // Of others: it stays.
    assert!(matches!(target(&own, &host(&with_nothing, &words)), ControlPlaneState::There { .. }));
    // Made by kubeadm a moment ago: only the record lacks.
    let ControlPlaneState::There { record, words: after } = target(&own, &host("-", &words)) else {
        panic!()
    };
    assert_eq!((record, after.len()), (with_nothing, words.len()));
}

#[test]
fn an_argument_that_opens_the_api_server_goes_unless_it_is_declared() {
    let declared = json!({"extraArgs": [{"name": "token-auth-file", "value": "/tokens"}]});
    let record = |declared: &Value| json!({"apiServer": declared}).to_string();
    let token = "kube-apiserver:--token-auth-file=/tokens";
    let words = [&DEFAULTS[..], &[token]].concat();
    assert!(matches!(
        target(&kind(&declared), &host(&record(&declared), &words)),
        ControlPlaneState::There { .. }
    ));
    let none = json!({});
    for (open, closed) in [
        (token, "kube-apiserver:--token-auth-file="),
        ("kube-apiserver:--insecure-port=8080", "kube-apiserver:--insecure-port=0"),
        ("kube-apiserver:--service-account-lookup=false", "kube-apiserver:--service-account-lookup=true"),
        (
            "kube-apiserver:--enable-admission-plugins=A,AlwaysAdmit",
            "kube-apiserver:--enable-admission-plugins=AlwaysAdmitx",
        ),
        (
            "kube-apiserver:--disable-admission-plugins=NodeRestriction",
            "kube-scheduler:--disable-admission-plugins=NodeRestriction",
        ),
        ("kube-apiserver:--authorization-mode=RBAC,AlwaysAllow", "kube-apiserver:--authorization-mode=RBAC"),
    ] {
        let with = |word| host(&record(&none), &[DEFAULTS[0], word]);
        assert_eq!(planned(&kind(&none), &with(open)).1, [open]);
        if !closed.ends_with("file=") {
            assert!(
                matches!(target(&kind(&none), &with(closed)), ControlPlaneState::There { .. }),
                "{closed}"
            );
        }
    }
    // Without a mode it allows everything; a configuration of modes is one too.
    let (with, _) = planned(&kind(&none), &host(&record(&none), &["name:kubernetes"]));
    assert_eq!(with, ["kube-apiserver:--authorization-mode=Node,RBAC"]);
    let file = host(&record(&none), &["kube-apiserver:--authorization-config=/x"]);
    assert!(matches!(target(&kind(&none), &file), ControlPlaneState::There { .. }));
}

#[test]
fn hosts_without_a_control_plane_and_those_that_get_one() {
    let own = kind(&json!({"extraArgs": [{"name": "v", "value": "4"}]}));
    let none = FakeView::new().has(KubeadmControlPlane::id(), ControlPlaneState::Absent);
    settle(&own, none.clone());
    assert_eq!(target(&own, &none), ControlPlaneState::Absent);
    assert!(matches!(own.plan(&none.acts(ObjectId::new("kubeadm", "node"), true)), Err(Stop::Deferred(_))));
}

#[test]
fn documents_have_what_kubeadm_needs() {
    assert_eq!(wrong::<KubeadmControlPlane>(json!({"config": []})), ["/config", "/config"]);
    let mut without = config(&json!({}));
    without["config"][1]["kubernetesVersion"] = json!(null);
    assert_eq!(wrong::<KubeadmControlPlane>(without), ["/config"]);
    for arguments in [json!({"v": "4"}), json!([{"name": "v", "value": 4}])] {
        assert_eq!(wrong::<KubeadmControlPlane>(config(&json!({"extraArgs": arguments}))), ["/config"]);
    }
}

#[test]
fn the_record_of_an_earlier_version_of_role_k8s_is_replaced() {
    let declared = json!({"extraArgs": [{"name": "v", "value": "4"}]});
    let words = [&DEFAULTS[..], &["kube-apiserver:--v=4"]].concat();
    let earlier = |declared: &Value| format!("{:#}", json!({"apiServer": declared, "scheduler": {}}));
    let record = json!({"apiServer": declared}).to_string();
    assert_eq!(target(&kind(&declared), &host(&earlier(&declared), &words)), {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        ControlPlaneState::There { record: record.clone(), words }
    });
    settle(&kind(&declared), host(&record, &words));
    // An argument that was declared then goes.
    let none = host(&earlier(&declared), &words);
    assert!(matches!(target(&kind(&json!({})), &none), ControlPlaneState::Planned { .. }));
}

#[test]
fn volumes_are_not_taken_for_made_where_nothing_is_recorded() {
    let own = kind(&json!({"extraVolumes": [{"name": "notes", "hostPath": "/n", "mountPath": "/n"}]}));
    assert!(matches!(target(&own, &host("-", &DEFAULTS)), ControlPlaneState::Planned { .. }));
}
