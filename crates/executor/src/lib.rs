//! What a target, a host or a cluster, can do for a run, and why one is left out of it. Pure: the executors themselves are in crates of
//! their own.

mod error;
mod executor;
mod run;

pub use error::{TargetError, without_name};
pub use executor::{Answers, Executor, FactGroups, Pending, Questions};
pub use run::RunMeta;
