//! Clusters: roles with `scope: cluster` act on each once, through its API.
//!
//! The hosts of a play with such a role are the entry hosts of the cluster (its control planes). Hosts with one value of the
//! variable `converge_cluster` are entry hosts of one cluster; without that variable there is one, called `cluster`.

use crate::inventory::Inventory;
use crate::vars::{SetVars, host_layers};
use indexmap::IndexMap;

/// The variable that names a host's cluster.
pub const CLUSTER: &str = "converge_cluster";

/// The cluster of hosts that name none.
pub const DEFAULT_CLUSTER: &str = "cluster";

/// The clusters of a project, and the entry hosts of each, in play order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clusters(IndexMap<String, Vec<String>>);

impl Clusters {
    /// The name of the cluster of an entry host. It is read as it is written: nothing is rendered.
    pub fn name_of(inventory: &Inventory, set: &SetVars, host: &str) -> String {
        let layers = host_layers(inventory, set, host);
        let written =
            layers.get(CLUSTER).and_then(|all| all.last()).and_then(|found| found.node.scalar_text());
        written.filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT_CLUSTER.to_owned())
    }

    /// Adds an entry host to a cluster.
    pub fn add(&mut self, cluster: &str, host: &str) {
        let entry_hosts = self.0.entry(cluster.to_owned()).or_default();
        if !entry_hosts.iter().any(|known| known == host) {
            entry_hosts.push(host.to_owned());
        }
    }

    /// The entry hosts of a cluster; `None` if there is no cluster of this name.
    pub fn entry_hosts(&self, name: &str) -> Option<&[String]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The host whose variables apply: the first entry host of a cluster, and each host itself.
    pub fn speaker<'a>(&'a self, name: &'a str) -> &'a str {
        self.entry_hosts(name).and_then(|entry_hosts| entry_hosts.first()).map_or(name, String::as_str)
    }
}
