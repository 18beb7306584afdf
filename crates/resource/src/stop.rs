//! The reasons why a resource cannot be planned yet, or not at all.

use crate::{ObjectId, Probe, State};
use serde::{Deserialize, Serialize};

/// A change that must be made on the host before a resource can be planned: an item of its own before the resource's.
#[derive(Clone, Debug, PartialEq)]
pub struct First {
    /// The name for people: `package index`.
    pub name: &'static str,
    /// Its one object.
    pub object: ObjectId,
    /// Its present state.
    pub from: State,
    /// Its wanted state.
    pub to: State,
    /// The reason.
    pub why: String,
}

/// The reason why an item is deferred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The address of the item to wait for, `role/resource name`; empty if that is no item.
    pub item: String,
    /// The reason: `the package may bring /etc/foo.conf`.
    pub reason: String,
}

/// The reason why a resource cannot be planned yet, or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// These questions must be answered first.
    Ask(Vec<Probe>),
    /// These changes must be made first, each by an item of its own. The resource is then planned again.
    First(Vec<First>),
    /// An earlier item must run first.
    Deferred(Wait),
    /// The declaration is invalid on this host.
    Invalid {
        /// JSON pointer of the parameter at fault: `/path`; empty for the whole item.
        pointer: String,
        /// The problem.
        message: String,
        /// The correction to write.
        help: Option<String>,
        /// The problem in words that quote no value: for an item whose values are sensitive.
        open: Option<String>,
    },
    /// The host cannot be read, or a check failed: the reason.
    Failed(String),
}

impl Stop {
    /// An invalid parameter.
    pub fn invalid(pointer: &str, message: impl ToString) -> Self {
        Self::Invalid { pointer: pointer.to_owned(), message: message.to_string(), help: None, open: None }
    }

    /// An invalid parameter, with help.
    pub fn invalid_help(pointer: &str, message: impl ToString, help: impl Into<String>) -> Self {
        Self::Invalid {
            pointer: pointer.to_owned(),
            message: message.to_string(),
            help: Some(help.into()),
            open: None,
        }
    }

    /// An invalid parameter, in words that quote no value.
    #[must_use]
    pub fn openly(self, words: String) -> Self {
        match self {
            Self::Invalid { pointer, message, help, .. } => {
                Self::Invalid { pointer, message, help, open: Some(words) }
            }
            other => other,
        }
    }

    /// The host cannot be read, or a check failed.
    pub fn failed(reason: impl ToString) -> Self {
        Self::Failed(reason.to_string())
    }
}
