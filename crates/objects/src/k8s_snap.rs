//! A host's part in a cluster of the snap `k8s` (Canonical Kubernetes). Its key is `node`.

use crate::kubeadm::{is_node_name, let_go_note, removal};
use crate::programs::not_known;
use converge_resource::{
    AlteredFact, BroughtObjects, Disruption, DynEffects, DynNodePart, Effects, ErasedObject, Facets,
    NodePart, NodeRemoval, NodeRemovalRequest, Object, OtherHostQuestion, Reversibility, quote,
    state_of_words,
};

/// The role of the host in a cluster, read from the files that the snap leaves on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum K8sSnapState {
    /// No part of a cluster (`absent`).
    Absent,
    /// A control plane (`control-plane`).
    ControlPlane,
    /// A worker (`worker`).
    Worker,
    /// A bootstrap, join or leave of converge that is unfinished (`begun bootstrap|join|leave`).
    Begun {
        /// `bootstrap`, `join` or `leave`.
        what: String,
    },
    /// The snap has begun something that is neither (`partial`).
    Partial,
}

impl K8sSnapState {
    fn words(&self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Absent => &["absent"],
            Self::ControlPlane => &["control-plane"],
            Self::Worker => &["worker"],
            Self::Begun { what } => &["begun", what],
            Self::Partial => &["partial"],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["control-plane"] => Some(Self::ControlPlane),
            ["worker"] => Some(Self::Worker),
            ["begun", what @ ("bootstrap" | "join" | "leave")] => {
                Some(Self::Begun { what: (*what).to_owned() })
            }
            ["partial"] => Some(Self::Partial),
            _ => None,
        }
    }

    /// Whether it is not a node. What a step that was cut off had left does not come back.
    fn is_none(&self) -> bool {
        matches!(self, Self::Absent | Self::Begun { .. })
    }
}

state_of_words!(K8sSnapState);

/// The request to a control plane to remove a node, within so many seconds. The API must confirm that the node is the host that asks.
pub fn let_go_of_snap(
    control_plane: &str,
    node: &str,
    seconds: u64,
    delete_emptydir_data: bool,
) -> OtherHostQuestion {
    let quoted = quote(node);
    let scripts = (format!("cv_k8s_snap_let_go {quoted}"), format!("cv_k8s_snap_keep {quoted}"));
    removal(control_plane, node, seconds, delete_emptydir_data, scripts)
}

/// The object.
pub struct K8sSnap;

impl Object for K8sSnap {
    const KIND: &'static str = "k8s_snap";
    const SHELL: &'static str = include_str!("k8s_snap.sh");
    const SECONDS: u64 = 1800;
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const NODE: &'static dyn DynNodePart = &ErasedObject::<Self>::new();
    type State = K8sSnapState;

    fn title(_: &str, from: &K8sSnapState, to: &K8sSnapState) -> String {
        match (from, to) {
            (_, to) if to.is_none() => {
                "take the host out of its cluster: the snap k8s goes with its data and comes again".to_owned()
            }
            (K8sSnapState::Begun { what }, _) => format!("k8s {what}, which was begun and did not end"),
            (_, K8sSnapState::Worker) => "make the host a worker of a cluster of the snap k8s".to_owned(),
            _ => "make the host a control plane of a cluster of the snap k8s".to_owned(),
        }
    }

    fn reversibility(_: &str, from: &K8sSnapState, to: &K8sSnapState) -> Reversibility {
        match (from, to) {
            (from, to) if from == to => Reversibility::Reversible,
            (K8sSnapState::ControlPlane, to) if to.is_none() => Reversibility::Irreversible(
                "the snap's data goes: the certificates and this host's copy of the cluster's data"
                    .to_owned(),
            ),
            (_, to) if to.is_none() => Reversibility::Irreversible(
                "the snap's data goes: the node's certificate and its pods".to_owned(),
            ),
            _ => Reversibility::Reversible,
        }
    }

    fn opaque(_: &K8sSnapState, _: &K8sSnapState) -> bool {
        true
    }

    fn fulfils(now: &K8sSnapState, planned: &K8sSnapState) -> bool {
        now == planned || (*now == K8sSnapState::Absent && planned.is_none())
    }

    // The host's own record of it is there from before the first step to after the last one, in a rollback too.
    fn amid(before: &K8sSnapState, after: &K8sSnapState, now: &K8sSnapState) -> bool {
        let comes_or_goes = [before, after].contains(&&K8sSnapState::Absent) && before != after;
        comes_or_goes && matches!(now, K8sSnapState::Begun { .. })
    }

    fn disruption(_: &K8sSnapState, to: Option<&K8sSnapState>) -> Disruption {
        match to {
            Some(to) if to.is_none() => Disruption::Drain,
            _ => Disruption::None,
        }
    }

    fn facets(state: &K8sSnapState) -> Facets {
        let part = match state {
            K8sSnapState::Absent => return Vec::new(),
            K8sSnapState::ControlPlane => "control plane".to_owned(),
            K8sSnapState::Worker => "worker".to_owned(),
            K8sSnapState::Begun { what } => format!("{what} begun, not ended"),
            K8sSnapState::Partial => "in pieces".to_owned(),
        };
        vec![("part", part)]
    }
}

impl Effects for K8sSnap {
    fn alters(key: &str, _: &K8sSnapState, _: &K8sSnapState) -> Vec<AlteredFact> {
        not_known(Self::may_alter(key))
    }

    fn may_alter(_: &str) -> Vec<&'static str> {
        vec!["kubernetes", "kubelet", "containerd"]
    }

    fn may_bring(_: &K8sSnapState, to: &K8sSnapState) -> Option<BroughtObjects> {
        (!to.is_none()).then_some(BroughtObjects { verb: "k8s on", kinds: &["path", "unit"] })
    }
}

impl NodePart for K8sSnap {
    const STAYS_UNLESS_ALLOWED: bool = true;

    const MAKES_NODE: bool = true;

    fn removal_request(
        way: &NodeRemoval,
        from: &K8sSnapState,
        to: &K8sSnapState,
    ) -> Option<NodeRemovalRequest> {
        let leaves = matches!(from, K8sSnapState::Worker | K8sSnapState::ControlPlane) && to.is_none();
        (leaves && is_node_name(&way.name)).then(|| NodeRemovalRequest {
            fetch: let_go_of_snap(&way.host, &way.name, 600, false),
            settings: vec![("CV_K8S_SNAP_HOW".to_owned(), "leave".to_owned())],
            note: let_go_note(&way.host, &way.name),
        })
    }
}

#[cfg(test)]
#[path = "k8s_snap_tests.rs"]
mod tests;
