//! The directories in which changes were made, where links led there: what is reverted at another place would be another object. Pure.

use crate::revert::JudgedUndo;
use crate::revert::layers::Sight;
use crate::revert::undo::Verdict;
use converge_ledger::{Undo, turns_link};
use converge_planner::Knowledge;
use converge_resource::encode_field;
use std::collections::BTreeSet;

/// The reason why an object stays whose path leads to another directory than the one in which it was changed.
pub(crate) fn leads_elsewhere(made_in: &str, now: &str) -> String {
    format!(
        "it was changed in {made_in}, and its path leads to {now} now: lead the link above it back there and try again, or restore it there by hand"
    )
}

/// Leaves the objects that were changed in several directories, and those that the host shows in another one while nothing in the plan leads their paths
/// back. Of all others the host compares the directory just before it reverts them.
pub(crate) fn leave_what_is_elsewhere(
    undos: &[Undo],
    sights: &[Sight],
    verdicts: &mut [Verdict],
    known: &Knowledge,
) {
    let is_plain = |verdict: &Verdict| match verdict {
        Verdict::Back(change) => {
            change.object.kind == "path" && !turns_link(&change.object, &change.from, &change.to)
        }
        _ => true,
    };
    let links_stay = verdicts.iter().all(is_plain);
    for ((undo, sight), verdict) in undos.iter().zip(sights).zip(verdicts) {
        if !matches!(verdict, Verdict::Back(_)) {
            continue;
        }
        let dirs = dirs(undo);
        let mut dirs = dirs.into_iter();
        let (Some(first), second) = (dirs.next(), dirs.next()) else { continue };
        let now = (links_stay && *sight == Sight::Now).then(|| directory(undo, known)).flatten();
        let why = match (second, now) {
            (Some(second), _) => format!(
                "it was changed in {first} and in {second}, where links led one after the other: restore it there by hand"
            ),
            (None, Some(now)) if now != first => leads_elsewhere(first, &now),
            _ => continue,
        };
        *verdict = Verdict::Stays(why);
    }
}

/// The variable for the host with the directories of these objects.
pub(crate) fn setting(members: &[JudgedUndo]) -> Option<(String, String)> {
    let lines = members.iter().filter(|m| matches!(m.verdict, Verdict::Back(_))).flat_map(|m| {
        let object = &m.undo.object;
        let line = |dir| format!("{}\t{}\t{}", object.kind, encode_field(&object.key), encode_field(dir));
        dirs(&m.undo).into_iter().map(line)
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| ("CV_MADE_AT".to_owned(), lines.join("\n")))
}

fn dirs(undo: &Undo) -> BTreeSet<&str> {
    undo.made_in.iter().map(|(_, dir)| dir.as_str()).collect()
}

/// The directory in which the host shows a path now. Of one that is absent the host may not say it.
fn directory(undo: &Undo, known: &Knowledge) -> Option<String> {
    let is_there = undo.object.kind == "path"
        && known.observed(&undo.object).is_ok_and(|found| !found.state.is_absent());
    let path = is_there.then(|| known.real(&undo.object).unwrap_or(&undo.object.key))?;
    let (dir, _) = path.rsplit_once('/')?;
    Some(if dir.is_empty() { "/" } else { dir }.to_owned())
}

