//! Parameters that nobody shows or records, as a login to a repository: a secret in one of them does not hide the rest of the resource.

use converge_syntax::{Diagnostics, Node, Value};
use converge_template::{Evaluation, Scope};

use crate::declare::{DeclaredItem, RoleUse};

impl RoleUse {
    /// The parameters of an item without those that nobody shows or records, and the names of these; `None` where it has none of them.
    pub(crate) fn recorded_part(&self, item: &DeclaredItem) -> Option<(Node, Vec<String>)> {
        let spec = self.project.catalog.get(&item.kind)?;
        let Value::Map(entries) = &item.item.params.value else { return None };
        let is_recorded = |key: &Node| key.as_str().is_none_or(|key| !spec.is_unrecorded(key));
        let names = entries.iter().filter(|(key, _)| !is_recorded(key));
        let names: Vec<String> = names.filter_map(|(key, _)| key.as_str().map(str::to_owned)).collect();
        if names.is_empty() {
            return None;
        }
        let recorded = entries.iter().filter(|(key, _)| is_recorded(key)).cloned().collect();
        Some((Node { value: Value::Map(recorded), ..item.item.params.clone() }, names))
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
        if found.sensitive
            && let Ok(Evaluation::Known(open)) = self.project.shared.engine.eval_value(&open, scope)
        {
            found.sensitive = open.sensitive;
        }
        names
    }
}
