//! The input of the diagnoses: the answers of an API server, and short ways through them.

use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

/// The resource of NVIDIA's GPUs.
pub(super) const GPU: &str = NVIDIA.resource;

/// A maker of GPUs: the resource that its nodes offer, and how its nodes are recognised.
pub(super) struct Maker {
    /// The resource of whole GPUs.
    pub resource: &'static str,
    /// The beginning of all its resources: GPUs, and parts of them.
    domain: &'static str,
    /// Labels with values that say that a node has such GPUs, as feature discovery and the makers' labellers write them.
    labels: &'static [(&'static str, &'static str)],
    /// The beginning of labels that only a node with such GPUs has.
    label_prefix: &'static str,
}

/// NVIDIA's GPUs.
pub(super) const NVIDIA: Maker = Maker {
    resource: "nvidia.com/gpu",
    domain: "nvidia.com/",
    labels: &[("nvidia.com/gpu.present", "true"), ("feature.node.kubernetes.io/pci-10de.present", "true")],
    label_prefix: "nvidia.com/gpu.product",
};

/// AMD's GPUs.
pub(super) const AMD: Maker = Maker {
    resource: "amd.com/gpu",
    domain: "amd.com/",
    labels: &[("feature.node.kubernetes.io/amd-gpu", "true")],
    label_prefix: "amd.com/gpu.",
};

/// Names that a sentence lists before it says "and N more".
const SHOWN: usize = 4;

/// A cluster as its API server shows it.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterView {
    pub nodes: Vec<Value>,
    pub daemon_sets: Vec<Value>,
    /// The operators' Deployments.
    pub operators: Vec<Value>,
    pub runtime_classes: Vec<Value>,
    /// `None` when the server has no such kind.
    pub policies: Option<Vec<Value>>,
    /// helm's Secrets of newest revisions.
    pub releases: Vec<Value>,
    /// Warnings alone.
    pub events: Vec<Value>,
    pub quotas: Vec<Value>,
    /// Of kube-system and the namespaces of GPU parts, and those of which an event says that they do not start.
    pub pods: Vec<Value>,
    /// Those that a device plugin is configured with.
    pub config_maps: Vec<Value>,
    /// The caches and services of NVIDIA's NIM operator.
    pub nims: Vec<Value>,
    /// The sets of runners of GitHub's controller.
    pub runner_sets: Vec<Value>,
}

/// Text at a JSON pointer, empty when there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A list at a JSON pointer.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The name of an object.
pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The namespace of an object.
pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// `namespace/name`.
pub(super) fn full(object: &Value) -> String {
    format!("{}/{}", namespace(object), name(object))
}

/// A label.
pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// An annotation.
pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// A number, as Kubernetes writes one: bare or as text.
pub(super) fn number(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The amount of a resource that a node has, in `capacity` or `allocatable`.
pub(super) fn resource(node: &Value, which: &str, resource: &str) -> Option<u64> {
    number(node.get("status")?.get(which)?.get(resource))
}

/// Does the node offer, or has it the capacity for, anything of this maker?
pub(super) fn offers(node: &Value, maker: &Maker) -> bool {
    let capacity = node.pointer("/status/capacity").and_then(Value::as_object);
    let own = capacity.into_iter().flatten().filter(|(key, _)| key.starts_with(maker.domain));
    own.into_iter().any(|(_, count)| number(Some(count)).is_some_and(|count| count > 0))
}

/// Has the object a label that begins so?
fn has_label_prefix(object: &Value, prefix: &str) -> bool {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels.is_some_and(|labels| labels.keys().any(|key| key.starts_with(prefix)))
}

/// A moment at a JSON pointer.
pub(super) fn moment(value: &Value, pointer: &str) -> Option<Timestamp> {
    text(value, pointer).parse().ok()
}

/// A few names, and how many more.
pub(super) fn few(names: impl IntoIterator<Item = impl Into<String>>) -> String {
    let names: Vec<String> = names.into_iter().map(Into::into).collect();
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => {
            let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
            format!("{} and {more} more", shown.join(", "))
        }
        _ => names.join(", "),
    }
}

