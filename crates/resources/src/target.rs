//! Objects of a cluster as a user names them: `daemonset/NAME`, or by `apiVersion`, `kind`, `namespace`, `name`.

use converge_resource::{ApiRef, ParamError};
use converge_syntax::did_you_mean;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;

/// A kind that needs no `apiVersion`: the words for it, its version, its name, whether it lives in a namespace.
type Short = (&'static [&'static str], &'static str, &'static str, bool);

const SHORT: &[Short] = &[
    (&["configmap", "cm"], "v1", "ConfigMap", true),
    (&["node", "no"], "v1", "Node", false),
    (&["namespace", "ns"], "v1", "Namespace", false),
    (&["pod", "po"], "v1", "Pod", true),
    (&["service", "svc"], "v1", "Service", true),
    (&["serviceaccount", "sa"], "v1", "ServiceAccount", true),
    (&["secret"], "v1", "Secret", true),
    (&["persistentvolumeclaim", "pvc"], "v1", "PersistentVolumeClaim", true),
    (&["persistentvolume", "pv"], "v1", "PersistentVolume", false),
    (&["daemonset", "ds"], "apps/v1", "DaemonSet", true),
    (&["deployment", "deploy"], "apps/v1", "Deployment", true),
    (&["statefulset", "sts"], "apps/v1", "StatefulSet", true),
    (&["replicaset", "rs"], "apps/v1", "ReplicaSet", true),
    (&["job"], "batch/v1", "Job", true),
    (&["cronjob", "cj"], "batch/v1", "CronJob", true),
    (&["runtimeclass"], "node.k8s.io/v1", "RuntimeClass", false),
    (&["storageclass", "sc"], "storage.k8s.io/v1", "StorageClass", false),
    (&["priorityclass", "pc"], "scheduling.k8s.io/v1", "PriorityClass", false),
    (&["ingress", "ing"], "networking.k8s.io/v1", "Ingress", true),
    (&["networkpolicy", "netpol"], "networking.k8s.io/v1", "NetworkPolicy", true),
    (&["horizontalpodautoscaler", "hpa"], "autoscaling/v2", "HorizontalPodAutoscaler", true),
    (&["poddisruptionbudget", "pdb"], "policy/v1", "PodDisruptionBudget", true),
    (&["resourcequota", "quota"], "v1", "ResourceQuota", true),
    (&["limitrange", "limits"], "v1", "LimitRange", true),
    (&["role"], "rbac.authorization.k8s.io/v1", "Role", true),
    (&["rolebinding"], "rbac.authorization.k8s.io/v1", "RoleBinding", true),
    (&["clusterrole"], "rbac.authorization.k8s.io/v1", "ClusterRole", false),
    (&["clusterrolebinding"], "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", false),
    (&["customresourcedefinition", "crd"], "apiextensions.k8s.io/v1", "CustomResourceDefinition", false),
    (&["clusterpolicy"], "nvidia.com/v1", "ClusterPolicy", false),
    (&["nvidiadriver"], "nvidia.com/v1alpha1", "NVIDIADriver", false),
    (&["clustertrainingruntime"], "trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", false),
];

/// Which chart usually brings the kinds of a group.
const BROUGHT_BY: &[(&str, &str)] = &[
    ("nvidia.com", "the chart gpu-operator"),
    ("nfd.k8s-sigs.io", "the chart node-feature-discovery, which gpu-operator holds too"),
    ("monitoring.coreos.com", "the chart kube-prometheus-stack"),
    ("cert-manager.io", "the chart cert-manager"),
    ("trainer.kubeflow.org", "the chart kubeflow-trainer"),
    ("actions.github.com", "the chart gha-runner-scale-set-controller"),
    ("karpenter.sh", "the chart karpenter"),
    ("keda.sh", "the chart keda"),
    ("amd.com", "the chart gpu-operator of ROCm"),
];

