//! `k8s_transform`

use crate::look::Asks;
use crate::manifest::{merged, set_fields};
use crate::names::Names;
use crate::picked::{PickedObjects, check_selector};
use crate::pointer;
use converge_objects::condition::FieldQuery;
use converge_objects::k8s::fields;
use converge_objects::k8s::parts::leaves;
use converge_resource::{Claim, ParamError, Place, Resource, Stop, View, WantedStates, counted};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A field on every object of a kind that a selector picks.
///
/// Nothing else of these objects is touched: no status goes back, no version, no field of a manager beside it. Objects that come later are changed
/// by the next run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct K8sTransform {
    /// The version of the kind, as `trainer.kubeflow.org/v1alpha1`.
    #[serde(rename = "apiVersion")]
    api_version: String,
    /// The kind, as `ClusterTrainingRuntime`.
    kind: String,
    /// Only objects of this namespace; all without it.
    namespace: Option<String>,
    /// Only objects with these labels, as kubectl takes a selector.
    selector: Option<String>,
    /// Only objects in which each of these JSONPaths finds something: `$..limits['nvidia.com/gpu']`.
    #[serde(default, rename = "where")]
    conditions: Names,
    /// Values by the path to their fields; `[*]` stands for every item of a list:
    /// `/spec/template/spec/replicatedJobs/[*]/template/spec/template/spec/runtimeClassName: nvidia`. `null` removes the
    /// field.
    set: BTreeMap<String, Value>,
}

