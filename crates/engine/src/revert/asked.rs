//! Steps of a rollback and a prune for which the target is asked once more.

use crate::TargetError;
use crate::connect::target::Target;
use crate::revert::accounts::Accounts;
use crate::revert::{RevertGroup, admission, left, packages};
use converge_ledger::Undo;
use converge_planner::{Item, Knowledge};

/// Writes the owners in these changes as the host shows them now.
pub(crate) async fn translate_accounts(
    target: &Target,
    accounts: &Accounts,
    undos: &mut [Undo],
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    target.look(&Accounts::probes(undos, known), known).await?;
    accounts.translate(undos, known);
    Ok(())
}

/// Lets stay what the target would not take as it was, and what would take others along, and names it. `before` are the items that come before these
/// groups, `again` is the command that takes up what is left.
pub(crate) async fn leave_what_cannot_go(
    target: &Target,
    groups: &mut Vec<RevertGroup>,
    before: &[Item],
    again: &str,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    admission::leave_what_is_refused(target, groups, known, again).await?;
    packages::leave_what_takes_others_along(target, groups, before, known).await?;
    left::name_what_stays(groups);
    Ok(())
}
