//! `k8s_patch`

use crate::manifest::{edit_claims, merged, missing, present, set_fields};
use crate::pointer;
use crate::target::WrittenObject;
use converge_objects::k8s::fields;
use converge_objects::k8s::parts::leaves;
use converge_resource::{ApiRef, Claim, ParamError, Place, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Some fields of an object that belongs to another owner: an operator, a chart.
///
/// These fields become so, and nothing else of the object is touched. Each is set only as long as the object is the one that the plan
/// was made against. Items of a list are found by their key, never by their place.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct K8sPatch {
    /// The object: `clusterpolicy/cluster-policy`, or in full: `{apiVersion: …, kind: …, namespace: …, name: …}`.
    target: WrittenObject,
    /// Its namespace, where its kind has one.
    namespace: Option<String>,
    /// Values by the path to their field: `/spec/toolkit/version: v1`, `/spec/containers/[name=x]/image: a:1`. A slash in a
    /// name is `~1`. Of a map, the given entries are set and the others stay: the server may add to it.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// Fields that are to be gone.
    #[serde(default)]
    unset: Vec<String>,
}

impl K8sPatch {
    fn object(&self) -> Result<ApiRef, ParamError> {
        self.target.find("/target", self.namespace.as_deref())
    }

    fn changes(&self, now: &Value) -> Result<Vec<(fields::FieldPath, Option<Value>)>, pointer::PathError> {
        let mut changes = Vec::new();
        for (way, value) in &self.set {
            let path = pointer::single(way)?;
            let value = merged(fields::read(now, &path), value);
            changes.push((path, Some(value).filter(|v| !v.is_null())));
        }
        for way in &self.unset {
            changes.push((pointer::single(way)?, None));
        }
        Ok(changes)
    }
}

