//! Changes for a cluster, and their results, as data.

use converge_objects::k8s::fields::FieldPath;
use converge_objects::k8s::{K8sState, from_text, parts};
use converge_resource::{ApiCall, Change, ChangedPart, Chart, Content, Digest, ObjectId, ReleaseSpec, State};
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
    /// The fields that it declares of objects that others may have parts of too; an empty path stands for an apply.
    pub parts: Vec<(ObjectId, FieldPath)>,
    /// A prune gives exactly these parts back, and the objects remain managed.
    pub gives_back: bool,
    /// Only converge's records are written: no object changes.
    pub adopt: bool,
    /// Things that may be destroyed though nothing keeps them, by ID.
    pub allow_destroy: Vec<String>,
}

impl ClusterWork {
    /// The parts that a prune gives back with a change; none where all of the object goes back.
    pub(crate) fn given_back(&self, change: &Change) -> Vec<ChangedPart> {
        if self.gives_back { self.parts_of(change) } else { Vec::new() }
    }

    /// The parts of an object that a change of it makes, or gives back. Those of a sensitive item are not recorded: their values would be.
    pub(crate) fn parts_of(&self, change: &Change) -> Vec<ChangedPart> {
        let own = self.parts.iter().filter(|(object, path)| *object == change.object && !path.is_empty());
        let own: Vec<&FieldPath> = own.map(|(_, path)| path).collect();
        if own.is_empty() || self.sensitive {
            return Vec::new();
        }
        if self.gives_back {
            let dropped = |path: &FieldPath| ChangedPart {
                path: path.clone(),
                depth: 0,
                before: None,
                after: None,
                dropped: true,
            };
            return own.into_iter().map(dropped).collect();
        }
        let text = |state: &State| match K8sState::try_from(state.clone()) {
            Ok(K8sState::Present(digest)) => self.contents.get(&digest).and_then(from_text),
            _ => None,
        };
        let Some(to) = text(&change.to) else { return Vec::new() };
        parts::changed(&text(&change.from).unwrap_or_default(), &to, &own)
    }

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
