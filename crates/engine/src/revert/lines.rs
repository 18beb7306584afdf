//! `/etc/fstab`, whose lines belong to mounts and swap spaces of several projects: a revert takes back its own lines, and leaves those of others. Pure.

use crate::revert::undo::Verdict;
use crate::revert::{JudgedUndo, RevertGroup};
use converge_host::records::blob_path;
use converge_ledger::{FSTAB, Undo, is_by_lines};
use converge_objects::{PathState, traits_of};
use converge_planner::Knowledge;
use converge_resource::{Change, Content, Digest, ObjectId, Probe, State};
use converge_resources::LinesChanged;
use std::collections::BTreeSet;

/// Whether the file is as the runs left it, and nobody but them changed it in between: then it goes back whole.
fn goes_back_whole(undo: &Undo, now: &State) -> bool {
    let others = undo.theirs.is_some() || undo.between.iter().any(|(left, found)| left != found);
    !others && (*now == undo.left || undo.open.as_ref() == Some(now))
}

/// The states between which the runs changed it: from the first of each pair to the second.
fn changes<'a>(
    before: &'a State,
    between: &'a [(State, State)],
    left: &'a State,
) -> Vec<(&'a State, &'a State)> {
    let begins = std::iter::once(before).chain(between.iter().map(|(_, found)| found));
    let ends = between.iter().map(|(left, _)| left).chain([left]);
    begins.zip(ends).filter(|(begin, end)| begin != end).collect()
}

fn digest(state: &State) -> Option<Digest> {
    match PathState::try_from(state.clone()) {
        Ok(PathState::File { digest, .. }) => Some(digest),
        _ => None,
    }
}

/// The questions for the contents that tell which lines are the runs' own.
pub(crate) fn probes<'a>(
    undos: impl Iterator<Item = &'a Undo> + Clone,
    known: &Knowledge,
) -> BTreeSet<Probe> {
    let mut probes = BTreeSet::new();
    // One of them may stay.
    let has_mounts = undos.clone().any(|undo| traits_of(&undo.object).has_line);
    for undo in undos.filter(|u| is_by_lines(&u.object)) {
        let Ok(now) = known.observed(&undo.object) else { continue };
        if has_mounts || !goes_back_whole(undo, &now.state) {
            probes.extend(contents(&undo.before, &undo.between, &undo.left));
        }
    }
    probes.retain(|probe| !known.knows(probe));
    probes
}

fn contents(before: &State, between: &[(State, State)], left: &State) -> BTreeSet<Probe> {
    let states = changes(before, between, left).into_iter().flat_map(|(begin, end)| [begin, end]);
    let saved = states.filter_map(|state| Some(Probe::Content(blob_path(&digest(state)?))));
    saved.chain([Probe::Content(FSTAB.to_owned())]).collect()
}

/// The text of a state; none where its content is not saved.
fn text<'a>(state: &State, known: &'a Knowledge) -> Option<&'a str> {
    match digest(state) {
        Some(digest) => known.content(&digest)?.text(),
        None => state.is_absent().then_some(""),
    }
}

/// The lines that these changes are about.
fn lines<'a>(
    before: &State,
    between: &[(State, State)],
    left: &State,
    known: &'a Knowledge,
) -> Option<LinesChanged<'a>> {
    let texts = changes(before, between, left).into_iter();
    let texts = texts.map(|(begin, end)| Some((text(begin, known)?, text(end, known)?)));
    Some(LinesChanged::by(&texts.collect::<Option<Vec<_>>>()?))
}

/// The state with another text, which becomes known.
fn with_text(now: &State, text: String, known: &mut Knowledge) -> Option<State> {
    let mut state = PathState::try_from(now.clone()).ok()?;
    let content = Content::new(text.into_bytes());
    if let PathState::File { digest, size, .. } = &mut state {
        content.digest().clone_into(digest);
        *size = u64::try_from(content.bytes().len()).ok();
    }
    known.learn_content(content);
    Some(state.into())
}

/// The verdict on a file that others have changed too, line by line; none where it goes back whole, or its contents are not known.
pub(crate) fn judge(undo: &Undo, now: &State, known: &mut Knowledge) -> Option<Verdict> {
    if !is_by_lines(&undo.object) || goes_back_whole(undo, now) {
        return None;
    }
    digest(now)?;
    let present = text(now, known)?;
    let back = match lines(&undo.before, &undo.between, &undo.left, known)?.taken_back(present) {
        Ok(back) if back == present => return Some(Verdict::Same),
        Ok(back) => back,
        Err(other) => return Some(Verdict::Stays(format!("{other}: it is left as it is"))),
    };
    let to = if back.is_empty() && undo.before.is_absent() {
        State::absent()
    } else {
        with_text(now, back, known)?
    };
    Some(Verdict::Back(Change { object: undo.object.clone(), from: now.clone(), to }))
}

