//! Contents that a host has saved and that a rollback brings back: which of them are whole.

use converge_host::records::blob_path;
use converge_ledger::Undo;
use converge_planner::Knowledge;
use converge_resource::{Answer, Digest, Probe, State, quote};
use std::collections::BTreeSet;

fn content(undo: &Undo, state: &State) -> Option<Digest> {
    converge_objects::object(&undo.object.kind)?.content(state)
}

/// Asks which of the contents that the states before name are saved whole: the output of `sha256sum`. `None` where there are none.
pub(crate) fn probe(undos: &[Undo]) -> Option<Probe> {
    let wanted: BTreeSet<Digest> = undos.iter().filter_map(|undo| content(undo, &undo.before)).collect();
    let paths: Vec<String> = wanted.iter().map(|digest| quote(&blob_path(digest))).collect();
    let script = format!("sha256sum -- {} 2>/dev/null; true", paths.join(" "));
    (!paths.is_empty()).then(|| Probe::run(script))
}

/// Marks the objects whose content is to come back and is not saved whole, by the answer to [`probe`]. An object that still has its content needs
/// none.
pub(crate) fn mark_missing(undos: &mut [Undo], probe: &Probe, known: &Knowledge) {
    let Some(Answer::Run(answer)) = known.answer(probe) else { return };
    let whole: BTreeSet<(&str, &str)> = answer.stdout.lines().filter_map(|l| l.split_once("  ")).collect();
    for undo in undos {
        let Some(digest) = content(undo, &undo.before) else { continue };
        let now = known.observed(&undo.object).ok().and_then(|seen| content(undo, &seen.state));
        let path = blob_path(&digest);
        if now.as_ref() != Some(&digest) && !whole.contains(&(digest.as_str(), path.as_str())) {
            undo.lost.get_or_insert_with(|| format!("its saved content {path} is missing or damaged"));
        }
    }
}
