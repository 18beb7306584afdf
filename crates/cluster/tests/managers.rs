//! The managers of fields, after a rollback.

mod common;

use common::*;
use converge_resource::Segment;
use serde_json::{Value, json};

/// Values of somebody else that a role has taken and a rollback gives back are that manager's again: what conflicts with them is told so.
#[tokio::test(flavor = "multi_thread")]
async fn values_that_go_back_are_their_managers_again() {
    let _alone = alone().await;
    let (api, cluster) = fresh("theirs").await;
    let theirs = configmap("theirs", "x", json!({"a": "1", "b": "1"}));
    api.kubectl_with_input(
        &["apply", "--server-side", "--field-manager=tuner", "-f", "-"],
        &theirs.to_string(),
    )
    .unwrap();
    let id = object(&theirs);
    let before = look(&cluster, &id).await.1.unwrap();
    let run = meta();
    cluster.open(&run).await.unwrap();
    let wanted = configmap("theirs", "x", json!({"a": "2", "c": "2"}));
    done(&cluster, &run, &plan_apply(&cluster, &wanted, true).await).await;
    cluster.close(&run.id, "finished").await;
    let back = meta();
    cluster.open(&back).await.unwrap();
    done(&cluster, &back, &plan_to(&cluster, &id, Some(before)).await).await;
    cluster.close(&back.id, "finished").await;
    let live = api.get(&["-n", "theirs", "configmap", "x"]).unwrap();
    assert_eq!(live["data"], json!({"a": "1", "b": "1"}));
    let live = api.kubectl(&["-n", "theirs", "get", "configmap", "x", "-o", "json", "--show-managed-fields"]);
    let live: Value = serde_json::from_str(&live.unwrap().stdout).unwrap();
    let path = [Segment::Key("data".into()), Segment::Key("a".into())];
    assert!(converge_objects::k8s::owners::owners(&live, &path).iter().all(|m| m == "tuner"), "{live:#}");
    let other = configmap("theirs", "x", json!({"a": "3"})).to_string();
    let refused =
        api.kubectl_with_input(&["apply", "--server-side", "--field-manager=new", "-f", "-"], &other);
    let said = format!("{refused:?}");
    assert!(said.contains("tuner") && !said.contains("\\\"converge\\\""), "{said}");
}

/// A rollback writes values, and leaves the next apply its own fields: it meets no conflict with itself, and takes away what it leaves out.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_rollback_wrote_belongs_to_the_next_apply() {
    let _alone = alone().await;
    let (api, cluster) = fresh("again").await;
    let apply = async |manifest: &Value| {
        let run = meta();
        cluster.open(&run).await.unwrap();
        done(&cluster, &run, &plan_apply(&cluster, manifest, false).await).await;
        cluster.close(&run.id, "finished").await;
    };
    let (one, two) = (json!({"v": "1", "dropped": "x"}), json!({"v": "2"}));
    let map = |data: &Value| configmap("again", "x", data.clone());
    let id = object(&map(&one));
    apply(&map(&one)).await;
    let before = look(&cluster, &id).await.1.unwrap();
    apply(&map(&two)).await;
    let back = async || {
        let run = meta();
        cluster.open(&run).await.unwrap();
        done(&cluster, &run, &plan_to(&cluster, &id, Some(before.clone())).await).await;
        cluster.close(&run.id, "finished").await;
    };
    back().await;
    let data = || api.get(&["-n", "again", "configmap", "x"]).unwrap()["data"].clone();
    assert_eq!(data(), one);
    apply(&map(&two)).await;
    assert_eq!(data(), two, "what the role leaves out goes again");
    // The same after an object that was gone: nothing tells the server whose the fields are.
    let run = meta();
    cluster.open(&run).await.unwrap();
    done(&cluster, &run, &plan_to(&cluster, &id, None).await).await;
    cluster.close(&run.id, "finished").await;
    back().await;
    apply(&map(&json!({"v": "3"}))).await;
    assert_eq!(data()["v"], "3");
}
