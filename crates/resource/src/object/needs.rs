//! Conditions of an object.

use super::{ErasedObject, Nothing, Object};
use crate::State;

/// An object that something must serve, or whose state comes by itself.
pub trait Needs: Object {
    /// Seconds within which the state may come by itself ([`Traits::passes`](super::Traits::passes)); a condition that is open until then is no
    /// failure.
    fn patience(_key: &str) -> Option<u64> {
        None
    }

    /// The units of which one must run while the object is observed or changed: a rollback that stops such a unit does so after it has reverted the object,
    /// and one that starts it does so before.
    fn served_by(_key: &str) -> &'static [&'static str] {
        &[]
    }

    /// The programs (a name) and the files (an absolute path) that this state needs: a package that has one of them stays while the object stays in
    /// this state.
    fn stands_on(_key: &str, _state: &Self::State) -> Vec<String> {
        Vec::new()
    }
}

/// [`Needs`] without its types.
pub trait DynNeeds: Send + Sync {
    /// [`Needs::patience`].
    fn patience(&self, _key: &str) -> Option<u64> {
        None
    }
    /// [`Needs::served_by`].
    fn served_by(&self, _key: &str) -> &'static [&'static str] {
        &[]
    }
    /// [`Needs::stands_on`]; nothing for a bad state.
    fn stands_on(&self, _key: &str, _state: &State) -> Vec<String> {
        Vec::new()
    }
}

impl DynNeeds for Nothing {}

impl<O: Needs> DynNeeds for ErasedObject<O> {
    fn patience(&self, key: &str) -> Option<u64> {
        O::patience(key)
    }
    fn served_by(&self, key: &str) -> &'static [&'static str] {
        O::served_by(key)
    }
    fn stands_on(&self, key: &str, state: &State) -> Vec<String> {
        O::State::try_from(state.clone()).map(|state| O::stands_on(key, &state)).unwrap_or_default()
    }
}
