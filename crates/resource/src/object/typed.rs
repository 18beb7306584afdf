//! The seam between objects with their types and without.

use super::{Change, Object};
use std::marker::PhantomData;

/// An object without one of the traits that it may have.
pub struct Nothing;

/// Makes a [`super::DynObject`] of an [`Object`].
pub struct ErasedObject<O>(PhantomData<fn() -> O>);

impl<O> ErasedObject<O> {
    /// The object without its types.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<O> Default for ErasedObject<O> {
    fn default() -> Self {
        Self::new()
    }
}

/// Both states of the change.
pub(super) fn typed<O: Object>(change: &Change) -> Result<(O::State, O::State), crate::BadState> {
    Ok((O::State::try_from(change.from.clone())?, O::State::try_from(change.to.clone())?))
}
