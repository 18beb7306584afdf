//! Nodes that are not Ready.

use super::super::view::{ClusterView, few, is_ready, list, name, ready, short, text};
use super::{Diagnosis, Health};
use serde_json::Value;

/// containerd has lost its base runtime.
pub(in super::super) const RUNC: Diagnosis = Diagnosis {
    step: "runc",
    symptom: "a node is NotReady after the GPU operator was installed",
    cause: "the toolkit's drop-in hides the runtime runc: containerd serves no pods without its default runtime",
    help: "give containerd a configuration in which runc is defined, and the drop-in only nvidia; then restart containerd",
    role: Some("k8s"),
    look: runc,
};

/// No pod network.
pub(in super::super) const NETWORK: Diagnosis = Diagnosis {
    step: "network",
    symptom: "a new node stays NotReady",
    cause: "there is no pod network on the node",
    help: "bring a network plugin, or let the role k8s do it (`k8s_pod_network: bridge`)",
    role: Some("k8s"),
    look: network,
};

/// Any other reason.
pub(in super::super) const NOT_READY: Diagnosis = Diagnosis {
    step: "node",
    symptom: "a node is NotReady",
    cause: "its kubelet does not report, or reports that it cannot run pods",
    help: "`converge doctor` looks at the host itself where the inventory has it; there: `systemctl status kubelet containerd`",
    role: Some("k8s"),
    look: not_ready,
};

const NO_RUNC: &[&str] = &[
    "no corresponding runtime configured",
    "default_runtime_name",
    "no runtime for \"runc\"",
    "unknown service runtime.v1",
];
const NO_NETWORK: &[&str] =
    &["cni plugin not initialized", "cni config uninitialized", "NetworkPluginNotReady"];

fn message(node: &Value) -> &str {
    ready(node).map_or("", |condition| text(condition, "/message"))
}

fn says(node: &Value, texts: &[&str]) -> bool {
    texts.iter().any(|wanted| message(node).contains(wanted))
}

/// Does it know other runtimes, and not runc?
fn lost_runc(node: &Value) -> bool {
    let handlers = list(node, "/status/runtimeHandlers");
    let named = |wanted: &str| handlers.iter().any(|handler| text(handler, "/name") == wanted);
    named("nvidia") && !named("runc") && !named("")
}

fn tell<'a>(nodes: impl Iterator<Item = &'a Value>) -> Option<(Health, String)> {
    let nodes: Vec<&Value> = nodes.collect();
    let first = nodes.first()?;
    let detail = match message(first) {
        "" => String::new(),
        detail => format!(": {}", short(detail)),
    };
    let reason = ready(first).map_or("Unknown", |condition| text(condition, "/reason"));
    Some((Health::Ill, format!("not Ready: {} ({reason}{detail})", few(nodes.iter().map(|node| name(node))))))
}

fn runc(view: &ClusterView) -> Option<(Health, String)> {
    tell(view.nodes.iter().filter(|node| !is_ready(node) && (says(node, NO_RUNC) || lost_runc(node))))
}

fn network(view: &ClusterView) -> Option<(Health, String)> {
    tell(view.nodes.iter().filter(|node| !is_ready(node) && says(node, NO_NETWORK)))
}

fn not_ready(view: &ClusterView) -> Option<(Health, String)> {
    let known = |node: &Value| says(node, NO_RUNC) || says(node, NO_NETWORK) || lost_runc(node);
    tell(view.nodes.iter().filter(|node| !is_ready(node) && !known(node)))
}
