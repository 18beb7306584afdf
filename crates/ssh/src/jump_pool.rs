//! The connections to jump hosts that hosts share.

use crate::connection::Connection;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The connection of one chain, once it is made. Whoever makes it holds the lock.
pub(crate) type Slot = Arc<tokio::sync::Mutex<Option<Arc<Connection>>>>;

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
    /// The place of the connection with this key.
    pub(crate) fn slot(&self, key: String) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(key).or_default())
    }
}
