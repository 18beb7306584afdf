//! Requests to the API server: each with a deadline, a few side by side, errors as people understand them.

mod discovery;

use crate::error::ClusterError;
use crate::fault::{Fault, ServerRefusal};
use bytes::Bytes;
use converge_resource::ApiRef;
use discovery::Known;
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{sleep, timeout};

/// Requests at a time.
const SIDE_BY_SIDE: usize = 8;

/// Objects that a page of a list holds.
const PAGE: usize = 500;

/// A list of kinds this old is asked for again when a kind is not in it.
const FRESH: Duration = Duration::from_secs(1);

/// So many requests without an answer in time, and the server counts as hung.
const LATE: u32 = 3;
/// The pause after a server hangs, and the time that a request may take then.
const PAUSE: Duration = Duration::from_secs(2);
const BRIEF: Duration = Duration::from_secs(5);
/// The time that an answer of a backend of the server may take.
const BEHIND: Duration = Duration::from_secs(10);

const JSON: &str = "application/json";
/// All groups with all their kinds in one answer.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// Content type of a server-side apply. JSON is YAML.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";
/// Content type of a merge patch.
pub(crate) const MERGE: &str = "application/merge-patch+json";

/// A kind as the addresses of the API name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiKind {
    kind: String,
    plural: String,
    pub(crate) namespaced: bool,
}

/// The server.
pub(crate) struct Api {
    client: kube::Client,
    cluster: String,
    server: String,
    deadline: Duration,
    slots: Semaphore,
    gone: AtomicBool,
    /// Requests in a row that had no answer in time, and when the last one began to be late.
    late: std::sync::Mutex<(u32, Instant)>,
    /// The server's clock less the controller's, in seconds.
    ahead: AtomicI64,
    kinds: Mutex<HashMap<String, Known>>,
    client_expires: Option<Timestamp>,
}

impl Api {
    pub(crate) fn new(
        client: kube::Client,
        cluster: String,
        server: String,
        deadline: Duration,
        client_expires: Option<Timestamp>,
    ) -> Self {
        Self {
            client,
            cluster,
            server,
            deadline,
            slots: Semaphore::new(SIDE_BY_SIDE),
            gone: AtomicBool::new(false),
            late: std::sync::Mutex::new((0, Instant::now())),
            ahead: AtomicI64::new(0),
            kinds: Mutex::new(HashMap::new()),
            client_expires,
        }
    }

