//! A real API server for the tests of one file, and short ways to plan against it.

#![expect(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests stop the test, and each file uses its own part"
)]

use converge_cluster::{Cluster, ClusterAccess, ClusterOptions, ClusterWork, Login, WorkEnd, WorkResult};
use converge_executor::RunMeta;
use converge_lab::kube::{ApiOptions, LocalApi};
use converge_ledger::ProjectName;
use converge_objects::k8s::{K8sState, from_text};
use converge_resource::{Answer, ApiCall, ApiProbe, ApiRef, Change, Content, Digest, ObjectId, Probe, State};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// The server of this test file: it ends with the process.
pub fn server(options: fn() -> ApiOptions) -> &'static LocalApi {
    static SERVER: OnceLock<LocalApi> = OnceLock::new();
    SERVER.get_or_init(|| LocalApi::start(&folder(), options()).unwrap())
}

/// A folder of this process.
pub fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cluster-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// One run at a time: a cluster has one lock.
pub async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

pub fn options() -> ClusterOptions {
    ClusterOptions {
        deadline: Duration::from_secs(10),
        operator: "tester@here".to_owned(),
        ..ClusterOptions::default()
    }
}

pub fn kubeconfig(api: &LocalApi) -> String {
    std::fs::read_to_string(api.kubeconfig()).unwrap()
}

pub async fn connect_with(api: &LocalApi, options: ClusterOptions) -> Cluster {
    let access =
        ClusterAccess::Kubeconfig { text: kubeconfig(api).into(), context: None, login: Login::default() };
    Cluster::connect("test", access, options).await.unwrap()
}

pub async fn connect(api: &LocalApi) -> Cluster {
    connect_with(api, options()).await
}

/// A namespace on this server, and a connection to it.
pub async fn fresh_on(api: &'static LocalApi, namespace: &str) -> (&'static LocalApi, Cluster) {
    api.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}")).unwrap();
    (api, connect(api).await)
}

/// The same on a server that has nothing but the API.
pub async fn fresh(namespace: &str) -> (&'static LocalApi, Cluster) {
    fresh_on(server(ApiOptions::new), namespace).await
}

/// A fresh run, newer than all before.
pub fn meta() -> RunMeta {
    RunMeta {
        id: uuid::Uuid::now_v7().to_string(),
        time: "2026-11-21T04:05:06Z".to_owned(),
        operator: "tester@here".to_owned(),
        inventory: "inv".to_owned(),
        playbook: "play".to_owned(),
        scope: ProjectName { playbook: "play".to_owned(), inventory: "inv".to_owned() },
        ..RunMeta::default()
    }
}

pub async fn ask(cluster: &Cluster, probe: Probe) -> (Answer, Vec<Content>) {
    let mut found = cluster.answers_to(&BTreeSet::from([probe])).await;
    (found.answers.pop().unwrap().1, found.contents)
}

pub async fn api(cluster: &Cluster, question: ApiProbe) -> Value {
    match ask(cluster, Probe::Api(question)).await.0 {
        Answer::Api(value) => value,
        other => panic!("{other:?}"),
    }
}

pub async fn dry_run(cluster: &Cluster, manifest: &Value, force: bool) -> Value {
    api(cluster, ApiProbe::Apply { manifest: manifest.to_string(), force }).await
}

/// State and content.
pub async fn look(cluster: &Cluster, object: &ObjectId) -> (State, Option<Content>) {
    let (answer, mut contents) = ask(cluster, Probe::Object(object.clone())).await;
    match answer {
        Answer::Object(observed) => (observed.state, contents.pop()),
        other => panic!("{object}: {other:?}"),
    }
}

pub fn configmap(namespace: &str, name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

pub fn object(manifest: &Value) -> ObjectId {
    ApiRef::of(manifest).unwrap().object()
}

/// The work that a kind would plan for a manifest: the live object, and the server's dry run.
pub async fn plan_apply(cluster: &Cluster, manifest: &Value, force: bool) -> ClusterWork {
    let id = object(manifest);
    let (from, before) = look(cluster, &id).await;
    let answer = dry_run(cluster, manifest, force).await;
    let after = answer.get("object").unwrap_or_else(|| panic!("{answer}"));
    let (to, after) = K8sState::of(after);
    let contents = before.into_iter().chain([after]).map(|c| (c.digest().clone(), c)).collect();
    let changes = vec![Change { object: id, from, to: to.into() }];
    let calls = vec![ApiCall::Apply { manifest: manifest.clone(), force }];
    ClusterWork {
        address: "role[item]".to_owned(),
        owner: "role".to_owned(),
        changes,
        calls,
        contents,
        ..ClusterWork::default()
    }
}

/// A change without a manifest: to absence, or to this content.
pub async fn plan_to(cluster: &Cluster, id: &ObjectId, to: Option<Content>) -> ClusterWork {
    let (from, before) = look(cluster, id).await;
    let state = match &to {
        None => State::absent(),
        Some(content) => K8sState::Present(content.digest().clone()).into(),
    };
    let contents = before.into_iter().chain(to).map(|c| (c.digest().clone(), c)).collect();
    let changes = vec![Change { object: id.clone(), from, to: state }];
    ClusterWork { address: "role[item]".to_owned(), changes, contents, ..ClusterWork::default() }
}

/// The same content with another value.
pub fn edited(content: &Content, edit: impl FnOnce(&mut Value)) -> Content {
    let mut value = from_text(content).unwrap();
    edit(&mut value);
    K8sState::of(&value).1
}

pub async fn work(cluster: &Cluster, run: &RunMeta, work: &ClusterWork) -> WorkResult {
    cluster.work(&run.id, work, &|text| println!("tell: {text}")).await
}

pub async fn done(cluster: &Cluster, run: &RunMeta, item: &ClusterWork) -> WorkResult {
    let worked = work(cluster, run, item).await;
    assert_eq!(worked.end, WorkEnd::Done);
    worked
}

pub fn by_digest(contents: impl IntoIterator<Item = Content>) -> BTreeMap<Digest, Content> {
    contents.into_iter().map(|c| (c.digest().clone(), c)).collect()
}
