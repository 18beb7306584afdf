//! The interface of targets, hosts and clusters, for a run, and the reasons why one is left out of it. Pure: the executors themselves are in crates of
//! their own.

mod error;
mod executor;
mod run;

pub use error::{TargetError, without_name};
pub use executor::{Answers, Executor, FactGroups, Questions, TargetFuture};
pub use run::{ArrivedChanges, RunEnd, RunMeta};
