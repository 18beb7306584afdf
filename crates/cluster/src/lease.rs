//! The lock of a cluster: a Lease that holds the run's ID and is renewed while the run is at work.

use crate::api::Api;
use crate::error::Refused;
use crate::fault::Fault;
use crate::object::text;
use crate::records::NAMESPACE;
use converge_resource::FIELD_MANAGER;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// A Lease that was not renewed for so long is nobody's.
const SECONDS: i64 = 60;

/// It is renewed this often.
const RENEWAL: Duration = Duration::from_secs(15);

/// The reason why a run may not go on: its lock is not known to be its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// It is another run's.
    #[error("another run has taken the lock of the cluster (Lease {NAMESPACE}/{FIELD_MANAGER}) over")]
    Taken,
    /// Nobody could ask.
    #[error(transparent)]
    NotKnown(#[from] Fault),
}

/// The lock, held. It is no longer renewed when this is dropped, and expires; see [`Held::give_back`].
pub(crate) struct Held {
    api: Arc<Api>,
    run: String,
    lost: Arc<AtomicBool>,
    confirmed: Mutex<Instant>,
    task: JoinHandle<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn path() -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")
}

/// Who holds a Lease now, and since when it was not renewed; `None` when it is free.
fn holder(lease: &Value, now: Timestamp) -> Option<(String, i64)> {
    let who = text(lease, "/spec/holderIdentity");
    let renewed: Timestamp = text(lease, "/spec/renewTime").parse().ok()?;
    let seconds = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64).unwrap_or(SECONDS);
    let idle = now.duration_since(renewed);
    (!who.is_empty() && idle <= SignedDuration::from_secs(seconds))
        .then(|| (who.to_owned(), idle.as_secs().max(0)))
}

fn stamp(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn lease(run: &str, operator: &str, now: Timestamp) -> Value {
    let now = stamp(now);
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": FIELD_MANAGER, "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER},
            "annotations": {"converge/operator": operator},
        },
        "spec": {"holderIdentity": run, "leaseDurationSeconds": SECONDS, "acquireTime": now, "renewTime": now},
    })
}

/// Whether some run holds the lock.
pub(crate) async fn busy(api: &Api) -> Result<bool, Fault> {
    let found = api.find(&format!("{}/{FIELD_MANAGER}", path())).await?;
    Ok(found.is_some_and(|lease| holder(&lease, api.now()).is_some()))
}

/// Whether the one who holds it has missed a renewal: then he is most likely gone, and it is worth to wait for the end of his Lease.
fn silent(idle: i64) -> bool {
    idle > RENEWAL.as_secs().cast_signed() + 5
}

/// Takes the lock for a run.
pub(crate) async fn take(api: &Arc<Api>, run: &str, operator: &str) -> Result<Held, Refused> {
    let mut result = try_to_take(api, run, operator).await;
    while let Err((_, Some(idle))) = result
        && silent(idle)
    {
        tokio::time::sleep(Duration::from_secs(2)).await;
        result = try_to_take(api, run, operator).await;
    }
    result.map_err(|(refused, _)| refused)
}

