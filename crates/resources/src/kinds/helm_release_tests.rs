//! Releases that are there, that are not, and that hang.

use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use serde_json::json;

const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: '1'}\n";

fn params() -> Value {
    json!({"name": "op", "namespace": "ns", "repository": "https://charts.example.org", "chart": "op",
        "version": "v1.2.3", "values": {"driver": {"enabled": false}}})
}

fn releases() -> ApiProbe {
    ApiProbe::Release { namespace: "ns".into(), name: "op".into() }
}

fn render(kind: &HelmRelease) -> ApiProbe {
    kind.question(&kind.spec(kind.chart().unwrap())).unwrap()
}

fn object() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}})
}

fn revision(status: &str, version: &str) -> Value {
    json!({"revision": 3, "status": status, "chart": {"name": "op", "version": version},
        "values": {"driver": {"enabled": false}}, "manifest": MANIFEST})
}

/// Answers: the chart as helm renders it, and its one object as the server has it.
fn answers(kind: &HelmRelease, revisions: Value) -> FakeView {
    let own = json!({"driver": {"enabled": true, "version": ""}, "toolkit": {}});
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}, "metadata": {"name": "x",
        "namespace": "ns", "labels": {"app.kubernetes.io/managed-by": "Helm"}, "annotations": {
        "meta.helm.sh/release-name": "op", "meta.helm.sh/release-namespace": "ns"}}});
    let mut manifest = object();
    for part in ["namespace", "labels", "annotations"] {
        manifest["metadata"][part] = live["metadata"][part].clone();
    }
    let (state, content) = K8sState::of(&live);
    let id = converge_resource::ApiRef::of(&live).unwrap();
    FakeView::new()
        .says(releases(), revisions)
        .says(render(kind), json!({"manifests": [object()], "version": "1.2.3", "values": own}))
        .says(ApiProbe::Get(id.clone()), live.clone())
        .says(ApiProbe::Apply { manifest: manifest.to_string(), force: true }, json!({"object": live}))
        .has(id.object(), state)
        .knows(content)
}

fn installed(view: FakeView, revision: &Value) -> FakeView {
    found(view, std::slice::from_ref(revision))
}

fn found(view: FakeView, revisions: &[Value]) -> FakeView {
    let (state, content) = ReleaseState::now(revisions).unwrap();
    let view = view.has(ObjectId::new("release", "ns/op"), state);
    content.into_iter().fold(view, FakeView::knows)
}

#[test]
fn a_release_is_installed_from_what_helm_renders() {
    let kind = read::<HelmRelease>(params());
    let view = answers(&kind, json!([]));
    let wanted = kind.plan(&view).unwrap();
    assert!(wanted.targets[0].1.line().starts_with("release deployed op-1.2.3 "), "{wanted:?}");
    assert!(wanted.contents[0].text().unwrap().contains("kind: ConfigMap"));
    assert!(matches!(&wanted.calls[..], [ApiCall::Release(spec)] if spec.wait_seconds == Some(600)));
    settle(&kind, view);
}

#[test]
fn a_namespace_that_helm_makes_is_named() {
    let mut wish = params();
    wish["create_namespace"] = json!(true);
    let kind = read::<HelmRelease>(wish);
    let namespace = ObjectId::new("k8s", "v1/Namespace/ns");
    let plan = |view: FakeView| kind.plan(&view).unwrap().notes;
    let notes = plan(answers(&kind, json!([])).has(namespace.clone(), K8sState::Absent));
    assert_eq!(notes, ["helm makes the namespace ns first; it stays when the release goes"]);
    let (there, _) =
        K8sState::of(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}));
    assert_eq!(plan(answers(&kind, json!([])).has(namespace, there)), Vec::<String>::new());
}

#[test]
fn definitions_of_kinds_that_helm_makes_are_named_once() {
    let found = json!(["a.example.org", "b.example.org"]);
    assert_eq!(
        definitions_note(Some(&found)).unwrap(),
        "helm makes the definitions of kinds a.example.org, b.example.org first; they stay when the release goes"
    );
    assert_eq!(definitions_note(Some(&json!([]))), None);
    assert_eq!(definitions_note(None), None);
}

