//! Reasons why a question to a cluster has no answer.

use super::job::JobError;
use crate::fault::Fault;
use crate::helm::HelmError;
use crate::object;
use crate::record_error::RecordsError;
use serde_json::Value;
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
    #[error("it has been in deletion since {since} and waits until {until}; plan again when it is gone")]
    BeingDeleted { since: String, until: String },
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

impl LookError {
    /// Of an object with a deletion timestamp.
    pub(super) fn being_deleted(found: &Value) -> Self {
        let finalizers = object::finalizers(found);
        let is_collected = object::is_being_collected(found);
        let until = match (finalizers.is_empty(), object::text(found, "/kind")) {
            (false, _) if is_collected => {
                "the API server's garbage collector has deleted what belongs to it".to_owned()
            }
            (false, _) => format!(
                "its finalizers {} are taken off: is the controller that handles them at work?",
                finalizers.join(", ")
            ),
            (true, "Namespace") => "all that is in it is gone".to_owned(),
            (true, _) => "its grace period ends".to_owned(),
        };
        Self::BeingDeleted { since: object::text(found, "/metadata/deletionTimestamp").to_owned(), until }
    }
}
