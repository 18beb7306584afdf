//! Records of earlier runs.

use super::*;

/// The relevant parts of a host's records.
#[derive(JsonSchema)]
#[schemars(rename = "Records")]
pub struct RecordsEntry {
    /// The number of managed objects
    pub owned: usize,
    /// The orphaned objects: managed and no longer declared
    pub no_longer_declared: Vec<UndeclaredEntry>,
    /// An unfinished run
    pub unfinished_run: Option<UnfinishedRun>,
    /// Damaged parts of the records, which are ignored
    pub damaged: Vec<String>,
}

/// An orphaned object: managed and no longer declared.
#[derive(JsonSchema)]
pub struct UndeclaredEntry {
    /// The object
    pub object: ObjectName,
    /// Its parts that are orphaned, where the object itself is still declared
    pub parts: Option<String>,
    /// The role that made or changed it
    pub role: String,
    /// The resource that made or changed it
    pub item: String,
    /// The time since when it is managed
    pub since: String,
    /// The effect of `--prune`
    pub prune: PruneFate,
    /// The reason why it is left alone or forgotten
    pub because: Option<String>,
}

/// The effect of `--prune`.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum PruneFate {
    /// The object is removed
    Removed,
    /// The object gets its original state back
    GivenBack,
    /// Others have parts of the object, which was not there before: the project's own are removed
    OwnPartRemoved,
    /// The object is no longer managed and stays as it is
    Forgotten,
    /// Nothing
    LeftAlone,
}

/// Changes that a host has reverted automatically.
#[derive(JsonSchema)]
pub struct PutBackEntry {
    /// The reason
    pub because: String,
    /// The resources
    pub items: Vec<String>,
}

/// An unfinished run.
#[derive(JsonSchema)]
pub struct UnfinishedRun {
    /// The run
    pub run: String,
    /// The time when it began
    pub time: String,
    /// The person who ran it
    pub operator: String,
    /// Whether it is still running
    pub busy: bool,
    /// Changes that the host has reverted automatically because they were not confirmed
    pub put_back: Option<PutBackEntry>,
    /// Resources that it has finished
    pub done: Vec<String>,
    /// Resources whose result is not known, each with the present state of the host
    pub unknown: Vec<UnknownItem>,
    /// Resources that it has not begun
    pub not_begun: Vec<String>,
}

/// A resource whose result is not known.
#[derive(JsonSchema)]
pub struct UnknownItem {
    /// Its address
    pub item: String,
    /// The present state
    pub now: String,
}

/// `converge snapshots --output json`: the runs that can be rolled back.
#[derive(JsonSchema)]
pub struct SnapshotsDocument {
    /// The document's format
    pub format: SnapshotsFormat,
    /// Its version
    pub version: One,
    /// One entry a host
    pub hosts: Vec<HostSnapshotsEntry>,
}

/// The snapshots of one host.
#[derive(JsonSchema)]
pub struct HostSnapshotsEntry {
    /// The inventory's name
    pub host: String,
    /// Newest first
    pub runs: Vec<SnapshotEntry>,
    /// The reason why they could not be read
    pub lost: Option<Lost>,
    /// Damaged parts of the records, which are ignored
    pub remarks: Vec<String>,
}

/// A run that can be rolled back.
#[derive(JsonSchema)]
pub struct SnapshotEntry {
    /// The run
    pub run: String,
    /// The time when it began, RFC 3339 UTC
    pub time: String,
    /// The person who ran it
    pub operator: String,
    /// `converge_project` of its inventory, where it has one
    pub project: Option<String>,
    /// Its playbook, as the operator named it
    pub playbook: String,
    /// Its inventory, likewise
    pub inventory: String,
    /// The roles that it worked on
    pub roles: Vec<String>,
    /// The purpose
    pub purpose: String,
    /// The number of changes that it made
    pub changes: usize,
    /// The number of objects that it has taken out of management for good, among the changes
    pub forgotten: usize,
    /// Whether it has finished
    pub finished: bool,
    /// The run that rolled it back
    pub rolled_back_by: Option<String>,
}

/// `converge state list|show|diff --output json`: the managed objects.
#[derive(JsonSchema)]
pub struct StateDocument {
    /// The document's format
    pub format: StateFormat,
    /// Its version
    pub version: One,
    /// One entry a host or cluster
    pub hosts: Vec<HostStateEntry>,
}

/// The managed objects of one host.
#[derive(JsonSchema)]
pub struct HostStateEntry {
    /// The inventory's name
    pub host: String,
    /// In the order in which they came to be managed
    pub objects: Vec<ManagedEntry>,
    /// The reason why they could not be read
    pub lost: Option<Lost>,
    /// Damaged parts of the records, which are ignored
    pub remarks: Vec<String>,
}

/// A managed object.
#[derive(JsonSchema)]
pub struct ManagedEntry {
    /// The object
    pub object: ObjectName,
    /// The role that changed it last
    pub role: String,
    /// The resource that changed it last
    pub item: String,
    /// The time since when it is managed, RFC 3339 UTC
    pub since: String,
    /// The run that first changed it
    pub run: String,
    /// The playbook of the project that manages it
    pub playbook: String,
    /// Its inventory
    pub inventory: String,
    /// Whether this is another project
    pub of_another_project: bool,
    /// Whether it came with something that a resource manages
    pub by_product: bool,
    /// Whether its resource was declared sensitive: then no attribute has a value
    pub sensitive: bool,
    /// Whether it was there before
    pub was_there: bool,
    /// Its attributes: in its original state, as the last run left it, and now, where that was asked for
    pub attributes: Vec<ManagedAttribute>,
    /// Whether it differs from what the last run left; null where this was not asked for, or is not known
    pub differs: Option<bool>,
    /// The reason why that is not known
    pub unknown: Option<String>,
}

/// An attribute of a managed object.
#[derive(JsonSchema)]
pub struct ManagedAttribute {
    /// Its name
    pub name: String,
    /// Its value in the original state
    pub original: Option<String>,
    /// Its value as the last run left it
    pub left: Option<String>,
    /// Its present value
    pub present: Option<String>,
}
