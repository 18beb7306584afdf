//! Releases by real helm, through a forwarded port.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

mod common;
#[path = "releases/logins.rs"]
mod logins;
#[path = "releases/rollback.rs"]
mod rollback;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::*;
use converge_cluster::{Cluster, ClusterAccess, ClusterOptions, ClusterWork, WorkEnd};
use converge_executor::{Executor as _, RunEnd};
use converge_lab::kube::{ApiOptions, LocalApi, Part, ensure};
use converge_objects::release::{self, ReleaseState};
use converge_resource::{
    ARCHIVE, ApiCall, ApiProbe, ApiRef, Change, Chart, Content, ObjectId, PreservedField, ReleaseSpec,
    Segment, State,
};
use converge_ssh::{Session, SessionOptions, SshEndpoint, Transport};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const FILES: [(&str, &str); 8] = [
    // A part of its own, which helm's record does not hold.
    (
        "Chart.yaml",
        "apiVersion: v2\nname: small\nversion: 1.0.0\ndependencies: [{name: part, version: 1.0.0}]\n",
    ),
    ("charts/part/Chart.yaml", "apiVersion: v2\nname: part\nversion: 1.0.0\n"),
    (
        "charts/part/templates/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-part}\ndata: {text: \"{{ `{{ raw }}` }}\"}\n",
    ),
    ("values.yaml", "size: 1\nhang: false\nthing: false\nbroken: false\ntoken: \"\"\n"),
    (
        "templates/secret.yaml",
        "{{- if .Values.token }}\napiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}-secret}\nstringData: {token: {{ .Values.token | quote }}}\n{{- end }}\n",
    ),
    (
        "templates/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-map}\ndata: {size: {{ .Values.size | quote }}}\n",
    ),
    (
        "templates/hook.yaml",
        "{{- if .Values.hang }}\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations: {helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-delete-policy: before-hook-creation}\n\
         spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}\n{{- end }}\n",
    ),
    (
        "templates/more.yaml",
        "{{- if .Values.broken }}{{ fail \"size and broken do not go together\" }}{{ end }}\n\
         {{- if .Values.thing }}\napiVersion: test.example/v1\nkind: Thing\nmetadata: {name: t}\n{{- end }}\n",
    ),
];

fn helm() -> PathBuf {
    ensure(&[Part::Helm]).unwrap().program("helm").unwrap()
}

/// The packaged chart.
fn chart() -> Content {
    packed("small", &FILES)
}

fn packed(chart: &str, files: &[(&str, &str)]) -> Content {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join(chart);
    for (name, text) in files {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let packed = Command::new(helm()).arg("package").arg(&root).current_dir(folder.path()).output().unwrap();
    assert!(packed.status.success(), "{packed:?}");
    Content::new(std::fs::read(folder.path().join(format!("{chart}-1.0.0.tgz"))).unwrap())
}

/// Through a session of this machine, so that helm goes through a forwarded port.
async fn fresh(namespace: &str) -> (&'static LocalApi, Cluster, Content) {
    fresh_with(namespace, options()).await
}

async fn fresh_with(namespace: &str, options: ClusterOptions) -> (&'static LocalApi, Cluster, Content) {
    let api = server(|| ApiOptions::new().controllers());
    api.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}")).unwrap();
    let local = SshEndpoint { transport: Transport::Local, ..SshEndpoint::ssh("here") };
    let session = Session::connect(&local, &SessionOptions::default()).await.unwrap();
    let access = ClusterAccess::Tunnel { session, text: kubeconfig(api).into(), context: None };
    let options = ClusterOptions { helm: Some(helm()), cache: folder().join("helm"), ..options };
    let cluster = Cluster::connect("test", access, options).await.unwrap();
    (api, cluster, chart())
}

fn spec(namespace: &str, chart: &Content, values: Value, seconds: u64) -> ReleaseSpec {
    ReleaseSpec {
        name: "r".to_owned(),
        namespace: namespace.to_owned(),
        chart: Chart::Archive(chart.digest().to_string()),
        login: None,
        plain_http: false,
        version: None,
        values,
        create_namespace: false,
        wait_seconds: Some(seconds),
        seconds: Some(seconds),
        keep: Vec::new(),
        drawn: Vec::new(),
        unset: Vec::new(),
    }
}

