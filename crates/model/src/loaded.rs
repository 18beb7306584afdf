//! All that is read of a project, checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use converge_syntax::Diagnostics;
use converge_template::HostScopes;
use indexmap::IndexMap;

use crate::catalog::KindCatalog;
use crate::clusters::Clusters;
use crate::fact_names::FactNames;
use crate::files::Files;
use crate::play::{Play, Playbook, RoleRef};
use crate::role::Role;
use crate::scope::{Facts, SharedState};
use crate::tags::TagFilter;

/// The facts to read before the declarations of a host are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactNeeds {
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

/// A role entry of a host: indices into the playbook.
#[derive(Clone, Debug)]
pub(crate) struct HostRole {
    pub play: usize,
    pub index: usize,
    pub role: Arc<Role>,
    /// Tags of the play and of every use that was merged into this one.
    pub tags: Vec<String>,
}

/// A project without its verbs.
pub(crate) struct Inner {
    pub shared: SharedState,
    pub catalog: KindCatalog,
    pub playbook: Playbook,
    pub roles: IndexMap<String, Arc<Role>>,
    pub filter: TagFilter,
    pub only_roles: Vec<String>,
    /// The start of the run: a role, and an item of it.
    pub start_at: Option<(String, Option<String>)>,
    /// Hosts of all plays in play order, with their roles.
    pub hosts: IndexMap<String, Vec<HostRole>>,
    /// The entry hosts of the clusters, which are among the hosts by their names.
    pub clusters: Clusters,
    /// The hosts that `--limit` leaves, in play order.
    pub selected: Vec<String>,
    pub warnings: Diagnostics,
    pub errors: HostErrors,
    pub maintenance: BTreeSet<String>,
    pub needs: BTreeMap<String, FactNeeds>,
    pub files: Files,
    /// The `hostvars` that belong to the facts of the last call: all hosts share what is rendered in it.
    pub hostvars: Mutex<Option<(Facts, Arc<dyn HostScopes>)>>,
}

impl Inner {
    /// The play and the role entry in it.
    pub(crate) fn play_use(&self, used: &HostRole) -> Option<(&Play, &RoleRef)> {
        let play = self.playbook.plays.get(used.play)?;
        Some((play, play.roles.get(used.index)?))
    }
}
