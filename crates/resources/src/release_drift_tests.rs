//! Drift of a release by the owners of the fields.

use super::*;
use crate::fake::FakeView;

const RELEASE: InstalledRelease<'_> = InstalledRelease { name: "r", namespace: "ns", force: false };

fn manifest(replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": "a:1"}]}}}})
}

fn live(replicas: u32, image: &str, manager: &str) -> Value {
    let mut object = RELEASE.marked(&manifest(replicas), true);
    object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    object["metadata"]["managedFields"] = json!([
        {"manager": "helm", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": manager, "fieldsV1": {"f:spec": {"f:template": {"f:spec": {"f:containers":
            {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}}}}}},
        {"manager": "other", "subresource": "status", "fieldsV1": {"f:spec": {}}}]);
    object
}

fn view(object: Option<&Value>) -> FakeView {
    let wish = RELEASE.marked(&manifest(2), true);
    let id = ApiRef::of(&wish).unwrap();
    let view = FakeView::new()
        .says(ApiProbe::Get(id.clone()), object.cloned().unwrap_or_default())
        .says(ApiProbe::Apply { manifest: wish.to_string(), force: true }, json!({"object": wish}));
    match object {
        None => view,
        Some(object) => {
            let (state, content) = K8sState::of(object);
            view.has(id.object(), state).knows(content)
        }
    }
}

fn found(object: Option<&Value>) -> ReleaseDrift {
    RELEASE.drift(&view(object), &[manifest(2)]).unwrap()
}

