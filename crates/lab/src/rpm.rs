//! Hosts whose packages are rpm's.

use crate::error::{LabError, Result};
use crate::host::Host;

/// The Debian packages of which such a host consists besides; they and what they need lie in the base, out of apt's sight.
pub(crate) const RPM_TOOLS: &[&str] = &["dnf", "rpm", "createrepo-c", "dnf-plugins-core", "gpg", "gpg-agent"];
const RPM: &str = include_str!("scripts/rpm.sh");

impl Host {
    /// Turns the host into one of an RPM distribution: real rpm, dnf 4, rpmbuild and createrepo_c, a database of rpm of its own, an
    /// `/etc/os-release` like that of RHEL 9, and no apt or dpkg. The rest of the system is Debian's, and no package of rpm owns it: there is
    /// no SELinux, no firewalld and no repository but those that a test makes.
    pub fn become_rpm(&self) -> Result<()> {
        let done = self.exec(RPM)?;
        if done.success() {
            return Ok(());
        }
        Err(LabError::Tool {
            command: format!("turning {} into a host of rpm", self.name()),
            status: done.status.map_or_else(|| "a signal".to_owned(), |status| status.to_string()),
            detail: done.stderr,
        })
    }
}
