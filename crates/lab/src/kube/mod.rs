//! Real Kubernetes for tests, from fast to whole.
//!
//! * An [`ApiServer`] inside a lab host (or a [`LocalApi`] on this machine's loopback): etcd and kube-apiserver, on request
//!   with the controllers and with kwok, which plays kubelets. Up in seconds.
//! * [`NodeSpec`]: simulated nodes with GPUs, on which DaemonSets roll out and Jobs complete.
//! * A whole cluster, on hosts that can become nodes ([`crate::LabOptions::kube`]), installed from [`Repositories`] by the role `k8s` with
//!   [`Repositories::role_variables`].
//! * GPUs without silicon: [`crate::Host::fake_gpus`] and [`device_plugin_image`].
//!
//! ```no_run
//! use converge_lab::kube::{ApiOptions, ApiServer, NodeSpec};
//! use converge_lab::{Lab, LabOptions};
//! # fn main() -> Result<(), converge_lab::LabError> {
//! let lab = Lab::open(LabOptions::new("t-example"))?;
//! let host = &lab.up(1)?[0];
//! // What a kubeadm control plane shows: 127.0.0.1:6443 and /etc/kubernetes/admin.conf of root.
//! let api = ApiServer::start(host, ApiOptions::new().kwok())?;
//! api.nodes(&NodeSpec::new("gpu", 4).gpus(8))?;
//! api.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")?;
//! # Ok(())
//! # }
//! ```
//!
//! Pods of a simulated node start within half a second. The annotation `converge-lab/pod` of a pod chooses another end:
//! `never-ready`, or `fails` (pods of Jobs, which else complete).
//!
//! The programs come from the folder that `KUBEBUILDER_ASSETS` names, else they are built once into the lab's cache, see [`ensure`].

mod api;
mod control_plane;
mod go;
mod gpus;
mod image;
mod kubectl;
mod local;
mod modules;
mod network;
mod nodes;
mod part;
mod parts;
mod pki;
mod repositories;
mod role;
mod server;
mod supervisor;
pub mod versions;

pub use api::ApiServer;
pub use control_plane::{Administrator, ApiOptions, Component};
pub use gpus::{DEVICE_PLUGIN_IMAGE, FAKE_GPUS, device_plugin_image, show_programs};
pub use kubectl::Kubectl;
pub use local::LocalApi;
pub use network::{SERVICE_SUBNET, pod_routes};
pub use nodes::NodeSpec;
pub use part::Part;
pub use parts::{ASSETS, Parts, ensure, ensure_in};
pub use repositories::{Repositories, missing};
