//! The fate of an object that is declared no more, in a prune. Pure.

use crate::revert::undo::{Verdict, lost};
use crate::revert::{JudgedUndo, shared};
use converge_ledger::Undo;
use converge_objects::is_action;
use converge_planner::{Fate, Knowledge};

const OTHERS: &str = "its remaining fields belong to other managers";

/// The effect of `--prune` on an object.
pub(super) fn fate(judged: &JudgedUndo, known: &Knowledge) -> Fate {
    let cannot = |why: &str| Fate::Forgotten(format!("cannot be restored: {why}"));
    match (&judged.verdict, lost(&judged.undo)) {
        (Verdict::Same, _) => Fate::Forgotten("it already has its original state".to_owned()),
        (Verdict::With(_), _) => Fate::Removed,
        (Verdict::Lost(why), _) => cannot(why),
        (Verdict::Stays(_), Some(why)) => cannot(&why),
        (Verdict::Stays(why) | Verdict::NotAllowed(why), _) => Fate::LeftAlone(why.clone()),
        (Verdict::Back(change), _)
            if change.from == change.to && !shared::has_fields(&change.object, known) =>
        {
            Fate::Forgotten(OTHERS.to_owned())
        }
        (Verdict::Back(change), _) if change.to.is_absent() || is_action(&change.object) => Fate::Removed,
        (Verdict::Back(_), _) => Fate::GivenBack,
    }
}

/// The sentence about an object that leaves the records and is not as it was before.
pub(super) fn why_it_stays(undo: &Undo) -> String {
    let why = lost(undo).unwrap_or_else(|| OTHERS.to_owned());
    format!("{} stays as it is: {why}", undo.object)
}
