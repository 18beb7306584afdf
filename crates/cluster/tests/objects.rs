//! Objects of a real API server: seen, planned, changed, saved, restored.

mod common;

use common::*;
use converge_cluster::{ClusterOptions, NAMESPACE, WorkEnd};
use converge_executor::{Executor as _, RunEnd, RunMeta, TargetError};
use converge_ledger::SavedOutcome;
use converge_resource::{Answer, ApiProbe, ApiRef, Digest, ObjectId, Probe, State};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_each_for_itself() {
    let (api, cluster) = fresh("asked").await;
    for n in 0..6 {
        api.apply(&configmap("asked", &format!("c{n}"), json!({"n": n.to_string()})).to_string()).unwrap();
    }
    let key = |key: &str| Probe::Object(ObjectId::new("k8s", key));
    let mut probes: BTreeSet<Probe> = (0..7).map(|n| key(&format!("v1/ConfigMap/asked/c{n}"))).collect();
    probes.extend([
        key("v1/Namespace/asked"),
        key("nvidia.com/v1/ClusterPolicy/cluster-policy"),
        key("v1/ConfigMap/nowhere/x"),
        key("v1/ConfigMap/no-namespace"),
        key("v1/Node/asked/x"),
        Probe::run("true"),
    ]);
    let present = cluster.answers_to(&probes).await;
    assert_eq!(present.answers.len(), probes.len());
    let answer = |wanted: &str| {
        let found = present.answers.iter().find(|(p, _)| matches!(p, Probe::Object(id) if id.key == wanted));
        found.map(|(_, answer)| answer.clone()).unwrap()
    };
    for n in 0..6 {
        let Answer::Object(observed) = answer(&format!("v1/ConfigMap/asked/c{n}")) else { panic!("{n}") };
        let words = observed.state.words().unwrap();
        assert!(present.contents.iter().any(|c| c.digest().as_str() == words[1]), "{n}");
        assert!(observed.moment.unwrap() > 1_700_000_000);
    }
    for absent in
        ["v1/ConfigMap/asked/c6", "nvidia.com/v1/ClusterPolicy/cluster-policy", "v1/ConfigMap/nowhere/x"]
    {
        let Answer::Object(observed) = answer(absent) else { panic!("{absent}") };
        assert!(observed.state.is_absent(), "{absent}");
    }
    assert!(
        matches!(answer("v1/ConfigMap/no-namespace"), Answer::Failed(why) if why.contains("name a namespace"))
    );
    assert!(matches!(answer("v1/Node/asked/x"), Answer::Failed(why) if why.contains("cluster-wide")));
    // By list and one by one the same states.
    for n in 0..6 {
        let key = format!("v1/ConfigMap/asked/c{n}");
        let one = look(&cluster, &ObjectId::new("k8s", key.clone())).await.0;
        assert!(matches!(answer(&key), Answer::Object(observed) if observed.state == one), "{key}");
    }
    let list = |labels: Option<&str>, kind: &str, version: &str| ApiProbe::List {
        api_version: version.to_owned(),
        kind: kind.to_owned(),
        namespace: Some("asked".to_owned()),
        labels: labels.map(str::to_owned),
    };
    let all = common::api(&cluster, list(None, "ConfigMap", "v1")).await;
    let named = |v: &Value| v["kind"] == "ConfigMap" && v["apiVersion"] == "v1";
    assert!(all.as_array().unwrap().iter().filter(|v| named(v)).count() >= 6, "{all}");
    assert_eq!(common::api(&cluster, list(Some("a in (b)"), "ConfigMap", "v1")).await, json!([]));
    assert_eq!(common::api(&cluster, list(None, "ClusterPolicy", "nvidia.com/v1")).await, Value::Null);
    let get = |key: &str| ApiProbe::Get(ApiRef::from_key(key).unwrap());
    assert_eq!(common::api(&cluster, get("v1/ConfigMap/asked/c1")).await["data"]["n"], "1");
    assert_eq!(common::api(&cluster, get("v1/ConfigMap/asked/c9")).await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_tells_what_would_be_and_changes_nothing() {
    let (api, cluster) = fresh("dry").await;
    let manifest = configmap("dry", "x", json!({"a": "1"}));
    assert_eq!(dry_run(&cluster, &manifest, false).await["object"]["data"]["a"], "1");
    assert!(look(&cluster, &object(&manifest)).await.0.is_absent());
    let nowhere = configmap("not-there", "x", json!({}));
    assert_eq!(dry_run(&cluster, &nowhere, false).await, json!({"no_namespace": "not-there"}));
    let mut policy =
        json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "x"}});
    assert_eq!(dry_run(&cluster, &policy, false).await, json!({"no_kind": "nvidia.com/v1 ClusterPolicy"}));
    policy["apiVersion"] = json!("v1");
    assert!(dry_run(&cluster, &policy, false).await.get("no_kind").is_some());
    let bad = configmap("dry", "Bad_Name", json!({}));
    assert!(dry_run(&cluster, &bad, false).await["invalid"].as_str().unwrap().contains("Invalid value"));
    let typo = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "dry"}, "dta": {}});
    assert!(dry_run(&cluster, &typo, false).await["invalid"].as_str().unwrap().contains("dta"));
    api.apply(&manifest.to_string()).unwrap();
    let own = configmap("dry", "x", json!({"a": "2"}));
    let conflict = dry_run(&cluster, &own, false).await;
    assert_eq!(conflict["conflicts"][0]["field"], ".data.a", "{conflict}");
    assert_eq!(conflict["conflicts"][0]["manager"], "lab", "{conflict}");
    assert_eq!(dry_run(&cluster, &own, true).await["object"]["data"]["a"], "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_made_changed_and_taken_away_and_all_of_it_is_recorded() {
    let _alone = alone().await;
    let (api, cluster) = fresh("made").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let one = configmap("made", "x", json!({"a": "1", "b": "1"}));
    let id = object(&one);
    done(&cluster, &run, &plan_apply(&cluster, &one, false).await).await;
    let (made, first) = look(&cluster, &id).await;
    // A user adds a field of his own: it stays.
    api.kubectl(&["-n", "made", "label", "configmap", "x", "theirs=1"]).unwrap();
    let two = configmap("made", "x", json!({"a": "2"}));
    let worked = done(&cluster, &run, &plan_apply(&cluster, &two, false).await).await;
    let live = api.get(&["-n", "made", "configmap", "x"]).unwrap();
    assert_eq!((&live["data"], &live["metadata"]["labels"]), (&json!({"a": "2"}), &json!({"theirs": "1"})));
    assert_eq!(worked.after[0].1, look(&cluster, &id).await.0);
    let owned = cluster.owned().await.unwrap();
    let mine = owned.things.iter().find(|t| t.object == id).unwrap();
    assert_eq!(
        (&mine.before, mine.roles.as_slice(), &mine.left),
        (&State::absent(), &["role".to_owned()][..], &worked.after[0].1)
    );
    assert_eq!(owned.cut_off.map(|r| r.id), Some(run.id.clone()), "it is still at work");
    assert!(owned.busy);
    cluster.close(&run.id, RunEnd::Finished).await;
    let records = cluster.records().await.unwrap().runs;
    let record = records.iter().find(|r| r.id == run.id).unwrap();
    assert!(record.finished && record.operator == "tester@here" && record.playbook == "play");
    let outcomes: Vec<_> = record.changes.iter().map(|c| (&c.object, c.outcome)).collect();
    assert_eq!(outcomes, [(&id, SavedOutcome::Done), (&id, SavedOutcome::Done)]);
    assert_eq!((&record.changes[0].before, &record.changes[0].after), (&State::absent(), &made));

    // Back to the first content, from what the record holds.
    let change = &record.changes[1];
    let wanted = [&change.before, &change.after].map(|s| Digest::from_hex(&s.words().unwrap()[1]).unwrap());
    let mut saved = cluster.contents(&wanted.iter().cloned().collect()).await.unwrap().found;
    assert_eq!(saved.len(), 2, "a rollback needs both sides");
    let before = saved.remove(&wanted[0]).unwrap();
    assert_ne!(Some(&before), first.as_ref(), "the label was put there since");
    let back = meta();
    cluster.open(&back).await.unwrap();
    done(&cluster, &back, &plan_to(&cluster, &id, Some(before)).await).await;
    assert_eq!(api.get(&["-n", "made", "configmap", "x"]).unwrap()["data"], json!({"a": "1", "b": "1"}));
    // It has a field of another client: not without leave.
    let mut gone = plan_to(&cluster, &id, None).await;
    let refused = work(&cluster, &back, &gone).await.end;
    assert!(
        matches!(&refused, WorkEnd::Refused(why) if why.contains("belong to kubectl-label") && why.contains("--allow-destroy k8s:v1/ConfigMap/made/x")),
        "{refused:?}"
    );
    gone.allow_destroy = vec![id.to_string()];
    done(&cluster, &back, &gone).await;
    assert!(look(&cluster, &id).await.0.is_absent());
    assert!(!cluster.owned().await.unwrap().things.iter().any(|t| t.object == id), "it was given back");
    // And again, from the save of what was taken away.
    let records = cluster.records().await.unwrap().runs;
    let taken = records.last().unwrap().changes.last().unwrap().before.words().unwrap()[1].clone();
    let digest = Digest::from_hex(&taken).unwrap();
    let content = cluster.contents(&BTreeSet::from([digest.clone()])).await.unwrap().found.remove(&digest);
    done(&cluster, &back, &plan_to(&cluster, &id, content).await).await;
    assert_eq!(api.get(&["-n", "made", "configmap", "x"]).unwrap()["data"], json!({"a": "1", "b": "1"}));
    cluster.close(&back.id, RunEnd::Finished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_has_changed_since_the_plan_is_left_alone() {
    let _alone = alone().await;
    let (api, cluster) = fresh("foreign").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let one = configmap("foreign", "x", json!({"a": "1"}));
    done(&cluster, &run, &plan_apply(&cluster, &one, false).await).await;
    let planned = plan_apply(&cluster, &configmap("foreign", "x", json!({"a": "2"})), true).await;
    // Another field may move.
    api.kubectl(&["-n", "foreign", "annotate", "configmap", "x", "note=1"]).unwrap();
    let patch = |data: &str| {
        let patch = format!("{{\"data\": {data}}}");
        api.kubectl(&["-n", "foreign", "patch", "configmap", "x", "--type=merge", "-p", &patch]).unwrap();
    };
    patch("{\"a\": \"theirs\"}");
    let refused = work(&cluster, &run, &planned).await;
    let WorkEnd::Refused(why) = &refused.end else { panic!("{refused:?}") };
    assert!(why.contains(".data.a (planned against \"1\", found \"theirs\")"), "{why}");
    assert_eq!(api.get(&["-n", "foreign", "configmap", "x"]).unwrap()["data"]["a"], "theirs");
    patch("{\"a\": \"1\"}");
    done(&cluster, &run, &planned).await;
    let live = api.get(&["-n", "foreign", "configmap", "x"]).unwrap();
    assert_eq!((&live["data"]["a"], &live["metadata"]["annotations"]["note"]), (&json!("2"), &json!("1")));
    // Made meanwhile, and gone meanwhile.
    let made = plan_apply(&cluster, &configmap("foreign", "y", json!({})), false).await;
    api.kubectl(&["-n", "foreign", "create", "configmap", "y"]).unwrap();
    assert!(
        matches!(work(&cluster, &run, &made).await.end, WorkEnd::Refused(why) if why.contains("is there now"))
    );
    let gone = plan_apply(&cluster, &configmap("foreign", "x", json!({"a": "3"})), false).await;
    api.kubectl(&["-n", "foreign", "delete", "configmap", "x"]).unwrap();
    assert!(
        matches!(work(&cluster, &run, &gone).await.end, WorkEnd::Refused(why) if why.contains("is gone"))
    );
    let conflict = plan_apply(&cluster, &configmap("foreign", "z", json!({"a": "1"})), false).await;
    let mut conflict = conflict;
    api.apply(&configmap("foreign", "z", json!({"a": "0"})).to_string()).unwrap();
    conflict.changes[0].from = look(&cluster, &object(&configmap("foreign", "z", json!({})))).await.0;
    let content = look(&cluster, &conflict.changes[0].object).await.1.unwrap();
    conflict.contents.insert(content.digest().clone(), content);
    let refused = work(&cluster, &run, &conflict).await.end;
    assert!(
        matches!(&refused, WorkEnd::Refused(why) if why.contains(".data.a belongs to lab")),
        "{refused:?}"
    );
    cluster.close(&run.id, RunEnd::Failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_field_of_an_object_of_others_is_changed_and_set_back() {
    let _alone = alone().await;
    let (api, cluster) = fresh("field").await;
    let manifest = r#"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: field}, spec: {replicas: 0,
        selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [
        {name: one, image: "x:1", env: [{name: A, value: "1"}]}, {name: two, image: "y:1"}]}}}}"#;
    api.apply(manifest).unwrap();
    let id = ObjectId::new("k8s", "apps/v1/Deployment/field/d");
    let (_, before) = look(&cluster, &id).await;
    let before = before.unwrap();
    let after = edited(&before, |d| {
        d["spec"]["template"]["spec"]["containers"][1]["image"] = json!("y:2");
        d["metadata"]["labels"] = json!({"ours": "1"});
    });
    let run = meta();
    cluster.open(&run).await.unwrap();
    let planned = plan_to(&cluster, &id, Some(after.clone())).await;
    api.kubectl(&["-n", "field", "set", "env", "deployment/d", "-c", "one", "A=2"]).unwrap();
    api.kubectl(&["-n", "field", "label", "deployment", "d", "theirs=1"]).unwrap();
    done(&cluster, &run, &planned).await;
    let live = api.get(&["-n", "field", "deployment", "d"]).unwrap();
    let containers = &live["spec"]["template"]["spec"]["containers"];
    assert_eq!((&containers[1]["image"], &containers[0]["env"][0]["value"]), (&json!("y:2"), &json!("2")));
    assert_eq!(live["metadata"]["labels"], json!({"ours": "1", "theirs": "1"}));
    // Back, though the rest has moved.
    let mut back = planned.clone();
    let change = &mut back.changes[0];
    std::mem::swap(&mut change.from, &mut change.to);
    done(&cluster, &run, &back).await;
    let live = api.get(&["-n", "field", "deployment", "d"]).unwrap();
    assert_eq!(live["spec"]["template"]["spec"]["containers"][1]["image"], "y:1");
    assert_eq!(live["metadata"]["labels"], json!({"theirs": "1"}));
    cluster.close(&run.id, RunEnd::Finished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_secrets_are_saved_only_for_the_recipients() {
    use secrecy::ExposeSecret as _;
    let _alone = alone().await;
    let (api, plain) = fresh("secrets").await;
    let identity = age::x25519::Identity::generate();
    let options = ClusterOptions {
        recipients: vec![identity.to_public().to_string()],
        identities: vec![identity.to_string().expose_secret().to_owned().into()],
        ..options()
    };
    let sealing = connect_with(api, options).await;
    let secret = |name: &str, value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "secrets"}, "stringData": {"token": value}});
    for (cluster, name) in [(&plain, "plain"), (&sealing, "sealed")] {
        let run = meta();
        cluster.open(&run).await.unwrap();
        let id = object(&secret(name, ""));
        done(cluster, &run, &plan_apply(cluster, &secret(name, "first-value"), false).await).await;
        let first = look(cluster, &id).await.1.unwrap();
        done(cluster, &run, &plan_apply(cluster, &secret(name, "second-value"), false).await).await;
        let second = look(cluster, &id).await.1.unwrap();
        assert!(!first.text().unwrap().contains("Zmlyc3Q"), "a value is in the content");
        let back = work(cluster, &run, &plan_to(cluster, &id, Some(first)).await).await;
        let gone = work(cluster, &run, &plan_to(cluster, &id, None).await).await;
        assert_eq!(gone.end, WorkEnd::Done);
        let again = work(cluster, &run, &plan_to(cluster, &id, Some(second)).await).await;
        cluster.close(&run.id, RunEnd::Finished).await;
        let records = cluster.records().await.unwrap().runs;
        let no_snapshot: Vec<bool> =
            records.last().unwrap().changes.iter().map(|c| c.no_snapshot.is_some()).collect();
        if name == "sealed" {
            assert_eq!(back.end, WorkEnd::Done);
            let WorkEnd::Refused(why) = &again.end else {
                assert_eq!(again.end, WorkEnd::Done);
                continue;
            };
            panic!("{why}");
        }
        assert!(matches!(&back.end, WorkEnd::Refused(why) if why.contains("not saved")), "{back:?}");
        assert!(matches!(&again.end, WorkEnd::Refused(why) if why.contains("not saved")), "{again:?}");
        assert_eq!(no_snapshot, [false, true, true]);
    }
    let live = api.get(&["-n", "secrets", "secret", "sealed"]).unwrap();
    assert_eq!(live["data"]["token"], "c2Vjb25kLXZhbHVl");
    let all = api.kubectl(&["-n", NAMESPACE, "get", "secrets", "-o", "json"]).unwrap().stdout;
    assert!(!all.contains("first-value") && all.contains("converge/contents"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_run_at_a_time_and_an_expired_lock_is_taken_over() {
    let _alone = alone().await;
    let (api, cluster) = fresh("locked").await;
    let first = meta();
    cluster.open(&first).await.unwrap();
    let other = connect(api).await;
    let refused = other.open(&meta()).await;
    assert!(
        matches!(&refused, Err(TargetError::Locked(why)) if why.contains(&first.id) && why.contains("tester@here")),
        "{refused:?}"
    );
    // Its process is gone a moment after a renewal: nobody renews, and the end of the Lease is waited for.
    drop(cluster);
    let patch = |spec: Value| {
        let spec = json!({"spec": spec}).to_string();
        api.kubectl(&["-n", NAMESPACE, "patch", "lease", "converge", "--type=merge", "-p", &spec]).unwrap();
    };
    let ago = |seconds: i64| {
        let then = jiff::Timestamp::now().checked_sub(jiff::SignedDuration::from_secs(seconds)).unwrap();
        patch(json!({"renewTime": then.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()}));
    };
    ago(2);
    patch(json!({"leaseDurationSeconds": 8}));
    let waiting = meta();
    let start = std::time::Instant::now();
    other.open(&waiting).await.unwrap();
    assert!(start.elapsed() > Duration::from_secs(2), "it was nobody's at once");
    other.close(&waiting.id, RunEnd::Finished).await;
    let cluster = connect(api).await;
    let first = meta();
    cluster.open(&first).await.unwrap();
    drop(cluster);
    ago(3600);
    let second = meta();
    let owned = other.owned().await.unwrap();
    assert_eq!((owned.cut_off.map(|r| r.id), owned.busy), (Some(first.id.clone()), false));
    other.open(&second).await.unwrap();
    other.close(&second.id, RunEnd::Finished).await;
    let third = meta();
    other.open(&third).await.unwrap();
    other.close(&third.id, RunEnd::Finished).await;
    let records = other.records().await.unwrap();
    let find = |id: &str| records.runs.iter().find(|r| r.id == id).map(|r| r.finished);
    assert_eq!((find(&first.id), find(&second.id), find(&third.id)), (Some(false), Some(true), Some(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_is_done_when_its_kind_can_be_used_and_what_holds_more_is_not_taken_lightly() {
    let _alone = alone().await;
    let (_, cluster) = fresh("defined").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.example"}, "spec": {"group": "test.example", "scope": "Cluster",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}}}}}]}});
    done(&cluster, &run, &plan_apply(&cluster, &definition, false).await).await;
    let thing =
        json!({"apiVersion": "test.example/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {}});
    let planned = plan_apply(&cluster, &thing, false).await;
    let worked = done(&cluster, &run, &planned).await;
    assert!(worked.contents[0].text().unwrap().contains("size: 3"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "held"}});
    done(&cluster, &run, &plan_apply(&cluster, &namespace, false).await).await;
    for manifest in [&definition, &namespace] {
        let gone = plan_to(&cluster, &object(manifest), None).await;
        let end = work(&cluster, &run, &gone).await.end;
        assert!(matches!(&end, WorkEnd::Refused(why) if why.contains("would be removed with it")), "{end:?}");
    }
    let mut gone = plan_to(&cluster, &object(&definition), None).await;
    gone.allow_destroy =
        vec!["apiextensions.k8s.io/v1/CustomResourceDefinition/things.test.example".to_owned()];
    done(&cluster, &run, &gone).await;
    assert!(look(&cluster, &object(&thing)).await.0.is_absent());
    cluster.close(&run.id, RunEnd::Finished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_states_fill_several_records_and_old_runs_are_dropped() {
    let _alone = alone().await;
    let (api, cluster) = fresh("large").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    // Digits of a simple generator: gzip makes them half as large at most.
    let mut seed = 7_u64;
    let mut noise = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{seed:016x}")
    };
    let mut firsts = Vec::new();
    for n in 0..4 {
        let text: String = (0..45_000).map(|_| noise()).collect();
        let map = configmap("large", &format!("c{n}"), json!({"text": text}));
        done(&cluster, &run, &plan_apply(&cluster, &map, false).await).await;
        firsts.push(look(&cluster, &object(&map)).await.1.unwrap());
        done(&cluster, &run, &plan_to(&cluster, &object(&map), None).await).await;
    }
    cluster.close(&run.id, RunEnd::Finished).await;
    let named = format!("converge/run={}", run.id);
    let list =
        || api.kubectl(&["-n", NAMESPACE, "get", "secrets", "-l", &named, "-o", "name"]).unwrap().stdout;
    assert!(list().lines().count() >= 3, "{}", list());
    let wanted: BTreeSet<Digest> = firsts.iter().map(|c| c.digest().clone()).collect();
    assert_eq!(cluster.contents(&wanted).await.unwrap().found.len(), 4);
    let empty = async |next: RunMeta| {
        cluster.open(&next).await.unwrap();
        cluster.close(&next.id, RunEnd::Finished).await;
        cluster.records().await.unwrap().runs
    };
    // A rollback can be repeated: the run that it set out for stays until another one comes.
    for _ in 0..11 {
        let records = empty(RunMeta { rolls_back: vec![run.id.clone()], ..meta() }).await;
        assert!(records.iter().any(|r| r.id == run.id), "{}", records.len());
    }
    // It goes with its rollbacks, when there are ten newer runs.
    for _ in 0..11 {
        empty(meta()).await;
    }
    let records = empty(meta()).await;
    assert!(records.len() <= 12 && !records.iter().any(|r| r.id == run.id), "{}", records.len());
    assert_eq!(list(), "", "what it kept is gone too");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_object_of_the_same_name_is_not_ours_and_what_has_an_owner_goes_with_it() {
    let _alone = alone().await;
    let (api, cluster) = fresh("twins").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let map = configmap("twins", "x", json!({"a": "1"}));
    done(&cluster, &run, &plan_apply(&cluster, &map, false).await).await;
    api.kubectl(&["-n", "twins", "delete", "configmap", "x"]).unwrap();
    api.kubectl_with_input(
        &["apply", "--server-side", "--field-manager=converge", "-f", "-"],
        &map.to_string(),
    )
    .unwrap();
    let end = work(&cluster, &run, &plan_to(&cluster, &object(&map), None).await).await.end;
    assert!(
        matches!(&end, WorkEnd::Refused(why) if why.contains("not the object that converge created")),
        "{end:?}"
    );
    let owner = api.get(&["namespace", "twins"]).unwrap()["metadata"]["uid"].clone();
    let owned = configmap("twins", "y", json!({}));
    done(&cluster, &run, &plan_apply(&cluster, &owned, false).await).await;
    // Somebody else gives it an owner.
    let given = json!({"metadata": {"ownerReferences":
        [{"apiVersion": "v1", "kind": "Namespace", "name": "twins", "uid": owner}]}});
    api.kubectl(&["-n", "twins", "patch", "configmap", "y", "--type=merge", "-p", &given.to_string()])
        .unwrap();
    let end = work(&cluster, &run, &plan_to(&cluster, &object(&owned), None).await).await.end;
    assert!(matches!(&end, WorkEnd::Refused(why) if why.contains("belongs to namespace twins")), "{end:?}");
    cluster.close(&run.id, RunEnd::Finished).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_lock_was_taken_over_changes_nothing_more() {
    let _alone = alone().await;
    let (api, cluster) = fresh("taken").await;
    let run = meta();
    cluster.open(&run).await.unwrap();
    let map = configmap("taken", "x", json!({"a": "1"}));
    let planned = plan_apply(&cluster, &map, false).await;
    let patch = r#"{"spec":{"holderIdentity":"another-run"}}"#;
    api.kubectl(&["-n", NAMESPACE, "patch", "lease", "converge", "--type=merge", "-p", patch]).unwrap();
    // The next renewal finds it.
    tokio::time::sleep(Duration::from_secs(17)).await;
    let end = work(&cluster, &run, &planned).await.end;
    assert!(
        matches!(&end, WorkEnd::Refused(why) if why.contains("has taken over the lock of the cluster")),
        "{end:?}"
    );
    assert!(look(&cluster, &object(&map)).await.0.is_absent());
    cluster.close(&run.id, RunEnd::Failed).await;
    let lease = api.get(&["-n", NAMESPACE, "lease", "converge"]).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "another-run", "it is not ours to give back");
    api.kubectl(&["-n", NAMESPACE, "delete", "lease", "converge"]).unwrap();
}
