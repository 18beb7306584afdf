//! Where a rollback of a host leads.

use converge_ledger::RunRecord;

/// Before which run a host returns to.
#[derive(Clone, Copy)]
pub(super) enum ReturnPoint {
    /// Before this run, whatever came after it: also earlier rollbacks are undone.
    To(usize),
    /// The changes in force of this run and later ones.
    From(usize),
}

impl ReturnPoint {
    /// The place of the run among those of the host.
    pub(super) fn place(self) -> usize {
        let (Self::To(at) | Self::From(at)) = self;
        at
    }
}

/// The command that leads to the state before a run, whatever was rolled back since.
pub(super) fn again(run: Option<&RunRecord>, roles: &[String]) -> String {
    let roles: String = roles.iter().map(|role| format!(" --role {role}")).collect();
    let to = run.map(|run| format!(" --to {}", run.id)).unwrap_or_default();
    format!("converge rollback{to}{roles}")
}
