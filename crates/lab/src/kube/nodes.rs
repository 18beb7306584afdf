//! Simulated nodes: real Node objects; kwok plays their kubelets.

use super::api::ApiServer;
use super::control_plane::PLAYED;
use super::kubectl::expect;
use super::versions;
use crate::error::Result;
use serde_json::{Map, Value, json};

const GPU: &str = "nvidia.com/gpu";

/// Nodes that are alike, named `PREFIX-1` to `PREFIX-COUNT`.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    prefix: String,
    first: u32,
    count: u32,
    gpus: u32,
    allocatable: Option<u32>,
    labels: Vec<(String, String)>,
    taints: Vec<(String, String, String)>,
    ready: bool,
    cordoned: bool,
}

impl NodeSpec {
    /// So many nodes, Ready, without GPUs.
    pub fn new(prefix: impl Into<String>, count: u32) -> Self {
        Self {
            prefix: prefix.into(),
            first: 1,
            count,
            gpus: 0,
            allocatable: None,
            labels: Vec::new(),
            taints: Vec::new(),
            ready: true,
            cordoned: false,
        }
    }

    /// The number of the first one, instead of 1.
    #[must_use]
    pub fn from(mut self, number: u32) -> Self {
        self.first = number;
        self
    }

    /// GPUs of each node: its capacity of `nvidia.com/gpu`.
    #[must_use]
    pub fn gpus(mut self, count: u32) -> Self {
        self.gpus = count;
        self
    }

    /// The number of GPUs that are allocatable, instead of all: 7 of 8, say.
    #[must_use]
    pub fn allocatable_gpus(mut self, count: u32) -> Self {
        self.allocatable = Some(count);
        self
    }

    /// One more label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// One more taint: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[must_use]
    pub fn taint(
        mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        effect: impl Into<String>,
    ) -> Self {
        self.taints.push((key.into(), value.into(), effect.into()));
        self
    }

    /// Nodes whose kubelet is dead: NotReady, and pods on them stay Pending.
    #[must_use]
    pub fn not_ready(mut self) -> Self {
        self.ready = false;
        self
    }

    /// Nodes that are cordoned.
    #[must_use]
    pub fn cordoned(mut self) -> Self {
        self.cordoned = true;
        self
    }

    fn names(&self) -> Vec<String> {
        (self.first..self.first + self.count).map(|number| format!("{}-{number}", self.prefix)).collect()
    }

    fn node(&self, name: &str, kwok_port: u16) -> Value {
        let mut labels = Map::new();
        for (key, value) in
            [("kubernetes.io/hostname", name), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")]
        {
            labels.insert(key.to_owned(), value.into());
        }
        labels.insert(PLAYED.to_owned(), if self.ready { "on" } else { "off" }.into());
        for (key, value) in &self.labels {
            labels.insert(key.clone(), value.as_str().into());
        }
        let mut spec = json!({});
        if self.cordoned {
            spec["unschedulable"] = true.into();
        }
        if !self.taints.is_empty() {
            let taints = self
                .taints
                .iter()
                .map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect}));
            spec["taints"] = taints.collect();
        }
        let version = format!("v{}", versions::KUBERNETES);
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": {
                "capacity": self.resources(self.gpus),
                "allocatable": self.resources(self.allocatable.unwrap_or(self.gpus)),
                "conditions": conditions(self.ready),
                "addresses": [
                    {"type": "InternalIP", "address": "127.0.0.1"},
                    {"type": "Hostname", "address": name},
                ],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": kwok_port}},
                "nodeInfo": {
                    "architecture": "amd64", "operatingSystem": "linux", "osImage": "Debian GNU/Linux 12 (bookworm)",
                    "kernelVersion": "6.1.0-simulated", "kubeletVersion": version, "kubeProxyVersion": "",
                    "containerRuntimeVersion": format!("containerd://{}", versions::CONTAINERD),
                    "bootID": "", "machineID": "", "systemUUID": "",
                },
            },
        })
    }

    fn resources(&self, gpus: u32) -> Value {
        let mut out = json!({"cpu": "96", "memory": "1Ti", "pods": "110"});
        if self.gpus > 0 {
            out[GPU] = gpus.to_string().into();
        }
        out
    }
}

