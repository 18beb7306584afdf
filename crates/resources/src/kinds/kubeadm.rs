//! `kubeadm`

mod documents;

use crate::look::{check_deadline, state};
use converge_objects::KubeadmState;
use converge_objects::kubeadm::{LEAVE, WITHOUT_SNAPSHOT, etcd_snapshot, is_node_name, let_go, let_go_note};
use converge_resource::{
    Backup, Claim, NodeRemoval, ObjectId, OtherHostQuestion, ParamError, Resource, Stop, View, WantedStates,
    quote,
};
use documents::check_documents;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The host's part in a Kubernetes cluster: `kubeadm init` for the first control plane, `kubeadm join` for every other node.
///
/// It runs only on a host that is no part of a cluster, as the files below `/etc/kubernetes` show. A host of another cluster, or one
/// that has another part, is an error. What was declared for kubeadm then is not compared with the cluster later.
///
/// A join asks the control plane that `control_plane` names for a token when its turn comes, and waits until it can give one. That host
/// may be outside `--limit`. The token is good for 15 minutes; it goes through the memory of converge to kubeadm, with the cluster's
/// certificate authority, and is on no command line, in no log, no plan and no record.
///
/// The next run finds an unfinished init or join of converge (after a power cut): an init continues with the existing
/// certificates and data, a join starts again after `kubeadm reset`. An unfinished init or join of others is an error. So it finds a leave whose
/// reset was cut off: it goes on, or where the host is to be in the cluster, it joins after `kubeadm reset`. A rollback of that run is refused, and
/// takes no older one. A reset that fails before it changes anything begins no leave: the kubelet of a worker registers the node again, and a
/// rollback finds the host as before.
///
/// With `upgrade` the first control plane is upgraded to another version: `kubeadm upgrade apply`. On a host that is no
/// control plane, or whose init is unfinished, it does nothing. It is irreversible.
///
/// Before an upgrade, before a control plane leaves and before a rollback resets one, a snapshot of etcd is taken, read whole by `etcdutl`,
/// brought to the machine that runs converge and compared there; without it nothing is done. It lies in the folder
/// `~/.local/state/converge/backups/ENDPOINT` (`$XDG_STATE_HOME`), the newest 5 of each cluster, and nothing of it stays on the host. It holds all
/// Secrets of the cluster, in clear text unless `converge_age_recipients` names a recipient to whom they are encrypted. Where no snapshot can be had,
/// `--allow-destroy etcd:data` lets a control plane go without one, but not an upgrade. An etcd that is not kubeadm's own is yours to save.
///
/// With `leave` the host leaves its cluster. A control plane that stays evicts the node's pods (budgets hold, pods of DaemonSets stay),
/// takes its member out of etcd, where all others are healthy and it is not the last, and deletes the node. When the API no longer knows the
/// node, the host runs `kubeadm reset` and removes the configuration of the pods' network in `/etc/cni/net.d`. That destroys data and so
/// needs `--allow-destroy kubeadm:node`. Where a pod does not go in time, nothing is forced: the run says which pod and which budget, and
/// the node takes pods again, unless another user had cordoned it.
///
/// A rollback does not take a host out of its cluster unless `--allow-destroy kubeadm:node` says so. One that joined leaves then as with `leave`,
/// by the control plane that it joined through, if its `config` says its name (`nodeRegistration.name`) and that control plane is not reset in the same
/// rollback; else `kubeadm reset` runs there and nothing else. Packages come before, with `package`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kubeadm {
    /// Where the cluster's API is reached by all nodes: `HOST:PORT`. For an init it is the `controlPlaneEndpoint` of its configuration.
    endpoint: String,
    /// Make the cluster, as its first control plane. `config` is the list of kubeadm's documents (`kubeadm.k8s.io/v1beta4`, and those of
    /// the kubelet and of kube-proxy), of which one is a `ClusterConfiguration` with a `kubernetesVersion`; `ignore_preflight` names
    /// checks of kubeadm whose failure is no reason to stop.
    init: Option<Init>,
    /// Join a cluster. `control_plane` is the inventory's name of a host that can give the token; `role` is `worker`, which is the
    /// default, or `control_plane`; `config` holds fields of kubeadm's `JoinConfiguration` without `discovery`; `ignore_preflight` as for
    /// an init; `timeout` is the number of seconds within which the token must be had, 900 without it.
    join: Option<Join>,
    /// Leave the cluster. `control_plane` is the inventory's name of a control plane that stays, `node` the node's name in the cluster;
    /// `delete_emptydir_data: true` lets pods go whose emptyDir volumes are lost with them; `timeout` is the number of seconds within
    /// which the pods must have gone, 600 without it.
    leave: Option<Leave>,
    /// Bring the cluster to another version, on its first control plane. `version` is that version, as `1.36.2`; `ignore_preflight` as for an
    /// init.
    upgrade: Option<Upgrade>,
}

