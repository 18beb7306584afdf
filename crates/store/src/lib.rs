//! Plan files, snapshots, journal, blobs: versioned and content-addressed.
