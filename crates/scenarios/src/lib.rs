//! Tests of roles: the implementation of `converge test`.
//!
//! A *scenario* ([`Scenario`], `roles/NAME/tests/*.yaml`) declares the preconditions on a host and the expected plan. The
//! *gates* ([`Gate`]) apply to every role: plan, converge, plan again, inject and correct drift, roll back. They run on
//! disposable hosts, on hosts of an inventory, or, as far as a plan goes, on recorded answers. Nothing here prints: see
//! [`ScenarioEvent`] and [`CaseReport`].

mod cluster;
mod cluster_spec;
mod discover;
mod drift;
mod drift_cluster;
mod expect;
mod folders;
mod given;
mod host_spec;
mod hosts;
mod injected;
mod judge;
mod leftovers;
mod options;
mod project;
mod pure;
mod real;
mod recording;
mod report;
mod run;
mod scenario;
mod snapshot;
mod whole;

pub use cluster_spec::{ClusterSpec, NodesSpec, WholeSpec};
pub use discover::{Case, find_roles, role_at};
pub use host_spec::HostSpec;
pub use hosts::{Missing, missing, remove_remaining_hosts};
pub use options::{Given, RunOptions, Where};
pub use report::{CaseReport, Gate, GateOutcome, GateReport, Mismatch, RemainingHosts, ScenarioEvent};
pub use run::run;
pub use scenario::{Expect, ExpectedError, ExpectedItem, ExpectedOutcome, Scenario};
pub use snapshot::{Difference, NOISE};
