//! Parameters that nobody shows or records, as a login to a repository: a secret in one of them does not hide the rest of the resource.

use converge_syntax::{Diagnostics, Node, Value};
use converge_template::{Evaluation, Scope};

use crate::declare::{DeclaredItem, RoleUse};

impl RoleUse {
    /// The parameters of an item without those that nobody shows or records, and the names of these; `None` where it has none of them.
    pub(crate) fn recorded_part(&self, item: &DeclaredItem) -> Option<(Node, Vec<String>)> {
        let unrecorded: Vec<&str> = self.project.catalog.get(&item.kind)?.unrecorded().collect();
        let mut open = item.item.params.clone();
        let Value::Map(entries) = &mut open.value else { return None };
        let is = |key: &Node| key.as_str().is_some_and(|key| unrecorded.contains(&key));
        let names: Vec<String> = entries
            .iter()
            .filter(|(key, _)| is(key))
            .filter_map(|(key, _)| key.as_str().map(str::to_owned))
            .collect();
        entries.retain(|(key, _)| !is(key));
        (!names.is_empty()).then_some((open, names))
    }

    /// Leaves a resource open whose only secrets stand in parameters that nobody shows or records; the names of these, secret or not.
    pub(crate) fn keep_open(
        &self,
        item: &DeclaredItem,
        scope: &Scope,
        evaluated: &mut Result<Evaluation<Node>, Diagnostics>,
    ) -> Vec<String> {
        let Ok(Evaluation::Known(found)) = evaluated else { return Vec::new() };
        let Some((open, names)) = self.recorded_part(item) else { return Vec::new() };
        if let Ok(Evaluation::Known(open)) = self.project.shared.engine.eval_value(&open, scope) {
            found.sensitive = open.sensitive;
        }
        names
    }
}
