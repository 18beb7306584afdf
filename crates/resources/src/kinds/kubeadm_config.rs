//! `kubeadm_config`

use crate::look::state;
use crate::structured::{Format, Wishes, edit, leaves, pointer};
use converge_objects::KubeadmConfigState;
use converge_resource::{Claim, ObjectId, ParamError, Resource, Stop, View, Wait, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A configuration that kubeadm keeps in the cluster: its own, that of the kubelets, or that of kube-proxy.
///
/// kubeadm writes them when it makes the cluster. From its own it makes the control planes that join and those that are upgraded. A node that joins
/// starts from the kubelets', and an upgrade lays it on every node; a node that is in the cluster has a file of its own,
/// `/var/lib/kubelet/config.yaml`, which is a `structured` resource's. The pods of kube-proxy read theirs when they start: they are restarted, one node
/// after the other, when it changes.
///
/// Only the given fields are set; all others stay. A value in another spelling, `1m0s` for `1m`, is the same.
///
/// It runs on a control plane, with `/etc/kubernetes/admin.conf`. On another host, before `kubeadm init` has ended, and
/// where the cluster has no kube-proxy it does nothing. While the API does not answer, the change cannot be planned: the
/// resource is deferred.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubeadmConfig {
    /// Which: `cluster` is `ClusterConfiguration` of the ConfigMap `kubeadm-config`, `kubelet` is `kubelet` of `kubelet-config`, `kube_proxy` is
    /// `config.conf` of `kube-proxy`.
    document: Document,
    /// A mapping that is laid over it: each value in it that is not a mapping is set at its place.
    merge: Map<String, Value>,
}

/// Whose configuration it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Document {
    /// That of kubeadm itself (`ClusterConfiguration`).
    Cluster,
    /// That of the kubelets (`KubeletConfiguration`).
    Kubelet,
    /// That of kube-proxy (`KubeProxyConfiguration`).
    KubeProxy,
}

impl Document {
    fn key(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Kubelet => "kubelet",
            Self::KubeProxy => "kube_proxy",
        }
    }
}

/// A duration as Go writes it (`1h0m0s`, `1.5m`), in nanoseconds.
fn go_duration(text: &str) -> Option<i128> {
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at(number);
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let nanoseconds = match unit {
            "h" => 3600e9,
            "m" => 60e9,
            "s" => 1e9,
            "ms" => 1e6,
            "us" | "µs" => 1e3,
            "ns" => 1.0,
            _ => return None,
        };
        sum += digits.parse::<f64>().ok()? * nanoseconds;
        rest = after;
    }
    // No configuration has a duration that would not fit.
    (!text.is_empty()).then_some(sum.round() as i128)
}

/// Whether programs read the same from both.
fn means_the_same(a: &Value, b: &Value) -> bool {
    match (a.as_str().and_then(go_duration), b.as_str().and_then(go_duration)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

impl KubeadmConfig {
    fn id(&self) -> ObjectId {
        ObjectId::new("kubeadm_config", self.document.key())
    }

    /// The text with the fields in it.
    fn changed(&self, text: &str) -> Result<String, Stop> {
        let now: Value = crate::structured::read(Format::Yaml, text)
            .map_err(|why| Stop::Failed(format!("{}: {}", self.id(), why.message)))?;
        let mut set = Vec::new();
        leaves(&[], &self.merge, &mut set);
        set.retain(|(at, value)| !now.pointer(&pointer(at)).is_some_and(|is| means_the_same(is, value)));
        let wishes = Wishes { set, ..Wishes::default() };
        edit(Format::Yaml, text, &wishes).map_err(|refusal| Stop::Invalid {
            pointer: format!("/merge{}", refusal.at),
            message: format!("{}: {}", self.id(), refusal.message),
            help: refusal.help,
            open: None,
        })
    }
}

impl Resource for KubeadmConfig {
    const KIND: &'static str = "kubeadm_config";
    const EXAMPLE: &'static str = "\
- name: the kubelet's configuration in the cluster
  kubeadm_config:
    document: kubelet
    merge: {maxPods: 200, evictionHard: {memory.available: 500Mi}}
";

    fn validate(&self) -> Vec<ParamError> {
        if self.merge.is_empty() {
            return vec![ParamError::new("/merge", "nothing is changed", "name at least one field")];
        }
        Vec::new()
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::exclusive(self.id(), "document")]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let now: KubeadmConfigState = state(view, &self.id())?;
        let target = match &now {
            KubeadmConfigState::Absent => now.clone(),
            KubeadmConfigState::Silent => {
                let reason = "the API server of the cluster does not answer".to_owned();
                return Err(Stop::Deferred(Wait { item: String::new(), reason }));
            }
            KubeadmConfigState::Text { text, .. } => {
                let text = self.changed(&format!("{text}\n"))?.trim_end_matches('\n').to_owned();
                KubeadmConfigState::Text { text, unread: false }
            }
        };
        Ok(WantedStates::one(self.id(), target))
    }

    fn basis(&self) -> Option<String> {
        Some(json!([self.document.key(), self.merge]).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};

    const TEXT: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\nauthentication:\n  webhook:\n    cacheTTL: 1m0s";

    fn kubelet(merge: &Value) -> KubeadmConfig {
        read(json!({"document": "kubelet", "merge": merge}))
    }

    fn host(text: &str, unread: bool) -> FakeView {
        let state = KubeadmConfigState::Text { text: text.to_owned(), unread };
        FakeView::new().has(ObjectId::new("kubeadm_config", "kubelet"), state)
    }

    #[test]
    fn only_the_given_fields_change() {
        let kind = kubelet(&json!({"maxPods": 77, "authentication": {"webhook": {"enabled": true}}}));
        settle(&kind, host(TEXT, false));
        let wanted = kind.plan(&host(TEXT, false)).unwrap();
        let words = wanted.targets[0].1.words().unwrap();
        let expected = TEXT.replace("110", "77") + "\n    enabled: true";
        assert_eq!(words, ["text".to_owned(), expected]);
    }

    #[test]
    fn what_means_the_same_stays() {
        let kind = kubelet(&json!({"maxPods": 110, "authentication": {"webhook": {"cacheTTL": "60s"}}}));
        let wanted = kind.plan(&host(TEXT, false)).unwrap();
        assert_eq!(wanted.targets[0].1.words().unwrap()[1], TEXT);
        // A configuration that was written but not read yet leads to a restart.
        let again = kind.plan(&host(TEXT, true)).unwrap();
        assert_eq!(again.targets, wanted.targets);
        for (a, b, same) in [("1m", "60s", true), ("1h30m", "1.5h", true), ("10s", "1s", false)] {
            assert_eq!(go_duration(a) == go_duration(b), same, "{a} {b}");
        }
        for text in ["", "1", "m", "1d", "100Mi", "..s"] {
            assert_eq!(go_duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_host_that_can_say_nothing_is_left_alone_and_a_silent_cluster_waited_for() {
        let kind = kubelet(&json!({"maxPods": 77}));
        let of = |state: KubeadmConfigState| FakeView::new().has(kind.id(), state);
        settle(&kind, of(KubeadmConfigState::Absent));
        assert!(matches!(kind.plan(&of(KubeadmConfigState::Silent)), Err(Stop::Deferred(_))));
        assert!(matches!(kind.plan(&host("a: [", false)), Err(Stop::Failed(_))));
    }

    #[test]
    fn nothing_to_change_is_a_mistake() {
        assert_eq!(wrong::<KubeadmConfig>(json!({"document": "kubelet", "merge": {}})), ["/merge"]);
    }
}
