//! A host's part in a Kubernetes cluster that kubeadm makes (key `node`), and the version of the control plane that it runs (key `version`).

use crate::programs::not_known;
use converge_resource::{
    AlteredFact, Backup, BroughtObjects, Disruption, DynEffects, DynNodePart, Effects, ErasedObject, Facets,
    NodePart, NodeRemoval, NodeRemovalRequest, Object, OtherHostQuestion, Reversibility, quote,
    state_of_words,
};

/// The role of the host in a cluster, read from the files that kubeadm leaves on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeadmState {
    /// No part of a cluster (`absent`).
    Absent,
    /// A control plane (`control-plane HOST:PORT`).
    ControlPlane {
        /// The endpoint of the cluster's API.
        endpoint: String,
    },
    /// A worker (`worker HOST:PORT`).
    Worker {
        /// The endpoint of the cluster's API.
        endpoint: String,
    },
    /// An init, join or leave of converge that is unfinished (`begun init|join|leave HOST:PORT`).
    Begun {
        /// `init`, `join` or [`LEAVE`].
        what: String,
        /// The endpoint of the cluster's API, for a leave that of the cluster that the host was part of.
        endpoint: String,
    },
    /// A control plane that runs this version (`version RUNS SAYS`); a host that is none is `absent`.
    Version {
        /// The API server's own, from its manifest: `v1.36.2`.
        runs: String,
        /// The version in the cluster's configuration; `kubeadm upgrade apply` writes it last. Equal to `runs` if the API
        /// does not answer.
        says: String,
    },
    /// An unfinished init or join of others, or a cluster that was taken apart (`partial FILES`).
    Partial {
        /// The files that exist below `/etc/kubernetes`.
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
            Self::Version { runs, says } => vec!["version".to_owned(), runs.clone(), says.clone()],
            Self::Partial { files } => vec!["partial".to_owned(), files.clone()],
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        let owned = |word: &str| word.to_owned();
        match words {
            ["absent"] => Some(Self::Absent),
            ["control-plane", endpoint] => Some(Self::ControlPlane { endpoint: owned(endpoint) }),
            ["worker", endpoint] => Some(Self::Worker { endpoint: owned(endpoint) }),
            ["begun", what @ ("init" | "join" | LEAVE), endpoint] => {
                Some(Self::Begun { what: owned(what), endpoint: owned(endpoint) })
            }
            ["version", runs, says] => Some(Self::Version { runs: owned(runs), says: owned(says) }),
            ["partial", files] => Some(Self::Partial { files: owned(files) }),
            _ => None,
        }
    }
}

state_of_words!(KubeadmState);

/// A snapshot of the etcd of the cluster at this endpoint, taken on this host (without: on the item's own).
pub fn etcd_snapshot(host: Option<String>, endpoint: &str, reason: String) -> Backup {
    Backup {
        host,
        script: "cv_kubeadm_snapshot".to_owned(),
        seconds: 1200,
        what: "snapshot of etcd".to_owned(),
        of: endpoint.to_owned(),
        reason,
        extension: "db".to_owned(),
        unless_allowed: None,
    }
}

/// The request to a control plane to remove a node of the cluster at this endpoint, within so many seconds. The API must confirm that the node is the
/// host that asks before anything is done to the node.
pub fn let_go(
    control_plane: &str,
    node: &str,
    endpoint: &str,
    seconds: u64,
    delete_emptydir_data: bool,
) -> OtherHostQuestion {
    let (quoted, endpoint) = (quote(node), quote(endpoint));
    let script = format!("cv_kubeadm_let_go {quoted} {endpoint}");
    let keep = format!("cv_kubeadm_keep {quoted} {endpoint} leave");
    removal(control_plane, node, seconds, delete_emptydir_data, (script, keep))
}

/// The request to a control plane to remove a node, by a script that takes the flag of the drain and one that has the node take pods again.
pub(crate) fn removal(
    control_plane: &str,
    node: &str,
    seconds: u64,
    delete_emptydir_data: bool,
    (script, keep): (String, String),
) -> OtherHostQuestion {
    let flags = if delete_emptydir_data { " --delete-emptydir-data" } else { "" };
    OtherHostQuestion {
        host: control_plane.to_owned(),
        script: script + flags,
        seconds,
        give_up: Some(keep),
        what: format!("the way out for the node {node}"),
    }
}

/// The note that says so.
pub fn let_go_note(control_plane: &str, node: &str) -> String {
    format!(
        "{control_plane} drains and deletes the node {node} before that, and takes its member out of etcd if it has one"
    )
}

/// A DNS name in lower case, as the API wants it.
pub fn is_node_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    !name.is_empty() && name.len() <= 253 && name.bytes().all(good) && !name.starts_with('-')
}

/// The word of a leave that was begun, whose reset may have taken anything of the node along.
pub const LEAVE: &str = "leave";

/// The word with which a control plane is reset though there is no snapshot of its etcd.
pub const WITHOUT_SNAPSHOT: &str = "etcd:data";

/// Whether it is not a node. What a step that was cut off had left does not come back: a rollback of the run that completed it resets the host.
fn is_none(state: &KubeadmState) -> bool {
    matches!(state, KubeadmState::Absent | KubeadmState::Begun { .. })
}

