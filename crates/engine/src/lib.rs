//! Observe, plan, apply, verify, snapshot, roll back; one stream of events.

mod activity;
mod ad_hoc;
mod amend;
mod apply;
mod backup_notes;
mod barriers;
mod batches;
mod connect;
mod context;
mod controller;
mod critical_path;
mod doctor;
mod engine;
mod event;
pub mod exit_code;
mod local;
mod managed_objects;
mod options;
mod plan;
pub mod recorded;
mod report;
mod revert;
mod role_testing;
mod rollback;
mod session;
mod snapshots;
mod tasks;
mod verify;

pub use activity::{Activity, ItemPhase};
pub use amend::{Amendment, AmendmentRun, not_to_forget, not_to_move};
pub use converge_cluster::abandon_helm;
pub use converge_executor::TargetError;
pub use converge_host::facts::{FACT_GROUPS, HostFacts, facts_page, facts_schema};
pub use converge_ledger::{Adoption, ProjectName, Renaming};
pub use converge_ssh::{KeyFileError, Traffic};
pub use critical_path::{PathStep, TimedItem, critical_path};
pub use doctor::{Finding, Health, HostDoctor};
pub use engine::Engine;
pub use event::{Event, EventSink, ItemResult, NoBackup, RoleWork, StoredBackup, TimedEvent};
pub use managed_objects::{HostManaged, ManagedDetail, ManagedObject, Present};
pub use options::{Options, Question, StepAnswer, Steps, StopSwitch};
pub use plan::saved;
pub use report::{
    ApplyReport, CheckFailure, FleetPlan, HostAnswer, HostApply, HostEntry, HostRan, HostResult,
    HostSnapshots, HostVerify, PruneExtent, Purpose, RanCommand, Return, Snapshot,
};
pub use role_testing::ItemClaims;
