//! Disposable real hosts for tests and demos.
//!
//! A host is a `systemd-nspawn` container over an overlay of one cached Debian root file system: systemd as PID 1, a
//! real sshd, real apt, its own network namespace on a bridge of the lab and its own cgroup2 subtree. The machine itself
//! need not run systemd. It works as root, or through `sudo -n`.
//!
//! ```no_run
//! use converge_lab::{Lab, LabOptions};
//! # fn main() -> Result<(), converge_lab::LabError> {
//! let lab = Lab::open(LabOptions::new("t-example"))?;
//! let hosts = lab.up(2)?;
//! for host in &hosts {
//!     assert_eq!(host.exec("id -u")?.stdout.trim(), "0");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Dropping the [`Lab`] takes everything down: processes, mounts, links, firewall rules, cgroups and disks. The same
//! happens when the process that opened it dies, however it dies.

mod base;
mod charts;
mod command;
mod delay;
mod error;
mod host;
mod http;
mod inner;
pub mod kube;
mod machine;
mod mirror;
mod net;
mod packages;
mod rpm;
mod session;
mod snapd;
mod tls;
mod wheel;

use std::time::{Duration, Instant};

pub use base::{DEPLOY_USER, OPERATOR_PASSWORD, OPERATOR_USER, PREFETCHED_PACKAGES};
pub use charts::ChartServer;
pub use delay::forward as forward_with_delay;
pub use error::LabError;
pub use host::{ExecOutput, Host};
pub use machine::{Missing, missing, remove_left};
pub use packages::ensure as ensure_packages;
pub use session::{Lab, LabOptions, default_cache_dir, make_cache, wipe};
pub use wheel::Wheel;

/// The pause between two checks of a condition. An expensive check is repeated less often, since the condition needs the
/// processor too.
pub fn pause(look_begun: Instant) {
    std::thread::sleep((look_begun.elapsed() * 3).clamp(Duration::from_millis(50), Duration::from_secs(1)));
}
