//! `kubeadm_upgrade`

use super::kubeadm::is_version;
use crate::look::{check_deadline, state};
use converge_objects::KubeadmUpgradeState;
use converge_objects::kubeadm::is_node_name;
use converge_objects::kubeadm_upgrade::{MayEnd, free, leads};
use converge_resource::{Claim, ObjectId, ParamError, Resource, Stop, View, Wait, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// The upgrade of a node of a kubeadm cluster, all but the first control plane: that one is upgraded with `kubeadm: {upgrade: …}`.
///
/// An upgrade has three resources, each with one of `follow`, `drain` and `resume`. Before them comes the package kubeadm; between the second and the
/// third come the packages of the kubelet and its restart.
///
/// With `follow` the node waits until `control_plane` says that the cluster has the version, and then runs `kubeadm upgrade node`. A wait ends at once
/// if the upgrade has failed there, or is not part of the run. It is irreversible.
///
/// With `drain` the control plane cordons the node and evicts its pods through the API, as it does for a node that leaves: budgets
/// (PodDisruptionBudget) hold, and pods of DaemonSets and static pods stay. A pod that no controller brings back, or with an emptyDir volume, is an
/// error before anything is done, unless `unmanaged` or `delete_emptydir_data` allows it. If a pod does not go in time, the run says which pod and
/// which budget, and the node takes pods again. A node whose kubelet has the version already is not drained.
///
/// A node that converge has cordoned has the annotation `converge/cordoned-to` until it takes pods again, so that a run that was cut off is completed
/// by the next one. One that others have cordoned stays cordoned.
///
/// With `resume` a node that converge has cordoned takes pods again: after a drain for an upgrade once it is Ready and its kubelet has the version; after
/// a removal that was begun and is no longer wanted at once. It uses the node's own credentials, and does the same on the first control plane.
///
/// On a host that is not a node, none of the three does anything. A rollback passes over them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubeadmUpgrade {
    /// Where the cluster's API is reached by all nodes: `HOST:PORT`.
    endpoint: String,
    /// The version of Kubernetes, as `1.36.2`.
    version: String,
    /// The node's name in the cluster.
    node: String,
    /// The inventory's name of the first control plane.
    control_plane: String,
    /// Run `kubeadm upgrade node`. `timeout` is the number of seconds within which the cluster must have the version, 900 without it;
    /// `ignore_preflight` names checks of kubeadm whose failure is no reason to stop.
    follow: Option<Follow>,
    /// Free the node of pods before its kubelet changes. `timeout` is the number of seconds within which the pods must have gone, 600 without it;
    /// `unmanaged: true` ends pods that no controller brings back, `delete_emptydir_data: true` those whose emptyDir volumes are lost with them.
    drain: Option<Drain>,
    /// Let the node take pods again. `timeout` is the number of seconds within which it must be Ready, 180 without it.
    resume: Option<Resume>,
}

/// The files of the node follow the cluster.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Follow {
    /// Seconds within which the cluster must have the version.
    #[serde(default = "fifteen_minutes")]
    timeout: u64,
    /// Checks of kubeadm whose failure is no reason to stop.
    #[serde(default)]
    ignore_preflight: Vec<String>,
}

/// The node is freed of pods.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// Seconds within which the pods must have gone.
    #[serde(default = "ten_minutes")]
    timeout: u64,
    /// Pods without a controller go too.
    #[serde(default)]
    unmanaged: bool,
    /// Pods with emptyDir volumes go too.
    #[serde(default)]
    delete_emptydir_data: bool,
}

/// The node takes pods again.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// Seconds within which the node must be Ready.
    #[serde(default = "three_minutes")]
    timeout: u64,
}

fn fifteen_minutes() -> u64 {
    900
}

fn ten_minutes() -> u64 {
    600
}

fn three_minutes() -> u64 {
    180
}

