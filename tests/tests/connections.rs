//! Connections, on real hosts: other users, keys, certificates, jump hosts, first contact, and the findings of `converge doctor` about each.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

#[path = "connections/become.rs"]
mod become_;
#[path = "connections/doctor.rs"]
mod doctor;
#[path = "connections/jump.rs"]
mod jump;
#[path = "connections/keys.rs"]
mod keys;
#[path = "connections/support.rs"]
mod support;
