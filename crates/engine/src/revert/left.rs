//! Parts of items that stay while others of the same item are reverted. Pure.

use super::undo::Verdict;
use super::{JudgedUndo, RevertGroup};
use std::collections::BTreeSet;

/// The part that stays of a group of which something else goes is an item of its own, which is refused: the run stays in force with it.
pub(crate) fn name_what_stays(groups: &mut Vec<RevertGroup>) {
    let mut left: Vec<RevertGroup> = Vec::new();
    let goes = |group: &&mut RevertGroup| group.members.iter().any(|m| matches!(m.verdict, Verdict::Back(_)));
    for group in groups.iter_mut().filter(goes) {
        let stays = |m: &mut JudgedUndo| matches!(m.verdict, Verdict::Stays(_) | Verdict::NotAllowed(_));
        let members: Vec<JudgedUndo> = group.members.extract_if(.., stays).collect();
        if !members.is_empty() {
            left.push(RevertGroup {
                address: format!("{} (left)", group.address),
                members,
                after: BTreeSet::new(),
            });
        }
    }
    for group in left {
        match groups.iter_mut().find(|there| there.address == group.address) {
            Some(there) => there.members.extend(group.members),
            None => groups.push(group),
        }
    }
}
