//! The ledger of runs: what runs changed, what a rollback of them comes to, and the forms in which hosts and clusters keep it. Pure.

mod amendment;
mod base;
mod compose;
mod found;
mod layers;
mod lead;
mod lines;
mod managed;
mod newest;
mod owned;
mod parts;
mod paths;
mod project;
mod record;
mod records;
mod renaming;
mod renumbering;
mod stacks;

pub use amendment::{Adoption, Renaming};
pub use base::{NewBase, OwnedRecords, parse_owned};
pub use compose::{Fulfils, KnownState, Undo, UnrecordedRuns};
pub use layers::{MountLayer, MountLayers, file_system};
pub use lead::{Lead, LedPath, lead, led_elsewhere, turns_link};
pub use lines::{FSTAB, is_by_lines, stands_in_lines};
pub use managed::{Entry, ManagedObjects, fold};
pub use newest::newest;
pub use owned::{ForeignChange, ManagedPart, OwnedObject};
pub use project::{ProjectName, ProjectScope};
pub use record::{
    BEGUN, FORMAT, IN_PART, RecordError, Records, RunPurpose, RunRecord, SavedChange, SavedGuard,
    SavedOutcome, id_seconds, reads_format,
};
pub use records::{in_order, parse_records};
pub use stacks::Ledger;
