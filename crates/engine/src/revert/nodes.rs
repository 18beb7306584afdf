//! Taints and cordons of the nodes of a cluster in a rollback: those that go do so before anything that needs pods, those that come do so after it. A hook of a
//! chart that goes may be a Job, and nothing says where its pod may run. Pure.

use crate::revert::order::{Pods, needs_pods};
use crate::revert::sight::Sight;
use crate::revert::undo::{Verdict, text_of};
use converge_ledger::Undo;
use converge_objects::api_ref;
use converge_objects::k8s::K8sState;
use converge_planner::Knowledge;
use converge_resource::{Change, ObjectId, State};
use serde_json::Value;
use std::collections::BTreeSet;

fn is_node(object: &ObjectId) -> bool {
    api_ref(object).is_some_and(|r| r.api_version == "v1" && r.kind == "Node")
}

/// The reasons for which a node takes no pod: its taints by key and effect, and its cordon.
fn barred(node: &Value) -> impl Iterator<Item = Option<(&str, &str)>> {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
    let cordon = node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true);
    taints.map(|taint| Some(names(taint))).chain(cordon.then_some(None))
}

fn names(taint: &Value) -> (&str, &str) {
    let word = |name: &str| taint.get(name).and_then(Value::as_str).unwrap_or_default();
    (word("key"), word("effect"))
}

/// Whether the one has a taint or a cordon that the other has not.
fn is_barred_beyond(node: &Value, other: &Value) -> bool {
    barred(node).any(|bar| !barred(other).any(|b| b == bar))
}

/// The node without the taints and the cordon that the other has not.
fn admitting(node: &Value, other: &Value) -> Value {
    let mut then = node.clone();
    let Some(spec) = then.get_mut("spec").and_then(Value::as_object_mut) else { return then };
    if let Some(taints) = spec.get_mut("taints").and_then(Value::as_array_mut) {
        taints.retain(|taint| barred(other).any(|bar| bar == Some(names(taint))));
        if taints.is_empty() {
            spec.shift_remove("taints");
        }
    }
    if !barred(other).any(|bar| bar.is_none()) {
        spec.shift_remove("unschedulable");
    }
    then
}

/// The effect of a revert from one state to the other.
pub(super) fn effect(object: &ObjectId, from: &State, to: &State, known: &Knowledge) -> Pods {
    if !is_node(object) || from == to {
        return Pods::Unaffected;
    }
    match (text_of(object, from, known), text_of(object, to, known)) {
        (Some(from), Some(to)) if is_barred_beyond(&from, &to) => Pods::Admitted,
        (Some(from), Some(to)) if is_barred_beyond(&to, &from) => Pods::Barred,
        _ => Pods::Unaffected,
    }
}

/// Divides the revert of a node that admits pods and does more besides, where another revert may wait for pods: its taints and cordon go by themselves.
/// All else of it has a place of its own: a node was labelled before the release came, and a taint that comes back would hold it up. Returns the places of the
/// first steps: after one alone the object is not back.
pub(super) fn admit_first(
    undos: &mut Vec<Undo>,
    verdicts: &mut Vec<Verdict>,
    sights: &mut Vec<Sight>,
    known: &mut Knowledge,
) -> BTreeSet<usize> {
    let waits =
        |(undo, verdict): (&Undo, &Verdict)| needs_pods(&undo.object) && matches!(verdict, Verdict::Back(_));
    let mut firsts = BTreeSet::new();
    if !undos.iter().zip(verdicts.iter()).any(waits) {
        return firsts;
    }
    for at in (0..undos.len()).rev() {
        let (Some(undo), Some(Verdict::Back(change)), Some(sight)) =
            (undos.get(at), verdicts.get_mut(at), sights.get(at))
        else {
            continue;
        };
        if effect(&change.object, &change.from, &change.to, known) != Pods::Admitted {
            continue;
        }
        let text = |state: &State| text_of(&change.object, state, known);
        let (Some(from), Some(to)) = (text(&change.from), text(&change.to)) else { continue };
        let (state, content) = K8sState::of(&admitting(&from, &to));
        let between = State::from(state);
        if between == change.to {
            continue;
        }
        known.learn_content(content);
        let first = Change { to: between.clone(), ..change.clone() };
        change.from = between;
        let (undo, sight) = (undo.clone(), sight.clone());
        undos.insert(at, undo);
        sights.insert(at, sight);
        verdicts.insert(at, Verdict::Back(first));
        firsts = firsts.into_iter().map(|later: usize| later + 1).chain([at]).collect();
    }
    firsts
}

#[cfg(test)]
#[path = "nodes_tests.rs"]
mod tests;