fn conditions(ready: bool) -> Value {
    let mut out = Vec::new();
    if ready {
        for (kind, reason) in [
            ("MemoryPressure", "KubeletHasSufficientMemory"),
            ("DiskPressure", "KubeletHasNoDiskPressure"),
            ("PIDPressure", "KubeletHasSufficientPID"),
        ] {
            out.push(json!({"type": kind, "status": "False", "reason": reason}));
        }
        out.push(
            json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}),
        );
    } else {
        let message = "simulated: the kubelet is dead";
        out.push(
            json!({"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": message}),
        );
    }
    out.into()
}

impl ApiServer {
    /// Creates nodes; their names come back. Where controllers run, waits until pods can be scheduled on the Ready ones.
    pub fn nodes(&self, spec: &NodeSpec) -> Result<Vec<String>> {
        let names = spec.names();
        let items: Vec<Value> = names.iter().map(|name| spec.node(name, self.kwok_port())).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        expect(self.kubectl_with_input(&["create", "--filename=-"], &list)?, "kubectl create nodes")?;
        if spec.ready && self.has_controllers() {
            self.wait_for("nodes to lose their not-ready taint", || {
                let all =
                    [&["node"], names.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat();
                Ok(!self.get(&all)?.to_string().contains("node.kubernetes.io/not-ready"))
            })?;
        }
        Ok(names)
    }

    /// Sets the GPUs of nodes, as their device plugins would.
    pub fn set_gpus(&self, nodes: &[impl AsRef<str>], capacity: u32, allocatable: u32) -> Result<()> {
        let (capacity, allocatable) = (capacity.to_string(), allocatable.to_string());
        let status = json!({"capacity": {GPU: capacity}, "allocatable": {GPU: allocatable}});
        self.patch_status(nodes, &status)
    }

    /// Lets a simulated kubelet die (its node is NotReady at once) or come back.
    pub fn set_ready(&self, node: &str, ready: bool) -> Result<()> {
        let label = format!("{PLAYED}={}", if ready { "on" } else { "off" });
        let arguments = ["label", "--overwrite", "node", node, &label];
        expect(self.kubectl(&arguments)?, "kubectl label node")?;
        self.patch_status(&[node], &json!({"conditions": conditions(ready)}))
    }

    /// Merges this into the status of nodes, as their kubelets would.
    pub fn patch_status(&self, nodes: &[impl AsRef<str>], status: &Value) -> Result<()> {
        let patch = json!({"status": status}).to_string();
        let names: Vec<&str> = nodes.iter().map(AsRef::as_ref).collect();
        let options = ["--subresource=status", "--type=strategic", "--patch", &patch];
        let arguments = [&["patch", "node"], names.as_slice(), &options].concat();
        expect(self.kubectl(&arguments)?, "kubectl patch node").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_what_a_kubelet_reports() {
        let spec = NodeSpec::new("gpu", 2).from(3).gpus(8).allocatable_gpus(7).cordoned();
        let spec = spec.label("a", "b").taint("nvidia.com/gpu", "present", "NoSchedule");
        assert_eq!(spec.names(), ["gpu-3", "gpu-4"]);
        let node = spec.node("gpu-3", 10247);
        assert_eq!(node["status"]["capacity"][GPU], "8");
        assert_eq!(node["status"]["allocatable"][GPU], "7");
        assert_eq!(node["spec"]["unschedulable"], true);
        assert_eq!(node["spec"]["taints"][0]["effect"], "NoSchedule");
        assert_eq!(node["metadata"]["labels"]["a"], "b");
        assert_eq!(node["metadata"]["labels"][PLAYED], "on");
    }

    #[test]
    fn a_node_without_gpus_has_no_such_resource() {
        let node = NodeSpec::new("cpu", 1).not_ready().node("cpu-1", 1);
        assert!(node["status"]["capacity"].get(GPU).is_none());
        assert_eq!(node["status"]["conditions"][0]["status"], "False");
    }
}