impl Resource for K8sTransform {
    const KIND: &'static str = "k8s_transform";
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: training runs with the runtime of the GPUs
  k8s_transform:
    apiVersion: trainer.kubeflow.org/v1alpha1
    kind: ClusterTrainingRuntime
    where: \"$..limits['nvidia.com/gpu']\"
    set:
      /spec/template/spec/replicatedJobs/[*]/template/spec/template/spec/runtimeClassName: nvidia
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        for (index, text) in self.conditions.0.iter().enumerate() {
            if let Err(why) = FieldQuery::read(text) {
                let help = "write it as `$..limits['nvidia.com/gpu']`";
                errors.push(ParamError::new(&format!("/where/{index}"), why, help));
            }
        }
        for path in self.set.keys() {
            if let Err(why) = pointer::parse(path) {
                errors.push(ParamError::new("/set", why, "write it as `/spec/items/[*]/field`"));
            }
        }
        if let Some(selector) = &self.selector {
            check_selector("/selector", selector, &mut errors);
        }
        if self.set.is_empty() {
            errors.push(ParamError::new("/set", "nothing is set", "give the way to a field and its value"));
        }
        if self.api_version == "v1" && self.kind == "Secret" {
            errors.push(ParamError::new(
                "/kind",
                "a Secret's values would stand in the plan",
                "use the kind `secret`",
            ));
        }
        if !self.kind.starts_with(|c: char| c.is_ascii_uppercase()) || self.kind.contains('/') {
            let message = format!("`{}` is not a kind", self.kind);
            errors.push(ParamError::new("/kind", message, "write it as `DaemonSet`"));
        }
        errors
    }

    /// Which objects these are only the cluster knows. They are still in the plan's targets.
    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let picked = PickedObjects {
            api_version: &self.api_version,
            kind: &self.kind,
            namespace: self.namespace.as_deref(),
            labels: self.selector.as_deref(),
        };
        let queries: Vec<FieldQuery> = self
            .conditions
            .0
            .iter()
            .map(|text| FieldQuery::read(text).map_err(|why| Stop::invalid("/where", why)))
            .collect::<Result<_, _>>()?;
        let (mut all, mut asks) = (WantedStates::default(), Asks::default());
        let found = picked.find(view)?;
        let number = found.len();
        for (object, content) in found {
            if !queries.iter().all(|query| !query.find(&content).is_empty()) {
                continue;
            }
            let (mut changes, mut declared) = (Vec::new(), Vec::new());
            for (text, value) in &self.set {
                let parts = pointer::parse(text).map_err(|why| Stop::invalid("/set", why))?;
                for path in pointer::expand(&content, &parts).map_err(|why| Stop::invalid("/set", why))? {
                    declared.extend(leaves(&path, Some(value)));
                    let new = merged(fields::read(&content, &path), value);
                    changes.push((path, Some(new).filter(|v| !v.is_null())));
                }
            }
            let Some(one) = asks.take(set_fields(view, "/set", &object, &changes))? else { continue };
            all.targets.extend(one.targets);
            all.contents.extend(one.contents);
            all.notes.extend(one.notes);
            all.parts.extend(declared.into_iter().map(|path| (object.object(), path)));
        }
        asks.finish()?;
        if all.targets.is_empty() {
            all.notes.push(format!(
                "none of {} of the kind {} is picked",
                counted(number, "object"),
                self.kind
            ));
        }
        Ok(all)
    }

    fn chooses(&self) -> bool {
        true
    }

    fn basis(&self) -> Option<String> {
        Some(json!(self.set).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_objects::K8sState;
    use converge_resource::{ApiProbe, ApiRef, ObjectId};

    fn runtime(name: &str, limit: &str) -> Value {
        json!({"apiVersion": "a.b/v1", "kind": "Runtime", "metadata": {"name": name},
            "spec": {"jobs": [{"name": "x", "limits": {limit: 1}}, {"name": "y"}]}})
    }

    fn list() -> ApiProbe {
        ApiProbe::List { api_version: "a.b/v1".into(), kind: "Runtime".into(), namespace: None, labels: None }
    }

    fn kind() -> K8sTransform {
        read(json!({"apiVersion": "a.b/v1", "kind": "Runtime", "where": "$..limits['nvidia.com/gpu']",
            "set": {"/spec/jobs/[*]/class": "nvidia"}}))
    }

    fn live() -> FakeView {
        let objects = [runtime("gpu", "nvidia.com/gpu"), runtime("cpu", "cpu")];
        let mut view = FakeView::new().says(list(), json!(objects));
        for object in &objects {
            let (state, content) = K8sState::of(object);
            view = view.has(ApiRef::of(object).unwrap().object(), state).knows(content);
        }
        view
    }

    #[test]
    fn the_field_is_set_on_each_object_that_is_picked() {
        let wanted = kind().plan(&live()).unwrap();
        assert_eq!(wanted.targets.len(), 1);
        assert_eq!(wanted.targets[0].0.key, "a.b/v1/Runtime/gpu");
        assert_eq!(wanted.contents[0].text().unwrap().matches("class: nvidia").count(), 2);
        settle(&kind(), live());
    }

    #[test]
    fn objects_that_may_come_are_waited_for() {
        let view = live().may(ObjectId::new("k8s", "a.b/v1/Runtime/*"));
        assert!(matches!(kind().plan(&view), Err(Stop::Deferred(_))));
        let none = FakeView::new().says(list(), Value::Null);
        assert!(matches!(kind().plan(&none), Err(Stop::Invalid { pointer, .. }) if pointer == "/kind"));
        let empty = FakeView::new().says(list(), json!([]));
        assert_eq!(kind().plan(&empty).unwrap().notes, ["none of 0 objects of the kind Runtime is picked"]);
    }

    #[test]
    fn wrong_parameters_are_named() {
        let with = |key: &str, value: Value| {
            let mut params = json!({"apiVersion": "a.b/v1", "kind": "Runtime", "set": {"/spec/a": 1}});
            params[key] = value;
            wrong::<K8sTransform>(params)
        };
        assert_eq!(with("set", json!({})), ["/set"]);
        assert_eq!(with("set", json!({"/a/[0]": 1})), ["/set"]);
        assert_eq!(with("where", json!(["{.a"])), ["/where/0"]);
        assert_eq!(with("selector", json!("")), ["/selector"]);
        assert_eq!(with("kind", json!("runtime")), ["/kind"]);
    }
}
