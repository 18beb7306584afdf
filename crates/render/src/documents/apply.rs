//! `converge apply`, `rollback` and `verify`.

use super::*;

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
    /// The remarks of the plan and of the host, such as an edited configuration file that a package left in place
    pub notes: Vec<String>,
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