/// The object.
pub struct Kubeadm;

impl Object for Kubeadm {
    const KIND: &'static str = "kubeadm";
    const SHELL: &'static str = concat!(include_str!("kubeadm.sh"), include_str!("kubeadm_leave.sh"));
    const SECONDS: u64 = 1800;
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const NODE: &'static dyn DynNodePart = &ErasedObject::<Self>::new();
    type State = KubeadmState;

    fn title(_: &str, from: &KubeadmState, to: &KubeadmState) -> String {
        match (from, to) {
            (KubeadmState::Version { runs, .. }, KubeadmState::Version { runs: to, .. }) => {
                format!("kubeadm upgrade apply: from {runs} to {to}")
            }
            (KubeadmState::Begun { what, .. }, KubeadmState::Absent) if what == LEAVE => {
                "kubeadm reset, which was begun and did not end: take the host out of its cluster".to_owned()
            }
            (_, KubeadmState::Absent | KubeadmState::Begun { .. }) => {
                "kubeadm reset: take the host out of its cluster".to_owned()
            }
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
            // Nothing is done.
            (from, to) if from == to => Reversibility::Reversible,
            (KubeadmState::ControlPlane { .. }, to) if is_none(to) => Reversibility::Irreversible(
                "`kubeadm reset` takes the certificates and this host's copy of the cluster's data (etcd) along"
                    .to_owned(),
            ),
            (KubeadmState::Version { .. }, _) => Reversibility::Irreversible(
                "kubeadm takes no version back; the snapshot of etcd from before can be restored by hand".to_owned(),
            ),
            (_, to) if is_none(to) => Reversibility::Irreversible(
                "`kubeadm reset` takes the node's certificate and its pods along".to_owned(),
            ),
            _ => Reversibility::Reversible,
        }
    }

    fn opaque(_: &KubeadmState, _: &KubeadmState) -> bool {
        true
    }

    fn fulfils(now: &KubeadmState, planned: &KubeadmState) -> bool {
        now == planned || (*now == KubeadmState::Absent && is_none(planned))
    }

    // The host's own record of it is there from before the first step of kubeadm to after its last one, in a rollback too.
    fn amid(before: &KubeadmState, after: &KubeadmState, now: &KubeadmState) -> bool {
        let comes_or_goes = [before, after].contains(&&KubeadmState::Absent) && before != after;
        comes_or_goes && matches!(now, KubeadmState::Begun { .. })
    }

    fn disruption(from: &KubeadmState, to: Option<&KubeadmState>) -> Disruption {
        match (from, to) {
            (_, Some(to)) if is_none(to) => Disruption::Drain,
            (KubeadmState::Version { .. }, _) => Disruption::Restarts,
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
            KubeadmState::Version { runs, says } => {
                let mut facets = vec![("version", runs.clone())];
                if says != runs {
                    facets.push(("configuration of the cluster", says.clone()));
                }
                facets
            }
            KubeadmState::Partial { files } => vec![("part", format!("in pieces: {files}"))],
        }
    }
}

impl Effects for Kubeadm {
    fn alters(key: &str, _: &KubeadmState, _: &KubeadmState) -> Vec<AlteredFact> {
        not_known(Self::may_alter(key))
    }

    fn may_alter(_: &str) -> Vec<&'static str> {
        vec!["kubernetes", "kubelet"]
    }

    fn may_bring(_: &KubeadmState, to: &KubeadmState) -> Option<BroughtObjects> {
        let comes = !is_none(to) && !matches!(to, KubeadmState::Version { .. });
        comes.then_some(BroughtObjects { verb: "kubeadm on", kinds: &["path", "unit"] })
    }
}

impl NodePart for Kubeadm {
    const STAYS_UNLESS_ALLOWED: bool = true;

    const MAKES_NODE: bool = true;

    fn backup(from: &KubeadmState, to: &KubeadmState) -> Option<Backup> {
        match (from, to) {
            (KubeadmState::ControlPlane { endpoint }, to) if is_none(to) => Some(Backup {
                unless_allowed: Some(WITHOUT_SNAPSHOT.to_owned()),
                ..etcd_snapshot(None, endpoint, "before-reset".to_owned())
            }),
            _ => None,
        }
    }

    fn removal_request(
        way: &NodeRemoval,
        from: &KubeadmState,
        to: &KubeadmState,
    ) -> Option<NodeRemovalRequest> {
        let (
            KubeadmState::Worker { endpoint }
            | KubeadmState::ControlPlane { endpoint }
            | KubeadmState::Begun { endpoint, .. },
            true,
        ) = (from, is_none(to))
        else {
            return None;
        };
        let is_being_made = matches!(from, KubeadmState::Begun { what, .. } if what != LEAVE);
        if is_being_made {
            return None;
        }
        is_node_name(&way.name).then(|| NodeRemovalRequest {
            fetch: let_go(&way.host, &way.name, endpoint, 600, false),
            settings: vec![("CV_KUBEADM_HOW".to_owned(), "leave".to_owned())],
            note: let_go_note(&way.host, &way.name),
        })
    }
}

#[cfg(test)]
#[path = "kubeadm_tests.rs"]
mod tests;
