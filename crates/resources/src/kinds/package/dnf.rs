//! Where packages are rpm's and dnf changes them: what differs from apt.

use super::Package;
use super::transaction::{DNF, Transaction};
use crate::look::package_id;
use converge_resource::{Stop, View};

/// The package of dnf's plugin versionlock on RHEL and what is made from it.
const LOCKS: &str = "python3-dnf-plugin-versionlock";

impl Package {
    /// Refuses a hold where dnf has no plugin for it, unless a package of the run may bring it.
    pub(super) fn fits(&self, view: &dyn View, done: &Transaction) -> Result<(), Stop> {
        if done.manager != DNF || self.hold != Some(true) || done.has_locks {
            return Ok(());
        }
        let why = "dnf of this host has no plugin versionlock, which holds packages";
        if let Some(mut wait) = view.pending_act(&|object, _| object == &package_id(LOCKS)) {
            wait.reason = format!("{why}; {}", wait.reason);
            return Err(Stop::Deferred(wait));
        }
        Err(Stop::invalid_help(
            "/hold",
            why,
            format!("add a resource before this one: `package: {{name: {LOCKS}}}`, or leave `hold` out"),
        ))
    }
}

impl Transaction {
    /// The reason why dnf refuses a name: nothing has this version of it.
    pub(super) fn other_versions(&self, name: &str) -> Option<String> {
        let versions = self.versions.get(name)?;
        Some(format!(
            "the repositories offer {}; write the whole version, as rpm does: `1:2.3-4.el9`",
            versions.join(", ")
        ))
    }
}
