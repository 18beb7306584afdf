//! One host over SSH: a session with it, what it says of itself, questions to it, and runs on it with their records.

mod budget;
mod connection;
pub mod facts;
mod heartbeat;
mod observe;
pub mod records;
mod run;
mod taught;

pub use connection::{Aside, HostConnection};
