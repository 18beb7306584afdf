//! The objects of a machine, one file each: state, probe, parsing, steps, save and restore.

pub mod ancestors;
pub mod apt_index;
pub mod apt_lists;
pub mod boot;
pub mod certificates;
pub mod command;
pub mod condition;
pub mod container_image;
pub mod deb_version;
pub mod dpkg;
pub mod fetched;
pub mod filesystem;
pub mod firewall;
#[cfg(test)]
mod fulfils_tests;
pub mod git;
pub mod group;
pub mod hostname;
pub mod k8s;
pub mod k8s_snap;
pub mod kubeadm;
pub mod kubeadm_certificates;
pub mod kubeadm_config;
pub mod kubeadm_control_plane;
pub mod kubeadm_upgrade;
pub mod locale;
pub mod module;
pub mod mount;
pub mod package;
pub mod path;
mod programs;
pub mod registry;
pub mod release;
pub mod rpm_key;
pub mod rpm_metadata;
pub mod snap;
pub mod swap;
pub mod sysctl;
#[cfg(test)]
mod testing;
pub mod unit;
pub mod user;
pub mod workload;

pub use apt_index::AptIndexState;
pub use apt_lists::AptListsState;
pub use boot::BootState;
pub use certificates::{KUBEADM_FILES, openssl_moment};
pub use command::{Command, CommandGuard, CommandState, Surroundings};
pub use condition::ConditionState;
pub use container_image::ContainerImageState;
pub use dpkg::DpkgState;
pub use fetched::FetchedState;
pub use filesystem::FilesystemState;
pub use firewall::FirewallState;
pub use git::GitState;
pub use group::GroupState;
pub use hostname::HostnameState;
pub use k8s::K8sState;
pub use k8s_snap::K8sSnapState;
pub use kubeadm::KubeadmState;
pub use kubeadm_certificates::KubeadmCertificatesState;
pub use kubeadm_config::KubeadmConfigState;
pub use kubeadm_control_plane::{ControlPlaneState, PARTS, declared_words, open_argument};
pub use kubeadm_upgrade::KubeadmUpgradeState;
pub use locale::{LocaleState, listed_locale};
pub use module::ModuleState;
pub use mount::MountState;
pub use package::{APT_CHOICE, PackageState, chooses_packages};
pub use path::{PathState, account_number};
pub use registry::{
    action_of, api_ref, below, covered, follows, is_action, is_container, is_followed, is_of_api, object,
    objects, release_of, shell_texts, title_of, traits_of,
};
pub use release::ReleaseState;
pub use rpm_key::RpmKeyState;
pub use rpm_metadata::RpmMetadataState;
pub use snap::{SnapRevision, SnapState};
pub use swap::SwapState;
pub use sysctl::SysctlState;
pub use unit::UnitState;
pub use user::{UserState, expiry_day};
pub use workload::WorkloadState;
