//! `k8s_snap`

use super::kubeadm::{NodeRole, fifteen_minutes, ten_minutes};
use crate::look::{check_deadline, state};
use converge_objects::K8sSnapState;
use converge_objects::k8s_snap::let_go_of_snap;
use converge_objects::kubeadm::{is_node_name, let_go_note};
use converge_resource::{
    Claim, NodeRemoval, ObjectId, OtherHostQuestion, ParamError, Resource, Stop, View, WantedStates, quote,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The host's part in a cluster of the snap `k8s` (Canonical Kubernetes): `k8s bootstrap` for the first control plane, a join for every other node. The
/// snap comes before, with `snap`.
///
/// It runs only on a host that is no part of a cluster, as the snap's files below `/var/snap/k8s/common` show. A host that has another part is an
/// error. What was declared for the bootstrap then is not compared with the cluster later; nor is the cluster that a node is in.
///
/// A join asks the control plane that `control_plane` names for a token when its turn comes (`k8s get-join-token`), and waits until it can give one.
/// The token is made for this node and good for 15 minutes and one join. It goes through the memory of converge, and is in no log, no plan and no
/// record, and on no command line: the join goes to the snap's daemon through its socket, as `k8s join-cluster` sends it, with `curl`. That program
/// itself takes a token as an argument only, which every user of the host could read.
///
/// A control plane is waited for (`k8s status --wait-ready`). The next run finds an unfinished bootstrap or join of converge (after a power cut): it
/// waits where the snap's daemon has ended it, and else does it again.
///
/// With `leave` the host leaves its cluster. A control plane that stays evicts the node's pods (budgets hold, pods of DaemonSets stay) and removes the
/// node (`k8s remove-node`). When the API no longer knows the node, the host's snap is removed with its data and installed again as it was, since
/// it has no reset of its own. A snap that came from a file comes again from snapd's copy of that file. That destroys data and so needs `--allow-destroy k8s_snap:node`.
///
/// A rollback does not take a host out of its cluster unless `--allow-destroy k8s_snap:node` says so. One that joined leaves then as with `leave`, by
/// the control plane that it joined through, unless that one leaves in the same rollback. Of the first control plane the cluster's data goes, without
/// a copy: save it before.
///
/// Proved in `tests/tests/k8s_role.rs` with Debian's snapd and a snap `k8s` of classic confinement in the layout of Canonical's (folders, services, the
/// daemon's socket, hooks, `k8s bootstrap`, `get-join-token`, `status`, `remove-node`) around a real kubeadm, kubelet and containerd. That snap comes from
/// a file, with a program in the store's part. Canonical's own snap, with its datastore and network, was not there. Where the kernel has no FUSE, by which
/// snapd mounts snaps in a container, the same test runs with the layout without snapd, and says so.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct K8sSnap {
    /// The node's name in the cluster.
    node: String,
    /// The node's own address for the snap's daemon, as `10.0.0.10:6400` or `10.0.0.0/16`. The snap chooses it where it is not given.
    address: Option<String>,
    /// Make the cluster, as its first control plane. `config` is the snap's bootstrap configuration.
    bootstrap: Option<SnapBootstrap>,
    /// Join a cluster. `control_plane` is the inventory's name of a host that can give the token; `role` is `worker`, which is the default, or
    /// `control_plane`; `config` is the snap's join configuration; `timeout` is the number of seconds within which the token must be had, 900
    /// without it.
    join: Option<SnapJoin>,
    /// Leave the cluster. `control_plane` is the inventory's name of a control plane that stays; `delete_emptydir_data: true` lets pods go whose
    /// emptyDir volumes are lost with them; `timeout` is the number of seconds within which the pods must have gone, 600 without it.
    leave: Option<SnapLeave>,
    /// Seconds within which the snap must have made the node, and a control plane must be ready.
    #[serde(default = "ten_minutes")]
    wait: u64,
}

/// The first control plane of a snap's cluster.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapBootstrap {
    /// The snap's bootstrap configuration.
    #[serde(default)]
    config: Map<String, Value>,
}

/// Every other node of a snap's cluster.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapJoin {
    /// The inventory's name of the host that gives the token.
    control_plane: String,
    /// The role of the host in the cluster.
    #[serde(default)]
    role: NodeRole,
    /// The snap's join configuration.
    #[serde(default)]
    config: Map<String, Value>,
    /// Seconds within which the token must be had.
    #[serde(default = "fifteen_minutes")]
    timeout: u64,
}

/// The removal of a node from a snap's cluster.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapLeave {
    /// The inventory's name of a control plane that stays.
    control_plane: String,
    /// Pods with emptyDir volumes go too.
    #[serde(default)]
    delete_emptydir_data: bool,
    /// Seconds within which the pods must have gone.
    #[serde(default = "ten_minutes")]
    timeout: u64,
}

impl K8sSnap {
    fn id() -> ObjectId {
        ObjectId::new("k8s_snap", "node")
    }

    fn target(&self) -> K8sSnapState {
        match (&self.leave, &self.join) {
            (Some(_), _) => K8sSnapState::Absent,
            (None, Some(join)) if join.role == NodeRole::Worker => K8sSnapState::Worker,
            _ => K8sSnapState::ControlPlane,
        }
    }

