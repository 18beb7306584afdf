//! Releases that a rollback brings back or takes back.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_uninstalled_comes_back() {
    let _alone = alone().await;
    let (api, cluster, chart) = fresh("gone").await;
    let id = ObjectId::new("release", "gone/r");
    let mut states = Vec::new();
    for size in [2, 3] {
        let item = plan(&cluster, &spec("gone", &chart, json!({"size": size}), 60), &chart).await;
        assert_eq!(alone_in_a_run(&cluster, &item).await, WorkEnd::Done);
        states.push(look(&cluster, &id).await.0);
    }
    assert_eq!(
        alone_in_a_run(&cluster, &back(&cluster, &id, &State::absent(), None).await).await,
        WorkEnd::Done
    );
    assert_eq!(statuses(&cluster, "gone").await, [], "helm keeps nothing");
    // From what the runs have kept: the last one, and the one before it that helm has forgotten too.
    for (state, size_then) in states.iter().rev().zip(["3", "2"]) {
        let item = back(&cluster, &id, state, None).await;
        assert_eq!(alone_in_a_run(&cluster, &item).await, WorkEnd::Done);
        assert_eq!(look(&cluster, &id).await.0, *state, "exactly as it was");
        assert_eq!(size(api, "gone"), size_then);
    }
    let part = api.get(&["-n", "gone", "configmap", "r-part"]).unwrap();
    assert_eq!(part["data"]["text"], "{{ raw }}", "what was rendered is not rendered again");
    // It is an ordinary release: the role's next upgrade goes over it.
    let next = plan(&cluster, &spec("gone", &chart, json!({}), 60), &chart).await;
    assert_eq!(alone_in_a_run(&cluster, &next).await, WorkEnd::Done);
    assert_eq!((size(api, "gone"), look(&cluster, &id).await.0), (json!("1"), next.changes[0].to.clone()));
    // Taken away by hand, with its history: it is not there, and is installed anew.
    let by_hand = Command::new(helm())
        .args(["uninstall", "r", "-n", "gone", "--keep-history", "--kubeconfig"])
        .arg(api.kubeconfig())
        .output()
        .unwrap();
    assert!(by_hand.status.success(), "{by_hand:?}");
    assert!(look(&cluster, &id).await.0.is_absent());
    let item = back(&cluster, &id, &states[1], None).await;
    assert_eq!(alone_in_a_run(&cluster, &item).await, WorkEnd::Done);
    assert_eq!(size(api, "gone"), "3");
    let none = release::content("small", "1.0.0", &json!({"size": 99}), &[]);
    let none = ReleaseState::Installed {
        status: "deployed".to_owned(),
        chart: "small-1.0.0".to_owned(),
        digest: none.digest().clone(),
    };
    let end = alone_in_a_run(&cluster, &back(&cluster, &id, &none.into(), None).await).await;
    assert!(
        matches!(&end, WorkEnd::Refused(why) if why.contains("nor a run's record has a revision with this content")),
        "{end:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_with_secrets_comes_back_only_for_the_recipients() {
    use secrecy::ExposeSecret as _;
    let _alone = alone().await;
    let identity = age::x25519::Identity::generate();
    let sealing = ClusterOptions {
        recipients: vec![identity.to_public().to_string()],
        identities: vec![identity.to_string().expose_secret().to_owned().into()],
        ..options()
    };
    for (namespace, options) in [("bare", options()), ("sealed", sealing)] {
        let (api, cluster, chart) = fresh_with(namespace, options).await;
        let id = ObjectId::new("release", format!("{namespace}/r"));
        // The values are in the clear in the text of a release: what is hidden is what a Secret holds.
        let values = spec(namespace, &chart, json!({"token": "hunter-nine"}), 60);
        let item = plan(&cluster, &values, &chart).await;
        assert_eq!(alone_in_a_run(&cluster, &item).await, WorkEnd::Done);
        let there = look(&cluster, &id).await.0;
        let gone = back(&cluster, &id, &State::absent(), None).await;
        assert_eq!(alone_in_a_run(&cluster, &gone).await, WorkEnd::Done);
        let no_snapshot = cluster.records().await.unwrap().runs.pop().unwrap().changes[0].no_snapshot.clone();
        let end = alone_in_a_run(&cluster, &back(&cluster, &id, &there, None).await).await;
        if namespace == "bare" {
            assert!(no_snapshot.unwrap().contains("names no age recipients"));
            assert!(matches!(end, WorkEnd::Refused(_)), "{end:?}");
            continue;
        }
        assert_eq!((no_snapshot, end), (None, WorkEnd::Done));
        let secret = api.get(&["-n", namespace, "secret", "r-secret"]).unwrap();
        assert_eq!(secret["data"]["token"], STANDARD.encode("hunter-nine"));
    }
}

