//! `node`

use crate::manifest::{
    Marks, Presence, check_marks, check_name, edit_claims, marks, missing, present, set_fields,
};
use crate::picked::{Picked, check_selector};
use converge_objects::k8s::fields;
use converge_resource::{ApiRef, Claim, Disruption, ParamError, Place, Resource, Stop, View, Wanted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Labels, annotations and taints of a node, or of all nodes that a selector picks.
///
/// Only what is named is changed. Let the toleration of a taint come before it: items of a role are done in their order, and a rollback takes
/// them back in the reverse order, so the taint goes first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// The name of the node.
    name: Option<String>,
    /// A label selector, as kubectl takes it, in place of `name`.
    selector: Option<String>,
    /// Labels that it has. One without a value (`null`) is taken away.
    #[serde(default)]
    labels: Marks,
    /// Annotations that it has. One without a value (`null`) is taken away.
    #[serde(default)]
    annotations: Marks,
    /// Taints that it has, found by `key` and `effect`: `{key: nvidia.com/gpu, value: present, effect: NoSchedule}`; with
    /// `state: absent` one that it has not.
    #[serde(default)]
    taints: Vec<Taint>,
}

/// A taint.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Taint {
    /// Its key.
    key: String,
    /// Its value.
    value: Option<String>,
    /// What it does to pods that do not tolerate it.
    effect: Effect,
    /// Whether the node has it.
    #[serde(default)]
    state: Presence,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
enum Effect {
    /// None of them is placed on the node any more.
    NoSchedule,
    /// They are placed elsewhere where that can be.
    PreferNoSchedule,
    /// Those that run there are evicted.
    NoExecute,
}

impl Node {
    fn object(name: &str) -> ApiRef {
        ApiRef { api_version: "v1".into(), kind: "Node".into(), namespace: None, name: name.to_owned() }
    }

    /// The fields of one node.
    fn changes(&self, node: &Value) -> Vec<(fields::Path, Option<Value>)> {
        let mut changes = marks("labels", &self.labels);
        changes.extend(marks("annotations", &self.annotations));
        if !self.taints.is_empty() {
            let way = ["spec", "taints"].map(|key| fields::Segment::Key(key.to_owned())).to_vec();
            let mut list = fields::read(node, &way).and_then(Value::as_array).cloned().unwrap_or_default();
            for taint in &self.taints {
                taint.lay(&mut list);
            }
            changes.push((way, Some(Value::Array(list)).filter(|l| *l != json!([]))));
        }
        changes
    }
}

impl Taint {
    fn lay(&self, list: &mut Vec<Value>) {
        let at = list.iter().position(|t| {
            t.get("key") == Some(&json!(self.key)) && t.get("effect") == Some(&json!(self.effect))
        });
        match (self.state, at) {
            (Presence::Absent, Some(at)) => drop(list.remove(at)),
            (Presence::Absent, None) => {}
            (Presence::Present, at) => {
                let mut new = json!({"key": self.key, "effect": self.effect});
                if let Some(value) = self.value.as_ref().filter(|v| !v.is_empty()) {
                    new["value"] = json!(value);
                }
                match at.and_then(|at| list.get_mut(at)) {
                    // When it was laid (`timeAdded`) stays with it.
                    Some(old) if old.get("value") == new.get("value") => {}
                    Some(old) => *old = new,
                    None => list.push(new),
                }
            }
        }
    }
}

impl Resource for Node {
    const KIND: &'static str = "node";
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: only work that needs GPUs runs there
  node:
    name: gpu-1
    labels: {nvidia.com/device-plugin.config: consumer}
    taints:
      - {key: nvidia.com/gpu, value: present, effect: NoSchedule}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        match (&self.name, &self.selector) {
            (Some(name), None) => check_name("/name", name, &mut errors),
            (None, Some(selector)) => check_selector("/selector", selector, &mut errors),
            (None, None) => errors.push(ParamError::new("", "no node is named", "give `name` or `selector`")),
            (Some(_), Some(_)) => {
                let help = "keep one of `name` and `selector`";
                errors.push(ParamError::new("/selector", "two ways to name the node are given", help));
            }
        }
        check_marks("labels", &self.labels, &mut errors);
        check_marks("annotations", &self.annotations, &mut errors);
        if self.labels.is_empty() && self.annotations.is_empty() && self.taints.is_empty() {
            let help = "give `labels`, `annotations` or `taints`";
            errors.push(ParamError::new("", "nothing is said about the node", help));
        }
        for (index, taint) in self.taints.iter().enumerate() {
            let pointer = format!("/taints/{index}");
            let (mut found, one) = (Vec::new(), Marks::from([(taint.key.clone(), taint.value.clone())]));
            check_marks("labels", &one, &mut found);
            errors.extend(found.into_iter().map(|e| ParamError { pointer: pointer.clone(), ..e }));
            let same = |t: &Taint| t.key == taint.key && t.effect == taint.effect;
            if self.taints.iter().take(index).any(same) {
                let message = format!("the taint {} is said twice", taint.key);
                errors.push(ParamError::new(&pointer, message, "say each key and effect once"));
            }
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        self.name.as_ref().map(|name| edit_claims(&Self::object(name).object())).unwrap_or_default()
    }

