//! Plan files, snapshots, journal, blobs: versioned and content-addressed.

mod backups;
mod document;
pub mod host;
mod seal;
mod state;

pub use backups::{Arriving, BackupError, Backups, KEPT};
pub use document::{DocumentError, read_document, write_document};
pub use seal::{SealError, Sealer};