impl Resource for K8sPatch {
    const KIND: &'static str = "k8s_patch";
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: the operator uses the profiles
  k8s_patch:
    target: clusterpolicy/cluster-policy
    set:
      /spec/devicePlugin/config: {name: time-slicing-config, default: any}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        match self.object() {
            Ok(object) if object.kind == "Secret" && object.api_version == "v1" => {
                let help = "use the kind `secret`: it keeps the values out of plans, diffs and records";
                errors.push(ParamError::new("/target", "a Secret's values would stand in the plan", help));
            }
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
        let expanded =
            self.set.keys().map(|way| ("set", way)).chain(self.unset.iter().map(|way| ("unset", way)));
        let mut paths: Vec<fields::FieldPath> = Vec::new();
        for (part, way) in expanded {
            let at = format!("/{part}");
            match pointer::single(way) {
                Err(why) => errors.push(ParamError::new(&at, why, "write it as `/spec/toolkit/version`")),
                Ok(path) => {
                    if paths.iter().any(|p| p.starts_with(&path) || path.starts_with(p)) {
                        let message = format!("{} is said twice", fields::shown(&path));
                        errors.push(ParamError::new(&at, message, "say each field once"));
                    }
                    if matches!(path.first(), Some(fields::Segment::Key(k)) if ["status", "kind", "apiVersion"].contains(&k.as_str()))
                    {
                        let message = format!("{} is not for a role to set", fields::shown(&path));
                        errors.push(ParamError::new(&at, message, "leave it out"));
                    }
                    paths.push(path);
                }
            }
        }
        if self.set.is_empty() && self.unset.is_empty() {
            errors.push(ParamError::new("", "nothing is changed", "give `set` or `unset`"));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        self.object().map(|object| edit_claims(&object.object())).unwrap_or_default()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let object = self.object().map_err(|e| Stop::invalid(&e.pointer, e.message))?;
        let Some(now) = present(view, &object)? else { return Err(missing(view, "/target", &object)) };
        let changes = self.changes(&now).map_err(|why| Stop::invalid("/set", why))?;
        let set = self.set.iter().map(|(way, value)| (way, Some(value)));
        let unset = self.unset.iter().map(|way| (way, None));
        let declared: Vec<_> =
            set.chain(unset).filter_map(|(way, value)| Some((pointer::single(way).ok()?, value))).collect();
        let parts = declared.iter().flat_map(|(path, value)| leaves(path, *value));
        let parts = parts.map(|path| (object.object(), path)).collect();
        Ok(WantedStates { parts, ..set_fields(view, "/target", &object, &changes)? })
    }

    fn basis(&self) -> Option<String> {
        Some(json!({"set": self.set, "unset": self.unset}).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_objects::K8sState;
    use converge_resource::{ApiProbe, ObjectId};

    fn id() -> ObjectId {
        ObjectId::new("k8s", "nvidia.com/v1/ClusterPolicy/cluster-policy")
    }

    fn live() -> FakeView {
        let (state, content) = K8sState::of(&json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
            "metadata": {"name": "cluster-policy"}, "spec": {"theirs": 1, "daemonsets": {"tolerations":
            [{"key": "a", "operator": "Exists"}]}, "old": {"x": 1, "y": 2}}}));
        let object = ApiRef::from_key("nvidia.com/v1/ClusterPolicy/cluster-policy").unwrap();
        let owned = json!({"metadata": {"managedFields": [{"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:theirs": {}}}}]}});
        FakeView::new().has(id(), state).knows(content).says(ApiProbe::Get(object), owned)
    }

    #[test]
    fn who_has_changed_a_field_by_hand_is_named() {
        let with = |set: Value| {
            let kind = read::<K8sPatch>(json!({"target": "clusterpolicy/cluster-policy", "set": set}));
            kind.plan(&live()).unwrap().notes
        };
        let named = "clusterpolicy cluster-policy: .spec.theirs was changed by `kubectl-edit`";
        assert_eq!(with(json!({"/spec/theirs": 2})), [named]);
        assert_eq!(with(json!({"/spec/theirs": 1})), Vec::<String>::new());
        assert_eq!(with(json!({"/spec/old/x": 3})), Vec::<String>::new());
    }

    #[test]
    fn only_the_named_fields_change() {
        let kind = read::<K8sPatch>(
            json!({"target": "clusterpolicy/cluster-policy", "unset": ["/spec/old/x"], "set": {
            "/spec/devicePlugin/config": {"name": "t", "default": "any"},
            "/spec/daemonsets/tolerations/[key=b]": {"key": "b", "operator": "Exists"}}}),
        );
        let wanted = kind.plan(&live()).unwrap();
        let text = wanted.contents[0].text().unwrap();
        for part in ["theirs: 1", "default: any", "key: a", "key: b", "y: 2"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("x: 1"), "{text}");
        assert_eq!(wanted.calls, []);
        settle(&kind, live());
        // Fields that the server adds to a map, and another order of a list, are not a difference.
        let (state, content) = K8sState::of(&json!({"metadata": {"name": "cluster-policy"}, "spec": {"v": [
            {"name": "b", "mode": 420, "x": 1}, {"name": "a", "mode": 420}], "m": {"k": 1, "added": 2}}}));
        let view = FakeView::new().has(id(), state.clone()).knows(content);
        let same =
            json!({"/spec/v": [{"name": "a"}, {"name": "b", "x": 1}], "/spec/m": {"k": 1, "none": null}});
        let kind = read::<K8sPatch>(json!({"target": "clusterpolicy/cluster-policy", "set": same}));
        assert_eq!(kind.plan(&view).unwrap().targets[0].1, state.into());
        assert!(kind.claims().iter().any(|c| c.mode == converge_resource::ClaimMode::Edit));
    }

    #[test]
    fn what_is_missing_is_waited_for_or_named() {
        let kind = read::<K8sPatch>(json!({"target": "clusterpolicy/cluster-policy", "set": {"/spec/a": 1}}));
        let none = FakeView::new();
        assert!(matches!(kind.plan(&none), Err(Stop::Invalid { pointer, .. }) if pointer == "/target"));
        assert!(matches!(kind.plan(&none.may(id())), Err(Stop::Deferred(_))));
        let odd =
            read::<K8sPatch>(json!({"target": "clusterpolicy/cluster-policy", "set": {"/spec/theirs/a": 1}}));
        assert!(
            matches!(odd.plan(&live()), Err(Stop::Invalid { message, .. }) if message.contains(".spec.theirs"))
        );
    }

    #[test]
    fn wrong_parameters_are_named() {
        let with = |set: Value| wrong::<K8sPatch>(json!({"target": "node/x", "set": set}));
        assert_eq!(with(json!({})), [""]);
        assert_eq!(with(json!({"spec/a": 1})), ["/set"]);
        assert_eq!(with(json!({"/spec/a/[0]": 1})), ["/set"]);
        assert_eq!(with(json!({"/spec/a": 1, "/spec/a/b": 1})), ["/set"]);
        assert_eq!(with(json!({"/status/a": 1})), ["/set"]);
        assert_eq!(wrong::<K8sPatch>(json!({"target": "pod/x", "set": {"/spec/a": 1}})), ["/target"]);
        let secret = json!({"target": "secret/x", "namespace": "n", "set": {"/data/a": "x"}});
        assert_eq!(wrong::<K8sPatch>(secret), ["/target"]);
    }
}