/// The first control plane.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Init {
    /// kubeadm's documents.
    config: Vec<Map<String, Value>>,
    /// Checks of kubeadm whose failure is no reason to stop.
    #[serde(default)]
    ignore_preflight: Vec<String>,
}

/// Every other node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// The inventory's name of the host that gives the token.
    control_plane: String,
    /// The role of the host in the cluster.
    #[serde(default)]
    role: NodeRole,
    /// Fields of kubeadm's `JoinConfiguration`.
    #[serde(default)]
    config: Map<String, Value>,
    /// Checks of kubeadm whose failure is no reason to stop.
    #[serde(default)]
    ignore_preflight: Vec<String>,
    /// Seconds within which the token must be had.
    #[serde(default = "fifteen_minutes")]
    timeout: u64,
}

pub(super) fn fifteen_minutes() -> u64 {
    900
}

/// The removal of a node from its cluster.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Leave {
    /// The inventory's name of a control plane that stays.
    control_plane: String,
    /// The node's name in the cluster.
    node: String,
    /// Pods with emptyDir volumes go too.
    #[serde(default)]
    delete_emptydir_data: bool,
    /// Seconds within which the pods must have gone.
    #[serde(default = "ten_minutes")]
    timeout: u64,
}

pub(super) fn ten_minutes() -> u64 {
    600
}

/// An upgrade to another version.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// The version, as `1.36.2`.
    version: String,
    /// Checks of kubeadm whose failure is no reason to stop.
    #[serde(default)]
    ignore_preflight: Vec<String>,
}

/// The role of a host in its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// A node that runs pods.
    #[default]
    Worker,
    /// One more control plane.
    ControlPlane,
}

impl NodeRole {
    /// Its word in a script.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::ControlPlane => "control-plane",
        }
    }
}

const API: &str = "kubeadm.k8s.io/v1beta4";

/// Where the step writes what it was given; see the object.
const DISCOVERY: &str = "/run/converge-kubeadm/discovery.conf";

/// In place of the key of the certificates, which only the control plane knows.
const KEY: &str = "@certificate-key@";

impl Kubeadm {
    fn id() -> ObjectId {
        ObjectId::new("kubeadm", "node")
    }

    /// The object that an upgrade changes.
    fn version() -> ObjectId {
        ObjectId::new("kubeadm", "version")
    }

    fn target(&self) -> KubeadmState {
        if self.leave.is_some() {
            return KubeadmState::Absent;
        }
        let endpoint = self.endpoint.clone();
        match &self.join {
            Some(join) if join.role == NodeRole::Worker => KubeadmState::Worker { endpoint },
            _ => KubeadmState::ControlPlane { endpoint },
        }
    }

