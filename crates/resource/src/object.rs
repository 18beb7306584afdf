//! The contract of an object.

use crate::{Content, Digest, ObjectId, Observed, State, Step};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;

/// One object on its way from one state to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Which object.
    pub object: ObjectId,
    /// The state that the change is planned against.
    pub from: State,
    /// The state after it.
    pub to: State,
}

/// Whether a change can be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reversibility {
    /// A rollback restores the state before.
    Reversible,
    /// It cannot be undone: why.
    Irreversible(String),
}

/// One attribute of an object, before and after, as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeChange {
    /// `mode`, `owner`, `version` …
    pub name: String,
    /// The value before; `None` when there was none.
    pub before: Option<String>,
    /// The value after; `None` when there is none.
    pub after: Option<String>,
}

/// A host's answer that is not of the form that the probe asks for.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct AnswerError(pub String);

/// Something a machine has. One file each, in the `objects` crate.
///
/// [`Object::SHELL`] defines these POSIX shell functions (dash, bash, busybox ash), where `KIND` is [`Object::KIND`]:
///
/// * `cv_see_KIND KEY…` prints the answer that [`Object::parse`] reads: one command for all keys, nothing changed.
/// * `cv_line_KIND KEY` prints the canonical line of one object's present state, the same as [`State::line`] of
///   what `parse` makes of it. Status 0 unless the state cannot be read.
/// * `cv_save_KIND KEY LINE` keeps what the line only names (content goes to `$CV_ROOT/blobs/SHA256`); a no-op for most.
/// * `cv_restore_KIND KEY LINE` brings the object to the state of the line, from any other state, with what was saved.
///   Used by `undo.sh`.
pub trait Object: Send + Sync + 'static {
    /// The `kind` of its [`ObjectId`]: a lower-case word, fit for a shell function's name.
    const KIND: &'static str;
    /// Its shell functions; see above. Plain definitions, no side effects.
    const SHELL: &'static str;
    /// Its state, typed. `absent` has a value too.
    type State: Clone + Debug + PartialEq + TryFrom<State, Error = crate::BadState> + Into<State>;

    /// Reads the answer of `cv_see_KIND` to these keys. Every key has an entry, or an error that says why not.
    fn parse(keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>>;

    /// The steps for all changes of this kind in one item, in order; several packages make one transaction.
    /// They must be right from any accepted base, not only from `from`.
    fn steps(changes: &[(&str, Self::State, Self::State)]) -> Vec<Step>;

    /// Whether the change can be undone.
    fn reversibility(key: &str, from: &Self::State, to: &Self::State) -> Reversibility;

    /// True when the steps run code that is not ours (maintainer scripts, a unit's own program, a command),
    /// which may change other objects.
    fn opaque(from: &Self::State, to: &Self::State) -> bool;

    /// The attributes that differ, for people. Content is left out: see [`Object::content`].
    fn attributes(from: &Self::State, to: &Self::State) -> Vec<AttributeChange>;

    /// The digest of the object's content, if it has one.
    fn content(state: &Self::State) -> Option<Digest>;

    /// Other objects that come into being with this content, where they are not there yet: a unit with its file.
    fn brings(_key: &str, _content: &Content) -> Vec<(ObjectId, State)> {
        Vec::new()
    }
}

/// [`Object`] without its types, as registries and executors use it.
pub trait DynObject: Send + Sync {
    /// [`Object::KIND`].
    fn kind(&self) -> &'static str;
    /// [`Object::SHELL`].
    fn shell(&self) -> &'static str;
    /// [`Object::parse`].
    fn parse(&self, keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>>;
    /// [`Object::steps`].
    ///
    /// # Errors
    /// A state that is not of this object.
    fn steps(&self, changes: &[&Change]) -> Result<Vec<Step>, crate::BadState>;
    /// [`Object::reversibility`]; a bad state is irreversible.
    fn reversibility(&self, change: &Change) -> Reversibility;
    /// [`Object::opaque`]; a bad state is opaque.
    fn opaque(&self, change: &Change) -> bool;
    /// [`Object::attributes`]; a bad state shows its lines.
    fn attributes(&self, change: &Change) -> Vec<AttributeChange>;
    /// [`Object::content`].
    fn content(&self, state: &State) -> Option<Digest>;
    /// [`Object::brings`].
    fn brings(&self, key: &str, content: &Content) -> Vec<(ObjectId, State)>;
}

/// Makes a [`DynObject`] of an [`Object`].
pub struct Erased<O>(PhantomData<fn() -> O>);

impl<O> Erased<O> {
    /// The object without its types.
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<O> Default for Erased<O> {
    fn default() -> Self {
        Self::new()
    }
}

fn typed<O: Object>(change: &Change) -> Result<(O::State, O::State), crate::BadState> {
    Ok((O::State::try_from(change.from.clone())?, O::State::try_from(change.to.clone())?))
}

impl<O: Object> DynObject for Erased<O> {
    fn kind(&self) -> &'static str {
        O::KIND
    }
    fn shell(&self) -> &'static str {
        O::SHELL
    }
    fn parse(&self, keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>> {
        O::parse(keys, answer)
    }
    fn steps(&self, changes: &[&Change]) -> Result<Vec<Step>, crate::BadState> {
        let typed = changes
            .iter()
            .map(|c| typed::<O>(c).map(|(from, to)| (c.object.key.as_str(), from, to)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(O::steps(&typed))
    }
    fn reversibility(&self, change: &Change) -> Reversibility {
        match typed::<O>(change) {
            Ok((from, to)) => O::reversibility(&change.object.key, &from, &to),
            Err(e) => Reversibility::Irreversible(e.to_string()),
        }
    }
    fn opaque(&self, change: &Change) -> bool {
        typed::<O>(change).map_or(true, |(from, to)| O::opaque(&from, &to))
    }
    fn attributes(&self, change: &Change) -> Vec<AttributeChange> {
        match typed::<O>(change) {
            Ok((from, to)) => O::attributes(&from, &to),
            Err(_) => vec![AttributeChange {
                name: "state".to_owned(),
                before: Some(change.from.line().to_owned()),
                after: Some(change.to.line().to_owned()),
            }],
        }
    }
    fn content(&self, state: &State) -> Option<Digest> {
        O::State::try_from(state.clone()).ok().and_then(|s| O::content(&s))
    }
    fn brings(&self, key: &str, content: &Content) -> Vec<(ObjectId, State)> {
        O::brings(key, content)
    }
}
