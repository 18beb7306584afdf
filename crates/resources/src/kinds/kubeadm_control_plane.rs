//! `kubeadm_control_plane`

use crate::look::state;
use converge_objects::{ControlPlaneState, PARTS, declared_words, open_argument};
use converge_resource::{Claim, ObjectId, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The arguments of a control plane that kubeadm has made, and the names in its API server's certificate.
///
/// Declared are `apiServer`, `controllerManager` and `scheduler` of the `ClusterConfiguration`: `extraArgs`, `extraVolumes`, `extraEnvs`, `certSANs`.
/// The plan compares argument by argument and name by name with the manifests in `/etc/kubernetes/manifests` and with the certificate. kubeadm makes
/// the manifests and the certificate anew (`kubeadm init phase certs apiserver`, `kubeadm init phase control-plane all`) when a declared argument or
/// name is lacking, when the declaration has changed, and when the API server has an argument that nobody has declared and that lets everyone in:
/// `AlwaysAllow`, no `--authorization-mode` at all, `--token-auth-file`, `--basic-auth-file`, an insecure port or address,
/// `--service-account-lookup=false`, `AlwaysAdmit`, or NodeRestriction taken away. Other arguments that somebody has added are no difference. Then
/// the item waits until each changed program runs and the API server answers.
///
/// The record of the declaration and the files of the ten states before lie in `/var/lib/kubelet/control-plane-by-converge`, for root alone. A rollback
/// brings the earlier manifests and the earlier certificate back; the images stay, so that it takes no upgrade back. A run that was cut off is completed
/// by the next one. The file in which earlier versions of role `k8s` kept the declaration is read and replaced.
///
/// On a host that is no control plane, and before its init has ended, it does nothing. The cluster's own copy of the configuration, from which
/// control planes that join or are upgraded are made, is that of [`kubeadm_config`](kubeadm_config.md). `etcd`, `dns` and images change with an upgrade.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubeadmControlPlane {
    /// kubeadm's documents (`kubeadm.k8s.io/v1beta4`): a `ClusterConfiguration` with the `kubernetesVersion` that the cluster has, and an
    /// `InitConfiguration` with the host's own address.
    config: Vec<Map<String, Value>>,
}

impl KubeadmControlPlane {
    fn id() -> ObjectId {
        ObjectId::new("kubeadm_control_plane", "all")
    }

    fn document(&self, kind: &str) -> Option<&Map<String, Value>> {
        self.config.iter().find(|document| document.get("kind").and_then(Value::as_str) == Some(kind))
    }

    /// The declared parts; the others of the configuration are not its business.
    fn declared(&self) -> Map<String, Value> {
        let of =
            |part: &str| Some((part.to_owned(), self.document("ClusterConfiguration")?.get(part)?.clone()));
        let parts = PARTS.iter().filter_map(|(part, _)| of(part));
        parts.filter(|(_, fields)| fields.as_object().is_none_or(|fields| !fields.is_empty())).collect()
    }
}

/// The parts of a recorded declaration that have fields: earlier versions of role k8s recorded the others too.
fn filled(record: &str) -> Option<Map<String, Value>> {
    let parts: Map<String, Value> = serde_json::from_str(record).ok()?;
    Some(
        parts.into_iter().filter(|(_, fields)| fields.as_object().is_some_and(|of| !of.is_empty())).collect(),
    )
}

/// Whether the record is one of this kind's own, on one line; earlier versions of role k8s wrote several.
fn is_own(record: &str) -> bool {
    !record.trim_end().contains('\n')
}

