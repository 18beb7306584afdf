//! Claims: the parts of objects that a resource manages.

use crate::ObjectId;

/// The claim of a resource on one facet of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The object.
    pub object: ObjectId,
    /// The facet: `content`, `mode`, `owner`, `group`, `presence`, `version`, `enabled`, `active`, `value` …
    pub facet: &'static str,
    /// The mode.
    pub mode: ClaimMode,
}

/// The mode of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimMode {
    /// It decides the whole facet: no other item may claim it.
    Exclusive,
    /// It changes a part and keeps the rest: several may, in order.
    Edit,
    /// It wants this value: others may want the same.
    Shared(String),
}

impl Claim {
    /// A claim on the whole facet.
    pub fn exclusive(object: ObjectId, facet: &'static str) -> Self {
        Self { object, facet, mode: ClaimMode::Exclusive }
    }

    /// A claim on a part of the facet. For the facet `content` of a path the present content is read beforehand.
    pub fn edit(object: ObjectId, facet: &'static str) -> Self {
        Self { object, facet, mode: ClaimMode::Edit }
    }

    /// A claim on one value of the facet.
    pub fn shared(object: ObjectId, facet: &'static str, value: impl Into<String>) -> Self {
        Self { object, facet, mode: ClaimMode::Shared(value.into()) }
    }
}
