//! Objects are managed no more, by prunes and by rollbacks: the project gives up their fields too, and is in nobody's way. Or they are managed by another
//! name.

use crate::connect::Cluster;
use crate::fault::Fault;
use crate::ownership;
use crate::record_error::RecordsError;
use converge_ledger::{ProjectScope, Renaming};
use converge_resource::{ApiRef, FIELD_MANAGER, ObjectId, field_manager};
use std::collections::BTreeSet;

/// An object that was forgotten, and whose fields the server leaves to the project.
#[derive(Debug, thiserror::Error)]
#[error("{object}: its fields still belong to `{manager}`: {why}")]
pub struct RemainingFields {
    object: ObjectId,
    manager: String,
    #[source]
    why: RecordsError,
}

impl Cluster {
    /// Takes objects out of management for rollbacks too. The fields of those that are there belong to the project no more. Nothing else of them changes.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn forget(
        &self,
        run: &str,
        objects: &BTreeSet<ObjectId>,
    ) -> Result<Vec<RemainingFields>, RecordsError> {
        let mut apart = BTreeSet::new();
        {
            let mut slot = self.inner.run.lock().await;
            let open = slot.as_mut().filter(|open| open.meta.id == run).ok_or(RecordsError::NotOpen)?;
            let before = open.doc.changes.len();
            open.doc.disowned.extend(objects.iter().map(|object| (before, object.clone())));
            open.doc.forgotten.extend(objects.iter().cloned());
            open.write().await?;
            // Another project may have this very manager: projects without a name, or two of one name.
            let project = ProjectScope(open.meta.scope.clone());
            let others = open.base.present().filter(|thing| !project.is(&thing.scope));
            let same = others.filter(|thing| field_manager(thing.scope.project()) == self.manager());
            apart.extend(same.map(|thing| thing.object.clone()));
        }
        let mut still = Vec::new();
        for object in objects.iter().filter(|object| !apart.contains(*object)) {
            if let Err(why) = self.give_up(object).await {
                still.push(RemainingFields {
                    object: object.clone(),
                    manager: self.manager().to_owned(),
                    why,
                });
            }
        }
        Ok(still)
    }

    /// Gives what earlier runs of the project recorded under a name another one.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn rename(&self, run: &str, renaming: &Renaming) -> Result<(), RecordsError> {
        let mut slot = self.inner.run.lock().await;
        let open = slot.as_mut().filter(|open| open.meta.id == run).ok_or(RecordsError::NotOpen)?;
        open.doc.renamed.push(renaming.clone());
        open.write().await
    }

    /// Makes the fields of an object nobody's that are the project's alone. Who else owns them goes on to.
    async fn give_up(&self, object: &ObjectId) -> Result<(), RecordsError> {
        let Some(wanted) = ApiRef::from_key(&object.key).filter(|_| object.kind == "k8s") else {
            return Ok(());
        };
        let api = &self.inner.api;
        let Some(path) = api.path(&wanted).await? else { return Ok(()) };
        let plainly = self.is_plainly_managed(object).await?;
        let names = [Some(self.manager()), Some(FIELD_MANAGER).filter(|_| plainly)];
        let is_own = |name: &str| names.contains(&Some(name));
        let mut last = Ok(());
        for _ in 0..ownership::TRIES {
            let Some(live) = api.object(&wanted).await? else { return Ok(()) };
            let Some(managers) = ownership::without(&live, &is_own) else { return Ok(()) };
            match ownership::set_managers(api, &path, &live, &managers, self.manager()).await {
                Ok(_) => return Ok(()),
                Err(fault) if fault.code() == Some(409) => last = Err(fault),
                Err(fault) => return Err(fault.into()),
            }
            tokio::time::sleep(ownership::AGAIN).await;
        }
        last.map_err(|fault: Fault| fault.into())
    }
}
