//! One file a kind.

pub mod command;
pub mod directory;
pub mod file;
pub mod line;
pub mod package;
pub mod service;
