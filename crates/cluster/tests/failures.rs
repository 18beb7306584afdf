//! A server that is down, slow, forbids, or whose certificates have ended.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod common;

use common::*;
use converge_cluster::{
    Cluster, ClusterAccess, ClusterError, ClusterOptions, ClusterWork, Login, NAMESPACE, WorkEnd,
};
use converge_executor::{Executor as _, RunEnd, TargetError};
use converge_lab::kube::{Administrator, ApiOptions, Component, LocalApi};
use converge_ledger::SavedOutcome;
use converge_objects::condition::{ConditionState, Expectation, Pick, Test, TimedCondition};
use converge_resource::{Answer, ApiProbe, ApiRef, Change, ObjectId, Probe};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

async fn refused(text: String) -> ClusterError {
    let access = ClusterAccess::Kubeconfig { text: text.into(), context: None, login: Login::default() };
    let quick = ClusterOptions { deadline: Duration::from_secs(3), ..options() };
    Cluster::connect("test", access, quick).await.unwrap_err()
}

/// The same kubeconfig with other credentials.
fn with_user(text: &str, user: &str) -> String {
    let mut config: serde_json::Value = serde_yaml::from_str(text).unwrap();
    config["users"][0]["user"] = serde_yaml::from_str(user).unwrap();
    config.to_string()
}

