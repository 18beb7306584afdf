//! Lines of a run about objects that it does not change.

use converge_resource::{ObjectId, State};
use serde::{Deserialize, Serialize};

/// An object that a run took into management without a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adoption {
    /// The object.
    pub object: ObjectId,
    /// Its state at that time: its original state.
    pub state: State,
    /// The address of the item that manages it.
    pub item: String,
    /// True when the item was declared sensitive.
    pub sensitive: bool,
    /// The real directory of its path, where a link leads there. The host records it.
    pub real_dir: Option<String>,
}

/// Another name for a role, or for a resource with all its elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renaming {
    /// The name before: `ROLE` or `ROLE/ID`.
    pub from: String,
    /// The name since, of the same form.
    pub to: String,
}

impl Renaming {
    /// The address of an item since; `None` where it goes by the same one.
    pub fn of(&self, item: &str) -> Option<String> {
        let rest = item.strip_prefix(&self.from)?;
        let goes_on = if self.is_of_role() { '/' } else { '[' };
        (rest.is_empty() || rest.starts_with(goes_on)).then(|| format!("{}{rest}", self.to))
    }

    pub(crate) fn is_of_role(&self) -> bool {
        !self.from.contains('/')
    }
}
