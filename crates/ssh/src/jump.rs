//! Jump hosts: one connection to each, shared by all hosts behind it, so that sshd's `MaxStartups` there never matters.

use crate::connect::{self, Connection};
use crate::error::ConnectError;
use crate::target::{Options, Target};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

type Slot = Arc<tokio::sync::Mutex<Option<Arc<Connection>>>>;

/// Connections to jump hosts, by their chain of jump hosts. Clones share them; each ends with the last host behind it and
/// the pool.
#[derive(Clone, Default)]
pub struct JumpPool(Arc<Mutex<HashMap<String, Slot>>>);

impl std::fmt::Debug for JumpPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JumpPool")
    }
}

impl JumpPool {
    /// The connection to the last of these hosts, through those before it. Made once: whoever comes meanwhile waits for it.
    pub(crate) async fn connection(
        &self,
        hops: &[Target],
        options: &Options,
    ) -> Result<Option<Arc<Connection>>, ConnectError> {
        let Some((last, before)) = hops.split_last() else { return Ok(None) };
        let slot = {
            let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(key(hops)).or_default())
        };
        let mut connection = slot.lock().await;
        if let Some(open) = connection.as_ref().filter(|open| !open.handle.is_closed()) {
            return Ok(Some(Arc::clone(open)));
        }
        let target = Target { jumps: before.to_vec(), ..last.clone() };
        // Its steps are its own: the host behind it only tells that it was passed.
        let mut trail = Vec::new();
        let open = Arc::new(connect::connect(&target, options, &mut trail).await?);
        *connection = Some(Arc::clone(&open));
        Ok(Some(open))
    }
}

fn key(hops: &[Target]) -> String {
    let one = |hop: &Target| {
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
