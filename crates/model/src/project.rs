//! A project: inventory, playbook and roles together, with their declarations for each host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};
use converge_syntax::{Diagnostics, Node, Span, Spanned, Value};
use converge_template::{HostScopes, Moment, Variable};
use indexmap::IndexMap;

use crate::catalog::KindCatalog;
use crate::clusters::Clusters;
use crate::declare::{Gate, HostPlan, Registered, UseContext, declare, gate};
use crate::fact_names::FactNames;
use crate::files::Files;
use crate::inventory::{Connection, Inventory, InventorySource};
use crate::play::{Play, Playbook, RoleRef};
use crate::role::{Role, RolePath};
use crate::scope::{Facts, Shared, host_scope, hostvars, role_scope};
use crate::tags::TagFilter;
use crate::vars::{VarReport, role_layers};
use crate::vault::Vault;

/// The sources of a project, and the limits of the run.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Inventories, in the order of the command line.
    pub inventories: Vec<InventorySource>,
    /// `--playbook`; else the inventory's `converge_playbook`, else `playbooks/site.yaml`.
    pub playbook: Option<Utf8PathBuf>,
    /// Plays that no file holds, instead of a playbook. Variables beside a playbook are not read then.
    pub plays: Option<GivenPlays>,
    /// `--roles-path`: folders in which roles are searched after those of the playbook.
    pub roles_path: Vec<Utf8PathBuf>,
    /// `--set`: names and values as text.
    pub set: Vec<(String, String)>,
    /// `--limit`.
    pub limit: Option<String>,
    /// `--role`; empty for all.
    pub roles: Vec<String>,
    /// `--start-at`: `ROLE` or `ROLE/ITEM`.
    pub start_at: Option<String>,
    /// `--tags`; empty for all.
    pub tags: Vec<String>,
    /// `--skip-tags`.
    pub skip_tags: Vec<String>,
    /// The kinds there are.
    pub catalog: KindCatalog,
    /// Only the inventory: all its hosts, no playbook and no roles.
    pub inventory_only: bool,
    /// Passwords for encrypted values and files.
    pub vault: Vault,
    /// The moment that `now()` and unseeded `random` use: that of a saved plan, else the present one.
    pub moment: Option<Moment>,
    /// Selections that come to nothing are errors: an empty limit or inventory, patterns and tags without a match.
    pub refuse_empty: bool,
}

/// Plays that no file holds: those of a role's scenario.
#[derive(Clone, Debug)]
pub struct GivenPlays {
    /// The name for messages, in place of the path of a playbook.
    pub path: Utf8PathBuf,
    /// A list of plays, as a playbook has it.
    pub plays: Node,
    /// The folders in which roles are searched.
    pub role_path: RolePath,
}

/// An edge between roles: `from` requires `to`, which comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleEdge {
    /// The role that requires.
    pub from: String,
    /// The role that is required.
    pub to: String,
    /// The place in `requires` or `after`.
    pub span: Span,
}

/// The facts to read before the declarations of a host are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Its own facts.
    pub facts: bool,
    /// Facts of other hosts, as far as it is known of which.
    pub facts_of: BTreeSet<String>,
    /// It may read facts of more hosts: facts and results decide of which.
    pub facts_of_others: bool,
    /// The names of the facts, of this host and of others.
    pub fact_names: FactNames,
}

/// Errors that belong to single hosts, by host name.
pub type HostErrors = BTreeMap<String, Diagnostics>;

/// A loaded project. Cheap to clone.
#[derive(Clone)]
pub struct Project(pub(crate) Arc<Inner>);

/// A role entry of a host: indices into the playbook.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    pub play: usize,
    pub index: usize,
    pub role: Arc<Role>,
    /// Tags of the play and of every use that was merged into this one.
    pub tags: Vec<String>,
}

pub(crate) struct Inner {
    pub shared: Shared,
    pub catalog: KindCatalog,
    pub playbook: Playbook,
    pub roles: IndexMap<String, Arc<Role>>,
    pub filter: TagFilter,
    pub only_roles: Vec<String>,
    /// The start of the run: a role, and an item of it.
    pub start_at: Option<(String, Option<String>)>,
    /// Hosts of all plays in play order, with their roles.
    pub hosts: IndexMap<String, Vec<Used>>,
    /// The entry hosts of the clusters, which are among the hosts by their names.
    pub clusters: Clusters,
    /// The hosts that `--limit` leaves, in play order.
    pub selected: Vec<String>,
    pub warnings: Diagnostics,
    pub errors: HostErrors,
    pub maintenance: BTreeSet<String>,
    pub needs: BTreeMap<String, Needs>,
    pub files: Files,
    /// The `hostvars` that belong to the facts of the last call: all hosts share what is rendered in it.
    pub hostvars: Mutex<Option<(Facts, Arc<dyn HostScopes>)>>,
}

