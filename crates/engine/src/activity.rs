//! Work of a run that takes time and is no item: it is reported when it begins and when it is over.

/// Work of a run that takes time and is no item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Activity {
    /// All targets are planned.
    PlanAll,
    /// A plan is applied to all targets.
    ApplyAll,
    /// The checks of all roles are run.
    CheckAll,
    /// As many hosts as `--forks` allows are worked on: the next one waits for its turn.
    Turn,
    /// A connection is made: login, and the shell at the right privilege.
    Connect,
    /// A target is looked at and planned.
    Plan,
    /// The records of earlier runs are read.
    Records,
    /// A round of questions is answered: one round trip.
    Round {
        /// Which round, from 1.
        round: usize,
        /// The number of questions.
        questions: usize,
    },
    /// The target's lock is taken, and the record of the run begun.
    Open,
    /// The record of the run is ended, and the lock given back.
    Close,
    /// Items are sent as one batch, and their answers awaited.
    Stretch {
        /// The number of items.
        items: usize,
    },
    /// Items are done together.
    Together {
        /// The number of items.
        items: usize,
        /// They are one transaction of packages; else plain files.
        packages: bool,
    },
    /// Something changed, or is resolved: the rest is planned again.
    Replan,
    /// Nothing can begin before other targets have come further.
    Wait {
        /// The role that it goes on with.
        role: String,
        /// The roles that it waits for: `role a on h1, h2`.
        on: String,
    },
    /// Another host is asked for what an item needs.
    AskOther {
        /// The item's address.
        address: String,
    },
    /// A person is asked whether an item or a role may begin.
    Question,
    /// A copy is brought to this machine.
    Backup {
        /// The kind of copy: `snapshot of etcd`.
        what: String,
    },
    /// A new session is to confirm a guarded change.
    Confirm {
        /// Seconds after which the host reverts it.
        seconds: u64,
    },
    /// A guarded change that was not confirmed is reverted.
    Revert,
    /// The host restarts.
    HostRestart {
        /// Seconds within which it must be back.
        seconds: u64,
    },
    /// The host is back, and its units are waited for.
    UnitsAfterRestart,
    /// The result is looked at again and compared with the plan.
    Verify,
    /// Something that the run has set going has not come to its end.
    Settle {
        /// The conditions that do not hold yet: the item's address and the reason.
        on: Vec<String>,
    },
}

/// A part of an item's work on its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemPhase {
    /// The states that it replaces are saved, and the journal is written to the disk.
    Save,
    /// A transaction of packages is simulated.
    Simulate,
    /// Its steps run.
    Change,
    /// A unit that was started is watched.
    Watch,
    /// Its objects are looked at again, and the journal is written.
    Check,
}

impl ItemPhase {
    /// The phase of this word of a host.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "save" => Self::Save,
            "simulate" => Self::Simulate,
            "change" => Self::Change,
            "watch" => Self::Watch,
            "check" => Self::Check,
            _ => return None,
        })
    }
}
