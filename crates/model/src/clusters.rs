//! Clusters: what roles with `scope: cluster` act on, once each, through its API.
//!
//! The hosts of a play with such a role are the ways to the cluster (its control planes). Hosts with one value of the variable
//! `converge_cluster` are ways to one cluster; without that variable there is one, called `cluster`.

use crate::inventory::Inventory;
use crate::vars::{SetVars, host_layers};
use indexmap::IndexMap;

/// The variable that names a host's cluster.
pub const CLUSTER: &str = "converge_cluster";

/// The cluster of hosts that name none.
pub const DEFAULT_CLUSTER: &str = "cluster";

/// The clusters of a project, and the hosts through which each is reached, in play order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clusters(IndexMap<String, Vec<String>>);

impl Clusters {
    /// The name of the cluster that a host is a way to. It is read as it is written: nothing is rendered.
    pub fn name_of(inventory: &Inventory, set: &SetVars, host: &str) -> String {
        let layers = host_layers(inventory, set, host);
        let written =
            layers.get(CLUSTER).and_then(|all| all.last()).and_then(|found| found.node.scalar_text());
        written.filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT_CLUSTER.to_owned())
    }

    /// A host is a way to this cluster.
    pub fn add(&mut self, cluster: &str, host: &str) {
        let ways = self.0.entry(cluster.to_owned()).or_default();
        if !ways.iter().any(|known| known == host) {
            ways.push(host.to_owned());
        }
    }

    /// The hosts through which a cluster is reached; `None` for what is no cluster.
    pub fn ways(&self, name: &str) -> Option<&[String]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The host whose variables hold: the first way of a cluster, and each host itself.
    pub fn speaker<'a>(&'a self, name: &'a str) -> &'a str {
        self.ways(name).and_then(|ways| ways.first()).map_or(name, String::as_str)
    }
}