#[test]
fn the_same_again_asks_helm_nothing() {
    let kind = read::<HelmRelease>(params());
    let now = revision("deployed", "v1.2.3");
    let view = installed(answers(&kind, json!([now])), &now);
    let wanted = kind.plan(&view).unwrap();
    assert_eq!((wanted.targets.len(), wanted.calls.len(), wanted.notes.len()), (1, 0, 0), "{wanted:?}");
    settle(&kind, view);
}

#[test]
fn an_object_that_went_is_made_again() {
    let kind = read::<HelmRelease>(params());
    let now = revision("deployed", "v1.2.3");
    let gone = ObjectId::new("k8s", "v1/ConfigMap/ns/x");
    let view = installed(answers(&kind, json!([now])), &now).has(gone.clone(), K8sState::Absent);
    let wanted = kind.plan(&view).unwrap();
    assert_eq!(wanted.targets[1].0, gone);
    assert!(matches!(wanted.calls[..], [ApiCall::As { .. }, ApiCall::Apply { .. }]));
}

#[test]
fn another_version_is_an_upgrade() {
    let kind = read::<HelmRelease>(params());
    let old = revision("deployed", "v1.2.2");
    let view = installed(answers(&kind, json!([old])), &old);
    assert_eq!(kind.plan(&view).unwrap().calls.len(), 1);
    settle(&kind, view);
}

#[test]
fn a_release_that_hangs_is_put_right() {
    let kind = read::<HelmRelease>(params());
    let old = json!({"revision": 2, "status": "deployed", "chart": {"name": "op", "version": "1"}, "manifest": MANIFEST});
    let fails = revision("failed", "v1.2.3");
    let mut applied = fails.clone();
    applied["applied"] = json!(true);
    for (now, older, says) in [
        (revision("pending-upgrade", "v1.2.3"), true, "goes back to revision 2, then it is upgraded"),
        (revision("pending-install", "v1.2.3"), false, "taken away, then it is installed again"),
        (
            revision("uninstalling", "v1.2.3"),
            false,
            "revision 3 is stuck in uninstalling: it is installed again",
        ),
        (fails.clone(), true, "revision 3 has failed, it is not in force: revision 2 is"),
        (fails, false, "nothing of the release is in force"),
        (applied, true, "all of it was applied"),
    ] {
        let all: Vec<Value> = std::iter::once(now).chain(older.then(|| old.clone())).collect();
        let view = found(answers(&kind, json!(all)), &all);
        let wanted = kind.plan(&view).unwrap();
        assert!(wanted.notes.iter().any(|n| n.contains(says)), "{:?}", wanted.notes);
        assert_eq!(wanted.calls.len(), 1, "{all:?}");
    }
}

#[test]
fn unknown_keys_are_named_with_the_nearest() {
    let mut wish = params();
    wish["values"] = json!({"driver": {"enabeld": false}, "tolkit": {}, "toolkit": {"any": 1}, "global": {}});
    let kind = read::<HelmRelease>(wish);
    let notes = kind.plan(&answers(&kind, json!([]))).unwrap().notes;
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].contains("`driver.enabeld`") && notes[0].contains("did you mean `enabled`"),
        "{notes:?}"
    );
    assert!(notes[1].contains("`tolkit`") && notes[1].contains("`toolkit`"), "{notes:?}");
}

#[test]
fn messages_of_helm_are_reported() {
    let kind = read::<HelmRelease>(params());
    let with = |answer: Value| FakeView::new().says(releases(), json!([])).says(render(&kind), answer);
    let refused = kind.plan(&with(json!({"invalid": "driver.enabled: must be a boolean"})));
    assert!(matches!(refused, Err(Stop::Invalid { message, .. }) if message.contains("must be a boolean")));
    let waits = with(json!({"waits": "the API monitoring.coreos.com is not there"}));
    assert!(matches!(kind.plan(&waits), Err(Stop::Invalid { .. })));
    let Err(Stop::Deferred(wait)) = kind.plan(&waits.pending()) else { panic!() };
    assert!(wait.reason.contains("monitoring.coreos.com"));
}

