//! The objects that runs made on a host, and the roles that they belong to.

use crate::{MountLayer, ProjectName, SavedGuard};
use converge_resource::{ChangedPart, NodeRemoval, ObjectId, State};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A change of an object by the foreign code of an item, before an item of the same run changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignChange {
    /// The address of the item whose foreign code changed it.
    pub by: String,
    /// The state that this code found.
    pub before: State,
}

/// An object that a run made or changed, and that was not given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedObject {
    /// The object.
    pub object: ObjectId,
    /// The file system in which it lies, where runs mount one above it.
    pub layer: MountLayer,
    /// The mounts above it, each with the file system that must be there for it to be visible.
    pub lies_in: Vec<(String, String)>,
    /// In a cluster: the server's own identity of it. Another object of the same name is not managed.
    pub uid: Option<String>,
    /// In a cluster: the prune by which the project that made the object has left it to this one. With its last field the object goes.
    pub heir_by: Option<String>,
    /// Whose it is.
    pub scope: ProjectName,
    /// The roles whose items changed it, the last one first.
    pub roles: Vec<String>,
    /// The address of the item that changed it last.
    pub item: String,
    /// When it became managed, RFC 3339 UTC.
    pub since: String,
    /// The run that first changed it; it keeps what the state before only names.
    pub run: String,
    /// The run that took it into management as it was (`converge state adopt`): it stays managed in the state before, until that run goes back.
    pub adopted_by: Option<String>,
    /// The directories in which runs changed it, where links led there and their records say it.
    pub made_in: BTreeSet<String>,
    /// The original state.
    pub before: State,
    /// The change by foreign code that made the state before, in the run that first changed the object: a package brought it, a command made it.
    pub moved: Option<ForeignChange>,
    /// The state that we left.
    pub left: State,
    /// The other end of the last change, when that was cut off: it is not known whether it happened.
    pub open: Option<State>,
    /// The state that a run left and the state that the next one found, where another user changed it in between. Of objects that go
    /// back field by field or line by line; all others go back whole.
    pub between: Vec<(State, State)>,
    /// True when an item that changed it was declared sensitive: the content that this one left is a previous one of all later changes.
    pub sensitive: bool,
    /// True for a by-product: no role manages it directly; it came with an object that a role manages, such as a
    /// package's dependency.
    pub by_product: bool,
    /// The reason why the state before was not kept, when it was not.
    pub no_snapshot: Option<String>,
    /// The data that its rollback needs besides the states.
    pub node_removal: Option<NodeRemoval>,
    /// The guard of the last guarded item that changed it.
    pub guard: Option<SavedGuard>,
    /// In a cluster: the parts that items have set, with those that were given back.
    pub parts: Vec<ManagedPart>,
}

impl OwnedObject {
    /// The paths of the object behind the links that led to it.
    pub(crate) fn real_paths(&self) -> impl Iterator<Item = ObjectId> {
        let name = self.object.key.rsplit_once('/').map_or("", |(_, name)| name);
        let path = move |dir: &String| format!("{}/{name}", dir.trim_end_matches('/'));
        self.made_in.iter().map(move |dir| ObjectId::new(&self.object.kind, path(dir)))
    }
}

/// A part of a managed object: a field that items of the project have set while others have further fields of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedPart {
    /// The first change of it, with the value before.
    pub first: ChangedPart,
    /// Later ones that set another value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<ChangedPart>,
    /// The role whose item set it last.
    pub role: String,
    /// The address of that item.
    pub item: String,
    /// The run that first set it.
    pub run: String,
    /// The number of the first change in that run.
    pub seq: u32,
    /// The run that gave it back; `None` while it is the project's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_by: Option<String>,
}
