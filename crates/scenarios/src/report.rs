//! The results of a test, as data.

use converge_engine::FleetPlan;
use std::time::Duration;

/// The gates of every scenario, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// The scenario's input is sound, or refused as expected.
    Input,
    /// The hosts are there and in the state that the scenario gives.
    Given,
    /// The plan is as expected, and nothing in it is wrong.
    Plan,
    /// Planning changed nothing on the hosts.
    PlanChangesNothing,
    /// The plan can be applied, and afterwards everything is as declared.
    Converge,
    /// The results of the apply are those of the plan.
    AsPlanned,
    /// The next plan is empty.
    PlanIsEmpty,
    /// Converging again changes nothing.
    ConvergeAgain,
    /// The role's own live checks hold, and the scenario's commands succeed.
    Verify,
    /// Drift is injected into one managed object after another, detected and corrected.
    Drift,
    /// The rollback restores the start.
    Rollback,
}

impl Gate {
    /// All gates in order.
    pub const ALL: [Self; 11] = [
        Self::Input,
        Self::Given,
        Self::Plan,
        Self::PlanChangesNothing,
        Self::Converge,
        Self::AsPlanned,
        Self::PlanIsEmpty,
        Self::ConvergeAgain,
        Self::Verify,
        Self::Drift,
        Self::Rollback,
    ];

    /// A word for documents and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Given => "given",
            Self::Plan => "plan",
            Self::PlanChangesNothing => "plan-changes-nothing",
            Self::Converge => "converge",
            Self::AsPlanned => "as-planned",
            Self::PlanIsEmpty => "plan-is-empty",
            Self::ConvergeAgain => "converge-again",
            Self::Verify => "verify",
            Self::Drift => "drift",
            Self::Rollback => "rollback",
        }
    }

    /// The condition for passing the gate.
    pub fn title(self) -> &'static str {
        match self {
            Self::Input => "the input is taken or refused as expected",
            Self::Given => "the preconditions of the scenario hold",
            Self::Plan => "the plan is as expected",
            Self::PlanChangesNothing => "planning changes nothing",
            Self::Converge => "it converges",
            Self::AsPlanned => "what the plan said is what the apply did",
            Self::PlanIsEmpty => "the next plan is empty",
            Self::ConvergeAgain => "converging again changes nothing",
            Self::Verify => "the live checks hold",
            Self::Drift => "injected drift is detected and corrected",
            Self::Rollback => "the rollback restores the start",
        }
    }
}

/// The result of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOutcome {
    /// It holds.
    Passed,
    /// The gate does not hold.
    Failed,
    /// The gate was not tried.
    NotRun,
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, Default)]
pub struct Mismatch {
    /// The problem, in one sentence.
    pub what: String,
    /// The place of the expectation: `file:line:column`.
    pub at: Option<String>,
    /// The expectation.
    pub expected: Option<String>,
    /// The finding.
    pub found: Option<String>,
    /// More lines: output, differences.
    pub lines: Vec<String>,
    /// The plan, narrowed to the items in question.
    pub plan: Option<FleetPlan>,
}

impl Mismatch {
    /// With these words alone.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    /// Adds the expectation and the finding.
    #[must_use]
    pub fn but(mut self, expected: impl Into<String>, found: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self.found = Some(found.into());
        self
    }

    /// With more lines.
    #[must_use]
    pub fn lines(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.lines.extend(lines);
        self
    }

    /// With what a plan says of these items (all pending ones when none is named).
    #[must_use]
    pub fn plan(mut self, plan: &FleetPlan, addresses: &[&str]) -> Self {
        let mut plan = plan.clone();
        plan.warnings.clear();
        for entry in &mut plan.hosts {
            if let converge_engine::HostResult::Planned(host) = &mut entry.result {
                host.items.retain(|i| addresses.is_empty() || addresses.contains(&i.address.as_str()));
            }
        }
        plan.hosts.retain(|h| match &h.result {
            converge_engine::HostResult::Planned(host) => host.items.iter().any(|i| {
                !matches!(
                    i.outcome,
                    converge_planner::Outcome::Unchanged | converge_planner::Outcome::Skipped(_)
                )
            }),
            converge_engine::HostResult::Lost(_) => true,
        });
        self.plan = Some(plan).filter(|p| !p.hosts.is_empty());
        self
    }
}

/// One gate of a scenario.
#[derive(Clone, Debug)]
pub struct GateReport {
    /// Which.
    pub gate: Gate,
    /// The result.
    pub outcome: GateOutcome,
    /// The mismatches, or the reason why the gate was not tried.
    pub mismatches: Vec<Mismatch>,
    /// Notes on the work, done or impossible: `31 objects damaged`.
    pub notes: Vec<String>,
    /// The duration.
    pub took: Duration,
}

/// Hosts that were left for a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemainingHosts {
    /// Commands that log in, one a host.
    pub logins: Vec<String>,
    /// The command that takes them away.
    pub remove: String,
}

/// One scenario.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// The role.
    pub role: String,
    /// The scenario.
    pub scenario: String,
    /// Its file, or the role's.
    pub file: String,
    /// Its gates in order.
    pub gates: Vec<GateReport>,
    /// Hosts that were left.
    pub remaining_hosts: Option<RemainingHosts>,
    /// True when recorded answers stood for hosts.
    pub pure: bool,
    /// From the first to the last gate.
    pub took: Duration,
}

impl CaseReport {
    /// Whether no gate failed.
    pub fn passed(&self) -> bool {
        self.gates.iter().all(|g| g.outcome != GateOutcome::Failed)
    }
}

/// The report of a scenario that could not even begin.
pub(crate) fn broken(case: &crate::Case, why: &str) -> CaseReport {
    CaseReport {
        role: case.role.clone(),
        scenario: case.scenario.name.clone(),
        file: case.scenario.file.clone().unwrap_or_else(|| case.dir.join("role.yaml")).into_string(),
        gates: vec![GateReport {
            gate: Gate::Given,
            outcome: GateOutcome::Failed,
            mismatches: vec![Mismatch::new(why)],
            notes: Vec::new(),
            took: Duration::ZERO,
        }],
        remaining_hosts: None,
        pure: false,
        took: Duration::ZERO,
    }
}

/// Progress of a test. `case` counts from 0 in the order of the cases given.
#[derive(Clone, Debug)]
pub enum ScenarioEvent {
    /// Work on a scenario has begun.
    Began {
        /// Which.
        case: usize,
    },
    /// The present activity of a scenario.
    Doing {
        /// Which.
        case: usize,
        /// The gate.
        gate: Gate,
        /// More: an item, an object, how far.
        what: String,
    },
    /// A gate is over.
    GateOver {
        /// Which.
        case: usize,
        /// The gate.
        gate: Gate,
        /// The result.
        outcome: GateOutcome,
        /// The duration.
        took: Duration,
    },
    /// A scenario is over.
    Over {
        /// Which.
        case: usize,
        /// All of it.
        report: Box<CaseReport>,
    },
    /// A slow step of making hosts.
    Remark(String),
}