/// A release that is stuck goes back to the deployed revision, though the plan says nothing else: once, and without the chart.
#[tokio::test(flavor = "multi_thread")]
async fn what_hangs_goes_back_without_its_chart() {
    let _alone = alone().await;
    let (api, cluster, chart) = fresh("back").await;
    let first = plan(&cluster, &spec("back", &chart, json!({"size": 2}), 60), &chart).await;
    assert_eq!(alone_in_a_run(&cluster, &first).await, WorkEnd::Done);
    killed(api, "back", &chart);
    let id = ObjectId::new("release", "back/r");
    // A revision that hangs was never in force, whatever a record of an older version says.
    let question = ApiProbe::Release { namespace: "back".to_owned(), name: "r".to_owned() };
    let (hung, _) = ReleaseState::of(&common::api(&cluster, question).await[0]).unwrap();
    let never = back(&cluster, &id, &hung.settled().into(), None).await;
    let end = alone_in_a_run(&cluster, &never).await;
    assert!(
        matches!(&end, WorkEnd::Refused(why) if why.contains("revision 2 (small-1.0.0, pending-upgrade) was never in force")),
        "{end:?}"
    );
    let item =
        ClusterWork { owner: "role".to_owned(), ..back(&cluster, &id, &first.changes[0].to, None).await };
    assert_eq!(alone_in_a_run(&cluster, &item).await, WorkEnd::Done);
    let there = statuses(&cluster, "back").await;
    assert_eq!((there.len(), &there[0]), (3, &(3, "deployed".to_owned())), "{there:?}");
    assert_eq!(size(api, "back"), "2");
}

/// Nothing of it ever gets ready: a role that does not wait for it does not in a rollback either, nor when the release goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_waits_only_where_the_role_does() {
    let _alone = alone().await;
    let (_, cluster, _) = fresh("patient").await;
    let chart = packed(
        "small",
        &[
            ("Chart.yaml", "{apiVersion: v2, name: small, version: 1.0.0}\n"),
            (
                "templates/idle.yaml",
                "{apiVersion: apps/v1, kind: Deployment, metadata: {name: idle, labels: {size: {{ .Values.size | quote }}}}, spec: {selector: {matchLabels: {a: b}}, \
                 template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}\n",
            ),
        ],
    );
    let spec =
        |size: u32| ReleaseSpec { wait_seconds: None, ..spec("patient", &chart, json!({"size": size}), 60) };
    let id = ObjectId::new("release", "patient/r");
    let begun = std::time::Instant::now();
    let mut states = Vec::new();
    for size in 1..=2 {
        let item = plan(&cluster, &spec(size), &chart).await;
        assert_eq!(alone_in_a_run(&cluster, &item).await, WorkEnd::Done);
        states.push(look(&cluster, &id).await.0);
    }
    for to in [states[0].clone(), State::absent(), states[1].clone()] {
        let item = back(&cluster, &id, &to, None).await;
        assert_eq!(alone_in_a_run(&cluster, &item).await, WorkEnd::Done, "{to:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
