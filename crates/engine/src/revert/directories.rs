//! Directories that are to be removed or replaced, and file systems in memory that are to be unmounted, and that hold more than what is reverted: they stay. Pure.

use crate::revert::layers;
use crate::revert::sight::Sight;
use crate::revert::undo::Verdict;
use converge_ledger::Undo;
use converge_objects::path::within;
use converge_objects::{covered, is_container, traits_of};
use converge_planner::{Knowledge, may_be_packaged};
use converge_resource::{Answer, Footprint, ObjectId, Probe, State, decode_field, quote};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the revert takes away what holds other objects, or puts a file or a link in its place.
fn removes_container(undo: &Undo) -> bool {
    is_container(&undo.object, &undo.left) && is_removal(&undo.object, &undo.before)
}

/// Whether no directory is left where an object that holds others gets this state.
fn is_removal(object: &ObjectId, to: &State) -> bool {
    to.is_absent() || (object.kind == "path" && !is_container(object, to))
}

/// Asks what the directories hold that runs made, and what the directories of all paths are by their real names, where links lead to them: on each
/// line encoded paths, of entries one, of directories two. Names of files that were cut off before they got their place are left out. It is asked
/// beside the states of the directories, which are refused where a user could have led their paths elsewhere.
pub(crate) fn probe(undos: &[Undo]) -> Option<Probe> {
    let made = undos.iter().filter(|undo| removes_container(undo));
    let made: BTreeSet<&str> = made.map(|u| u.object.key.as_str()).collect();
    if made.is_empty() {
        return None;
    }
    let lists: String = made.iter().map(|dir| format!("cv_d_list {}\n", quote(dir))).collect();
    let parents =
        paths(undos).filter_map(|path| Some(path.rsplit_once('/')?.0)).filter(|dir| !dir.is_empty());
    let dirs: BTreeSet<&str> = parents.chain(made).collect();
    let reals: String = dirs.iter().map(|dir| format!("cv_d_real {}\n", quote(dir))).collect();
    Some(Probe::run(format!(
        "cv_d_list() {{\n  for cv_d_entry in \"$1\"/* \"$1\"/.[!.]* \"$1\"/..?*; do\n    case ${{cv_d_entry##*/}} in .*.cv-*) continue ;; esac\n    \
         if [ -e \"$cv_d_entry\" ] || [ -L \"$cv_d_entry\" ]; then cv_enc \"$cv_d_entry\"; fi\n  done\n}}\n\
         cv_d_real() {{\n  cv_d_dir=$(cd -P -- \"$1\" 2>/dev/null && pwd -P && echo x) || return 0\n  cv_d_dir=${{cv_d_dir%?x}}\n  \
         if [ \"$cv_d_dir\" != \"$1\" ]; then echo \"$(cv_enc \"$1\") $(cv_enc \"$cv_d_dir\")\"; fi\n}}\n{lists}{reals}"
    )))
}

/// The paths that runs changed.
fn paths(undos: &[Undo]) -> impl Iterator<Item = &str> {
    undos.iter().filter(|u| u.object.kind == "path").map(|u| u.object.key.as_str())
}

/// A path with the real name of its directory.
fn real(path: &str, dirs: &BTreeMap<String, String>) -> String {
    let known = path.rsplit_once('/').and_then(|(dir, name)| Some(format!("{}/{name}", dirs.get(dir)?)));
    known.unwrap_or_else(|| path.to_owned())
}

/// Lets directories stay that hold what is not reverted.
pub(crate) fn leave_what_is_not_empty(
    undos: &[Undo],
    sights: &[Sight],
    verdicts: &mut [Verdict],
    known: &Knowledge,
) {
    let Some(Answer::Run(answer)) = probe(undos).as_ref().and_then(|probe| known.answer(probe)) else {
        return;
    };
    let back = |verdict: &Verdict| match verdict {
        Verdict::Back(change) => Some(change.object.clone()),
        _ => None,
    };
    let reverted: Vec<Option<ObjectId>> = verdicts.iter().map(back).collect();
    // A package that goes takes its files along, but not from where packages have none, nor from a directory that was made after it.
    let package = reverted
        .iter()
        .position(|o| o.as_ref().is_some_and(|o| traits_of(o).footprint == Footprint::Packaged));
    let with = |footprint| reverted.iter().flatten().filter(move |o| traits_of(o).footprint == footprint);
    // Where such an object is reverted (a command), a directory may be empty by then, and only its removal tells.
    if with(Footprint::Any).next().is_some() {
        return;
    }
    let at_place: Vec<&ObjectId> = with(Footprint::Place).collect();
    // Entries of a file system that goes are visible now, and go before it.
    let unmounted = verdicts.iter().filter_map(|verdict| match verdict {
        Verdict::Back(change) if change.to.is_absent() => covered(change).map(|_| change.object.clone()),
        _ => None,
    });
    let unmounted: BTreeSet<ObjectId> = unmounted.collect();
    let is_touched = |dir: &str| {
        let is = |o: &ObjectId| within(&o.key, dir) || (within(dir, &o.key) && !unmounted.contains(o));
        at_place.iter().any(|o| o.key != dir && is(o))
    };
    let is_of_package = |dir: &str, path: &str| {
        let is_dir = |u: &Undo| u.object.kind == "path" && u.object.key == dir;
        let older = |package: usize| undos.iter().skip(package).any(is_dir);
        let brought = || undos.iter().any(|u| is_dir(u) && u.moved_by.is_some());
        package.is_some_and(|package| may_be_packaged(path) && (older(package) || brought()))
    };
    let lines = || answer.stdout.lines().map(|line| line.split_once(' ').ok_or(line));
    let dirs: BTreeMap<String, String> = lines()
        .filter_map(Result::ok)
        .filter_map(|(dir, real)| Some((decode_field(dir)?, decode_field(real)?)))
        .collect();
    let held: Vec<String> = lines().filter_map(Result::err).filter_map(decode_field).collect();
    // An object that stays for another reason keeps its directory by the order of the reverts, but not where its name leads through a link.
    let named: BTreeSet<&str> = paths(undos).collect();
    let goes = |verdict: &Verdict| match verdict {
        Verdict::Back(change) => change.to.is_absent(),
        _ => false,
    };
    let both = undos.iter().zip(verdicts.iter());
    let gone: BTreeSet<String> = both
        .filter(|(undo, verdict)| undo.object.kind == "path" && goes(verdict))
        .map(|(undo, _)| real(&undo.object.key, &dirs))
        .collect();
    let others = held.iter().filter(|path| !named.contains(path.as_str()));
    let others = others.filter(|path| !gone.contains(&real(path, &dirs)));
    let others = others.filter_map(|path| Some((path.rsplit_once('/')?.0, path)));
    for (dir, path) in others.filter(|(dir, path)| !is_touched(dir) && !is_of_package(dir, path)) {
        let is_in_sight = |undo: &Undo, sight: &Sight| {
            layers::is_visible(&undo.lies_in, known)
                && !(undo.object.kind == "path" && *sight == Sight::Later)
        };
        let all = undos.iter().zip(sights).zip(verdicts.iter_mut());
        for (_, verdict) in
            all.filter(|((undo, sight), _)| removes_container(undo) && is_in_sight(undo, sight))
        {
            let goes = matches!(verdict, Verdict::Back(change) if change.object.key == dir && is_removal(&change.object, &change.to));
            if goes {
                *verdict = Verdict::Stays(format!("it holds {path}, which is not reverted"));
            }
        }
    }
}