    /// The word for what the snap is to do.
    fn how(&self) -> &'static str {
        match (&self.leave, &self.join) {
            (Some(_), _) => "leave",
            (None, Some(_)) => "join",
            (None, None) => "bootstrap",
        }
    }

    /// The snap's configuration as JSON, which is YAML too.
    fn config(&self) -> String {
        let config = self.bootstrap.as_ref().map(|b| &b.config).or(self.join.as_ref().map(|j| &j.config));
        config.map(|config| Value::Object(config.clone()).to_string()).unwrap_or_default()
    }

    fn fetch(&self) -> Option<OtherHostQuestion> {
        if let Some(leave) = &self.leave {
            let SnapLeave { control_plane, delete_emptydir_data, timeout } = leave;
            return Some(let_go_of_snap(control_plane, &self.node, *timeout, *delete_emptydir_data));
        }
        let join = self.join.as_ref()?;
        Some(OtherHostQuestion {
            host: join.control_plane.clone(),
            script: format!("cv_k8s_snap_invite {} {}", join.role.word(), quote(&self.node)),
            seconds: join.timeout,
            give_up: None,
            what: "a join token".to_owned(),
        })
    }

    fn change(&self, begun: Option<&str>) -> WantedStates {
        let mut notes = Vec::new();
        if let Some(what) = begun {
            notes.push(format!("a {what} was begun here and did not end"));
        }
        match (&self.leave, &self.join) {
            (Some(leave), _) => notes.push(let_go_note(&leave.control_plane, &self.node)),
            (None, Some(join)) => {
                notes.push(format!("asks {} for a join token when its turn comes", join.control_plane));
            }
            (None, None) => {}
        }
        if self.leave.is_none() {
            notes.push(
                "a rollback needs `--allow-destroy k8s_snap:node`: the snap's data goes with the node"
                    .to_owned(),
            );
        }
        let setting = |name: &str, value: String| (format!("CV_K8S_SNAP_{name}"), value);
        WantedStates {
            settings: vec![
                setting("HOW", self.how().to_owned()),
                setting("NAME", self.node.clone()),
                setting("ADDRESS", self.address.clone().unwrap_or_default()),
                setting("CONFIG", self.config()),
                setting("SECONDS", self.wait.to_string()),
            ],
            notes,
            fetch: self.fetch(),
            node_removal: self
                .join
                .as_ref()
                .map(|join| NodeRemoval { host: join.control_plane.clone(), name: self.node.clone() }),
            ..WantedStates::one(Self::id(), self.target())
        }
    }
}

impl Resource for K8sSnap {
    const KIND: &'static str = "k8s_snap";
    const EXAMPLE: &'static str = "\
- name: the host is a worker of the cluster
  k8s_snap:
    node: gpu1
    join: {control_plane: cp1}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        if !is_node_name(&self.node) {
            wrong("/node", "it is not a valid name of a node", "write it as `kubectl get nodes` shows it");
        }
        let good = |b: u8| b.is_ascii_alphanumeric() || b".-[]:/".contains(&b);
        if let Some(address) = &self.address
            && (address.starts_with('-') || address.is_empty() || !address.bytes().all(good))
        {
            wrong("/address", "it is no address", "write it as `10.0.0.10:6400` or `10.0.0.0/16`");
        }
        let given = [self.bootstrap.is_some(), self.join.is_some(), self.leave.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            wrong(
                "",
                "a host makes a cluster, joins one or leaves it",
                "write one of `bootstrap` on the first control plane, `join` elsewhere, `leave` where it is to go",
            );
        }
        for (pointer, host) in [
            ("/join/control_plane", self.join.as_ref().map(|join| &join.control_plane)),
            ("/leave/control_plane", self.leave.as_ref().map(|leave| &leave.control_plane)),
        ] {
            if host.is_some_and(String::is_empty) {
                wrong(pointer, "no host is named", "name a control plane of the inventory");
            }
        }
        for (pointer, seconds) in [
            ("/join/timeout", self.join.as_ref().map(|join| join.timeout)),
            ("/leave/timeout", self.leave.as_ref().map(|leave| leave.timeout)),
        ] {
            check_deadline(pointer, seconds.unwrap_or(1), 3600, &mut errors);
        }
        check_deadline("/wait", self.wait, 900, &mut errors);
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::exclusive(Self::id(), "part")]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let now: K8sSnapState = state(view, &Self::id())?;
        let target = self.target();
        let is_another = |is: &str, wanted: &str| {
            Stop::Failed(format!(
                "this host is {is} of a cluster of the snap k8s and is to be {wanted}: take it out first (drain, `k8s remove-node` on a \
                 control plane, `snap remove --purge k8s` here)"
            ))
        };
        match &now {
            now if *now == target => Ok(WantedStates::one(Self::id(), target)),
            K8sSnapState::Begun { what } if what == "leave" || what == self.how() || self.leave.is_some() => {
                Ok(self.change(Some(what)))
            }
            K8sSnapState::Absent => Ok(self.change(None)),
            _ if self.leave.is_some() => Ok(self.change(None)),
            K8sSnapState::ControlPlane => Err(is_another("a control plane", "a worker")),
            K8sSnapState::Worker => Err(is_another("a worker", "a control plane")),
            K8sSnapState::Begun { what } => Err(Stop::Failed(format!(
                "a {what} was begun here and did not end, and now the host is to {}: run `snap remove --purge k8s` on it, remove \
                 /var/lib/converge/k8s_snap, and run again",
                self.how()
            ))),
            K8sSnapState::Partial => Err(Stop::Failed(
                "somebody has left a half-made node of the snap k8s here (in /var/snap/k8s/common): finish it by hand, or run `snap \
                 remove --purge k8s`"
                    .to_owned(),
            )),
        }
    }
}

#[cfg(test)]
#[path = "k8s_snap_tests.rs"]
mod tests;