/// The server knows where objects of a kind live that others define.
#[test]
fn an_object_of_an_unknown_kind_is_where_its_kind_lives() {
    let thing =
        json!({"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"v": "1"}});
    for is_namespaced in [true, false] {
        let kind = ApiProbe::Namespaced { api_version: "ex.io/v1".into(), kind: "Thing".into() };
        let view = FakeView::new().says(kind.clone(), json!(is_namespaced));
        let Err(Stop::Ask(probes)) = RELEASE.drift(&view, std::slice::from_ref(&thing)) else {
            panic!("asks nothing")
        };
        let namespace = is_namespaced.then(|| "ns".to_owned());
        let asked = probes.iter().any(|p| {
            matches!(p, converge_resource::Probe::Api(ApiProbe::Get(object)) if object.namespace == namespace)
        });
        assert!(asked, "{probes:?}");
        let Err(Stop::Ask(first)) = RELEASE.drift(&FakeView::new(), std::slice::from_ref(&thing)) else {
            panic!("asks nothing")
        };
        assert_eq!(first, [converge_resource::Probe::Api(kind)]);
    }
}

#[test]
fn what_is_helms_is_set_back() {
    let none = found(Some(&live(2, "a:1", "helm")));
    assert!(none.targets.is_empty() && none.theirs.is_empty(), "{none:?}");
    let drift = found(Some(&live(5, "a:1", "helm")));
    assert!(drift.contents[0].text().unwrap().contains("replicas: 2"), "{drift:?}");
    let own = |call: &ApiCall| matches!(call, ApiCall::As { manager, .. } if manager == "helm");
    assert!(drift.calls.iter().all(own), "{drift:?}");
}

#[test]
fn what_belongs_to_others_is_theirs() {
    let drift = found(Some(&live(2, "a:9", "some-operator")));
    assert!(drift.targets.is_empty() && drift.conflict().is_ok() && drift.taken().targets.is_empty());
    assert_eq!(
        drift.notes(),
        [
            "deployment ns/x: .spec.template.spec.containers[name=c].image belongs to `some-operator`: left as it is"
        ]
    );
    let follower = found(Some(&live(2, "a:9", "kube-controller-manager")));
    assert!(follower.targets.is_empty() && follower.theirs.is_empty(), "{follower:?}");
}

#[test]
fn a_field_of_others_alone_makes_no_revision() {
    let image = |image: &str, replicas: u32| {
        let mut manifest = manifest(replicas);
        manifest["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        manifest
    };
    let with = |manager: &str, image: &str, then: &Value| {
        let drift = found(Some(&live(2, image, manager)));
        drift.as_in_force("ns", &[manifest(2)], std::slice::from_ref(then)).unwrap().remove(0)
    };
    // Whether an upgrade has laid the value of another into the revision, or the patch is newer, or says what the chart says.
    for (live, then) in [("a:9", "a:1"), ("a:9", "a:9"), ("a:9", "a:8"), ("a:1", "a:9")] {
        assert_eq!(with("converge", live, &image(then, 2)), image(then, 2), "{live} {then}");
    }
    assert_eq!(with("converge", "a:9", &image("a:8", 3)), image("a:8", 2), "helm's own");
    assert_eq!(with("helm", "a:9", &image("a:8", 2)), manifest(2));
    assert_eq!(with("kube-controller-manager", "a:9", &image("a:8", 2)), manifest(2));
}

#[test]
fn a_field_of_others_that_the_chart_drops_stays() {
    let with = |part: Value| {
        let mut manifest = manifest(2);
        manifest["spec"]["template"]["spec"] = part;
        manifest
    };
    let container = |image: Option<&str>| {
        let mut container = json!({"name": "c"});
        if let Some(image) = image {
            container["image"] = json!(image);
        }
        json!({"containers": [container]})
    };
    let then = [with(container(Some("a:1")))];
    let left_alone = |manager: &str, new: Value| {
        let drift = found(Some(&live(2, "a:9", manager)));
        let manifests = [with(new)];
        let compared = drift.as_in_force("ns", &manifests, &then).unwrap();
        let left_alone = drift.keep_dropped("ns", &manifests, &then).unwrap();
        let shown: Vec<String> =
            left_alone.iter().map(|left_alone| fields::shown(&left_alone.path)).collect();
        (shown.join(" "), compared == then)
    };
    let image = ".spec.template.spec.containers[name=c].image".to_owned();
    assert_eq!(left_alone("converge", container(None)), (image, true));
    // helm takes away what is its own, a user's edit as ever, and an item of a list with all that others have in it.
    for manager in ["helm", "kubectl-edit", "kube-controller-manager"] {
        assert_eq!(left_alone(manager, container(None)), (String::new(), false), "{manager}");
    }
    let other = json!({"containers": [{"name": "d", "image": "a:1"}]});
    assert_eq!(left_alone("converge", other), (String::new(), false));
}

#[test]
fn what_somebody_changed_by_hand_is_drift() {
    for tool in ["kubectl-set", "kubectl-edit", "kubectl", "k9s", "OpenAPI-Generator", "kubectl1.36"] {
        let drift = found(Some(&live(2, "a:9", tool)));
        let Err(Stop::Invalid { message, help, .. }) = drift.conflict() else { panic!("{tool}: {drift:?}") };
        assert!(message.contains(&format!("containers[name=c].image was changed by `{tool}`")), "{message}");
        assert!(help.unwrap().contains("force_conflicts: true") && !message.contains("a:9"));
    }
    assert!(found(Some(&live(2, "a:9", "octavia-controller"))).conflict().is_ok());
    assert!(found(Some(&live(2, "a:1", "kubectl-edit"))).conflict().is_ok(), "as declared");
    let forced = InstalledRelease { force: true, ..RELEASE };
    let taken = forced.drift(&view(Some(&live(3, "a:9", "kubectl-edit"))), &[manifest(2)]).unwrap();
    let text = taken.contents[0].text().unwrap();
    assert!(text.contains("a:1") && text.contains("replicas: 2") && taken.theirs.len() == 1, "{taken:?}");
    assert!(taken.conflict().is_ok() && taken.notes()[0].ends_with("taken, by `force_conflicts`"));
    // Before an upgrade only what others took.
    let first = taken.taken();
    let text = first.contents[0].text().unwrap();
    assert!(text.contains("a:1") && text.contains("replicas: 3"), "{text}");
}

/// `kubectl scale` and autoscalers write through a resource of its own.
#[test]
fn who_scales_is_known() {
    let scaled = |manager: &str| {
        let mut object = live(7, "a:1", "nobody");
        object["metadata"]["managedFields"][0] = json!(
            {"manager": manager, "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        found(Some(&object))
    };
    assert!(scaled("kubectl").conflict().is_err());
    let autoscaled = scaled("kube-controller-manager");
    assert!(autoscaled.targets.is_empty() && autoscaled.theirs.is_empty(), "{autoscaled:?}");
}

#[test]
fn what_is_missing_is_made_as_helm_would() {
    let drift = found(None);
    assert_eq!(drift.targets.len(), 1);
    let [ApiCall::As { .. }, ApiCall::Apply { manifest, force: false }] = &drift.calls[..] else {
        panic!("{drift:?}")
    };
    assert_eq!(manifest["metadata"]["annotations"]["meta.helm.sh/release-name"], "r");
    assert_eq!(manifest["metadata"]["namespace"], "ns");
    let hook = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "h", "annotations": {"helm.sh/hook": "pre-upgrade"}}});
    assert!(RELEASE.drift(&FakeView::new(), &[hook]).unwrap().targets.is_empty());
}

#[test]
fn items_are_known_by_the_keys_of_the_server() {
    let object = json!({"metadata": {"managedFields": [{"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:ports": {
        "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:targetPort": {}}}, "f:args": {}}}}]},
        "spec": {"ports": [{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 81, "protocol": "TCP"}]}});
    let way = |text: &str| crate::pointer::single(text).unwrap();
    assert_eq!(owners(&object, &way("/spec/ports/[name=a]/targetPort")), ["kubectl-edit"]);
    assert_eq!(owners(&object, &way("/spec/ports/[name=b]/targetPort")), Vec::<String>::new());
    assert_eq!(owners(&object, &way("/spec/ports/[name=a]/nodePort")), Vec::<String>::new());
    assert_eq!(owners(&object, &way("/spec/args/[key=x]/value")), ["kubectl-edit"]);
}

