//! The registry: one line a kind.

use crate::kinds;
use converge_resource::KindInfo;

/// All kinds that a user can write, by name.
pub const KINDS: &[KindInfo] = &[
    KindInfo::of::<kinds::absent::Absent>(),
    KindInfo::of::<kinds::apt_repository::AptRepository>(),
    KindInfo::of::<kinds::archive::Archive>(),
    KindInfo::of::<kinds::assert::Assert>(),
    KindInfo::of::<kinds::authorized_key::AuthorizedKey>(),
    KindInfo::of::<kinds::block::Block>(),
    KindInfo::of::<kinds::command::Command>(),
    KindInfo::of::<kinds::container_images::ContainerImages>(),
    KindInfo::of::<kinds::cron::Cron>(),
    KindInfo::of::<kinds::directory::Directory>(),
    KindInfo::of::<kinds::download::Download>(),
    KindInfo::of::<kinds::fetch::Fetch>(),
    KindInfo::of::<kinds::file::File>(),
    KindInfo::of::<kinds::filesystem::Filesystem>(),
    KindInfo::of::<kinds::firewall::Firewall>(),
    KindInfo::of::<kinds::git::Git>(),
    KindInfo::of::<kinds::group::Group>(),
    KindInfo::of::<kinds::helm_release::HelmRelease>(),
    KindInfo::of::<kinds::helm_repository::HelmRepository>(),
    KindInfo::of::<kinds::hostname::Hostname>(),
    KindInfo::of::<kinds::k8s_job::K8sJob>(),
    KindInfo::of::<kinds::k8s_manifests::K8sManifests>(),
    KindInfo::of::<kinds::k8s_object::K8sObject>(),
    KindInfo::of::<kinds::k8s_patch::K8sPatch>(),
    KindInfo::of::<kinds::k8s_query::K8sQuery>(),
    KindInfo::of::<kinds::k8s_rollout::K8sRollout>(),
    KindInfo::of::<kinds::k8s_snap::K8sSnap>(),
    KindInfo::of::<kinds::k8s_transform::K8sTransform>(),
    KindInfo::of::<kinds::k8s_wait::K8sWait>(),
    KindInfo::of::<kinds::kernel_module::KernelModule>(),
    KindInfo::of::<kinds::kubeadm::Kubeadm>(),
    KindInfo::of::<kinds::kubeadm_certificates::KubeadmCertificates>(),
    KindInfo::of::<kinds::kubeadm_config::KubeadmConfig>(),
    KindInfo::of::<kinds::kubeadm_control_plane::KubeadmControlPlane>(),
    KindInfo::of::<kinds::kubeadm_upgrade::KubeadmUpgrade>(),
    KindInfo::of::<kinds::line::TextLine>(),
    KindInfo::of::<kinds::link::Link>(),
    KindInfo::of::<kinds::locale::Locale>(),
    KindInfo::of::<kinds::mount::Mount>(),
    KindInfo::of::<kinds::namespace::Namespace>(),
    KindInfo::of::<kinds::node::ClusterNode>(),
    KindInfo::of::<kinds::package::Package>(),
    KindInfo::of::<kinds::query::Query>(),
    KindInfo::of::<kinds::reboot::Reboot>(),
    KindInfo::of::<kinds::rpm_repository::RpmRepository>(),
    KindInfo::of::<kinds::secret::Secret>(),
    KindInfo::of::<kinds::service::Service>(),
    KindInfo::of::<kinds::snap::Snap>(),
    KindInfo::of::<kinds::structured::Structured>(),
    KindInfo::of::<kinds::swap::Swap>(),
    KindInfo::of::<kinds::sysctl::Sysctl>(),
    KindInfo::of::<kinds::timer::Timer>(),
    KindInfo::of::<kinds::timezone::Timezone>(),
    KindInfo::of::<kinds::unit::Unit>(),
    KindInfo::of::<kinds::user::User>(),
    KindInfo::of::<kinds::wait_for::WaitFor>(),
];

/// The kind of this name.
pub fn kind(name: &str) -> Option<&'static KindInfo> {
    KINDS.iter().find(|k| k.kind == name)
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
