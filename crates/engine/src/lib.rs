//! Observe, plan, apply, verify, snapshot, roll back; one stream of events.

mod event;
mod report;

pub use event::{Event, EventSink, ItemResult};
pub use report::{
    ApplyReport, FleetPlan, HostApply, HostEntry, HostResult, HostSnapshots, HostVerify, LostHost, Purpose,
    Snapshot,
};