/// The part of an upgrade that an item is.
enum UpgradePart<'a> {
    Follow(&'a Follow),
    Drain(&'a Drain),
    Resume(&'a Resume),
}

impl KubeadmUpgrade {
    /// The one part that is given.
    fn part(&self) -> Option<UpgradePart<'_>> {
        match (&self.follow, &self.drain, &self.resume) {
            (Some(follow), None, None) => Some(UpgradePart::Follow(follow)),
            (None, Some(drain), None) => Some(UpgradePart::Drain(drain)),
            (None, None, Some(resume)) => Some(UpgradePart::Resume(resume)),
            _ => None,
        }
    }

    fn id(&self, part: &UpgradePart<'_>) -> ObjectId {
        let key = match part {
            UpgradePart::Follow(_) => "follow".to_owned(),
            UpgradePart::Drain(_) => format!("drain:{}", self.node),
            UpgradePart::Resume(_) => format!("pods:{}", self.node),
        };
        ObjectId::new("kubeadm_upgrade", &key)
    }

    /// The version as Kubernetes writes it.
    fn tag(&self) -> String {
        format!("v{}", self.version)
    }
}

impl Resource for KubeadmUpgrade {
    const KIND: &'static str = "kubeadm_upgrade";
    const EXAMPLE: &'static str = "\
- name: the node is free of pods before its kubelet changes
  kubeadm_upgrade:
    endpoint: api.cluster.example:6443
    version: 1.36.2
    node: worker-1
    control_plane: cp1
    drain: {timeout: 900, delete_emptydir_data: true}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        if !is_version(&self.version) {
            wrong("/version", "it is no version", "write it as `1.36.2`");
        }
        if !is_node_name(&self.node) {
            wrong("/node", "it is not a valid name of a node", "write it as `kubectl get nodes` shows it");
        }
        if self.control_plane.is_empty() {
            wrong("/control_plane", "no host is named", "name the first control plane of the inventory");
        }
        let (host, port) = self.endpoint.rsplit_once(':').unwrap_or_default();
        if host.is_empty() || port.parse::<u16>().is_err() {
            wrong("/endpoint", "it is not written as HOST:PORT", "write it as `10.0.0.10:6443`");
        }
        match self.part() {
            Some(UpgradePart::Follow(follow)) => {
                let word = |name: &String| {
                    !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b',')
                };
                if let Some(n) = follow.ignore_preflight.iter().position(|name| !word(name)) {
                    wrong(
                        &format!("/follow/ignore_preflight/{n}"),
                        "it is not the name of a check",
                        "write it as kubeadm shows it in brackets: `SystemVerification`",
                    );
                }
                check_deadline("/follow/timeout", follow.timeout, 3600, &mut errors);
            }
            Some(UpgradePart::Drain(drain)) => {
                check_deadline("/drain/timeout", drain.timeout, 3600, &mut errors)
            }
            Some(UpgradePart::Resume(resume)) => {
                check_deadline("/resume/timeout", resume.timeout, 1500, &mut errors);
            }
            None => wrong(
                "",
                "a resource is one part of an upgrade",
                "give one of `follow`, `drain` and `resume`",
            ),
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        self.part().map(|part| Claim::exclusive(self.id(&part), "upgrade")).into_iter().collect()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let Some(part) = self.part() else { return Ok(WantedStates::default()) };
        let id = self.id(&part);
        let now: KubeadmUpgradeState = state(view, &id)?;
        let version = self.tag();
        let (KubeadmUpgrade { endpoint, node, control_plane, .. }, same) =
            (self, WantedStates::one(id.clone(), now.clone()));
        Ok(match (part, now) {
            (UpgradePart::Follow(follow), KubeadmUpgradeState::At(at)) if at != version => WantedStates {
                settings: vec![("CV_KUBEADM_IGNORE".to_owned(), follow.ignore_preflight.join(","))],
                fetch: Some(leads(control_plane, &version, endpoint, follow.timeout)),
                notes: vec![format!("waits until the cluster has {version}: {control_plane} is asked")],
                ..WantedStates::one(id, KubeadmUpgradeState::At(version.clone()))
            },
            (
                UpgradePart::Drain(drain),
                KubeadmUpgradeState::Runs(other) | KubeadmUpgradeState::Free(other),
            ) if other != version => {
                let may = MayEnd { unmanaged: drain.unmanaged, with_emptydir: drain.delete_emptydir_data };
                WantedStates {
                    fetch: Some(free(control_plane, node, endpoint, drain.timeout, may)),
                    notes: vec![format!("{control_plane} cordons the node {node} and evicts its pods")],
                    ..WantedStates::one(id, KubeadmUpgradeState::Free(version.clone()))
                }
            }
            (UpgradePart::Resume(resume), KubeadmUpgradeState::Cordoned(_)) => WantedStates {
                settings: vec![
                    ("CV_KUBEADM_READY".to_owned(), version),
                    ("CV_KUBEADM_SECONDS".to_owned(), resume.timeout.to_string()),
                ],
                ..WantedStates::one(id, KubeadmUpgradeState::Open)
            },
            (UpgradePart::Resume(_), KubeadmUpgradeState::Silent) => {
                let reason = "the API server of the cluster does not answer".to_owned();
                return Err(Stop::Deferred(Wait { item: String::new(), reason }));
            }
            _ => same,
        })
    }
}

#[cfg(test)]
#[path = "kubeadm_upgrade_tests.rs"]
mod tests;
