//! What a host is to do, as data.

use crate::Digest;
use serde::{Deserialize, Serialize};

/// One piece of work on a host: shell text that uses the objects' functions ([`crate::Object::SHELL`]).
/// It ends with status 0 exactly when it did its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// POSIX shell text; every operand built with [`quote`].
    pub script: String,
    /// The content that the script reads from its standard input.
    pub stdin: Option<Digest>,
    /// Seconds after which the step counts as failed.
    pub timeout: u64,
    /// What it does, for progress: `apt-get install curl`.
    pub title: String,
}

impl Step {
    /// A quick step (deadline of 120 s) without input.
    pub fn new(title: impl Into<String>, script: impl Into<String>) -> Self {
        Self { script: script.into(), stdin: None, timeout: 120, title: title.into() }
    }

    /// The same step, reading this content.
    #[must_use]
    pub fn reading(mut self, digest: Digest) -> Self {
        self.stdin = Some(digest);
        self
    }

    /// The same step with another deadline in seconds.
    #[must_use]
    pub fn within(mut self, seconds: u64) -> Self {
        self.timeout = seconds;
        self
    }
}

/// Quotes one word for a POSIX shell.
pub fn quote(word: &str) -> String {
    let plain = !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./:@%+,=-".contains(&b))
        && !word.starts_with('=');
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn words_are_quoted_only_when_they_must_be() {
        assert_eq!(quote("/etc/hosts"), "/etc/hosts");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("it's $HOME"), "'it'\\''s $HOME'");
        assert_eq!(quote("~root"), "'~root'");
    }
}
