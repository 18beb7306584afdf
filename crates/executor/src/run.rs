//! A run, as a target records it.

use converge_ledger::{ProjectName, RunPurpose};
use converge_resource::State;

/// The end of a run, as a target records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The run came to its end, which makes it a good one if none of its changes failed.
    Finished,
    /// The target could not do what the run was for.
    Failed,
    /// The run could not begin on another target, so nothing was done here.
    Refused,
}

impl RunEnd {
    /// The word for it in records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }
}

/// Who begins a run, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunMeta {
    /// The run's ID: a UUID of version 7, so that IDs sort by time.
    pub id: String,
    /// When it began: `2026-11-21T04:05:06Z`.
    pub time: String,
    /// Who runs it: `alice@admin1`.
    pub operator: String,
    /// The inventory by its path below the project.
    pub inventory: String,
    /// The playbook by its path below the project.
    pub playbook: String,
    /// Its purpose.
    pub purpose: RunPurpose,
    /// Whose are the things that it makes.
    pub scope: ProjectName,
    /// The runs that this one rolls back.
    pub rolls_back: Vec<String>,
    /// The addresses of the items that it is about to work on: what is not in the journal in the end was not begun.
    pub planned: Vec<String>,
    /// The states in which the plan has found objects of the run that did not end.
    pub arrived: Option<ArrivedChanges>,
}

/// The changes in which a run was cut off and whose objects are in their planned states since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrivedChanges {
    /// The run's ID.
    pub run: String,
    /// The numbers of the changes in it, and these states.
    pub changes: Vec<(u32, State)>,
}
