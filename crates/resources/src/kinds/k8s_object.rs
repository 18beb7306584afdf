//! `k8s_object`

use crate::manifest::{Apply, check_manifest, whole_claims};
use crate::presence::Presence;
use converge_objects::K8sState;
use converge_resource::{ApiRef, Claim, ParamError, Place, Resource, Stop, View, WantedStates};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// One object of a cluster. The parameters are its manifest, with `force_conflicts` and `state` beside it.
#[derive(Debug)]
pub struct K8sObject {
    manifest: Value,
    force: bool,
    state: Presence,
}

impl<'de> Deserialize<'de> for K8sObject {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut map = Map::deserialize(d)?;
        let force = match map.shift_remove("force_conflicts") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(force)) => force,
            Some(_) => return Err(D::Error::custom("`force_conflicts` is true or false")),
        };
        let state = match map.shift_remove("state") {
            None | Some(Value::Null) => Presence::Present,
            Some(word) => Presence::deserialize(word).map_err(D::Error::custom)?,
        };
        for key in ["apiVersion", "kind"] {
            if !map.get(key).is_some_and(Value::is_string) {
                return Err(D::Error::custom(format!("a manifest needs `{key}`, a string")));
            }
        }
        Ok(Self { manifest: Value::Object(map), force, state })
    }
}

impl JsonSchema for K8sObject {
    fn schema_name() -> Cow<'static, str> {
        "K8sObject".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let state = Presence::json_schema(generator);
        json_schema!({
            "description": "An object of a cluster, by server-side apply.\n\nThe parameters are its manifest. The plan asks the server itself what it would make of it (a dry run), so the diff has the \
                server's own defaults in it, and an object that is as it should be is no change. Fields that the manifest leaves out are left alone; a field that it \
                had at an earlier run and has no more goes. A field that another field manager owns is not taken: both managers are named.\n\n\
                What is not there yet because an earlier item brings it (the namespace, the kind) makes the item wait for its turn.",
            "type": "object",
            "required": ["apiVersion", "kind", "metadata"],
            "properties": {
                "apiVersion": {"description": "The version of its kind, as `v1` or `apps/v1`.", "type": "string"},
                "kind": {"description": "Its kind, as `ConfigMap`. For a `Secret` use the kind `secret`.", "type": "string"},
                "metadata": {"description": "Its `name`, its `namespace`, `labels` and `annotations`.", "type": "object"},
                "spec": {"description": "As its kind has it; so are all other keys of a manifest (`data`, `rules` …).", "type": "object"},
                "data": {"description": "The entries of a ConfigMap.", "type": ["object", "null"]},
                "force_conflicts": {"description": "Take fields that another manager owns.", "type": "boolean", "default": false},
                "state": {
                    "description": "Whether it is there. Of an object that is to go, version, kind and name are enough.",
                    "default": "present", "oneOf": state.get("oneOf").cloned().unwrap_or_default()}
            },
            "additionalProperties": true
        })
    }
}

impl Resource for K8sObject {
    const KIND: &'static str = "k8s_object";
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: time-slicing profiles
  k8s_object:
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: time-slicing-config, namespace: gpu-operator}
    data:
      any: |
        version: v1
        sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_manifest(&self.manifest, &mut errors);
        if self.force && self.state == Presence::Absent {
            let help = "leave `force_conflicts` out";
            errors.push(ParamError::new(
                "/force_conflicts",
                "nothing is taken from an object that goes",
                help,
            ));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let object = ApiRef::of(&self.manifest).map(|r| r.object());
        object.map(|object| whole_claims(&object, self.state)).unwrap_or_default()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        match self.state {
            Presence::Present => Apply { manifest: &self.manifest, force: self.force }.plan(view),
            Presence::Absent => {
                let object = ApiRef::of(&self.manifest).ok_or_else(|| Stop::invalid("", "it has no name"))?;
                let _now = view.observed(&object.object())?;
                Ok(WantedStates::one(object.object(), K8sState::Absent))
            }
        }
    }
}

#[cfg(test)]
#[path = "k8s_object_tests.rs"]
mod tests;
