//! One file a kind.

pub mod absent;
pub mod archive;
pub mod assert;
pub mod authorized_key;
pub mod block;
pub mod command;
pub mod cron;
pub mod directory;
pub mod download;
pub mod file;
pub mod group;
pub mod hostname;
pub mod kernel_module;
pub mod line;
pub mod link;
pub mod mount;
pub mod package;
pub mod query;
pub mod service;
pub mod structured;
pub mod swap;
pub mod sysctl;
pub mod timer;
pub mod unit;
pub mod user;
pub mod wait_for;
