//! Contents that a host has saved and that a rollback brings back: which of them are whole.

use converge_host::records::blob_path;
use converge_ledger::Undo;
use converge_planner::Knowledge;
use converge_resource::{Answer, Digest, Probe, State};
use std::collections::BTreeSet;

/// The content of a state that the host has saved.
fn content(undo: &Undo, state: &State) -> Option<Digest> {
    if crate::controller::is_here(&undo.object) {
        return None;
    }
    converge_objects::object(&undo.object.kind)?.content(state)
}

/// Ends the list in the question.
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
