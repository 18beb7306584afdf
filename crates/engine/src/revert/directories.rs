//! Directories that are to be removed and that hold more than what is reverted: they stay. Pure.

use crate::revert::undo::Verdict;
use converge_ledger::Undo;
use converge_objects::PathState;
use converge_planner::{Knowledge, may_be_packaged};
use converge_resource::{Answer, ObjectId, Probe, State, decode_field, quote};
use std::collections::BTreeSet;

/// Objects whose revert removes no file that it does not name. Where others are reverted (a command, a checkout), a directory may be empty by
/// then, and only its removal tells.
const NAME_THEIR_FILES: &[&str] = &["path", "unit", "sysctl", "group", "user", "hostname", "module"];

/// Asks what the directories hold that runs made: paths, each encoded on a line of its own. Names of files that were cut off before they got
/// their place are left out. It is asked beside the states of the directories, which are refused where a user could have led their paths elsewhere.
pub(crate) fn probe(undos: &[Undo]) -> Option<Probe> {
    let is_dir = |state: &State| matches!(PathState::try_from(state.clone()), Ok(PathState::Dir { .. }));
    let made = undos.iter().filter(|u| u.object.kind == "path" && u.before.is_absent() && is_dir(&u.left));
    let lists: String = made.map(|u| format!("cv_d_list {}\n", quote(&u.object.key))).collect();
    (!lists.is_empty()).then(|| {
        Probe::run(format!(
            "cv_d_list() {{\n  for cv_d_entry in \"$1\"/* \"$1\"/.[!.]* \"$1\"/..?*; do\n    case ${{cv_d_entry##*/}} in .*.cv-*) continue ;; esac\n    \
             if [ -e \"$cv_d_entry\" ] || [ -L \"$cv_d_entry\" ]; then cv_enc \"$cv_d_entry\"; fi\n  done\n}}\n{lists}"
        ))
    })
}

/// Lets directories stay that hold what is not reverted.
pub(crate) fn leave_what_is_not_empty(undos: &[Undo], verdicts: &mut [Verdict], known: &Knowledge) {
    let Some(Answer::Run(answer)) = probe(undos).as_ref().and_then(|probe| known.answer(probe)) else {
        return;
    };
    let back = |verdict: &Verdict| match verdict {
        Verdict::Back(change) => Some(change.object.clone()),
        _ => None,
    };
    let reverted: Vec<Option<ObjectId>> = verdicts.iter().map(back).collect();
    // A package that goes takes its files along, but not from where packages have none, nor from a directory that was made after it.
    let package = reverted.iter().position(|o| o.as_ref().is_some_and(|o| o.kind == "package"));
    let kinds = reverted.iter().flatten().map(|o| o.kind.as_str());
    if kinds.filter(|kind| *kind != "package").any(|kind| !NAME_THEIR_FILES.contains(&kind)) {
        return;
    }
    let is_of_package = |dir: &str, path: &str| {
        let is_dir = |u: &Undo| u.object.kind == "path" && u.object.key == dir;
        let older = |package: usize| undos.iter().skip(package).any(is_dir);
        let brought = || undos.iter().any(|u| is_dir(u) && u.moved_by.is_some());
        package.is_some_and(|package| may_be_packaged(path) && (older(package) || brought()))
    };
    // An object that stays for another reason keeps its directory by the order of the reverts.
    let named: BTreeSet<&str> =
        undos.iter().filter(|u| u.object.kind == "path").map(|u| u.object.key.as_str()).collect();
    let held: Vec<String> = answer.stdout.lines().filter_map(decode_field).collect();
    let others = held.iter().filter(|path| !named.contains(path.as_str()));
    let others = others.filter_map(|path| Some((path.rsplit_once('/')?.0, path)));
    for (dir, path) in others.filter(|(dir, path)| !is_of_package(dir, path)) {
        for verdict in verdicts.iter_mut() {
            let goes = matches!(verdict, Verdict::Back(change)
                if change.object.kind == "path" && change.object.key == dir && change.to.is_absent());
            if goes {
                *verdict = Verdict::Stays(format!("it holds {path}, which is not reverted"));
            }
        }
    }
}
