//! Inventories in Ansible's formats: YAML, INI, directories of them, lists of hosts, `group_vars/` and `host_vars/`.
//!
//! [`Inventory::load`] reads all sources and reports all diagnostics at once. [`Inventory::host_vars`] gives every value
//! that a host has for a variable, lowest first, each with its place. The oracle is `ansible-inventory`: a test compares.

mod address;
mod build;
mod connection;
mod graph;
mod ini;
mod json_key;
mod literal;
mod output;
mod pattern;
mod python;
mod shlex;
mod source;
mod ssh_args;
mod vars_files;
mod yaml;

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use converge_syntax::{Diagnostics, Node, Span, Value};
use indexmap::IndexMap;

use build::Builder;
use graph::{ALL, Graph, GroupId};
use vars_files::{FoundVars, VarsFiles};

use crate::vault::{TAGS, Vault};

pub use address::{is_ipv4, is_ipv6, parse_address};
pub(crate) use connection::CONNECTION_VARIABLES;
pub use connection::{BecomeMethod, BecomeSettings, ConnectionSettings, ConnectionType};
pub use graph::{Assignment, InventoryGroup, InventoryHost, LOCALHOST};
pub use output::OutputOptions;
pub use pattern::{Selection, split_pattern};
pub use source::InventorySource;
pub use ssh_args::{Hop, HostKeyChecking};

/// The place of a value among the layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InventoryLayer {
    /// A group, by its name.
    Group(String),
    /// The host itself.
    Host,
}

impl std::fmt::Display for InventoryLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Group(name) => write!(f, "group {name}"),
            Self::Host => f.write_str("host"),
        }
    }
}

/// One value that a variable has for a host; the last candidate of a name wins.
#[derive(Debug, Clone)]
pub struct InventoryCandidate {
    /// The variable.
    pub name: String,
    /// The value with its place.
    pub node: Node,
    /// The place of the name.
    pub key: Span,
    /// The group or host that it belongs to.
    pub layer: InventoryLayer,
}

/// The hosts and groups of all sources, with their variables.
#[derive(Debug, Clone)]
pub struct Inventory {
    graph: Graph,
    files: VarsFiles,
    /// Indices of directories: those beside the inventory sources, and that of the playbook.
    beside_inventory: Vec<usize>,
    beside_playbook: Option<usize>,
}

impl Inventory {
    /// Reads all sources in order, then the vars files beside them and beside the playbook. The second value holds warnings.
    ///
    /// # Errors
    /// Every diagnostic of every file; sources that do not exist, programs, plugins and encrypted files that no password of
    /// `vault` opens among them.
    pub fn load(
        sources: &[InventorySource],
        playbook_dir: Option<&Utf8Path>,
        vault: &Vault,
    ) -> Result<(Self, Diagnostics), Diagnostics> {
        let (inventory, mut found) = Self::read(sources, playbook_dir, vault)?;
        found.extend(inventory.files.problems());
        if found.has_errors() { Err(found) } else { Ok((inventory, found)) }
    }

    /// As [`Inventory::load`], but what is wrong with files of variables is no error yet: [`Inventory::problems_of`] gives it for
    /// the hosts that are used. As in Ansible, a file counts only where a host needs it.
    ///
    /// # Errors
    /// Every diagnostic about the sources themselves.
    pub fn read(
        sources: &[InventorySource],
        playbook_dir: Option<&Utf8Path>,
        vault: &Vault,
    ) -> Result<(Self, Diagnostics), Diagnostics> {
        let mut builder = Builder::new(vault);
        for source in sources {
            source::read(&mut builder, source);
        }
        builder.finish();
        let mut directories: Vec<Utf8PathBuf> = Vec::new();
        let mut index_of = |directory: Utf8PathBuf| {
            let same = |path: &Utf8Path| path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
            let wanted = same(&directory);
            directories.iter().position(|known| same(known) == wanted).unwrap_or_else(|| {
                directories.push(directory);
                directories.len() - 1
            })
        };
        let mut beside_inventory: Vec<usize> = Vec::new();
        for directory in sources.iter().filter_map(InventorySource::directory) {
            let index = index_of(directory);
            // Read again, a directory overrides what came between: its last place counts.
            beside_inventory.retain(|known| *known != index);
            beside_inventory.push(index);
        }
        let beside_playbook = playbook_dir.map(|directory| index_of(directory.to_owned()));
        beside_inventory.retain(|known| Some(*known) != beside_playbook);
        let files = VarsFiles::read(&mut builder, &directories);
        let Builder { graph, diagnostics, .. } = builder;
        let inventory = Self { graph, files, beside_inventory, beside_playbook };
        if diagnostics.has_errors() {
            let mut all = diagnostics;
            all.extend(inventory.files.problems());
            return Err(all);
        }
        Ok((inventory, diagnostics))
    }