    /// The word for what kubeadm is to do.
    fn how(&self) -> &'static str {
        match (&self.leave, &self.join) {
            (Some(_), _) => "leave",
            (None, Some(_)) => "join",
            (None, None) => "init",
        }
    }

    /// kubeadm's documents, as JSON, which is YAML too.
    fn documents(&self) -> String {
        let documents: Vec<String> = match (&self.init, &self.join) {
            (Some(init), _) => init.config.iter().map(|d| Value::Object(d.clone()).to_string()).collect(),
            (None, Some(join)) => {
                let mut config = join.config.clone();
                config.insert("apiVersion".to_owned(), json!(API));
                config.insert("kind".to_owned(), json!("JoinConfiguration"));
                config.insert("discovery".to_owned(), json!({"file": {"kubeConfigPath": DISCOVERY}}));
                if join.role == NodeRole::ControlPlane {
                    let own = config.entry("controlPlane").or_insert_with(|| json!({}));
                    if let Value::Object(own) = own {
                        own.insert("certificateKey".to_owned(), json!(KEY));
                    }
                }
                vec![Value::Object(config).to_string()]
            }
            (None, None) => Vec::new(),
        };
        documents.join("\n---\n")
    }

    /// A rollback of a join is a leave, where the node's name is known.
    fn node_removal(&self) -> Option<NodeRemoval> {
        let join = self.join.as_ref()?;
        let name =
            join.config.get("nodeRegistration")?.get("name")?.as_str().filter(|name| is_node_name(name))?;
        Some(NodeRemoval { host: join.control_plane.clone(), name: name.to_owned() })
    }

    fn fetch(&self) -> Option<OtherHostQuestion> {
        if let Some(leave) = &self.leave {
            let Leave { control_plane, node, delete_emptydir_data, timeout } = leave;
            return Some(let_go(control_plane, node, &self.endpoint, *timeout, *delete_emptydir_data));
        }
        let join = self.join.as_ref()?;
        Some(OtherHostQuestion {
            host: join.control_plane.clone(),
            script: format!("cv_kubeadm_invite {} {}", join.role.word(), quote(&self.endpoint)),
            seconds: join.timeout,
            give_up: None,
            what: "a join token".to_owned(),
        })
    }

    /// The backup that must reach the controller before a control plane is removed.
    fn backup(&self, now: &KubeadmState) -> Option<Backup> {
        let leave = self
            .leave
            .as_ref()
            .filter(|_| *now != KubeadmState::Worker { endpoint: self.endpoint.clone() })?;
        Some(Backup {
            unless_allowed: Some(WITHOUT_SNAPSHOT.to_owned()),
            ..etcd_snapshot(
                Some(leave.control_plane.clone()),
                &self.endpoint,
                format!("before-{}-leaves", leave.node),
            )
        })
    }

    fn plan_upgrade(&self, upgrade: &Upgrade, view: &dyn View) -> Result<WantedStates, Stop> {
        let now: KubeadmState = state(view, &Self::version())?;
        let version = format!("v{}", upgrade.version);
        let target = match &now {
            KubeadmState::Version { .. } => {
                KubeadmState::Version { runs: version.clone(), says: version.clone() }
            }
            _ => now.clone(),
        };
        if now == target {
            return Ok(WantedStates::one(Self::version(), target));
        }
        Ok(WantedStates {
            settings: vec![("CV_KUBEADM_IGNORE".to_owned(), upgrade.ignore_preflight.join(","))],
            backup: Some(etcd_snapshot(None, &self.endpoint, format!("before-{version}"))),
            ..WantedStates::one(Self::version(), target)
        })
    }

    fn wanted(&self, now: &KubeadmState) -> WantedStates {
        let ignored = self.init.as_ref().map(|i| &i.ignore_preflight);
        let ignored = ignored.or(self.join.as_ref().map(|j| &j.ignore_preflight));
        WantedStates {
            settings: vec![
                ("CV_KUBEADM_HOW".to_owned(), self.how().to_owned()),
                ("CV_KUBEADM_CONFIG".to_owned(), self.documents()),
                ("CV_KUBEADM_IGNORE".to_owned(), ignored.map(|list| list.join(",")).unwrap_or_default()),
            ],
            fetch: self.fetch(),
            backup: self.backup(now),
            node_removal: self.node_removal(),
            ..WantedStates::one(Self::id(), self.target())
        }
    }

    /// The notes of a change.
    fn notes(&self, begun: Option<&str>) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(what) = begun {
            let then = match what {
                "join" | LEAVE if self.leave.is_none() => "`kubeadm reset` comes before the join",
                _ => "it goes on with what is there",
            };
            notes.push(format!("{} was begun here and did not end: {then}", with_article(what)));
        }
        if let Some(leave) = &self.leave {
            notes.push(let_go_note(&leave.control_plane, &leave.node));
            return notes;
        }
        if let Some(join) = &self.join {
            notes.push(format!("asks {} for a join token when its turn comes", join.control_plane));
        }
        notes.push(
            "a rollback needs `--allow-destroy kubeadm:node`: `kubeadm reset` destroys data".to_owned(),
        );
        notes
    }
}