/// The first sentence of a message, at most 160 characters.
pub(super) fn short(reply: &str) -> String {
    let line = reply.lines().next().unwrap_or_default().trim();
    match line.char_indices().nth(160) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// Is this node Ready?
pub(super) fn is_ready(node: &Value) -> bool {
    ready(node).is_some_and(|condition| text(condition, "/status") == "True")
}

/// The condition Ready of a node.
pub(super) fn ready(node: &Value) -> Option<&Value> {
    list(node, "/status/conditions").iter().find(|condition| text(condition, "/type") == "Ready")
}

/// Is this the DaemonSet of a part of AMD's?
fn is_amd(set: &Value) -> bool {
    let containers = list(set, "/spec/template/spec/containers");
    name(set).contains("amd")
        || containers.iter().any(|container| text(container, "/image").contains("rocm/"))
}

/// Whether a pod with this specification tolerates the taint.
pub(super) fn tolerates(spec: &Value, taint: &Value) -> bool {
    let key = text(taint, "/key");
    list(spec, "/tolerations").iter().any(|toleration| {
        let exists = text(toleration, "/operator") == "Exists";
        let wanted = text(toleration, "/key");
        let effect = text(toleration, "/effect");
        (wanted == key || (exists && wanted.is_empty()))
            && (exists || text(toleration, "/value") == text(taint, "/value"))
            && (effect.is_empty() || effect == text(taint, "/effect"))
    })
}

/// Whether the selector of a pod with this specification selects the node.
pub(super) fn takes(spec: &Value, node: &Value) -> bool {
    spec.pointer("/nodeSelector").and_then(Value::as_object).is_none_or(|selector| selects(node, selector))
}

/// Does this pair of labels select the node?
fn selects(node: &Value, selector: &serde_json::Map<String, Value>) -> bool {
    selector.iter().all(|(key, value)| label(node, key) == value.as_str())
}

impl ClusterView {
    /// Nodes with GPUs of this maker, as far as something has said so: the kubelet or feature discovery.
    pub fn nodes_of<'a>(&'a self, maker: &'a Maker) -> impl Iterator<Item = &'a Value> {
        self.nodes.iter().filter(move |node| {
            resource(node, "capacity", maker.resource).is_some_and(|count| count > 0)
                || maker.labels.iter().any(|(key, value)| label(node, key) == Some(value))
                || has_label_prefix(node, maker.label_prefix)
                || maker.resource == GPU
                    && label(node, "nvidia.com/gpu.count").is_some_and(|count| count != "0")
        })
    }

    /// How many nodes have GPUs, whoever made them.
    pub fn with_gpus(&self) -> usize {
        let both = self.nodes_of(&NVIDIA).chain(self.nodes_of(&AMD));
        both.map(name).collect::<BTreeSet<_>>().len()
    }

    /// Nodes with NVIDIA's GPUs.
    pub fn gpu_nodes(&self) -> impl Iterator<Item = &Value> {
        self.nodes_of(&NVIDIA)
    }

    /// The DaemonSets of this maker's device plugin.
    pub fn plugins_of<'a>(&'a self, maker: &'a Maker) -> impl Iterator<Item = &'a Value> {
        self.daemon_sets.iter().filter(move |set| {
            name(set).contains("device-plugin")
                && !name(set).contains("mps")
                && is_amd(set) == (maker.resource == AMD.resource)
        })
    }

    /// The DaemonSets of NVIDIA's device plugin.
    pub fn plugins(&self) -> impl Iterator<Item = &Value> {
        self.plugins_of(&NVIDIA)
    }

    /// The nodes that a DaemonSet selects, whatever their taints.
    pub fn selected_by(&self, set: &Value) -> Vec<&Value> {
        let spec = set.pointer("/spec/template/spec").unwrap_or(&Value::Null);
        self.nodes.iter().filter(|node| takes(spec, node)).collect()
    }

    /// The namespaces in which GPU parts run.
    pub fn gpu_namespaces(&self) -> BTreeSet<&str> {
        let is_gpu = |set: &&Value| {
            let name = name(set);
            is_amd(set) || ["nvidia", "gpu", "dcgm"].iter().any(|word| name.contains(word))
        };
        let sets = self.daemon_sets.iter().filter(is_gpu).chain(&self.operators);
        sets.map(namespace).filter(|name| !name.is_empty()).collect()
    }

    /// Namespace and name of the ConfigMaps that device plugins read.
    pub fn configs(&self) -> BTreeSet<(String, String)> {
        let mut found = BTreeSet::new();
        for policy in self.policies.iter().flatten() {
            let config = text(policy, "/spec/devicePlugin/config/name");
            let place = self.plugins().chain(&self.operators).next().map_or("gpu-operator", namespace);
            if !config.is_empty() {
                found.insert((place.to_owned(), config.to_owned()));
            }
        }
        for set in self.plugins() {
            for volume in list(set, "/spec/template/spec/volumes") {
                let config = text(volume, "/configMap/name");
                // The operator's own entry points are no configuration.
                if !config.is_empty() && !config.contains("entrypoint") {
                    found.insert((namespace(set).to_owned(), config.to_owned()));
                }
            }
        }
        found
    }

    /// The pods of a DaemonSet.
    pub fn pods_of<'a>(&'a self, set: &'a Value) -> impl Iterator<Item = &'a Value> {
        self.pods.iter().filter(move |pod| {
            namespace(pod) == namespace(set)
                && list(pod, "/metadata/ownerReferences")
                    .iter()
                    .any(|owner| text(owner, "/kind") == "DaemonSet" && text(owner, "/name") == name(set))
        })
    }

    /// The namespaces of models.
    pub fn nim_namespaces(&self) -> BTreeSet<&str> {
        self.nims.iter().map(namespace).collect()
    }

    /// The pods of the GPU parts' namespaces.
    pub fn gpu_pods(&self) -> impl Iterator<Item = &Value> {
        let places = self.gpu_namespaces();
        self.pods.iter().filter(move |pod| places.contains(namespace(pod)))
    }

    /// Warnings whose message has one of these texts, about what is still there and still not started.
    pub fn warnings<'a>(&'a self, texts: &'a [&str]) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| {
            let message = text(event, "/message");
            texts.iter().any(|wanted| message.contains(wanted)) && self.still_holds(event)
        })
    }

    /// An event tells the past: that of a pod counts while the pod has not started, that of a DaemonSet while it lacks pods.
    fn still_holds(&self, event: &Value) -> bool {
        let meant = |object: &&Value| {
            name(object) == text(event, "/involvedObject/name")
                && namespace(object) == text(event, "/involvedObject/namespace")
        };
        match text(event, "/involvedObject/kind") {
            "Pod" => {
                let open = |pod: &Value| matches!(text(pod, "/status/phase"), "Pending" | "Failed");
                self.pods.iter().filter(meant).any(open)
            }
            "DaemonSet" => {
                let count = |set: &Value, which: &str| number(set.pointer(&format!("/status/{which}")));
                let whole = |set: &Value| {
                    count(set, "numberReady")
                        .is_some_and(|ready| ready > 0 && count(set, "desiredNumberScheduled") == Some(ready))
                };
                !self.daemon_sets.iter().filter(meant).any(whole)
            }
            _ => true,
        }
    }
}

/// The object of an event: `namespace/name`.
pub(super) fn about(event: &Value) -> String {
    format!("{}/{}", text(event, "/involvedObject/namespace"), text(event, "/involvedObject/name"))
}
