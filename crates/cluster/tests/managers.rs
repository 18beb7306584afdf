//! The managers of fields, after a rollback.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop the test")]

mod common;

use common::*;
use converge_cluster::{Cluster, ClusterOptions};
use converge_executor::{Executor as _, RunEnd, RunMeta};
use converge_lab::kube::LocalApi;
use converge_ledger::ProjectName;
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
    cluster.close(&run.id, RunEnd::Finished).await;
    let back = RunMeta { rolls_back: vec![run.id], ..meta() };
    cluster.open(&back).await.unwrap();
    done(&cluster, &back, &plan_to(&cluster, &id, Some(before)).await).await;
    cluster.close(&back.id, RunEnd::Finished).await;
    let live = api.get(&["-n", "theirs", "configmap", "x"]).unwrap();
    assert_eq!(live["data"], json!({"a": "1", "b": "1"}));
    let live = api.kubectl(&["-n", "theirs", "get", "configmap", "x", "-o", "json", "--show-managed-fields"]);
    let live: Value = serde_json::from_str(&live.unwrap().stdout).unwrap();
    let path = [Segment::Key("data".into()), Segment::Key("a".into())];
    assert!(converge_objects::k8s::owners::owners(&live, &path).iter().all(|m| m == "tuner"), "{live:#}");
    let other = configmap("theirs", "x", json!({"a": "3"})).to_string();
    let refused =
        api.kubectl_with_input(&["apply", "--server-side", "--field-manager=new", "-f", "-"], &other);
    let reply = format!("{refused:?}");
    assert!(reply.contains("tuner") && !reply.contains("\\\"converge\\\""), "{reply}");
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
        cluster.close(&run.id, RunEnd::Finished).await;
        run.id
    };
    let (one, two) = (json!({"v": "1", "dropped": "x"}), json!({"v": "2"}));
    let map = |data: &Value| configmap("again", "x", data.clone());
    let id = object(&map(&one));
    apply(&map(&one)).await;
    let before = look(&cluster, &id).await.1.unwrap();
    let changed = apply(&map(&two)).await;
    let back = async |of: &str| {
        let run = RunMeta { rolls_back: vec![of.to_owned()], ..meta() };
        cluster.open(&run).await.unwrap();
        done(&cluster, &run, &plan_to(&cluster, &id, Some(before.clone())).await).await;
        cluster.close(&run.id, RunEnd::Finished).await;
    };
    back(&changed).await;
    let data = || api.get(&["-n", "again", "configmap", "x"]).unwrap()["data"].clone();
    assert_eq!(data(), one);
    let changed = apply(&map(&two)).await;
    assert_eq!(data(), two, "what the role leaves out goes again");
    // The same after an object that was gone: a user's field stays.
    back(&changed).await;
    api.kubectl(&["-n", "again", "label", "configmap", "x", "theirs=1"]).unwrap();
    let run = meta();
    cluster.open(&run).await.unwrap();
    let mut away = plan_to(&cluster, &id, None).await;
    away.allow_destroy = vec![id.key.clone()];
    let gone = look(&cluster, &id).await.1.unwrap();
    done(&cluster, &run, &away).await;
    cluster.close(&run.id, RunEnd::Finished).await;
    let run = RunMeta { rolls_back: vec![run.id], ..meta() };
    cluster.open(&run).await.unwrap();
    done(&cluster, &run, &plan_to(&cluster, &id, Some(gone)).await).await;
    cluster.close(&run.id, RunEnd::Finished).await;
    apply(&map(&json!({"v": "3"}))).await;
    assert_eq!(data(), json!({"v": "3"}), "what the role had applied and leaves out goes");
    let labels = api.get(&["-n", "again", "configmap", "x"]).unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"theirs": "1"}));
}

/// A project by its name, with a connection of its own.
async fn project(api: &'static LocalApi, name: &str) -> (Cluster, RunMeta) {
    let scope = ProjectName { playbook: format!("{name}:play"), inventory: format!("{name}:inv") };
    let options = ClusterOptions { scope: scope.clone(), project: Some(name.to_owned()), ..options() };
    (connect_with(api, options).await, RunMeta { scope, ..meta() })
}