fn with_article(what: &str) -> String {
    let article = if what == "init" { "an" } else { "a" };
    format!("{article} {what}")
}

/// `1.36.2`, also with what a pre-release adds.
pub(crate) fn is_version(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b".+-".contains(&b);
    text.starts_with(|c: char| c.is_ascii_digit()) && text.matches('.').count() >= 2 && text.bytes().all(good)
}

impl Resource for Kubeadm {
    const KIND: &'static str = "kubeadm";
    const EXAMPLE: &'static str = "\
- name: the host is a worker of the cluster
  kubeadm:
    endpoint: api.cluster.example:6443
    join:
      control_plane: cp1
      config: {nodeRegistration: {criSocket: unix:///run/containerd/containerd.sock}}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        let (host, port) = self.endpoint.rsplit_once(':').unwrap_or_default();
        let good = |b: u8| b.is_ascii_alphanumeric() || b".-[]:".contains(&b);
        if host.is_empty() || !host.bytes().all(good) || port.parse::<u16>().is_err() {
            wrong("/endpoint", "it is not written as HOST:PORT", "write it as `10.0.0.10:6443`");
        }
        if let Some(leave) = &self.leave {
            if self.init.is_some() || self.join.is_some() {
                wrong("/leave", "a host comes or goes", "keep one of `init`, `join` and `leave`");
            }
            if leave.control_plane.is_empty() {
                wrong("/leave/control_plane", "no host is named", "name a control plane that stays");
            }
            if !is_node_name(&leave.node) {
                wrong(
                    "/leave/node",
                    "it is not a valid name of a node",
                    "write it as `kubectl get nodes` shows it",
                );
            }
        }
        if let Some(upgrade) = &self.upgrade {
            if self.init.is_some() || self.join.is_some() || self.leave.is_some() {
                wrong(
                    "/upgrade",
                    "an upgrade is a resource of its own",
                    "write it as a resource before this one",
                );
            }
            if !is_version(&upgrade.version) {
                wrong("/upgrade/version", "it is no version", "write it as `1.36.2`");
            }
        }
        match (&self.init, &self.join) {
            _ if self.leave.is_some() || self.upgrade.is_some() => {}
            (Some(_), Some(_)) => {
                wrong("/join", "a host is either the first or joins", "keep one of `init` and `join`");
            }
            (None, None) => wrong(
                "",
                "nothing says how the host comes into the cluster",
                "add `init` on the first control plane, `join` elsewhere, `leave` where it is to go, `upgrade` for another version",
            ),
            (Some(init), None) => check_documents(&self.endpoint, &init.config, &mut errors),
            (None, Some(join)) => {
                if join.control_plane.is_empty() {
                    wrong("/join/control_plane", "no host is named", "name a control plane of the inventory");
                }
                if join.config.contains_key("discovery") {
                    wrong(
                        "/join/config/discovery",
                        "the token and the certificate authority come from the control plane",
                        "take it out",
                    );
                }
                if join.role == NodeRole::Worker && join.config.contains_key("controlPlane") {
                    wrong(
                        "/join/config/controlPlane",
                        "a worker has no such part",
                        "take it out, or write `role: control_plane`",
                    );
                }
            }
        }
        if let Some(leave) = &self.leave {
            check_deadline("/leave/timeout", leave.timeout, 3600, &mut errors);
        } else if let (None, None, Some(join)) = (&self.upgrade, &self.init, &self.join) {
            check_deadline("/join/timeout", join.timeout, 3600, &mut errors);
        }
        for (of, list) in [
            ("init", self.init.as_ref().map(|i| &i.ignore_preflight)),
            ("join", self.join.as_ref().map(|j| &j.ignore_preflight)),
            ("upgrade", self.upgrade.as_ref().map(|u| &u.ignore_preflight)),
        ] {
            let word =
                |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b',');
            if let Some(n) = list.and_then(|list| list.iter().position(|name| !word(name))) {
                errors.push(ParamError::new(
                    &format!("/{of}/ignore_preflight/{n}"),
                    "it is not the name of a check",
                    "write it as kubeadm shows it in brackets: `SystemVerification`",
                ));
            }
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        match &self.upgrade {
            Some(_) => vec![Claim::exclusive(Self::version(), "version")],
            None => vec![Claim::exclusive(Self::id(), "part")],
        }
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        if let Some(upgrade) = &self.upgrade {
            return self.plan_upgrade(upgrade, view);
        }
        let now: KubeadmState = state(view, &Self::id())?;
        let target = self.target();
        let another = |endpoint: &str| {
            Stop::Failed(format!(
                "this host is part of another cluster, {endpoint}, and not of {}: drain it there, run `kubeadm reset` on it, delete the \
                 node, and run again",
                self.endpoint
            ))
        };
        match &now {
            now if *now == target => Ok(WantedStates::one(Self::id(), target)),
            KubeadmState::Absent => Ok(WantedStates { notes: self.notes(None), ..self.wanted(&now) }),
            KubeadmState::Begun { endpoint, .. }
            | KubeadmState::ControlPlane { endpoint }
            | KubeadmState::Worker { endpoint }
                if *endpoint != self.endpoint =>
            {
                Err(another(endpoint))
            }
            KubeadmState::Begun { .. } | KubeadmState::ControlPlane { .. } | KubeadmState::Worker { .. }
                if self.leave.is_some() =>
            {
                let begun = match &now {
                    KubeadmState::Begun { what, .. } if what == LEAVE => Some(LEAVE),
                    _ => None,
                };
                Ok(WantedStates { notes: self.notes(begun), ..self.wanted(&now) })
            }
            // The rest that a reset has left of a node is nothing to go on with.
            KubeadmState::Begun { what, .. }
                if what == self.how() || (what == LEAVE && self.join.is_some()) =>
            {
                Ok(WantedStates { notes: self.notes(Some(what)), ..self.wanted(&now) })
            }
            KubeadmState::Begun { what, .. } => Err(Stop::Failed(format!(
                "{} was begun here and did not end, and now the host is to {}: run `kubeadm reset` on it, remove \
                 /var/lib/converge/kubeadm, and run again",
                with_article(what),
                self.how()
            ))),
            KubeadmState::ControlPlane { .. } => Err(Stop::Failed(
                "this host is a control plane of the cluster and is to be a worker: take it out first (drain, `kubeadm reset`, delete the \
                 node)"
                    .to_owned(),
            )),
            KubeadmState::Worker { .. } => Err(Stop::Failed(
                "this host is a worker of the cluster and is to be a control plane: take it out first (drain, `kubeadm reset`, delete the \
                 node)"
                    .to_owned(),
            )),
            KubeadmState::Version { .. } => Err(Stop::Failed("the host does not say what it is".to_owned())),
            KubeadmState::Partial { files } => Err(Stop::Failed(format!(
                "somebody has left a half-made part of a cluster here (in /etc/kubernetes: {files}): finish it by hand, or run `kubeadm \
                 reset`"
            ))),
        }
    }
}

#[cfg(test)]
#[path = "kubeadm_tests.rs"]
mod tests;
