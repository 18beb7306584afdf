//! The results of `converge test`.

use super::*;
use converge_scenarios::{CaseReport, GateOutcome, GateReport, Mismatch};
use std::time::Duration;

/// `converge test --output json`: the scenarios of roles.
#[derive(Serialize, JsonSchema)]
pub struct TestsDocument {
    /// The document's format
    pub format: TestsFormat,
    /// Its version
    pub version: One,
    /// True if every scenario passed
    pub passed: bool,
    /// The seconds of all of it
    pub seconds: f64,
    /// The scenarios
    pub scenarios: Vec<ScenarioEntry>,
}

/// A scenario.
#[derive(Serialize, JsonSchema)]
pub struct ScenarioEntry {
    /// The role
    pub role: String,
    /// The scenario's name
    pub scenario: String,
    /// Its file, or the role's
    pub file: String,
    /// True if no gate failed
    pub passed: bool,
    /// True if recorded answers stood for hosts
    pub pure: bool,
    /// The seconds from the first to the last gate
    pub seconds: f64,
    /// Hosts that were left for a look
    #[serde(rename = "kept")]
    pub remaining_hosts: Option<RemainingHostsEntry>,
    /// Its gates in order
    pub gates: Vec<GateEntry>,
}

/// Hosts that were left for a look.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KeptHosts")]
pub struct RemainingHostsEntry {
    /// A command for each that logs in
    pub logins: Vec<String>,
    /// The command that removes them
    pub remove: String,
}

/// A gate.
#[derive(Serialize, JsonSchema)]
pub struct GateEntry {
    /// Its name
    pub gate: String,
    /// The demand in words
    pub title: String,
    /// Its result
    pub result: GateResult,
    /// The seconds that it took
    pub seconds: f64,
    /// Remarks
    pub notes: Vec<String>,
    /// The objects or files that are not as they should be
    pub mismatches: Vec<MismatchEntry>,
}

/// The result of a gate.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateResult {
    /// It holds
    Passed,
    /// It does not hold
    Failed,
    /// It was not tried
    NotRun,
}

/// A thing that is not as it should be.
#[derive(Serialize, JsonSchema)]
pub struct MismatchEntry {
    /// The problem, in one sentence
    pub what: String,
    /// The place of the expectation: file, line and column
    pub at: Option<String>,
    /// The expectation
    pub expected: Option<String>,
    /// The finding
    pub found: Option<String>,
    /// More lines: output, differences
    pub lines: Vec<String>,
    /// The plan, narrowed to the items in question: a document of the schema `plan`
    pub plan: Option<Value>,
}

impl TestsDocument {
    /// The document of these scenarios.
    pub fn of(cases: &[CaseReport], took: Duration) -> Self {
        Self {
            format: TestsFormat,
            version: One,
            passed: cases.iter().all(CaseReport::passed),
            seconds: took.as_secs_f64(),
            scenarios: cases.iter().map(ScenarioEntry::from).collect(),
        }
    }
}

impl From<&CaseReport> for ScenarioEntry {
    fn from(case: &CaseReport) -> Self {
        let remaining = case.remaining_hosts.as_ref();
        Self {
            role: case.role.clone(),
            scenario: case.scenario.clone(),
            file: case.file.clone(),
            passed: case.passed(),
            pure: case.pure,
            seconds: case.took.as_secs_f64(),
            remaining_hosts: remaining.map(|hosts| RemainingHostsEntry {
                logins: hosts.logins.clone(),
                remove: hosts.remove.clone(),
            }),
            gates: case.gates.iter().map(GateEntry::from).collect(),
        }
    }
}

impl From<&GateReport> for GateEntry {
    fn from(gate: &GateReport) -> Self {
        Self {
            gate: gate.gate.name().to_owned(),
            title: gate.gate.title().to_owned(),
            result: gate.outcome.into(),
            seconds: gate.took.as_secs_f64(),
            notes: gate.notes.clone(),
            mismatches: gate.mismatches.iter().map(MismatchEntry::from).collect(),
        }
    }
}

impl From<GateOutcome> for GateResult {
    fn from(outcome: GateOutcome) -> Self {
        match outcome {
            GateOutcome::Passed => Self::Passed,
            GateOutcome::Failed => Self::Failed,
            GateOutcome::NotRun => Self::NotRun,
        }
    }
}

impl From<&Mismatch> for MismatchEntry {
    fn from(mismatch: &Mismatch) -> Self {
        Self {
            what: mismatch.what.clone(),
            at: mismatch.at.clone(),
            expected: mismatch.expected.clone(),
            found: mismatch.found.clone(),
            lines: mismatch.lines.clone(),
            plan: mismatch.plan.as_ref().map(crate::plan_json),
        }
    }
}
