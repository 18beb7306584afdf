//! Arguments of `converge state`.

use super::ReadArgs;
use clap::{Args, Subcommand};

/// `converge state`
#[derive(Debug, Args)]
pub struct StateArgs {
    /// The subcommand.
    #[command(subcommand)]
    pub action: StateAction,
}

/// The subcommands of `converge state`.
#[derive(Debug, Subcommand)]
pub enum StateAction {
    /// List the managed objects
    List(StateReadArgs),
    /// Show their original state, and the one that the last run left
    Show(StateReadArgs),
    /// Compare the recorded states with the present ones
    ///
    /// Ends with 2 when something differs. The declarations are not compared: `converge drift` does that.
    Diff(StateReadArgs),
    /// Manage objects that match their declaration already
    ///
    /// No run changes an object that Ansible or a person has made just as a role declares it, and so none records it. Adopted, it is managed from here on, with its present state as the
    /// original one: lists and `converge state diff` have it, and a rollback or a prune after later changes leads back to it. Nothing on the hosts changes but their records.
    Adopt(StateAdoptArgs),
    /// Stop managing objects
    ///
    /// Nothing on the hosts changes but their records: the objects stay as they are, and a prune, a rollback and a plan do not name them any more. No
    /// rollback undoes this. A role that still declares one of them manages it again as soon as it changes it.
    Forget(StateForgetArgs),
    /// Record objects under another role or resource
    ///
    /// After a role was renamed, or a resource moved to another role, the records know the objects by the old name: `--role` of a rollback goes by it, and so do lists.
    /// Nothing on the hosts changes but their records. Moving them back gives them the old name again; a rollback does not.
    Move(StateMoveArgs),
}

impl StateAction {
    /// The arguments, which all of them share.
    pub fn reading(&mut self) -> &mut ReadArgs {
        match self {
            Self::List(read) | Self::Show(read) | Self::Diff(read) => &mut read.reading,
            Self::Adopt(args) => &mut args.reading,
            Self::Forget(forget) => &mut forget.read.reading,
            Self::Move(args) => &mut args.reading,
        }
    }
}

/// Arguments of the subcommands of `converge state`
#[derive(Debug, Args)]
pub struct StateReadArgs {
    #[command(flatten)]
    pub reading: ReadArgs,
    /// Only what this resource manages, or an object as the list names it; several times for several
    #[arg(long, value_name = "ROLE/ID")]
    pub resource: Vec<String>,
}

/// Arguments of the subcommands that amend records
#[derive(Debug, Args)]
pub struct AmendArgs {
    /// Only on these hosts. As --limit
    #[arg(long, value_name = "PATTERN", conflicts_with = "limit")]
    pub host: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// Arguments of `converge state forget`
#[derive(Debug, Args)]
pub struct StateForgetArgs {
    #[command(flatten)]
    pub read: StateReadArgs,
    /// Forget all that this resource manages, or an object as `converge state list` names it. As --resource
    #[arg(value_name = "ROLE/ID")]
    pub resources: Vec<String>,
    #[command(flatten)]
    pub amend: AmendArgs,
}

/// Arguments of `converge state move`
#[derive(Debug, Args)]
pub struct StateMoveArgs {
    #[command(flatten)]
    pub reading: ReadArgs,
    /// OLD and NEW: two roles, or two resources (ROLE/ID) with all their elements
    #[arg(value_name = "OLD NEW")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub amend: AmendArgs,
}

/// Arguments of `converge state adopt`
#[derive(Debug, Args)]
pub struct StateAdoptArgs {
    #[command(flatten)]
    pub reading: ReadArgs,
    /// The resources whose objects are adopted, with all their elements
    #[arg(value_name = "ROLE/ID")]
    pub resources: Vec<String>,
    #[command(flatten)]
    pub amend: AmendArgs,
}
