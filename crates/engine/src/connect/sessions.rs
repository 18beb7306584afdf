//! The sessions with the hosts of a run, each opened when it is first used.

use crate::connect::endpoints::{endpoint, enter, no_session};
use crate::context::RunContext;
use crate::{Activity, Event, TargetError};
use converge_host::HostConnection;
use std::sync::Arc;
use std::time::Instant;

/// The session with a host, opened when it is first used.
pub(crate) async fn link(context: &RunContext, host: &str) -> Result<Arc<HostConnection>, TargetError> {
    if context.project.in_maintenance(host) {
        return Err(TargetError::Maintenance);
    }
    // A lane and a cluster's tunnel may come for it at once: there is one session, and one memory of what the host said.
    let door = Arc::clone(context.pool.doors.lock().await.entry(host.to_owned()).or_default());
    let _one_at_a_time = door.lock().await;
    if let Some(link) = context.pool.links.lock().await.get(host) {
        return Ok(Arc::clone(link));
    }
    context.events.send(Event::Connecting { host: host.to_owned() });
    let begun = Instant::now();
    let link = Arc::new(new_link(context, host).await?);
    context.events.send(Event::Connected { host: host.to_owned(), took: begun.elapsed() });
    context.pool.links.lock().await.insert(host.to_owned(), Arc::clone(&link));
    Ok(link)
}

/// A session of its own with a host, beside any other one.
pub(crate) async fn new_link(context: &RunContext, host: &str) -> Result<HostConnection, TargetError> {
    let _connects = context.begin(host, Activity::Connect);
    let (endpoint, become_) = endpoint(context, host).await?;
    let session = enter(context, host, &endpoint).await.1.map_err(|error| no_session(host, &error))?;
    HostConnection::open(host, session, become_).await
}

/// A new session with a host that has restarted, in place of the one that went with it.
pub(crate) async fn link_again(context: &RunContext, host: &str) -> Result<Arc<HostConnection>, TargetError> {
    context.pool.links.lock().await.remove(host);
    link(context, host).await
}

/// Puts a session back that was to be replaced.
pub(crate) async fn keep_link(context: &RunContext, link: &Arc<HostConnection>) {
    context.pool.links.lock().await.insert(link.host.clone(), Arc::clone(link));
}
