//! Calls of helm, and its record of an upgrade that left fields to others: the record has what the chart declares. With the values of others in it, a
//! later rollback to that revision would set them after these managers have given the fields up.

use super::HelmCall;
use crate::api::{MERGE, escaped};
use crate::connect::Cluster;
use crate::helm::{Helm, HelmError};
use crate::helm_record::{RecordFault, data, record};
use crate::object::text;
use crate::ownership::retried;
use crate::preserved::LaidManifests;
use serde_json::{Value, json};
use std::time::Duration;

impl Cluster {
    /// Runs helm. Its rollback compares with the newest revision, and fails where an object is live that this one has dropped: the revision that
    /// failed so has the object, so the same call knows it then.
    pub(super) async fn call(
        &self,
        helm: &Helm,
        action: &HelmCall,
        namespace: &str,
    ) -> Result<String, HelmError> {
        let reply = self.run_helm(helm, action, namespace).await?;
        self.take_away(&action.unset).await?;
        Ok(reply)
    }

    async fn run_helm(&self, helm: &Helm, action: &HelmCall, namespace: &str) -> Result<String, HelmError> {
        let limit = Duration::from_secs(action.seconds);
        if !action.keep.is_empty() {
            let (reply, laid) =
                helm.run_keeping(self, &action.arguments, limit, &action.keep, namespace).await?;
            if let Some(laid) = laid.filter(|laid| laid.applied != laid.declared) {
                self.record_declared(namespace, &action.name, &laid).await?;
            }
            return Ok(reply);
        }
        match helm.run(&action.arguments, limit).await {
            Err(reply) if reply.lacks_an_object() => helm.run(&action.arguments, limit).await,
            run => run,
        }
    }

    /// Lays what the chart declares into helm's record of the upgrade.
    async fn record_declared(
        &self,
        namespace: &str,
        name: &str,
        laid: &LaidManifests,
    ) -> Result<(), HelmError> {
        let is_raced =
            |fault: &RecordFault| matches!(fault, RecordFault::Api(fault) if fault.code() == Some(409));
        let recorded = retried(is_raced, || self.try_to_record(namespace, name, laid));
        recorded.await.map_err(|fault| HelmError::Record { release: format!("{namespace}/{name}"), fault })
    }

    async fn try_to_record(
        &self,
        namespace: &str,
        name: &str,
        laid: &LaidManifests,
    ) -> Result<(), RecordFault> {
        let api = &self.inner.api;
        let folder = format!("/api/v1/namespaces/{}/secrets", escaped(namespace));
        let secrets = self.helm_secrets(namespace, name).await?;
        let records = secrets.iter().filter_map(|secret| Some((secret, record(secret)?)));
        let newest = records.max_by_key(|(_, record)| record.get("version").and_then(Value::as_u64));
        // Somebody else's upgrade has come in between.
        let Some((secret, mut record)) = newest.filter(|(_, r)| text(r, "/manifest") == laid.applied) else {
            return Ok(());
        };
        record["manifest"] = json!(laid.declared);
        let patch = json!({
            "metadata": {"resourceVersion": text(secret, "/metadata/resourceVersion")},
            "data": data(&record)?,
        });
        let path = format!("{folder}/{}?fieldManager=helm", escaped(text(secret, "/metadata/name")));
        Ok(api.patch(&path, MERGE, &patch).await.map(drop)?)
    }
}
