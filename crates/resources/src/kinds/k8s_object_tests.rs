//! Plans made from answers of the server.

use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use converge_objects::k8s;
use converge_resource::{ApiCall, ApiProbe, ApiRef, Content, ObjectId, Probe};
use serde_json::json;

fn manifest(replicas: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "ns"}, "data": {"r": replicas}})
}

fn id() -> ObjectId {
    ObjectId::new("k8s", "v1/ConfigMap/ns/x")
}

fn dry_run(manifest: &Value) -> ApiProbe {
    ApiProbe::Apply { manifest: manifest.to_string(), force: false }
}

fn live(view: FakeView, object: &Value) -> FakeView {
    let (state, content) = K8sState::of(object);
    let object_id = ApiRef::of(object).unwrap().object();
    view.has(object_id, state).knows(content)
}

/// The object as the server returns it, with the fields that belong to the server.
fn made(manifest: &Value) -> Value {
    let mut object = manifest.clone();
    object["metadata"]["uid"] = json!("u");
    object["metadata"]["managedFields"] = json!([{"manager": "converge"}]);
    json!({"object": object})
}

fn reply(view: &FakeView, params: Value) -> String {
    match read::<K8sObject>(params).plan(view) {
        Err(Stop::Invalid { message, help, pointer, .. }) => {
            format!("{pointer}: {message} ({})", help.unwrap_or_default())
        }
        Err(Stop::Deferred(wait)) => format!("deferred: {}", wait.reason),
        other => format!("{other:?}"),
    }
}

#[test]
fn the_servers_dry_run_is_what_is_wanted() {
    let wish = manifest("4");
    let kind = read::<K8sObject>(wish.clone());
    assert_eq!(kind.plan(&FakeView::strict()), Err(Stop::Ask(vec![Probe::Object(id())])));
    let new = FakeView::new().says(dry_run(&wish), made(&wish));
    let wanted = kind.plan(&new).unwrap();
    assert_eq!(wanted.calls, [ApiCall::Apply { manifest: wish.clone(), force: false }]);
    assert!(wanted.contents[0].text().unwrap().contains("r: '4'"), "{wanted:?}");
    let after = settle(&kind, new);
    assert!(after.line(&id()).starts_with("object "));
    // The same again is no change and no work.
    let same = live(FakeView::new(), &wish).says(dry_run(&wish), made(&wish));
    assert_eq!(kind.plan(&same).unwrap().calls, []);
    settle(&kind, same);
}

#[test]
fn what_an_earlier_item_changed_stays_changed() {
    let wish = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "ns"}, "data": {"r": "4"}});
    let now = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "ns"}, "data": {"r": "2"}});
    let mut earlier = now.clone();
    earlier["data"]["other"] = json!("kept");
    let view = live(FakeView::new(), &earlier).pending().says(dry_run(&wish), made(&wish));
    let view = view.says(ApiProbe::Get(ApiRef::of(&wish).unwrap()), now);
    let wanted = read::<K8sObject>(wish).plan(&view).unwrap();
    let text = wanted.contents[0].text().unwrap();
    assert!(text.contains("other: kept") && text.contains("r: '4'"), "{text}");
}

#[test]
fn what_the_server_gives_by_lot_is_not_planned() {
    let wish = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "ns"},
        "spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30001}]}});
    let kind = read::<K8sObject>(wish.clone());
    let texts = ["10.0.0.1", "10.0.0.2"].map(|address| {
        let mut object = wish.clone();
        object["spec"]["clusterIP"] = json!(address);
        object["spec"]["ports"][0]["nodePort"] = json!(address);
        let view = FakeView::new().says(dry_run(&wish), made(&object));
        kind.plan(&view).unwrap().contents[0].text().unwrap().to_owned()
    });
    assert_eq!(texts[0], texts[1]);
    assert!(texts[0].contains("30001") && !texts[0].contains("10.0.0"), "{}", texts[0]);
}

#[test]
fn what_the_server_gives_by_lot_to_an_object_that_is_there_is_not_planned_either() {
    let service = |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "ns"}, "spec": spec});
    let port = |name: &str, number: u32| json!({"name": name, "port": number});
    let wish = service(json!({"type": "NodePort", "ports": [port("a", 80), port("b", 81), port("c", 82)]}));
    let mut now = service(
        json!({"clusterIP": "10.0.0.1", "type": "NodePort", "ports": [port("a", 80), port("c", 82)]}),
    );
    now["spec"]["ports"][0]["nodePort"] = json!(30001);
    let kind = read::<K8sObject>(wish.clone());
    let texts = [32769, 32121].map(|drawn| {
        let mut object = wish.clone();
        object["spec"]["clusterIP"] = json!("10.0.0.1");
        for (at, given) in [30001, drawn, drawn + 1].into_iter().enumerate() {
            object["spec"]["ports"][at]["nodePort"] = json!(given);
        }
        let view = live(FakeView::new(), &now).says(dry_run(&wish), made(&object));
        kind.plan(&view).unwrap().contents[0].text().unwrap().to_owned()
    });
    assert_eq!(texts[0], texts[1]);
    assert!(
        texts[0].contains("30001") && texts[0].contains("10.0.0.1"),
        "it keeps what it had: {}",
        texts[0]
    );
    // A number that the role declares is planned, and one that the server takes away is gone.
    let mut declared = wish.clone();
    declared["spec"]["ports"][1]["nodePort"] = json!(30002);
    let view = live(FakeView::new(), &now).says(dry_run(&declared), made(&declared));
    let wanted = read::<K8sObject>(declared).plan(&view).unwrap();
    assert!(wanted.contents[0].text().unwrap().contains("30002"), "{wanted:?}");
    let plain = service(json!({"type": "ClusterIP", "ports": [port("a", 80)]}));
    let view = live(FakeView::new(), &now).says(dry_run(&plain), made(&plain));
    let wanted = read::<K8sObject>(plain).plan(&view).unwrap();
    assert!(!wanted.contents[0].text().unwrap().contains("nodePort"), "{wanted:?}");
}