#[test]
fn all_is_asked_in_one_round() {
    let two = [manifest(2), json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})];
    let Err(Stop::Ask(probes)) = RELEASE.drift(&FakeView::strict(), &two) else { panic!() };
    assert_eq!(probes.len(), 6);
}

/// The tolerations of a pod are one field for the server: another manager that has changed one of them has all of them.
#[test]
fn a_list_that_another_manager_owns_as_a_whole_is_left_as_a_whole() {
    let with = |tolerations: Value| {
        let mut manifest = manifest(2);
        manifest["spec"]["template"]["spec"]["tolerations"] = tolerations;
        manifest
    };
    let chart = with(json!([{"key": "gpu", "effect": "NoSchedule"}, {"key": "x"}]));
    let mut object =
        RELEASE.marked(&with(json!([{"key": "gpu", "effect": "NoExecute"}, {"key": "y"}])), true);
    object["metadata"]["managedFields"] = json!([
        {"manager": "helm", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
        {"manager": "x", "fieldsV1": {"f:spec": {"f:template": {"f:spec": {"f:tolerations": {}}}}}}]);
    let wish = RELEASE.marked(&chart, true);
    let id = ApiRef::of(&wish).unwrap();
    let (state, content) = K8sState::of(&object);
    let view = FakeView::new()
        .says(ApiProbe::Get(id.clone()), object.clone())
        .says(ApiProbe::Apply { manifest: wish.to_string(), force: true }, json!({"object": wish}))
        .has(id.object(), state)
        .knows(content);
    let drift = RELEASE.drift(&view, std::slice::from_ref(&chart)).unwrap();
    let preserved = drift.keep("ns", std::slice::from_ref(&chart));
    let shown: Vec<String> = preserved.iter().map(|field| fields::shown(&field.path)).collect();
    assert_eq!(shown, [".spec.template.spec.tolerations"]);
    assert!(
        drift.targets.is_empty() && drift.notes()[0].contains("tolerations belongs to `x`"),
        "{:?}",
        drift.notes()
    );
}
