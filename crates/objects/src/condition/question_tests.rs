//! Conditions that hold and conditions that do not.

use super::*;
use serde_json::json;

fn wait(what: Expectation) -> TimedCondition {
    let wait = TimedCondition { what, seconds: 60 };
    assert_eq!(TimedCondition::from_key(&wait.key()), Some(wait.clone()), "a key is read as it is written");
    wait
}

fn why(wait: &TimedCondition, answers: &[Value]) -> String {
    match wait.judge(answers) {
        ConditionVerdict::Met => "met".to_owned(),
        ConditionVerdict::Open(why) => why,
    }
}

fn node(name: &str, status: &str, count: &str, allocatable: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"nvidia.com/gpu.count": count}},
        "status": {"conditions": [{"type": "Ready", "status": status}],
            "capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": allocatable}}})
}

fn pick(name: &str) -> Pick {
    Pick::Named(vec![ApiRef::from_key(name).unwrap()])
}

/// Shares may have a name of their own, and then there is nothing of the other name, or none of it is left.
#[test]
fn one_of_several_names_is_enough() {
    let mut node = node("a", "True", "8", "0");
    node["status"]["allocatable"]["nvidia.com/gpu.shared"] = json!("32");
    let amount = Amount { label: Some("nvidia.com/gpu.count".to_owned()), times: 4, or_more: false };
    let offers = |or: Vec<String>| {
        let (resource, amount) = ("nvidia.com/gpu".to_owned(), amount.clone());
        wait(Expectation::Allocatable { resource, or, nodes: None, amount, none_is_fine: false })
    };
    let shared = || vec!["nvidia.com/gpu.shared".to_owned()];
    let list = [json!([node])];
    assert_eq!(why(&offers(shared()), &list), "met");
    assert!(why(&offers(Vec::new()), &list).contains("allocatable nvidia.com/gpu is 0"));
    let field = |or: Vec<String>| {
        let (of, path) = (pick("v1/Node/a"), "/status/allocatable/nvidia.com~1gpu".to_owned());
        let test = Test::AtLeast(1);
        wait(Expectation::Field { of, path, or, test, none_is_fine: false, ready_nodes_only: true })
    };
    let one = [list[0][0].clone()];
    assert_eq!(why(&field(vec!["/status/allocatable/nvidia.com~1gpu.shared".to_owned()]), &one), "met");
    assert!(why(&field(vec!["/status/allocatable/x".to_owned()]), &one).contains("is not there"));
}

#[test]
fn every_ready_node_offers_what_its_label_says() {
    let label = Some("nvidia.com/gpu.count".to_owned());
    let what = Expectation::Allocatable {
        resource: "nvidia.com/gpu".into(),
        or: Vec::new(),
        nodes: Some("nvidia.com/gpu.present=true".into()),
        amount: Amount { label, times: 4, or_more: false },
        none_is_fine: false,
    };
    let wait = wait(what);
    assert_eq!(wait.asks().len(), 1);
    let good = node("a", "True", "8", "32");
    assert_eq!(why(&wait, &[json!([good])]), "met");
    let seven = json!([good, node("b", "True", "8", "28"), node("c", "Unknown", "8", "0")]);
    assert_eq!(
        why(&wait, std::slice::from_ref(&seven)),
        "node b: allocatable nvidia.com/gpu is 28 of capacity 8, expected 32 (its label nvidia.com/gpu.count = 8, times 4)"
    );
    assert_eq!(wait.left_out(&[seven]), ["c"]);
    assert_eq!(why(&wait, &[json!([])]), "no node with nvidia.com/gpu.present=true is ready");
    let many: Vec<Value> = (0..5).map(|n| node(&format!("n{n}"), "True", "many", "0")).collect();
    let reply = why(&wait, &[json!(many)]);
    assert!(reply.contains("nvidia.com/gpu.count is many") && reply.ends_with("; and 2 more"), "{reply}");
}

