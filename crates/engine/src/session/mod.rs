//! Open sessions with targets: the types, without what opens them.

pub(crate) mod cluster;
pub(crate) mod endpoint;
pub(crate) mod pool;
