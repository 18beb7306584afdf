//! Conditions of an object.

use super::{ErasedObject, Nothing, Object};

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
}

impl DynNeeds for Nothing {}

impl<O: Needs> DynNeeds for ErasedObject<O> {
    fn patience(&self, key: &str) -> Option<u64> {
        O::patience(key)
    }
    fn served_by(&self, key: &str) -> &'static [&'static str] {
        O::served_by(key)
    }
}
