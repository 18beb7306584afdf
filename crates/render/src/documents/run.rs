//! The output of one command on many hosts.

use super::*;
use converge_engine::HostRan;

/// `converge run --output json`: the output of a command on each host.
#[derive(Serialize, JsonSchema)]
pub struct RunDocument {
    /// The document's format
    pub format: RunFormat,
    /// Its version
    pub version: One,
    /// The command
    pub command: String,
    /// The exit code of `converge run`
    pub exit_code: u8,
    /// The hosts
    pub hosts: Vec<RunEntry>,
}

/// The end of the command on a host.
#[derive(Serialize, JsonSchema)]
pub struct RunEntry {
    /// The inventory's name
    pub host: String,
    /// How it ended
    pub result: RunResult,
    /// The exit status; null if the command did not end by itself
    pub exit: Option<i32>,
    /// Its standard output
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Its standard error
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// True if the output was longer than is kept
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<bool>,
    /// The reason why the host could not be asked
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<Lost>,
    /// The seconds that the host took
    pub seconds: f64,
}

/// How a command ended on a host.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// By itself
    Ended,
    /// It took too long and was ended
    TimedOut,
    /// The host could not be asked
    Lost,
}

impl From<&HostRan> for RunEntry {
    fn from(of: &HostRan) -> Self {
        let (ran, lost) = match &of.result {
            Ok(ran) => (Some(ran), None),
            Err(lost) => (None, Some(lost.into())),
        };
        let exit = ran.and_then(|ran| ran.status);
        Self {
            host: of.host.clone(),
            result: match (&lost, exit) {
                (Some(_), _) => RunResult::Lost,
                (None, Some(_)) => RunResult::Ended,
                (None, None) => RunResult::TimedOut,
            },
            exit,
            stdout: ran.map(|ran| ran.stdout.clone()),
            stderr: ran.map(|ran| ran.stderr.clone()),
            cut: ran.map(|ran| ran.cut),
            lost,
            seconds: of.took.as_secs_f64(),
        }
    }
}
