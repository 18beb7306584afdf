//! Objects that belong to others, or follow them.

use super::typed::typed;
use super::{Change, ErasedObject, Nothing, Object};
use crate::{ObjectId, State};

/// An object that belongs to accounts, or whose state shows a change of another object.
pub trait Relations: Object {
    /// The accounts that an object in this state belongs to: its owner and group, the groups of a user.
    fn accounts(_key: &str, _state: &Self::State) -> Vec<ObjectId> {
        Vec::new()
    }

    /// The new state of this object, which the run does not touch, after a change of another one: a file whose group gets
    /// another number shows the old number, and one with the number of a group that comes shows its name. `None` when it stays as it is.
    fn follows(_key: &str, _state: &Self::State, _other: &Change) -> Option<Self::State> {
        None
    }

    /// True for changes that affect other objects, by [`Relations::follows`].
    fn is_followed(_from: &Self::State, _to: &Self::State) -> bool {
        false
    }
}

/// [`Relations`] without its types.
pub trait DynRelations: Send + Sync {
    /// [`Relations::accounts`]; none for a bad state.
    fn accounts(&self, _key: &str, _state: &State) -> Vec<ObjectId> {
        Vec::new()
    }
    /// [`Relations::follows`]; none for a bad state.
    fn follows(&self, _key: &str, _state: &State, _other: &Change) -> Option<State> {
        None
    }
    /// [`Relations::is_followed`]; not for a bad state.
    fn is_followed(&self, _change: &Change) -> bool {
        false
    }
}

impl DynRelations for Nothing {}

impl<O: Relations> DynRelations for ErasedObject<O> {
    fn accounts(&self, key: &str, state: &State) -> Vec<ObjectId> {
        O::State::try_from(state.clone()).map(|state| O::accounts(key, &state)).unwrap_or_default()
    }
    fn follows(&self, key: &str, state: &State, other: &Change) -> Option<State> {
        O::State::try_from(state.clone()).ok().and_then(|s| O::follows(key, &s, other)).map(Into::into)
    }
    fn is_followed(&self, change: &Change) -> bool {
        typed::<O>(change).is_ok_and(|(from, to)| O::is_followed(&from, &to))
    }
}
