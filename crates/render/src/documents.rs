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

/// `converge plan --output json`: what would change.
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
    /// What it is for
    pub purpose: PurposeEntry,
    /// The exit code of the command
    pub exit_code: u8,
    /// One entry a host, in inventory order
    pub hosts: Vec<HostPlanEntry>,
    /// Remarks
    pub warnings: Vec<String>,
    /// Plays that go over their hosts in several batches.
    pub order: Vec<OrderEntry>,
}

/// What a plan is for.
#[derive(JsonSchema)]
pub struct PurposeEntry {
    /// Towards what is declared, or back
    pub kind: PurposeKind,
    /// Of a rollback: the run on each host before which the state is put back
    pub before: Option<Vec<HostRun>>,
    /// Of a rollback: only what these roles changed
    pub roles: Option<Vec<String>>,
}

/// Where a plan leads.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum PurposeKind {
    /// To what the playbook declares
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

/// How a play goes over its hosts.
#[derive(JsonSchema)]
pub struct OrderEntry {
    /// The play.
    pub play: String,
    /// True: all of it goes in these batches. False: what disturbs running work does.
    pub serial: bool,
    /// Host names, batch by batch.
    pub batches: Vec<Vec<String>>,
}

/// One item of the critical path.
#[derive(JsonSchema)]
pub struct PathEntry {
    /// The host.
    pub host: String,
    /// The item's address.
    pub address: String,
    /// How long it took.
    pub seconds: f64,
}

/// One host of a plan.
#[derive(JsonSchema)]
pub struct HostPlanEntry {
    /// The inventory's name
    pub host: String,
    /// `lost`: there is no plan
    pub result: HostOutcome,
    /// How many items end how; only with a plan
    pub summary: Option<PlanSummary>,
    /// The items in order; only with a plan
    pub items: Option<Vec<PlanItem>>,
    /// The worst that its changes do to what runs: `none`, `restarts` or `drain`.
    pub disruption: Option<String>,
    /// What the host's records say; only with a plan
    pub records: Option<Records>,
    /// Why there is no plan
    pub lost: Option<Lost>,
}

/// Is there a plan?
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum HostOutcome {
    /// Yes
    Planned,
    /// The host is out of the run
    Lost,
}

/// Why a host is out of a run.
#[derive(JsonSchema)]
pub struct Lost {
    /// What is wrong
    pub message: String,
    /// What to do about it
    pub help: Option<String>,
    /// True when it was not reachable or refused the login; false for refusals such as a changed host key or a lock
    pub unreachable: bool,
    /// True when the host was there and let nobody in.
    pub login_refused: bool,
    /// True when the inventory has taken it out with `maintenance: true`.
    pub maintenance: bool,
}

/// How many items of a plan end how.
#[derive(JsonSchema)]
pub struct PlanSummary {
    /// As declared
    pub unchanged: usize,
    /// To change
    pub changed: usize,
    /// Not known before something else has happened
    pub deferred: usize,
    /// Not for this host
    pub not_applicable: usize,
    /// Wrong on this host
    pub failed: usize,
    /// Refused by a rule
    pub refused: usize,
}

/// One item of a plan.
#[derive(JsonSchema)]
pub struct PlanItem {
    /// Its number in this plan
    pub id: u32,
    /// `role/name`, with the key of `for_each`
    pub address: String,
    /// Its name
    pub name: String,
    /// Its role
    pub role: String,
    /// Its kind
    pub kind: String,
    /// Where it was written: file and line
    pub origin: String,
    /// Its values are not shown
    pub sensitive: bool,
    /// What it does to what runs: `none`, `restarts` or `drain`.
    pub disruption: String,
    /// What its change can break, and within how many seconds that must be confirmed; null when it is not guarded
    pub guard: Option<GuardEntry>,
    /// How it ends
    pub result: PlanResult,
    /// With `change`: what changes
    pub changes: Option<Vec<ChangeEntry>>,
    /// With `deferred`: what it waits for
    pub waits_for: Option<WaitsFor>,
    /// With `deferred`: what it may change and no more
    pub may_change: Option<Vec<ObjectName>>,
    /// With `not_applicable` and `refused`: why
    pub reason: Option<String>,
    /// With `failed`: what is wrong
    pub problem: Option<ProblemEntry>,
    /// Remarks
    pub notes: Vec<String>,
}

/// How an item of a plan ends.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum PlanResult {
    /// As declared
    Unchanged,
    /// As declared; only a record is written
    Adopt,
    /// Changes
    Change,
    /// Not known yet
    Deferred,
    /// Not for this host
    NotApplicable,
    /// Refused by a rule
    Refused,
    /// Wrong on this host
    Failed,
}

