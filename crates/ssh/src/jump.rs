//! Jump hosts: one connection to each, shared by all hosts behind it, so that sshd's `MaxStartups` there never matters.

use crate::connect;
use crate::connection::Connection;
use crate::error::ConnectError;
use crate::target::{SessionOptions, SshEndpoint};
use std::sync::Arc;

/// The connection to the last of these hosts, through those before it. Made once: whoever comes meanwhile waits for it.
pub(crate) async fn connection(
    hops: &[SshEndpoint],
    options: &SessionOptions,
) -> Result<Option<Arc<Connection>>, ConnectError> {
    let Some((last, before)) = hops.split_last() else { return Ok(None) };
    let slot = options.jumps.slot(key(hops));
    let mut connection = slot.lock().await;
    if let Some(open) = connection.as_ref().filter(|open| !open.handle.is_closed()) {
        return Ok(Some(Arc::clone(open)));
    }
    let target = SshEndpoint { jumps: before.to_vec(), ..last.clone() };
    // Its steps are its own: the host behind it only tells that it was passed.
    let mut trail = Vec::new();
    let open = Arc::new(connect::connect(&target, options, &mut trail).await?);
    *connection = Some(Arc::clone(&open));
    Ok(Some(open))
}

fn key(hops: &[SshEndpoint]) -> String {
    let one = |hop: &SshEndpoint| {
        format!(
            "{}@{}:{} {:?} {:?} {:?} {:?}",
            hop.user.as_deref().unwrap_or_default(),
            hop.address,
            hop.port,
            hop.key_files,
            hop.known_hosts,
            hop.host_key_alias,
            hop.host_keys
        )
    };
    hops.iter().map(one).collect::<Vec<_>>().join(" > ")
}
