//! Edges of the graph that cross hosts: a role waits for a role that runs elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How far a role is on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoleState {
    /// Something is still to be done.
    pub open: bool,
    /// Something failed.
    pub failed: bool,
}

/// What every host has done so far, shared by all lanes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Role → the roles that it requires.
    requires: BTreeMap<String, Vec<String>>,
    hosts: Mutex<BTreeMap<String, BTreeMap<String, RoleState>>>,
    changed: Notify,
}

impl Gates {
    pub fn new(requires: BTreeMap<String, Vec<String>>) -> Self {
        Self(Arc::new(Inner { requires, ..Inner::default() }))
    }

    fn hosts(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, RoleState>>> {
        self.0.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says how far a host is, and wakes those who wait.
    pub fn report(&self, host: &str, roles: BTreeMap<String, RoleState>) {
        self.hosts().insert(host.to_owned(), roles);
        self.0.changed.notify_waiters();
    }

    /// Returns after the next report of any host, or at once when one came since `seen` was taken.
    pub fn next_report(&self) -> tokio::sync::futures::Notified<'_> {
        self.0.changed.notified()
    }

    /// Whether a role may begin on this host. A required role that runs on this host too is a matter of this host
    /// alone; else it has to be over on every host that it runs on.
    pub fn check(&self, host: &str, role: &str) -> Result<bool, String> {
        let hosts = self.hosts();
        let own: BTreeSet<&String> = hosts.get(host).map(|r| r.keys().collect()).unwrap_or_default();
        let mut ready = true;
        for required in self.0.requires.get(role).into_iter().flatten().filter(|r| !own.contains(r)) {
            for (other, roles) in hosts.iter() {
                match roles.get(required) {
                    Some(RoleState { failed: true, .. }) => {
                        return Err(format!("role `{required}` failed on {other}"));
                    }
                    Some(RoleState { open: true, .. }) => ready = false,
                    _ => {}
                }
            }
        }
        Ok(ready)
    }

    /// What a role on this host still waits for: `role a on h1, h2`.
    pub fn waits_for(&self, role: &str) -> String {
        let hosts = self.hosts();
        let parts: Vec<String> = self
            .0
            .requires
            .get(role)
            .into_iter()
            .flatten()
            .filter_map(|required| {
                let open: Vec<&str> = hosts
                    .iter()
                    .filter(|(_, roles)| roles.get(required).is_some_and(|s| s.open))
                    .map(|(h, _)| h.as_str())
                    .collect();
                (!open.is_empty()).then(|| format!("role {required} on {}", open.join(", ")))
            })
            .collect();
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(open: bool, failed: bool) -> RoleState {
        RoleState { open, failed }
    }

    #[test]
    fn a_role_waits_for_hosts_on_which_its_required_role_runs() {
        let gates = Gates::new(BTreeMap::from([("app".to_owned(), vec!["db".to_owned()])]));
        let roles = |list: &[(&str, RoleState)]| list.iter().map(|(n, s)| ((*n).to_owned(), *s)).collect();
        gates.report("h1", roles(&[("db", state(true, false))]));
        gates.report("h2", roles(&[("app", state(true, false))]));
        gates.report("h3", roles(&[("app", state(true, false)), ("db", state(true, false))]));
        assert_eq!(gates.check("h2", "app"), Ok(false));
        assert_eq!(gates.waits_for("app"), "role db on h1, h3");
        assert_eq!(gates.check("h3", "app"), Ok(true), "it has the role itself");
        gates.report("h1", roles(&[("db", state(false, false))]));
        gates.report("h3", roles(&[("db", state(false, true))]));
        assert_eq!(gates.check("h2", "app"), Err("role `db` failed on h3".to_owned()));
    }
}
