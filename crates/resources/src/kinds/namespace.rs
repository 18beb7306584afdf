//! `namespace`

use crate::manifest::{
    Apply, Marks, check_marks, check_name, edit_claims, given, marks, present, set_fields,
};
use crate::presence::Presence;
use converge_objects::K8sState;
use converge_objects::k8s::fields::FieldPath;
use converge_resource::{ApiRef, Claim, ParamError, Place, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// A namespace of a cluster.
///
/// Several roles may name the same one: each manages the labels and annotations that it gives, and for no others.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Its name.
    name: String,
    /// Labels that it has, as `pod-security.kubernetes.io/enforce: privileged`. One without a value (`null`) is taken away.
    #[serde(default)]
    labels: Marks,
    /// Annotations that it has. One without a value (`null`) is taken away.
    #[serde(default)]
    annotations: Marks,
    /// Whether it is there. With it goes all that is in it, which no snapshot holds.
    #[serde(default)]
    state: Presence,
}

impl Namespace {
    fn object(&self) -> ApiRef {
        ApiRef {
            api_version: "v1".into(),
            kind: "Namespace".into(),
            namespace: None,
            name: self.name.clone(),
        }
    }

    /// Its labels and annotations by their paths.
    fn marks(&self) -> Vec<(FieldPath, Option<Value>)> {
        [marks("labels", &self.labels), marks("annotations", &self.annotations)].concat()
    }

    fn manifest(&self) -> Value {
        let mut manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}});
        for (part, marks) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            let given = given(marks);
            if given != json!({}) {
                manifest["metadata"][part] = given;
            }
        }
        manifest
    }
}

impl Resource for Namespace {
    const KIND: &'static str = "namespace";
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: a namespace whose pods may be privileged
  namespace: {name: gpu-operator, labels: {pod-security.kubernetes.io/enforce: privileged}}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_name("/name", &self.name, &mut errors);
        if errors.is_empty() && (self.name.len() > 63 || self.name.contains(['.', ':'])) {
            let message = format!("`{}` is not a valid name of a namespace", self.name);
            errors.push(ParamError::new("/name", message, "at most 63 letters, digits and `-`"));
        }
        check_marks("labels", &self.labels, &mut errors);
        check_marks("annotations", &self.annotations, &mut errors);
        if self.state == Presence::Absent
            && ["default", "kube-system", "kube-public"].contains(&self.name.as_str())
        {
            let help = "a cluster does not work without it";
            errors.push(ParamError::new("/state", format!("the namespace {} cannot go", self.name), help));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = self.object().object();
        match self.state {
            Presence::Absent => vec![Claim::shared(id, "presence", "absent")],
            Presence::Present => edit_claims(&id),
        }
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let object = self.object();
        let there = present(view, &object)?.is_some();
        match (self.state, there) {
            (Presence::Absent, _) => Ok(WantedStates::one(object.object(), K8sState::Absent)),
            (Presence::Present, false) => {
                let made = Apply { manifest: &self.manifest(), force: false }.plan(view)?;
                let parts = self.marks().into_iter().map(|(path, _)| (object.object(), path)).collect();
                Ok(WantedStates { parts, ..made })
            }
            (Presence::Present, true) => set_fields(view, "/name", &object, &self.marks()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_resource::{ApiCall, ApiProbe, ObjectId};

    fn id() -> ObjectId {
        ObjectId::new("k8s", "v1/Namespace/ns")
    }

    fn live(object: &Value) -> FakeView {
        let (state, content) = K8sState::of(object);
        FakeView::new().has(id(), state).knows(content)
    }

    #[test]
    fn one_that_is_missing_is_made() {
        let kind = read::<Namespace>(json!({"name": "ns", "labels": {"a": "1", "b": null}}));
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "labels": {"a": "1"}}});
        let mut made = manifest.clone();
        made["spec"] = json!({"finalizers": ["kubernetes"]});
        let probe = ApiProbe::Apply { manifest: manifest.to_string(), force: false };
        let view = FakeView::new().says(probe, json!({"object": made}));
        assert_eq!(kind.plan(&view).unwrap().calls, [ApiCall::Apply { manifest, force: false }]);
        settle(&kind, view);
    }

    #[test]
    fn labels_of_others_stay() {
        let view = live(&json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "ns", "labels": {"theirs": "x", "old": "y"}, "annotations": {"n": "1"}}}));
        let kind = read::<Namespace>(
            json!({"name": "ns", "labels": {"a": "1", "old": null}, "annotations": {"n": null}}),
        );
        let wanted = kind.plan(&view).unwrap();
        let text = wanted.contents[0].text().unwrap();
        assert!(text.ends_with("  name: ns\n  labels:\n    a: '1'\n    theirs: x\n"), "{text}");
        assert_eq!(wanted.calls, []);
        settle(&kind, view);
    }

    #[test]
    fn one_goes() {
        let kind = read::<Namespace>(json!({"name": "ns", "state": "absent"}));
        let view = live(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}));
        assert_eq!(settle(&kind, view).line(&id()), "absent");
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Namespace>(json!({"name": "a.b"})), ["/name"]);
        assert_eq!(wrong::<Namespace>(json!({"name": "kube-system", "state": "absent"})), ["/state"]);
        let bad = json!({"name": "x", "labels": {"a b": "1", "a/c": "x y"}, "annotations": {"fine": "x y"}});
        assert_eq!(wrong::<Namespace>(bad), ["/labels/a b", "/labels/a~1c"]);
    }
}
