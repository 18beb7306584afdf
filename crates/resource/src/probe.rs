//! Questions to a host or a cluster and their answers, as data.

use crate::{ApiProbe, Content, LocalProbe, ObjectId, Observation};
use serde::{Deserialize, Serialize};

/// A question to a host, or to a cluster. It changes nothing there. Equal questions are asked once; questions about objects of
/// one kind travel as one command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Probe {
    /// The state of an object.
    Object(ObjectId),
    /// The bytes of a regular file (an absolute path), up to [`Probe::CONTENT_LIMIT`].
    Content(String),
    /// A read-only shell script. The prelude's functions are at hand.
    Run {
        /// POSIX shell text.
        script: String,
        /// The user to run it as; `None` is the session's own privilege.
        user: Option<String>,
        /// Seconds after which it is killed.
        timeout: u64,
    },
    /// A question to the API of a cluster.
    Api(ApiProbe),
    /// A question to the machine that runs converge.
    Local(LocalProbe),
}

impl Probe {
    /// Files above this many bytes are compared by digest only.
    pub const CONTENT_LIMIT: u64 = 1 << 20;

    /// A read-only script with the default deadline of 60 s.
    pub fn run(script: impl Into<String>) -> Self {
        Self::Run { script: script.into(), user: None, timeout: 60 }
    }
}

/// The answer of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Probe::Object`].
    Object(Observation),
    /// To [`Probe::Content`]; `None` when the path is no regular file or is above the limit.
    Content(Option<Content>),
    /// To [`Probe::Run`].
    Run(RunAnswer),
    /// To [`Probe::Api`]: see there for its shape.
    Api(serde_json::Value),
    /// To [`Probe::Local`]: see there for its shape.
    Local(serde_json::Value),
    /// The question could not be answered (no permission, a broken tool): why.
    Failed(String),
}

/// The result of a read-only script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAnswer {
    /// Its exit status.
    pub status: i32,
    /// Its standard output (bounded), as text.
    pub stdout: String,
    /// Its standard error (bounded), as text.
    pub stderr: String,
}
