//! The open sessions of a run, and what opens more of them.

use crate::session::cluster::ClusterLink;
use crate::session::endpoint::Endpoint;
use converge_host::Link;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Mutex, Semaphore};

/// The sessions that all tasks of an engine share: they stay open from the plan to the apply.
pub(crate) struct Pool {
    pub links: Mutex<BTreeMap<String, Arc<Link>>>,
    /// Whoever opens a session with a host holds its door.
    pub doors: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    pub clusters: Mutex<BTreeMap<String, Arc<ClusterLink>>>,
    /// The ways to the hosts, as far as they were asked for.
    pub endpoints: Mutex<BTreeMap<String, Endpoint>>,
    /// As many hosts are worked on at once.
    pub forks: Semaphore,
    /// Limits and keys of all sessions.
    pub ssh: converge_ssh::Options,
}

impl Pool {
    pub fn new(forks: usize, ssh: converge_ssh::Options) -> Self {
        Self {
            links: Mutex::default(),
            doors: Mutex::default(),
            clusters: Mutex::default(),
            endpoints: Mutex::default(),
            forks: Semaphore::new(forks.max(1)),
            ssh,
        }
    }
}
