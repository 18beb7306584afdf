//! Every version of the Kubernetes parts, in one place. Another version is another folder in the cache.

/// Kubernetes, without the `v`.
pub const KUBERNETES: &str = "1.36.2";
/// The same source under the name of the minor version before: what an upgrade starts from. It tests the mechanics of an upgrade,
/// nothing else.
pub const KUBERNETES_OLDER: &str = "1.35.6";
/// etcd.
pub const ETCD: &str = "3.6.14";
/// helm.
pub const HELM: &str = "3.21.4";
/// kwok, which plays kubelets.
pub const KWOK: &str = "0.8.0";
/// containerd.
pub const CONTAINERD: &str = "2.2.9";
/// CoreDNS.
pub const COREDNS: &str = "1.14.2";
/// The CNI plugins.
pub const CNI: &str = "1.9.1";
/// NVIDIA's device plugin, GPU feature discovery and configuration manager.
pub const DEVICE_PLUGIN: &str = "0.19.3";
/// NVIDIA's container toolkit.
pub const TOOLKIT: &str = "1.20.0";
/// The pause image's tag that kubeadm asks for.
pub const PAUSE: &str = "3.10.2";
/// The Go language version of the modules that the parts are built in.
pub const GO: &str = "1.26.0";

/// The versions that determine a build.
pub(crate) fn all() -> String {
    [
        KUBERNETES,
        KUBERNETES_OLDER,
        ETCD,
        HELM,
        KWOK,
        CONTAINERD,
        COREDNS,
        CNI,
        DEVICE_PLUGIN,
        TOOLKIT,
        PAUSE,
        GO,
    ]
    .join(" ")
}
