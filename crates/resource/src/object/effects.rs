//! Effects of changes on facts, and on objects that no state names.

use super::typed::typed;
use super::{Change, ErasedObject, Nothing, Object};

/// Objects that a change may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BroughtObjects {
    /// The activity, for people: `installing`.
    pub verb: &'static str,
    /// The kinds of these objects.
    pub kinds: &'static [&'static str],
}

/// The first name of a fact that a change alters, and its new value where the change determines it.
pub type AlteredFact = (&'static str, Option<serde_json::Value>);

/// An object whose changes alter facts of the host, or may bring objects without anything telling which.
pub trait Effects: Object {
    /// Objects that this change may bring without anything telling which: the content of a package, the parameters of a
    /// kernel module.
    fn may_bring(_from: &Self::State, _to: &Self::State) -> Option<BroughtObjects> {
        None
    }

    /// The facts of the host that this change alters, by their first names, with the new value if the change determines it.
    /// Facts that foreign code may alter besides are read again after it has run.
    fn alters(_key: &str, _from: &Self::State, _to: &Self::State) -> Vec<AlteredFact> {
        Vec::new()
    }

    /// The facts that a change of this object may alter while the change is not known yet.
    fn may_alter(_key: &str) -> Vec<&'static str> {
        Vec::new()
    }
}

/// [`Effects`] without its types.
pub trait DynEffects: Send + Sync {
    /// [`Effects::may_bring`]; a bad state may bring nothing.
    fn may_bring(&self, _change: &Change) -> Option<BroughtObjects> {
        None
    }
    /// [`Effects::alters`]; a bad state alters nothing: it cannot be applied.
    fn alters(&self, _change: &Change) -> Vec<AlteredFact> {
        Vec::new()
    }
    /// [`Effects::may_alter`].
    fn may_alter(&self, _key: &str) -> Vec<&'static str> {
        Vec::new()
    }
}

impl DynEffects for Nothing {}

impl<O: Effects> DynEffects for ErasedObject<O> {
    fn may_bring(&self, change: &Change) -> Option<BroughtObjects> {
        typed::<O>(change).ok().and_then(|(from, to)| O::may_bring(&from, &to))
    }
    fn alters(&self, change: &Change) -> Vec<AlteredFact> {
        typed::<O>(change).map_or_else(|_| Vec::new(), |(from, to)| O::alters(&change.object.key, &from, &to))
    }
    fn may_alter(&self, key: &str) -> Vec<&'static str> {
        O::may_alter(key)
    }
}
