//! The contract of a resource: a kind that a user writes.

use crate::{
    ApiCall, Backup, Claim, Content, Disruption, NodeRemoval, ObjectId, OtherHostQuestion, PackedContents,
    Place, RunsWith, Segment, State, Stop, View,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// The wanted states of a resource, computed from the present ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WantedStates {
    /// Every object that the resource manages, in order, with its wanted state. Objects that have it already are listed too.
    pub targets: Vec<(ObjectId, State)>,
    /// Content that the targets name and the host may not have.
    pub contents: Vec<Content>,
    /// Contents that the targets name and that the host can be asked for.
    pub packed: Option<PackedContents>,
    /// The value of `register`, and of a `query`.
    pub output: Option<serde_json::Value>,
    /// Remarks for people: `adopt: ssh.service runs with the present files`, a conffile that is kept.
    pub notes: Vec<String>,
    /// Shell variables that the item's steps may read, such as `CV_VALIDATE` (see the path object).
    pub settings: Vec<(String, String)>,
    /// Records to write though nothing changes (`adopt`): targets that differ only in a record of converge.
    pub adopt: Vec<(ObjectId, State)>,
    /// Objects whose change is irreversible although their states do not show it, with the reason.
    pub irreversible: Vec<(ObjectId, String)>,
    /// On a cluster: the API calls that change the targets, if their states do not tell.
    pub calls: Vec<ApiCall>,
    /// On a cluster: targets of which the calls change the owners of fields, whatever becomes of the states.
    pub owners_only: Vec<ObjectId>,
    /// On a cluster: the fields that it sets or takes away of objects that others may have parts of too. What it declares no more of them is orphaned.
    /// An empty path stands for an apply: the server records its fields.
    pub parts: Vec<(ObjectId, Vec<Segment>)>,
    /// The question to another host before a change.
    pub fetch: Option<OtherHostQuestion>,
    /// The file that must reach the controller before a change.
    pub backup: Option<Backup>,
    /// The name of another host that a rollback needs besides the states.
    pub node_removal: Option<NodeRemoval>,
    /// Objects that an answer showed besides the one that was asked for, in their state before this run: they need not be
    /// read.
    pub incidental: Vec<(ObjectId, State)>,
    /// The inputs that it runs a unit with: those for which it restarts the unit, and those for which it reloads it.
    pub runs_with: Vec<RunsWith>,
}

impl WantedStates {
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

/// A kind that a user writes. The type holds its parameters; unknown keys are refused
/// (`#[serde(deny_unknown_fields)]`). The doc comment of the type and of each field is the kind's reference page.
pub trait Resource: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// Its name in YAML.
    const KIND: &'static str;
    /// A complete list item in YAML that a test parses and the reference page shows.
    const EXAMPLE: &'static str;
    /// True for kinds that only read (`query`, `assert`): allowed in `check` and `verify`, never a change.
    const READ_ONLY: bool = false;
    /// The scopes of the roles that may use it.
    const PLACES: &'static [Place] = &[Place::Host];
    /// True for kinds that are allowed only in `verify`: they create work on a cluster, and remove it again.
    const VERIFY_ONLY: bool = false;
    /// True for kinds whose parameters are always secrets: their items are sensitive.
    const SENSITIVE: bool = false;

    /// All errors of the parameters that show without a host: a relative path, two sources of content. Each is `(JSON
    /// pointer, message, help)`.
    fn validate(&self) -> Vec<ParamError> {
        Vec::new()
    }
    /// The objects that it manages, and how. Needs no host.
    fn claims(&self) -> Vec<Claim>;

    /// Computes the wanted states from the present and predicted ones.
    ///
    /// # Errors
    /// [`Stop`] names what is missing or wrong.
    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop>;

    /// The resources of the same role that it names (`restart_on`, `reload_on`).
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its part of the question that all items of its kind ask together, each on the result of the earlier ones: see
    /// [`View::stages`].
    fn stage(&self) -> Option<String> {
        None
    }

    /// The unit that it restarts or reloads when the resources that it names, or its own inputs, differ from those that the unit runs with.
    fn restarts(&self) -> Option<ObjectId> {
        None
    }

    /// The text that `restart_on` compares for this resource instead of the states of its objects. For an edit of a part of
    /// a file it is that part, so that changes of others beside it restart nothing.
    fn basis(&self) -> Option<String> {
        None
    }

    /// The effect of any change of it on running work, beyond that of its objects: a unit that is restarted and a package
    /// that is replaced are disruptive whichever item changes them.
    fn disruption(&self) -> Disruption {
        Disruption::None
    }

    /// Whether it chooses its objects by what they are, and claims none by itself: only its plan names them.
    fn chooses(&self) -> bool {
        false
    }
}

/// An invalid parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamError {
    /// JSON pointer into the parameters.
    pub pointer: String,
    /// The problem.
    pub message: String,
    /// The correction to write.
    pub help: Option<String>,
    /// Message and help hold no value of a parameter: they are shown where the values are sensitive too.
    pub holds_no_value: bool,
}

impl ParamError {
    /// An invalid parameter, in fixed words: no value of a parameter is in them.
    pub fn fixed(pointer: &str, message: &'static str, help: &'static str) -> Self {
        Self { holds_no_value: true, ..Self::new(pointer, message, help) }
    }

    /// An invalid parameter, with help.
    pub fn new(pointer: &str, message: impl ToString, help: impl Into<String>) -> Self {
        Self {
            pointer: pointer.to_owned(),
            message: message.to_string(),
            help: Some(help.into()),
            holds_no_value: false,
        }
    }
}

/// [`Resource`] as a trait object.
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
    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop>;
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

    /// [`Resource::chooses`].
    fn chooses(&self) -> bool {
        false
    }
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
    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        Resource::plan(self, view)
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

    fn chooses(&self) -> bool {
        Resource::chooses(self)
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
        ParamError { pointer, message: e.inner().to_string(), help: None, holds_no_value: false }
    })
}
