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
}

impl StateAction {
    /// The arguments, which all of them share.
    pub fn read(&mut self) -> &mut StateRead {
        match self {
            Self::List(read) | Self::Show(read) | Self::Diff(read) => read,
        }
    }
}

/// Arguments of the subcommands of `converge state`
#[derive(Debug, Args)]
pub struct StateRead {
    #[command(flatten)]
    pub reading: Reading,
    /// Only what this resource manages; several times for several
    #[arg(long, value_name = "ROLE/ID")]
    pub resource: Vec<String>,
}
