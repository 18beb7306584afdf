//! Steps of a rollback and a prune for which the target is asked once more.

use crate::TargetError;
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::revert::accounts::Accounts;
use crate::revert::{RevertGroup, admission, left, packages, releases, undo};
use converge_ledger::Undo;
use converge_planner::{HostPlan, Item, Knowledge};
use std::collections::BTreeSet;

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

/// Completes a plan of reverts: a file and the restart that makes it count go behind one switch, as they were changed, releases learn their contents, and
/// the diffs theirs.
pub(crate) async fn complete(
    context: &RunContext,
    target: &Target,
    plan: &mut HostPlan,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    converge_planner::join_guarded(&mut plan.items, &BTreeSet::new());
    releases::releases_back(target, plan, known).await?;
    crate::plan::backup_notes::note_backups(plan);
    plan.base = undo::base_of(plan, known);
    undo::take_contents(plan, known);
    if context.options.diffs {
        crate::plan::contents::contents_for_diffs(target, plan, known).await?;
    }
    Ok(())
}
