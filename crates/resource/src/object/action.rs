//! Actions.

use super::typed::typed;
use super::{Change, ErasedObject, Nothing, Object};
use crate::State;

/// An object that is an action: its state says only whether it was done, and its revert is another action, if it has one. Its item makes other objects.
pub trait ActionPart: Object {
    /// When it has to be done, as a text: of two actions with one guard the later has taken the place of the earlier, and what that made is its result
    /// too. `None` for a key that is none.
    fn guard(key: &str) -> Option<String>;

    /// The path whose presence says that it is done.
    fn creates(_key: &str) -> Option<String> {
        None
    }

    /// The user as whom it is done and undone.
    fn user(_key: &str) -> Option<String> {
        None
    }

    /// Whether it is still to be done in this state.
    fn is_pending(state: &Self::State) -> bool;

    /// Whether this change is its other action, which undoes it.
    fn undoes(from: &Self::State, to: &Self::State) -> bool;
}

/// [`ActionPart`] without its types.
pub trait DynActionPart: Send + Sync {
    /// Whether it is one.
    fn is_action(&self) -> bool {
        false
    }
    /// [`ActionPart::guard`].
    fn guard(&self, _key: &str) -> Option<String> {
        None
    }
    /// [`ActionPart::creates`].
    fn creates(&self, _key: &str) -> Option<String> {
        None
    }
    /// [`ActionPart::user`].
    fn user(&self, _key: &str) -> Option<String> {
        None
    }
    /// [`ActionPart::is_pending`]; not for a bad state.
    fn is_pending(&self, _state: &State) -> bool {
        false
    }
    /// [`ActionPart::undoes`]; not for a bad state.
    fn undoes(&self, _change: &Change) -> bool {
        false
    }
}

impl DynActionPart for Nothing {}

impl<O: ActionPart> DynActionPart for ErasedObject<O> {
    fn is_action(&self) -> bool {
        true
    }
    fn guard(&self, key: &str) -> Option<String> {
        O::guard(key)
    }
    fn creates(&self, key: &str) -> Option<String> {
        O::creates(key)
    }
    fn user(&self, key: &str) -> Option<String> {
        O::user(key)
    }
    fn is_pending(&self, state: &State) -> bool {
        O::State::try_from(state.clone()).is_ok_and(|state| O::is_pending(&state))
    }
    fn undoes(&self, change: &Change) -> bool {
        typed::<O>(change).is_ok_and(|(from, to)| O::undoes(&from, &to))
    }
}
