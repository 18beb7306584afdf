//! A cluster of a run, as far as it is there.

use converge_cluster::Cluster;
use std::collections::BTreeMap;

/// A cluster, as far as it is there.
pub(crate) struct ClusterLink {
    pub name: String,
    pub(crate) state: tokio::sync::Mutex<ClusterRuns>,
}

#[derive(Default)]
pub(crate) struct ClusterRuns {
    pub(crate) cluster: Option<Cluster>,
    /// The run that holds its lock.
    run: Option<String>,
    /// Nodes that come in this run, and the hosts that they are made of.
    pub(crate) joining: BTreeMap<String, String>,
}

impl ClusterLink {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), state: tokio::sync::Mutex::default() }
    }

    /// The cluster, when it is there.
    pub async fn present(&self) -> Option<Cluster> {
        self.state.lock().await.cluster.clone()
    }

    /// Whether this run holds the cluster's lock.
    pub async fn is_open(&self, run: &str) -> bool {
        self.state.lock().await.run.as_deref() == Some(run)
    }

    /// This run holds the cluster's lock, or gives it back.
    pub async fn mark_open(&self, run: Option<&str>) {
        self.state.lock().await.run = run.map(str::to_owned);
    }

    /// These nodes come in this run, made of these hosts.
    pub async fn expect(&self, nodes: &BTreeMap<String, String>) {
        self.state.lock().await.joining.extend(nodes.iter().map(|(node, host)| (node.clone(), host.clone())));
    }
}