#[test]
fn conditions_of_named_objects() {
    let wait = wait(Expectation::Condition {
        of: pick("apps/v1/Deployment/ns/x"),
        name: "Available".into(),
        status: "True".into(),
    });
    assert_eq!(why(&wait, &[Value::Null]), "deployment ns/x is not there");
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "x", "namespace": "ns", "generation": 2}, "status": {"observedGeneration": 2}});
    assert_eq!(why(&wait, &[object.clone()]), "deployment ns/x: no condition Available yet");
    object["status"]["conditions"] =
        json!([{"type": "Available", "status": "False", "reason": "MinimumReplicas"}]);
    assert_eq!(why(&wait, &[object.clone()]), "deployment ns/x: Available is False (MinimumReplicas)");
    object["status"]["conditions"][0]["status"] = json!("True");
    assert_eq!(why(&wait, &[object.clone()]), "met");
    // A status of the previous template does not count.
    object["status"]["observedGeneration"] = json!(1);
    assert!(why(&wait, &[object]).contains("newest change"));
}

#[test]
fn fields_are_compared() {
    let policy = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"},
        "status": {"state": "notReady", "n": 3, "size": "2Ki"}});
    let reply = |path: &str, test: Test| {
        let of = pick("nvidia.com/v1/ClusterPolicy/p");
        why(
            &wait(Expectation::Field {
                of,
                path: path.into(),
                or: Vec::new(),
                test,
                none_is_fine: false,
                ready_nodes_only: false,
            }),
            std::slice::from_ref(&policy),
        )
    };
    assert_eq!(
        reply("{.status.state}", Test::Equals(json!("ready"))),
        "clusterpolicy p: {.status.state} is notReady, expected ready"
    );
    assert_eq!(reply(".status.n", Test::Equals(json!("3"))), "met");
    assert_eq!(reply(".status.n", Test::AtLeast(3)), "met");
    assert!(reply(".status.n", Test::AtMost(2)).contains("is 3, expected at most 2"));
    assert_eq!(reply("/status/size", Test::AtLeast(2048)), "met");
    assert!(reply(".status.state", Test::AtLeast(1)).contains("expected at least 1"));
    assert!(reply(".status.none", Test::Exists).contains(".status.none is not there"));
}

#[test]
fn numbers_of_objects() {
    let pods = |test: CountTest| {
        wait(Expectation::Count {
            of: Pick::All {
                api_version: "v1".into(),
                kind: "Pod".into(),
                namespace: Some("ns".into()),
                labels: Some("app=x".into()),
            },
            condition: Some("Ready".into()),
            test,
        })
    };
    let pod = |name: &str, status: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns"},
            "status": {"conditions": [{"type": "Ready", "status": status}]}})
    };
    let two = json!([pod("a", "True"), pod("b", "False")]);
    let nodes = json!([node("a", "True", "", ""), node("b", "True", "", ""), node("c", "False", "", "")]);
    let each = pods(CountTest::Nodes(None));
    assert_eq!(each.asks().len(), 2);
    assert_eq!(
        why(&each, &[two.clone(), nodes.clone()]),
        "1 pods with app=x in ns that are Ready, expected 2: a node that is ready each; pod ns/b: Ready is False"
    );
    assert_eq!(each.left_out(&[two.clone(), nodes]), ["c"]);
    assert_eq!(why(&pods(CountTest::AtLeast(1)), std::slice::from_ref(&two)), "met");
    assert!(why(&pods(CountTest::Equals(2)), &[two]).contains("expected 2"));
    assert_eq!(why(&pods(CountTest::Equals(0)), &[Value::Null]), "the server knows no kind Pod");
}

#[test]
fn quantities_are_read() {
    for (text, thousandths) in [("8", 8000), ("100m", 100), ("2Ki", 2_048_000), ("1k", 1_000_000)] {
        assert_eq!(quantity(&json!(text)), Some(thousandths), "{text}");
    }
    assert_eq!(quantity(&json!(3)), Some(3000));
    assert_eq!(quantity(&json!("many")), None);
    assert_eq!(quantity(&json!("1x")), None);
}
