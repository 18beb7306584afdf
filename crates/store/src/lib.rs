//! Plan files, snapshots, journal, blobs: versioned and content-addressed.

mod document;
pub mod host;
mod seal;

pub use document::{DocumentError, read_document, write_document};
pub use seal::{SealError, Sealer};