/// A change of one object.
#[derive(JsonSchema)]
pub struct ChangeEntry {
    /// Which
    pub object: ObjectName,
    /// What sort of change
    pub action: Action,
    /// In words
    pub title: String,
    /// Attributes that differ
    pub attributes: Vec<AttributeEntry>,
    /// How its content differs, where it has one
    pub content: Option<ContentEntry>,
    /// Can it be put back?
    pub reversible: bool,
    /// Why it cannot be put back
    pub irreversible_because: Option<String>,
    /// Does it run code that is not ours?
    pub opaque: bool,
}

/// A thing of a host.
#[derive(JsonSchema)]
pub struct ObjectName {
    /// Its kind: `path`, `package`, `unit`
    pub kind: String,
    /// Its name among its kind; null where it may hold a secret
    pub key: Option<String>,
}

/// What sort of change it is.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum Action {
    /// It comes
    Create,
    /// It goes
    Remove,
    /// It changes
    Update,
    /// It becomes a thing of another sort
    Replace,
}

/// An attribute before and after.
#[derive(JsonSchema)]
pub struct AttributeEntry {
    /// Its name
    pub name: String,
    /// Before; null when there was none
    pub before: Option<String>,
    /// After; null when there will be none
    pub after: Option<String>,
}

/// How content differs: a diff, or sizes and digests, or nothing but that it does.
#[derive(JsonSchema)]
pub struct ContentEntry {
    /// A unified diff
    pub diff: Option<String>,
    /// Before, where it is no text or too large
    pub before: Option<Blob>,
    /// After, where it is no text or too large
    pub after: Option<Blob>,
    /// It changes, and no more may be told
    pub sensitive: Option<bool>,
}

/// Content by its digest.
#[derive(JsonSchema)]
pub struct Blob {
    /// Bytes; null where it is not known yet
    pub size: Option<u64>,
    /// SHA-256 in hexadecimal
    pub sha256: String,
}

/// What a deferred item waits for.
#[derive(JsonSchema)]
pub struct WaitsFor {
    /// The item's address; empty for what is no item
    pub item: String,
    /// Why
    pub reason: String,
}

/// What is wrong with an item on a host.
#[derive(JsonSchema)]
pub struct ProblemEntry {
    /// What
    pub message: String,
    /// What to write instead
    pub help: Option<String>,
    /// The parameter, as a JSON pointer
    pub parameter: String,
    /// The place: file, line and column
    pub at: Option<String>,
}

/// What a host's records say.
#[derive(JsonSchema)]
pub struct Records {
    /// How many things are ours there
    pub owned: usize,
    /// What is ours and no longer declared
    pub no_longer_declared: Vec<UndeclaredEntry>,
    /// A run that did not end
    pub unfinished_run: Option<UnfinishedRun>,
    /// What of the records is damaged, and so not considered
    pub damaged: Vec<String>,
}

/// A thing that is ours and no longer declared.
#[derive(JsonSchema)]
pub struct UndeclaredEntry {
    /// Which
    pub object: ObjectName,
    /// The role that made it
    pub role: String,
    /// The item that made it
    pub item: String,
    /// Since when
    pub since: String,
    /// What `--prune` does with it
    pub prune: PruneFate,
    /// Why it is left alone or forgotten
    pub because: Option<String>,
}

/// What `--prune` does.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum PruneFate {
    /// It goes
    Removed,
    /// What was there before comes back
    GivenBack,
    /// Only the record goes
    Forgotten,
    /// Nothing
    LeftAlone,
}

/// What a host has put back by itself.
#[derive(JsonSchema)]
pub struct PutBackEntry {
    /// Why
    pub because: String,
    /// The items
    pub items: Vec<String>,
}

/// How an item is guarded.
#[derive(JsonSchema)]
pub struct GuardEntry {
    /// What it can break: `ssh`, `network` or `runtime`
    pub guard: String,
    /// The window
    pub seconds: u64,
}

/// A run that did not end.
#[derive(JsonSchema)]
pub struct UnfinishedRun {
    /// The run
    pub run: String,
    /// When it began
    pub time: String,
    /// Who ran it
    pub operator: String,
    /// Is it at work still?
    pub busy: bool,
    /// What the host has put back because nobody confirmed it
    pub put_back: Option<PutBackEntry>,
    /// Items that it did
    pub done: Vec<String>,
    /// Items of which it is not known, and what the host shows now
    pub unknown: Vec<UnknownItem>,
    /// Items that it had not begun
    pub not_begun: Vec<String>,
}