async fn apply(cluster: &Cluster, run: &RunMeta, manifest: &Value) {
    let run = RunMeta { id: meta().id, ..run.clone() };
    assert!(cluster.open(&run).await.is_ok(), "the run does not begin");
    done(cluster, &run, &plan_apply(cluster, manifest, false).await).await;
    cluster.close(&run.id, RunEnd::Finished).await;
}

/// Two projects declare different fields of one object: each drops and keeps its own alone. A field of both is a conflict.
#[tokio::test(flavor = "multi_thread")]
async fn two_projects_declare_different_fields_of_one_object() {
    let _alone = alone().await;
    let (api, _) = fresh("shared").await;
    let map = |data: Value| configmap("shared", "x", data);
    api.kubectl_with_input(&["create", "-f", "-"], &map(json!({"theirs": "1"})).to_string()).unwrap();
    let ((one, of_one), (two, of_two)) = (project(api, "one").await, project(api, "two").await);
    let data = || api.get(&["-n", "shared", "configmap", "x"]).unwrap()["data"].clone();
    apply(&one, &of_one, &map(json!({"one": "1", "more": "1"}))).await;
    apply(&two, &of_two, &map(json!({"two": "1"}))).await;
    assert_eq!(data(), json!({"theirs": "1", "one": "1", "more": "1", "two": "1"}));
    apply(&one, &of_one, &map(json!({"one": "2"}))).await;
    assert_eq!(
        data(),
        json!({"theirs": "1", "one": "2", "two": "1"}),
        "what it has dropped goes, and no more"
    );
    let conflict = dry_run(&two, &map(json!({"two": "1", "one": "3"})), false).await;
    assert_eq!(
        conflict["conflicts"],
        json!([{"manager": "converge-one", "field": ".data.one"}]),
        "{conflict}"
    );
    assert_eq!(conflict["manager"], "converge-two", "{conflict}");
}

/// Before projects had managers of their own, all of them applied under one name. The project whose run applied an object last goes on under its own name: without
/// a conflict, and what it drops goes.
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_earlier_versions_are_taken_over() {
    let _alone = alone().await;
    let (api, old) = fresh("earlier").await;
    let ((one, of_one), (two, of_two)) = (project(api, "one").await, project(api, "two").await);
    let map = |name: &str, data: Value| configmap("earlier", name, data);
    let data = |name: &str| api.get(&["-n", "earlier", "configmap", name]).unwrap()["data"].clone();
    // By the project under its name, and before it had one.
    for (name, scope) in [("named", of_one.scope.clone()), ("unnamed", meta().scope)] {
        let earlier = RunMeta { scope, ..meta() };
        apply(&old, &earlier, &map(name, json!({"v": "1", "dropped": "x"}))).await;
    }
    let refused = dry_run(&two, &map("named", json!({"v": "2"})), false).await;
    assert_eq!(refused["conflicts"][0]["manager"], "converge", "{refused}");
    for name in ["named", "unnamed"] {
        apply(&one, &of_one, &map(name, json!({"v": "2"}))).await;
        assert_eq!(data(name), json!({"v": "2"}));
        let live =
            api.kubectl(&["-n", "earlier", "get", "configmap", name, "-o", "json", "--show-managed-fields"]);
        let live = live.unwrap().stdout;
        assert!(live.contains("\"converge-one\"") && !live.contains("\"converge\""), "{live}");
        apply(&two, &of_two, &map(name, json!({"two": "1"}))).await;
        apply(&one, &of_one, &map(name, json!({"w": "1"}))).await;
        assert_eq!(data(name), json!({"two": "1", "w": "1"}));
    }
}

/// `metadata.managedFields` by manager and operation, with the names of the values that each owns.
fn owners(api: &LocalApi, namespace: &str, name: &str) -> Vec<(String, Vec<String>)> {
    let live =
        api.kubectl(&["-n", namespace, "get", "configmap", name, "-o", "json", "--show-managed-fields"]);
    let live: Value = serde_json::from_str(&live.unwrap().stdout).unwrap();
    let entry = |e: &Value| {
        let fields = e["fieldsV1"]["f:data"].as_object().into_iter().flatten();
        let keys = fields.filter_map(|(key, _)| Some(key.strip_prefix("f:")?.to_owned())).collect();
        (format!("{} {}", e["manager"].as_str().unwrap(), e["operation"].as_str().unwrap()), keys)
    };
    let mut all: Vec<_> =
        live["metadata"]["managedFields"].as_array().into_iter().flatten().map(entry).collect();
    all.sort();
    all
}

