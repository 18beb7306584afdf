//! The kinds that a user writes: one file each.
