//! The contract of an object.

use crate::{
    Backup, Content, Digest, Disruption, Goodbye, ObjectId, Observed, Place, State, Step, WayBack, quote,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;

/// One object that changes from one state to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Which object.
    pub object: ObjectId,
    /// The state that the change is planned against.
    pub from: State,
    /// The state after it.
    pub to: State,
}

/// The names that an object may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// One.
    One,
    /// Several; plans and records call it by its real one.
    Real,
    /// Several; a run calls it by the first that one of its items uses.
    First,
}

/// Whether a change can be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reversibility {
    /// A rollback restores the state before.
    Reversible,
    /// It is irreversible: why.
    Irreversible(String),
}

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

/// Something a machine or a cluster has. One file each, in the `objects` crate.
///
/// An object of a cluster ([`Object::PLACE`]) has no shell text: the executor of clusters makes its states and changes.
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
    /// Its place: a host or a cluster.
    const PLACE: Place = Place::Host;
    /// True for objects that a rollback passes over, since their change cannot be reverted: a wait, a restart.
    const PASSES: bool = false;
    /// Seconds within which the state may come by itself ([`Object::PASSES`]); a condition that is open until then is no
    /// failure.
    fn patience(_key: &str) -> Option<u64> {
        None
    }
    /// True for objects that a rollback changes last, since their inputs must be there first.
    const BACK_LAST: bool = false;
    /// Whether its key is its path: objects below it are removed before it, and created after it.
    const AT_PATH: bool = false;
    /// Whether one object may have several names, and which of them a plan uses.
    const NAMING: Naming = Naming::One;
    /// Whether its removal may destroy content that cannot be made again: a file that is too large to be saved, the data of
    /// a snap.
    const HOLDS_DATA: bool = false;
    /// True for an object that makes its host a node of a cluster while it is not absent. The node's name is that of its
    /// [`WayBack`], else the host's.
    const MAKES_NODE: bool = false;
    /// True for an object that goes with its host's node: a rollback that removes the node does not revert it, if an item of the node's role has
    /// changed it since the node joined.
    const GOES_WITH_NODE: bool = false;
    /// True for an object that is removed only with `--allow-destroy`, in an ordinary run too: a host's part in its cluster. A
    /// rollback reverts it before everything else of its role; if it stays, the role stays.
    const STAYS_UNLESS_ALLOWED: bool = false;
    /// The units of which one must run while the object is observed or changed: a rollback that stops such a unit does so after it has reverted the object,
    /// and one that starts it does so before.
    fn served_by(_key: &str) -> &'static [&'static str] {
        &[]
    }

    /// Its state as a type. `absent` is a value of it too.
    type State: Clone + Debug + PartialEq + TryFrom<State, Error = crate::BadState> + Into<State>;

    /// Seconds that one of its steps may take.
    const SECONDS: u64 = 120;
    /// Kinds of objects that it offers: while its state is not known, theirs is not known either.
    const OFFERS: &'static [&'static str] = &[];

    /// Parses the answer of `cv_see_KIND` to these keys. Every key gets an observation, or the error.
    fn parse(keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>> {
        crate::answer::parse::<Self::State>(keys, answer)
    }

    /// The title of the step from one state to the other, for plans and progress: `create group crew`.
    fn title(key: &str, from: &Self::State, to: &Self::State) -> String;

    /// The steps for all changes of this kind in one item, in order; several packages make one transaction.
    /// They must be right from any accepted base, not only from `from`. By default `cv_apply_KIND KEY LINE` for each.
    fn steps(changes: &[(&str, Self::State, Self::State)]) -> Vec<Step> {
        changes
            .iter()
            .map(|(key, from, to)| {
                let line: State = to.clone().into();
                let script = format!("cv_apply_{} {} {}", Self::KIND, quote(key), quote(line.line()));
                Step::new(Self::title(key, from, to), script).within(Self::SECONDS)
            })
            .collect()
    }

    /// Whether the change can be reverted.
    fn reversibility(_key: &str, _from: &Self::State, _to: &Self::State) -> Reversibility {
        Reversibility::Reversible
    }

    /// True if the steps run foreign code (maintainer scripts, a unit's own program, a command), which may change other
    /// objects.
    fn opaque(_from: &Self::State, _to: &Self::State) -> bool {
        false
    }

    /// The state as facets for people, in reading order. Content is not among them: see [`Object::content`].
    fn facets(state: &Self::State) -> Facets;

    /// The attributes that differ, for people.
    fn attributes(from: &Self::State, to: &Self::State) -> Vec<AttributeChange> {
        differing(&Self::facets(from), &Self::facets(to))
    }

    /// The digest of the object's content, if it has one.
    fn content(_state: &Self::State) -> Option<Digest> {
        None
    }

    /// The effect of the change on running work. `to` is `None` if the new state cannot be known yet.
    fn disruption(_from: &Self::State, _to: Option<&Self::State>) -> Disruption {
        Disruption::None
    }

    /// Other objects that this state creates, or removes if it is absent: a unit with its file. Created objects are absent
    /// before; removed ones are [bare](Object::bare). `content` is that of the state, if it is known.
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

    /// Objects that this change may bring without anything telling which: the content of a package, the parameters of a
    /// kernel module.
    fn may_bring(_from: &Self::State, _to: &Self::State) -> Option<MayBring> {
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

    /// The directory below which every path means another object after this change: a mount point.
    fn covers(_key: &str, _from: &Self::State, _to: &Self::State) -> Option<String> {
        None
    }

    /// The new state of this object, which the run does not touch, after a change of another one: a file whose group gets
    /// another number shows the old number, and one with the number of a group that comes shows its name. `None` when it stays as it is.
    fn follows(_key: &str, _state: &Self::State, _other: &Change) -> Option<Self::State> {
        None
    }

    /// True for changes that affect other objects, by [`Object::follows`].
    fn is_followed(_from: &Self::State, _to: &Self::State) -> bool {
        false
    }

    /// Whether an object in the state `now` is in the planned state: equal to it, but for what the plan leaves to the host (`~`, such as the number of
    /// an account), or as near to it as a host can come. The host asks `cv_same_KIND KEY NOW PLANNED`, the same rule, when a step has ended.
    fn fulfils(now: &Self::State, planned: &Self::State) -> bool {
        now == planned
    }

    /// The accounts that an object in this state belongs to: its owner and group, the groups of a user.
    fn accounts(_key: &str, _state: &Self::State) -> Vec<ObjectId> {
        Vec::new()
    }

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

    /// True for a state that an object has only because of another one: a unit that has a file and nothing more. `undo.sh`
    /// asks `cv_bare_KIND LINE` for it.
    fn bare(_state: &Self::State) -> bool {
        false
    }

    /// Whether a change puts another thing into the place of one that may have other names (hard links), which keep what was there.
    fn severs(_before: &Self::State, _after: &Self::State) -> bool {
        false
    }

    /// Whether an interrupted step from one state to the other may leave this one, besides a mixture of both.
    fn amid(_before: &Self::State, _after: &Self::State, _now: &Self::State) -> bool {
        false
    }

    /// The backup that must reach the controller before a rollback makes this change: a copy of data that the change
    /// destroys. A kind that makes such a change in a plan sets `Wanted::backup` itself.
    fn backup(_from: &Self::State, _to: &Self::State) -> Option<Backup> {
        None
    }

    /// The question to another host before a rollback makes this change, if the run recorded one. The record is data of the
    /// host and not trusted: `known_as` are the names and addresses by which the controller knows the host.
    fn goodbye(
        _way: &WayBack,
        _known_as: &[String],
        _from: &Self::State,
        _to: &Self::State,
    ) -> Option<Goodbye> {
        None
    }

    /// True if any change of it restarts the host: the session ends, and a rollback passes over the change. Steps only begin
    /// the restart; afterwards `cv_back_KIND KEY` waits until the host is ready, within `$CV_RESTART_LEFT` seconds.
    fn restarts_host() -> bool {
        false
    }

    /// Ways to inject drift into the object in this state, one facet each; empty if there is none. The test of a role tries
    /// them.
    fn drifts(_key: &str, _state: &Self::State) -> Vec<DriftScript> {
        Vec::new()
    }
}

/// One injected drift: the test of a role changes an object in this way, and a plan must detect it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftScript {
    /// The facet that is changed, named as in a [`crate::Claim`]. Only facets that an item claims are changed.
    pub facet: &'static str,
    /// The change, for people: `mode 0601`.
    pub what: String,
    /// POSIX shell text with ordinary tools, without functions of converge. Status 3: this object cannot be changed so here.
    pub script: String,
}

