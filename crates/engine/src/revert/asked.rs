//! Steps of a rollback and a prune for which the target is asked once more.

use crate::TargetError;
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::revert::accounts::Accounts;
use crate::revert::{RevertGroup, admission, left, packages, releases, undo};
use converge_host::records::blob_path;
use converge_ledger::Undo;
use converge_planner::{HostPlan, Item, Knowledge};
use converge_resource::{Answer, Probe};
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
    retained: &releases::RetainedChanges,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    converge_planner::join_guarded(&mut plan.items, &BTreeSet::new());
    releases::releases_back(target, plan, retained, known).await?;
    crate::backup_notes::note_backups(plan);
    plan.base = undo::base_of(plan, known);
    undo::take_contents(plan, known);
    if context.options.diffs {
        contents_for_diffs(target, plan, known).await?;
    }
    Ok(())
}

/// Reads the present and the saved content of files for the diff.
async fn contents_for_diffs(
    target: &Target,
    plan: &mut HostPlan,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let mut probes = BTreeSet::new();
    for planned in plan.items.iter().filter(|i| !i.sensitive).flat_map(Item::changes) {
        let change = &planned.change;
        let Some(object) = converge_objects::object(&change.object.kind) else { continue };
        let (from, to) = (object.content(&change.from), object.content(&change.to));
        if change.object.kind != "path" || from == to {
            continue;
        }
        probes.extend(from.map(|_| Probe::Content(change.object.key.clone())));
        probes.extend(to.map(|digest| Probe::Content(blob_path(&digest))));
    }
    target.look(&probes, known).await?;
    for probe in &probes {
        if let Some(Answer::Content(Some(content))) = known.answer(probe) {
            plan.contents.insert(content.digest().clone(), content.clone());
        }
    }
    Ok(())
}
