//! A batch on its way: its items, their output, and when it is complete.

use super::Sender;
use crate::batch::{Batch, ShellEvent, Status, Stderr};
use crate::error::ShellError;
use crate::target::SessionOptions;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes that are written at once: how far a large input has come shows in steps of this size.
pub(super) const PART: usize = 64 << 10;

/// A batch that waits to be sent.
pub(crate) struct QueuedBatch {
    pub(super) frames: Vec<Bytes>,
    pub(super) batch: OpenBatch,
}

pub(super) struct OpenItem {
    pub(super) id: u32,
    pub(super) timeout: Option<Duration>,
    pub(super) separate: bool,
    pub(super) state: ItemState,
    /// Bytes passed on, of stdout and of stderr.
    pub(super) passed: [usize; 2],
    pub(super) cut: bool,
    /// An end that waits for the end of standard error.
    pub(super) ended: Option<(Status, Duration)>,
    pub(super) stderr_ended: bool,
}

#[derive(PartialEq, Eq, Clone, Copy)]
pub(super) enum ItemState {
    Waiting,
    Running,
    Over,
}

pub(super) struct OpenBatch {
    pub(super) items: Vec<OpenItem>,
    pub(super) index: HashMap<u32, usize>,
    pub(super) tx: Sender,
    pub(super) queued: Arc<AtomicUsize>,
    pub(super) in_prelude: bool,
    pub(super) prelude_output: Vec<u8>,
    /// All its items were reported on standard output.
    pub(super) done: bool,
}

impl QueuedBatch {
    pub(crate) fn new(batch: &Batch, frames: Vec<Bytes>, tx: Sender, queued: Arc<AtomicUsize>) -> Self {
        let items: Vec<OpenItem> = batch
            .items
            .iter()
            .map(|item| OpenItem {
                id: item.id,
                timeout: item.timeout,
                separate: item.stderr == Stderr::Separate,
                state: ItemState::Waiting,
                passed: [0, 0],
                cut: false,
                ended: None,
                stderr_ended: false,
            })
            .collect();
        let index = items.iter().enumerate().map(|(at, item)| (item.id, at)).collect();
        Self {
            frames,
            batch: OpenBatch {
                items,
                index,
                tx,
                queued,
                in_prelude: false,
                prelude_output: Vec::new(),
                done: false,
            },
        }
    }

    /// The shell is already gone.
    pub(crate) fn refuse(self) {
        let open = self.batch.open();
        self.batch.say(Err(ShellError::closed("it had ended before this batch".to_owned(), open)));
    }
}

impl OpenBatch {
    pub(super) fn open(&self) -> Vec<u32> {
        let open = |item: &&OpenItem| item.state != ItemState::Over;
        self.items.iter().filter(open).map(|item| item.id).collect()
    }

    pub(super) fn item(&mut self, id: &str) -> Option<&mut OpenItem> {
        let at = *self.index.get(&id.parse::<u32>().ok()?)?;
        self.items.get_mut(at)
    }

    /// The caller may have stopped listening; the host is followed nevertheless.
    pub(super) fn say(&self, what: Result<ShellEvent, ShellError>) {
        drop(self.tx.send(what));
    }

    /// Passes output of item `id` on, within the limits.
    pub(super) fn output(&mut self, id: u32, bytes: Bytes, stderr: bool, options: &SessionOptions) {
        let Some(item) = self.index.get(&id).and_then(|at| self.items.get_mut(*at)) else {
            return;
        };
        let [out, err] = &mut item.passed;
        let passed = if stderr { err } else { out };
        let waiting = self.queued.load(Ordering::Relaxed);
        let room = options.max_output.saturating_sub(*passed).min(options.max_queued.saturating_sub(waiting));
        let taken = bytes.slice(..bytes.len().min(room));
        item.cut |= taken.len() < bytes.len();
        // Once something was dropped, what follows must not close the gap unseen.
        *passed = if taken.len() < bytes.len() { options.max_output } else { *passed + taken.len() };
        if taken.is_empty() || self.tx.is_closed() {
            return;
        }
        self.queued.fetch_add(taken.len(), Ordering::Relaxed);
        self.say(Ok(ShellEvent::Output { id, bytes: taken, stderr }));
    }

    /// Reports the end of an item once both streams have shown it.
    pub(super) fn settle(&mut self, id: u32) {
        let Some(item) = self.index.get(&id).and_then(|at| self.items.get_mut(*at)) else {
            return;
        };
        if (item.separate && !item.stderr_ended) || item.state == ItemState::Over {
            return;
        }
        let Some((status, duration)) = item.ended else { return };
        item.state = ItemState::Over;
        let cut = item.cut;
        self.say(Ok(ShellEvent::Finished { id, status, duration, cut }));
    }

    /// The prelude has ended with this status: if it failed, no item runs. Whether it is a status.
    pub(super) fn end_prelude(&mut self, status: &str) -> bool {
        self.in_prelude = false;
        let Ok(status) = status.parse() else { return false };
        if status != 0 {
            let reply = String::from_utf8_lossy(&self.prelude_output).trim().to_owned();
            self.say(Err(ShellError::Prelude { status, reply }));
            self.items.iter_mut().for_each(|item| item.state = ItemState::Over);
        }
        true
    }

    /// Whether standard error that was kept apart is still to come.
    pub(super) fn awaits_stderr(&self) -> bool {
        self.items.iter().any(|item| item.separate && !item.stderr_ended && item.state != ItemState::Over)
    }

    pub(super) fn complete(&self) -> bool {
        self.done && self.items.iter().all(|item| item.state == ItemState::Over)
    }
}
