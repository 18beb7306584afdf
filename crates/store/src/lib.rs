//! The controller's files: saved plans, seals, backups, fetched files.

mod backups;
mod document;
mod fetched;
mod home;
mod seal;
mod state;
pub mod trust;

pub use backups::{BackupError, Backups, IncomingFile, RETAINED};
pub use document::{DocumentError, read_document, write_document};
pub use fetched::{FOLDER as FETCHED_FOLDER, FetchedError, FetchedFiles, Lies};
pub use home::from_home;
pub use seal::{SealError, Sealer};
