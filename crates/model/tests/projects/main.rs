//! Whole projects in temporary folders: what is wrong with them, and what they declare.

mod common;
mod kinds;
mod project;
mod roles;
mod templates;
mod vault;
