//! Objects with secrets in them: an item that changes one is sensitive, whatever it reads itself.

use super::Pass;
use crate::Item;
use converge_resource::ObjectId;

impl Pass<'_> {
    /// Whether a record, or an earlier item of this plan, has left a secret in one of these objects.
    pub(crate) fn holds_secret(&self, objects: &[ObjectId]) -> bool {
        objects.iter().any(|object| self.known.is_secret(object) || self.secrets.contains(object))
    }

    /// Hides a planned item that changes an object with a secret in it. What a sensitive item changes holds one from then on.
    pub(super) fn keep_secrets(&mut self, item: &mut Item) {
        let changed = item.changes().iter().map(|planned| &planned.change.object);
        let objects: Vec<ObjectId> = item.claims.iter().chain(changed).cloned().collect();
        if !item.sensitive && self.holds_secret(&objects) {
            item.sensitive = true;
            item.params = None;
        }
        if item.sensitive {
            self.secrets.extend(objects);
        }
    }
}
