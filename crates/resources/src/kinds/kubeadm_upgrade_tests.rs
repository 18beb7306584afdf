use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use serde_json::{Value, json};

fn item(part: &str, of: &Value) -> KubeadmUpgrade {
    let mut params =
        json!({"endpoint": "10.0.0.1:6443", "version": "1.36.2", "node": "w1", "control_plane": "cp1"});
    params[part] = of.clone();
    read(params)
}

fn planned(kind: &KubeadmUpgrade, now: KubeadmUpgradeState) -> Result<WantedStates, Stop> {
    let id = kind.id(&kind.part().unwrap());
    kind.plan(&FakeView::new().has(id, now))
}

fn at(version: &str) -> KubeadmUpgradeState {
    KubeadmUpgradeState::At(version.to_owned())
}

#[test]
fn a_node_follows_once_the_cluster_leads() {
    let kind = item("follow", &json!({"timeout": 30, "ignore_preflight": ["Swap"]}));
    let wanted = planned(&kind, at("v1.35.1")).unwrap();
    let fetch = wanted.fetch.clone().unwrap();
    assert_eq!(
        (fetch.host.as_str(), fetch.script.as_str()),
        ("cp1", "cv_kubeadm_leads v1.36.2 10.0.0.1:6443")
    );
    assert_eq!((fetch.seconds, fetch.give_up), (30, None));
    assert_eq!(wanted.settings, [("CV_KUBEADM_IGNORE".to_owned(), "Swap".to_owned())]);
    assert_eq!(wanted.targets[0].1.line(), "at v1.36.2");
    for now in [at("v1.36.2"), KubeadmUpgradeState::Absent] {
        let same = planned(&kind, now.clone()).unwrap();
        assert!(same.fetch.is_none() && same.targets[0].1 == now.into());
    }
}

#[test]
fn a_node_is_drained_for_another_kubelet_only() {
    let runs = |version: &str| KubeadmUpgradeState::Runs(version.to_owned());
    let kind = item("drain", &json!({"timeout": 5}));
    let fetch = planned(&kind, runs("v1.35.1")).unwrap().fetch.unwrap();
    assert_eq!((fetch.script.as_str(), fetch.seconds), ("cv_kubeadm_free w1 10.0.0.1:6443", 5));
    assert_eq!(fetch.give_up.as_deref(), Some("cv_kubeadm_keep w1 10.0.0.1:6443 upgrade"));
    let kind = item("drain", &json!({"unmanaged": true, "delete_emptydir_data": true}));
    let wanted = planned(&kind, KubeadmUpgradeState::Free("v1.35.3".to_owned())).unwrap();
    assert_eq!(
        wanted.fetch.unwrap().script,
        "cv_kubeadm_free w1 10.0.0.1:6443 --force --delete-emptydir-data"
    );
    // A run that was cut off behind the drain does not drain again.
    for now in [runs("v1.36.2"), KubeadmUpgradeState::Free("v1.36.2".to_owned()), KubeadmUpgradeState::Absent]
    {
        assert!(planned(&kind, now).unwrap().fetch.is_none());
    }
}

#[test]
fn only_a_cordon_of_converge_is_lifted() {
    let kind = item("resume", &json!({}));
    for purpose in ["upgrade", "leave"] {
        let id = kind.id(&kind.part().unwrap());
        settle(&kind, FakeView::new().has(id, KubeadmUpgradeState::Cordoned(purpose.to_owned())));
    }
    let wanted = planned(&kind, KubeadmUpgradeState::Cordoned("upgrade".to_owned())).unwrap();
    assert_eq!(wanted.targets[0].1.line(), "open");
    assert_eq!(wanted.settings[0], ("CV_KUBEADM_READY".to_owned(), "v1.36.2".to_owned()));
    for now in [KubeadmUpgradeState::Closed, KubeadmUpgradeState::Open, KubeadmUpgradeState::Absent] {
        assert_eq!(planned(&kind, now.clone()).unwrap().targets[0].1, now.into());
    }
    assert!(matches!(planned(&kind, KubeadmUpgradeState::Silent), Err(Stop::Deferred(_))));
}

#[test]
fn mistakes_are_found_before_any_contact() {
    let of = |more: Value| {
        let mut params =
            json!({"endpoint": "10.0.0.1:6443", "version": "1.36.2", "node": "w1", "control_plane": "cp1"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        wrong::<KubeadmUpgrade>(params)
    };
    assert_eq!(of(json!({})), [""]);
    assert_eq!(of(json!({"drain": {}, "resume": {}})), [""]);
    assert_eq!(of(json!({"drain": {"timeout": 0}})), ["/drain/timeout"]);
    assert_eq!(of(json!({"follow": {"ignore_preflight": ["a,b"]}})), ["/follow/ignore_preflight/0"]);
    assert_eq!(
        of(json!({"resume": {}, "version": "v1", "node": "A b", "control_plane": "", "endpoint": "x"})),
        ["/version", "/node", "/control_plane", "/endpoint"]
    );
}
