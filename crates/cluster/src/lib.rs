//! The Kubernetes API through an SSH tunnel, and helm: the executor of everything that lives in a cluster.
//!
//! A [`Cluster`] is one connection to one API server. [`Cluster::observe`](converge_executor::Executor::observe) answers questions, [`Cluster::open`](converge_executor::Executor::open) takes the cluster's
//! lock, [`Cluster::work`] does an item, [`Cluster::close`](converge_executor::Executor::close) ends the run. What a run did is kept in the cluster itself: [`NAMESPACE`].

mod amend;
mod api;
mod apply;
mod certificate;
mod chart_fault;
mod chart_login;
mod connect;
mod error;
mod executor;
mod fault;
mod helm;
mod helm_folder;
mod helm_record;
mod kubeconfig;
mod lease;
mod login;
mod object;
mod observe;
mod open_run;
mod options;
mod owned;
mod ownership;
mod packed;
mod preserved;
mod private_file;
mod program;
mod record_error;
mod records;
mod rollout;
mod run;
mod saved_release;
mod sealed;
mod started;
mod takeover;
mod tunnel;
mod work;

pub use amend::RemainingFields;
pub use connect::{Cluster, ClusterAccess};
pub use error::ClusterError;
pub use fault::{Fault, ServerRefusal};
pub use helm_folder::abandon_helm;
pub use kubeconfig::KubeconfigError;
pub use login::{Login, LoginError};
pub use object::{changed_by, edited_since, is_of_one_release, marked_release};
pub use options::{ClusterOptions, UnreadIdentities};
pub use program::{environment, in_path};
pub use record_error::{Damage, RecordReadError, RecordsError, SecretSealError};
pub use records::NAMESPACE;
pub use run::SavedContents;
pub use work::{ClusterWork, WorkEnd, WorkResult};
