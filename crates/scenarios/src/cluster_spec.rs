//! The cluster of a scenario, as it is written under `cluster`.

use crate::host_spec::{HostSpec, unknown_host};
use converge_resource::ApiRef;
use converge_syntax::{Diagnostic, Diagnostics, Node, Spanned, from_node};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Simulated nodes of one scenario at most.
const MAX_NODES: u32 = 1000;
/// GPUs that the lab plays on one host at most.
const MAX_GPUS: i64 = 16;

/// The state of the cluster before the first run.
#[derive(Clone, Debug, Default)]
pub struct ClusterSpec {
    /// Simulated nodes.
    pub nodes: Vec<NodesSpec>,
    /// Objects that are there before, in this order.
    pub objects: Vec<serde_json::Value>,
    /// A whole cluster of the scenario's hosts, instead of an API server with simulated nodes.
    pub whole: Option<WholeSpec>,
}

/// Additional settings of a whole cluster.
#[derive(Clone, Debug, Default)]
pub struct WholeSpec {
    /// The GPUs of hosts, as the lab plays them: lines `count=4`.
    pub gpus: BTreeMap<String, String>,
    /// Roles that are applied after `k8s`, before the one that is tested.
    pub roles: Vec<Spanned<String>>,
}

/// Nodes that are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesSpec {
    /// Their names are `PREFIX-1` to `PREFIX-COUNT`.
    pub prefix: Spanned<String>,
    /// The number.
    #[serde(default = "one")]
    pub count: u32,
    /// GPUs of each: its capacity of `nvidia.com/gpu`.
    #[serde(default)]
    pub gpus: u32,
    /// The number of them that are allocatable; all when left out.
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
    /// Additional entries of their status: a map.
    #[serde(default)]
    pub status: Option<Node>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClusterSpec {
    #[serde(default)]
    tier: Option<Spanned<String>>,
    #[serde(default)]
    nodes: Vec<NodesSpec>,
    #[serde(default)]
    objects: Option<Node>,
    #[serde(default)]
    gpus: Option<Node>,
    #[serde(default)]
    roles: Vec<Spanned<String>>,
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
    pub(crate) fn read(node: &Node, hosts: &[HostSpec], diags: &mut Diagnostics) -> Option<Self> {
        if node.is_null() {
            return Some(Self::default());
        }
        let raw: RawClusterSpec = diags.take(from_node(node))?;
        let whole = match raw.tier.as_ref().map(|tier| (tier.value.as_str(), &tier.span)) {
            None | Some(("api", _)) => false,
            Some(("whole", _)) => true,
            Some((other, span)) => {
                diags.push(
                    Diagnostic::error("bad-value", format!("there is no tier `{other}`"))
                        .label(span, "not known")
                        .help("write `tier: api` (or leave it out), or `tier: whole`"),
                );
                return None;
            }
        };
        if let Some(nodes) = raw.nodes.first().filter(|_| whole) {
            diags.push(
                Diagnostic::error("bad-value", "the nodes of a whole cluster are the scenario's hosts")
                    .label(&nodes.prefix.span, "simulated nodes")
                    .help(
                        "write `hosts: 2`; labels and taints go into `objects`, with a manifest of kind Node",
                    ),
            );
        }
        let own = [("gpus", raw.gpus.is_some()), ("roles", !raw.roles.is_empty())];
        for (key, _) in own.into_iter().filter(|(_, given)| *given && !whole) {
            let at = node.get(key).unwrap_or(node);
            diags.push(
                Diagnostic::error("bad-value", format!("`{key}` is for whole clusters"))
                    .label(at.head_span(), "not here")
                    .help("write `tier: whole` beside it; simulated nodes and objects are given under `nodes` and `objects`"),
            );
        }
        let gpus = raw.gpus.as_ref().map(|node| gpus(node, hosts, diags)).unwrap_or_default();
        let count: u32 = raw.nodes.iter().fold(0, |all, nodes| all.saturating_add(nodes.count));
        if count > MAX_NODES {
            let message = format!("a scenario has {MAX_NODES} nodes at most");
            diags.push(Diagnostic::error("bad-value", message).at(node.head_span()));
        }
        for nodes in &raw.nodes {
            check(nodes, diags);
        }
        let objects = raw.objects.as_ref().map(|node| objects(node, diags)).unwrap_or_default();
        let whole = whole.then_some(WholeSpec { gpus, roles: raw.roles });
        Some(Self { nodes: raw.nodes, objects, whole })
    }
}