/// An item of which it is not known whether it was done.
#[derive(JsonSchema)]
pub struct UnknownItem {
    /// Its address
    pub item: String,
    /// What the host shows
    pub now: String,
}

/// `converge apply --output json`: what was done.
#[derive(JsonSchema)]
pub struct ApplyDocument {
    /// The document's format
    pub format: ApplyFormat,
    /// Its version
    pub version: One,
    /// The run
    pub run: String,
    /// The exit code of what was done
    pub exit_code: u8,
    /// From the first change to the last look
    pub seconds: f64,
    /// The chain of items that made it take so long, first to last.
    pub critical_path: Vec<PathEntry>,
    /// One entry a host
    pub hosts: Vec<HostApplyEntry>,
    /// Of a rollback: the live checks after it, one entry for each host that was changed; else nothing. They do not change the exit code.
    pub checks: Vec<HostVerifyEntry>,
}

/// What was done on one host.
#[derive(JsonSchema)]
pub struct HostApplyEntry {
    /// The inventory's name
    pub host: String,
    /// How many items ended how
    pub summary: ApplySummary,
    /// The items in order
    pub items: Vec<ApplyItem>,
    /// Why the host dropped out
    pub lost: Option<Lost>,
    /// What was not as planned when the host was looked at again
    pub differences: Vec<String>,
    /// How long the host took
    pub seconds: f64,
}

/// How many items ended how.
#[derive(JsonSchema)]
pub struct ApplySummary {
    /// Changed
    pub changed: usize,
    /// As declared already
    pub unchanged: usize,
    /// Not for this host
    pub not_applicable: usize,
    /// Failed
    pub failed: usize,
    /// The host no longer showed what was planned against
    pub refused: usize,
    /// Something that it needs failed
    pub skipped: usize,
    /// The run was stopped
    pub not_begun: usize,
    /// Guarded, not confirmed, and put back
    pub put_back: usize,
    /// The link was lost meanwhile
    pub unknown: usize,
}

/// One item and how it ended.
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
    /// Where it was written: file and line
    pub origin: String,
    /// Its values are not shown
    pub sensitive: bool,
    /// What it does to what runs: `none`, `restarts` or `drain`.
    pub disruption: String,
    /// What its change can break, and within how many seconds that must be confirmed; null when it is not guarded
    pub guard: Option<GuardEntry>,
    /// How it ended
    pub result: ApplyResult,
    /// How long it took on the host; null when it was not begun
    pub seconds: Option<f64>,
    /// With `failed`, `refused`, `put_back`, `unknown`: what was said
    pub message: Option<String>,
    /// With `failed`, `put_back`: the end of the output
    pub output: Option<String>,
    /// With `skipped`: the address of what failed
    pub because: Option<String>,
    /// With `not_applicable`: which condition
    pub reason: Option<String>,
}

/// How an item ended.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum ApplyResult {
    /// It was changed
    Changed,
    /// It was as declared already
    Unchanged,
    /// Its condition does not hold there
    NotApplicable,
    /// It failed
    Failed,
    /// The host no longer showed what was planned against
    Refused,
    /// Something that it needs failed
    Skipped,
    /// The run was stopped
    NotBegun,
    /// It was guarded and not confirmed: the host has put it back
    PutBack,
    /// The link was lost meanwhile
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
    /// Why nothing could be checked
    pub lost: Option<Lost>,
}

/// A live check.
#[derive(JsonSchema)]
pub struct CheckEntry {
    /// Its address
    pub address: String,
    /// Does it hold?
    pub holds: bool,
    /// Why it does not
    pub message: Option<String>,
}

/// `converge snapshots --output json`: what can be rolled back to.
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
    /// Why they could not be read
    pub lost: Option<Lost>,
    /// What of the records is damaged, and so not considered
    pub remarks: Vec<String>,
}

/// A run that can be rolled back.
#[derive(JsonSchema)]
pub struct SnapshotEntry {
    /// The run
    pub run: String,
    /// When it began, RFC 3339 UTC
    pub time: String,
    /// Who ran it
    pub operator: String,
    /// Its playbook, as the operator named it
    pub playbook: String,
    /// Its inventory, likewise
    pub inventory: String,
    /// The roles that it worked on
    pub roles: Vec<String>,
    /// What it was
    pub purpose: String,
    /// How many changes it made
    pub changes: usize,
    /// Did it end by itself?
    pub finished: bool,
    /// The run that rolled it back
    pub rolled_back_by: Option<String>,
}

/// `converge vars --output json`: where values come from.
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
    /// Who wins where
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
    /// Why there is no value
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
    /// Why nothing could be asked
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
    /// Why nothing could be asked
    pub lost: Option<Lost>,
}

#[cfg(test)]
mod tests;
