//! The contract of an object.

use crate::{Content, Digest, Disruption, ObjectId, Place, State, Step, quote};
mod action;
mod cluster;
mod effects;
mod erased;
mod links;
mod needs;
mod node;
mod relations;
mod shared;
mod typed;

use serde::{Deserialize, Serialize};
use std::fmt::Debug;

pub use action::{ActionPart, DynActionPart};
pub use cluster::{ClusterPart, DynClusterPart};
pub use effects::{AlteredFact, BroughtObjects, DynEffects, Effects};
pub use erased::DynObject;
pub use links::{DynLinks, Links};
pub use needs::{DynNeeds, Needs};
pub use node::{DynNodePart, NodePart};
pub use relations::{DynRelations, Relations};
pub use shared::{DynSharedObject, Past, SharedObject};
pub use typed::{ErasedObject, Nothing};

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

/// The files that the revert of an object may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Footprint {
    /// Any: foreign code runs, or what it removes is not known.
    Any,
    /// Those alone that it names itself.
    Named,
    /// Those alone that are at, in or above its place.
    Place,
    /// Those that a Debian package ships.
    Packaged,
}

/// Whether a change can be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reversibility {
    /// A rollback restores the state before.
    Reversible,
    /// It is irreversible: why.
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

/// The properties of an object that depend on no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Whether one object may have several names, and which of them a plan uses.
    pub naming: Naming,
    /// True if its key is its path: objects below it are removed before it, and created after it.
    pub at_path: bool,
    /// True if its removal may destroy content that cannot be made again: a file that is too large to be saved, the data of a snap.
    pub holds_data: bool,
    /// True for objects that a rollback passes over, since their change cannot be reverted: a wait, a restart.
    pub passes: bool,
    /// True for objects that a rollback changes last, since their inputs must be there first.
    pub back_last: bool,
    /// True if any change of it restarts the host: the session ends, and a rollback passes over the change. Steps only begin
    /// the restart; afterwards `cv_back_KIND KEY` waits until the host is ready, within `$CV_RESTART_LEFT` seconds.
    pub restarts_host: bool,
    /// True if it lies on the machine that runs converge: that machine says what it is and changes it, and the host keeps the record.
    pub on_controller: bool,
    /// The files that its revert may change.
    pub footprint: Footprint,
    /// True if no change of it runs foreign code, whatever it comes to, it is read without running any, and it stays as it is until somebody changes it.
    pub runs_no_code: bool,
    /// True if a host looks at it, changes and removes it from inside its directory: nobody but root may lead the way to it elsewhere.
    pub from_inside: bool,
    /// True if it is a file system at its path: while it is there, each path below is another file.
    pub mounts: bool,
    /// True if it may have a line of its own in `/etc/fstab`, which then goes and stays with it.
    pub has_line: bool,
    /// True if all changes of its kind in one item are one transaction, which cannot be ended in the middle.
    pub one_transaction: bool,
    /// True if its key is a whole text, which may hold a secret: people know it by its item.
    pub key_is_text: bool,
    /// Kinds of objects that it offers: while its state is not known, theirs is not known either.
    pub offers: &'static [&'static str],
}

impl Traits {
    /// None of them: one name, no data, reverted in its turn.
    pub const NONE: Self = Self {
        naming: Naming::One,
        at_path: false,
        holds_data: false,
        passes: false,
        back_last: false,
        restarts_host: false,
        on_controller: false,
        footprint: Footprint::Any,
        runs_no_code: false,
        from_inside: false,
        mounts: false,
        has_line: false,
        one_transaction: false,
        key_is_text: false,
        offers: &[],
    };
}