fn owns(manager: &str, keys: &[&str]) -> (String, Vec<String>) {
    (manager.to_owned(), keys.iter().map(|key| (*key).to_owned()).collect())
}

/// A field that a project has owned for a while only is not its own after a rollback, and a field that it took is the other project's again.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_leaves_the_owners_that_it_found() {
    let _alone = alone().await;
    let (api, _) = fresh("given").await;
    let map = |data: Value| configmap("given", "x", data);
    let id = object(&map(json!({})));
    let ((one, of_one), (two, of_two)) = (project(api, "one").await, project(api, "two").await);
    apply(&one, &of_one, &map(json!({"x": "1", "a": "1"}))).await;
    let first = owners(api, "given", "x");
    assert_eq!(first, [owns("converge-one Apply", &["a", "x"])]);
    for data in [json!({"x": "1", "b": "1"}), json!({"x": "2", "b": "1"})] {
        let before = look(&two, &id).await.1.unwrap();
        let run = RunMeta { id: meta().id, ..of_two.clone() };
        two.open(&run).await.unwrap();
        done(&two, &run, &plan_apply(&two, &map(data.clone()), true).await).await;
        two.close(&run.id, RunEnd::Finished).await;
        assert!(owners(api, "given", "x").contains(&owns("converge-two Apply", &["b", "x"])));
        // By a rollback, and by a prune.
        let back = RunMeta { id: meta().id, rolls_back: vec![run.id.clone()], ..of_two.clone() };
        two.open(&back).await.unwrap();
        done(&two, &back, &plan_to(&two, &id, Some(before.clone())).await).await;
        two.close(&back.id, RunEnd::Finished).await;
        assert_eq!(owners(api, "given", "x"), first, "{data}");
        let run = RunMeta { id: meta().id, ..of_two.clone() };
        two.open(&run).await.unwrap();
        done(&two, &run, &plan_apply(&two, &map(data.clone()), true).await).await;
        two.close(&run.id, RunEnd::Finished).await;
        let prune = RunMeta { id: meta().id, ..of_two.clone() };
        two.open(&prune).await.unwrap();
        done(&two, &prune, &plan_to(&two, &id, Some(before)).await).await;
        two.close(&prune.id, RunEnd::Finished).await;
        assert_eq!(owners(api, "given", "x"), first, "{data}");
    }
    apply(&one, &of_one, &map(json!({"x": "3"}))).await;
    assert_eq!(api.get(&["-n", "given", "configmap", "x"]).unwrap()["data"], json!({"x": "3"}));
}

/// The rollback of a prune brings the fields back as the project's own: its next apply takes away what it leaves out.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_back_after_a_prune_is_the_projects_own() {
    let _alone = alone().await;
    let (api, cluster) = fresh("pruned").await;
    let map = |data: Value| configmap("pruned", "x", data);
    let id = object(&map(json!({})));
    api.kubectl_with_input(&["create", "-f", "-"], &map(json!({"f": "0"})).to_string()).unwrap();
    let bare = look(&cluster, &id).await.1.unwrap();
    apply(&cluster, &meta(), &map(json!({"w": "3"}))).await;
    let with = look(&cluster, &id).await.1.unwrap();
    let prune = meta();
    cluster.open(&prune).await.unwrap();
    done(&cluster, &prune, &plan_to(&cluster, &id, Some(bare)).await).await;
    cluster.close(&prune.id, RunEnd::Finished).await;
    assert_eq!(owners(api, "pruned", "x"), [owns("kubectl-create Update", &["f"])]);
    let back = RunMeta { rolls_back: vec![prune.id], ..meta() };
    cluster.open(&back).await.unwrap();
    done(&cluster, &back, &plan_to(&cluster, &id, Some(with)).await).await;
    cluster.close(&back.id, RunEnd::Finished).await;
    let own = [owns("converge Apply", &["w"]), owns("kubectl-create Update", &["f"])];
    assert_eq!(owners(api, "pruned", "x"), own);
    apply(&cluster, &meta(), &map(json!({"v": "3"}))).await;
    assert_eq!(api.get(&["-n", "pruned", "configmap", "x"]).unwrap()["data"], json!({"f": "0", "v": "3"}));
}
