//! The controller's files: saved plans, seals, backups.

mod backups;
mod document;
mod seal;
mod state;

pub use backups::{Arriving, BackupError, Backups, KEPT};
pub use document::{DocumentError, read_document, write_document};
pub use seal::{SealError, Sealer};
