//! Roles and resources that go by another name since a run (`converge state move`): what the project's runs recorded before it reads as if they had it then.

use crate::{OwnedObject, ProjectScope, Renaming, RunRecord, SavedChange};
use converge_resource::role_of;
use std::collections::BTreeSet;

impl Renaming {
    fn put(&self, item: &mut String) {
        if let Some(now) = self.of(item) {
            *item = now;
        }
    }

    /// A role is renamed wherever it stands; a resource takes along the object that it changed last.
    pub(crate) fn rename(&self, thing: &mut OwnedObject) {
        let is_its = self.of(&thing.item).is_some();
        for (at, role) in thing.roles.iter_mut().enumerate() {
            if role == role_of(&self.from) && (self.is_of_role() || (is_its && at == 0)) {
                role_of(&self.to).clone_into(role);
            }
        }
        let mut known = BTreeSet::new();
        thing.roles.retain(|role| known.insert(role.clone()));
        self.put(&mut thing.item);
        if let Some(moved) = &mut thing.moved {
            self.put(&mut moved.by);
        }
    }

    fn rename_change(&self, change: &mut SavedChange) {
        let is_its = self.of(&change.item).is_some();
        if let Some(role) = change.owner.as_mut().filter(|role| is_its && **role == role_of(&self.from)) {
            role_of(&self.to).clone_into(role);
        }
        self.put(&mut change.item);
    }
}

/// Gives what runs recorded the names of later runs of their project. The runs are in order.
pub(crate) fn rename_earlier(runs: &mut [RunRecord]) {
    for at in 0..runs.len() {
        let (earlier, rest) = runs.split_at_mut(at);
        let Some(run) = rest.first().filter(|run| !run.renamed.is_empty()) else { continue };
        let project = ProjectScope(run.scope.clone());
        for of in earlier.iter_mut().filter(|of| project.has(&of.scope)) {
            for renaming in &run.renamed {
                of.planned.iter_mut().for_each(|item| renaming.put(item));
                of.changes.iter_mut().for_each(|change| renaming.rename_change(change));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_takes_its_resources_along_and_a_resource_its_elements() {
        let of = |from: &str, to: &str, item: &str| {
            Renaming { from: from.to_owned(), to: to.to_owned() }.of(item).unwrap_or_default()
        };
        assert_eq!(of("web", "nginx", "web/site[a]"), "nginx/site[a]");
        assert_eq!(of("web", "nginx", "web2/site"), "");
        assert_eq!(of("web/site", "nginx/page", "web/site"), "nginx/page");
        assert_eq!(of("web/site", "nginx/page", "web/site[a]"), "nginx/page[a]");
        assert_eq!(of("web/site", "nginx/page", "web/site2"), "");
    }
}
