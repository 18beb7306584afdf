//! Reasons why a person must decide.

/// A reason why something cannot be written here without a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportProblem {
    /// The reason.
    pub why: String,
    /// The text to write.
    pub write: String,
}

impl ImportProblem {
    pub(crate) fn new(why: impl Into<String>, write: impl Into<String>) -> Self {
        Self { why: why.into(), write: write.into() }
    }
}