    /// Diagnostics about the files of variables that these hosts have, each once.
    #[must_use]
    pub fn problems_of<'h>(&self, hosts: impl IntoIterator<Item = &'h str>) -> Diagnostics {
        let mut groups: BTreeSet<GroupId> = [ALL].into();
        let mut names: Vec<&str> = Vec::new();
        for host in hosts {
            groups.extend(
                self.graph.host_id(host).map(|id| self.graph.sorted_groups_of(id)).unwrap_or_default(),
            );
            names.push(host);
        }
        let groups = groups.into_iter().filter_map(|id| self.graph.groups.get(id));
        let of_groups = groups.flat_map(|group| self.found(true, &group.name));
        let of_hosts = names.iter().flat_map(|name| self.found(false, name));
        of_groups.chain(of_hosts).flat_map(|found| found.problems.iter().cloned()).collect()
    }

    /// Diagnostics about all files of variables, also those of groups without hosts.
    #[must_use]
    pub fn problems(&self) -> Diagnostics {
        self.files.problems()
    }

    #[cfg(test)]
    fn of_graph(graph: Graph) -> Self {
        Self { graph, files: VarsFiles::default(), beside_inventory: Vec::new(), beside_playbook: None }
    }

    /// All hosts in the order in which a play on `all` has them.
    pub fn hosts(&self) -> impl Iterator<Item = &InventoryHost> {
        self.graph.hosts_of(ALL).into_iter().filter_map(|id| self.graph.hosts.get(id))
    }

    /// The host of a name.
    pub fn host(&self, name: &str) -> Option<&InventoryHost> {
        self.graph.hosts.get(self.graph.host_id(name)?)
    }

    /// All groups, `all` and `ungrouped` first, then in the order in which they are first named.
    pub fn groups(&self) -> impl Iterator<Item = &InventoryGroup> {
        self.graph.groups.iter()
    }

    /// The group of a name.
    pub fn group(&self, name: &str) -> Option<&InventoryGroup> {
        self.graph.groups.get(self.graph.group_id(name)?)
    }

    /// The names of the hosts of a group and its children; none for an unknown group.
    pub fn hosts_of(&self, group: &str) -> Vec<&str> {
        let ids = self.graph.group_id(group).map(|id| self.graph.hosts_of(id)).unwrap_or_default();
        ids.into_iter().filter_map(|id| self.graph.hosts.get(id)).map(InventoryHost::name).collect()
    }

    /// The magic variable `group_names`: all groups of a host but `all`, sorted.
    pub fn groups_of(&self, host: &str) -> Vec<&str> {
        let Some(id) = self.graph.host_id(host) else {
            return Vec::new();
        };
        let ids = self.graph.sorted_groups_of(id);
        let mut names: Vec<&str> =
            ids.into_iter().filter_map(|id| self.graph.groups.get(id)).map(InventoryGroup::name).collect();
        names.sort_unstable();
        names
    }

    /// The magic variable `groups`: the host names of every group.
    pub fn groups_map(&self) -> IndexMap<&str, Vec<&str>> {
        self.graph.groups.iter().map(|group| (group.name(), self.hosts_of(group.name()))).collect()
    }

    /// All values of all variables of a host, lowest first: of one name the last wins.
    ///
    /// The order is Ansible's: `all`, then groups by depth, priority and name, in the inventory itself; then `group_vars/`
    /// of `all`, then of the groups, each beside the inventory before beside the playbook; then the host in the same way.
    /// An unknown host has none, but for an implicit `localhost`.
    pub fn host_vars(&self, host: &str) -> Vec<InventoryCandidate> {
        let id = self.graph.host_id(host);
        if id.is_none() && !LOCALHOST.contains(&host) {
            return Vec::new();
        }
        let groups = id.map(|id| self.graph.sorted_groups_of(id)).unwrap_or_default();
        let mut candidates = Vec::new();
        self.inline(&[ALL], &mut candidates);
        self.inline(&groups, &mut candidates);
        self.each_found(&[ALL], |group, found| {
            push(&mut candidates, &found.vars, &InventoryLayer::Group(group.to_owned()))
        });
        self.each_found(&groups, |group, found| {
            push(&mut candidates, &found.vars, &InventoryLayer::Group(group.to_owned()))
        });
        match id.and_then(|id| self.graph.hosts.get(id)) {
            Some(host) => push(&mut candidates, &host.vars, &InventoryLayer::Host),
            None => {
                let here = Span::nowhere("implicit localhost");
                candidates.push(InventoryCandidate {
                    name: "ansible_connection".to_owned(),
                    node: Node::new("local", here.clone()),
                    key: here,
                    layer: InventoryLayer::Host,
                });
            }
        }
        for found in self.found(false, host) {
            push(&mut candidates, &found.vars, &InventoryLayer::Host);
        }
        candidates
    }

    /// The winning value of each variable of a host, in the order in which the names first appear.
    pub fn merged_vars(&self, host: &str) -> IndexMap<String, InventoryCandidate> {
        let mut merged = IndexMap::new();
        for candidate in self.host_vars(host) {
            merged.insert(candidate.name.clone(), candidate);
        }
        merged
    }

    /// Every variable that a group, a host or a file of variables sets, in no order.
    pub(crate) fn assignments(&self) -> impl Iterator<Item = &Assignment> {
        let groups = self.graph.groups.iter().flat_map(|group| &group.vars);
        let hosts = self.graph.hosts.iter().flat_map(|host| &host.vars);
        groups.chain(hosts).chain(self.files.assignments())
    }

    fn inline(&self, groups: &[GroupId], candidates: &mut Vec<InventoryCandidate>) {
        for group in groups.iter().filter_map(|id| self.graph.groups.get(*id)) {
            push(candidates, &group.vars, &InventoryLayer::Group(group.name.clone()));
        }
    }

    /// Visits the vars files of groups: first those in all directories of the inventory, then those beside the playbook.
    fn each_found<'a>(&'a self, groups: &[GroupId], mut visit: impl FnMut(&'a str, &'a FoundVars)) {
        for directory in self.beside_inventory.iter().chain(&self.beside_playbook) {
            for group in groups.iter().filter_map(|id| self.graph.groups.get(*id)) {
                if let Some(found) = self.files.get(*directory, true, &group.name) {
                    visit(&group.name, found);
                }
            }
        }
    }

    fn found<'a>(&'a self, is_group: bool, name: &'a str) -> impl Iterator<Item = &'a FoundVars> {
        self.beside_inventory
            .iter()
            .chain(&self.beside_playbook)
            .filter_map(move |directory| self.files.get(*directory, is_group, name))
    }
}

fn push(candidates: &mut Vec<InventoryCandidate>, assignments: &[Assignment], layer: &InventoryLayer) {
    candidates.extend(assignments.iter().map(|assignment| InventoryCandidate {
        name: assignment.name.clone(),
        node: assignment.node.clone(),
        key: assignment.key.clone(),
        layer: layer.clone(),
    }));
}

/// Splits text into words as a shell does, quotes resolved; `None` where a quote is not closed.
#[must_use]
pub fn shell_words(text: &str) -> Option<Vec<String>> {
    let words = shlex::split(text, false).ok()?;
    Some(words.into_iter().map(|word| word.text).collect())
}

/// Whether the value is a secret by the way in which it is written: encrypted itself or inside, or from an encrypted file.
#[must_use]
pub fn is_encrypted(node: &Node) -> bool {
    if node.span.source.is_secret() || node.tag.as_deref().is_some_and(|tag| TAGS.contains(&tag)) {
        return true;
    }
    match &node.value {
        Value::List(items) => items.iter().any(is_encrypted),
        Value::Map(entries) => entries.iter().any(|(_, value)| is_encrypted(value)),
        _ => false,
    }
}