/// As the kind asks: the content of the chart stands beside the specification.
async fn render(cluster: &Cluster, spec: &ReleaseSpec, chart: &Content) -> Value {
    let mut question = serde_json::to_value(spec).unwrap();
    question[ARCHIVE] = json!(STANDARD.encode(chart.bytes()));
    api(cluster, ApiProbe::Render(question.to_string())).await
}

/// The plan of the kind.
async fn plan(cluster: &Cluster, spec: &ReleaseSpec, chart: &Content) -> ClusterWork {
    let id = ObjectId::new("release", format!("{}/r", spec.namespace));
    let (from, before) = look(cluster, &id).await;
    let rendered = render(cluster, spec, chart).await;
    let manifests = rendered["manifests"].as_array().unwrap_or_else(|| panic!("{rendered}"));
    assert_eq!(rendered["chart"], "small");
    let content = release::content("small", rendered["version"].as_str().unwrap(), &spec.values, manifests);
    let to = ReleaseState::Installed {
        status: "deployed".to_owned(),
        chart: "small-1.0.0".to_owned(),
        digest: content.digest().clone(),
    };
    ClusterWork {
        address: "role[release]".to_owned(),
        owner: "role".to_owned(),
        changes: vec![Change { object: id, from, to: to.into() }],
        calls: vec![ApiCall::Release(Box::new(spec.clone()))],
        contents: by_digest(before.into_iter().chain([content, chart.clone()])),
        ..ClusterWork::default()
    }
}

fn release_digest(state: &State) -> String {
    match ReleaseState::try_from(state.clone()).unwrap() {
        ReleaseState::Installed { digest, .. } => digest.as_str().to_owned(),
        _ => panic!("it is not there"),
    }
}

fn size(api: &LocalApi, namespace: &str) -> Value {
    api.get(&["-n", namespace, "configmap", "r-map"]).unwrap()["data"]["size"].clone()
}

async fn statuses(cluster: &Cluster, namespace: &str) -> Vec<(u64, String)> {
    let question = ApiProbe::Release { namespace: namespace.to_owned(), name: "r".to_owned() };
    let list = api(cluster, question).await;
    let one = |r: &Value| (r["revision"].as_u64().unwrap(), r["status"].as_str().unwrap().to_owned());
    list.as_array().unwrap().iter().map(one).collect()
}

/// The plan of a rollback: back to this state, with these fields left to others.
async fn back(cluster: &Cluster, id: &ObjectId, to: &State, keep: Option<ReleaseSpec>) -> ClusterWork {
    let (from, before) = look(cluster, id).await;
    ClusterWork {
        address: "rollback".to_owned(),
        changes: vec![Change { object: id.clone(), from, to: to.clone() }],
        calls: keep.map(|spec| ApiCall::Release(Box::new(spec))).into_iter().collect(),
        contents: by_digest(before),
        ..ClusterWork::default()
    }
}

/// One item as a run of its own.
async fn alone_in_a_run(cluster: &Cluster, item: &ClusterWork) -> WorkEnd {
    let run = meta();
    cluster.open(&run).await.unwrap();
    let end = work(cluster, &run, item).await.end;
    cluster.close(&run.id, RunEnd::Finished).await;
    end
}