impl Project {
    /// Reads and checks everything that can be checked before a host is contacted.
    ///
    /// # Errors
    /// Every complaint about the files. Errors of single hosts (an undefined variable, an input of the wrong type) are
    /// kept in [`Project::host_errors`] where the files as such are right, and are among these where they are not.
    pub fn load(options: &LoadOptions) -> Result<Self, Diagnostics> {
        crate::load::load(options)
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
    pub fn role_edges(&self) -> Vec<RoleEdge> {
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
        let has = |used: &Vec<Used>| used.iter().any(|used| used.role.name == role);
        self.0.hosts.iter().filter(|(_, used)| has(used)).map(|(host, _)| host.as_str()).collect()
    }

    /// The facts to read before the declarations of this host are known.
    pub fn needs(&self, host: &str) -> Needs {
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

    /// Does anything that runs on the host read its facts?
    pub fn needs_facts(&self, host: &str) -> bool {
        self.0.needs.get(host).is_some_and(|needs| needs.facts)
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
    pub fn connection(&self, host: &str) -> Result<(Connection, Diagnostics), Diagnostics> {
        crate::report::connection(&self.0, host)
    }

    /// Every candidate of one variable, or of all variables, of a host, with who wins where. A name that has none gives
    /// no report.
    pub fn vars(&self, host: &str, name: Option<&str>) -> Vec<VarReport> {
        crate::report::vars(&self.0, host, name)
    }

    /// The declarations for a host, as far as the facts and results allow. A host of no play has no roles.
    pub fn host_plan(&self, host: &str, facts: &Facts, registered: &Registered) -> HostPlan {
        self.0.clone().host_plan(host, facts, registered)
    }
}

impl Inner {
    pub(crate) fn host_plan(self: Arc<Self>, host: &str, facts: &Facts, registered: &Registered) -> HostPlan {
        let hosts = self.hostvars(facts);
        let mut errors = Diagnostics::new();
        let mut uses = Vec::new();
        let name = host;
        let host = self.clusters.speaker(name);
        for used in self.hosts.get(name).into_iter().flatten() {
            let Some((play, role_ref)) = self.play_use(used) else {
                continue;
            };
            let role = &used.role;
            let layers = role_layers(&self.shared.inventory, &self.shared.set, host, play, role_ref, role);
            let made = role_scope(&self.shared, facts, &hosts, host, role, &layers, &role_ref.role.span);
            errors.extend(made.problems.clone());
            let mut when_lookups = BTreeSet::new();
            let context = UseContext {
                role,
                play: play.title(),
                span: &role_ref.role.span,
                when: gate(&self, &role_ref.when, &made.scope, &mut when_lookups),
                conditions: role_ref.when.clone(),
                when_lookups,
                tags: used.tags.clone(),
                layers,
                role_selected: self.only_roles.is_empty() || self.only_roles.contains(&role.name),
            };
            uses.push((context, made));
        }
        let names: Vec<&str> =
            uses.iter().filter(|(c, _)| self.takes_part(c)).map(|(c, _)| c.role.name.as_str()).collect();
        let names = role_names(&names);
        let mut roles = Vec::new();
        for (context, mut made) in uses {
            made.scope.set("role_names", Variable::Data(names.clone()));
            roles.push(declare(&self, host, context, made, registered));
        }
        let scope = host_scope(&self.shared, facts, &hosts, host);
        HostPlan { host: name.to_owned(), roles, errors, scope }
    }

    /// Whether the run goes through a role on its host: neither narrowed away nor switched off by the `when` of its use.
    fn takes_part(&self, used: &UseContext<'_>) -> bool {
        let selected = |item: &crate::item::Item| {
            let tags: Vec<String> = used.tags.iter().chain(&item.tags).cloned().collect();
            self.filter.selects(&tags)
        };
        used.role_selected && !matches!(used.when, Gate::No(_)) && used.role.items().any(selected)
    }

    fn hostvars(&self, facts: &Facts) -> Arc<dyn HostScopes> {
        let mut last = self.hostvars.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, hosts)) if known.is_same_as(facts) => hosts.clone(),
            _ => {
                let hosts = hostvars(&self.shared, facts);
                *last = Some((facts.clone(), hosts.clone()));
                hosts
            }
        }
    }

    pub(crate) fn play_use(&self, used: &Used) -> Option<(&Play, &RoleRef)> {
        let play = self.playbook.plays.get(used.play)?;
        Some((play, play.roles.get(used.index)?))
    }
}

/// The magic variable `role_names`.
fn role_names(names: &[&str]) -> Arc<Node> {
    let span = Span::nowhere("converge");
    let names = names.iter().map(|name| Node::new(*name, span.clone())).collect();
    Arc::new(Node { value: Value::List(names), span, tag: None })
}

/// The edges of these roles.
pub(crate) fn edges<'r>(roles: impl Iterator<Item = &'r Role>) -> Vec<RoleEdge> {
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

/// The folder of a path; `.` for a bare name.
pub(crate) fn folder_of(path: &Utf8Path) -> &Utf8Path {
    path.parent().filter(|dir| !dir.as_str().is_empty()).unwrap_or_else(|| Utf8Path::new("."))
}
