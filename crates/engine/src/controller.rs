//! Objects that lie on this machine: it says what they are and changes them, while the record of the change is the host's.

use converge_executor::Answers;
use converge_ledger::Undo;
use converge_objects::FetchedState;
use converge_planner::{Item, Knowledge};
use converge_resource::{
    Answer, BadState, Change, Content, Digest, ObjectId, Observation, Probe, State, encode_field,
};
use converge_store::{FetchedError, FetchedFiles, Lies};
use std::collections::{BTreeMap, BTreeSet};

/// The reason why an object on this machine was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControllerError {
    /// The file system, or a place that is none.
    #[error(transparent)]
    Fetched(#[from] FetchedError),
    /// A state that no such object has.
    #[error(transparent)]
    State(#[from] BadState),
    /// The content of this digest came neither with the plan nor from the kept ones.
    #[error("its content (SHA-256 {}…) is not on this machine", .0.short())]
    NoContent(Digest),
    /// It is asked for something that is not a file.
    #[error("it cannot become a {0}")]
    NoFile(String),
}

/// Whether an object lies on this machine.
pub(crate) fn is_here(object: &ObjectId) -> bool {
    converge_objects::traits_of(object).on_controller
}

/// Whether a question is for this machine, and not for a target.
pub(crate) fn is_asked_here(probe: &Probe) -> bool {
    match probe {
        Probe::Object(object) => is_here(object),
        Probe::Local(_) => true,
        Probe::Content(_) | Probe::Run { .. } | Probe::Api(_) => false,
    }
}

/// Answers those of the questions that are for this machine.
pub(crate) async fn answer(fetched: Option<&FetchedFiles>, probes: &BTreeSet<Probe>, reply: &mut Answers) {
    for probe in probes {
        let answer = match (probe, fetched) {
            (Probe::Local(question), _) => Answer::Local(crate::local::answer(question).await),
            (Probe::Object(object), Some(fetched)) if is_here(object) => match look(fetched, object) {
                Ok((state, content)) => {
                    reply.contents.extend(content);
                    Answer::Object(Observation::new(state.into(), None))
                }
                Err(error) => Answer::Failed(error.to_string()),
            },
            _ => continue,
        };
        reply.answers.push((probe.clone(), answer));
    }
}

fn look(fetched: &FetchedFiles, object: &ObjectId) -> Result<(FetchedState, Option<Content>), FetchedError> {
    Ok(match fetched.look(&object.key)? {
        Lies::Nothing => (FetchedState::Absent, None),
        Lies::Other(what) => (FetchedState::Other { what }, None),
        Lies::File { mode, content } => {
            (FetchedState::File { mode, digest: content.digest().clone() }, Some(content))
        }
    })
}

/// The changes of an item that are made here.
fn changes(item: &Item) -> impl Iterator<Item = &Change> {
    item.changes().iter().map(|planned| &planned.change).filter(|change| is_here(&change.object))
}

/// Tells the host's steps what is here now, and keeps the contents that the item replaces. The host compares and records.
pub(crate) fn prepare(fetched: &FetchedFiles, item: &mut Item) -> Result<(), ControllerError> {
    let mut reported = Vec::new();
    for change in changes(item) {
        let (state, content) = look(fetched, &change.object)?;
        let state: State = state.into();
        reported.push(format!("{} {}", encode_field(&change.object.key), state.line()));
        if let Some(content) = content.filter(|_| state == change.from) {
            fetched.keep(&content)?;
        }
    }
    if !reported.is_empty() {
        item.settings.push(("CV_FETCHED".to_owned(), reported.join("\n")));
    }
    Ok(())
}

/// Makes the changes of an item that the host has recorded.
pub(crate) fn make(
    fetched: &FetchedFiles,
    item: &Item,
    contents: &BTreeMap<Digest, Content>,
) -> Result<(), ControllerError> {
    for change in changes(item) {
        let place = &change.object.key;
        match FetchedState::try_from(change.to.clone())? {
            FetchedState::Absent => fetched.remove(place)?,
            FetchedState::Other { what } => return Err(ControllerError::NoFile(what)),
            FetchedState::File { mode, digest } => {
                let content = contents.get(&digest).cloned().or_else(|| fetched.retained(&digest));
                let content = content.ok_or(ControllerError::NoContent(digest))?;
                fetched.write(place, mode, &content)?;
            }
        }
    }
    Ok(())
}

/// Brings the kept contents that a rollback needs, and marks the objects whose content is not here: another machine keeps it, or it was too old.
pub(crate) fn previous(fetched: &FetchedFiles, undos: &mut [Undo], known: &mut Knowledge) {
    for undo in undos.iter_mut().filter(|undo| is_here(&undo.object)) {
        let Some(object) = converge_objects::object(&undo.object.kind) else { continue };
        let Some(digest) = object.content(&undo.before).filter(|digest| known.content(digest).is_none())
        else {
            continue;
        };
        match fetched.retained(&digest) {
            Some(content) => known.learn_content(content),
            None => {
                let why = "this machine does not keep the content that it had (another one ran that apply, or more than 30 days ago)";
                undo.lost.get_or_insert_with(|| why.to_owned());
            }
        }
    }
}
