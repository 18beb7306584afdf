//! Digests of the content that workloads were started with: kept in the Secret `started` beside the records of runs, not at the workloads. An operator that owns a
//! workload writes it anew whenever it likes, and what others have written there goes.

use crate::connect::Cluster;
use crate::open_run::put;
use crate::record_error::RecordsError;
use crate::records::{self, NAMESPACE, Record};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the Secret, and what its label says.
const NAME: &str = "started";

const FORMAT: u32 = 1;

/// The record of one workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartedWorkload {
    /// The server's own identity of it: another workload of the same name was started by another client.
    pub(crate) uid: String,
    /// The digest of what it was started with; `None` where a rollback has taken the record back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) with: Option<String>,
}

/// The records of all workloads, by their keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StartedDoc {
    format: u32,
    workloads: BTreeMap<String, StartedWorkload>,
}

impl Default for StartedDoc {
    fn default() -> Self {
        Self { format: FORMAT, workloads: BTreeMap::new() }
    }
}

impl Record for StartedDoc {
    const NEWEST: u32 = FORMAT;
}

impl Cluster {
    async fn all_started(&self) -> Result<StartedDoc, RecordsError> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}");
        let found = self.inner.api.find(&path).await?;
        match found {
            None => Ok(StartedDoc::default()),
            Some(secret) => Ok(records::unpack(&secret)?),
        }
    }

    /// The record of a workload; `None` where there is none, or that of another one of the same name.
    pub(crate) async fn started(
        &self,
        key: &str,
        uid: &str,
    ) -> Result<Option<StartedWorkload>, RecordsError> {
        let found = self.all_started().await?.workloads.remove(key);
        Ok(found.filter(|started| started.uid == uid))
    }

    /// Writes it. The cluster's lock is held.
    pub(crate) async fn note(&self, key: &str, started: StartedWorkload) -> Result<(), RecordsError> {
        let mut all = self.all_started().await?;
        all.workloads.insert(key.to_owned(), started);
        let packed = records::pack(&all)?;
        if !records::fits(&packed) {
            return Err(RecordsError::StartedFull);
        }
        let secret = records::secret(NAME, NAME, None, &packed, &[]);
        Ok(put(&self.inner.api, NAME, &secret).await?)
    }
}
