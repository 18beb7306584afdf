//! Accounts whose number a run changes: a file keeps the number of its owner, so what is recorded of it goes by another word from then on.

use crate::{OwnedObject, SavedChange};
use converge_objects::{account_number, follows, is_followed};
use converge_resource::{Change, ObjectId, State};

/// Writes the recorded states of files as the host shows them once this change of an account is made. `left` is the state of the account that the records
/// know: somebody else may have changed it since.
pub(crate) fn follow<'e>(
    things: impl Iterator<Item = &'e mut OwnedObject>,
    change: &SavedChange,
    left: Option<&State>,
) {
    let step = |from: &State, to: &State| renumbers(&change.object, from, to);
    let since = left.and_then(|left| step(left, &change.before));
    let steps: Vec<Change> = since.into_iter().chain(step(&change.before, &change.after)).collect();
    if steps.is_empty() {
        return;
    }
    for OwnedObject { object, before, left, moved, open, between, .. } in things {
        let pairs = between.iter_mut().flat_map(|(left, found)| [left, found]);
        let moved = moved.iter_mut().map(|moved| &mut moved.before);
        for state in [before, left].into_iter().chain(moved).chain(open).chain(pairs) {
            for step in &steps {
                if let Some(after) = follows(object, state, step) {
                    *state = after;
                }
            }
        }
    }
}

/// The change of an account, where files show another owner after it.
fn renumbers(account: &ObjectId, from: &State, to: &State) -> Option<Change> {
    let change = Change { object: account.clone(), from: from.clone(), to: to.clone() };
    account_number(account, from).or(account_number(account, to))?;
    is_followed(&change).then_some(change)
}
