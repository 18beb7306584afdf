//! From the names of an inventory to open sessions, and the questions and runs in them.

pub(crate) mod clusters;
mod endpoint;
pub(crate) mod endpoints;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod target;
