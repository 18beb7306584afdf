//! `k8s_query`

use crate::picked::check_selector;
use crate::target::{WrittenObject, short};
use converge_resource::{ApiProbe, ApiRef, Claim, ParamError, Place, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// A read-only question to a cluster: one object, or a list of them.
///
/// With `register` its answer is a value for later resources: the object as the server gives it, or the list. One object that is not there is a failure, unless
/// `may_be_absent` says otherwise.
/// Behind an earlier change of the same run the answer could become another, so the question then waits for its turn, and with it
/// all that reads the answer; `before_changes` asks now.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-converge-outputs" = true))]
pub struct K8sQuery {
    /// One object: `node/gpu-1`, or in full: `{apiVersion: …, kind: …, namespace: …, name: …}`.
    target: Option<WrittenObject>,
    /// In place of `target`: all objects of this kind, as `node`; with `name` the one of this name.
    kind: Option<String>,
    /// The name of one object of `kind`.
    name: Option<String>,
    /// The version of `kind`, where it is not one of Kubernetes' own.
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    /// The namespace of `target` or `kind`.
    namespace: Option<String>,
    /// Labels of the objects of `kind`, as kubectl takes a selector.
    selector: Option<String>,
    /// One object that is not there is an answer, `null`, and no failure.
    #[serde(default)]
    may_be_absent: bool,
    /// Ask how the cluster is before this run changes it, whatever comes earlier.
    #[serde(default)]
    before_changes: bool,
}

impl K8sQuery {
    fn probe(&self) -> Result<ApiProbe, ParamError> {
        if let Some(target) = &self.target {
            return target.find("/target", self.namespace.as_deref()).map(ApiProbe::Get);
        }
        let word = self.kind.as_deref().unwrap_or_default();
        if let Some(name) = &self.name {
            let target = match &self.api_version {
                None => WrittenObject::Short(format!("{word}/{name}")),
                Some(version) => WrittenObject::Full(ApiRef {
                    api_version: version.clone(),
                    kind: word.to_owned(),
                    namespace: None,
                    name: name.clone(),
                }),
            };
            return target.find("/kind", self.namespace.as_deref()).map(ApiProbe::Get);
        }
        let (api_version, kind) = match &self.api_version {
            Some(version) => (version.clone(), word.to_owned()),
            None => short("/kind", word).map(|(version, kind, _)| (version.to_owned(), kind.to_owned()))?,
        };
        let (namespace, labels) = (self.namespace.clone(), self.selector.clone());
        Ok(ApiProbe::List { api_version, kind, namespace, labels })
    }
}

/// Who set which field is for the server alone.
fn bare(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
    object
}

impl Resource for K8sQuery {
    const KIND: &'static str = "k8s_query";
    const READ_ONLY: bool = true;
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: nodes with GPUs
  k8s_query: {kind: node, selector: nvidia.com/gpu.present=true}
  register: gpu_nodes
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        match (&self.target, &self.kind) {
            (None, None) => errors.push(ParamError::fixed("", "nothing is asked", "give `target` or `kind`")),
            (Some(_), Some(_)) => {
                let help = "keep one of `target` and `kind`";
                errors.push(ParamError::fixed("/kind", "`target` and `kind` both name the objects", help));
            }
            _ => match self.probe() {
                Err(error) => errors.push(error),
                Ok(probe) => {
                    let kind = match &probe {
                        ApiProbe::Get(object) => object.kind.as_str(),
                        ApiProbe::List { kind, .. } => kind.as_str(),
                        _ => "",
                    };
                    if kind == "Secret" {
                        let help = "a role gets its secrets from inputs that are `sensitive`";
                        errors.push(ParamError::fixed("", "a Secret's values would stand in the plan", help));
                    }
                }
            },
        }
        if self.name.is_some() && (self.kind.is_none() || self.selector.is_some()) {
            let help = "give `kind` with it, and no `selector`";
            errors.push(ParamError::fixed("/name", "`name` is the name of one object of `kind`", help));
        }
        if let Some(selector) = &self.selector {
            check_selector("/selector", selector, &mut errors);
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        if !self.before_changes {
            view.after_changes()?;
        }
        let probe = self.probe().map_err(|e| Stop::invalid(&e.pointer, e.message))?;
        let output = match view.api(&probe)? {
            Value::Array(list) => Value::Array(list.into_iter().map(bare).collect()),
            // A kind that the server does not know has no objects.
            Value::Null => match &probe {
                ApiProbe::Get(object) if !self.may_be_absent => {
                    return Err(match view.may_appear(&object.object()) {
                        Some(wait) => Stop::Deferred(wait),
                        None => Stop::Failed(format!("{} is not there", object.shown())),
                    });
                }
                ApiProbe::Get(_) => Value::Null,
                _ => Value::Array(Vec::new()),
            },
            object => bare(object),
        };
        Ok(WantedStates { output: Some(output), ..WantedStates::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_resource::ObjectId;
    use serde_json::json;

    #[test]
    fn the_answer_is_a_value() {
        let kind = read::<K8sQuery>(json!({"target": "node/a"}));
        let node = json!({"metadata": {"name": "a", "managedFields": []}});
        let view = FakeView::new().says(kind.probe().unwrap(), node);
        assert_eq!(kind.plan(&view).unwrap().output, Some(json!({"metadata": {"name": "a"}})));
        settle(&kind, view);
        let named = json!({"kind": "Node", "name": "a"});
        assert_eq!(read::<K8sQuery>(named.clone()).probe(), kind.probe());
        let gone = FakeView::new().says(kind.probe().unwrap(), Value::Null);
        assert_eq!(read::<K8sQuery>(named).plan(&gone), Err(Stop::Failed("node a is not there".into())));
        let node = ObjectId::new("k8s", "v1/Node/a");
        let joins = FakeView::new().says(kind.probe().unwrap(), Value::Null).may(node);
        assert!(matches!(kind.plan(&joins), Err(Stop::Deferred(_))), "it is on its way");
        let maybe = read::<K8sQuery>(json!({"target": "node/a", "may_be_absent": true}));
        assert_eq!(maybe.plan(&gone).unwrap().output, Some(Value::Null));
        let list = read::<K8sQuery>(json!({"kind": "Thing", "apiVersion": "a.b/v1"}));
        let none = FakeView::new().says(list.probe().unwrap(), Value::Null);
        assert_eq!(list.plan(&none).unwrap().output, Some(json!([])));
    }

    #[test]
    fn it_waits_for_earlier_changes() {
        let kind = read::<K8sQuery>(json!({"kind": "nodes"}));
        let view = FakeView::new().says(kind.probe().unwrap(), json!([])).pending();
        assert!(matches!(kind.plan(&view), Err(Stop::Deferred(_))));
        assert!(read::<K8sQuery>(json!({"kind": "nodes", "before_changes": true})).plan(&view).is_ok());
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<K8sQuery>(json!({})), [""]);
        assert_eq!(wrong::<K8sQuery>(json!({"target": "node/a", "kind": "node"})), ["/kind"]);
        assert_eq!(wrong::<K8sQuery>(json!({"kind": "secret"})), [""]);
        assert_eq!(wrong::<K8sQuery>(json!({"kind": "nod"})), ["/kind"]);
        assert_eq!(wrong::<K8sQuery>(json!({"kind": "node", "selector": " "})), ["/selector"]);
    }

    #[test]
    fn the_reason_why_a_secret_is_refused_holds_no_value() {
        let params = json!({"kind": "secret", "name": "s", "namespace": "ns"});
        let errors = serde_json::from_value::<K8sQuery>(params).unwrap().validate();
        assert!(
            errors.iter().all(|e| e.holds_no_value) && errors[0].message.contains("Secret"),
            "{errors:?}"
        );
    }
}