/// A helm that is killed in the middle.
fn killed(api: &LocalApi, namespace: &str, chart: &Content) {
    // The hook of the last one stays.
    api.kubectl(&["-n", namespace, "delete", "job", "r-hook", "--ignore-not-found"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.tgz");
    std::fs::write(&path, chart.bytes()).unwrap();
    let mut child = Command::new(helm())
        .args(["upgrade", "--install", "r", "-n", namespace, "--set", "hang=true,size=66"])
        .arg(&path)
        .arg("--kubeconfig")
        .arg(api.kubeconfig())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let came = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        api.kubectl(&["-n", namespace, "get", "jobs", "-o", "name"]).unwrap().stdout.contains("r-hook")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(came, "helm did not come to its hook");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_installed_upgraded_rolled_back_and_taken_away() {
    let _alone = alone().await;
    let (api, cluster, chart) = fresh("whole").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let one = plan(&cluster, &spec("whole", &chart, json!({"size": 2}), 60), &chart).await;
    let worked = done(&cluster, &run, &one).await;
    assert_eq!(worked.after[0].1, one.changes[0].to, "exactly what was planned");
    assert_eq!(size(api, "whole"), "2");
    let mut two = plan(&cluster, &spec("whole", &chart, json!({"size": 3}), 60), &chart).await;
    let map = object(&configmap("whole", "r-map", json!({})));
    two.watch = vec![(map.clone(), look(&cluster, &map).await.0)];
    let worked = done(&cluster, &run, &two).await;
    let (before, after) = worked.window.unwrap();
    assert!(before[&map] != after[&map] && before[&map] == two.watch[0].1);
    assert_eq!(size(api, "whole"), "3");
    // The plan was made for revision 1.
    let end = work(&cluster, &run, &two).await.end;
    assert!(matches!(&end, WorkEnd::Refused(why) if why.contains("plan again")), "{end:?}");
    // Back, by what helm keeps.
    let change = &two.changes[0];
    let back = ClusterWork {
        address: "rollback".to_owned(),
        changes: vec![Change {
            object: change.object.clone(),
            from: change.to.clone(),
            to: change.from.clone(),
        }],
        contents: two.contents.clone(),
        ..ClusterWork::default()
    };
    done(&cluster, &run, &back).await;
    assert_eq!(size(api, "whole"), "2");
    assert_eq!(look(&cluster, &change.object).await.0, change.from);
    let (from, before) = look(&cluster, &change.object).await;
    let gone = ClusterWork {
        changes: vec![Change { object: change.object.clone(), from, to: State::absent() }],
        contents: by_digest(before),
        ..ClusterWork::default()
    };
    done(&cluster, &run, &gone).await;
    assert!(look(&cluster, &map).await.0.is_absent());
    assert_eq!(statuses(&cluster, "whole").await, []);
    cluster.close(&run.id, RunEnd::Finished).await;
    let record = cluster.records().await.unwrap().runs.pop().unwrap();
    let kinds: Vec<&str> = record.changes.iter().map(|c| c.object.kind.as_str()).collect();
    assert_eq!(kinds, ["release", "release", "k8s", "release", "release"], "the map was moved by helm");
    assert!(!cluster.owned().await.unwrap().things.iter().any(|t| t.object == change.object));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_chart_lacks_or_refuses_is_reported() {
    let (_, cluster, chart) = fresh("rendered").await;
    let rendered = render(&cluster, &spec("rendered", &chart, json!({"size": 9}), 60), &chart).await;
    assert_eq!(rendered["manifests"][1]["data"]["size"], "9", "{rendered}");
    assert_eq!((&rendered["version"], &rendered["values"]["size"]), (&json!("1.0.0"), &json!(1)));
    let waits = render(&cluster, &spec("rendered", &chart, json!({"thing": true}), 60), &chart).await;
    assert!(waits["waits"].as_str().unwrap().contains("no matches for kind \"Thing\""), "{waits}");
    let refused = render(&cluster, &spec("rendered", &chart, json!({"broken": true}), 60), &chart).await;
    assert!(refused["invalid"].as_str().unwrap().contains("do not go together"), "{refused}");
    let lost = spec("rendered", &Content::new(b"x".as_slice()), json!({}), 60);
    let (answer, _) =
        ask(&cluster, converge_resource::Probe::Api(ApiProbe::Render(serde_json::to_string(&lost).unwrap())))
            .await;
    assert!(
        matches!(&answer, converge_resource::Answer::Failed(why) if why.contains("not at hand")),
        "{answer:?}"
    );
    // Nothing was left in the cluster, and no folder with credentials here.
    assert_eq!(statuses(&cluster, "rendered").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hangs_or_has_failed_is_put_right() {
    let _alone = alone().await;
    let (api, cluster, chart) = fresh("hung").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    // The first install hangs: it is taken away.
    killed(api, "hung", &chart);
    assert_eq!(statuses(&cluster, "hung").await, [(1, "pending-install".to_owned())]);
    let first = plan(&cluster, &spec("hung", &chart, json!({"size": 2}), 60), &chart).await;
    let worked = done(&cluster, &run, &first).await;
    assert_eq!(worked.after[0].1, first.changes[0].to);
    assert_eq!(statuses(&cluster, "hung").await, [(1, "deployed".to_owned())]);
    // An upgrade hangs: back to what was deployed, then upgraded.
    killed(api, "hung", &chart);
    assert_eq!(statuses(&cluster, "hung").await[0], (2, "pending-upgrade".to_owned()));
    let second = plan(&cluster, &spec("hung", &chart, json!({"size": 3}), 60), &chart).await;
    done(&cluster, &run, &second).await;
    assert_eq!(size(api, "hung"), "3");
    assert_eq!(
        statuses(&cluster, "hung").await[..2],
        [(4, "deployed".to_owned()), (3, "superseded".to_owned())]
    );
    // An upgrade fails, and tells why; the next one goes over it.
    let third = plan(&cluster, &spec("hung", &chart, json!({"size": 4, "hang": true}), 4), &chart).await;
    let WorkEnd::Failed { message, .. } = work(&cluster, &run, &third).await.end else { panic!() };
    assert!(
        message.contains("helm upgrade --install r") && message.contains("pre-upgrade hooks failed"),
        "{message}"
    );
    assert_eq!(statuses(&cluster, "hung").await[0], (5, "failed".to_owned()));
    let fourth = plan(&cluster, &spec("hung", &chart, json!({"size": 5}), 60), &chart).await;
    done(&cluster, &run, &fourth).await;
    assert_eq!(size(api, "hung"), "5");
    cluster.close(&run.id, RunEnd::Finished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_others_is_not_set_back_by_an_upgrade() {
    let _alone = alone().await;
    let (api, cluster, chart) = fresh("kept").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let values = |size: u32| spec("kept", &chart, json!({"size": size}), 60);
    let first = done(&cluster, &run, &plan(&cluster, &values(2), &chart).await).await.after[0].1.clone();
    api.kubectl(&["-n", "kept", "patch", "configmap", "r-map", "-p", r#"{"data":{"size":"7"}}"#]).unwrap();
    let map = ApiRef::from_key("v1/ConfigMap/kept/r-map").unwrap();
    let path = vec![Segment::Key("data".to_owned()), Segment::Key("size".to_owned())];
    let keep = ReleaseSpec { keep: vec![PreservedField { object: map, path }], ..values(3) };
    done(&cluster, &run, &plan(&cluster, &keep, &chart).await).await;
    assert_eq!(size(api, "kept"), "7");
    let question = ApiProbe::Release { namespace: "kept".to_owned(), name: "r".to_owned() };
    let revisions = common::api(&cluster, question.clone()).await;
    assert_eq!(revisions[0]["values"]["size"], 3, "{revisions}");
    // helm's record has what the chart declares.
    let manifest = revisions[0]["manifest"].as_str().unwrap();
    assert!(!manifest.contains(r#""7""#) && manifest.contains("3"), "{manifest}");
    // Nor by a rollback: all else is as it was.
    let id = ObjectId::new("release", "kept/r");
    let saved_release = Chart::SavedRelease(release_digest(&first));
    let keep = ReleaseSpec { chart: saved_release, values: Value::Null, ..keep };
    done(&cluster, &run, &back(&cluster, &id, &first, Some(keep)).await).await;
    let revisions = common::api(&cluster, question).await;
    assert_eq!((size(api, "kept"), &revisions[0]["values"]["size"]), (json!("7"), &json!(2)), "{revisions}");
    // Without any it is helm's own.
    done(&cluster, &run, &back(&cluster, &id, &first, None).await).await;
    assert_eq!((size(api, "kept"), look(&cluster, &id).await.0), (json!("2"), first));
    // Whoever takes it gets it.
    done(&cluster, &run, &plan(&cluster, &values(4), &chart).await).await;
    assert_eq!(size(api, "kept"), "4");
    cluster.close(&run.id, RunEnd::Finished).await;
}

/// A chart that draws a password, and that asks the cluster for its version and for what it can do. It brings a kind of its own.
const DRAWS: [(&str, &str); 5] = [
    ("Chart.yaml", "apiVersion: v2\nname: draws\nversion: 1.0.0\nkubeVersion: '>=1.30.0-0'\n"),
    ("values.yaml", "size: 1\nthing: false\n"),
    (
        "crds/gadget.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: gadgets.draws.example}\nspec:\n  group: draws.example\n  scope: Namespaced\n  names: {kind: Gadget, plural: gadgets}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n",
    ),
    (
        "templates/all.yaml",
        "{{- $drawn := randAlphaNum 20 }}\n\
         {{- if not (.Capabilities.APIVersions.Has \"resource.k8s.io/v1/DeviceClass\") }}{{ fail \"requires a Kubernetes cluster that supports DRA\" }}{{ end }}\n\
         {{- if not (.Capabilities.APIVersions.Has \"draws.example/v1/Gadget\") }}{{ if .Values.thing }}{{ fail \"no gadgets\" }}{{ end }}{{ end }}\n\
         apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}-drawn}\nstringData: {password: {{ $drawn }}, user: admin}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-map, annotations: {sum: {{ $drawn | sha256sum }}}}\ndata: {size: {{ .Values.size | quote }}}\n",
    ),
    (
        "templates/gadget.yaml",
        "{{- if .Values.thing }}\napiVersion: draws.example/v1\nkind: Gadget\nmetadata: {name: g}\n{{- end }}\n",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_is_reported_what_the_cluster_is_and_keeps_what_it_draws() {
    let _alone = alone().await;
    let (api, cluster, _) = fresh("draws").await;
    let chart = packed("draws", &DRAWS);
    // Its own kind is not there yet: helm renders from the templates, and knows the cluster and what the chart itself brings.
    let first = spec("draws", &chart, json!({"thing": true}), 60);
    let rendered = render(&cluster, &first, &chart).await;
    assert_eq!(rendered["manifests"].as_array().map(Vec::len), Some(3), "{rendered}");
    assert!(rendered.get(converge_resource::RANDOM).is_none(), "nothing is there to be kept: {rendered}");
    // Rendered in either way it tells which definitions of kinds helm makes.
    let plain = render(&cluster, &spec("draws", &chart, json!({}), 60), &chart).await;
    for rendered in [&rendered, &plain] {
        assert_eq!(rendered["definitions"], json!(["gadgets.draws.example"]), "{rendered}");
    }
    let run = meta();
    cluster.open(&run).await.unwrap();
    let install = |spec: &ReleaseSpec, from: State, rendered: &Value| {
        let manifests = rendered["manifests"].as_array().unwrap();
        let content = release::content("draws", "1.0.0", &spec.values, manifests);
        let (status, version) = ("deployed".to_owned(), "draws-1.0.0".to_owned());
        let to = ReleaseState::Installed { status, chart: version, digest: content.digest().clone() };
        ClusterWork {
            address: "role[release]".to_owned(),
            owner: "role".to_owned(),
            changes: vec![Change { object: ObjectId::new("release", "draws/r"), from, to: to.into() }],
            calls: vec![ApiCall::Release(Box::new(spec.clone()))],
            contents: by_digest([content, chart.clone()]),
            ..ClusterWork::default()
        }
    };
    done(&cluster, &run, &install(&first, State::absent(), &rendered)).await;
    let question = ApiProbe::Release { namespace: "draws".to_owned(), name: "r".to_owned() };
    let revisions = common::api(&cluster, question).await;
    assert_eq!(revisions[0]["definitions"], json!(["gadgets.draws.example"]));
    let live = || {
        let secret = api.get(&["-n", "draws", "secret", "r-drawn"]).unwrap();
        let map = api.get(&["-n", "draws", "configmap", "r-map"]).unwrap();
        (secret["data"].clone(), map["metadata"]["annotations"]["sum"].clone(), map["data"]["size"].clone())
    };
    let before = live();
    // A drawn value, and one computed from it, is distinguished from a declared one.
    let more = spec("draws", &chart, json!({"size": 2}), 60);
    let rendered = render(&cluster, &more, &chart).await;
    let random: Vec<PreservedField> =
        serde_json::from_value(rendered[converge_resource::RANDOM].clone()).unwrap();
    let mut shown: Vec<String> = random
        .iter()
        .map(|k| format!("{} {}", k.object.key(), converge_objects::k8s::fields::shown(&k.path)))
        .collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            "v1/ConfigMap/draws/r-map .metadata.annotations.sum",
            "v1/Secret/draws/r-drawn .stringData.password"
        ],
        "{rendered}"
    );
    // helm is given it back.
    let upgrade = ReleaseSpec { drawn: random, ..more };
    let from = look(&cluster, &ObjectId::new("release", "draws/r")).await.0;
    done(&cluster, &run, &install(&upgrade, from, &rendered)).await;
    let after = live();
    assert_eq!((&after.0, &after.1, &after.2), (&before.0, &before.1, &json!("2")));
    cluster.close(&run.id, RunEnd::Finished).await;
    api.kubectl(&["delete", "crd", "gadgets.draws.example"]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_have_the_time_of_the_item() {
    let _alone = alone().await;
    let (_, cluster, chart) = fresh("hooks").await;
    let spec = ReleaseSpec { wait_seconds: None, ..spec("hooks", &chart, json!({"hang": true}), 3) };
    let item = plan(&cluster, &spec, &chart).await;
    let begun = std::time::Instant::now();
    let end = alone_in_a_run(&cluster, &item).await;
    assert!(
        matches!(&end, WorkEnd::Failed { message, .. } if message.contains("failed pre-install")),
        "{end:?}"
    );
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