    fn plan(&self, seen: &dyn View) -> Result<Wanted, Stop> {
        if let Some(name) = &self.name {
            let object = Self::object(name);
            let Some(node) = present(seen, &object)? else { return Err(missing(seen, "/name", &object)) };
            return set_fields(seen, "/name", &object, &self.changes(&node));
        }
        let picked =
            Picked { api_version: "v1", kind: "Node", namespace: None, labels: self.selector.as_deref() };
        let mut all = Wanted::default();
        for (object, node) in picked.find(seen)? {
            let one = set_fields(seen, "/selector", &object, &self.changes(&node))?;
            all.targets.extend(one.targets);
            all.contents.extend(one.contents);
        }
        if all.targets.is_empty() {
            all.notes.push("the selector picks no node".to_owned());
        }
        Ok(all)
    }

    fn basis(&self) -> Option<String> {
        let taints: Vec<Value> = self
            .taints
            .iter()
            .map(|t| json!([t.key, t.value, t.effect, t.state == Presence::Present]))
            .collect();
        Some(json!([self.labels, self.annotations, taints]).to_string())
    }

    fn disruption(&self) -> Disruption {
        let evicts = |t: &Taint| t.effect == Effect::NoExecute && t.state == Presence::Present;
        if self.taints.iter().any(evicts) { Disruption::Restarts } else { Disruption::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_objects::K8sState;
    use converge_resource::{ApiProbe, ObjectId};

    fn live(view: FakeView, name: &str) -> FakeView {
        let (state, content) =
            K8sState::of(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name,
            "labels": {"theirs": "x", "old": "y"}}, "spec": {"podCIDR": "10.0.0.0/24", "taints": [
            {"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute", "timeAdded": "t"}]}}));
        view.has(ObjectId::new("k8s", format!("v1/Node/{name}")), state).knows(content)
    }

    #[test]
    fn only_what_is_named_is_changed() {
        let kind = read::<Node>(json!({"name": "n", "labels": {"mine": "1", "old": null}, "taints": [
            {"key": "a", "effect": "NoSchedule", "state": "absent"}, {"key": "a", "effect": "NoExecute"},
            {"key": "b", "value": "v", "effect": "NoSchedule"}]}));
        let view = live(FakeView::new(), "n");
        let wanted = kind.plan(&view).unwrap();
        let text = wanted.contents[0].text().unwrap();
        for part in ["theirs: x", "mine: '1'", "timeAdded: t", "key: b", "podCIDR"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("old:") && text.matches("key: a").count() == 1, "{text}");
        settle(&kind, view);
        assert_eq!(Resource::disruption(&kind), Disruption::Restarts);
    }

    #[test]
    fn the_last_taint_goes_with_its_list() {
        let gone = |effect: &str| json!({"key": "a", "effect": effect, "state": "absent"});
        let kind = read::<Node>(json!({"name": "n", "taints": [gone("NoSchedule"), gone("NoExecute")]}));
        let wanted = kind.plan(&live(FakeView::new(), "n")).unwrap();
        assert!(!wanted.contents[0].text().unwrap().contains("taints"), "{wanted:?}");
        settle(&kind, live(FakeView::new(), "n"));
    }

    #[test]
    fn a_selector_picks_nodes() {
        let kind = read::<Node>(json!({"selector": "gpu=true", "labels": {"mine": "1"}}));
        let probe = ApiProbe::List {
            api_version: "v1".into(),
            kind: "Node".into(),
            namespace: None,
            labels: Some("gpu=true".into()),
        };
        let named = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let view = live(live(FakeView::new(), "a"), "b").says(probe, json!([named("a"), named("b")]));
        assert_eq!(kind.plan(&view).unwrap().targets.len(), 2);
        settle(&kind, view);
    }

    #[test]
    fn a_node_that_is_missing_is_named() {
        let kind = read::<Node>(json!({"name": "n", "labels": {"a": "1"}}));
        assert!(
            matches!(kind.plan(&FakeView::new()), Err(Stop::Invalid { pointer, .. }) if pointer == "/name")
        );
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Node>(json!({"labels": {"a": "1"}})), [""]);
        assert_eq!(
            wrong::<Node>(json!({"name": "n", "selector": "a=b", "labels": {"a": "1"}})),
            ["/selector"]
        );
        assert_eq!(wrong::<Node>(json!({"name": "n"})), [""]);
        let twice = json!({"key": "a", "effect": "NoSchedule"});
        assert_eq!(wrong::<Node>(json!({"name": "n", "taints": [twice, twice]})), ["/taints/1"]);
        assert_eq!(
            wrong::<Node>(json!({"name": "n", "taints": [{"key": "a", "effect": "Never"}]})),
            ["parse /taints/0/effect"]
        );
    }
}
