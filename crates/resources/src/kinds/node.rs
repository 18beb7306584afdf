//! `node`

use crate::look::{Asks, check_deadline};
use crate::manifest::{Marks, check_marks, check_name, edit_claims, marks, missing, present, set_fields};
use crate::names::Names;
use crate::picked::{PickedObjects, check_selector};
use crate::presence::Presence;
use converge_objects::condition::{self, Condition, ConditionState, Expectation, Pick, Test};
use converge_objects::k8s::fields;
use converge_resource::{
    ApiRef, Claim, Disruption, ObjectId, ParamError, Place, Resource, Stop, View, WantedStates, pointer_word,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Labels, annotations and taints of a node, or of all nodes that a selector picks.
///
/// Only what is named is changed. Let the toleration of a taint come before it: resources of a role are done in their order, and a rollback takes
/// them back in the reverse order, so the taint goes first.
///
/// With `until`, the nodes are waited for before the next resource begins, in every run: in a loop over lists of names, nodes go in batches, and
/// what a label sets going on one batch has come to its end there before the next batch gets the label. A node that never gets there stops the
/// loop in the next run too.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterNode {
    /// The name of the node, or a list of names.
    #[serde(default)]
    name: Names,
    /// With `name`: a node that has one of these labels, whatever its value, is left alone.
    #[serde(default)]
    without: Names,
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
    /// With `name`: wait until all of these nodes do this: `{offers: nvidia.com/gpu, timeout: 900}`, offer at least one of that resource, or of
    /// one of several. Nodes that are not ready do not count, and are named. Where all of them do it already, nothing is waited for; where `without`
    /// leaves all of them alone, neither.
    until: Option<Until>,
}

/// The condition on nodes to wait for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Until {
    /// Each node offers (`allocatable`) at least one of this resource, or of one of these.
    offers: Names,
    /// Seconds after which the wait has failed.
    #[serde(default = "ten_minutes")]
    timeout: u64,
}

fn ten_minutes() -> u64 {
    600
}

/// A taint.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Taint {
    /// Its key.
    key: String,
    /// Its value.
    value: Option<String>,
    /// The effect on pods that do not tolerate it.
    effect: TaintEffect,
    /// Whether the node has it.
    #[serde(default)]
    state: Presence,
}

/// The effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
enum TaintEffect {
    /// None of them is placed on the node any more.
    NoSchedule,
    /// They are placed elsewhere where that can be.
    PreferNoSchedule,
    /// Those that run there are evicted.
    NoExecute,
}

impl ClusterNode {
    fn object(name: &str) -> ApiRef {
        ApiRef { api_version: "v1".into(), kind: "Node".into(), namespace: None, name: name.to_owned() }
    }

    /// The condition to wait for.
    fn wait(&self) -> Option<condition::TimedCondition> {
        let until = self.until.as_ref()?;
        let path = |name: &String| format!("/status/allocatable/{}", pointer_word(name));
        let (first, more) = until.offers.0.split_first()?;
        let what = Expectation::Field {
            of: Pick::Named(self.name.0.iter().map(|name| Self::object(name)).collect()),
            path: path(first),
            or: more.iter().map(path).collect(),
            test: Test::AtLeast(1),
            none_is_fine: false,
            ready_nodes_only: true,
        };
        Some(condition::TimedCondition { what, seconds: until.timeout })
    }

    fn condition(&self) -> Option<ObjectId> {
        self.wait().map(|wait| ObjectId::new("condition", wait.key()))
    }

    /// The parts of a node that it declares.
    fn parts(&self) -> Vec<fields::FieldPath> {
        let marks = marks("labels", &self.labels).into_iter().chain(marks("annotations", &self.annotations));
        let taint = |taint: &Taint| {
            let item = fields::Segment::Item("key".to_owned(), json!(taint.key).to_string());
            taints().into_iter().chain([item]).collect()
        };
        marks.map(|(path, _)| path).chain(self.taints.iter().map(taint)).collect()
    }

