//! Restarts, waits and Jobs, on simulated nodes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests stop the test")]

mod common;

use common::*;
use converge_cluster::{Cluster, ClusterWork, WorkEnd};
use converge_executor::{Executor as _, RunEnd};
use converge_lab::kube::{ApiOptions, LocalApi, NodeSpec};
use converge_objects::condition::{
    Amount, ConditionState, CountTest, Expectation, Pick, Test, TimedCondition,
};
use converge_objects::workload::WorkloadState;
use converge_resource::{ApiProbe, ApiRef, Change, ObjectId, Probe, State};
use serde_json::{Value, json};
use std::sync::Mutex;

/// Three nodes with GPUs, one of them not ready.
fn up() -> &'static LocalApi {
    let api = server(|| ApiOptions::new().kwok());
    static NODES: std::sync::Once = std::sync::Once::new();
    NODES.call_once(|| {
        api.nodes(&NodeSpec::new("gpu", 2).gpus(8)).unwrap();
        api.nodes(&NodeSpec::new("gpu", 1).from(3).gpus(8).not_ready()).unwrap();
    });
    api
}

async fn fresh(namespace: &str) -> (&'static LocalApi, Cluster) {
    fresh_on(up(), namespace).await
}

fn daemons(namespace: &str, pod: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
        "template": {"metadata": {"labels": {"app": "d"}, "annotations": pod},
        "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "x"}]}}}})
}

fn running(with: Option<&str>, complete: bool) -> State {
    WorkloadState::Running { started_with: with.map(str::to_owned), complete }.into()
}

async fn until_complete(cluster: &Cluster, id: &ObjectId) -> State {
    for _ in 0..100 {
        let state = look(cluster, id).await.0;
        if state.line().ends_with(" complete") {
            return state;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("{id} does not get complete: {:?}", look(cluster, id).await.0);
}

fn item(change: Change) -> ClusterWork {
    ClusterWork {
        address: "role[wait]".to_owned(),
        owner: "role".to_owned(),
        changes: vec![change],
        ..ClusterWork::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_reaches_every_node_that_is_ready_and_is_remembered() {
    let _alone = alone().await;
    let (api, cluster) = fresh("restarts").await;
    let id = ObjectId::new("workload", "apps/v1/DaemonSet/restarts/d");
    assert!(look(&cluster, &id).await.0.is_absent());
    api.apply(&daemons("restarts", json!({})).to_string()).unwrap();
    let from = until_complete(&cluster, &id).await;
    assert_eq!(from, running(None, true));
    let pods = |api: &LocalApi| {
        let list = api.get(&["-n", "restarts", "pods", "--field-selector=spec.nodeName!=gpu-3"]).unwrap();
        let uid = |p: &Value| p["metadata"]["uid"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(uid).collect::<Vec<String>>()
    };
    let before = pods(api);
    let run = meta();
    cluster.open(&run).await.unwrap();
    let restart = item(Change { object: id.clone(), from: from.clone(), to: running(Some("abc"), true) });
    let worked = done(&cluster, &run, &restart).await;
    assert_eq!(worked.after, [(id.clone(), running(Some("abc"), true))]);
    let after = pods(api);
    assert!(before.len() >= 2 && after.iter().all(|uid| !before.contains(uid)), "{before:?} {after:?}");
    // The plan is of before: no second restart.
    let end = work(&cluster, &run, &restart).await.end;
    assert!(matches!(&end, WorkEnd::Refused(why) if why.contains("restarted it since")), "{end:?}");
    // Back to what it was started with once: the words are old, the restart is new.
    for with in ["def", "abc"] {
        let (from, before) = (look(&cluster, &id).await.0, pods(api));
        done(&cluster, &run, &item(Change { object: id.clone(), from, to: running(Some(with), true) })).await;
        assert!(pods(api).iter().all(|uid| !before.contains(uid)));
    }
    let adopt = ClusterWork {
        adopt: true,
        ..item(Change { object: id.clone(), from, to: running(Some("noted"), true) })
    };
    let before = pods(api);
    done(&cluster, &run, &adopt).await;
    assert_eq!(look(&cluster, &id).await.0, running(Some("noted"), true));
    assert_eq!(pods(api), before);
    // A record that an older converge kept at the workload counts as long as there is no newer one.
    api.kubectl(&["-n", "restarts", "annotate", "daemonset", "d", "converge/started-with=older"]).unwrap();
    assert_eq!(look(&cluster, &id).await.0, running(Some("noted"), true));
    api.kubectl(&["-n", "converge-system", "delete", "secret", "started"]).unwrap();
    assert_eq!(look(&cluster, &id).await.0, running(Some("older"), true));
    cluster.close(&run.id, RunEnd::Finished).await;
}

/// An operator writes its DaemonSet as a whole, from its own template, as the GPU operator does: what others have set there goes. It does so when it is
/// told, and once more while a restart goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_writes_its_workload_anew_takes_no_record_away() {
    let _alone = alone().await;
    let (api, cluster) = fresh("operated").await;
    let id = ObjectId::new("workload", "apps/v1/DaemonSet/operated/d");
    let own = |volume: &str| {
        let mut object = daemons("operated", json!({}));
        object["metadata"]["labels"] = json!({"hash": volume});
        object["spec"]["template"]["metadata"]["labels"]["volume"] = json!(volume);
        object
    };
    let writes = |object: &Value| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), object.to_string()).unwrap();
        let path = file.path().display().to_string();
        // Another controller may write its status at the same moment; operators try again too.
        let written =
            (0..5).any(|_| api.kubectl(&["replace", "-f", &path]).is_ok_and(|ended| ended.success()));
        assert!(written, "the operator cannot write its workload");
    };
    api.apply(&own("one").to_string()).unwrap();
    until_complete(&cluster, &id).await;
    let pods = || {
        let list = api.get(&["-n", "operated", "pods", "--field-selector=spec.nodeName!=gpu-3"]).unwrap();
        let uid = |p: &Value| p["metadata"]["uid"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(uid).collect::<Vec<String>>()
    };
    let before = pods();
    // Times of pods have no fractions of a second.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let reported = Mutex::new(0);
    let tell = |text: &str| {
        // While the restart is on its way it is taken back, once.
        if text.contains("restarting") {
            *reported.lock().unwrap() += 1;
        } else if *reported.lock().unwrap() == 1 {
            *reported.lock().unwrap() += 1;
            writes(&own("one"));
        }
    };
    let restart =
        item(Change { object: id.clone(), from: running(None, true), to: running(Some("abc"), true) });
    let worked = cluster.work(&run.id, &restart, &tell).await;
    assert_eq!(worked.end, WorkEnd::Done);
    assert!(pods().iter().all(|uid| !before.contains(uid)), "a pod was not restarted");
    // Later changes of the workload do not alter the content that it was started with.
    writes(&own("two"));
    let annotations =
        api.get(&["-n", "operated", "daemonset", "d"]).unwrap()["metadata"]["annotations"].clone();
    assert!(!annotations.to_string().contains("converge/"), "{annotations}");
    assert_eq!(until_complete(&cluster, &id).await, running(Some("abc"), true));
    // Made anew it is another one, and a rollback finds nothing to restart where it has gone.
    api.kubectl(&["-n", "operated", "delete", "daemonset", "d"]).unwrap();
    let back = ClusterWork {
        owner: String::new(),
        ..item(Change { object: id.clone(), from: running(Some("abc"), true), to: running(None, true) })
    };
    assert_eq!(done(&cluster, &run, &back).await.after, [(id.clone(), State::absent())]);
    api.apply(&own("three").to_string()).unwrap();
    assert_eq!(until_complete(&cluster, &id).await, running(None, true));
    cluster.close(&run.id, RunEnd::Finished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_does_not_start_is_named_while_it_is_waited_for() {
    let _alone = alone().await;
    let (api, cluster) = fresh("stuck").await;
    let id = ObjectId::new("workload", "apps/v1/DaemonSet/stuck/d");
    api.apply(&daemons("stuck", json!({"converge-lab/pod": "never-ready"})).to_string()).unwrap();
    let run = meta();
    cluster.open(&run).await.unwrap();
    let reported: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let tell = |text: &str| reported.lock().unwrap().push(text.to_owned());
    let work = item(Change { object: id.clone(), from: running(None, false), to: running(None, true) });
    let waiting = cluster.work(&run.id, &work, &tell);
    assert!(tokio::time::timeout(std::time::Duration::from_secs(8), waiting).await.is_err(), "it ended");
    let text = reported.lock().unwrap().join("\n");
    assert!(text.contains("of 3 pods 3 have the current template and 0 are ready"), "{text}");
    assert!(text.contains("on gpu-1") && text.contains("on gpu-2"), "{text}");
    assert!(!text.contains("on gpu-3"), "its node is not ready itself: {text}");
    // A workload that was given up in the middle is unknown to the record.
    cluster.close(&run.id, RunEnd::Failed).await;
    let record = cluster.records().await.unwrap().runs.pop().unwrap();
    assert_eq!(record.changes[0].outcome, converge_ledger::SavedOutcome::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_waited_for_and_tell_why_they_do_not_hold() {
    let (api, cluster) = fresh("waited").await;
    let run = meta();
    let wait = |what: Expectation, seconds: u64| TimedCondition { what, seconds };
    let gpus = |times: u64| Expectation::Allocatable {
        resource: "nvidia.com/gpu".to_owned(),
        or: Vec::new(),
        nodes: None,
        amount: Amount { label: None, times, or_more: false },
        none_is_fine: false,
    };
    let change = |wait: &TimedCondition| Change {
        object: ObjectId::new("condition", wait.key()),
        from: ConditionState::Open.into(),
        to: ConditionState::Met.into(),
    };
    let eight = wait(gpus(8), 20);
    assert_eq!(look(&cluster, &change(&eight).object).await.0, ConditionState::Met.into());
    done(&cluster, &run, &item(change(&eight))).await;
    let nine = wait(gpus(9), 1);
    let WorkEnd::Failed { message, .. } = work(&cluster, &run, &item(change(&nine))).await.end else {
        panic!()
    };
    assert!(message.contains("does not hold after 1 s") && message.contains("gpu-1"), "{message}");
    // It comes to hold meanwhile.
    let pick = Pick::All {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("waited".to_owned()),
        labels: Some("mine=1".to_owned()),
    };
    let one = wait(Expectation::Count { of: pick, condition: None, test: CountTest::Equals(1) }, 20);
    let item = item(change(&one));
    let (worked, ()) = tokio::join!(work(&cluster, &run, &item), async {
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        let mut map = configmap("waited", "x", json!({}));
        map["metadata"]["labels"] = json!({"mine": "1"});
        api.apply(&map.to_string()).unwrap();
    });
    assert_eq!(worked.end, WorkEnd::Done);
    assert_eq!(worked.after[0].1, ConditionState::Met.into());
}

/// The output of a wait for a value that no field of the object has.
async fn told_of_a_wait_in_vain(cluster: &Cluster, object: ApiRef) -> String {
    let what = Expectation::Field {
        of: Pick::Named(vec![object]),
        path: "{.status.state}".to_owned(),
        or: Vec::new(),
        test: Test::Equals(json!("ready")),
        none_is_fine: false,
        ready_nodes_only: false,
    };
    let change = Change {
        object: ObjectId::new("condition", TimedCondition { what, seconds: 1 }.key()),
        from: ConditionState::Open.into(),
        to: ConditionState::Met.into(),
    };
    match work(cluster, &meta(), &item(change)).await.end {
        WorkEnd::Failed { output, .. } => output,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_in_vain_names_the_pods_to_blame_and_their_last_words() {
    let (api, cluster) = fresh("blamed").await;
    let pod = |name: &str, node: &str, how: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "blamed", "annotations": {"converge-lab/pod": how}},
            "spec": {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "x"}]}})
    };
    for (name, node, how) in
        [("crashes", "gpu-1", "never-ready"), ("hangs", "gpu-2", "never-ready"), ("well", "gpu-1", "")]
    {
        api.apply(&pod(name, node, how).to_string()).unwrap();
    }
    let phase = |name: &str| api.get(&["-n", "blamed", "pod", name]).unwrap()["status"]["phase"].clone();
    for _ in 0..100 {
        if ["crashes", "hangs", "well"].iter().all(|name| phase(name) == "Running") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    // As its kubelet reports a container that has ended and is started again.
    let ended = json!({"exitCode": 1, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"});
    let status = json!({"status": {"containerStatuses": [{"name": "c", "image": "x", "imageID": "", "ready": false, "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}, "lastState": {"terminated": ended}}]}});
    api.kubectl(&[
        "-n",
        "blamed",
        "patch",
        "pod",
        "crashes",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status.to_string(),
    ])
    .unwrap();
    // Escape sequences of a log are not sent on.
    api.set_pod_log("it starts\nit looks for a driver\n\u{1b}[31mno driver\u{1b}[0m\nit ends\n").unwrap();

    // An object that came with a helm release is the work of an operator, whose pods are in the release's namespace.
    let mut made = configmap("default", "made-by-an-operator", json!({}));
    made["metadata"]["annotations"] = json!({"meta.helm.sh/release-namespace": "blamed"});
    api.apply(&made.to_string()).unwrap();
    let output = told_of_a_wait_in_vain(
        &cluster,
        ApiRef::from_key("v1/ConfigMap/default/made-by-an-operator").unwrap(),
    )
    .await;
    let lines: Vec<&str> = output.lines().collect();
    let expected = [
        "blamed: pod crashes on gpu-1 (CrashLoopBackOff: back-off 40s)",
        "  | it looks for a driver",
        "  | [31mno driver[0m",
        "  | it ends",
        "blamed: pod hangs on gpu-2 (Running)",
    ];
    assert!(lines.ends_with(&expected), "{lines:#?}");
    assert!(!output.contains("well"), "a pod that is ready is not to blame: {output}");

    // Of a node these are the pods on it.
    let output = told_of_a_wait_in_vain(&cluster, ApiRef::from_key("v1/Node/gpu-2").unwrap()).await;
    assert!(output.contains("blamed: pod hangs on gpu-2") && !output.contains("crashes"), "{output}");
    // And of an object that came with no release, nobody's.
    api.apply(&configmap("default", "by-itself", json!({})).to_string()).unwrap();
    let alone = ApiRef::from_key("v1/ConfigMap/default/by-itself").unwrap();
    let output = told_of_a_wait_in_vain(&cluster, alone).await;
    assert!(!output.contains("blamed"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_nobody_stands_behind_is_reported() {
    let (api, cluster) = fresh("asked").await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "asked"},
        "spec": {"ports": [{"port": 80}]}});
    api.apply(&service.to_string()).unwrap();
    let what = Expectation::Answers {
        namespace: "asked".to_owned(),
        service: "s".to_owned(),
        port: 80,
        tls: false,
        path: "/healthz".to_owned(),
        status: 200,
    };
    let change = Change {
        object: ObjectId::new("condition", TimedCondition { what, seconds: 1 }.key()),
        from: ConditionState::Open.into(),
        to: ConditionState::Met.into(),
    };
    let WorkEnd::Failed { message, .. } = work(&cluster, &meta(), &item(change)).await.end else { panic!() };
    assert!(message.contains("nobody"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_run_to_its_end_and_taken_away_however_it_ends() {
    let (api, cluster) = fresh("jobs").await;
    let job = |annotations: Value| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "jobs"}, "spec": {"backoffLimit": 0,
            "template": {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "containers": [{"name": "c", "image": "x"}]}}}})
    };
    // A leftover does not stand in the way.
    api.apply(&job(json!({})).to_string()).unwrap();
    for (pod, succeeded, reason) in [
        ("", true, ""),
        ("fails", false, "BackoffLimitExceeded"),
        ("never-ready", false, "did not end within 3 s"),
    ] {
        let manifest = job(json!({"converge-lab/pod": pod})).to_string();
        let mut manifest: Value = serde_json::from_str(&manifest).unwrap();
        // Our own deadline, not the cluster's.
        manifest["spec"]["activeDeadlineSeconds"] = json!(600);
        let seconds = if pod == "never-ready" { 3 } else { 30 };
        let question = ApiProbe::Job { manifest: manifest.to_string(), seconds };
        let answer = common::api(&cluster, question).await;
        assert_eq!(answer["succeeded"], succeeded, "{pod}: {answer}");
        assert!(answer["reason"].as_str().unwrap().contains(reason), "{pod}: {answer}");
        assert!(answer["log"].is_string() && answer["seconds"].as_u64().unwrap() <= seconds + 2, "{answer}");
        let left = api.kubectl(&["-n", "jobs", "get", "jobs", "-o", "name"]).unwrap().stdout;
        assert_eq!(left.trim(), "", "{pod}");
    }
    // Nobody waits any more.
    let question =
        ApiProbe::Job { manifest: job(json!({"converge-lab/pod": "never-ready"})).to_string(), seconds: 60 };
    let given_up = ask(&cluster, Probe::Api(question));
    assert!(tokio::time::timeout(std::time::Duration::from_secs(2), given_up).await.is_err());
    let key = ApiRef::from_key("batch/v1/Job/jobs/j").unwrap();
    for _ in 0..50 {
        if common::api(&cluster, ApiProbe::Get(key.clone())).await.is_null() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("the Job is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn workloads_of_every_kind_are_restarted() {
    let _alone = alone().await;
    let (api, cluster) = fresh("kinds").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
    let two = json!({"replicas": 2, "serviceName": "s"});
    let mut deployment = two.clone();
    deployment.as_object_mut().unwrap().remove("serviceName");
    for (kind, more) in [("DaemonSet", on_delete), ("StatefulSet", two), ("Deployment", deployment)] {
        let name = kind.to_lowercase();
        let mut manifest = daemons("kinds", json!({}));
        manifest["kind"] = json!(kind);
        manifest["metadata"]["name"] = json!(name);
        let spec = manifest["spec"].as_object_mut().unwrap();
        spec.remove("updateStrategy");
        spec.extend(more.as_object().unwrap().clone());
        spec["selector"] = json!({"matchLabels": {"app": name}});
        spec["template"]["metadata"] = json!({"labels": {"app": name}});
        // On the nodes that are ready.
        spec["template"]["spec"]["tolerations"] = json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]);
        api.apply(&manifest.to_string()).unwrap();
        let id = ObjectId::new("workload", format!("apps/v1/{kind}/kinds/{name}"));
        let from = until_complete(&cluster, &id).await;
        let label = format!("app={name}");
        let pods = || {
            let list = api.get(&["-n", "kinds", "pods", "-l", &label]).unwrap();
            let uid = |p: &Value| p["metadata"]["uid"].as_str().unwrap().to_owned();
            let there =
                |p: &&Value| p["metadata"]["deletionTimestamp"].is_null() && p["spec"]["nodeName"] != "gpu-3";
            list["items"].as_array().unwrap().iter().filter(there).map(uid).collect::<Vec<String>>()
        };
        let before = pods();
        let change = Change { object: id.clone(), from, to: running(Some("w"), true) };
        let worked = done(&cluster, &run, &item(change)).await;
        assert_eq!(worked.after[0].1, running(Some("w"), true), "{kind}");
        let after = pods();
        assert!(before.len() >= 2 && after.len() >= 2, "{kind}: {before:?} {after:?}");
        assert!(after.iter().all(|uid| !before.contains(uid)), "{kind}: {before:?} {after:?}");
    }
    cluster.close(&run.id, RunEnd::Finished).await;
}
