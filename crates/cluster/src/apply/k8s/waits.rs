//! Waits of a change of an object.

use super::PlannedWrite;
use crate::apply::{Job, failed};
use crate::connect::Cluster;
use crate::object;
use crate::work::WorkEnd;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// A definition has so long until its kind can be used.
const COMING: Duration = Duration::from_secs(20);

impl Cluster {
    /// Waits until a deleted object is gone.
    pub(super) async fn gone(
        &self,
        job: &Job<'_>,
        planned: &PlannedWrite<'_>,
        deleted: &Value,
    ) -> Result<(), WorkEnd> {
        let uid = object::text(deleted, "/metadata/uid");
        let (start, mut listed) = (Instant::now(), false);
        loop {
            let shown = planned.wanted.shown();
            let live =
                self.inner.api.object(&planned.wanted).await.map_err(|e| failed(format!("{shown}: {e}")))?;
            let Some(live) = live.filter(|live| object::text(live, "/metadata/uid") == uid) else {
                return Ok(());
            };
            let finalizers = live.pointer("/metadata/finalizers").map(Value::to_string).unwrap_or_default();
            let longest = self.inner.options.deletion;
            if start.elapsed() > longest {
                return Err(failed(format!(
                    "{shown} was deleted {} s ago and is not gone; it waits for its finalizers {finalizers}: is what handles them at work?",
                    longest.as_secs()
                )));
            }
            if !listed && start.elapsed() > Duration::from_secs(3) {
                (job.tell)(&format!("{shown}: waiting for its finalizers {finalizers}"));
                listed = true;
            }
            sleep(Duration::from_millis(if start.elapsed() < Duration::from_secs(1) { 50 } else { 500 }))
                .await;
        }
    }

    /// A definition is done when its kind can be used.
    pub(super) async fn established(&self, planned: &PlannedWrite<'_>) -> Result<(), WorkEnd> {
        if planned.wanted.kind != "CustomResourceDefinition" || planned.to.is_none() {
            return Ok(());
        }
        let start = Instant::now();
        loop {
            let live = self.inner.api.object(&planned.wanted).await.ok().flatten().unwrap_or_default();
            let conditions =
                live.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
            let on = |name: &str| {
                conditions
                    .clone()
                    .any(|c| object::text(c, "/type") == name && object::text(c, "/status") == "True")
            };
            let kind = object::text(&live, "/spec/names/kind").to_owned();
            let group = object::text(&live, "/spec/group");
            let served = live.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
            let mut versions = served.filter(|v| v.get("served") == Some(&Value::Bool(true)));
            let version = versions.next().map(|v| object::text(v, "/name")).unwrap_or_default();
            let known = self.inner.api.resource(&format!("{group}/{version}"), &kind).await.ok().flatten();
            if on("Established") && known.is_some() {
                return Ok(());
            }
            if start.elapsed() > COMING {
                return Err(failed(format!(
                    "{}: the API server does not offer its kind {kind} {} s after it was defined",
                    planned.wanted.shown(),
                    COMING.as_secs()
                )));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}