    /// The fields of one node.
    fn changes(&self, node: &Value) -> Vec<(fields::FieldPath, Option<Value>)> {
        let mut changes = marks("labels", &self.labels);
        changes.extend(marks("annotations", &self.annotations));
        if !self.taints.is_empty() {
            let way = taints();
            let mut list = fields::read(node, &way).and_then(Value::as_array).cloned().unwrap_or_default();
            for taint in &self.taints {
                taint.lay(&mut list);
            }
            changes.push((way, Some(Value::Array(list)).filter(|l| *l != json!([]))));
        }
        changes
    }
}

/// The path to the taints of a node.
fn taints() -> fields::FieldPath {
    ["spec", "taints"].map(|key| fields::Segment::Key(key.to_owned())).to_vec()
}

fn has_label(node: &Value, label: &str) -> bool {
    node.pointer("/metadata/labels").and_then(|labels| labels.get(label)).is_some()
}

/// Adds the wait, whether this run changes a node or an earlier one did.
fn wait_for(view: &dyn View, wait: &condition::TimedCondition, all: &mut WantedStates) -> Result<(), Stop> {
    let id = ObjectId::new("condition", wait.key());
    if view.state::<Condition>(&id.key)? != ConditionState::Met {
        let mut asks = Asks::default();
        let mut answers = Vec::new();
        for probe in wait.asks() {
            answers.extend(asks.take(view.api(&probe))?);
        }
        asks.finish()?;
        all.notes.push(format!("waits until {}", wait.shown()));
        let out = wait.left_out(&answers);
        if !out.is_empty() {
            all.notes.push(format!("not ready, so not waited for: {}", out.join(", ")));
        }
    }
    all.targets.push((id, ConditionState::Met.into()));
    Ok(())
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

impl Resource for ClusterNode {
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
        for name in &self.name.0 {
            check_name("/name", name, &mut errors);
        }
        match (self.name.0.is_empty(), &self.selector) {
            (false, None) => {}
            (true, Some(selector)) => check_selector("/selector", selector, &mut errors),
            (true, None) => errors.push(ParamError::new("", "no node is named", "give `name` or `selector`")),
            (false, Some(_)) => {
                let help = "keep one of `name` and `selector`";
                errors.push(ParamError::new("/selector", "two ways to name the node are given", help));
            }
        }
        if !self.without.0.is_empty() && self.selector.is_some() {
            let help = "write it into the selector: `!example.com/label`";
            errors.push(ParamError::new(
                "/without",
                "a selector says itself which nodes it does not pick",
                help,
            ));
        }
        if let Some(until) = &self.until {
            check_deadline("/until/timeout", until.timeout, 7200, &mut errors);
            if until.offers.0.is_empty() {
                let help = "write it as `nvidia.com/gpu`";
                errors.push(ParamError::new("/until/offers", "no resource is named", help));
            }
            if self.selector.is_some() {
                let help = "give the nodes by `name`, or wait in a resource of its own: `k8s_wait`";
                errors.push(ParamError::new("/until", "it is not clear which nodes are waited for", help));
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
        let nodes = self.name.0.iter().flat_map(|name| edit_claims(&Self::object(name).object()));
        let condition = self.condition().map(|id| Claim::shared(id, "condition", "met"));
        nodes.chain(condition).collect()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let (mut nodes, mut chosen) = (Vec::new(), Vec::new());
        if let Some(labels) = &self.selector {
            let picked =
                PickedObjects { api_version: "v1", kind: "Node", namespace: None, labels: Some(labels) };
            nodes = picked.find(view)?;
            let found = nodes.iter().map(|(object, _)| object.object());
            chosen.extend(found.flat_map(|id| self.parts().into_iter().map(move |path| (id.clone(), path))));
        }
        let mut all = WantedStates { parts: chosen, ..WantedStates::default() };
        for name in &self.name.0 {
            let object = Self::object(name);
            let Some(node) = present(view, &object)? else { return Err(missing(view, "/name", &object)) };
            // Of one that is left alone an earlier run may have set them, and the label by which it is left alone.
            all.parts.extend(self.parts().into_iter().map(|path| (object.object(), path)));
            if !self.without.0.iter().any(|label| has_label(&node, label)) {
                nodes.push((object, node));
            }
        }
        let pointer = if self.selector.is_some() { "/selector" } else { "/name" };
        let mut asks = Asks::default();
        for (object, node) in nodes {
            let Some(one) = asks.take(set_fields(view, pointer, &object, &self.changes(&node)))? else {
                continue;
            };
            all.targets.extend(one.targets);
            all.contents.extend(one.contents);
            all.notes.extend(one.notes);
        }
        asks.finish()?;
        if all.targets.is_empty() {
            all.notes.push("the selector picks no node".to_owned());
        }
        // A node that an earlier run changed may not be ready yet: without the wait the next batch would begin nevertheless.
        let left_alone = all.targets.is_empty();
        if let Some(wait) = self.wait().filter(|_| !left_alone) {
            wait_for(view, &wait, &mut all)?;
        }
        Ok(all)
    }

    fn chooses(&self) -> bool {
        self.selector.is_some()
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
        let evicts = |t: &Taint| t.effect == TaintEffect::NoExecute && t.state == Presence::Present;
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
        let kind = read::<ClusterNode>(json!({"name": "n", "labels": {"mine": "1", "old": null}, "taints": [
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
    fn who_has_changed_a_label_by_hand_is_named() {
        let owned = json!({"metadata": {"managedFields": [{"manager": "kubectl-label", "fieldsV1": {"f:metadata": {"f:labels": {"f:theirs": {}}}}}]}});
        let node = ApiRef::from_key("v1/Node/n").unwrap();
        let view = live(FakeView::new(), "n").says(ApiProbe::Get(node), owned);
        let notes = |value: &str| {
            let kind = read::<ClusterNode>(json!({"name": "n", "labels": {"theirs": value, "old": "z"}}));
            kind.plan(&view).unwrap().notes
        };
        assert_eq!(notes("y"), ["node n: .metadata.labels.theirs was changed by `kubectl-label`"]);
        assert_eq!(notes("x"), Vec::<String>::new());
    }

    #[test]
    fn the_last_taint_goes_with_its_list() {
        let gone = |effect: &str| json!({"key": "a", "effect": effect, "state": "absent"});
        let kind =
            read::<ClusterNode>(json!({"name": "n", "taints": [gone("NoSchedule"), gone("NoExecute")]}));
        let wanted = kind.plan(&live(FakeView::new(), "n")).unwrap();
        assert!(!wanted.contents[0].text().unwrap().contains("taints"), "{wanted:?}");
        settle(&kind, live(FakeView::new(), "n"));
    }

    #[test]
    fn a_selector_picks_nodes() {
        let kind = read::<ClusterNode>(json!({"selector": "gpu=true", "labels": {"mine": "1"}}));
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
    fn nodes_with_a_label_are_left_alone() {
        let kind = read::<ClusterNode>(
            json!({"name": ["n"], "labels": {"new": "1"}, "without": ["none", "theirs"]}),
        );
        assert_eq!(kind.plan(&live(FakeView::new(), "n")).unwrap().targets, []);
        let kind = read::<ClusterNode>(json!({"name": ["n"], "labels": {"new": "1"}, "without": "new"}));
        assert_eq!(kind.plan(&live(FakeView::new(), "n")).unwrap().targets.len(), 1);
        let picked = json!({"selector": "a=b", "labels": {"a": "1"}, "without": "c"});
        assert_eq!(wrong::<ClusterNode>(picked), ["/without"]);
    }

    #[test]
    fn nodes_that_are_changed_are_waited_for() {
        let kind = read::<ClusterNode>(
            json!({"name": ["a", "b"], "labels": {"go": "1"}, "until": {"offers": "x.io/gpu"}}),
        );
        let condition = kind.condition().unwrap();
        assert_eq!(kind.claims().last().unwrap().object, condition);
        let node = |name: &str, ready: &str, gpus: &str| {
            json!({"metadata": {"name": name}, "status": {"allocatable": {"x.io/gpu": gpus},
                "conditions": [{"type": "Ready", "status": ready}]}})
        };
        let asked = |name: &str| ApiProbe::Get(ClusterNode::object(name));
        let view = live(live(FakeView::new(), "a"), "b")
            .has(condition.clone(), ConditionState::Open)
            .says(asked("a"), node("a", "True", "0"))
            .says(asked("b"), node("b", "False", "0"));
        let wanted = kind.plan(&view).unwrap();
        assert_eq!(wanted.targets.len(), 3);
        assert_eq!(wanted.targets[2], (condition, ConditionState::Met.into()));
        assert_eq!(wanted.notes[1], "not ready, so not waited for: b");
        let wait = kind.wait().unwrap();
        let judged = |gpus: &str| wait.judge(&[node("a", "True", gpus), node("b", "False", "0")]);
        assert!(
            matches!(judged("0"), condition::ConditionVerdict::Open(why) if why.starts_with("a: ") && !why.contains("b: "))
        );
        assert_eq!(judged("4"), condition::ConditionVerdict::Met);
        settle(&kind, view);
        // Nothing is changed, but the node of an earlier run is not ready: the wait holds nevertheless.
        let same = |more: Value| {
            let mut params = json!({"name": "a", "labels": {"theirs": "x"}, "until": {"offers": "x.io/gpu"}});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            read::<ClusterNode>(params)
        };
        let again = same(json!({}));
        let open = || {
            live(FakeView::new(), "a")
                .has(again.condition().unwrap(), ConditionState::Open)
                .says(asked("a"), node("a", "True", "0"))
        };
        let wanted = again.plan(&open()).unwrap();
        assert_eq!(wanted.targets[1], (again.condition().unwrap(), ConditionState::Met.into()));
        assert!(wanted.notes[0].starts_with("waits until"), "{:?}", wanted.notes);
        let met = live(FakeView::new(), "a").has(again.condition().unwrap(), ConditionState::Met);
        assert!(again.plan(&met).unwrap().notes.is_empty());
        // Nodes that are left alone are not waited for.
        let alone = same(json!({"without": ["theirs"]}));
        assert_eq!(alone.plan(&open()).unwrap().targets, []);
    }

    #[test]
    fn a_node_that_is_missing_is_named() {
        let kind = read::<ClusterNode>(json!({"name": "n", "labels": {"a": "1"}}));
        assert!(
            matches!(kind.plan(&FakeView::new()), Err(Stop::Invalid { pointer, .. }) if pointer == "/name")
        );
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<ClusterNode>(json!({"labels": {"a": "1"}})), [""]);
        assert_eq!(
            wrong::<ClusterNode>(json!({"name": "n", "selector": "a=b", "labels": {"a": "1"}})),
            ["/selector"]
        );
        assert_eq!(wrong::<ClusterNode>(json!({"name": "n"})), [""]);
        let none = json!({"name": "a", "labels": {"a": "1"}, "until": {"offers": []}});
        assert_eq!(wrong::<ClusterNode>(none), ["/until/offers"]);
        let until = json!({"offers": "x.io/gpu", "timeout": 0});
        let picked = json!({"selector": "a=b", "labels": {"a": "1"}, "until": until});
        assert_eq!(wrong::<ClusterNode>(picked), ["/until/timeout", "/until"]);
        let twice = json!({"key": "a", "effect": "NoSchedule"});
        assert_eq!(wrong::<ClusterNode>(json!({"name": "n", "taints": [twice, twice]})), ["/taints/1"]);
        assert_eq!(
            wrong::<ClusterNode>(json!({"name": "n", "taints": [{"key": "a", "effect": "Never"}]})),
            ["parse /taints/0/effect"]
        );
    }
}
