//! The contract of a resource: a kind that a user writes.

use crate::{
    ApiCall, Backup, Claim, Content, Disruption, Fetch, ObjectId, Place, Probe, State, View, Wait, WayBack,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// What a resource wants, computed from what is seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Every object that the resource answers for, in order, with the state that it is to have. Objects that are
    /// already so are listed too.
    pub targets: Vec<(ObjectId, State)>,
    /// Content that the targets name and the host may not have.
    pub contents: Vec<Content>,
    /// The value of `register`, and of a `query`.
    pub output: Option<serde_json::Value>,
    /// Remarks for people: `adopt: ssh.service runs with the present files`, a conffile that is kept.
    pub notes: Vec<String>,
    /// Shell variables that the item's steps may read, such as `CV_VALIDATE` (see the path object).
    pub settings: Vec<(String, String)>,
    /// Records to write though nothing changes (`adopt`): targets whose only difference is a record of ours.
    pub adopt: Vec<(ObjectId, State)>,
    /// Changes of these objects cannot be undone, though their states do not say so: why.
    pub irreversible: Vec<(ObjectId, String)>,
    /// On a cluster: how the targets are reached, where their states do not say it.
    pub calls: Vec<ApiCall>,
    /// What another host must say first, where something is to be changed.
    pub fetch: Option<Fetch>,
    /// What must be brought to this machine first, where something is to be changed.
    pub backup: Option<Backup>,
    /// What a rollback of it needs besides the states.
    pub way_back: Option<WayBack>,
    /// Objects that an answer told beside what it was asked for, as they are before this run: they need not be asked for.
    pub seen: Vec<(ObjectId, State)>,
    /// What it has a unit run with, and restarts it for.
    pub runs_with: Option<RunsWith>,
}

/// What must happen on the host before a resource can be planned: an item of its own before the resource's.
#[derive(Clone, Debug, PartialEq)]
pub struct First {
    /// What people call it: `package index`.
    pub name: &'static str,
    /// Its one object.
    pub object: ObjectId,
    /// As it is.
    pub from: State,
    /// As it is to be.
    pub to: State,
    /// Why.
    pub why: String,
}

/// What an item has a unit run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunsWith {
    /// A digest of it.
    pub digest: String,
    /// Whether this run changes it.
    pub changed: bool,
    /// Its newest moment, in seconds since 1970.
    pub newest: Option<i64>,
}

impl RunsWith {
    /// Whether what has no record yet, and runs since this moment, runs with what is there.
    pub fn was_there_at(&self, start: Option<i64>) -> bool {
        match (self.changed, self.newest, start) {
            (false, None, _) => true,
            // Moments are whole seconds: what changed within the second of the start may be newer.
            (false, Some(newest), Some(start)) => newest < start,
            _ => false,
        }
    }
}

impl Wanted {
    /// One object and its state.
    pub fn one(object: ObjectId, state: impl Into<State>) -> Self {
        Self { targets: vec![(object, state.into())], ..Self::default() }
    }

    /// The same, with content that the state names.
    #[must_use]
    pub fn with(mut self, content: Content) -> Self {
        self.contents.push(content);
        self
    }
}

/// Why a resource has no answer yet, or never.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// These must be answered first.
    Ask(Vec<Probe>),
    /// These must be done first, each by an item of its own. The resource is planned again behind them.
    First(Vec<First>),
    /// Nothing can know before an earlier item has happened.
    Deferred(Wait),
    /// The declaration is wrong on this host: what, and what to write instead.
    Invalid {
        /// JSON pointer of the parameter at fault: `/path`; empty for the whole item.
        pointer: String,
        /// What is wrong.
        message: String,
        /// What to write instead.
        help: Option<String>,
    },
    /// The host cannot be looked at, or a check failed: why.
    Failed(String),
}

impl Stop {
    /// A wrong parameter.
    pub fn invalid(pointer: &str, message: impl Into<String>) -> Self {
        Self::Invalid { pointer: pointer.to_owned(), message: message.into(), help: None }
    }

    /// A wrong parameter, with help.
    pub fn invalid_help(pointer: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Invalid { pointer: pointer.to_owned(), message: message.into(), help: Some(help.into()) }
    }
}

/// A kind that a user writes. The type holds its parameters; unknown keys are refused
/// (`#[serde(deny_unknown_fields)]`). The doc comment of the type and of each field is the kind's reference page.
pub trait Resource: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// Its name in YAML.
    const KIND: &'static str;
    /// A complete list item in YAML that a test parses and the reference page shows.
    const EXAMPLE: &'static str;
    /// True for kinds that only read (`query`, `assert`): allowed in `check` and `verify`, never a change.
    const READ_ONLY: bool = false;
    /// Where it may be used: in roles of these scopes.
    const PLACES: &'static [Place] = &[Place::Host];
    /// True for kinds that may only stand in `verify`: they put work on a cluster, and take it away again.
    const VERIFY_ONLY: bool = false;
    /// True for kinds whose parameters are secrets by nature: their items are sensitive whatever they are made of.
    const SENSITIVE: bool = false;

    /// What is wrong with the parameters, whatever the host: a relative path, two sources of content.
    /// `(JSON pointer, message, help)`, all at once.
    fn validate(&self) -> Vec<ParamError> {
        Vec::new()
    }
    /// What it answers for. Needs no host.
    fn claims(&self) -> Vec<Claim>;

    /// From what is seen (and predicted) to what is wanted.
    ///
    /// # Errors
    /// [`Stop`] says what is missing or wrong.
    fn plan(&self, seen: &dyn View) -> Result<Wanted, Stop>;

    /// The resources of the same role that it names (`restart_on`).
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its part of the one question that all items of its kind ask together, each over what those before it leave: see
    /// [`View::stages`].
    fn stage(&self) -> Option<String> {
        None
    }

    /// The unit that it restarts when what it names, or what it brings, is no longer what the unit runs with.
    fn restarts(&self) -> Option<ObjectId> {
        None
    }

    /// What stands for it in `restart_on`, in place of the states of its objects: for an edit of a part of a file that part, so
    /// that what others change beside it restarts nothing.
    fn basis(&self) -> Option<String> {
        None
    }

    /// What any change of it does to what runs, beyond what its objects say of themselves: a unit that is restarted
    /// and a package that is replaced are disruptive whoever changes them.
    fn disruption(&self) -> Disruption {
        Disruption::None
    }
}

