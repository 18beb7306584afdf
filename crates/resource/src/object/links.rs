//! Objects that make, name or hide others.

use super::typed::typed;
use super::{Change, ErasedObject, Nothing, Object};
use crate::{Content, ObjectId, State};

/// An object whose state makes, names or hides other objects: a path, a unit, a mount.
pub trait Links: Object {
    /// Other objects that this state creates, or removes if it is absent: a unit with its file. Created objects are absent
    /// before; removed ones are [bare](Links::bare). `content` is that of the state, if it is known.
    fn brings(_key: &str, _state: &Self::State, _content: Option<&Content>) -> Vec<(ObjectId, State)> {
        Vec::new()
    }

    /// The object with which this one is there and goes, though no state of that one names it: the template of an instance of a unit. A template is its
    /// own.
    fn template(_key: &str) -> Option<ObjectId> {
        None
    }

    /// The names that objects get with this state, each with the object that the name then means: the aliases of a unit with
    /// its file. For a kind whose key is a path, everything below it is meant. The first entry of a name counts.
    fn names(_key: &str, _state: &Self::State, _content: Option<&Content>) -> Vec<(ObjectId, ObjectId)> {
        Vec::new()
    }

    /// The kind of the objects to which it may give names, whatever its state.
    fn may_name(_key: &str) -> Option<&'static str> {
        None
    }

    /// The directory below which every path means another object after this change: a mount point.
    fn covers(_key: &str, _from: &Self::State, _to: &Self::State) -> Option<String> {
        None
    }

    /// True for a state that an object has only because of another one: a unit that has a file and nothing more. `undo.sh`
    /// asks `cv_bare_KIND LINE` for it.
    fn bare(_state: &Self::State) -> bool {
        false
    }

    /// Whether a change puts another thing into the place of one that may have other names (hard links), which keep what was there.
    fn severs(_before: &Self::State, _after: &Self::State) -> bool {
        false
    }
}

/// [`Links`] without its types.
pub trait DynLinks: Send + Sync {
    /// [`Links::brings`]; a bad state brings nothing.
    fn brings(&self, _key: &str, _state: &State, _content: Option<&Content>) -> Vec<(ObjectId, State)> {
        Vec::new()
    }
    /// [`Links::template`].
    fn template(&self, _key: &str) -> Option<ObjectId> {
        None
    }
    /// [`Links::names`]; none for a bad state.
    fn names(&self, _key: &str, _state: &State, _content: Option<&Content>) -> Vec<(ObjectId, ObjectId)> {
        Vec::new()
    }
    /// [`Links::may_name`].
    fn may_name(&self, _key: &str) -> Option<&'static str> {
        None
    }
    /// [`Links::covers`]; none for a bad state.
    fn covers(&self, _change: &Change) -> Option<String> {
        None
    }
    /// [`Links::bare`]; a bad state is not.
    fn bare(&self, _state: &State) -> bool {
        false
    }
    /// [`Links::severs`]; not for a bad state.
    fn severs(&self, _change: &Change) -> bool {
        false
    }
}

impl DynLinks for Nothing {}

impl<O: Links> DynLinks for ErasedObject<O> {
    fn brings(&self, key: &str, state: &State, content: Option<&Content>) -> Vec<(ObjectId, State)> {
        O::State::try_from(state.clone()).map_or_else(|_| Vec::new(), |s| O::brings(key, &s, content))
    }
    fn template(&self, key: &str) -> Option<ObjectId> {
        O::template(key)
    }
    fn names(&self, key: &str, state: &State, content: Option<&Content>) -> Vec<(ObjectId, ObjectId)> {
        O::State::try_from(state.clone()).map_or_else(|_| Vec::new(), |s| O::names(key, &s, content))
    }
    fn may_name(&self, key: &str) -> Option<&'static str> {
        O::may_name(key)
    }
    fn covers(&self, change: &Change) -> Option<String> {
        typed::<O>(change).ok().and_then(|(from, to)| O::covers(&change.object.key, &from, &to))
    }
    fn bare(&self, state: &State) -> bool {
        O::State::try_from(state.clone()).is_ok_and(|s| O::bare(&s))
    }
    fn severs(&self, change: &Change) -> bool {
        typed::<O>(change).is_ok_and(|(from, to)| O::severs(&from, &to))
    }
}