/// Help for a kind that the server does not know: how it can be installed, or which known kind may be meant.
pub fn missing_kind_help(api_version: &str, kind: &str) -> String {
    let same = SHORT.iter().find(|(_, version, name, _)| *name == kind && *version != api_version);
    if let Some((_, version, ..)) = same {
        return format!("{kind} is of `apiVersion: {version}`");
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let known = SHORT.iter().any(|(_, version, name, _)| *name == kind && *version == api_version);
    let near = did_you_mean(kind, SHORT.iter().map(|(_, _, name, _)| *name));
    if let Some(near) = near.filter(|_| !known) {
        return format!("did you mean the kind {near}?");
    }
    let chart = BROUGHT_BY.iter().find(|(name, _)| *name == group).map(|(_, chart)| *chart);
    let chart = chart.unwrap_or("the chart or the CustomResourceDefinition that defines it");
    format!(
        "{chart} brings it: install it with an earlier resource, or name the role that does so in `requires`"
    )
}

/// One object, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenObject {
    /// `kind/name`.
    Short(String),
    /// In full.
    Full(ApiRef),
}

impl WrittenObject {
    /// The object; `namespace` is the parameter beside it.
    pub fn find(&self, pointer: &str, namespace: Option<&str>) -> Result<ApiRef, ParamError> {
        let text = match self {
            Self::Full(full) => {
                let own = full.namespace.clone().or_else(|| namespace.map(str::to_owned));
                let found = ApiRef { namespace: own, ..full.clone() };
                return if ApiRef::from_key(&found.key()).as_ref() == Some(&found) {
                    Ok(found)
                } else {
                    let help = "write `{apiVersion: apps/v1, kind: DaemonSet, namespace: x, name: y}`";
                    Err(ParamError::new(pointer, format!("`{}` is no object", found.key()), help))
                };
            }
            Self::Short(text) => text,
        };
        let (word, name) = text.split_once('/').unwrap_or((text, ""));
        if word.is_empty() || name.is_empty() || name.contains('/') {
            let help = "write `daemonset/NAME`, or `{apiVersion: apps/v1, kind: DaemonSet, name: NAME}`";
            return Err(ParamError::new(pointer, format!("`{text}` is not KIND/NAME"), help));
        }
        let (api_version, kind, namespaced) = short(pointer, word)?;
        let namespace = match (namespaced, namespace) {
            (true, None) => {
                let message = format!("a {word} lives in a namespace");
                return Err(ParamError::new(pointer, message, "add `namespace: NAME`"));
            }
            (true, Some(namespace)) => Some(namespace.to_owned()),
            (false, _) => None,
        };
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        Ok(ApiRef { api_version, kind, namespace, name: name.to_owned() })
    }
}

/// Whether objects of a kind live in a namespace; `None` for kinds that others define.
pub fn in_namespace(api_version: &str, kind: &str) -> Option<bool> {
    let known = SHORT.iter().find(|(_, version, name, _)| *version == api_version && *name == kind);
    known.map(|(.., namespaced)| *namespaced)
}

/// Version and name of a kind by a word for it, and whether it lives in a namespace.
pub fn short(pointer: &str, word: &str) -> Result<(&'static str, &'static str, bool), ParamError> {
    let folded = word.to_lowercase();
    let fits =
        |(words, ..): &&Short| words.iter().any(|w| *w == folded || folded.strip_suffix('s') == Some(w));
    if let Some((_, version, kind, namespaced)) = SHORT.iter().find(fits) {
        return Ok((version, kind, *namespaced));
    }
    let all = SHORT.iter().flat_map(|(words, ..)| words.iter().copied());
    let help = match did_you_mean(&folded, all) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write it in full, with `apiVersion` and `kind`".to_owned(),
    };
    Err(ParamError::new(pointer, format!("`{word}` is not a kind that needs no `apiVersion`"), help))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Full {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    namespace: Option<String>,
    name: String,
}

struct ReadOne;

impl<'de> Visitor<'de> for ReadOne {
    type Value = WrittenObject;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`KIND/NAME`, or a map with `apiVersion`, `kind` and `name`")
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<WrittenObject, E> {
        Ok(WrittenObject::Short(text.to_owned()))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WrittenObject, A::Error> {
        let Full { api_version, kind, namespace, name } = Full::deserialize(MapAccessDeserializer::new(map))?;
        Ok(WrittenObject::Full(ApiRef { api_version, kind, namespace, name }))
    }
}

impl<'de> Deserialize<'de> for WrittenObject {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(ReadOne)
    }
}

