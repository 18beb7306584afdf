//! Arguments of `converge state`.

use super::Reading;
use clap::{Args, Subcommand};

/// `converge state`
#[derive(Debug, Args)]
pub struct State {
    /// The subcommand.
    #[command(subcommand)]
    pub action: StateAction,
}

/// The subcommands of `converge state`.
#[derive(Debug, Subcommand)]
pub enum StateAction {
    /// List the managed objects
    List(StateRead),
    /// Show their original state, and the one that the last run left
    Show(StateRead),
    /// Compare the recorded states with the present ones
    ///
    /// Ends with 2 when something differs. What is declared plays no part: `converge drift` compares with that.
    Diff(StateRead),
    /// Let objects be managed no more
    ///
    /// Nothing on the hosts changes but their records: the objects stay as they are, and a prune, a rollback and a plan do not name them any more. Neither does
    /// a rollback bring this back. A role that still declares one of them manages it again as soon as it changes it.
    Forget(StateForget),
}

impl StateAction {
    /// The arguments, which all of them share.
    pub fn read(&mut self) -> &mut StateRead {
        match self {
            Self::List(read) | Self::Show(read) | Self::Diff(read) => read,
            Self::Forget(forget) => &mut forget.read,
        }
    }
}

/// Arguments of the subcommands of `converge state`
#[derive(Debug, Args)]
pub struct StateRead {
    #[command(flatten)]
    pub reading: Reading,
    /// Only what this resource manages, or an object as the list names it; several times for several
    #[arg(long, value_name = "ROLE/ID")]
    pub resource: Vec<String>,
}

/// Arguments of `converge state forget`
#[derive(Debug, Args)]
pub struct StateForget {
    #[command(flatten)]
    pub read: StateRead,
    /// Forget all that this resource manages, or an object as `converge state list` names it. As --resource
    #[arg(value_name = "ROLE/ID")]
    pub resources: Vec<String>,
    /// Only on these hosts. As --limit
    #[arg(long, value_name = "PATTERN", conflicts_with = "limit")]
    pub host: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}
