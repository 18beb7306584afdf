//! Where packages are rpm's and dnf changes them: what differs from apt.

use super::Package;
use super::transaction::{DNF, Transaction};
use converge_resource::Stop;

impl Package {
    /// Refuses what dnf does not have.
    pub(super) fn fits(&self, done: &Transaction) -> Result<(), Stop> {
        if done.manager == DNF && self.hold == Some(true) {
            return Err(Stop::invalid_help(
                "/hold",
                "packages are not held on hosts with dnf",
                "leave `hold` out there: a package is left at its version unless a resource says otherwise",
            ));
        }
        Ok(())
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
