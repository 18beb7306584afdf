//! The owners of an object's fields before the changes that are taken back, from the records of these. Pure.

use super::{ChangeDoc, RunDoc};
use crate::ownership::{Owners, is_own, under};
use converge_resource::{FIELD_MANAGER, ObjectId, State};
use serde_json::Value;

/// The owners before the changes of an object by these runs, and the state that the first of them found. `None` where they did not change it.
pub(crate) fn owners_before(
    docs: &[RunDoc],
    object: &ObjectId,
    counts: &dyn Fn(&RunDoc) -> bool,
    manager: &str,
) -> Option<(State, Owners)> {
    let mut docs: Vec<&RunDoc> = docs.iter().filter(|doc| counts(doc)).collect();
    docs.sort_by(|a, b| (a.seq, &a.id).cmp(&(b.seq, &b.id)));
    let of_it = |doc: &&'_ RunDoc| -> Vec<(String, ChangeDoc)> {
        let name = doc.manager.clone().unwrap_or_else(|| FIELD_MANAGER.to_owned());
        let changes =
            doc.changes.iter().filter(|c| c.object == *object && c.outcome != Some(super::Ended::Moved));
        changes.map(|change| (name.clone(), change.clone())).collect()
    };
    let mut changes = docs.iter().flat_map(of_it).peekable();
    let before = changes.peek()?.1.before.clone();
    let mut owners = Owners::default();
    let mut is_first = true;
    for (name, change) in changes {
        let recorded = change.owners.map(|entries| {
            // The project may have got its name since.
            let renamed = |e: Value| if is_own(&e, &name) { under(e, manager) } else { e };
            entries.into_iter().map(renamed).partition::<Vec<Value>, _>(|e| is_own(e, manager))
        });
        if let Some((own, others)) = recorded {
            if is_first {
                owners.own = Some(own);
            }
            owners.then(&others);
        }
        for (path, by) in change.managers {
            owners.by_path.entry(path).or_insert(by);
        }
        owners.applied = change.applied.or(owners.applied);
        is_first = false;
    }
    Some((before, owners))
}
