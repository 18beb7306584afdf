//! Exit codes of the program that the result of a run decides.

/// Nothing to do, or done.
pub const DONE: u8 = 0;
/// Failed.
pub const FAILED: u8 = 1;
/// Changes are pending.
pub const PENDING: u8 = 2;
/// A host was unreachable.
pub const UNREACHABLE: u8 = 3;
/// Refused.
pub const REFUSED: u8 = 4;
/// Failed, and a guarded change was reverted.
pub const REVERTED: u8 = 5;