impl DriftScript {
    /// A way to change this facet.
    pub fn new(facet: &'static str, what: impl Into<String>, script: impl Into<String>) -> Self {
        Self { facet, what: what.into(), script: script.into() }
    }
}

/// The known contents, by digest.
pub type Contents<'a> = dyn Fn(&Digest) -> Option<Content> + 'a;

/// Objects that a change may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MayBring {
    /// The activity, for people: `installing`.
    pub verb: &'static str,
    /// The kinds of these objects.
    pub kinds: &'static [&'static str],
}

/// The first name of a fact that a change alters, and its new value where the change determines it.
pub type AlteredFact = (&'static str, Option<serde_json::Value>);

/// Names and values of a state: `mode`, `owner`, `version` …
pub type Facets = Vec<(&'static str, String)>;

/// The facets that differ, in the order of the side that has more of them.
fn differing(before: &Facets, after: &Facets) -> Vec<AttributeChange> {
    let (more, less) = if after.len() >= before.len() { (after, before) } else { (before, after) };
    let value = |facets: &Facets, name: &str| facets.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
    let names = more.iter().chain(less.iter().filter(|(n, _)| value(more, n).is_none()));
    names
        .map(|(name, _)| AttributeChange {
            name: (*name).to_owned(),
            before: value(before, name),
            after: value(after, name),
        })
        .filter(|change| change.before != change.after)
        .collect()
}

/// Makes a type a state: `words` gives the plain words of its line (with `absent` for what is not there), and `read` takes
/// them back, or gives `None` for words that are no state. Two inherent functions: `fn words(&self) -> Vec<String>` and
/// `fn read(words: &[&str]) -> Option<Self>`.
#[macro_export]
macro_rules! state_of_words {
    ($state:ty) => {
        impl From<$state> for $crate::State {
            fn from(state: $state) -> Self {
                Self::from_words(state.words())
            }
        }

        impl TryFrom<$crate::State> for $state {
            type Error = $crate::BadState;

            fn try_from(state: $crate::State) -> Result<Self, $crate::BadState> {
                let words = state.words()?;
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                Self::read(&words).ok_or_else(|| $crate::BadState(state.line().to_owned()))
            }
        }
    };
}

/// [`Object`] without its types, as registries and executors use it.
pub trait DynObject: Send + Sync {
    /// [`Object::KIND`].
    fn kind(&self) -> &'static str;
    /// [`Object::SHELL`].
    fn shell(&self) -> &'static str;
    /// [`Object::PLACE`].
    fn place(&self) -> Place;
    /// [`Object::PASSES`].
    fn passes(&self) -> bool;
    /// [`Object::patience`].
    fn patience(&self, key: &str) -> Option<u64>;
    /// [`Object::served_by`].
    fn served_by(&self, key: &str) -> &'static [&'static str];
    /// [`Object::BACK_LAST`].
    fn back_last(&self) -> bool;
    /// [`Object::AT_PATH`].
    fn at_path(&self) -> bool;
    /// [`Object::NAMING`].
    fn naming(&self) -> Naming;
    /// [`Object::HOLDS_DATA`].
    fn holds_data(&self) -> bool;
    /// [`Object::MAKES_NODE`].
    fn makes_node(&self) -> bool;
    /// [`Object::GOES_WITH_NODE`].
    fn goes_with_node(&self) -> bool;
    /// [`Object::STAYS_UNLESS_ALLOWED`].
    fn stays_unless_allowed(&self) -> bool;
    /// [`Object::fulfils`]; bad states are compared as they are.
    fn fulfils(&self, now: &State, planned: &State) -> bool;
    /// [`Object::accounts`]; none for a bad state.
    fn accounts(&self, key: &str, state: &State) -> Vec<ObjectId>;
    /// [`Object::same`]; bad states are compared as they are.
    fn same(&self, a: &State, b: &State) -> bool;
    /// [`Object::shows`]; bad states are compared as they are.
    fn shows(&self, now: &State, past: &Past<'_, State>, content: &Contents<'_>) -> bool;
    /// [`Object::back`]; with a bad state, the one before.
    fn back(&self, now: &State, past: &Past<'_, State>, content: &Contents<'_>) -> (State, Option<Content>);
    /// [`Object::parse`].
    fn parse(&self, keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>>;
    /// [`Object::title`]; of a bad state only that it changes.
    fn title(&self, change: &Change) -> String;
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
    /// [`Object::disruption`]; a bad state disrupts nothing: it cannot be applied.
    fn disruption(&self, from: &State, to: Option<&State>) -> Disruption;
    /// [`Object::brings`]; a bad state brings nothing.
    fn brings(&self, key: &str, state: &State, content: Option<&Content>) -> Vec<(ObjectId, State)>;
    /// [`Object::template`].
    fn template(&self, key: &str) -> Option<ObjectId>;
    /// [`Object::names`]; none for a bad state.
    fn names(&self, key: &str, state: &State, content: Option<&Content>) -> Vec<(ObjectId, ObjectId)>;
    /// [`Object::may_name`].
    fn may_name(&self, key: &str) -> Option<&'static str>;
    /// [`Object::may_bring`]; a bad state may bring nothing.
    fn may_bring(&self, change: &Change) -> Option<MayBring>;
    /// [`Object::alters`]; a bad state alters nothing: it cannot be applied.
    fn alters(&self, change: &Change) -> Vec<AlteredFact>;
    /// [`Object::may_alter`].
    fn may_alter(&self, key: &str) -> Vec<&'static str>;
    /// [`Object::covers`]; none for a bad state.
    fn covers(&self, change: &Change) -> Option<String>;
    /// [`Object::follows`]; none for a bad state.
    fn follows(&self, key: &str, state: &State, other: &Change) -> Option<State>;
    /// [`Object::is_followed`]; not for a bad state.
    fn is_followed(&self, change: &Change) -> bool;
    /// [`Object::bare`]; a bad state is not.
    fn bare(&self, state: &State) -> bool;
    /// [`Object::severs`]; not for a bad state.
    fn severs(&self, change: &Change) -> bool;
    /// [`Object::amid`]; not for a bad state.
    fn amid(&self, change: &Change, now: &State) -> bool;
    /// [`Object::backup`]; none for a bad state: it cannot be applied.
    fn backup(&self, change: &Change) -> Option<Backup>;
    /// [`Object::goodbye`]; none for a bad state.
    fn goodbye(&self, way: &WayBack, known_as: &[String], change: &Change) -> Option<Goodbye>;
    /// [`Object::OFFERS`].
    fn offers(&self) -> &'static [&'static str];
    /// [`Object::restarts_host`].
    fn restarts_host(&self) -> bool;
    /// [`Object::drifts`]; none for a bad state.
    fn drifts(&self, key: &str, state: &State) -> Vec<DriftScript>;
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

impl<O: Object> DynObject for Erased<O> {
    fn kind(&self) -> &'static str {
        O::KIND
    }
    fn shell(&self) -> &'static str {
        O::SHELL
    }
    fn place(&self) -> Place {
        O::PLACE
    }
    fn passes(&self) -> bool {
        O::PASSES
    }
    fn patience(&self, key: &str) -> Option<u64> {
        O::patience(key)
    }
    fn served_by(&self, key: &str) -> &'static [&'static str] {
        O::served_by(key)
    }
    fn back_last(&self) -> bool {
        O::BACK_LAST
    }

    fn naming(&self) -> Naming {
        O::NAMING
    }
    fn at_path(&self) -> bool {
        O::AT_PATH
    }

    fn holds_data(&self) -> bool {
        O::HOLDS_DATA
    }
    fn makes_node(&self) -> bool {
        O::MAKES_NODE
    }
    fn goes_with_node(&self) -> bool {
        O::GOES_WITH_NODE
    }
    fn stays_unless_allowed(&self) -> bool {
        O::STAYS_UNLESS_ALLOWED
    }
    fn fulfils(&self, now: &State, planned: &State) -> bool {
        match (O::State::try_from(now.clone()), O::State::try_from(planned.clone())) {
            (Ok(now), Ok(planned)) => O::fulfils(&now, &planned),
            _ => now == planned,
        }
    }
    fn accounts(&self, key: &str, state: &State) -> Vec<ObjectId> {
        O::State::try_from(state.clone()).map(|state| O::accounts(key, &state)).unwrap_or_default()
    }
    fn same(&self, a: &State, b: &State) -> bool {
        match (O::State::try_from(a.clone()), O::State::try_from(b.clone())) {
            (Ok(x), Ok(y)) => O::same(&x, &y),
            _ => a == b,
        }
    }
    fn shows(&self, now: &State, past: &Past<'_, State>, content: &Contents<'_>) -> bool {
        match typed_past::<O>(now, past) {
            Ok((now, before, left, between)) => {
                let past = Past { before: &before, left: &left, between: &between };
                O::shows(&now, &past, content)
            }
            Err(_) => now == past.left,
        }
    }
    fn back(&self, now: &State, past: &Past<'_, State>, content: &Contents<'_>) -> (State, Option<Content>) {
        match typed_past::<O>(now, past) {
            Ok((now, before, left, between)) => {
                let past = Past { before: &before, left: &left, between: &between };
                let (state, content) = O::back(&now, &past, content);
                (state.into(), content)
            }
            Err(_) => (past.before.clone(), None),
        }
    }
    fn parse(&self, keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>> {
        O::parse(keys, answer)
    }
    fn title(&self, change: &Change) -> String {
        let key = &change.object.key;
        typed::<O>(change).map_or_else(|_| format!("change {key}"), |(from, to)| O::title(key, &from, &to))
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
    fn disruption(&self, from: &State, to: Option<&State>) -> Disruption {
        let Ok(from) = O::State::try_from(from.clone()) else { return Disruption::None };
        match to.map(|to| O::State::try_from(to.clone())) {
            None => O::disruption(&from, None),
            Some(Ok(to)) => O::disruption(&from, Some(&to)),
            Some(Err(_)) => Disruption::None,
        }
    }
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
    fn may_bring(&self, change: &Change) -> Option<MayBring> {
        typed::<O>(change).ok().and_then(|(from, to)| O::may_bring(&from, &to))
    }
    fn alters(&self, change: &Change) -> Vec<AlteredFact> {
        typed::<O>(change).map_or_else(|_| Vec::new(), |(from, to)| O::alters(&change.object.key, &from, &to))
    }
    fn may_alter(&self, key: &str) -> Vec<&'static str> {
        O::may_alter(key)
    }
    fn covers(&self, change: &Change) -> Option<String> {
        typed::<O>(change).ok().and_then(|(from, to)| O::covers(&change.object.key, &from, &to))
    }
    fn follows(&self, key: &str, state: &State, other: &Change) -> Option<State> {
        O::State::try_from(state.clone()).ok().and_then(|s| O::follows(key, &s, other)).map(Into::into)
    }
    fn is_followed(&self, change: &Change) -> bool {
        typed::<O>(change).is_ok_and(|(from, to)| O::is_followed(&from, &to))
    }
    fn bare(&self, state: &State) -> bool {
        O::State::try_from(state.clone()).is_ok_and(|s| O::bare(&s))
    }
    fn severs(&self, change: &Change) -> bool {
        typed::<O>(change).is_ok_and(|(from, to)| O::severs(&from, &to))
    }
    fn amid(&self, change: &Change, now: &State) -> bool {
        let states =
            typed::<O>(change).and_then(|(from, to)| Ok((from, to, O::State::try_from(now.clone())?)));
        states.is_ok_and(|(from, to, now)| O::amid(&from, &to, &now))
    }
    fn backup(&self, change: &Change) -> Option<Backup> {
        typed::<O>(change).ok().and_then(|(from, to)| O::backup(&from, &to))
    }
    fn goodbye(&self, way: &WayBack, known_as: &[String], change: &Change) -> Option<Goodbye> {
        typed::<O>(change).ok().and_then(|(from, to)| O::goodbye(way, known_as, &from, &to))
    }
    fn offers(&self) -> &'static [&'static str] {
        O::OFFERS
    }
    fn restarts_host(&self) -> bool {
        O::restarts_host()
    }
    fn drifts(&self, key: &str, state: &State) -> Vec<DriftScript> {
        O::State::try_from(state.clone()).map(|s| O::drifts(key, &s)).unwrap_or_default()
    }
}