    /// The last question found no server.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// The server's present time.
    pub(crate) fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        let ahead = jiff::SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed));
        now.checked_add(ahead).unwrap_or(now)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Fault> {
        json(&self.send(&Method::GET, path, JSON, None).await?)
    }

    /// The same; `None` when there is no such thing.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Fault> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(fault) if fault.code() == Some(404) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Plain text.
    pub(crate) async fn text(&self, path: &str) -> Result<String, Fault> {
        Ok(String::from_utf8_lossy(&self.send(&Method::GET, path, JSON, None).await?).into_owned())
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Fault> {
        json(&self.send(&Method::POST, path, JSON, Some((JSON, body))).await?)
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<Value, Fault> {
        json(&self.send(&Method::PUT, path, JSON, Some((JSON, body))).await?)
    }

    pub(crate) async fn patch(&self, path: &str, form: &'static str, body: &Value) -> Result<Value, Fault> {
        json(&self.send(&Method::PATCH, path, JSON, Some((form, body))).await?)
    }

    /// False when there was nothing to delete.
    pub(crate) async fn delete(&self, path: &str, options: &Value) -> Result<bool, Fault> {
        match self.send(&Method::DELETE, path, JSON, Some((JSON, options))).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.code() == Some(404) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// All objects under this path, each with its apiVersion and kind; the path may have a query.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>, Fault> {
        self.pages(path, "application/json").await
    }

    /// The same, without what the objects hold.
    pub(crate) async fn list_metadata(&self, path: &str) -> Result<Vec<Value>, Fault> {
        self.pages(path, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").await
    }

    /// The status with which what stands behind the server answers a GET. It is asked once, and says nothing about the server itself.
    pub(crate) async fn status(&self, path: &str) -> Result<u16, Fault> {
        let _slot = self.slots.acquire().await.map_err(|_| Fault::Closed)?;
        let request = Request::get(path).body(Body::empty())?;
        match timeout(BEHIND, self.client.send(request)).await {
            Ok(Ok(response)) => Ok(response.status().as_u16()),
            Ok(Err(error)) => Err(self.lost(&error)),
            Err(_) => Ok(StatusCode::GATEWAY_TIMEOUT.as_u16()),
        }
    }

    async fn pages(&self, path: &str, form: &'static str) -> Result<Vec<Value>, Fault> {
        let mut items = Vec::new();
        let mut more = String::new();
        let joint = if path.contains('?') { '&' } else { '?' };
        loop {
            let page =
                self.send(&Method::GET, &format!("{path}{joint}limit={PAGE}{more}"), form, None).await?;
            let mut page = json(&page)?;
            let version = page.get("apiVersion").cloned().unwrap_or_default();
            let kind = page.get("kind").and_then(Value::as_str).unwrap_or_default();
            let kind = Value::from(kind.strip_suffix("List").unwrap_or(kind));
            let found = page.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
            for mut item in found.unwrap_or_default() {
                if let Some(map) = item.as_object_mut() {
                    map.entry("apiVersion").or_insert_with(|| version.clone());
                    map.entry("kind").or_insert_with(|| kind.clone());
                }
                items.push(item);
            }
            match page.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(token) if !token.is_empty() => more = format!("&continue={}", escaped(token)),
                _ => return Ok(items),
            }
        }
    }

    /// An object as the server gives it; `None` when there is none, or no such kind.
    pub(crate) async fn object(&self, object: &ApiRef) -> Result<Option<Value>, Fault> {
        match self.path(object).await? {
            Some(path) => self.find(&path).await,
            None => Ok(None),
        }
    }

    /// A request. One that only reads is tried again when the server was not there or was busy.
    async fn send(
        &self,
        method: &Method,
        path: &str,
        accept: &'static str,
        body: Option<(&'static str, &Value)>,
    ) -> Result<Bytes, Fault> {
        let _slot = self.slots.acquire().await.map_err(|_| Fault::Closed)?;
        let reads = *method == Method::GET;
        let deadline = self.patience()?;
        let trying = async {
            // Many questions to a server that is not there shall not each wait.
            let pauses: &[u64] = if self.is_gone() { &[] } else { &[250, 750] };
            let mut pauses = pauses.iter().copied().map(Duration::from_millis);
            loop {
                let result = self.once(method, path, accept, body).await;
                let again = match &result {
                    Err(Fault::Lost(ClusterError::Unreachable { .. })) => reads,
                    // The server did not begin with it.
                    Err(Fault::Reply(reply)) => {
                        reply.code == 429 || (reads && matches!(reply.code, 500..=504))
                    }
                    _ => false,
                };
                match (again, pauses.next()) {
                    (true, Some(pause)) => sleep(pause).await,
                    _ => return result,
                }
            }
        };
        let result = timeout(deadline, trying).await.unwrap_or_else(|_| Err(self.timed_out(deadline)));
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        *late = match result {
            Err(Fault::Lost(ClusterError::Timeout { .. })) => (late.0.saturating_add(1), Instant::now()),
            _ => (0, Instant::now()),
        };
        let lost = matches!(result, Err(Fault::Lost(_)));
        // A write is not tried again: that its connection broke says little of the server.
        if reads || !lost {
            self.gone.store(lost, Ordering::Relaxed);
        }
        result
    }

    /// The time that a request may take. After several that had no answer in time the next ones are brief, or not made at all for a moment:
    /// what waits behind them ends too.
    fn patience(&self) -> Result<Duration, Fault> {
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        match *late {
            (LATE.., at) if at.elapsed() < PAUSE => Err(self.timed_out(self.deadline)),
            (LATE.., _) => Ok(self.deadline.min(BRIEF)),
            _ => Ok(self.deadline),
        }
    }

    fn timed_out(&self, deadline: Duration) -> Fault {
        Fault::Lost(ClusterError::Timeout {
            cluster: self.cluster.clone(),
            server: self.server.clone(),
            seconds: deadline.as_secs(),
        })
    }

    /// A request without another try.
    async fn once(
        &self,
        method: &Method,
        path: &str,
        accept: &'static str,
        body: Option<(&'static str, &Value)>,
    ) -> Result<Bytes, Fault> {
        let mut request = Request::builder().method(method).uri(path).header("accept", accept);
        let mut bytes = Vec::new();
        if let Some((form, value)) = body {
            request = request.header("content-type", form);
            bytes = serde_json::to_vec(value).map_err(Fault::Body)?;
        }
        let request = request.body(Body::from(bytes))?;
        let response = self.client.send(request).await.map_err(|e| self.lost(&e))?;
        let date = response.headers().get("date").and_then(|d| d.to_str().ok());
        if let Some(theirs) = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()) {
            let ahead = theirs.timestamp().as_second() - Timestamp::now().as_second();
            self.ahead.store(ahead, Ordering::Relaxed);
        }
        let status = response.status();
        let bytes = response.into_body().collect_bytes().await.map_err(|e| self.lost(&e))?;
        tracing::debug!(%method, path, status = status.as_u16(), bytes = bytes.len(), "API");
        if status.is_success() {
            return Ok(bytes);
        }
        if status == StatusCode::UNAUTHORIZED {
            return Err(Fault::Lost(self.unauthorized(&ServerRefusal::of(401, &bytes))));
        }
        Err(Fault::Reply(Box::new(ServerRefusal::of(status.as_u16(), &bytes))))
    }

    fn unauthorized(&self, reply: &ServerRefusal) -> ClusterError {
        let cluster = self.cluster.clone();
        match self.client_expires.filter(|end| *end < self.now()) {
            Some(end) => ClusterError::ClientExpired { cluster, when: end.to_string() },
            None => ClusterError::Unauthorized {
                cluster,
                server: self.server.clone(),
                reply: reply.message.clone(),
            },
        }
    }

    fn lost(&self, error: &kube::Error) -> Fault {
        Fault::Lost(broken(&self.cluster, &self.server, error))
    }

    /// The meaning of a fault while connecting.
    pub(crate) fn refusal(&self, fault: Fault) -> ClusterError {
        let (cluster, server) = (self.cluster.clone(), self.server.clone());
        match fault {
            Fault::Lost(error) => error,
            Fault::Reply(reply) if reply.code == 403 => {
                ClusterError::Forbidden { cluster, server, reply: reply.message }
            }
            Fault::Reply(reply) => ClusterError::Odd { cluster, server, reply: reply.message },
            fault => ClusterError::Odd { cluster, server, reply: fault.to_string() },
        }
    }
}

/// Names what went wrong below HTTP: the libraries tell it only as text, at the end of a chain of causes.
fn broken(cluster: &str, server: &str, error: &dyn std::error::Error) -> ClusterError {
    let mut texts = Vec::new();
    let mut at = Some(error);
    while let Some(error) = at {
        texts.push(error.to_string());
        at = error.source();
    }
    let last = texts.last().cloned().unwrap_or_default();
    let (cluster, server) = (cluster.to_owned(), server.to_owned());
    let has = |word: &str| texts.iter().any(|t| t.contains(word));
    let reply = texts.iter().find(|t| t.contains("certificate")).cloned().unwrap_or_else(|| last.clone());
    if has("certificate expired") || has("certificate: Expired") {
        ClusterError::ServerExpired { cluster, server, reply }
    } else if has("invalid peer certificate") {
        ClusterError::Untrusted { cluster, server, reply }
    } else {
        ClusterError::Unreachable { cluster, server, why: last }
    }
}

fn json(bytes: &[u8]) -> Result<Value, Fault> {
    serde_json::from_slice(bytes).map_err(Fault::NotJson)
}

/// A part of a path or a query.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::discovery::list_path;
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_those_of_the_api() {
        let pods = ApiKind { kind: "Pod".into(), plural: "pods".into(), namespaced: true };
        assert_eq!(list_path("v1", &pods, Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(list_path("apps/v1", &pods, None), "/apis/apps/v1/pods");
        assert_eq!(escaped("a=b,c in (d)"), "a%3Db%2Cc%20in%20%28d%29");
        assert_eq!(escaped("system:node"), "system:node");
    }

    /// A renewal of the lock in the background whose connection the server has just closed must not end the run.
    #[tokio::test]
    async fn a_write_that_is_lost_does_not_tell_that_the_server_is_gone() {
        let down = std::sync::Arc::new(AtomicBool::new(false));
        let is_down = std::sync::Arc::clone(&down);
        let server = tower::service_fn(move |request: Request<Body>| {
            let lost = is_down.load(Ordering::Relaxed) || *request.method() != Method::GET;
            let answer = http::Response::new(Body::from(b"{}".to_vec()));
            async move { if lost { Err(std::io::Error::other("connection closed")) } else { Ok(answer) } }
        });
        let client = kube::Client::new(server, "default");
        let api = Api::new(client, "c".into(), "s".into(), Duration::from_secs(5), None);
        assert!(matches!(api.patch("/x", MERGE, &json!({})).await, Err(Fault::Lost(_))));
        assert!(!api.is_gone());
        down.store(true, Ordering::Relaxed);
        assert!(api.get("/x").await.is_err() && api.is_gone());
        assert!(api.patch("/x", MERGE, &json!({})).await.is_err() && api.is_gone());
        down.store(false, Ordering::Relaxed);
        assert!(api.get("/x").await.is_ok() && !api.is_gone());
    }
}
