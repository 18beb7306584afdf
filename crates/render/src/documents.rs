//! The documents of `--output json` as types. They are the published contract: `docs/schemas/` is made from them, and a test
//! holds real documents against them. Fields may be added within one version; a reader leaves out what it does not know.

use schemars::{JsonSchema, Schema, SchemaGenerator, schema_for};
use serde_json::Value;
use std::borrow::Cow;

/// The name and the JSON Schema of every document.
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("plan", schema_for!(PlanDocument).to_value()),
        ("apply", schema_for!(ApplyDocument).to_value()),
        ("verify", schema_for!(VerifyDocument).to_value()),
        ("snapshots", schema_for!(SnapshotsDocument).to_value()),
        ("vars", schema_for!(VarsDocument).to_value()),
        ("facts", schema_for!(FactsDocument).to_value()),
        ("fact", schema_for!(FactDocument).to_value()),
    ]
}

/// Names of formats: one constant each in its document.
macro_rules! format_name {
    ($(#[$doc:meta] $type:ident = $name:literal;)*) => {
        $(
            #[$doc]
            pub struct $type;

            impl JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($type).into()
                }
                fn inline_schema() -> bool {
                    true
                }
                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    schemars::json_schema!({"const": $name})
                }
            }
        )*
    };
}

format_name! {
    /// `converge-plan-report`
    PlanFormat = "converge-plan-report";
    /// `converge-apply`
    ApplyFormat = "converge-apply";
    /// `converge-verify`
    VerifyFormat = "converge-verify";
    /// `converge-snapshots`
    SnapshotsFormat = "converge-snapshots";
    /// `converge-vars`
    VarsFormat = "converge-vars";
    /// `converge-facts`
    FactsFormat = "converge-facts";
    /// `converge-fact`
    FactFormat = "converge-fact";
}

/// Version 1
pub struct One;

