use super::*;
use crate::revert::tests::undo;
use crate::revert::{RevertGroup, arrange};
use converge_objects::k8s::from_text;
use converge_resource::{Answer, Observation, Probe};
use serde_json::json;

/// A node with a label, with taints of these keys, and cordoned or not.
fn node(label: Option<&str>, taints: &[&str], cordoned: bool) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24"}});
    if let Some(label) = label {
        node["metadata"]["labels"] = json!({"own": label});
    }
    if !taints.is_empty() {
        let taint = |key: &&str| json!({"key": key, "effect": "NoSchedule"});
        node["spec"]["taints"] = taints.iter().map(taint).collect();
    }
    if cordoned {
        node["spec"]["unschedulable"] = json!(true);
    }
    node
}

/// The changes of a rollback, in their order, with what was first touched last in the list: the keys, and the nodes as they become.
fn changes(node_first: bool, before: &Value, left: &Value, with: &str) -> Vec<(String, Option<Value>)> {
    let mut known = Knowledge::default();
    let mut of = undo("k8s", "v1/Node/n", "absent", "absent");
    let mut state = |object: &Value| {
        let (state, content) = K8sState::of(object);
        known.learn_content(content);
        State::from(state)
    };
    (of.before, of.left) = (state(before), state(left));
    let other = match with {
        "k8s" => {
            let left = state(
                &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "r", "namespace": "ns"}}),
            );
            Undo { left, ..undo(with, "v1/ConfigMap/ns/r", "absent", "absent") }
        }
        _ => undo(with, "ns/r", &format!("release deployed c-1 {}", "0".repeat(64)), "absent"),
    };
    let undos = if node_first { vec![other, of] } else { vec![of, other] };
    for undo in &undos {
        let answer = Answer::Object(Observation::new(undo.left.clone(), None));
        known.learn(Probe::Object(undo.object.clone()), answer);
    }
    let groups: Vec<RevertGroup> = arrange(undos, &mut known, &[]);
    let members: Vec<_> = groups.into_iter().flat_map(|group| group.members).collect();
    // The first of two steps of a node reverts it only in part.
    let nodes: Vec<bool> =
        members.iter().filter(|m| m.undo.object.key == "v1/Node/n").map(|m| m.in_part).collect();
    assert!(matches!(nodes.as_slice(), [false] | [true, false]), "{nodes:?}");
    let change = |verdict: Verdict| match verdict {
        Verdict::Back(change) => change,
        other => panic!("{other:?}"),
    };
    let shown = |change: Change| (change.object.key.clone(), text_of(&change.object, &change.to, &known));
    members.into_iter().map(|member| shown(change(member.verdict))).collect()
}

#[test]
fn taints_go_before_a_release_and_come_after_it() {
    let release = ("ns/r".to_owned(), None);
    let to = |node: Value| ("v1/Node/n".to_owned(), from_text(&K8sState::of(&node).1));
    // Wherever the node stands among what the runs touched.
    for first in [true, false] {
        let found = changes(first, &node(None, &[], false), &node(None, &["t"], true), "release");
        assert_eq!(found, [to(node(None, &[], false)), release.clone()]);
        let found = changes(first, &node(None, &["own"], false), &node(None, &[], false), "release");
        assert_eq!(found, [release.clone(), to(node(None, &["own"], false))]);
        // One machine: its own taint went before the release came, and another came after it.
        let found = changes(first, &node(None, &["own"], false), &node(Some("x"), &["t"], false), "release");
        assert_eq!(
            found,
            [to(node(Some("x"), &[], false)), release.clone(), to(node(None, &["own"], false))]
        );
    }
    // A label that was there before the release goes after it, and one that came after it goes before.
    let (before, left) = (node(None, &[], false), node(Some("x"), &[], true));
    let open = to(node(Some("x"), &[], false));
    assert_eq!(changes(true, &before, &left, "release"), [open.clone(), release.clone(), to(before.clone())]);
    assert_eq!(changes(false, &before, &left, "release"), [open, to(before.clone()), release]);
    // Nothing waits for pods: one step.
    assert_eq!(changes(true, &before, &left, "k8s").len(), 2);
}
