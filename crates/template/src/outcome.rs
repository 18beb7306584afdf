//! What an evaluation came to.

use std::collections::BTreeSet;

/// A value and what was looked up on the way to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated<T> {
    /// The value.
    pub value: T,
    /// Every variable that was looked up, through other variables too; those of other hosts as `hostvars.HOST.NAME`, and
    /// `lookup('env', 'X')` as `lookup.env.X`.
    pub reached: BTreeSet<String>,
    /// One of them was marked sensitive: the value is to be treated as a secret.
    pub sensitive: bool,
}

/// A value, or the reason why it cannot be known yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<T> {
    /// It is known.
    Known(Evaluated<T>),
    /// It depends on variables that nothing knows yet (facts not gathered, results of a first run).
    Unknown {
        /// Those variables.
        names: BTreeSet<String>,
        /// Every variable that was looked up before.
        reached: BTreeSet<String>,
    },
}

impl<T> Outcome<T> {
    /// The value, where it is known.
    pub fn known(self) -> Option<T> {
        match self {
            Self::Known(evaluated) => Some(evaluated.value),
            Self::Unknown { .. } => None,
        }
    }

    /// The same outcome with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Known(Evaluated { value, reached, sensitive }) => {
                Outcome::Known(Evaluated { value: change(value), reached, sensitive })
            }
            Self::Unknown { names, reached } => Outcome::Unknown { names, reached },
        }
    }

    /// Every variable that was looked up.
    pub fn reached(&self) -> &BTreeSet<String> {
        match self {
            Self::Known(evaluated) => &evaluated.reached,
            Self::Unknown { reached, .. } => reached,
        }
    }
}
