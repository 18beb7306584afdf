//! One file a kind.

pub mod absent;
pub mod assert;
pub mod block;
pub mod command;
pub mod directory;
pub mod file;
pub mod group;
pub mod line;
pub mod link;
pub mod package;
pub mod query;
pub mod service;
pub mod structured;
pub mod sysctl;
pub mod unit;
pub mod user;
