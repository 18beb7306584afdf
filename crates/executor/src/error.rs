//! The reason why a target takes no part in a run.

use serde::{Deserialize, Serialize};

/// The reason why a target takes no part in a run, or no longer does. The message names what is wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum TargetError {
    /// It did not answer, or stopped answering.
    #[error("{0}")]
    Unreachable(String),
    /// It answered and refused the login.
    #[error("{0}")]
    LoginRefused(String),
    /// Excluded by the inventory (`maintenance`); not contacted.
    #[error("excluded: the inventory sets `maintenance: true`")]
    Maintenance,
    /// Another run is at work on it.
    #[error("{0}")]
    Locked(String),
    /// It is there, and must not be worked on: a changed host key, foreign records, a fault of its answers.
    #[error("{0}")]
    Refused(String),
}

impl TargetError {
    /// The same error with another message, made of the present one. That of maintenance is fixed.
    #[must_use]
    pub fn map_message(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Unreachable(message) => Self::Unreachable(change(message)),
            Self::LoginRefused(message) => Self::LoginRefused(change(message)),
            Self::Maintenance => Self::Maintenance,
            Self::Locked(message) => Self::Locked(change(message)),
            Self::Refused(message) => Self::Refused(change(message)),
        }
    }

    /// True if the target could not be reached or refused the login (exit code 3); false if the target was refused (exit code 4).
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::LoginRefused(_) | Self::Maintenance)
    }

    /// The state of the target, in a word or two.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::LoginRefused(_) => "login refused",
            Self::Maintenance => "in maintenance",
            Self::Locked(_) | Self::Refused(_) => "refused",
        }
    }
}

/// A message without the target's name before it: whoever shows it names the target.
#[must_use]
pub fn without_name(target: &str, message: &str) -> String {
    let rest = message.strip_prefix(target).and_then(|rest| rest.strip_prefix(": "));
    rest.unwrap_or(message).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_read_as_it_was_written() {
        for error in [
            TargetError::Unreachable("a".to_owned()),
            TargetError::LoginRefused("b".to_owned()),
            TargetError::Maintenance,
            TargetError::Locked("c".to_owned()),
            TargetError::Refused("d".to_owned()),
        ] {
            let text = serde_json::to_string(&error).unwrap();
            assert_eq!(serde_json::from_str::<TargetError>(&text).unwrap(), error, "{text}");
            let named = error.clone().map_message(|message| format!("through h: {message}"));
            assert_eq!(named.word(), error.word());
            assert_eq!(named.to_string() == error.to_string(), error == TargetError::Maintenance);
        }
    }

    #[test]
    fn only_a_target_that_let_nobody_in_counts_as_unreachable() {
        assert!(TargetError::Maintenance.is_unreachable());
        assert!(TargetError::LoginRefused(String::new()).is_unreachable());
        assert!(!TargetError::Locked(String::new()).is_unreachable());
        assert!(!TargetError::Refused(String::new()).is_unreachable());
    }
}
