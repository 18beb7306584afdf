//! The declarations of the roles of a host: an object that no item of theirs claims is orphaned. Pure.

use crate::plan::source::{Declarations, HostSource};
use converge_resource::{ObjectId, State};
use std::collections::{BTreeMap, BTreeSet};

/// The declarations of the project for a host, whatever the run is narrowed to.
#[derive(Debug, Default)]
pub(crate) struct Declares {
    /// The objects that some item claims.
    pub objects: BTreeSet<ObjectId>,
    /// The host's roles, and whether each was evaluated completely.
    pub roles: BTreeMap<String, bool>,
    /// Former names of roles.
    pub renamed: BTreeMap<String, String>,
    /// The number of items that claim each object.
    pub claims: BTreeMap<ObjectId, usize>,
    /// Roles that are complete but for the objects that they choose in a cluster.
    pub choosers: BTreeSet<String>,
    /// True when the run is narrowed to some roles or tags: roles that are gone were not looked for.
    pub narrowed: bool,
}

impl Declares {
    /// Reads the items of a host.
    pub fn of(source: &HostSource<'_>, outputs: &converge_planner::Outputs, narrowed: bool) -> Self {
        let Declarations { objects: claims, roles, renamed, choosers } = source.declares(outputs);
        let mut objects: BTreeSet<ObjectId> = claims.keys().cloned().collect();
        // A unit whose file is declared is there through it, and goes with it.
        let through = |object: &ObjectId| {
            let links = converge_objects::object(&object.kind)?.links();
            Some(links.brings(&object.key, &State::absent(), None).into_iter().map(|(brought, _)| brought))
        };
        let brought: Vec<ObjectId> = objects.iter().filter_map(through).flatten().collect();
        objects.extend(brought);
        Self { objects, roles, renamed, claims, choosers, narrowed }
    }

    pub(super) fn name<'a>(&'a self, role: &'a str) -> &'a str {
        self.renamed.get(role).map_or(role, String::as_str)
    }

    /// Whether it is known for sure that this role does not want the thing.
    pub(super) fn surely_without(&self, role: &str) -> bool {
        self.roles.get(self.name(role)).copied().unwrap_or(!self.narrowed)
    }
}
