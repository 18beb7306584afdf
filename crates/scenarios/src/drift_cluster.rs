//! Drift on a cluster: objects that an item made are deleted, and fields that it takes from others are changed.

use crate::injected::{InjectedDrift, shown};
use converge_engine::{Engine, FleetPlan, ItemClaims};
use converge_lab::kube::Kubectl;
use converge_objects::api_ref;
use converge_resource::{ApiRef, ObjectId, RunAnswer, State};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The parameters of items that take fields from others, by address.
pub(crate) type ForcedItems = BTreeMap<String, Value>;

/// Asks a plan of now which items force conflicts; those that are skipped now stand in the plan of the first run.
pub(crate) async fn taken(engine: &Engine, cluster: &str, first: &FleetPlan) -> ForcedItems {
    let now = engine.plan().await.ok();
    let plans = std::iter::once(first).chain(&now);
    let items = plans.flat_map(FleetPlan::planned).filter(|p| p.host == cluster).flat_map(|p| &p.items);
    let forced = items.filter_map(|i| Some((i.address.clone(), i.params.clone()?)));
    forced.filter(|(_, params)| params.get("force_conflicts") == Some(&Value::Bool(true))).collect()
}

/// The beginning of the key of a namespace.
const NAMESPACE: &str = "v1/Namespace/";

/// The drifts that can be injected into the claims of the role's items, each facet once.
pub(crate) fn drifts(
    items: &[ItemClaims],
    role: &str,
    taken: &ForcedItems,
    start: &BTreeMap<ObjectId, State>,
    left: &mut Vec<String>,
) -> Vec<InjectedDrift> {
    let mut drifts = Vec::new();
    let mut observed = BTreeSet::new();
    // With a namespace goes all that other roles have in it.
    let shared = items.iter().any(|i| i.role != role);
    for item in items.iter().filter(|i| i.role == role) {
        for claim in &item.claims {
            let object = &claim.object;
            if !observed.insert((object.clone(), claim.facet)) {
                continue;
            }
            let Some(target) = api_ref(object) else {
                left.push(format!(
                    "{}, {}: no drift is injected into running workloads",
                    shown(object),
                    claim.facet
                ));
                continue;
            };
            if shared && object.key.starts_with(NAMESPACE) {
                left.push(format!("{}, {}: other roles may have objects in it", shown(object), claim.facet));
                continue;
            }
            let words = match claim.facet {
                "presence" if start.get(object).is_some_and(State::is_absent) => {
                    Some(("deleted", of(&["delete"], &target)))
                }
                "content" => taken.get(&item.address).and_then(patch).map(|patch| {
                    let mut words = of(&["patch"], &target);
                    words.extend(["--type=merge", "--field-manager=somebody", "--patch"].map(str::to_owned));
                    words.push(patch);
                    ("changed by a user", words)
                }),
                _ => None,
            };
            match words {
                Some((what, words)) => drifts.push(InjectedDrift {
                    object: object.clone(),
                    facet: claim.facet,
                    what: what.to_owned(),
                    script: words.join("\n"),
                }),
                None if claim.facet == "presence" => {
                    left.push(format!("{}, presence: it was there before the role", shown(object)));
                }
                None => left.push(format!("{}, {}: others may change it", shown(object), claim.facet)),
            }
        }
    }
    // The objects of a namespace are deleted with it: it comes last.
    drifts.sort_by_key(|w| w.object.key.starts_with(NAMESPACE));
    drifts
}

/// `kubectl VERB KIND NAME`, with the namespace.
fn of(verb: &[&str], target: &ApiRef) -> Vec<String> {
    let mut words: Vec<String> = verb.iter().map(|w| (*w).to_owned()).collect();
    // kubectl's full name of a kind: `Kind.version.group`.
    words.push(match target.api_version.split_once('/') {
        Some((group, version)) => format!("{}.{version}.{group}", target.kind),
        None => target.kind.clone(),
    });
    words.push(target.name.clone());
    words.extend(target.namespace.iter().map(|n| format!("--namespace={n}")));
    words
}

/// A merge patch that changes one field of the manifest: a value of `data`, else a label.
fn patch(manifest: &Value) -> Option<String> {
    let first = |pointer: &str| manifest.pointer(pointer)?.as_object()?.keys().next().cloned();
    // Another value of a Secret has to be base64.
    if manifest.get("kind").and_then(Value::as_str) != Some("Secret")
        && let Some(key) = first("/data")
    {
        return Some(json!({"data": {key: "drifted"}}).to_string());
    }
    first("/metadata/labels").map(|key| json!({"metadata": {"labels": {key: "drifted"}}}).to_string())
}

/// Spoils it.
pub(crate) fn inject(api: &Kubectl, drift: &InjectedDrift) -> RunAnswer {
    let words: Vec<&str> = drift.script.split('\n').collect();
    match api.reply(&words) {
        Ok(stdout) => RunAnswer { status: 0, stdout, stderr: String::new() },
        Err(error) => RunAnswer { status: 1, stdout: String::new(), stderr: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_field_of_a_manifest_is_changed() {
        let manifest = json!({"kind": "ConfigMap", "data": {"a": "1"}, "metadata": {"labels": {"b": "2"}}});
        assert_eq!(patch(&manifest).unwrap(), r#"{"data":{"a":"drifted"}}"#);
        let secret = json!({"kind": "Secret", "data": {"a": "MQ=="}, "metadata": {"labels": {"b": "2"}}});
        assert_eq!(patch(&secret).unwrap(), r#"{"metadata":{"labels":{"b":"drifted"}}}"#);
        assert!(patch(&json!({"kind": "ConfigMap"})).is_none());
    }

    #[test]
    fn kinds_are_named_with_their_group() {
        let target = ApiRef::from_key("apps/v1/DaemonSet/n/d").unwrap();
        assert_eq!(of(&["delete"], &target), ["delete", "DaemonSet.v1.apps", "d", "--namespace=n"]);
    }
}
