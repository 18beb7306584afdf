//! The parts of Kubernetes and its surroundings, and the programs of each.

use super::versions;
use std::path::{Path, PathBuf};

/// Programs that are built together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The API server, the controller manager, the scheduler and kubectl.
    Kubernetes,
    /// etcd.
    Etcd,
    /// The tools for etcd's data: etcdctl and etcdutl.
    EtcdTools,
    /// helm.
    Helm,
    /// kwok.
    Kwok,
    /// kubeadm, kubelet and kube-proxy.
    Kubeadm,
    /// All seven of Kubernetes under the name of the older version.
    Older,
    /// containerd, its shim and `ctr`.
    Containerd,
    /// CoreDNS.
    Coredns,
    /// The CNI plugins.
    Cni,
    /// NVIDIA's device plugin, feature discovery and configuration manager.
    DevicePlugin,
    /// NVIDIA's container toolkit.
    Toolkit,
}

impl Part {
    /// All parts.
    pub const ALL: &[Self] = &[
        Self::Kubernetes,
        Self::Etcd,
        Self::EtcdTools,
        Self::Helm,
        Self::Kwok,
        Self::Kubeadm,
        Self::Older,
        Self::Containerd,
        Self::Coredns,
        Self::Cni,
        Self::DevicePlugin,
        Self::Toolkit,
    ];

    /// Its short name, which is its folder in the cache.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Etcd => "etcd",
            Self::EtcdTools => "etcd-tools",
            Self::Helm => "helm",
            Self::Kwok => "kwok",
            Self::Kubeadm => "kubeadm",
            Self::Older => "older",
            Self::Containerd => "containerd",
            Self::Coredns => "coredns",
            Self::Cni => "cni",
            Self::DevicePlugin => "device-plugin",
            Self::Toolkit => "toolkit",
        }
    }

    /// The programs that it brings.
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Kubernetes => &["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"],
            Self::Etcd => &["etcd"],
            Self::EtcdTools => &["etcdctl", "etcdutl"],
            Self::Helm => &["helm"],
            Self::Kwok => &["kwok"],
            Self::Kubeadm => &["kubeadm", "kubelet", "kube-proxy"],
            Self::Older => &[
                "kubeadm",
                "kubelet",
                "kubectl",
                "kube-proxy",
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
            ],
            Self::Containerd => &["containerd", "containerd-shim-runc-v2", "ctr"],
            Self::Coredns => &["coredns"],
            Self::Cni => &["bridge", "loopback", "ptp", "host-local", "portmap", "firewall", "tuning"],
            Self::DevicePlugin => &["nvidia-device-plugin", "gpu-feature-discovery", "config-manager"],
            Self::Toolkit => &["nvidia-ctk", "nvidia-container-runtime", "nvidia-cdi-hook"],
        }
    }

    /// Where it lies below a folder of ready-made programs.
    pub(super) fn in_assets(self, assets: &Path) -> PathBuf {
        match self {
            Self::Cni => assets.join("cni"),
            Self::Older => assets.join(versions::KUBERNETES_OLDER),
            _ => assets.to_owned(),
        }
    }
}
