//! The options of a run.

use converge_ledger::ProjectName;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// The options of a run, for all its hosts.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of hosts that are worked on at once.
    pub forks: usize,
    /// The password for sudo, when the inventory names none.
    pub become_password: Option<SecretString>,
    /// The user to become, whatever the inventory says.
    pub become_user: Option<String>,
    /// The user to log in as by SSH, where the inventory names none.
    pub login_user: Option<String>,
    /// Variables of connections, where the inventory sets none of their names.
    pub connection_defaults: BTreeMap<String, String>,
    /// Record and trust the key of a host that known_hosts does not know. A changed one is still refused.
    pub accept_new_host_keys: bool,
    /// Stop before the first deferred resource.
    pub no_deferred: bool,
    /// Who runs it, `user@machine`: recorded with snapshots.
    pub operator: String,
    /// Read old contents that only a diff needs.
    pub diffs: bool,
    /// The project: playbook and inventory by their paths below its folder, the same in every checkout. Recorded with snapshots.
    pub scope: ProjectName,
    /// The folder of the project on this machine, below which files of hosts come to lie. Without it none can be fetched.
    pub folder: Option<camino::Utf8PathBuf>,
    /// Prune orphaned objects.
    pub prune: bool,
    /// IDs of objects (`path:/srv/big`) that may be destroyed although no snapshot holds them.
    pub allow_destroy: Vec<String>,
    /// Keep the records of all runs in a cluster, instead of the newest few: a test makes many, and rolls back to before the first.
    pub keep_all_runs: bool,
    /// The helm program; found in `PATH` when `None`.
    pub helm: Option<PathBuf>,
    /// Ask before each item or each role of an apply.
    pub steps: Option<Steps>,
    /// Have hosts report the phases of each item: a few bytes per item.
    pub phases: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            forks: 20,
            become_password: None,
            become_user: None,
            login_user: None,
            connection_defaults: BTreeMap::new(),
            accept_new_host_keys: false,
            no_deferred: false,
            operator: "unknown".to_owned(),
            diffs: true,
            scope: ProjectName::default(),
            folder: None,
            prune: false,
            allow_destroy: Vec::new(),
            keep_all_runs: false,
            helm: None,
            steps: None,
            phases: false,
        }
    }
}

/// Who is asked before each item, or each role.
#[derive(Clone, Debug)]
pub struct Steps {
    /// Ask once a role, not once an item.
    pub by_role: bool,
    /// Questions go here. When nobody listens, the run ends.
    pub ask: UnboundedSender<Question>,
}

/// May this begin?
#[derive(Debug)]
pub struct Question {
    /// The item's address, or the role.
    pub what: String,
    /// The hosts that have it to do.
    pub hosts: Vec<String>,
    /// The answer goes here.
    pub answer: oneshot::Sender<StepAnswer>,
}

/// The answer of a user to a [`Question`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepAnswer {
    /// Do it.
    Yes,
    /// Skip it and everything that depends on it.
    No,
    /// Do it and all that follows, without more questions.
    Continue,
    /// End the run.
    Quit,
}

/// Asks a run to end after what is in flight. Clones share the switch.
#[derive(Clone, Debug, Default)]
pub struct StopSwitch(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stopped: AtomicBool,
    notify: Notify,
}

impl StopSwitch {
    /// A switch that is not thrown.
    pub fn new() -> Self {
        Self::default()
    }

    /// Throws it, for good.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        self.0.notify.notify_waiters();
    }

    /// Whether it is thrown.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// Returns once it is thrown.
    pub async fn stopped(&self) {
        let notified = self.0.notify.notified();
        if !self.is_stopped() {
            notified.await;
        }
    }
}
