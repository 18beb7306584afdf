//! A project: inventory, playbook and roles together, with their declarations for each host.

use std::collections::BTreeSet;
use std::sync::Arc;

use converge_resource::RoleEdge;
use converge_syntax::{Diagnostics, Node, Span, Spanned};
use converge_template::Moment;

use crate::catalog::KindCatalog;
use crate::declare::{HostDeclarations, RegisteredResults};
use crate::fact_names::FactNames;
use crate::inventory::{ConnectionSettings, Inventory};
use crate::loaded::{FactNeeds, HostErrors, HostRole, Inner};
use crate::options::LoadOptions;
use crate::play::Playbook;
use crate::role::Role;
use crate::scope::Facts;
use crate::vars::VarReport;

/// A loaded project. Cheap to clone.
#[derive(Clone)]
pub struct Project(pub(crate) Arc<Inner>);

impl Project {
    /// Reads and checks everything that can be checked before a host is contacted.
    ///
    /// # Errors
    /// Every diagnostic about the files. Errors of single hosts (an undefined variable, an input of the wrong type) are
    /// kept in [`Project::host_errors`] where the files as such are right, and are among these where they are not.
    pub fn load(options: &LoadOptions) -> Result<Self, Diagnostics> {
        crate::load::load(options).map(|inner| Self(Arc::new(inner)))
    }

    /// The hosts of this run, and its clusters by their names, in the order of the plays.
    pub fn hosts(&self) -> &[String] {
        &self.0.selected
    }

    /// The hosts of all plays, those outside `--limit` too, in the order of the plays.
    pub fn all_hosts(&self) -> impl Iterator<Item = &str> {
        self.0.hosts.keys().map(String::as_str)
    }

    /// The entry hosts of a cluster, in play order; `None` if there is no cluster of this name.
    pub fn entry_hosts(&self, cluster: &str) -> Option<&[String]> {
        self.0.clusters.entry_hosts(cluster)
    }

    /// The clusters of which an entry host takes part in this run.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        let takes_part = |name: &&str| {
            let entry_hosts = self.entry_hosts(name).unwrap_or_default();
            entry_hosts.iter().any(|host| self.hosts().contains(host))
                || self.hosts().iter().any(|host| host == name)
        };
        self.0.clusters.names().filter(takes_part)
    }

    /// Errors of single hosts, found without contact to any; those outside `--limit` too.
    pub fn host_errors(&self) -> &HostErrors {
        &self.0.errors
    }

    /// Things that are odd, and do not stop the run.
    pub fn warnings(&self) -> &Diagnostics {
        &self.0.warnings
    }

    /// The inventory.
    pub fn inventory(&self) -> &Inventory {
        &self.0.shared.inventory
    }

    /// The playbook.
    pub fn playbook(&self) -> &Playbook {
        &self.0.playbook
    }

    /// Is the run narrowed to some roles or tags?
    pub fn is_narrowed(&self) -> bool {
        !self.0.only_roles.is_empty() || !self.0.filter.is_empty()
    }

    /// The moment that `now()` and unseeded `random` use.
    pub fn moment(&self) -> &Moment {
        self.0.shared.engine.moment()
    }

    /// The kinds that it was checked against.
    pub fn catalog(&self) -> &KindCatalog {
        &self.0.catalog
    }

    /// The roles of the playbook, in the order in which it first names them.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<Role>> {
        self.0.roles.values()
    }

    /// The edges between the roles of the playbook.
    pub fn role_edges(&self) -> Vec<RoleEdge<Span>> {
        edges(self.0.roles.values().map(AsRef::as_ref))
    }

    /// The roles of a host, in play order, those that `--role` leaves out too.
    pub fn roles_of(&self, host: &str) -> Vec<&str> {
        self.0.hosts.get(host).into_iter().flatten().map(|used| used.role.name.as_str()).collect()
    }

    /// The index of the play that puts a role on a host.
    pub fn play_of(&self, host: &str, role: &str) -> Option<usize> {
        self.0.hosts.get(host)?.iter().find(|used| used.role.name == role).map(|used| used.play)
    }

    /// The start of the run in the order of the roles: a role, and an item of it. Earlier items are left out.
    pub fn start_at(&self) -> Option<(&str, Option<&str>)> {
        self.0.start_at.as_ref().map(|(role, item)| (role.as_str(), item.as_deref()))
    }

    /// Whether the inventory says `maintenance: true` of the host: nothing looks at it.
    pub fn in_maintenance(&self, host: &str) -> bool {
        self.0.maintenance.contains(host)
    }

    /// The hosts that a role runs on, in play order, those outside `--limit` too.
    pub fn hosts_of_role(&self, role: &str) -> Vec<&str> {
        let has = |used: &Vec<HostRole>| used.iter().any(|used| used.role.name == role);
        self.0.hosts.iter().filter(|(_, used)| has(used)).map(|(host, _)| host.as_str()).collect()
    }

    /// The facts to read before the declarations of this host are known.
    pub fn needs(&self, host: &str) -> FactNeeds {
        self.0.needs.get(host).cloned().unwrap_or_default()
    }

    /// Which of a host's facts anything in this run reads, on this host or another: asked once, they are asked in one round trip.
    pub fn fact_names_of(&self, host: &str) -> FactNames {
        let mut names = FactNames::default();
        for reader in &self.0.selected {
            let Some(needs) = self.0.needs.get(reader) else { continue };
            if needs.facts && reader == host || needs.facts_of.contains(host) {
                names.extend(&needs.fact_names);
            }
        }
        names
    }

    /// A variable of a host outside any role, evaluated: `ansible_host` and the like.
    ///
    /// # Errors
    /// The value cannot be rendered, or is encrypted.
    pub fn host_var(&self, host: &str, name: &str) -> Result<Option<Node>, Diagnostics> {
        crate::report::host_var(&self.0, host, name)
    }

    /// The connection of a host, from the variables of the inventory and `--set`. The second value holds warnings.
    ///
    /// # Errors
    /// Connection variables with wrong values, all of them.
    pub fn connection(&self, host: &str) -> Result<(ConnectionSettings, Diagnostics), Diagnostics> {
        crate::report::connection(&self.0, host)
    }

    /// Every candidate of one variable, or of all variables, of a host, with who wins where. A name that has none gives
    /// no report.
    pub fn vars(&self, host: &str, name: Option<&str>) -> Vec<VarReport> {
        crate::report::vars(&self.0, host, name)
    }

    /// The declarations for a host, as far as the facts and results allow. A host of no play has no roles.
    pub fn host_plan(&self, host: &str, facts: &Facts, registered: &RegisteredResults) -> HostDeclarations {
        self.0.clone().host_plan(host, facts, registered)
    }
}

/// The edges of these roles.
pub(crate) fn edges<'r>(roles: impl Iterator<Item = &'r Role>) -> Vec<RoleEdge<Span>> {
    let roles: Vec<&Role> = roles.collect();
    let there: BTreeSet<&str> = roles.iter().map(|role| role.name.as_str()).collect();
    let edge = |role: &Role, required: &Spanned<String>| RoleEdge {
        from: role.name.clone(),
        to: required.value.clone(),
        span: required.span.clone(),
    };
    let first = |role: &&Role| {
        let after = role.after.iter().filter(|after| there.contains(after.value.as_str()));
        role.requires.iter().chain(after).map(|required| edge(role, required)).collect::<Vec<_>>()
    };
    roles.iter().flat_map(first).collect()
}
