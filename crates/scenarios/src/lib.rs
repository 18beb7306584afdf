//! Tests of roles: what `converge test` runs.
//!
//! A *scenario* ([`Scenario`], `roles/NAME/tests/*.yaml`) says what a host is given and what the plan is expected to be. The
//! *gates* ([`Gate`]) hold for every role without being asked for: plan, converge, plan again, spoil, mend, roll back. They run on
//! throw-away hosts, on hosts of an inventory, or, as far as a plan goes, on recorded answers. Nothing here prints: see [`Told`]
//! and [`CaseReport`].

mod cluster;
mod cluster_spec;
mod discover;
mod expect;
mod given;
mod hosts;
mod judge;
mod project;
mod pure;
mod real;
mod recording;
mod report;
mod run;
mod scenario;
mod snapshot;
mod spoil;
mod spoil_cluster;
mod whole;

pub use cluster_spec::{ClusterSpec, NodesSpec, WholeSpec};
pub use discover::{Case, find_roles, role_at};
pub use hosts::{Missing, missing, remove_kept};
pub use report::{CaseReport, Gate, GateReport, Kept, Mismatch, Outcome, Told};
pub use run::{Given, RunOptions, Where, run};
pub use scenario::{Expect, ExpectedError, ExpectedItem, Found, HostSpec, Scenario};
pub use snapshot::{Difference, NOISE};