/// Something a machine or a cluster has. One file each, in the `objects` crate.
///
/// The core says what every object has; [`Traits`] and the traits [`Links`], [`Relations`], [`Effects`], [`SharedObject`], [`NodePart`], [`ClusterPart`], [`Needs`] and [`ActionPart`] say
/// what some have besides.
///
/// An object of a cluster ([`Object::PLACE`]) has no shell text: the executor of clusters makes its states and changes.
///
/// [`Object::SHELL`] defines these POSIX shell functions (dash, bash, busybox ash), where `KIND` is [`Object::KIND`]:
///
/// * `cv_see_KIND KEY…` prints the answer that [`DynObject::parse`] reads: one command for all keys, nothing changed.
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
    /// Seconds that one of its steps may take.
    const SECONDS: u64 = 120;
    /// Its properties that do not depend on a state.
    const TRAITS: Traits = Traits::NONE;
    /// Its [`Links`], if it has any: `&ErasedObject::<Self>::new()`. So are the other traits that an object may have.
    const LINKS: &'static dyn DynLinks = &Nothing;
    /// Its [`Relations`].
    const RELATIONS: &'static dyn DynRelations = &Nothing;
    /// Its [`Effects`].
    const EFFECTS: &'static dyn DynEffects = &Nothing;
    /// How others share it: its [`SharedObject`].
    const SHARED: &'static dyn DynSharedObject = &Nothing;
    /// Its part in a node: its [`NodePart`].
    const NODE: &'static dyn DynNodePart = &Nothing;
    /// Its name in a cluster: its [`ClusterPart`].
    const CLUSTER: &'static dyn DynClusterPart = &Nothing;
    /// Its [`Needs`].
    const NEEDS: &'static dyn DynNeeds = &Nothing;
    /// Its [`ActionPart`].
    const ACTION: &'static dyn DynActionPart = &Nothing;

    /// Its state as a type. `absent` is a value of it too.
    type State: Clone + Debug + PartialEq + TryFrom<State, Error = crate::BadState> + Into<State>;

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

    /// Whether the change can be reverted.
    fn reversibility(_key: &str, _from: &Self::State, _to: &Self::State) -> Reversibility {
        Reversibility::Reversible
    }

    /// True if the steps run foreign code (maintainer scripts, a unit's own program, a command), which may change other
    /// objects.
    fn opaque(_from: &Self::State, _to: &Self::State) -> bool {
        false
    }

    /// The effect of the change on running work. `to` is `None` if the new state cannot be known yet.
    fn disruption(_from: &Self::State, _to: Option<&Self::State>) -> Disruption {
        Disruption::None
    }

    /// Whether an object in the state `now` is in the planned state: equal to it, but for what the plan leaves to the host (`~`, such as the number of
    /// an account), or as near to it as a host can come. The host asks `cv_same_KIND KEY NOW PLANNED`, the same rule, when a step has ended.
    fn fulfils(now: &Self::State, planned: &Self::State) -> bool {
        now == planned
    }

    /// Whether an interrupted step from one state to the other may leave this one, besides a mixture of both.
    fn amid(_before: &Self::State, _after: &Self::State, _now: &Self::State) -> bool {
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

/// Names and values of a state: `mode`, `owner`, `version` …
pub type Facets = Vec<(&'static str, String)>;

/// The facets that differ, in the order of the side that has more of them.
pub fn differing(before: &Facets, after: &Facets) -> Vec<AttributeChange> {
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

/// The same for a state that is `absent`, or one word and a digest: the variants `Absent` and `$variant(Digest)`.
#[macro_export]
macro_rules! state_of_digest {
    ($state:ident, $variant:ident, $word:literal) => {
        impl $state {
            fn words(&self) -> Vec<String> {
                match self {
                    Self::Absent => vec!["absent".to_owned()],
                    Self::$variant(digest) => vec![$word.to_owned(), digest.to_string()],
                }
            }

            fn read(words: &[&str]) -> Option<Self> {
                match words {
                    ["absent"] => Some(Self::Absent),
                    [$word, digest] => $crate::Digest::from_hex(digest).map(Self::$variant),
                    _ => None,
                }
            }
        }

        $crate::state_of_words!($state);
    };
}
