//! Deletions that take long: finalizers, and namespaces that terminate.

mod common;

use common::*;
use converge_cluster::{ClusterOptions, WorkEnd};
use converge_executor::{Executor as _, RunEnd};
use converge_ledger::SavedOutcome;
use converge_resource::{Answer, Probe};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_being_deleted_has_no_state_to_plan_on() {
    let (api, cluster) = fresh("going").await;
    let mut manifest = configmap("going", "held", json!({"a": "1"}));
    manifest["metadata"]["finalizers"] = json!(["example.org/hold"]);
    api.apply(&manifest.to_string()).unwrap();
    let id = object(&manifest);
    assert!(matches!(ask(&cluster, Probe::Object(id.clone())).await.0, Answer::Object(_)));
    assert!(api.kubectl(&["-n", "going", "delete", "--wait=false", "configmap", "held"]).unwrap().success());
    // Alone, and out of a list for many.
    let others = (0..4).map(|n| Probe::Object(object(&configmap("going", &format!("c{n}"), json!({})))));
    let many: BTreeSet<Probe> = others.chain([Probe::Object(id.clone())]).collect();
    for probes in [BTreeSet::from([Probe::Object(id.clone())]), many] {
        let observation = cluster.answers_to(&probes).await;
        let answer = observation.answers.iter().find(|(probe, _)| *probe == Probe::Object(id.clone()));
        let Some((_, Answer::Failed(why))) = answer else { panic!("{answer:?}") };
        assert!(why.contains("been in deletion since") && why.contains("example.org/hold"), "{why}");
    }
    // The server's own garbage collector is waited for. Here is none: it comes to its end by hand.
    let apply = configmap("going", "collected", json!({"a": "1"}));
    api.apply(&apply.to_string()).unwrap();
    let delete = ["-n", "going", "delete", "--cascade=foreground", "--wait=false", "configmap", "collected"];
    assert!(api.kubectl(&delete).unwrap().success());
    let goes = [
        "-n",
        "going",
        "patch",
        "configmap",
        "collected",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ];
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        api.kubectl(&goes).unwrap().success()
    });
    let Answer::Object(found) = ask(&cluster, Probe::Object(object(&apply))).await.0 else {
        panic!("not waited for")
    };
    assert!(found.state.is_absent(), "{found:?}");
    assert!(ends.join().unwrap());
}

/// The server takes the request to delete and the object goes when its finalizers do, maybe after the run: what a rollback may find is both.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_takes_longer_than_the_run_may_have_happened() {
    let _alone = alone().await;
    let api = fresh("late").await.0;
    let quick = ClusterOptions { deletion: Duration::from_secs(1), ..options() };
    let cluster = connect_with(api, quick).await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let mut manifest = configmap("late", "held", json!({"a": "1"}));
    manifest["metadata"]["finalizers"] = json!(["example.org/hold"]);
    done(&cluster, &run, &plan_apply(&cluster, &manifest, false).await).await;
    let gone = plan_to(&cluster, &object(&manifest), None).await;
    let end = work(&cluster, &run, &gone).await.end;
    assert!(
        matches!(&end, WorkEnd::Failed { message, .. } if message.contains("example.org/hold")),
        "{end:?}"
    );
    cluster.close(&run.id, RunEnd::Failed).await;
    let records = cluster.records().await.unwrap().runs;
    let change = &records.iter().find(|r| r.id == run.id).unwrap().changes[1];
    assert_eq!((change.outcome, change.may_have_happened()), (SavedOutcome::Unknown, true));
    assert!(change.after.is_absent(), "{change:?}");
}

/// An owner that the role itself has written into an object keeps nobody from taking it away again; one that another client wrote does.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_with_an_owner_of_its_own_role_goes() {
    let _alone = alone().await;
    let (api, cluster) = fresh("owned").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let owner = configmap("owned", "owner", json!({}));
    done(&cluster, &run, &plan_apply(&cluster, &owner, false).await).await;
    let uid = api.get(&["-n", "owned", "configmap", "owner"]).unwrap()["metadata"]["uid"].clone();
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    let mut own = configmap("owned", "own", json!({}));
    own["metadata"]["ownerReferences"] = reference.clone();
    done(&cluster, &run, &plan_apply(&cluster, &own, false).await).await;
    let theirs = configmap("owned", "theirs", json!({}));
    done(&cluster, &run, &plan_apply(&cluster, &theirs, false).await).await;
    let patch = json!({"metadata": {"ownerReferences": reference}}).to_string();
    api.kubectl(&["-n", "owned", "patch", "configmap", "theirs", "-p", &patch]).unwrap();
    done(&cluster, &run, &plan_to(&cluster, &object(&own), None).await).await;
    let end = work(&cluster, &run, &plan_to(&cluster, &object(&theirs), None).await).await.end;
    assert!(matches!(&end, WorkEnd::Refused(why) if why.contains("belongs to configmap owner")), "{end:?}");
    cluster.close(&run.id, RunEnd::Finished).await;
}
