//! Changes for a cluster, and their results, as data.

use converge_resource::{ApiCall, Change, Chart, Content, Digest, ObjectId, ReleaseSpec, State};
use std::collections::BTreeMap;

/// One planned item on its way to a cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterWork {
    /// The item's address, for records.
    pub address: String,
    /// Its role: what it makes is recorded as that role's own. Empty when nothing becomes anybody's own: a rollback, a prune.
    pub owner: String,
    /// Its content is a secret: nothing of it is reported.
    pub sensitive: bool,
    /// A later item of the run goes on with what it changes.
    pub in_part: bool,
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// How, where the states do not say it.
    pub calls: Vec<ApiCall>,
    /// Contents that the states and the calls name.
    pub contents: BTreeMap<Digest, Content>,
    /// Objects that later items claim, with the states that these are planned against. They are looked at before and after foreign
    /// code (helm).
    pub watch: Vec<(ObjectId, State)>,
    /// Only converge's records are written: no object changes.
    pub adopt: bool,
    /// Things that may be destroyed though nothing keeps them, by ID.
    pub allow_destroy: Vec<String>,
}

impl ClusterWork {
    /// A release as its role wants it; `None` where no role says it, as in a rollback.
    pub(crate) fn release(&self, object: &ObjectId) -> Option<&ReleaseSpec> {
        self.calls.iter().find_map(|call| match call {
            ApiCall::Release(spec) => (object.kind == "release"
                && object.key.split_once('/') == Some((spec.namespace.as_str(), spec.name.as_str()))
                && !matches!(spec.chart, Chart::SavedRelease(_)))
            .then_some(&**spec),
            _ => None,
        })
    }
}

/// The result of an item.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkResult {
    /// The end.
    pub end: WorkEnd,
    /// The objects' states after it, as far as they could be looked at.
    pub after: Vec<(ObjectId, State)>,
    /// Watched objects before and after foreign code.
    pub window: Option<(BTreeMap<ObjectId, State>, BTreeMap<ObjectId, State>)>,
    /// The contents that `after` names.
    pub contents: Vec<Content>,
}

/// The end of an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WorkEnd {
    /// As planned.
    #[default]
    Done,
    /// Nothing was changed: the state in the cluster differs from the planned one; the differences, for the user.
    Refused(String),
    /// Nothing was changed: the state before could not be saved, and why.
    NotSaved(String),
    /// It failed.
    Failed {
        /// One line.
        message: String,
        /// More of what was said: events, the end of a log.
        output: String,
    },
}
