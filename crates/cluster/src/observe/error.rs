//! Reasons why a question to a cluster has no answer.

use super::job::JobError;
use crate::fault::Fault;
use crate::helm::HelmError;
use crate::record_error::RecordsError;
use std::sync::Arc;
use thiserror::Error;

/// The reason why a question to a cluster has no answer.
#[derive(Debug, Error)]
pub(crate) enum LookError {
    #[error(transparent)]
    Api(#[from] Fault),
    /// The list that stands for this and other questions was not answered.
    #[error(transparent)]
    List(#[from] Arc<Fault>),
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error(transparent)]
    Helm(#[from] HelmError),
    #[error(transparent)]
    Job(#[from] JobError),
    #[error("a cluster has no files and runs no scripts")]
    OfHosts,
    #[error("`{0}` is not of a cluster")]
    Kind(String),
    #[error("`{0}` names no object of a cluster")]
    ObjectKey(String),
    #[error("`{0}` names no release; it is written NAMESPACE/NAME")]
    ReleaseKey(String),
    #[error("the condition is not understood; plan again")]
    ConditionKey,
    /// The manifest of a revision is no YAML.
    #[error(transparent)]
    Manifest(#[from] serde_yaml::Error),
    #[error(
        "helm's record {namespace}/{secret} is not understood; `helm history {release} -n {namespace}` may tell more"
    )]
    HelmRecord { namespace: String, secret: String, release: String },
    #[error("the release is not understood: {0}")]
    ReleaseSpec(serde_json::Error),
    #[error("the release is not understood: {0}")]
    Archive(base64::DecodeError),
}
