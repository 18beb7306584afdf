//! A cluster behind a real sshd: its API server listens on the host's own loopback only.

mod common;

use common::*;
use converge_cluster::{Cluster, ClusterAccess, ClusterOptions};
use converge_executor::Executor as _;
use converge_lab::kube::{ApiOptions, ApiServer, Part, ensure};
use converge_lab::{Lab, LabOptions};
use converge_resource::{Answer, ApiProbe, Chart, Content, ObjectId, Probe, ReleaseSpec};
use converge_ssh::{Session, SessionOptions, SshEndpoint};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_worked_with_through_a_host() {
    let lab = Lab::open(LabOptions::new("t-tunnel").install_nothing()).unwrap();
    let host = lab.up(1).unwrap().remove(0);
    let api = ApiServer::start(&host, ApiOptions::new().controllers()).unwrap();
    let mut target = SshEndpoint::ssh(host.name());
    target.address = host.address().to_string();
    target.user = Some("root".to_owned());
    target.key_files = vec![lab.identity().try_into().unwrap()];
    target.known_hosts = vec![lab.known_hosts().try_into().unwrap()];
    target.identities_only = true;
    let session = Session::connect(&target, &SessionOptions { agent: None, ..SessionOptions::default() })
        .await
        .unwrap();
    let nobody = session.tcp("127.0.0.1", 1).await.unwrap_err();
    assert!(nobody.to_string().contains("cannot connect there"), "{nobody}");
    let text = host.exec("cat /etc/kubernetes/admin.conf").unwrap().stdout;
    let helm = ensure(&[Part::Helm]).unwrap().program("helm").unwrap();
    let options = ClusterOptions {
        deadline: Duration::from_secs(5),
        helm: Some(helm.clone()),
        cache: folder().join("helm"),
        ..options()
    };
    let access = ClusterAccess::Tunnel { session, text: text.into(), context: None };
    let cluster = Cluster::connect("lab", access, options).await.unwrap();

    let run = meta();
    cluster.open(&run).await.unwrap();
    let map = configmap("default", "x", json!({"a": "1"}));
    done(&cluster, &run, &plan_apply(&cluster, &map, false).await).await;
    assert_eq!(api.get(&["configmap", "x"]).unwrap()["data"]["a"], "1");
    let probes: BTreeSet<Probe> =
        (0..40).map(|n| Probe::Object(ObjectId::new("k8s", format!("v1/Namespace/n{n}")))).collect();
    let start = Instant::now();
    let observed = cluster.answers_to(&probes).await;
    assert!(observed.answers.iter().all(|(_, a)| matches!(a, Answer::Object(o) if o.state.is_absent())));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?} for forty objects", start.elapsed());

    // helm, which knows nothing of SSH.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("c/templates")).unwrap();
    std::fs::write(folder.path().join("c/Chart.yaml"), "apiVersion: v2\nname: c\nversion: 1.0.0\n").unwrap();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n";
    std::fs::write(folder.path().join("c/templates/m.yaml"), template).unwrap();
    let packed =
        std::process::Command::new(helm).args(["package", "c"]).current_dir(folder.path()).output().unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let chart = Content::new(std::fs::read(folder.path().join("c-1.0.0.tgz")).unwrap());
    cluster.offer(chart.clone());
    let spec = ReleaseSpec {
        name: "r".to_owned(),
        namespace: "default".to_owned(),
        chart: Chart::Archive(chart.digest().to_string()),
        login: None,
        plain_http: false,
        version: None,
        values: json!({}),
        create_namespace: false,
        wait_seconds: None,
        seconds: None,
        keep: Vec::new(),
        drawn: Vec::new(),
        unset: Vec::new(),
    };
    let rendered = common::api(&cluster, ApiProbe::Render(serde_json::to_string(&spec).unwrap())).await;
    assert_eq!(rendered["manifests"][0]["metadata"]["name"], "m", "{rendered}");

    // The cable is pulled: nobody waits for long.
    host.cut().unwrap();
    let start = Instant::now();
    let (answer, _) = ask(&cluster, Probe::Object(object(&map))).await;
    assert!(matches!(answer, Answer::Failed(_)) && cluster.is_gone(), "{answer:?}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    host.heal().unwrap();
}
