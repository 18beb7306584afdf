//! The options of a connection to a cluster.

use converge_ledger::ProjectName;
use secrecy::SecretString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A file of age identities that cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}, which `converge_age_identity` names, cannot be read: {error}", file.display())]
pub struct UnreadIdentities {
    /// The file.
    pub file: PathBuf,
    /// The reason.
    #[source]
    pub error: Arc<std::io::Error>,
}

/// The options of a connection.
#[derive(Clone)]
pub struct ClusterOptions {
    /// For each request.
    pub deadline: Duration,
    /// How long a deleted object may take until it is gone.
    pub deletion: Duration,
    /// The helm program; found in `PATH` when `None`.
    pub helm: Option<PathBuf>,
    /// age recipients (`age1…`) to whom saved values of Secrets are encrypted; none are saved when there are none.
    pub recipients: Vec<String>,
    /// age identities (`AGE-SECRET-KEY-1…`) with which a rollback reads them.
    pub identities: Vec<SecretString>,
    /// The file of the identities, where it cannot be read: only what needs them is lost.
    pub unread_identities: Option<UnreadIdentities>,
    /// Who works: `alice@admin1`.
    pub operator: String,
    /// Where helm keeps charts and indexes.
    pub cache: PathBuf,
    /// The project that works: what it applied before projects had managers of their own is known by it.
    pub scope: ProjectName,
    /// The name of that project, if it has one: it is part of the field manager.
    pub project: Option<String>,
    /// Drop no record of a run, however many there are.
    pub keep_all_runs: bool,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(30),
            deletion: Duration::from_secs(120),
            helm: None,
            recipients: Vec::new(),
            identities: Vec::new(),
            unread_identities: None,
            operator: String::new(),
            cache: std::env::temp_dir().join("converge-helm"),
            scope: ProjectName::default(),
            project: None,
            keep_all_runs: false,
        }
    }
}
