//! The place of an object, which decides the roles that its kinds may be used in.

use serde::{Deserialize, Serialize};

/// A host, reached through a shell, or a cluster, reached through its API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A machine of the inventory.
    #[default]
    Host,
    /// A Kubernetes cluster: roles with `scope: cluster`.
    Cluster,
}

impl Place {
    /// As a role writes it in `scope`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Cluster => "cluster",
        }
    }
}
