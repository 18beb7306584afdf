//! Variables and facts.

use super::*;

/// `converge vars --output json`: the sources of values.
#[derive(JsonSchema)]
pub struct VarsDocument {
    /// The document's format
    pub format: VarsFormat,
    /// Its version
    pub version: One,
    /// The host
    pub host: String,
    /// The variables
    pub vars: Vec<VarEntry>,
}

/// A variable.
#[derive(JsonSchema)]
pub struct VarEntry {
    /// Its name
    pub name: String,
    /// Every place that gives a value, lowest layer first
    pub candidates: Vec<CandidateEntry>,
    /// The winning candidates
    pub winners: Vec<WinnerEntry>,
}

/// A place that gives a value.
#[derive(JsonSchema)]
pub struct CandidateEntry {
    /// The layer
    pub layer: String,
    /// The role or play it belongs to
    pub within: Option<String>,
    /// The place: file, line and column
    pub at: String,
    /// Its value is not shown
    pub sensitive: bool,
    /// The value as written
    pub value: Value,
}

/// The candidate that wins.
#[derive(JsonSchema)]
pub struct WinnerEntry {
    /// In this role; null outside of roles
    pub role: Option<String>,
    /// Its place in `candidates`
    pub candidate: usize,
    /// The value after templates
    pub value: Value,
    /// The reason why there is no value
    pub why_not: Option<String>,
}

/// `converge facts --output json`: what hosts say about themselves.
#[derive(JsonSchema)]
pub struct FactsDocument {
    /// The document's format
    pub format: FactsFormat,
    /// Its version
    pub version: One,
    /// One entry a host
    pub hosts: Vec<HostFactsEntry>,
}

/// The facts of one host.
#[derive(JsonSchema)]
pub struct HostFactsEntry {
    /// The inventory's name
    pub host: String,
    /// Its facts
    pub facts: Option<converge_engine::HostFacts>,
    /// The reason why nothing could be asked
    pub lost: Option<Lost>,
}

/// `converge facts INVENTORY NAME --output json`: one fact of all hosts.
#[derive(JsonSchema)]
pub struct FactDocument {
    /// The document's format
    pub format: FactFormat,
    /// Its version
    pub version: One,
    /// The fact, as it was asked for
    pub name: String,
    /// One entry a host
    pub hosts: Vec<HostFactEntry>,
}

/// One fact of one host.
#[derive(JsonSchema)]
pub struct HostFactEntry {
    /// The inventory's name
    pub host: String,
    /// Its value
    pub value: Value,
    /// The reason why nothing could be asked
    pub lost: Option<Lost>,
}
