//! The ledger of runs: what runs changed, what a rollback of them comes to, and the forms in which hosts and clusters keep it. Pure.

mod compose;
mod fold;
mod layers;
mod managed;
mod newest;
mod owned;
mod record;

pub use compose::{Fulfils, KnownState, Undo};
pub use fold::Ledger;
pub use layers::{Layer, Layers, file_system};
pub use managed::{Entry, Managed, fold};
pub use newest::newest;
pub use owned::{Moved, NewBase, Owned, OwnedRecords, Project, Scope, parse_owned};
pub use record::{
    FORMAT, IN_PART, RecordError, Records, RunPurpose, RunRecord, SavedChange, SavedGuard, SavedOutcome,
    id_seconds, in_order, parse_records, reads_format,
};