#[test]
fn an_archive_goes_with_the_item() {
    let kind = read::<HelmRelease>(
        json!({"name": "op", "namespace": "ns", "archive": SourceFile::loaded("op-1.2.3.tgz", b"x")}),
    );
    let wanted = kind.plan(&answers(&kind, json!([]))).unwrap();
    assert_eq!(wanted.contents[1].bytes(), b"x");
    assert!(matches!(render(&kind), ApiProbe::Render(text) if text.contains("\"archive_content\":\"eA==\"")));
    assert!(wanted.targets[0].1.line().contains(" op-1.2.3 "));
    assert_eq!(archive_name("charts/gpu-operator-v25.10.0.tgz"), "gpu-operator");
}

#[test]
fn a_release_goes() {
    let kind = read::<HelmRelease>(json!({"name": "op", "namespace": "ns", "state": "absent"}));
    let after = settle(&kind, installed(FakeView::new(), &revision("deployed", "1.2.3")));
    assert_eq!(after.line(&kind.object()), "absent");
}

#[test]
fn wrong_parameters_are_named() {
    let with = |key: &str, value: Value| {
        let mut wish = params();
        wish[key] = value;
        wrong::<HelmRelease>(wish)
    };
    for version in ["latest", "^1.2", "1.x", "1.2"] {
        assert_eq!(with("version", json!(version)), ["/version"], "{version}");
    }
    assert_eq!(with("version", json!("1.2.3-rc.1+build")), Vec::<String>::new());
    assert_eq!(with("version", Value::Null), [""]);
    assert_eq!(with("oci", json!("oci://x/y")), [""]);
    assert_eq!(with("repository", json!("nvidia")), ["/repository"]);
    assert_eq!(with("name", json!("Op")), ["/name"]);
    assert_eq!(with("timeout", json!(0)), ["/timeout"]);
}

/// helm keeps 2 where 2.0 is given: a second plan is empty.
#[test]
fn numbers_are_compared_as_helm_keeps_them() {
    let mut wish = params();
    wish["values"] = json!({"x": 2.0, "big": 12345678901234567890u64});
    let kind = read::<HelmRelease>(wish);
    let mut now = revision("deployed", "v1.2.3");
    now["values"] = json!({"x": 2, "big": 12345678901234567000u64});
    let wanted = kind.plan(&installed(answers(&kind, json!([now])), &now)).unwrap();
    assert!(wanted.calls.is_empty(), "{wanted:?}");
}

/// A packaged chart is rendered each time. What it draws stays as it is deployed, in the plan and in what helm lays.
#[test]
fn what_a_chart_draws_stays_as_it_is() {
    let archive = |values: Value| {
        read::<HelmRelease>(
            json!({"name": "op", "namespace": "ns", "archive": SourceFile::loaded("op-1.2.3.tgz", b"x"), "values": values}),
        )
    };
    let kind = archive(json!({}));
    let drawn = json!([{"object": {"api_version": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "x"},
        "path": [{"key": "data"}, {"key": "a"}]}]);
    let path: Vec<PreservedField> = serde_json::from_value(drawn.clone()).unwrap();
    let mut other = object();
    other["data"]["a"] = json!("drawn anew");
    let with = |kind: &HelmRelease, now: &Value| {
        let answer =
            json!({"manifests": [other], "chart": "op", "version": "1.2.3", "values": {}, RANDOM: drawn});
        installed(answers(kind, json!([now])).says(render(kind), answer), now)
    };
    let mut now = revision("deployed", "1.2.3");
    now["values"] = json!({});
    let wanted = kind.plan(&with(&kind, &now)).unwrap();
    assert_eq!((wanted.targets.len(), wanted.calls.len()), (1, 0), "{wanted:?}");
    let more = archive(json!({"size": 2}));
    let wanted = more.plan(&with(&more, &now)).unwrap();
    let [ApiCall::Release(spec)] = &wanted.calls[..] else { panic!("{wanted:?}") };
    assert!(spec.drawn == path && spec.keep.is_empty(), "{spec:?}");
    assert!(!wanted.contents[0].text().unwrap().contains("drawn anew"), "{wanted:?}");
}

