//! The inputs with which this project's role `k8s` makes a cluster of lab hosts.

use super::repositories::Repositories;
use super::versions as v;
use crate::error::Result;
use crate::host::Host;
use serde_json::{Map, Value, json};

impl Repositories {
    /// Variables of all hosts for the role `k8s`, where `first` is the first control plane: where packages and images come from, and what
    /// lab hosts, which are containers on a machine that may have cgroup v1, cannot do.
    ///
    /// The control planes are the group `k8s_control_plane`. The role takes keys over https only, and these are served on the lab's own
    /// network: the text itself is given.
    pub fn role_variables(&self, first: &Host) -> Result<Map<String, Value>> {
        let variables = json!({
            "k8s_version": v::KUBERNETES,
            "k8s_apt": {
                "uris": self.kubernetes_url(),
                "fingerprint": self.kubernetes_fingerprint()?,
                "key": self.kubernetes_key()?,
            },
            "k8s_containerd_version": Self::containerd_package_version(),
            "k8s_containerd_apt": {
                "uris": self.containerd_url(), "suites": "bookworm", "components": "stable",
                "fingerprint": self.containerd_fingerprint()?,
                "key": self.containerd_key()?,
            },
            "k8s_endpoint": format!("{}:6443", first.address()),
            "k8s_images": format!("{{{{ '{}' if 'k8s_control_plane' in group_names else '{}' }}}}", Self::IMAGES, Self::WORKER_IMAGES),
            "k8s_pod_network": "bridge",
            "k8s_sandbox_image": format!("registry.k8s.io/pause:{}", v::PAUSE),
            "k8s_cluster": {"etcd": {"local": {"imageTag": format!("{}-0", v::ETCD)}}},
            "k8s_kubelet": {"failCgroupV1": false},
            "k8s_kube_proxy": {"conntrack": {"maxPerCore": 0}},
            "k8s_ignore_preflight": ["SystemVerification"],
            "k8s_kernel_modules": [],
            "k8s_sysctls": {"net.ipv4.ip_forward": 1},
        });
        Ok(variables.as_object().cloned().unwrap_or_default())
    }

    /// The same for the older Kubernetes of [`Repositories::serve_with_older`]: what differs.
    pub fn older_role_variables(&self) -> Result<Map<String, Value>> {
        let variables = json!({
            "k8s_version": v::KUBERNETES_OLDER,
            "k8s_apt": {
                "uris": self.older_kubernetes_url(),
                "fingerprint": self.kubernetes_fingerprint()?,
                "key": self.kubernetes_key()?,
            },
        });
        Ok(variables.as_object().cloned().unwrap_or_default())
    }
}
