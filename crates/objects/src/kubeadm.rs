//! A host's part in a Kubernetes cluster that kubeadm makes. Its one key is `node`.

use converge_resource::{Disruption, Facets, MayBring, Object, Reversibility, state_of_words};

/// What the host is, read from what kubeadm leaves on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeadmState {
    /// No part of a cluster (`absent`).
    Absent,
    /// A control plane (`control-plane HOST:PORT`).
    ControlPlane {
        /// Where the cluster's API is reached.
        endpoint: String,
    },
    /// A worker (`worker HOST:PORT`).
    Worker {
        /// Where the cluster's API is reached.
        endpoint: String,
    },
    /// We have begun to make it one, and that did not end (`begun init|join HOST:PORT`).
    Begun {
        /// `init` or `join`.
        what: String,
        /// Where the cluster's API was to be reached.
        endpoint: String,
    },
    /// Somebody else has, and that did not end or was taken apart (`partial FILES`).
    Partial {
        /// What is there, below `/etc/kubernetes`.
        files: String,
    },
}

impl KubeadmState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::ControlPlane { endpoint } => vec!["control-plane".to_owned(), endpoint.clone()],
            Self::Worker { endpoint } => vec!["worker".to_owned(), endpoint.clone()],
            Self::Begun { what, endpoint } => vec!["begun".to_owned(), what.clone(), endpoint.clone()],
            Self::Partial { files } => vec!["partial".to_owned(), files.clone()],
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        let owned = |word: &str| word.to_owned();
        match words {
            ["absent"] => Some(Self::Absent),
            ["control-plane", endpoint] => Some(Self::ControlPlane { endpoint: owned(endpoint) }),
            ["worker", endpoint] => Some(Self::Worker { endpoint: owned(endpoint) }),
            ["begun", what @ ("init" | "join"), endpoint] => {
                Some(Self::Begun { what: owned(what), endpoint: owned(endpoint) })
            }
            ["partial", files] => Some(Self::Partial { files: owned(files) }),
            _ => None,
        }
    }
}

state_of_words!(KubeadmState);

/// The object.
pub struct Kubeadm;

impl Object for Kubeadm {
    const KIND: &'static str = "kubeadm";
    const SHELL: &'static str = include_str!("kubeadm.sh");
    const SECONDS: u64 = 1200;
    const STAYS_UNLESS_ALLOWED: bool = true;
    type State = KubeadmState;

    fn title(_: &str, from: &KubeadmState, to: &KubeadmState) -> String {
        match (from, to) {
            (_, KubeadmState::Absent) => "kubeadm reset: take the host out of its cluster".to_owned(),
            (KubeadmState::Begun { what, .. }, _) => {
                format!("kubeadm {what}, which was begun and did not end")
            }
            (_, KubeadmState::ControlPlane { endpoint }) => {
                format!("make the host a control plane of the cluster at {endpoint}")
            }
            (_, KubeadmState::Worker { endpoint }) => {
                format!("make the host a worker of the cluster at {endpoint}")
            }
            _ => "kubeadm".to_owned(),
        }
    }

    fn reversibility(_: &str, from: &KubeadmState, to: &KubeadmState) -> Reversibility {
        match (from, to) {
            (KubeadmState::ControlPlane { .. }, KubeadmState::Absent) => Reversibility::Irreversible(
                "`kubeadm reset` takes the certificates and this host's copy of the cluster's data (etcd) along"
                    .to_owned(),
            ),
            (_, KubeadmState::Absent) => Reversibility::Irreversible(
                "`kubeadm reset` takes the node's certificate and its pods along".to_owned(),
            ),
            _ => Reversibility::Reversible,
        }
    }

    fn opaque(_: &KubeadmState, _: &KubeadmState) -> bool {
        true
    }

    fn may_bring(_: &KubeadmState, to: &KubeadmState) -> Option<MayBring> {
        (*to != KubeadmState::Absent).then_some(MayBring { verb: "kubeadm on", kinds: &["path", "unit"] })
    }

    fn disruption(_: &KubeadmState, to: Option<&KubeadmState>) -> Disruption {
        match to {
            Some(KubeadmState::Absent) => Disruption::Drain,
            _ => Disruption::None,
        }
    }

    fn facets(state: &KubeadmState) -> Facets {
        match state {
            KubeadmState::Absent => Vec::new(),
            KubeadmState::ControlPlane { endpoint } => {
                vec![("part", "control plane".to_owned()), ("cluster", endpoint.clone())]
            }
            KubeadmState::Worker { endpoint } => {
                vec![("part", "worker".to_owned()), ("cluster", endpoint.clone())]
            }
            KubeadmState::Begun { what, endpoint } => {
                vec![("part", format!("{what} begun, not ended")), ("cluster", endpoint.clone())]
            }
            KubeadmState::Partial { files } => vec![("part", format!("in pieces: {files}"))],
        }
    }
}

#[cfg(test)]
#[path = "kubeadm_tests.rs"]
mod tests;
