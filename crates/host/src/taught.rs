//! A shell on a host that is given the functions of converge when they are first used.

use crate::records::{KnownParts, Lesson};
use converge_ssh::{Batch, Events, Room, Shell, ShellError, ShellItem, ShellItemResult, Stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of the item that asks for the package manager: below that of the records, beyond all questions.
const MANAGER: u32 = u32::MAX - 1;
const WHICH_MANAGER: &str = "cv_manager_to; printf %s \"$CV_MANAGER\"";

/// A shell, and what it has read.
pub(crate) struct TaughtShell {
    pub(crate) shell: Shell,
    known: Mutex<KnownParts>,
}

impl TaughtShell {
    pub(crate) fn new(shell: Shell) -> Self {
        Self { shell, known: Mutex::default() }
    }

    pub(crate) fn run(&self, batch: &Batch) -> Result<Events, ShellError> {
        // The lock is held until the batch is in the queue: what follows it there may use what it brings.
        let mut known = self.known();
        let lesson = known.lesson(texts(batch), false);
        self.send(&mut known, lesson, batch)
    }

    pub(crate) async fn run_to_end(
        &self,
        batch: &Batch,
    ) -> Result<(Vec<ShellItemResult>, Option<ShellError>), ShellError> {
        let mut events = self.run(batch)?;
        Ok(events.gather(batch, &mut Room::default()).await)
    }

    pub(crate) async fn ask_within(
        &self,
        batch: &Batch,
        room: &mut Room,
    ) -> Result<(Vec<ShellItemResult>, Option<ShellError>), ShellError> {
        if let Some(mut events) = self.run_without_dnf(batch)? {
            return Ok(events.gather(batch, room).await);
        }
        let mut first = batch.clone();
        first.items.push(ShellItem { stderr: Stderr::Separate, ..ShellItem::new(MANAGER, WHICH_MANAGER) });
        let mut events = {
            let mut known = self.known();
            let lesson = known.lesson(texts(&first), true);
            self.send(&mut known, lesson, &first)
        }?;
        let (mut results, error) = events.gather(&first, room).await;
        let manager = results.pop().filter(ShellItemResult::success);
        let Some(manager) = manager.filter(|_| error.is_none()) else { return Ok((results, error)) };
        let has_dnf = manager.output == b"dnf";
        self.known().has_dnf = Some(has_dnf);
        if !has_dnf {
            return Ok((results, error));
        }
        // A question changes nothing: it is asked again, with the program.
        let mut events = self.run(batch)?;
        Ok(events.gather(batch, room).await)
    }

    fn known(&self) -> MutexGuard<'_, KnownParts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a batch unless it may need the program for dnf, while nobody knows whether the host has dnf.
    fn run_without_dnf(&self, batch: &Batch) -> Result<Option<Events>, ShellError> {
        let mut known = self.known();
        let lesson = known.lesson(texts(batch), true);
        (!lesson.open).then(|| self.send(&mut known, lesson, batch)).transpose()
    }

    fn send(&self, known: &mut KnownParts, lesson: Lesson, batch: &Batch) -> Result<Events, ShellError> {
        let events = match behind(&lesson.text, batch) {
            Some(batch) => self.shell.run(&batch),
            None => self.shell.run(batch),
        }?;
        known.learn(lesson);
        Ok(events)
    }
}

fn texts(batch: &Batch) -> impl Iterator<Item = &str> {
    batch.prelude.as_deref().into_iter().chain(batch.items.iter().map(|item| item.script.as_str()))
}

/// The batch behind these definitions; none where there are none.
fn behind(definitions: &str, batch: &Batch) -> Option<Batch> {
    let prelude = [definitions, batch.prelude.as_deref().unwrap_or_default()].concat();
    (!definitions.is_empty()).then(|| Batch { prelude: Some(prelude), ..batch.clone() })
}
