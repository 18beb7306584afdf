//! The effect of a change on the work that runs on a host.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The degree to which a change disturbs running work. Disruptive changes are made on one host first, then on a few at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disruption {
    /// Nothing that runs notices it.
    #[default]
    None,
    /// Something that runs is stopped or restarted.
    Restarts,
    /// The host must be free of work.
    Drain,
}

impl Disruption {
    /// The words that a user may write.
    pub const WORDS: [&'static str; 3] = ["none", "restarts", "drain"];

    /// Reads one of [`Disruption::WORDS`].
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "none" => Some(Self::None),
            "restarts" => Some(Self::Restarts),
            "drain" => Some(Self::Drain),
            _ => None,
        }
    }

    /// The word that a user writes.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Restarts => "restarts",
            Self::Drain => "drain",
        }
    }

    /// The effect of a change that may come, after the word `may`.
    pub fn possible(self) -> &'static str {
        match self {
            Self::None => "disturb nothing",
            Self::Restarts => "restart workloads",
            Self::Drain => "need drain",
        }
    }

    /// Anything but [`Disruption::None`].
    pub fn is_some(self) -> bool {
        self != Self::None
    }
}

impl fmt::Display for Disruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "disturbs nothing",
            Self::Restarts => "restarts workloads",
            Self::Drain => "needs drain",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for word in Disruption::WORDS {
            assert_eq!(Disruption::from_word(word).map(Disruption::word), Some(word));
        }
        assert_eq!(Disruption::from_word("some"), None);
        assert!(Disruption::None < Disruption::Restarts && Disruption::Restarts < Disruption::Drain);
    }
}
