//! Ways in, on real hosts: other users, keys, certificates, jump hosts, first contact, and what `converge doctor` says about each.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

#[path = "ways/become.rs"]
mod become_;
#[path = "ways/doctor.rs"]
mod doctor;
#[path = "ways/jump.rs"]
mod jump;
#[path = "ways/keys.rs"]
mod keys;
#[path = "ways/support.rs"]
mod support;
