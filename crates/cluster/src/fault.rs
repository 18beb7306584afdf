//! The reason why a request to the API server has no answer.

use crate::error::ClusterError;
use serde_json::Value;
use std::fmt;
use thiserror::Error;

/// The reason why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The way to the server is broken.
    #[error(transparent)]
    Lost(#[from] ClusterError),
    /// The server refused.
    #[error("{0}")]
    Reply(Box<ServerRefusal>),
    /// The object's kind lives in a namespace, and none is named.
    #[error("{0}: this kind is namespaced: name a namespace")]
    NoNamespace(String),
    /// The object's kind lives in no namespace, and one is named.
    #[error("{0}: this kind is cluster-wide: remove the namespace")]
    ExtraNamespace(String),
    /// The server's answer is not JSON.
    #[error("the API server's answer is not JSON: {0}")]
    NotJson(serde_json::Error),
    /// The body cannot be written as JSON.
    #[error("the request cannot be written as JSON: {0}")]
    Body(serde_json::Error),
    /// The path is none of a request.
    #[error("the request cannot be made: {0}")]
    Request(#[from] http::Error),
    /// The process ends: no further request is sent.
    #[error("no further request is sent")]
    Closed,
}

impl Fault {
    /// The HTTP status.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Reply(reply) => Some(reply.code),
            _ => None,
        }
    }
}

/// The server's refusal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerRefusal {
    /// HTTP status.
    pub(crate) code: u16,
    /// `NotFound`, `Conflict`, `Invalid` …
    pub(crate) reason: String,
    /// The message for the user.
    pub(crate) message: String,
    /// The content of `details`.
    pub(crate) details: Value,
}

impl fmt::Display for ServerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            403 => write!(f, "the API server denied the request: {}", self.message),
            _ => write!(f, "the API server says: {}", self.message),
        }
    }
}

impl ServerRefusal {
    /// Out of the answer's status and body.
    pub(crate) fn of(code: u16, body: &[u8]) -> Self {
        let status: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let text = |key: &str| status.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut message = text("message");
        if message.is_empty() {
            let body = String::from_utf8_lossy(body);
            let words: String = body.trim().chars().filter(|c| !c.is_control()).take(300).collect();
            message = if words.is_empty() { format!("HTTP status {code}") } else { words };
        }
        Self {
            code,
            reason: text("reason"),
            message,
            details: status.get("details").cloned().unwrap_or_default(),
        }
    }

    /// Fields that other managers own.
    pub(crate) fn conflicts(&self) -> Vec<(String, String)> {
        let causes = self.details.get("causes").and_then(Value::as_array).into_iter().flatten();
        causes
            .filter(|c| c.get("reason").and_then(Value::as_str) == Some("FieldManagerConflict"))
            .map(|cause| {
                let text = |key: &str| cause.get(key).and_then(Value::as_str).unwrap_or_default();
                let message = text("message");
                let manager = message.split('"').nth(1).unwrap_or(message);
                (manager.to_owned(), text("field").to_owned())
            })
            .collect()
    }

    /// Whether all fields in the way are of one manager: those that it wrote by an update, where it applies them now.
    pub(crate) fn conflicts_only_with(&self, manager: &str) -> bool {
        let conflicts = self.conflicts();
        !conflicts.is_empty() && conflicts.iter().all(|(owner, _)| owner == manager)
    }

    /// The namespace is not there.
    pub(crate) fn lacks_namespace(&self) -> bool {
        self.code == 404 && self.details.get("kind").and_then(Value::as_str) == Some("namespaces")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_conflict_names_both() {
        let body = json!({"reason": "Conflict", "message": "Apply failed", "details": {"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"kubectl\" using v1", "field": ".data.a"}]}});
        let reply = ServerRefusal::of(409, body.to_string().as_bytes());
        assert_eq!(reply.conflicts(), [("kubectl".to_owned(), ".data.a".to_owned())]);
        assert!(!reply.lacks_namespace());
        assert_eq!(ServerRefusal::of(502, b"<html>\nbad gateway").message, "<html>bad gateway");
    }
}