const LINE_STAYS: &str = "its line in /etc/fstab stays, and so does the mount";

/// Lets the lines of mounts go with them where the file itself, in the state `now` by then, remains managed for other lines.
pub(crate) fn go_with_mounts(groups: &mut [RevertGroup], file: &Undo, mut now: State, known: &mut Knowledge) {
    for group in groups {
        for mount in std::mem::take(&mut group.members) {
            let goes = matches!(&mount.verdict, Verdict::Back(change) if traits_of(&change.object).mounts);
            if !goes {
                group.members.push(mount);
                continue;
            }
            let own = lines(&file.before, &file.between, &file.left, known);
            let back = own
                .zip(text(&now, known))
                .and_then(|(own, present)| own.only(&mount.undo.object.key).taken_back(present).ok());
            let Some(to) = back.and_then(|back| with_text(&now, back, known)) else {
                group.members.push(JudgedUndo { verdict: Verdict::Stays(LINE_STAYS.to_owned()), ..mount });
                continue;
            };
            if to != now {
                let change = Change { object: file.object.clone(), from: now, to: to.clone() };
                let (undo, verdict) = (file.clone(), Verdict::Back(change));
                group.members.push(JudgedUndo { undo, verdict, in_part: false, notes: Vec::new() });
                now = to;
            }
            group.members.push(mount);
        }
    }
}

/// A mount whose line stays, stays too: else a boot would mount it otherwise than it is now.
pub(crate) fn leave_mounts_whose_lines_stay(undos: &[Undo], verdicts: &mut [Verdict], known: &Knowledge) {
    let both = undos.iter().zip(verdicts.iter());
    let stays = both.filter(|(undo, verdict)| is_by_lines(&undo.object) && verdict.stays());
    let Some(undo) = stays.map(|(undo, _)| undo).next() else { return };
    let own = lines(&undo.before, &undo.between, &undo.left, known);
    for (undo, verdict) in undos.iter().zip(verdicts.iter_mut()) {
        let has_line = || own.as_ref().is_none_or(|own| own.has(&undo.object.key));
        if traits_of(&undo.object).mounts && matches!(verdict, Verdict::Back(_)) && has_line() {
            *verdict = Verdict::Stays(LINE_STAYS.to_owned());
        }
    }
}

/// The line of a mount that stays does so too: else a boot would not mount it again. The place of the file, if others of its lines go.
pub(crate) fn leave_lines_of_mounts_that_stay(
    undos: &[Undo],
    verdicts: &mut [Verdict],
    known: &mut Knowledge,
) -> Option<usize> {
    let mut both = undos.iter().zip(verdicts.iter());
    let at =
        both.position(|(undo, verdict)| is_by_lines(&undo.object) && matches!(verdict, Verdict::Back(_)))?;
    let file = undos.get(at)?;
    let Some(Verdict::Back(change)) = verdicts.get(at).cloned() else { return None };
    let both = undos.iter().zip(verdicts.iter());
    let stays = both.filter(|(undo, verdict)| traits_of(&undo.object).has_line && verdict.stays());
    let own = lines(&file.before, &file.between, &file.left, known);
    let stays =
        stays.map(|(undo, _)| &undo.object).filter(|o| own.as_ref().is_none_or(|own| own.has(&o.key)));
    let stays: Vec<&ObjectId> = stays.collect();
    let first = stays.first()?;
    let keys: Vec<&str> = stays.iter().map(|object| object.key.as_str()).collect();
    let present = text(&change.from, known);
    let back = own.zip(present).and_then(|(own, present)| {
        own.without(&keys).taken_back(present).ok().filter(|back| back != present)
    });
    let back = back.and_then(|back| with_text(&change.from, back, known));
    let (verdict, in_part) = match back {
        Some(to) => (Verdict::Back(Change { to, ..change }), Some(at)),
        None => (Verdict::Stays(format!("{first} stays, and so does its line")), None),
    };
    *verdicts.get_mut(at)? = verdict;
    in_part
}