/// The program is such that a cloud's own kubeconfig names: it prints a credential, and helm runs it too.
#[tokio::test(flavor = "multi_thread")]
async fn a_listed_program_logs_in_and_one_that_fails_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir_in(folder()).unwrap();
    let api = LocalApi::start(dir.path(), ApiOptions::new()).unwrap();
    let text = kubeconfig(&api);
    let config: serde_json::Value = serde_yaml::from_str(&text).unwrap();
    let decoded = |field: &str| {
        use base64::Engine as _;
        let data = config["users"][0]["user"][field].as_str().unwrap();
        String::from_utf8(base64::engine::general_purpose::STANDARD.decode(data).unwrap()).unwrap()
    };
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {
            "clientCertificateData": decoded("client-certificate-data"),
            "clientKeyData": decoded("client-key-data"),
        },
    });
    let (answer, program, file) =
        (dir.path().join("answer"), dir.path().join("get-token"), dir.path().join("config"));
    std::fs::write(&answer, credential.to_string()).unwrap();
    let script = |body: &str| {
        std::fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let user = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: get-token, args: [eks], interactiveMode: IfAvailable}}";
    let exec = with_user(&text, user);
    std::fs::write(&file, &exec).unwrap();
    let login = |programs: &[&std::path::Path]| Login {
        file: file.clone(),
        programs: programs.iter().map(|p| (*p).to_owned()).collect(),
    };
    let access = |login: Login| ClusterAccess::Kubeconfig { text: exec.clone().into(), context: None, login };
    script(&format!("[ \"$1\" = eks ] && cat {}", answer.display()));
    let none = Cluster::connect("test", access(login(&[])), options()).await.unwrap_err().to_string();
    assert!(none.contains("converge_kubeconfig_exec: [/usr/local/bin/get-token]"), "{none}");
    let cluster = Cluster::connect("test", access(login(&[&program])), options()).await.unwrap();
    assert!(cluster.answers().await);
    script("echo secret-answer; echo 'no session: run get-token login' >&2; exit 3");
    let failed =
        Cluster::connect("test", access(login(&[&program])), options()).await.unwrap_err().to_string();
    assert!(
        failed.contains("no session: run get-token login") && !failed.contains("secret-answer"),
        "{failed}"
    );
    script("echo secret-answer");
    let failed =
        Cluster::connect("test", access(login(&[&program])), options()).await.unwrap_err().to_string();
    assert!(failed.contains("no ExecCredential") && !failed.contains("secret-answer"), "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_of_not_getting_in_has_its_own_message() {
    let dir = tempfile::tempdir().unwrap();
    let api = LocalApi::start(dir.path(), ApiOptions::new().administrator(Administrator::Expired)).unwrap();
    let expired = kubeconfig(&api);
    let error = refused(expired.clone()).await;
    assert!(matches!(error, ClusterError::ClientExpired { .. }), "{error}");
    assert!(error.to_string().contains("kubeadm certs renew admin.conf"), "{error}");
    api.administrator(Administrator::Valid).unwrap();
    let valid = kubeconfig(&api);
    connect(&api).await;
    let error = refused(with_user(&valid, "{token: nobody}")).await;
    assert!(matches!(error, ClusterError::Unauthorized { .. }), "{error}");
    let error = refused(with_user(&valid, "{}")).await;
    assert!(matches!(error, ClusterError::Unauthorized { .. } | ClusterError::Forbidden { .. }), "{error}");
    // Another authority.
    let other = tempfile::tempdir().unwrap();
    let second = LocalApi::start(other.path(), ApiOptions::new()).unwrap();
    let theirs: serde_json::Value = serde_yaml::from_str(&kubeconfig(&second)).unwrap();
    let mut mixed: serde_json::Value = serde_yaml::from_str(&valid).unwrap();
    mixed["clusters"][0]["cluster"]["server"] = theirs["clusters"][0]["cluster"]["server"].clone();
    let error = refused(mixed.to_string()).await;
    assert!(matches!(error, ClusterError::Untrusted { .. }), "{error}");
    // A name that the certificate does not have, and the one that it has.
    let mut named: serde_json::Value = serde_yaml::from_str(&valid).unwrap();
    named["clusters"][0]["cluster"]["tls-server-name"] = json!("elsewhere.example");
    let error = refused(named.to_string()).await;
    assert!(matches!(error, ClusterError::Untrusted { .. }), "{error}");
    named["clusters"][0]["cluster"]["tls-server-name"] = json!("kubernetes.default");
    let access =
        ClusterAccess::Kubeconfig { text: named.to_string().into(), context: None, login: Login::default() };
    Cluster::connect("test", access, options()).await.unwrap();
    // Slow: the connection is taken, and nobody answers.
    api.pause(Component::ApiServer).unwrap();
    let start = Instant::now();
    let error = refused(valid.clone()).await;
    assert!(matches!(error, ClusterError::Timeout { seconds: 3, .. }), "{error}");
    assert!(error.is_unreachable() && start.elapsed() < Duration::from_secs(5));
    api.resume(Component::ApiServer).unwrap();
    // Many questions to a server that hangs wait no longer than one.
    let quick = ClusterOptions { deadline: Duration::from_secs(3), ..options() };
    let cluster = connect_with(&api, quick).await;
    let one = |n: u32| Probe::Object(ObjectId::new("k8s", format!("v1/Namespace/n{n}")));
    let many: BTreeSet<Probe> = (0..3)
        .map(one)
        .chain((0..60).map(|n| {
            Probe::Api(ApiProbe::List {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                namespace: Some(format!("n{n}")),
                labels: None,
            })
        }))
        .collect();
    cluster.answers_to(&BTreeSet::from([one(1)])).await;
    api.pause(Component::ApiServer).unwrap();
    let start = Instant::now();
    let observed = cluster.answers_to(&many).await;
    let answered: Vec<_> = observed.answers.iter().filter(|(_, a)| !matches!(a, Answer::Failed(_))).collect();
    assert!(observed.answers.len() == 63 && answered.is_empty(), "{answered:?}");
    assert!(cluster.is_gone() && start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    api.resume(Component::ApiServer).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (answer, _) = ask(&cluster, one(1)).await;
    assert!(matches!(answer, Answer::Object(_)) && !cluster.is_gone(), "{answer:?}");
    api.stop().unwrap();
    let error = refused(valid).await;
    assert!(matches!(&error, ClusterError::Unreachable { why, .. } if why.contains("refused")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_in_the_middle_hangs_nobody_and_the_record_tells_what_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let api = LocalApi::start(dir.path(), ApiOptions::new()).unwrap();
    let quick = ClusterOptions { deadline: Duration::from_secs(3), ..options() };
    let cluster = connect_with(&api, quick).await;
    api.apply("{apiVersion: v1, kind: Namespace, metadata: {name: cut}}").unwrap();
    let run = meta();
    cluster.open(&run).await.unwrap();
    let planned = plan_apply(&cluster, &configmap("cut", "x", json!({"a": "1"})), false).await;
    done(&cluster, &run, &plan_apply(&cluster, &configmap("cut", "y", json!({"a": "1"})), false).await).await;
    api.kill(Component::ApiServer).unwrap();
    let start = Instant::now();
    let worked = work(&cluster, &run, &planned).await;
    assert!(matches!(worked.end, WorkEnd::Refused(_)), "nothing was changed: {worked:?}");
    assert!(cluster.is_gone());
    let (answer, _) = ask(&cluster, Probe::Object(planned.changes[0].object.clone())).await;
    assert!(matches!(answer, Answer::Failed(why) if why.contains("no answer")));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    cluster.close(&run.id, RunEnd::Failed).await;
    // It comes back: the same connection works on, and the run is cut off until its lock has ended.
    api.start_one(Component::ApiServer).unwrap();
    api.wait_until_ready().unwrap();
    let owned = cluster.owned().await.unwrap();
    assert!(!cluster.is_gone());
    assert_eq!(owned.cut_off.as_ref().map(|r| r.id.as_str()), Some(run.id.as_str()));
    assert_eq!(owned.cut_off.unwrap().changes[0].outcome, SavedOutcome::Done);
    assert_eq!(owned.things.len(), 1);
    let next = meta();
    // Nobody renews the Lease: its end is waited for.
    let spec = r#"{"spec": {"leaseDurationSeconds": 20}}"#;
    api.kubectl(&["-n", NAMESPACE, "patch", "lease", "converge", "--type=merge", "-p", spec]).unwrap();
    cluster.open(&next).await.unwrap();
    cluster.close(&next.id, RunEnd::Finished).await;
}

/// The process that ends a run gives the lock back as soon as the server answers again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_away_for_a_moment_takes_the_lock_back() {
    let dir = tempfile::tempdir().unwrap();
    let api = LocalApi::start(dir.path(), ApiOptions::new()).unwrap();
    let cluster = connect(&api).await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    api.kill(Component::ApiServer).unwrap();
    api.start_one(Component::ApiServer).unwrap();
    cluster.close(&run.id, RunEnd::Failed).await;
    api.wait_until_ready().unwrap();
    let holder = api.get(&["-n", NAMESPACE, "lease", "converge"]).unwrap()["spec"]["holderIdentity"].clone();
    assert_eq!(holder, serde_json::Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_goes_on_when_the_server_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let api = LocalApi::start(dir.path(), ApiOptions::new()).unwrap();
    let cluster = connect(&api).await;
    let pick = Pick::Named(vec![ApiRef::from_key("v1/ConfigMap/default/x").unwrap()]);
    let (path, test) = ("{.data.a}".to_owned(), Test::Exists);
    let wait = TimedCondition {
        what: Expectation::Field {
            of: pick,
            path,
            or: Vec::new(),
            test,
            none_is_fine: false,
            ready_nodes_only: false,
        },
        seconds: 60,
    };
    let change = Change {
        object: ObjectId::new("condition", wait.key()),
        from: ConditionState::Open.into(),
        to: ConditionState::Met.into(),
    };
    let item = ClusterWork { changes: vec![change], ..ClusterWork::default() };
    let run = meta();
    let (worked, ()) = tokio::join!(work(&cluster, &run, &item), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        api.kill(Component::ApiServer).unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        api.start_one(Component::ApiServer).unwrap();
        api.wait_until_ready().unwrap();
        api.apply(&configmap("default", "x", json!({"a": "1"})).to_string()).unwrap();
    });
    assert_eq!(worked.end, WorkEnd::Done);
    assert!(!cluster.is_gone());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_rights_sees_what_is_forbidden() {
    let dir = tempfile::tempdir().unwrap();
    let api = LocalApi::start(dir.path(), ApiOptions::new()).unwrap();
    api.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: weak, namespace: default}}").unwrap();
    let token = api.kubectl(&["-n", "default", "create", "token", "weak"]).unwrap().stdout;
    let text = with_user(&kubeconfig(&api), &format!("{{token: {}}}", token.trim()));
    let access = ClusterAccess::Kubeconfig { text: text.into(), context: None, login: Login::default() };
    let cluster = Cluster::connect("test", access, options()).await.unwrap();
    let map = configmap("default", "x", json!({}));
    let (answer, _) = ask(&cluster, Probe::Object(object(&map))).await;
    assert!(
        matches!(&answer, Answer::Failed(why) if why.contains("denied the request") && why.contains("weak")),
        "{answer:?}"
    );
    let refused = cluster.open(&meta()).await;
    assert!(
        matches!(&refused, Err(TargetError::Refused(why)) if why.contains("denied the request")),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_certificate_has_expired_is_told_from_one_that_is_not_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let script = "set -e; cd \"$1\"
        openssl ecparam -name prime256v1 -genkey -noout -out k.pem
        openssl req -x509 -new -key k.pem -days 1 -subj /CN=ca -out ca.pem
        openssl req -new -key k.pem -subj /CN=s -out s.csr
        printf subjectAltName=IP:127.0.0.1 >s.ext
        openssl x509 -req -in s.csr -CA ca.pem -CAkey k.pem -CAcreateserial -days -1 -extfile s.ext -out s.pem";
    let made = std::process::Command::new("sh").args(["-c", script, "sh"]).arg(dir.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = tokio::process::Command::new("openssl")
        .args(["s_server", "-quiet", "-cert", "s.pem", "-key", "k.pem", "-accept", &port.to_string()])
        .current_dir(dir.path())
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ca = std::fs::read_to_string(dir.path().join("ca.pem")).unwrap();
    let ca = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, ca);
    let text = json!({"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": {"token": "t"}}]});
    let mut error = refused(text.to_string()).await;
    for _ in 0..20 {
        if !error.is_unreachable() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        error = refused(text.to_string()).await;
    }
    assert!(matches!(error, ClusterError::ServerExpired { .. }), "{error}");
    assert!(error.to_string().contains("kubeadm certs renew all"), "{error}");
    server.kill().await.unwrap();
}

