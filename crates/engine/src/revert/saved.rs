//! Contents that a rollback brings back: those that a revert is judged by, and which of them a host has saved whole.

use crate::TargetError;
use crate::connect::target::Target;
use crate::revert::{lines, sealed};
use converge_host::records::blob_path;
use converge_ledger::Undo;
use converge_planner::Knowledge;
use converge_resource::{Answer, Digest, Probe, State};
use std::collections::BTreeSet;

/// Loads the saved contents that the states of these changes name, from the records or from this machine. `lines` is a change of a file
/// that goes back by its lines, besides.
pub(crate) async fn learn_contents(
    target: &Target,
    undos: &mut [Undo],
    lines: Option<&Undo>,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    target.learn_previous(undos, known);
    target.look(&lines::probes(undos.iter().chain(lines), known), known).await?;
    let sealed = target.learn_recorded(&unknown(undos, known), known).await?;
    target.look(&sealed::probes(undos, &sealed), known).await?;
    sealed::leave_what_is_sealed(undos, &sealed, known);
    Ok(())
}

/// The contents that the states of these changes name and that are not loaded yet.
fn unknown(undos: &[Undo], known: &Knowledge) -> BTreeSet<Digest> {
    let states = |undo: &Undo| -> Vec<State> {
        let between = undo.between.iter().flat_map(|(left, found)| [left, found]);
        let since = undo.since.iter().flat_map(|(before, after)| [before, after]);
        let own = [&undo.left, &undo.before].into_iter().chain(&undo.open);
        own.chain(between).chain(since).cloned().collect()
    };
    let contents = |undo: &Undo| {
        let object = converge_objects::object(&undo.object.kind);
        let digests = states(undo).into_iter().filter_map(move |state| object?.content(&state));
        digests.collect::<Vec<_>>()
    };
    undos.iter().flat_map(contents).filter(|digest| known.content(digest).is_none()).collect()
}

/// The content of a state that the host has saved.
fn content(undo: &Undo, state: &State) -> Option<Digest> {
    if crate::controller::is_here(&undo.object) {
        return None;
    }
    converge_objects::object(&undo.object.kind)?.content(state)
}

/// The end marker of the list in the script.
const END: &str = "CV_END";

/// Asks which of the contents that the states before name are not saved whole: the other lines of `sha256sum -c`, which takes a list of any length.
/// `None` where there are none.
pub(crate) fn probe(undos: &[Undo]) -> Option<Probe> {
    let wanted: BTreeSet<Digest> = undos.iter().filter_map(|undo| content(undo, &undo.before)).collect();
    let lines: String = wanted.iter().map(|digest| format!("{digest}  {}\n", blob_path(digest))).collect();
    let script = format!("LC_ALL=C sha256sum -c 2>/dev/null <<'{END}' | grep -v ': OK$'\n{lines}{END}\ntrue");
    (!lines.is_empty()).then(|| Probe::run(script))
}

/// Marks the objects whose content is to come back and is not saved whole, by the answer to [`probe`]. An object that still has its content needs
/// none.
pub(crate) fn mark_missing(undos: &mut [Undo], probe: &Probe, known: &Knowledge) {
    let Some(Answer::Run(answer)) = known.answer(probe) else { return };
    let bad: BTreeSet<&str> =
        answer.stdout.lines().filter_map(|line| Some(line.split_once(": FAILED")?.0)).collect();
    for undo in undos {
        let Some(digest) = content(undo, &undo.before) else { continue };
        let now = known.observed(&undo.object).ok().and_then(|found| content(undo, &found.state));
        let path = blob_path(&digest);
        if now.as_ref() != Some(&digest) && bad.contains(path.as_str()) {
            undo.lost.get_or_insert_with(|| format!("its saved content {path} is missing or damaged"));
        }
    }
}
