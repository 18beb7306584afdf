//! `secret`

use crate::manifest::{Apply, Marks, check_marks, check_name, given, whole_claims};
use crate::presence::Presence;
use base64::Engine as _;
use converge_objects::K8sState;
use converge_resource::{ApiRef, Claim, ParamError, Place, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// A Secret of a cluster.
///
/// Its values are never shown: the resource is sensitive as a whole, and diffs and records have digests where the values are.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Secret {
    /// Its name.
    name: String,
    /// Its namespace.
    namespace: String,
    /// Its type, as `kubernetes.io/dockerconfigjson`.
    #[serde(rename = "type", default = "opaque")]
    sort: String,
    /// Its entries as they are, not in base64. It has these and no others.
    #[serde(default)]
    data: Hidden,
    /// Its labels.
    #[serde(default)]
    labels: Marks,
    /// Take fields that another manager owns.
    #[serde(default)]
    force_conflicts: bool,
    /// Whether it is there.
    #[serde(default)]
    state: Presence,
}

/// Values that no debug output shows.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
struct Hidden(BTreeMap<String, String>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.keys())
    }
}

fn opaque() -> String {
    "Opaque".to_owned()
}

impl Secret {
    fn object(&self) -> ApiRef {
        let namespace = Some(self.namespace.clone());
        ApiRef { api_version: "v1".into(), kind: "Secret".into(), namespace, name: self.name.clone() }
    }

    fn manifest(&self) -> Value {
        let encoded = |text: &String| base64::engine::general_purpose::STANDARD.encode(text);
        let data: Map<String, Value> =
            self.data.0.iter().map(|(key, text)| (key.clone(), encoded(text).into())).collect();
        let mut metadata = json!({"name": self.name, "namespace": self.namespace});
        if !self.labels.is_empty() {
            metadata["labels"] = given(&self.labels);
        }
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": self.sort, "data": data})
    }
}

impl Resource for Secret {
    const KIND: &'static str = "secret";
    const PLACES: &'static [Place] = &[Place::Cluster];
    const SENSITIVE: bool = true;
    const EXAMPLE: &'static str = "\
- name: the token of the registry
  secret: {name: ngc-api, namespace: nim, data: {NGC_API_KEY: not a real key}}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_name("/name", &self.name, &mut errors);
        check_name("/namespace", &self.namespace, &mut errors);
        check_marks("labels", &self.labels, &mut errors);
        let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        for key in self.data.0.keys().filter(|key| key.is_empty() || !key.bytes().all(good)) {
            let message = format!("`{key}` is not a valid name of an entry");
            errors.push(ParamError::new("/data", message, "write letters, digits, `-`, `_` and `.`"));
        }
        if self.state == Presence::Present && self.data.0.is_empty() {
            errors.push(ParamError::new("/data", "the Secret would be empty", "give its entries"));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        whole_claims(&self.object().object(), self.state)
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        match self.state {
            Presence::Present => Apply { manifest: &self.manifest(), force: self.force_conflicts }.plan(view),
            Presence::Absent => {
                let id = self.object().object();
                let _now = view.observed(&id)?;
                Ok(WantedStates::one(id, K8sState::Absent))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_resource::ApiProbe;

    #[test]
    fn values_go_in_base64_and_are_never_shown() {
        let kind = read::<Secret>(json!({"name": "s", "namespace": "ns", "data": {"key": "hunter2"}}));
        let manifest = kind.manifest();
        assert_eq!(manifest["data"]["key"], "aHVudGVyMg==");
        let probe = ApiProbe::Apply { manifest: manifest.to_string(), force: false };
        let view = FakeView::new().says(probe, json!({"object": manifest}));
        let wanted = kind.plan(&view).unwrap();
        let text = wanted.contents[0].text().unwrap();
        assert!(!text.contains("aHVudGVyMg") && text.contains("(sha256 "), "{text}");
        assert!(!format!("{kind:?}").contains("hunter2"));
        settle(&kind, view);
    }

    #[test]
    fn it_goes() {
        let kind = read::<Secret>(json!({"name": "s", "namespace": "ns", "state": "absent"}));
        let (state, _) = K8sState::of(&json!({"kind": "Secret"}));
        let id = kind.object().object();
        assert_eq!(settle(&kind, FakeView::new().has(id.clone(), state)).line(&id), "absent");
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(
            wrong::<Secret>(json!({"name": "S", "namespace": "ns", "data": {"a b": ""}})),
            ["/name", "/data"]
        );
        assert_eq!(wrong::<Secret>(json!({"name": "s", "namespace": "ns"})), ["/data"]);
        assert_eq!(wrong::<Secret>(json!({"name": "s", "data": {}})), ["parse "]);
    }
}