fn one_schema() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["apiVersion", "kind", "name"], "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"},
        "namespace": {"type": ["string", "null"]}, "name": {"type": "string"}}})
}

impl JsonSchema for WrittenObject {
    fn schema_name() -> Cow<'static, str> {
        "Target".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "string"}, one_schema()]})
    }
}

/// One object or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets(pub Vec<WrittenObject>);

impl Targets {
    /// The objects.
    pub fn find(&self, namespace: Option<&str>) -> Result<Vec<ApiRef>, ParamError> {
        let one = self.0.len() == 1;
        let pointer = |at: usize| if one { "/target".to_owned() } else { format!("/target/{at}") };
        self.0.iter().enumerate().map(|(at, target)| target.find(&pointer(at), namespace)).collect()
    }
}

impl<'de> Deserialize<'de> for Targets {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct TargetVisitor;
        impl<'de> Visitor<'de> for TargetVisitor {
            type Value = Targets;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one object or a list of them")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Targets, E> {
                ReadOne.visit_str(text).map(|one| Targets(vec![one]))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Targets, A::Error> {
                ReadOne.visit_map(map).map(|one| Targets(vec![one]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Targets, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Targets)
            }
        }
        d.deserialize_any(TargetVisitor)
    }
}

impl JsonSchema for Targets {
    fn schema_name() -> Cow<'static, str> {
        "Targets".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let list = json!({"type": "array", "items": {"anyOf": [{"type": "string"}, one_schema()]}});
        json_schema!({"anyOf": [{"type": "string"}, one_schema(), list]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(value: Value, namespace: Option<&str>) -> Result<String, String> {
        let target: WrittenObject = serde_json::from_value(value).map_err(|e| e.to_string())?;
        target
            .find("/target", namespace)
            .map(|r| r.key())
            .map_err(|e| format!("{} ({:?})", e.message, e.help))
    }

    #[test]
    fn objects_are_named_short_or_in_full() {
        assert_eq!(found(json!("daemonset/x"), Some("ns")), Ok("apps/v1/DaemonSet/ns/x".into()));
        assert_eq!(found(json!("clusterpolicy/p"), Some("ns")), Ok("nvidia.com/v1/ClusterPolicy/p".into()));
        let full = json!({"apiVersion": "a.b/v1", "kind": "Thing", "name": "x"});
        assert_eq!(found(full.clone(), None), Ok("a.b/v1/Thing/x".into()));
        assert_eq!(found(full, Some("ns")), Ok("a.b/v1/Thing/ns/x".into()));
    }

    #[test]
    fn what_is_none_is_refused() {
        assert!(found(json!("daemonset/x"), None).unwrap_err().contains("namespace: NAME"));
        assert!(found(json!("deamonset/x"), None).unwrap_err().contains("did you mean `daemonset`"));
        assert!(found(json!("thing/x"), None).unwrap_err().contains("in full"));
        assert!(found(json!("daemonset"), None).unwrap_err().contains("KIND/NAME"));
        assert!(found(json!({"apiVersion": "v1", "kind": "node", "name": "x"}), None).is_err());
        assert!(found(json!({"kind": "Node", "name": "x"}), None).is_err());
        let list: Targets = serde_json::from_value(json!(["node/a", "nod/b"])).unwrap();
        assert_eq!(list.find(None).unwrap_err().pointer, "/target/1");
    }

    #[test]
    fn a_kind_that_is_missing_is_explained() {
        assert_eq!(
            missing_kind_help("extensions/v1beta1", "Deployment"),
            "Deployment is of `apiVersion: apps/v1`"
        );
        assert_eq!(missing_kind_help("v1", "ConfigMpa"), "did you mean the kind ConfigMap?");
        assert!(missing_kind_help("nvidia.com/v2", "Other").contains("the chart gpu-operator brings it"));
    }
}