/// The program and the name of the argument in a word: `kube-apiserver:--audit-log-path`.
fn argument(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

const API_SERVER: &str = "kube-apiserver:";

/// The words that must be there: the declared ones, and a mode of authorization.
fn required(declared: &Map<String, Value>, words: &[String]) -> Vec<String> {
    let mut with: Vec<String> = declared_words(declared).collect();
    let asks = |word: &String| {
        ["--authorization-mode", "--authorization-config"]
            .iter()
            .any(|name| argument(word).strip_prefix(API_SERVER) == Some(name))
    };
    if !with.iter().chain(words).any(asks) {
        with.push(format!("{API_SERVER}--authorization-mode=Node,RBAC"));
    }
    with
}

/// Whether fields are declared that are no arguments and no names.
fn has_more(declared: &Map<String, Value>) -> bool {
    let fields = declared.values().filter_map(Value::as_object).flat_map(Map::keys);
    fields.into_iter().any(|field| !matches!(field.as_str(), "extraArgs" | "certSANs"))
}

/// The words that must go: another value of a declared argument, and an argument that lets everyone in and that nobody has declared.
fn forbidden(with: &[String], words: &[String]) -> Vec<String> {
    let is_declared = |word: &String| with.iter().any(|other| argument(other) == argument(word));
    let is_open = |word: &String| word.strip_prefix(API_SERVER).is_some_and(open_argument);
    let bad = |word: &&String| {
        !with.contains(word) && !word.starts_with("name:") && (is_declared(word) || is_open(word))
    };
    words.iter().filter(bad).cloned().collect()
}

impl Resource for KubeadmControlPlane {
    const KIND: &'static str = "kubeadm_control_plane";
    const EXAMPLE: &'static str = "\
- name: the arguments of the control plane
  kubeadm_control_plane:
    config:
      - {apiVersion: kubeadm.k8s.io/v1beta4, kind: InitConfiguration, localAPIEndpoint: {advertiseAddress: 10.0.0.11}}
      - apiVersion: kubeadm.k8s.io/v1beta4
        kind: ClusterConfiguration
        kubernetesVersion: v1.36.2
        controlPlaneEndpoint: api.cluster.example:6443
        apiServer:
          certSANs: [api.cluster.example]
          extraArgs: [{name: audit-log-path, value: /var/log/audit.log}]
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        for kind in ["ClusterConfiguration", "InitConfiguration"] {
            if self.document(kind).is_none() {
                errors.push(ParamError::new("/config", format!("there is no `{kind}`"), "add that document"));
            }
        }
        let is_text = |value: Option<&Value>| value.is_some_and(Value::is_string);
        if self.document("ClusterConfiguration").is_some_and(|own| !is_text(own.get("kubernetesVersion"))) {
            let help = "add the version that the cluster has, as `v1.36.2`";
            let message = "without `kubernetesVersion` kubeadm asks the Internet for one";
            errors.push(ParamError::new("/config", message, help));
        }
        for (part, fields) in self.declared() {
            let list = fields.get("extraArgs").cloned().unwrap_or_default();
            let good = |argument: &Value| is_text(argument.get("name")) && is_text(argument.get("value"));
            if !(list.is_null() || list.as_array().is_some_and(|list| list.iter().all(good))) {
                let message = format!("`{part}.extraArgs` is not a list of arguments");
                errors.push(ParamError::new(
                    "/config",
                    message,
                    "write {name: audit-log-path, value: \"/x\"}",
                ));
            }
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::exclusive(Self::id(), "arguments")]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        // An init or join makes the manifests, and an upgrade makes them anew.
        let matters =
            |object: &ObjectId, _: bool| matches!(object.kind.as_str(), "kubeadm" | "kubeadm_upgrade");
        if let Some(wait) = view.pending_act(&matters) {
            return Err(Stop::Deferred(wait));
        }
        let now: ControlPlaneState = state(view, &Self::id())?;
        let ControlPlaneState::There { record, words } = &now else {
            return Ok(WantedStates::one(Self::id(), now));
        };
        let declared = self.declared();
        let with = required(&declared, words);
        let without = forbidden(&with, words);
        let is_there = without.is_empty() && with.iter().all(|word| words.contains(word));
        let was_declared = filled(record).as_ref() == Some(&declared);
        if is_there && was_declared && is_own(record) {
            return Ok(WantedStates::one(Self::id(), now));
        }
        let new = Value::Object(declared.clone()).to_string();
        // Without a record nothing says whether volumes and the like are those that are declared.
        if is_there && (was_declared || record == "-" && !has_more(&declared)) {
            let target = ControlPlaneState::There { record: new, words: words.clone() };
            return Ok(WantedStates::one(Self::id(), target));
        }
        let documents: Vec<String> =
            self.config.iter().map(|document| Value::Object(document.clone()).to_string()).collect();
        Ok(WantedStates {
            settings: vec![("CV_KUBEADM_CONFIG".to_owned(), documents.join("\n---\n"))],
            ..WantedStates::one(Self::id(), ControlPlaneState::Planned { record: new, with, without })
        })
    }
}

#[cfg(test)]
#[path = "kubeadm_control_plane_tests.rs"]
mod tests;
