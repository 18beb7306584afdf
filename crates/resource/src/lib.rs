//! The contract of objects and resources: states, claims, probes, steps. No I/O.
//!
//! An *object* is something a machine has (a path, a package, a unit): see [`Object`]. A *resource* is a kind
//! that a user writes (`file`, `line`, `package`): see [`Resource`]. Objects know how to look, compare, change,
//! save and restore; resources only map present states to wanted ones.

mod address;
mod answer;
mod api;
mod backup;
mod chart_login;
mod claim;
mod content;
mod disruption;
mod fetch;
mod field;
mod hex;
mod inputs;
mod loaded;
mod local;
mod object;
mod packed;
mod part;
mod place;
mod play;
mod probe;
mod resource;
mod state;
mod step;
mod stop;
mod view;
mod words;

pub use address::{name_of, role_of};
pub use answer::AnswerError;
pub use api::{
    ARCHIVE, ApiCall, ApiProbe, ApiRef, Chart, FIELD_MANAGER, FieldOwners, PreservedField, RANDOM, REFUSED,
    ReleaseSpec, field_manager,
};
pub use backup::{Backup, BackupResult};
pub use chart_login::{ChartLogin, UNRECORDED_KEYWORD};
pub use claim::{Claim, ClaimMode};
pub use content::{Content, Digest};
pub use disruption::Disruption;
pub use fetch::{FETCH_NOT_MADE, FETCH_NOT_READY, NodeRemoval, NodeRemovalRequest, OtherHostQuestion};
pub use field::{Segment, pointer_word};
pub use hex::{from_hex, to_hex};
pub use inputs::{Inputs, NamedResource, OwnInput, RunsWith};
pub use loaded::{HELP_KEYWORD, LOAD_KEYWORD, SourceFile, Template, Tree};
pub use local::LocalProbe;
pub use object::{
    ActionPart, AlteredFact, AttributeChange, BroughtObjects, Change, ClusterPart, Contents, DriftScript,
    DynActionPart, DynClusterPart, DynEffects, DynLinks, DynNeeds, DynNodePart, DynObject, DynRelations,
    DynSharedObject, Effects, ErasedObject, Facets, Footprint, Links, Naming, Needs, NodePart, Nothing,
    Object, Past, Relations, Reversibility, SharedObject, Traits, differing,
};
pub use packed::PackedContents;
pub use part::ChangedPart;
pub use place::Place;
pub use play::{MinAvailable, RoleEdge, Share, percentage};
pub use probe::{Answer, Probe, RunAnswer};
pub use resource::{DynResource, KindInfo, ParamError, Resource, WantedStates, parse_params};
pub use state::{BadState, ObjectId, Observation, State, decode_field, encode_field};
pub use step::{Step, quote, unlisted};
pub use stop::{First, Stop, Wait};
pub use view::{Restarters, View};
pub use words::counted;
