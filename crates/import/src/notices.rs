//! Words by which tasks notify handlers.

use crate::task::Task;
use std::collections::BTreeMap;

/// Whether a handler hears this word.
pub(crate) fn is_called(handler: &Task, word: &str) -> bool {
    handler.name.as_deref() == Some(word)
        || handler.name.as_deref().is_some_and(|name| word.ends_with(&format!(" : {name}")))
        || handler.words("listen").iter().any(|own| own == word)
}

/// The words that tasks notify, and whether a task does that is not foreign.
pub(crate) fn notices(tasks: &[Task]) -> BTreeMap<String, bool> {
    let mut found: BTreeMap<String, bool> = BTreeMap::new();
    for task in tasks {
        task.each(&mut |task| {
            for word in notified(task) {
                *found.entry(word).or_default() |= task.foreign.is_none();
            }
        });
    }
    found
}

/// The words that a task notifies.
pub(crate) fn notified(task: &Task) -> Vec<String> {
    task.keywords
        .iter()
        .filter(|(key, value)| key == "notify" && !value.is_null())
        .flat_map(|(_, value)| crate::includes::listed(value))
        .filter_map(|value| value.scalar_text())
        .collect()
}