impl JsonSchema for One {
    fn schema_name() -> Cow<'static, str> {
        "One".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"const": 1})
    }
}

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
    pub before: Option<Vec<HostRun>>,
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
pub struct HostRun {
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

/// One resource of the critical path.
#[derive(JsonSchema)]
pub struct PathEntry {
    /// The host.
    pub host: String,
    /// The resource's address.
    pub address: String,
    /// The duration.
    pub seconds: f64,
}

/// One of the things that a run took longest for.
#[derive(JsonSchema)]
pub struct SlowEntry {
    /// `resources`, or a part of the run: `turn` (the wait until fewer hosts were worked on), `connect`, `read_and_plan`, `begin_records`,
    /// `plan_again`, `verify`, `settle` (conditions after the last change), `confirm` (guarded changes), `end_records`.
    pub what: String,
    /// The kind of the resources.
    pub kind: Option<String>,
    /// The host or cluster.
    pub target: String,
    /// The addresses of the resources.
    pub items: Vec<String>,
    /// The duration of all of them together.
    pub seconds: f64,
    /// The advice how to shorten it, where something can.
    pub advice: Option<String>,
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
    pub records: Option<Records>,
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

/// The reason why a host is excluded from a run.
#[derive(JsonSchema)]
pub struct Lost {
    /// The error
    pub message: String,
    /// Always null: the message says what to do
    pub help: Option<String>,
    /// True if the host was unreachable or refused the login; false for refusals such as a changed host key or a lock
    pub unreachable: bool,
    /// True if the host was reached and refused the login.
    pub login_refused: bool,
    /// True if the inventory excludes it with `maintenance: true`.
    pub maintenance: bool,
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
    pub waits_for: Option<WaitsFor>,
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
    /// In the declared state; only a record is written
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
    /// Before, if it is no text or too large
    pub before: Option<Blob>,
    /// After, if it is no text or too large
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
pub struct WaitsFor {
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

/// The relevant parts of a host's records.
#[derive(JsonSchema)]
pub struct Records {
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

/// The guard of a resource.
#[derive(JsonSchema)]
pub struct GuardEntry {
    /// The access that the change can break: `ssh`, `network` or `runtime`
    pub guard: String,
    /// The confirmation timeout in seconds
    pub seconds: u64,
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

/// `converge apply --output json`: the changes that were made.
#[derive(JsonSchema)]
pub struct ApplyDocument {
    /// The document's format
    pub format: ApplyFormat,
    /// Its version
    pub version: One,
    /// The run
    pub run: String,
    /// The exit code of the apply
    pub exit_code: u8,
    /// Seconds from the first change to the last check
    pub seconds: f64,
    /// The chain of resources that determined the duration, first to last.
    pub critical_path: Vec<PathEntry>,
    /// The three things that the run took longest for, the longest first. Empty where it took less than five seconds.
    pub slowest: Vec<SlowEntry>,
    /// One entry a host
    pub hosts: Vec<HostApplyEntry>,
    /// Of a rollback: the live checks after it, one entry for each host that was changed; else empty. They do not change the
    /// exit code.
    pub checks: Vec<HostVerifyEntry>,
}

/// The results on one host.
#[derive(JsonSchema)]
pub struct HostApplyEntry {
    /// The inventory's name
    pub host: String,
    /// The number of resources by result
    pub summary: ApplySummary,
    /// The resources in order
    pub items: Vec<ApplyItem>,
    /// The reason why the host was excluded
    pub lost: Option<Lost>,
    /// Differences from the plan in the final check
    pub differences: Vec<String>,
    /// The duration on this host
    pub seconds: f64,
}

/// The number of resources by result.
#[derive(JsonSchema)]
pub struct ApplySummary {
    /// Changed
    pub changed: usize,
    /// Already in the declared state
    pub unchanged: usize,
    /// Skipped: the condition is false
    pub not_applicable: usize,
    /// Failed
    pub failed: usize,
    /// The host no longer had the state of the plan
    pub refused: usize,
    /// A resource that it needs has failed
    pub skipped: usize,
    /// The run was stopped
    pub not_begun: usize,
    /// Guarded, not confirmed, and reverted automatically
    pub put_back: usize,
    /// The connection was lost meanwhile
    pub unknown: usize,
}

/// One resource and its result.
#[derive(JsonSchema)]
pub struct ApplyItem {
    /// Its number
    pub id: u32,
    /// `role/name`, with the key of `for_each`
    pub address: String,
    /// Its name
    pub name: String,
    /// Its role
    pub role: String,
    /// Its kind
    pub kind: String,
    /// The place in the source: file and line
    pub origin: String,
    /// Its values are not shown
    pub sensitive: bool,
    /// The effect on running work: `none`, `restarts` or `drain`.
    pub disruption: String,
    /// The access that its change can break, and the seconds within which that must be confirmed; null if the resource is not
    /// guarded
    pub guard: Option<GuardEntry>,
    /// The result
    pub result: ApplyResult,
    /// The duration on the host; null if the resource was not begun
    pub seconds: Option<f64>,
    /// With `failed`, `refused`, `put_back`, `unknown`: the message
    pub message: Option<String>,
    /// With `failed`, `put_back`: the end of the output
    pub output: Option<String>,
    /// With `skipped`: the address of the resource that failed
    pub because: Option<String>,
    /// With `not_applicable`: the condition
    pub reason: Option<String>,
}

/// The result of a resource.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum ApplyResult {
    /// It was changed
    Changed,
    /// It was already in the declared state
    Unchanged,
    /// Skipped: the condition is false
    NotApplicable,
    /// It failed
    Failed,
    /// The host no longer had the state of the plan
    Refused,
    /// A resource that it needs has failed
    Skipped,
    /// The run was stopped
    NotBegun,
    /// It was guarded and not confirmed: the host has reverted it automatically
    PutBack,
    /// The connection was lost meanwhile
    Unknown,
}

/// `converge verify --output json`: the live checks.
#[derive(JsonSchema)]
pub struct VerifyDocument {
    /// The document's format
    pub format: VerifyFormat,
    /// Its version
    pub version: One,
    /// One entry a host
    pub hosts: Vec<HostVerifyEntry>,
}

/// The live checks of one host.
#[derive(JsonSchema)]
pub struct HostVerifyEntry {
    /// The inventory's name
    pub host: String,
    /// The checks in order
    pub checks: Vec<CheckEntry>,
    /// The reason why nothing could be checked
    pub lost: Option<Lost>,
}

/// A live check.
#[derive(JsonSchema)]
pub struct CheckEntry {
    /// Its address
    pub address: String,
    /// Whether it holds
    pub holds: bool,
    /// The reason why it does not hold
    pub message: Option<String>,
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
    /// Whether it has finished
    pub finished: bool,
    /// The run that rolled it back
    pub rolled_back_by: Option<String>,
}

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

#[cfg(test)]
mod tests;
