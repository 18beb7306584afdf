//! The planner: from what roles declare and what hosts show to an exact plan. No I/O.
//!
//! [`fold()`] lays the resources of one host, in order, over a [virtual host](VirtualHost): every resource sees the
//! results of all earlier ones. [`RoleGraph`] orders the roles.

mod access;
mod altered;
mod ancestors;
mod batches;
mod chains;
mod conflict;
mod declared;
mod earlier_runs;
mod first;
mod fold;
mod graph;
mod guard;
mod knowledge;
mod names;
mod other_facts;
mod pass;
mod plan;
mod virtual_host;

pub use access::{DeclaredGuard, Guard, GuardChoice, ItemGuard};
pub use altered::AlteredFacts;
pub use batches::{Member, PlayOrder, Rules, Turn, Turns, careful_batches, serial_batches};
pub use conflict::Conflict;
pub use declared::{ItemDeclaration, ItemSource, Output, Outputs, ResolvedParameters};
pub use earlier_runs::{CutOff, EarlierRuns, Fate, Orphan};
pub use first::place;
pub use fold::fold;
pub use graph::{Cycle, EdgeScope, RoleGraph};
pub use guard::{guard_as, guard_of, join_guarded};
pub use knowledge::{Knowledge, OtherTargets, OtherTargetsByRole};
pub use names::real_name;
pub use other_facts::{Alteration, OtherFacts, RunPosition};
pub use pass::{FoldResult, History, disruption};
pub use plan::{HostPlan, Item, ItemOrigin, Outcome, PlannedChange, Problem, SourceText, Summary};
pub use virtual_host::{VirtualHost, may_be_packaged};