/// The GPUs of each host: a number for all workers (for the only host, where there is one), or a map of hosts.
fn gpus(node: &Node, hosts: &[HostSpec], diags: &mut Diagnostics) -> BTreeMap<String, String> {
    if let Some(entries) = node.as_map() {
        let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
        let mut found = BTreeMap::new();
        for (key, value) in entries {
            let name = key.as_str().unwrap_or_default();
            if !names.iter().any(|known| known == name) {
                diags.push(unknown_host(name, &key.span, &names));
            }
            found.insert(name.to_owned(), gpus_of(value, diags));
        }
        return found;
    }
    let lines = gpus_of(node, diags);
    let workers = if hosts.len() > 1 { 1 } else { 0 };
    hosts.iter().skip(workers).map(|host| (host.name.clone(), lines.clone())).collect()
}

/// A number, or a map of what the library that plays them reads.
fn gpus_of(node: &Node, diags: &mut Diagnostics) -> String {
    if let Some(count) = node.as_i64().filter(|count| (0..=MAX_GPUS).contains(count)) {
        return format!("count={count}\n");
    }
    let line =
        |(key, value): &(Node, Node)| Some(format!("{}={}\n", key.scalar_text()?, value.scalar_text()?));
    match node.as_map().and_then(|entries| entries.iter().map(line).collect::<Option<String>>()) {
        Some(lines) => lines,
        None => {
            diags.push(
                Diagnostic::error("bad-value", format!("GPUs are a number up to {MAX_GPUS}, or a map"))
                    .label(node.head_span(), "neither")
                    .help("write `gpus: 4`, or `gpus: {h2: {count: 4, name: NVIDIA H200, absent.1: 1}}`"),
            );
            String::new()
        }
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
        let (scenario, messages) = read(
            "cluster:\n  nodes: [{prefix: gpu, count: 2, gpus: 8, taints: [\"a=b:NoSchedule\"]}]\n  \
             objects: [{apiVersion: v1, kind: Namespace, metadata: {name: n}}]\n",
        );
        assert_eq!(messages, "");
        let cluster = scenario.unwrap().cluster.unwrap();
        assert_eq!((cluster.nodes[0].count, cluster.nodes[0].gpus, cluster.nodes[0].ready), (2, 8, true));
        assert_eq!(cluster.objects[0]["kind"], "Namespace");
    }

    #[test]
    fn a_whole_cluster_has_gpus_and_roles() {
        let whole = |text: &str| {
            let (scenario, messages) = read(text);
            assert_eq!(messages, "", "{text}");
            scenario.unwrap().cluster.unwrap().whole.unwrap()
        };
        let plain = whole("hosts: 3\ncluster: {tier: whole, gpus: 4, roles: [device_plugin]}\n");
        let all: Vec<(&str, &str)> = plain.gpus.iter().map(|(h, g)| (h.as_str(), g.as_str())).collect();
        assert_eq!(all, [("h2", "count=4\n"), ("h3", "count=4\n")], "the first host is the control plane");
        assert_eq!(plain.roles[0].value, "device_plugin");
        let only = whole("cluster: {tier: whole, gpus: {h1: {count: 2, xid.0: 79}}}\n");
        assert_eq!(only.gpus["h1"], "count=2\nxid.0=79\n");
        assert_eq!(whole("cluster: {tier: whole, gpus: 1}\n").gpus["h1"], "count=1\n");
        assert!(whole("cluster: {tier: whole}\n").gpus.is_empty());
    }

    #[test]
    fn what_is_wrong_with_a_cluster_is_named() {
        for (text, says) in [
            ("cluster: {tier: half}\n", "there is no tier `half`"),
            ("cluster: {tier: whole, nodes: [{prefix: a}]}\n", "are the scenario's hosts"),
            ("cluster: {gpus: 2}\n", "`gpus` is for whole clusters"),
            ("cluster: {roles: [a]}\n", "`roles` is for whole clusters"),
            ("cluster: {tier: whole, gpus: 17}\n", "a number up to 16"),
            ("cluster: {tier: whole, gpus: {h2: 1}}\n", "no host `h2`"),
            ("cluster: {node: []}\n", "did you mean `nodes`?"),
            ("cluster: {nodes: [{prefix: GPU}]}\n", "cannot begin the name of a node"),
            ("cluster: {nodes: [{prefix: a, taints: [b]}]}\n", "`b` is no taint"),
            ("cluster: {nodes: [{prefix: a, status: 3}]}\n", "`status` must be a map"),
            ("cluster: {nodes: [{prefix: a, count: 5000}]}\n", "1000 nodes at most"),
            ("cluster: {objects: [{kind: Namespace}]}\n", "no manifest of an object"),
            ("cluster: {objects: {}}\n", "must be a list of manifests"),
        ] {
            let (_, messages) = read(text);
            assert!(messages.contains(says), "{text}: {messages}");
        }
    }
}
