//! Objects that were applied before projects had field managers of their own: their project takes the fields of the plain name over.

use crate::connect::Cluster;
use crate::fault::Fault;
use crate::ownership;
use crate::record_error::RecordsError;
use crate::records::RunDoc;
use converge_ledger::{ManagedObjects, ProjectName, ProjectScope};
use converge_resource::{ApiRef, FIELD_MANAGER, ObjectId};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

impl Cluster {
    /// The field manager of the project.
    pub(crate) fn manager(&self) -> &str {
        &self.inner.manager
    }

    /// Whether the fields of an object that have the plain name as manager are this project's, by the records.
    pub(crate) async fn is_plainly_managed(&self, object: &ObjectId) -> Result<bool, RecordsError> {
        let read = async {
            let (managed, docs) = futures::try_join!(self.managed(), self.docs())?;
            let options = &self.inner.options;
            Ok::<_, RecordsError>(plainly_managed(
                &docs,
                &managed,
                &options.scope,
                options.project.as_deref(),
            ))
        };
        Ok(self.inner.plainly_managed.get_or_try_init(|| read).await?.contains(object))
    }

    /// The object with the fields of the plain name under the project's own, where they are its.
    pub(crate) async fn take_over(&self, wanted: &ApiRef, live: Value) -> Result<Value, TakeOverError> {
        let api = &self.inner.api;
        if self.manager() == FIELD_MANAGER
            || !ownership::has_plain(&live)
            || !self.is_plainly_managed(&wanted.object()).await?
        {
            return Ok(live);
        }
        let Some(path) = api.path(wanted).await? else { return Ok(live) };
        Ok(ownership::rename_plain(api, &path, &live, self.manager()).await?)
    }
}

/// The reason why fields were not taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeOverError {
    #[error(transparent)]
    Api(#[from] Fault),
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// The objects that runs of this project were the last to write under the plain name. Where no run is recorded any more, what is managed tells it.
fn plainly_managed(
    docs: &[RunDoc],
    managed: &ManagedObjects,
    scope: &ProjectName,
    project: Option<&str>,
) -> BTreeSet<ObjectId> {
    let named = ProjectScope(scope.clone());
    // The project may have got its name since.
    let unnamed = project.map(|name| ProjectScope(named.without(name)));
    let own = |of: &ProjectName| named.is(of) || unnamed.as_ref().is_some_and(|unnamed| unnamed.is(of));
    let mut docs: Vec<&RunDoc> = docs.iter().filter(|doc| doc.manager.is_none()).collect();
    docs.sort_by(|a, b| (a.seq, &a.id).cmp(&(b.seq, &b.id)));
    let mut last: BTreeMap<&ObjectId, bool> = BTreeMap::new();
    for thing in managed.present() {
        *last.entry(&thing.object).or_default() |= own(&thing.scope);
    }
    for doc in docs {
        last.extend(doc.changes.iter().map(|change| (&change.object, own(&doc.scope))));
    }
    last.into_iter().filter(|(_, own)| *own).map(|(object, _)| object.clone()).collect()
}
