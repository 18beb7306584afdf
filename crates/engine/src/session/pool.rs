//! The open sessions of a run, and what opens more of them.

use crate::TargetError;
use crate::session::cluster::ClusterLink;
use crate::session::endpoint::Endpoint;
use converge_host::HostConnection;
use converge_planner::OtherFacts;
use converge_resource::ObjectId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use tokio::sync::{Mutex, Semaphore};

/// The sessions that all tasks of an engine share: they stay open from the plan to the apply.
pub(crate) struct Pool {
    pub links: Mutex<BTreeMap<String, Arc<HostConnection>>>,
    /// Whoever opens a session with a host holds its door.
    pub doors: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    pub clusters: Mutex<BTreeMap<String, Arc<ClusterLink>>>,
    /// The ways to the hosts, as far as they were asked for.
    pub endpoints: Mutex<BTreeMap<String, Endpoint>>,
    /// Whoever asks a host for its facts holds its door: the next one finds them.
    pub askers: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
    /// The facts that hosts alter in this run and that other targets read.
    other_facts: std::sync::Mutex<Arc<OtherFacts>>,
    /// The hosts that could not be reached in this run: nobody tries it again for their facts.
    lost: std::sync::Mutex<BTreeMap<String, TargetError>>,
    /// By target, the objects of which its records say that a sensitive item changed them. Looks in the middle of a run read no records.
    secrets: std::sync::Mutex<BTreeMap<String, BTreeSet<ObjectId>>>,
    /// As many hosts are worked on at once.
    pub forks: Semaphore,
    /// Limits and keys of all sessions.
    pub ssh: converge_ssh::SessionOptions,
}

impl Pool {
    pub fn new(forks: usize, ssh: converge_ssh::SessionOptions) -> Self {
        Self {
            links: Mutex::default(),
            doors: Mutex::default(),
            clusters: Mutex::default(),
            endpoints: Mutex::default(),
            askers: Mutex::default(),
            other_facts: std::sync::Mutex::default(),
            lost: std::sync::Mutex::default(),
            secrets: std::sync::Mutex::default(),
            forks: Semaphore::new(forks.max(1)),
            ssh,
        }
    }

    /// The facts that hosts alter in this run and that other targets read.
    pub fn other_facts(&self) -> MutexGuard<'_, Arc<OtherFacts>> {
        self.other_facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hosts that could not be reached in this run.
    pub fn lost(&self) -> MutexGuard<'_, BTreeMap<String, TargetError>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By target, the objects of which its records say that a sensitive item changed them.
    pub fn secrets(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<ObjectId>>> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new plan begins: an earlier one of this process is over.
    pub async fn begin(&self) {
        *self.other_facts() = Arc::default();
        self.lost().clear();
        self.links.lock().await.values().for_each(|link| link.begin());
    }
}
