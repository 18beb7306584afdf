//! Charts of private repositories and registries.

use super::*;
use converge_lab::ChartServer;
use converge_resource::{ChartLogin, REFUSED};
use std::os::unix::fs::PermissionsExt as _;

const MAP: (&str, &str) = (
    "templates/map.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: r-map}\ndata: {size: {{ .Values.size | quote }}}\n",
);

/// A server that has the chart `small`, with values of its own, for one user.
fn serving(password: &str, size: u8) -> ChartServer {
    let server = ChartServer::start().unwrap();
    server.admit("ann", password);
    server.pack(&helm(), "small", "1.0.0", &[MAP, ("values.yaml", &format!("size: {size}\n"))]).unwrap();
    server
}

/// The chart of this server, from its repository or its registry.
fn private(server: &ChartServer, is_oci: bool, password: Option<&str>) -> ReleaseSpec {
    let host = server.host();
    let chart = match is_oci {
        true => Chart::Oci(format!("oci://{host}/charts/small")),
        false => Chart::Repository { url: format!("http://{host}"), name: "small".to_owned() },
    };
    let login = |password: &str| ChartLogin { username: "ann".to_owned(), password: password.to_owned() };
    let version = Some("1.0.0".to_owned());
    let (login, plain_http) = (password.map(login), is_oci);
    ReleaseSpec {
        chart,
        login,
        plain_http,
        version,
        ..spec("private", &Content::new(b"".as_slice()), json!({}), 60)
    }
}

/// A helm that writes down its arguments and its environment.
fn recording(folder: &std::path::Path) -> PathBuf {
    let (program, log) = (folder.join("helm"), folder.join("log").display().to_string());
    let text = format!("#!/bin/sh\n{{ echo \"$@\"; env; }} >>{log}\nexec {} \"$@\"\n", helm().display());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

async fn asked(cluster: &Cluster, spec: &ReleaseSpec) -> Value {
    api(cluster, ApiProbe::Render(serde_json::to_string(spec).unwrap())).await
}

/// All files below a folder.
fn files(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_private_source_has_its_login_and_nobody_else_sees_it() {
    let (one, two) = (serving("hunter2-one", 1), serving("hunter2-two", 2));
    let folder = tempfile::tempdir().unwrap();
    let (_, cluster, _) = fresh("private").await;
    let cache = folder.path().join("cache");
    let access = ClusterAccess::Kubeconfig {
        text: kubeconfig(server(|| ApiOptions::new().controllers())).into(),
        context: None,
        login: converge_cluster::Login::default(),
    };
    let own = ClusterOptions { helm: Some(recording(folder.path())), cache: cache.clone(), ..options() };
    drop(cluster);
    let cluster = Cluster::connect("test", access, own).await.unwrap();
    for is_oci in [false, true] {
        // At the same time, with different logins.
        let (a, b) = (private(&one, is_oci, Some("hunter2-one")), private(&two, is_oci, Some("hunter2-two")));
        let (a, b) = tokio::join!(asked(&cluster, &a), asked(&cluster, &b));
        let size = |answer: &Value| answer["manifests"][0]["data"]["size"].clone();
        assert_eq!((size(&a), size(&b)), (json!("1"), json!("2")), "{a} {b}");
        // A chart that came by a login is for nobody without it.
        let address = if is_oci {
            format!("oci://{}/charts/small", one.host())
        } else {
            format!("http://{}", one.host())
        };
        for (password, words) in
            [(Some("hunter2-two"), "does not accept the login"), (None, "asks for a login")]
        {
            let answer = asked(&cluster, &private(&one, is_oci, password)).await;
            let reply = answer[REFUSED]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
            assert_eq!(reply, format!("{address} {words} (401 Unauthorized)"));
            assert!(answer[REFUSED]["help"].as_str().unwrap().contains("`username` and `password`"));
        }
        one.forbid();
        let answer = asked(&cluster, &private(&one, is_oci, Some("hunter2-one"))).await;
        assert!(answer[REFUSED]["message"].as_str().unwrap().contains("(403 Forbidden)"), "{answer}");
        one.admit("ann", "hunter2-one");
        let gone =
            ReleaseSpec { version: Some("9.9.9".to_owned()), ..private(&one, is_oci, Some("hunter2-one")) };
        let (answer, _) = ask(
            &cluster,
            converge_resource::Probe::Api(ApiProbe::Render(serde_json::to_string(&gone).unwrap())),
        )
        .await;
        assert!(
            format!("{answer:?}").contains("no version 9.9.9") && !format!("{answer:?}").contains("(40"),
            "{answer:?}"
        );
    }
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let secrets =
        ["hunter2".to_owned(), STANDARD.encode("ann:hunter2-one"), STANDARD.encode("ann:hunter2-two")];
    assert!(log.contains("upgrade --install") && secrets.iter().all(|secret| !log.contains(secret)), "{log}");
    assert_eq!(files(&cache), Vec::<PathBuf>::new(), "the shared cache has nothing of a login");
    let folders: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("HOME=")).collect();
    assert!(!folders.is_empty() && folders.iter().all(|folder| !std::path::Path::new(folder).exists()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_a_private_chart_is_installed_and_its_records_hold_no_login() {
    let _alone = alone().await;
    let server = serving("hunter2-three", 3);
    let (api, cluster, _) = fresh("private").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let spec = private(&server, false, Some("hunter2-three"));
    let none = Content::new(b"".as_slice());
    let work = plan(&cluster, &spec, &none).await;
    done(&cluster, &run, &work).await;
    assert_eq!(size(api, "private"), "3");
    cluster.close(&run.id, RunEnd::Finished).await;
    // Back, without the repository.
    server.forbid();
    let id = ObjectId::new("release", "private/r");
    let installed = look(&cluster, &id).await.0;
    let gone = back(&cluster, &id, &State::absent(), None).await;
    assert_eq!(alone_in_a_run(&cluster, &gone).await, WorkEnd::Done);
    let again = back(&cluster, &id, &installed, None).await;
    assert_eq!(alone_in_a_run(&cluster, &again).await, WorkEnd::Done);
    assert_eq!(size(api, "private"), "3");
    let all = api.kubectl(&["get", "secrets,configmaps,leases", "-A", "-o", "json"]).unwrap().stdout;
    assert!(!all.contains("hunter2") && !all.contains(&STANDARD.encode("hunter2-three")));
    assert!(!format!("{:?}", work.calls).contains("hunter2"), "{:?}", work.calls);
}
