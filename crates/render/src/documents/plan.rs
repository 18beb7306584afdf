//! `converge plan`.

use super::*;

/// `converge plan --output json`: the changes that would be made.
#[derive(JsonSchema)]
pub struct PlanDocument {
    /// The document's format
    pub format: PlanFormat,
    /// Its version
    pub version: One,
    /// The plan's UUID; the run that applies it bears the same
    pub id: String,
    /// When it was made, RFC 3339 UTC
    pub created: String,
    /// The purpose of the plan
    pub purpose: PurposeEntry,
    /// The exit code of the command
    pub exit_code: u8,
    /// One entry a host, in inventory order
    pub hosts: Vec<HostPlanEntry>,
    /// Remarks
    pub warnings: Vec<String>,
    /// Plays that run in several batches.
    pub order: Vec<OrderEntry>,
}

/// The purpose of a plan.
#[derive(JsonSchema)]
pub struct PurposeEntry {
    /// Towards the declared state, or back to a saved one
    pub kind: PurposeKind,
    /// Of a rollback: the run of each host before which the state is restored
    pub before: Option<Vec<HostRunEntry>>,
    /// Of a rollback: only changes of these roles
    pub roles: Option<Vec<String>>,
}

/// The purpose of a plan.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum PurposeKind {
    /// To the state that the playbook declares
    Converge,
    /// To a saved state
    Rollback,
}

/// A run on a host.
#[derive(JsonSchema)]
#[schemars(rename = "HostRun")]
pub struct HostRunEntry {
    /// The host
    pub host: String,
    /// The run
    pub run: String,
}

/// The order in which a play runs on its hosts.
#[derive(JsonSchema)]
pub struct OrderEntry {
    /// The play.
    pub play: String,
    /// True: the whole play runs in these batches. False: only its disruptive changes do.
    pub serial: bool,
    /// Host names, batch by batch.
    pub batches: Vec<Vec<String>>,
}

/// One host of a plan.
#[derive(JsonSchema)]
pub struct HostPlanEntry {
    /// The inventory's name
    pub host: String,
    /// `lost`: there is no plan
    pub result: HostOutcome,
    /// The number of resources by result; only with a plan
    pub summary: Option<PlanSummary>,
    /// The resources in order; only with a plan
    pub items: Option<Vec<PlanItem>>,
    /// The worst effect of its changes on running work: `none`, `restarts` or `drain`.
    pub disruption: Option<String>,
    /// The relevant parts of the host's records; only with a plan
    pub records: Option<RecordsEntry>,
    /// The reason why there is no plan
    pub lost: Option<Lost>,
}

/// Whether there is a plan.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum HostOutcome {
    /// Yes
    Planned,
    /// The host is excluded from the run
    Lost,
}

/// The number of resources of a plan by result.
#[derive(JsonSchema)]
pub struct PlanSummary {
    /// In the declared state
    pub unchanged: usize,
    /// To change
    pub changed: usize,
    /// Not known before something else has happened
    pub deferred: usize,
    /// Skipped: the condition is false
    pub not_applicable: usize,
    /// Errors on this host
    pub failed: usize,
    /// Refused by a rule
    pub refused: usize,
}

/// One resource of a plan.
#[derive(JsonSchema)]
pub struct PlanItem {
    /// Its number in this plan
    pub id: u32,
    /// `role/name`, with the key of `for_each`
    pub address: String,
    /// Its name
    pub name: String,
    /// The `id` that its role gives it; absent without one
    pub item_id: Option<String>,
    /// Its role
    pub role: String,
    /// Its kind
    pub kind: String,
    /// Where it was written: file and line
    pub origin: String,
    /// Its values are not shown
    pub sensitive: bool,
    /// The effect on running work: `none`, `restarts` or `drain`.
    pub disruption: String,
    /// The access that its change can break, and the seconds within which that must be confirmed; null if the resource is not
    /// guarded
    pub guard: Option<GuardEntry>,
    /// The result
    pub result: PlanResult,
    /// With `change`: the changes
    pub changes: Option<Vec<ChangeEntry>>,
    /// With `deferred`: the reason
    pub waits_for: Option<DeferralReason>,
    /// With `deferred`: the only objects that it may change
    pub may_change: Option<Vec<ObjectName>>,
    /// With `not_applicable` and `refused`: the reason
    pub reason: Option<String>,
    /// With `failed`: the error
    pub problem: Option<ProblemEntry>,
    /// Remarks
    pub notes: Vec<String>,
}