/// The error tells too since when whoever holds it has not renewed it.
async fn try_to_take(api: &Arc<Api>, run: &str, operator: &str) -> Result<Held, (Refused, Option<i64>)> {
    let unfit =
        |fault: Fault| (Refused::Unfit(format!("the lock of the cluster cannot be taken: {fault}")), None);
    let one = format!("{}/{FIELD_MANAGER}", path());
    // Somebody may come in between: then it is looked at again.
    for _ in 0..3 {
        let found = api.find(&one).await.map_err(unfit)?;
        let mut wanted = lease(run, operator, api.now());
        let result = match found {
            None => api.post(&path(), &wanted).await,
            Some(found) => {
                if let Some((who, idle)) = holder(&found, api.now()).filter(|(who, _)| who != run) {
                    let operator = found
                        .pointer("/metadata/annotations")
                        .and_then(|a| a.get("converge/operator"))
                        .and_then(Value::as_str)
                        .filter(|o| !o.is_empty())
                        .map_or_else(String::new, |operator| format!(" of {operator}"));
                    let busy = format!(
                        "run {who}{operator} is at work on the cluster (its Lease {NAMESPACE}/{FIELD_MANAGER} was renewed {idle} s ago, \
                         and ends {SECONDS} s after the last renewal); wait for it"
                    );
                    return Err((Refused::Busy(busy), Some(idle)));
                }
                if let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert(
                        "resourceVersion".to_owned(),
                        json!(text(&found, "/metadata/resourceVersion")),
                    );
                }
                api.put(&one, &wanted).await
            }
        };
        match result {
            Ok(_) => return Ok(held(Arc::clone(api), run)),
            Err(fault) if fault.code() == Some(409) => {}
            Err(fault) => return Err(unfit(fault)),
        }
    }
    Err((Refused::Busy("other runs begin on the cluster at this moment; try again".to_owned()), None))
}

fn held(api: Arc<Api>, run: &str) -> Held {
    let lost = Arc::new(AtomicBool::new(false));
    let task = tokio::spawn(keep(Arc::clone(&api), run.to_owned(), Arc::clone(&lost)));
    Held { api, run: run.to_owned(), lost, confirmed: Mutex::new(Instant::now()), task }
}

async fn keep(api: Arc<Api>, run: String, lost: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(RENEWAL).await;
        match renew(&api, &run, false).await {
            Ok(true) => {}
            Ok(false) => {
                lost.store(true, Ordering::Relaxed);
                return;
            }
            // The next renewal may come through; before each change it is looked at anyway.
            Err(fault) => tracing::warn!(%fault, "the Lease was not renewed"),
        }
    }
}

/// Renews, or gives back. False when it is another run's now.
async fn renew(api: &Api, run: &str, last: bool) -> Result<bool, Fault> {
    let one = format!("{}/{FIELD_MANAGER}", path());
    loop {
        let Some(found) = api.find(&one).await? else { return Ok(false) };
        if text(&found, "/spec/holderIdentity") != run {
            return Ok(false);
        }
        let spec = match last {
            true => json!({"holderIdentity": null}),
            false => json!({"renewTime": stamp(api.now())}),
        };
        let version = text(&found, "/metadata/resourceVersion");
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
        match api.patch(&one, crate::api::MERGE, &patch).await {
            // Our own renewal came in between, or another run.
            Err(fault) if fault.code() == Some(409) => {}
            result => return result.map(|_| true),
        }
    }
}

impl Held {
    /// Renews it, unless that was just done.
    pub(crate) async fn confirm(&self) -> Result<(), LockError> {
        if self.lost.load(Ordering::Relaxed) {
            return Err(LockError::Taken);
        }
        if self.confirmed.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < RENEWAL {
            return Ok(());
        }
        match renew(&self.api, &self.run, false).await {
            Ok(true) => {
                *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                Ok(())
            }
            Ok(false) => Err(LockError::Taken),
            Err(fault) => Err(fault.into()),
        }
    }

    /// The next run need not wait.
    pub(crate) async fn give_back(self) {
        if let Err(fault) = renew(&self.api, &self.run, true).await {
            tracing::warn!(%fault, "the Lease was not given back; it ends by itself");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_was_not_renewed_is_nobodys() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let held = lease("r1", "alice@admin1", at("2026-11-21T10:00:00Z"));
        assert_eq!(text(&held, "/spec/renewTime"), "2026-11-21T10:00:00.000000Z");
        assert_eq!(holder(&held, at("2026-11-21T10:00:59Z")), Some(("r1".to_owned(), 59)));
        assert_eq!(holder(&held, at("2026-11-21T10:01:01Z")), None);
        assert!(!silent(19) && silent(21), "a renewal every 15 s");
        let free = json!({"spec": {"leaseDurationSeconds": 60, "renewTime": "2026-11-21T10:00:00.000000Z"}});
        assert_eq!(holder(&free, at("2026-11-21T10:00:01Z")), None);
    }
}
