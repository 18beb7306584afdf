//! Observe, plan, apply, verify, snapshot, roll back; one stream of events.

mod ad_hoc;
mod apply;
mod connect;
mod doctor;
mod engine;
mod event;
mod facts;
mod fleet;
mod former;
mod gate;
mod heart;
mod joining;
mod lane;
mod observe;
mod options;
mod ownership;
mod path;
mod project;
mod reach;
pub mod recorded;
mod report;
mod revert;
mod rollback;
mod runs;
pub mod saved;
mod towards;
mod trial;
mod undo;
mod undo_order;
mod undo_packages;
mod unsaved;
mod verify;
mod way_back;
mod ways;
mod work;

pub use converge_ledger::Scope;
pub use doctor::{Finding, Health, HostDoctor};
pub use engine::Engine;
pub use event::{Event, EventSink, ItemResult, KeptBackup, RoleWork};
pub use facts::{FACT_GROUPS, HostFacts, facts_page, facts_schema};
pub use options::{Options, Question, StepAnswer, Steps, StopSwitch};
pub use path::{PathStep, TimedItem, critical_path};
pub use report::{
    ApplyReport, FleetPlan, HostAnswer, HostApply, HostEntry, HostRan, HostResult, HostSnapshots, HostVerify,
    LostHost, Pruned, Purpose, RanCommand, Return, Snapshot,
};
pub use trial::ItemClaims;
