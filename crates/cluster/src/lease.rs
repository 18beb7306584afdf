//! The lock of a cluster: a Lease that holds the run's ID and is renewed while the run is at work.

use crate::api::Api;
use crate::error::{ClusterError, RunRefusal};
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

/// It is renewed this often: the next run sees within that time whether the holder lives. Older versions did it every 15 s.
const RENEWAL: Duration = Duration::from_secs(5);

/// How often the next run looks.
const LOOK: Duration = Duration::from_secs(1);

/// Tries to give it back where the server does not answer.
const TRIES: usize = 5;

/// The reason why a run may not go on: its lock is not known to be its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    /// It is another run's.
    #[error("another run has taken over the lock of the cluster (Lease {NAMESPACE}/{FIELD_MANAGER})")]
    Taken,
    /// Nobody could ask.
    #[error(transparent)]
    NotKnown(#[from] Fault),
}

/// The lock, held. It is no longer renewed when this is dropped, and expires; see [`HeldLease::give_back`].
pub(crate) struct HeldLease {
    api: Arc<Api>,
    run: String,
    lost: Arc<AtomicBool>,
    confirmed: Mutex<Instant>,
    task: JoinHandle<()>,
}

impl Drop for HeldLease {
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

/// Why the lock was not taken.
struct NotTaken {
    refused: RunRefusal,
    /// The holder with its last renewal; `None` where it is not a matter of waiting.
    renewed: Option<String>,
}

impl From<RunRefusal> for NotTaken {
    fn from(refused: RunRefusal) -> Self {
        Self { refused, renewed: None }
    }
}

/// Takes the lock for a run. One that is not renewed any more is waited for until it ends: its holder died. As soon as it is renewed, the holder lives.
pub(crate) async fn take(api: &Arc<Api>, run: &str, operator: &str) -> Result<HeldLease, RunRefusal> {
    let mut first = None;
    loop {
        let NotTaken { refused, renewed } = match try_to_take(api, run, operator).await {
            Ok(held) => return Ok(held),
            Err(not_taken) => not_taken,
        };
        if renewed.is_none() || *first.get_or_insert_with(|| renewed.clone()) != renewed {
            return Err(refused);
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn try_to_take(api: &Arc<Api>, run: &str, operator: &str) -> Result<HeldLease, NotTaken> {
    let unfit = |fault: Fault| RunRefusal::Unfit(format!("the lock of the cluster cannot be taken: {fault}"));
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
                    let renewed = format!("{who} {}", text(&found, "/spec/renewTime"));
                    return Err(NotTaken { refused: RunRefusal::Busy(busy), renewed: Some(renewed) });
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
            Err(fault) => return Err(unfit(fault).into()),
        }
    }
    Err(RunRefusal::Busy("another run is starting on the cluster; try again".to_owned()).into())
}

fn held(api: Arc<Api>, run: &str) -> HeldLease {
    let lost = Arc::new(AtomicBool::new(false));
    let task = tokio::spawn(keep(Arc::clone(&api), run.to_owned(), Arc::clone(&lost)));
    HeldLease { api, run: run.to_owned(), lost, confirmed: Mutex::new(Instant::now()), task }
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

impl HeldLease {
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
        for _ in 1..TRIES {
            match renew(&self.api, &self.run, true).await {
                // The server may be starting again: its restart is the reason why many a run ends.
                Err(Fault::Lost(ClusterError::Unreachable { .. })) => tokio::time::sleep(LOOK).await,
                Err(fault) => return not_given_back(&fault),
                Ok(_) => return,
            }
        }
        if let Err(fault) = renew(&self.api, &self.run, true).await {
            not_given_back(&fault);
        }
    }
}

fn not_given_back(fault: &Fault) {
    tracing::warn!(%fault, "the Lease was not given back; it ends by itself");
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
        let free = json!({"spec": {"leaseDurationSeconds": 60, "renewTime": "2026-11-21T10:00:00.000000Z"}});
        assert_eq!(holder(&free, at("2026-11-21T10:00:01Z")), None);
    }
}
