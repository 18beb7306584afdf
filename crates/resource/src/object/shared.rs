//! Objects that others change too.

use super::{Contents, ErasedObject, Nothing, Object};
use crate::{Content, State};

/// The recorded history of an object that a rollback reverts.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a, S> {
    /// The state before the first of them.
    pub before: &'a S,
    /// The state that the last one left.
    pub left: &'a S,
    /// The state that each run but the last left, with the state that the next run found: others may have changed it in
    /// between.
    pub between: &'a [(S, S)],
}

/// An object that others change too, or that changes by itself: a rollback compares and reverts it field by field.
pub trait SharedObject: Object {
    /// Whether a rollback treats these states as equal: attributes that change by themselves are ignored.
    fn same(a: &Self::State, b: &Self::State) -> bool {
        a == b
    }

    /// Whether an object in the state `now` still shows its recorded changes. Objects that others change too, field by field,
    /// compare their contents.
    fn shows(now: &Self::State, past: &Past<'_, Self::State>, _content: &Contents<'_>) -> bool {
        Self::same(now, past.left)
    }

    /// The state and the content that an object gets when its recorded changes are reverted. `now` is its present state,
    /// which still shows those changes. An object that others change too keeps their fields.
    fn back(
        _now: &Self::State,
        past: &Past<'_, Self::State>,
        _content: &Contents<'_>,
    ) -> (Self::State, Option<Content>) {
        (past.before.clone(), None)
    }

    /// Whether the recorded changes can be reverted though others have made these changes since, each from one state to another: they touch nothing
    /// that goes back. An object that goes back as a whole is touched by every change.
    fn apart(
        _past: &Past<'_, Self::State>,
        _since: &[(Self::State, Self::State)],
        _content: &Contents<'_>,
    ) -> bool {
        false
    }
}

/// [`SharedObject`] without its types. By default an object is as its state says, and goes back to the one before.
pub trait DynSharedObject: Send + Sync {
    /// [`SharedObject::same`]; bad states are compared as they are.
    fn same(&self, a: &State, b: &State) -> bool {
        a == b
    }
    /// [`SharedObject::shows`]; bad states are compared as they are.
    fn shows(&self, now: &State, past: &Past<'_, State>, _content: &Contents<'_>) -> bool {
        now == past.left
    }
    /// [`SharedObject::back`]; with a bad state, the one before.
    fn back(
        &self,
        _now: &State,
        past: &Past<'_, State>,
        _content: &Contents<'_>,
    ) -> (State, Option<Content>) {
        (past.before.clone(), None)
    }
    /// [`SharedObject::apart`]; false with a bad state.
    fn apart(&self, _past: &Past<'_, State>, _since: &[(State, State)], _content: &Contents<'_>) -> bool {
        false
    }
}

impl DynSharedObject for Nothing {}

type TypedPast<S> = (S, S, S, Vec<(S, S)>);

/// The state now, the one before, the one that was left, and those between.
fn typed_past<O: Object>(
    now: &State,
    past: &Past<'_, State>,
) -> Result<TypedPast<O::State>, crate::BadState> {
    let state = |state: &State| O::State::try_from(state.clone());
    let between = past.between.iter().map(|(left, found)| Ok((state(left)?, state(found)?)));
    Ok((state(now)?, state(past.before)?, state(past.left)?, between.collect::<Result<_, _>>()?))
}

impl<O: SharedObject> DynSharedObject for ErasedObject<O> {
    fn same(&self, a: &State, b: &State) -> bool {
        match (O::State::try_from(a.clone()), O::State::try_from(b.clone())) {
            (Ok(x), Ok(y)) => O::same(&x, &y),
            _ => Nothing.same(a, b),
        }
    }
    fn shows(&self, now: &State, past: &Past<'_, State>, content: &Contents<'_>) -> bool {
        match typed_past::<O>(now, past) {
            Ok((now, before, left, between)) => {
                let past = Past { before: &before, left: &left, between: &between };
                O::shows(&now, &past, content)
            }
            Err(_) => Nothing.shows(now, past, content),
        }
    }
    fn back(&self, now: &State, past: &Past<'_, State>, content: &Contents<'_>) -> (State, Option<Content>) {
        match typed_past::<O>(now, past) {
            Ok((typed_now, before, left, between)) => {
                let past = Past { before: &before, left: &left, between: &between };
                let (state, content) = O::back(&typed_now, &past, content);
                (state.into(), content)
            }
            Err(_) => Nothing.back(now, past, content),
        }
    }
    fn apart(&self, past: &Past<'_, State>, since: &[(State, State)], content: &Contents<'_>) -> bool {
        let state = |state: &State| O::State::try_from(state.clone());
        let pairs = since.iter().map(|(before, after)| Ok((state(before)?, state(after)?)));
        let since: Result<Vec<_>, crate::BadState> = pairs.collect();
        match (typed_past::<O>(past.left, past), since) {
            (Ok((_, before, left, between)), Ok(since)) => {
                let past = Past { before: &before, left: &left, between: &between };
                O::apart(&past, &since, content)
            }
            _ => false,
        }
    }
}