/// A policy of the cluster refuses a change: the dry run of a rollback's write says so, and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_policy_refuses_is_known_before_a_rollback_writes_it() {
    let dir = tempfile::tempdir().unwrap();
    let api = LocalApi::start(dir.path(), ApiOptions::new()).unwrap();
    let cluster = connect(&api).await;
    let (free, frozen) =
        (configmap("default", "free", json!({"v": "1"})), configmap("default", "frozen", json!({"v": "1"})));
    for manifest in [&free, &frozen] {
        api.apply(&manifest.to_string()).unwrap();
    }
    for policy in [
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "frozen"},
            "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["UPDATE"]}]},
                "validations": [{"expression": "object.metadata.name != 'frozen'", "message": "it is frozen"}]}}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "frozen"},
            "spec": {"policyName": "frozen", "validationActions": ["Deny"]}}),
    ] {
        api.apply(&policy.to_string()).unwrap();
    }
    let start = Instant::now();
    let denied = ["label", "configmap", "frozen", "--dry-run=server", "x=1"];
    while api.kubectl(&denied).unwrap().success() && start.elapsed() < Duration::from_secs(30) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let text = |content: Option<converge_resource::Content>| content.unwrap().text().unwrap().to_owned();
    let asks = async |manifest: &serde_json::Value, from: bool| {
        let now = look(&cluster, &object(manifest)).await.1;
        let to = edited(now.as_ref().unwrap(), |value| value["data"]["v"] = json!("0"));
        let object = ApiRef::of(manifest).unwrap();
        common::api(&cluster, ApiProbe::Back { object, from: from.then(|| text(now)), to: text(Some(to)) })
            .await
    };
    assert_eq!(asks(&free, true).await["object"]["data"]["v"], "0");
    let refused = asks(&frozen, true).await;
    assert!(refused["invalid"].as_str().unwrap().contains("it is frozen"), "{refused}");
    // An object that is not there is made.
    api.kubectl(&["delete", "configmap", "free"]).unwrap();
    let object = ApiRef::of(&free).unwrap();
    let made = common::api(&cluster, ApiProbe::Back { object, from: None, to: free.to_string() }).await;
    assert_eq!(made["object"]["metadata"]["name"], "free");
    assert!(api.get(&["configmap", "free"]).is_err(), "a dry run has made it");
}
