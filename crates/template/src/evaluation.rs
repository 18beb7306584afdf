//! The result of an evaluation.

use std::collections::BTreeSet;

/// A value and the names that were looked up for it.
#[derive(Debug, Clone, PartialEq)]
pub struct EvaluationResult<T> {
    /// The value.
    pub value: T,
    /// Every variable that was looked up, through other variables too; those of other hosts as `hostvars.HOST.NAME`, and
    /// `lookup('env', 'X')` as `lookup.env.X`.
    pub lookups: BTreeSet<String>,
    /// One of them was marked sensitive: the value is to be treated as a secret.
    pub sensitive: bool,
}

/// A value, or the reason why it cannot be known yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Evaluation<T> {
    /// The value is known.
    Known(EvaluationResult<T>),
    /// The value depends on unknown variables (facts not gathered, results of a first run).
    Unknown {
        /// These variables.
        names: BTreeSet<String>,
        /// Every variable that was looked up before.
        lookups: BTreeSet<String>,
    },
}

impl<T> Evaluation<T> {
    /// The value, where it is known.
    pub fn known(self) -> Option<T> {
        match self {
            Self::Known(evaluated) => Some(evaluated.value),
            Self::Unknown { .. } => None,
        }
    }

    /// The same evaluation with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Evaluation<U> {
        match self {
            Self::Known(EvaluationResult { value, lookups, sensitive }) => {
                Evaluation::Known(EvaluationResult { value: change(value), lookups, sensitive })
            }
            Self::Unknown { names, lookups } => Evaluation::Unknown { names, lookups },
        }
    }

    /// Every variable that was looked up.
    pub fn lookups(&self) -> &BTreeSet<String> {
        match self {
            Self::Known(evaluated) => &evaluated.lookups,
            Self::Unknown { lookups, .. } => lookups,
        }
    }
}