/// An error of helm about the chart does not prevent the recovery of a release.
#[test]
fn what_hangs_is_put_right_without_its_chart() {
    let kind = read::<HelmRelease>(params());
    let refuses = |now: &Value, older: Value| {
        let all = [now.clone(), older];
        found(answers(&kind, json!(all)).says(render(&kind), json!({"invalid": "requires DRA"})), &all)
    };
    let now = revision("pending-upgrade", "v1.2.3");
    let mut older = revision("deployed", "v1.2.2");
    older["revision"] = json!(2);
    let wanted = kind.plan(&refuses(&now, older.clone())).unwrap();
    assert!(wanted.targets[0].1.line().starts_with("release deployed op-v1.2.2 "), "{wanted:?}");
    assert!(
        wanted.notes[0].contains("is stuck in pending-upgrade") && wanted.notes[0].contains("requires DRA")
    );
    assert_eq!(wanted.calls, []);
    let first = revision("pending-install", "v1.2.3");
    let wanted = kind.plan(&refuses(&first, json!({"revision": 2, "status": "failed"}))).unwrap();
    assert!(wanted.targets[0].1.is_absent());
    let fine = revision("deployed", "v1.2.2");
    assert!(
        matches!(kind.plan(&refuses(&fine, older)), Err(Stop::Invalid { message, .. }) if message.contains("requires DRA"))
    );
}

#[test]
fn hooks_have_their_time_too() {
    let mut wish = params();
    wish["wait"] = json!(false);
    wish["timeout"] = json!(120);
    let kind = read::<HelmRelease>(wish);
    let spec = kind.spec(kind.chart().unwrap());
    assert_eq!((spec.wait_seconds, spec.seconds), (None, Some(120)));
}

#[test]
fn a_login_is_for_helm_alone() {
    let mut wish = params();
    wish["login"] = json!({"username": "ann", "password": "hunter2"});
    let kind = read::<HelmRelease>(wish.clone());
    let view = answers(&kind, json!([]));
    let wanted = kind.plan(&view).unwrap();
    let open = format!("{:?} {:?} {:?}", wanted.targets, wanted.contents, wanted.notes);
    assert!(!open.contains("hunter2") && !format!("{:?}", wanted.calls).contains("hunter2"));
    assert!(matches!(&wanted.calls[..], [ApiCall::Release(spec)] if spec.login.is_some()));
    // Another password alone asks nothing of the repository, and is no difference.
    wish["login"]["password"] = json!("new");
    let revision = revision("deployed", "1.2.3");
    settle(
        &read::<HelmRelease>(wish.clone()),
        installed(answers(&kind, json!([revision.clone()])), &revision),
    );
    // A refusal is shown with its correction.
    let refused = json!({converge_resource::REFUSED: {"message": "it does not accept the login", "help": "correct it", "parameter": "login"}});
    let reply = kind.plan(&answers(&kind, json!([])).says(render(&kind), refused));
    assert!(
        matches!(reply, Err(Stop::Invalid { message, help: Some(_), open: Some(_), .. }) if message.contains("accept"))
    );
    wish["login"]["password"] = json!("");
    assert_eq!(wrong::<HelmRelease>(wish.clone()), ["/login/password"]);
    wish["login"] = Value::Null;
    wish["plain_http"] = json!(true);
    assert_eq!(wrong::<HelmRelease>(wish), ["/plain_http"]);
}