#[test]
fn an_object_goes() {
    let params = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "ns"}, "state": "absent"});
    let kind = read::<K8sObject>(params);
    let after = settle(&kind, live(FakeView::new(), &manifest("4")));
    assert_eq!(after.line(&id()), "absent");
    assert!(kind.claims().iter().all(|c| c.facet == "presence"));
}

#[test]
fn both_managers_are_named() {
    let wish = manifest("4");
    let conflicts = json!({"conflicts": [{"manager": "helm", "field": ".data.r"}]});
    let view = live(FakeView::new(), &manifest("2")).says(dry_run(&wish), conflicts);
    let text = reply(&view, wish.clone());
    for part in ["`converge`", "`helm`", ".data.r", "force_conflicts: true"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let mut forced = wish.clone();
    forced["force_conflicts"] = json!(true);
    let kind = read::<K8sObject>(forced);
    let probe = ApiProbe::Apply { manifest: wish.to_string(), force: true };
    // Whose the field is that it takes is said.
    for (manager, way) in [("helm", "belongs to `helm`"), ("kubectl-edit", "was changed by `kubectl-edit`")] {
        let mut now = manifest("2");
        now["metadata"]["managedFields"] = json!([{"manager": manager, "fieldsV1": {"f:data": {"f:r": {}}}}, {"manager": "converge", "fieldsV1": {"f:data": {"f:r": {}}}}]);
        let others = ApiProbe::Others(ApiRef::of(&now).unwrap());
        let view = live(FakeView::new(), &now)
            .says(probe.clone(), made(&wish))
            .says(others, json!({"object": now, "manager": "converge"}));
        let wanted = kind.plan(&view).unwrap();
        assert_eq!(wanted.calls, [ApiCall::Apply { manifest: wish.clone(), force: true }]);
        assert_eq!(wanted.notes, [format!("configmap ns/x: .data.r {way}")]);
    }
}

#[test]
fn what_is_missing_is_waited_for_or_named() {
    let wish = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}});
    let none = FakeView::new().says(dry_run(&wish), json!({"no_kind": true}));
    assert!(
        reply(&none, wish.clone())
            .contains("knows no kind ClusterPolicy of nvidia.com/v1 (the chart gpu-operator")
    );
    let later = none.may(ObjectId::new("k8s", "nvidia.com/v1/ClusterPolicy/p"));
    assert_eq!(reply(&later, wish), "deferred: the kind ClusterPolicy of nvidia.com/v1 is not there yet");

    let wish = manifest("4");
    let none = FakeView::new().says(dry_run(&wish), json!({"no_namespace": "ns"}));
    assert!(reply(&none, wish.clone()).contains("`namespace: {name: ns}`"));
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
    let made = live(none, &space).pending();
    assert_eq!(reply(&made, wish.clone()), "deferred: the namespace ns is not there yet");
    let bad = FakeView::new().says(dry_run(&wish), json!({"invalid": "data: must be a map"}));
    assert!(reply(&bad, wish).contains("the server refuses configmap ns/x: data: must be a map"));
}

#[test]
fn wrong_parameters_are_named() {
    let with = |pointer: &str, key: &str, value: Value| {
        let mut wish = manifest("4");
        wish.pointer_mut(pointer).unwrap()[key] = value;
        wrong::<K8sObject>(wish)
    };
    assert_eq!(with("/metadata", "generateName", json!("x-")), ["/metadata/generateName"]);
    assert_eq!(with("", "status", json!({})), ["/status"]);
    assert_eq!(with("", "kind", json!("ConfigMapList")), ["/kind"]);
    assert_eq!(with("", "kind", json!("Secret")), ["/kind"]);
    assert_eq!(with("", "kind", json!("configmap")), [""]);
    assert_eq!(with("/metadata", "name", json!("Bad_Name")), ["/metadata/name"]);
    assert_eq!(with("/metadata", "resourceVersion", json!("7")), ["/metadata/resourceVersion"]);
    assert_eq!(wrong::<K8sObject>(json!({"apiVersion": "v1", "kind": "Node"})), ["/metadata/name"]);
    assert_eq!(wrong::<K8sObject>(json!({"kind": "Node"})), ["parse "]);
    let mut gone = manifest("4");
    gone["state"] = json!("absent");
    gone["force_conflicts"] = json!(true);
    assert_eq!(wrong::<K8sObject>(gone), ["/force_conflicts"]);
}

#[test]
fn two_items_do_not_own_one_object() {
    let claims = read::<K8sObject>(manifest("4")).claims();
    let content = claims.iter().find(|c| c.facet == "content").unwrap();
    assert_eq!(content.mode, converge_resource::ClaimMode::Exclusive);
    assert_eq!(content.object, id());
    // A diff shows the content that the state names.
    let content = Content::new(k8s::text(&k8s::normalised(&manifest("4"))).into_bytes());
    assert_eq!(K8sState::of(&manifest("4")).1, content);
}
