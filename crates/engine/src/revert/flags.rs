//! Flags of the items of a rollback, which the host writes into the record of each change. Pure.

use crate::revert::JudgedUndo;
use crate::revert::undo::{Verdict, begun};
use converge_ledger::{BEGUN, IN_PART};
use converge_planner::Item;

/// The name of the setting.
const NAME: &str = "CV_FLAGS";

/// The flags of an item with these members, where it has more than those of its resource.
pub(super) fn setting(members: &[JudgedUndo], sensitive: bool) -> Option<(String, String)> {
    let is_begun = |member: &&JudgedUndo| match &member.verdict {
        Verdict::Back(change) => begun(&member.undo, &change.to).as_ref() == Some(change),
        _ => false,
    };
    let in_part = members.iter().find(|member| member.in_part).map(|_| IN_PART);
    let begun = members.iter().find(is_begun).map(|_| BEGUN);
    let own: Vec<&str> = [in_part, begun].into_iter().flatten().collect();
    let all: Vec<&str> = own.iter().copied().chain(sensitive.then_some("sensitive")).collect();
    (!own.is_empty()).then(|| (NAME.to_owned(), all.join(",")))
}

/// Whether an item of a rollback reverts its object only in part.
pub(crate) fn is_in_part(item: &Item) -> bool {
    has(item, IN_PART)
}

/// Whether an item takes back a command that was begun and did not come to its end.
pub(crate) fn is_of_begun(item: &Item) -> bool {
    has(item, BEGUN)
}

fn has(item: &Item, wanted: &str) -> bool {
    let flags = item.settings.iter().find(|(name, _)| name == NAME);
    flags.is_some_and(|(_, flags)| flags.split(',').any(|flag| flag == wanted))
}