/// A parameter that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamError {
    /// JSON pointer into the parameters.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl ParamError {
    /// A wrong parameter with help.
    pub fn new(pointer: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { pointer: pointer.to_owned(), message: message.into(), help: Some(help.into()) }
    }
}

/// [`Resource`] without its type.
pub trait DynResource: Send + Sync {
    /// [`Resource::KIND`].
    fn kind(&self) -> &'static str;
    /// [`Resource::READ_ONLY`].
    fn read_only(&self) -> bool;
    /// [`Resource::SENSITIVE`].
    fn sensitive(&self) -> bool {
        false
    }
    /// [`Resource::validate`].
    fn validate(&self) -> Vec<ParamError>;
    /// [`Resource::claims`].
    fn claims(&self) -> Vec<Claim>;
    /// [`Resource::plan`].
    ///
    /// # Errors
    /// As [`Resource::plan`].
    fn plan(&self, seen: &dyn View) -> Result<Wanted, Stop>;
    /// [`Resource::names`].
    fn names(&self) -> Vec<String>;
    /// [`Resource::stage`].
    fn stage(&self) -> Option<String> {
        None
    }
    /// [`Resource::restarts`].
    fn restarts(&self) -> Option<ObjectId> {
        None
    }
    /// [`Resource::basis`].
    fn basis(&self) -> Option<String>;
    /// [`Resource::disruption`].
    fn disruption(&self) -> Disruption;
}

impl<R: Resource> DynResource for R {
    fn kind(&self) -> &'static str {
        R::KIND
    }
    fn read_only(&self) -> bool {
        R::READ_ONLY
    }
    fn sensitive(&self) -> bool {
        R::SENSITIVE
    }
    fn validate(&self) -> Vec<ParamError> {
        Resource::validate(self)
    }
    fn claims(&self) -> Vec<Claim> {
        Resource::claims(self)
    }
    fn plan(&self, seen: &dyn View) -> Result<Wanted, Stop> {
        Resource::plan(self, seen)
    }
    fn names(&self) -> Vec<String> {
        Resource::names(self)
    }
    fn stage(&self) -> Option<String> {
        Resource::stage(self)
    }
    fn restarts(&self) -> Option<ObjectId> {
        Resource::restarts(self)
    }
    fn basis(&self) -> Option<String> {
        Resource::basis(self)
    }
    fn disruption(&self) -> Disruption {
        Resource::disruption(self)
    }
}

/// One line of the registry of kinds.
#[derive(Clone, Copy)]
pub struct KindInfo {
    /// [`Resource::KIND`].
    pub kind: &'static str,
    /// [`Resource::EXAMPLE`].
    pub example: &'static str,
    /// [`Resource::READ_ONLY`].
    pub read_only: bool,
    /// [`Resource::PLACES`].
    pub places: &'static [Place],
    /// [`Resource::VERIFY_ONLY`].
    pub verify_only: bool,
    /// [`Resource::SENSITIVE`].
    pub sensitive: bool,
    /// The JSON Schema of the parameters.
    pub schema: fn() -> serde_json::Value,
    /// Reads the parameters.
    pub parse: fn(&serde_json::Value) -> Result<Box<dyn DynResource>, ParamError>,
}

impl KindInfo {
    /// The line of this kind.
    pub const fn of<R: Resource>() -> Self {
        Self {
            kind: R::KIND,
            example: R::EXAMPLE,
            read_only: R::READ_ONLY,
            places: R::PLACES,
            verify_only: R::VERIFY_ONLY,
            sensitive: R::SENSITIVE,
            schema: || schemars::schema_for!(R).to_value(),
            parse: |params| parse_params::<R>(params).map(|r| Box::new(r) as Box<dyn DynResource>),
        }
    }
}

/// Reads typed parameters.
///
/// # Errors
/// The first parameter that is missing, unknown or of another type, by JSON pointer.
pub fn parse_params<R: DeserializeOwned>(params: &serde_json::Value) -> Result<R, ParamError> {
    serde_path_to_error::deserialize(params).map_err(|e| {
        let pointer = e
            .path()
            .iter()
            .map(|s| match s {
                serde_path_to_error::Segment::Seq { index } => format!("/{index}"),
                serde_path_to_error::Segment::Map { key } => format!("/{key}"),
                serde_path_to_error::Segment::Enum { variant } => format!("/{variant}"),
                serde_path_to_error::Segment::Unknown => String::new(),
            })
            .collect();
        ParamError { pointer, message: e.inner().to_string(), help: None }
    })
}
