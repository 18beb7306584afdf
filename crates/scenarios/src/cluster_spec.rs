//! The cluster of a scenario, as it is written under `cluster`.

use converge_resource::ApiRef;
use converge_syntax::{Diagnostic, Diagnostics, Node, Spanned, from_node};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Simulated nodes of one scenario at most.
const MAX_NODES: u32 = 1000;

/// What the cluster is like before.
#[derive(Clone, Debug, Default)]
pub struct ClusterSpec {
    /// Simulated nodes.
    pub nodes: Vec<NodesSpec>,
    /// Objects that are there before, in this order.
    pub objects: Vec<serde_json::Value>,
}

/// Nodes that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesSpec {
    /// They are called `PREFIX-1` to `PREFIX-COUNT`.
    pub prefix: Spanned<String>,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// GPUs of each: its capacity of `nvidia.com/gpu`.
    #[serde(default)]
    pub gpus: u32,
    /// How many of them are allocatable; all when left out.
    #[serde(default)]
    pub allocatable: Option<u32>,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints: `key=value:Effect`.
    #[serde(default)]
    pub taints: Vec<Spanned<String>>,
    /// Whether the kubelet lives.
    #[serde(default = "yes")]
    pub ready: bool,
    /// Whether they are cordoned.
    #[serde(default)]
    pub cordoned: bool,
    /// What their status says beside: a map.
    #[serde(default)]
    pub status: Option<Node>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    tier: Option<Spanned<String>>,
    #[serde(default)]
    nodes: Vec<NodesSpec>,
    #[serde(default)]
    objects: Option<Node>,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// `key`, `value` and `effect` of a taint.
pub(crate) fn taint(text: &str) -> Option<(&str, &str, &str)> {
    let (key, effect) = text.rsplit_once(':')?;
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect);
    (known && !key.is_empty()).then_some((key, value, effect))
}

impl ClusterSpec {
    pub(crate) fn read(node: &Node, diags: &mut Diagnostics) -> Option<Self> {
        if node.is_null() {
            return Some(Self::default());
        }
        let raw: Raw = diags.take(from_node(node))?;
        match raw.tier.as_ref().map(|tier| (tier.value.as_str(), &tier.span)) {
            None | Some(("api", _)) => {}
            Some(("whole", span)) => diags.push(
                Diagnostic::error("bad-value", "a whole cluster cannot be given to a scenario yet")
                    .label(span, "not possible")
                    .help("write `tier: api`: a real API server with simulated nodes; or test the role in a playbook after `k8s`"),
            ),
            Some((other, span)) => diags.push(
                Diagnostic::error("bad-value", format!("there is no tier `{other}`"))
                    .label(span, "not known")
                    .help("write `tier: api`, or leave it out"),
            ),
        }
        let count: u32 = raw.nodes.iter().fold(0, |all, nodes| all.saturating_add(nodes.count));
        if count > MAX_NODES {
            let message = format!("a scenario has {MAX_NODES} nodes at most");
            diags.push(Diagnostic::error("bad-value", message).at(node.head_span()));
        }
        for nodes in &raw.nodes {
            check(nodes, diags);
        }
        let objects = raw.objects.as_ref().map(|node| objects(node, diags)).unwrap_or_default();
        Some(Self { nodes: raw.nodes, objects })
    }
}

fn check(nodes: &NodesSpec, diags: &mut Diagnostics) {
    let prefix = &nodes.prefix;
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if prefix.value.is_empty() || !prefix.value.chars().all(good) {
        diags.push(
            Diagnostic::error("bad-name", format!("`{}` cannot begin the name of a node", prefix.value))
                .label(&prefix.span, "not usable")
                .help("lower-case letters, digits and `-`"),
        );
    }
    for text in nodes.taints.iter().filter(|text| taint(&text.value).is_none()) {
        diags.push(
            Diagnostic::error("bad-value", format!("`{}` is no taint", text.value))
                .label(&text.span, "not understood")
                .help("write `nvidia.com/gpu=present:NoSchedule`"),
        );
    }
    if let Some(status) = nodes.status.as_ref().filter(|s| s.as_map().is_none()) {
        diags.push(
            Diagnostic::error("wrong-type", format!("`status` must be a map, found {}", status.describe()))
                .at(status.head_span()),
        );
    }
}

fn objects(node: &Node, diags: &mut Diagnostics) -> Vec<serde_json::Value> {
    let Some(list) = node.as_list() else {
        if !node.is_null() {
            diags.push(
                Diagnostic::error(
                    "wrong-type",
                    format!("`objects` must be a list of manifests, found {}", node.describe()),
                )
                .at(node.head_span()),
            );
        }
        return Vec::new();
    };
    let mut out = Vec::new();
    for one in list {
        let manifest = one.to_json();
        if ApiRef::of(&manifest).is_none() {
            diags.push(
                Diagnostic::error("bad-value", "this is no manifest of an object")
                    .label(one.head_span(), "has no `apiVersion`, `kind` and `metadata.name`"),
            );
        }
        out.push(manifest);
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use converge_syntax::{Diagnostics, Source};

    fn read(text: &str) -> (Option<Scenario>, String) {
        let mut diags = Diagnostics::new();
        let scenario = Scenario::parse("x.yaml".into(), Source::new("x.yaml", text), &mut diags);
        (scenario, diags.to_string())
    }

    #[test]
    fn a_cluster_has_nodes_and_objects() {
        let (scenario, said) = read(
            "cluster:\n  nodes: [{prefix: gpu, count: 2, gpus: 8, taints: [\"a=b:NoSchedule\"]}]\n  \
             objects: [{apiVersion: v1, kind: Namespace, metadata: {name: n}}]\n",
        );
        assert_eq!(said, "");
        let cluster = scenario.unwrap().cluster.unwrap();
        assert_eq!((cluster.nodes[0].count, cluster.nodes[0].gpus, cluster.nodes[0].ready), (2, 8, true));
        assert_eq!(cluster.objects[0]["kind"], "Namespace");
    }

    #[test]
    fn what_is_wrong_with_a_cluster_is_named() {
        for (text, says) in [
            ("cluster: {tier: whole}\n", "a whole cluster cannot be given to a scenario yet"),
            ("cluster: {tier: half}\n", "there is no tier `half`"),
            ("cluster: {node: []}\n", "did you mean `nodes`?"),
            ("cluster: {nodes: [{prefix: GPU}]}\n", "cannot begin the name of a node"),
            ("cluster: {nodes: [{prefix: a, taints: [b]}]}\n", "`b` is no taint"),
            ("cluster: {nodes: [{prefix: a, status: 3}]}\n", "`status` must be a map"),
            ("cluster: {nodes: [{prefix: a, count: 5000}]}\n", "1000 nodes at most"),
            ("cluster: {objects: [{kind: Namespace}]}\n", "no manifest of an object"),
            ("cluster: {objects: {}}\n", "must be a list of manifests"),
        ] {
            let (_, said) = read(text);
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
