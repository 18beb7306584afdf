//! The project that records name.

use serde::{Deserialize, Serialize};

/// Whose things are: a playbook used with an inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectName {
    /// The playbook, by a name that stays the same from run to run.
    pub playbook: String,
    /// The inventories, as for the playbook.
    pub inventory: String,
}

/// For people, as it is named in records.
impl std::fmt::Display for ProjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "playbook {}, inventory {}", self.playbook, self.inventory)
    }
}

impl ProjectName {
    /// `converge_project` of the inventory, where it says one.
    pub fn project(&self) -> Option<&str> {
        let (name, _) = self.playbook.split_once(':')?;
        self.inventory.strip_prefix(name)?.starts_with(':').then_some(name)
    }

    /// Whether both are names of one project: the one may be of an older record ([`ProjectScope::is`]).
    pub(crate) fn is_same_project(&self, other: &Self) -> bool {
        self == other || ProjectScope(self.clone()).is(other) || ProjectScope(other.clone()).is(self)
    }
}

/// The project that a rollback or a prune works for, as it is named now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectScope(pub ProjectName);

impl ProjectScope {
    /// Whether records of this name are of the project. Older ones hold absolute paths of some controller: these are of it if they are its
    /// paths below one folder.
    pub fn is(&self, recorded: &ProjectName) -> bool {
        let Self(ProjectName { playbook, inventory }) = self;
        if *recorded == self.0 {
            return true;
        }
        let below = |path: &str, name: &str| -> Option<String> {
            let folder = path.strip_suffix(name)?.strip_suffix('/')?;
            (path.starts_with('/') && !name.starts_with('/')).then(|| folder.to_owned())
        };
        let Some(folder) = below(&recorded.playbook, playbook) else { return false };
        let (old, now) = (recorded.inventory.split(' '), inventory.split(' '));
        let same = |(path, name): (&str, &str)| path == name || below(path, name).as_deref() == Some(&folder);
        old.clone().count() == now.clone().count() && old.zip(now).all(same)
    }

    /// The names that it had before it was given this one.
    pub fn without(&self, name: &str) -> ProjectName {
        let plain = |text: &str| {
            text.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')).unwrap_or(text).to_owned()
        };
        ProjectName { playbook: plain(&self.0.playbook), inventory: plain(&self.0.inventory) }
    }

    /// The same; a record that names no project is of every one.
    pub fn has(&self, recorded: &ProjectName) -> bool {
        *recorded == ProjectName::default() || self.is(recorded)
    }
}