/// The result of a resource of a plan.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum PlanResult {
    /// In the declared state
    Unchanged,
    /// Nothing is changed; only a record is written: with `kind` `prune`, that it is no longer managed
    Adopt,
    /// Changes
    Change,
    /// Not known yet
    Deferred,
    /// Skipped: the condition is false
    NotApplicable,
    /// Refused by a rule
    Refused,
    /// An error on this host
    Failed,
}

/// A change of one object.
#[derive(JsonSchema)]
pub struct ChangeEntry {
    /// The object
    pub object: ObjectName,
    /// The action
    pub action: Action,
    /// The change in words
    pub title: String,
    /// The attributes that differ
    pub attributes: Vec<AttributeEntry>,
    /// The difference of its content, if it has content
    pub content: Option<ContentEntry>,
    /// Whether the change can be reverted
    pub reversible: bool,
    /// The reason why the change is irreversible
    pub irreversible_because: Option<String>,
    /// Whether the change runs package scripts or commands
    pub opaque: bool,
}

/// An object of a host or cluster.
#[derive(JsonSchema)]
pub struct ObjectName {
    /// Its kind: `path`, `package`, `unit`
    pub kind: String,
    /// Its name among its kind; null if the name may hold a secret
    pub key: Option<String>,
}

/// The action of a change.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum Action {
    /// The object is created
    Create,
    /// The object is removed
    Remove,
    /// The object is changed
    Update,
    /// The object is replaced by one of another sort
    Replace,
}

/// An attribute before and after.
#[derive(JsonSchema)]
pub struct AttributeEntry {
    /// Its name
    pub name: String,
    /// Before; null if there was none
    pub before: Option<String>,
    /// After; null if there will be none
    pub after: Option<String>,
}

/// The difference of content: a diff, or sizes and digests, or only the fact that it differs.
#[derive(JsonSchema)]
pub struct ContentEntry {
    /// A unified diff
    pub diff: Option<String>,
    /// Before, if it is not UTF-8 text or too large
    pub before: Option<Blob>,
    /// After, if it is not UTF-8 text or too large
    pub after: Option<Blob>,
    /// The content changes, and no more may be shown
    pub sensitive: Option<bool>,
}

/// Content by its digest.
#[derive(JsonSchema)]
pub struct Blob {
    /// Size in bytes; null if not known yet
    pub size: Option<u64>,
    /// SHA-256 in hexadecimal
    pub sha256: String,
}

/// The reason why a resource is deferred.
#[derive(JsonSchema)]
#[schemars(rename = "WaitsFor")]
pub struct DeferralReason {
    /// The address of the resource that it waits for; empty if that is no resource
    pub item: String,
    /// The reason
    pub reason: String,
}

/// An error of a resource on a host.
#[derive(JsonSchema)]
pub struct ProblemEntry {
    /// The error
    pub message: String,
    /// The correction
    pub help: Option<String>,
    /// The parameter, as a JSON pointer
    pub parameter: String,
    /// The place: file, line and column
    pub at: Option<String>,
}

/// The guard of a resource.
#[derive(JsonSchema)]
pub struct GuardEntry {
    /// The access that the change can break: `ssh`, `network` or `runtime`
    pub guard: String,
    /// The confirmation timeout in seconds
    pub seconds: u64,
}
