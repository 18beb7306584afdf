//! A long-lived shell on a host: sends batches, follows the answers, keeps the limits.

mod follow;

use crate::batch::{Batch, Because, ShellEvent, ShellItemResult, ShellOutcome};
use crate::error::ShellError;
use crate::program::ShellStart;
use crate::session::Session;
use crate::target::Become;
use follow::{Actor, QueuedBatch, Setup};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A shell on a host, as one user. Batches run one after another, each in the order of its items; several may be under way.
///
/// When it is dropped, the batches whose [`Events`] are still held run to their end; then the loop on the host ends.
#[derive(Debug)]
pub struct Shell {
    queue: mpsc::UnboundedSender<QueuedBatch>,
    task: JoinHandle<()>,
    traffic: Arc<Mutex<Traffic>>,
}

/// The traffic between this machine and a shell so far, before the connection encrypts and compresses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes to the host.
    pub sent: u64,
    /// Bytes from the host.
    pub received: u64,
    /// Batches that were sent: each is a round trip.
    pub batches: u64,
}

impl Session {
    /// Starts a shell. For root and for sudo without a password nothing is waited for but the channel; whether sudo let us in shows
    /// in the first batch's events.
    ///
    /// # Errors
    /// `NoChannel`, `Closed`, `Deadline`, `NotStarted`.
    pub async fn shell(&self, become_: &Become) -> Result<Shell, ShellError> {
        let start = ShellStart::new(&self.options().shell, become_);
        let (writer, reader) = self.open(&start, become_).await?;
        Ok(Shell::start(Setup {
            session: self.clone(),
            become_: become_.clone(),
            start,
            reader,
            writer,
            options: Arc::clone(self.options()),
        }))
    }
}

impl Shell {
    fn start(setup: Setup) -> Self {
        let (queue, rx) = mpsc::unbounded_channel();
        let traffic = Arc::new(Mutex::new(Traffic::default()));
        let task = tokio::spawn(Actor::new(setup, Arc::clone(&traffic)).run(rx));
        Self { queue, task, traffic }
    }

    /// The traffic between this machine and the shell so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        *self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a batch and returns at once.
    ///
    /// # Errors
    /// `BadBatch` for a malformed batch. All else, a shell that could not start or is gone included, comes through the events.
    pub fn run(&self, batch: &Batch) -> Result<Events, ShellError> {
        let frames = batch.encode()?;
        let (tx, rx) = mpsc::unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let work = QueuedBatch::new(batch, frames, tx, Arc::clone(&queued));
        if let Err(mpsc::error::SendError(work)) = self.queue.send(work) {
            work.refuse();
        }
        Ok(Events { rx, queued })
    }

    /// Sends a batch and waits for its end. The results are in the order of the items, and complete even when the shell was lost.
    ///
    /// # Errors
    /// `BadBatch` for a malformed batch.
    pub async fn run_to_end(
        &self,
        batch: &Batch,
    ) -> Result<(Vec<ShellItemResult>, Option<ShellError>), ShellError> {
        self.run_within(batch, &mut Room::default()).await
    }

    /// The same for answers that have so much room together. When it is used up, nobody follows the batch any more: the session is to be left.
    ///
    /// # Errors
    /// `BadBatch` for a malformed batch.
    pub async fn run_within(
        &self,
        batch: &Batch,
        room: &mut Room,
    ) -> Result<(Vec<ShellItemResult>, Option<ShellError>), ShellError> {
        let mut events = self.run(batch)?;
        Ok(events.gather(batch, room).await)
    }

    /// Waits until all batches have ended, then ends the shell.
    pub async fn close(self) {
        drop(self.queue);
        // The task only ends; it has no result, and a panic in it was reported.
        drop(self.task.await);
    }
}

/// The budget of the answers to several batches together; by default no more is asked than the limits of each item.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// The time that they may take.
    pub time: Option<Duration>,
    /// The number of bytes that they may be.
    pub bytes: Option<usize>,
}

impl Room {
    /// Nothing is left.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.time == Some(Duration::ZERO) || self.bytes == Some(0)
    }

    /// The next event; an error where something is used up, `true` where it is time. `begun` is when the batch was sent.
    async fn next(
        &mut self,
        events: &mut Events,
        begun: Instant,
    ) -> Result<Option<Result<ShellEvent, ShellError>>, bool> {
        let event = match self.time {
            Some(time) => {
                tokio::time::timeout_at(begun + time, events.next()).await.map_err(|_elapsed| true)?
            }
            None => events.next().await,
        };
        if let (Some(Ok(ShellEvent::Output { bytes, .. })), Some(room)) = (&event, &mut self.bytes) {
            let left = room.checked_sub(bytes.len());
            *room = left.unwrap_or(0);
            left.ok_or(false)?;
        }
        Ok(event)
    }
}

/// The answers to one batch. After the last event, or after one error, `next` gives `None`.
#[derive(Debug)]
pub struct Events {
    rx: mpsc::UnboundedReceiver<Result<ShellEvent, ShellError>>,
    queued: Arc<AtomicUsize>,
}

impl Events {
    /// Waits for the end of the batch that they are of. The results are in the order of its items.
    pub async fn gather(
        &mut self,
        batch: &Batch,
        room: &mut Room,
    ) -> (Vec<ShellItemResult>, Option<ShellError>) {
        let mut results: Vec<ShellItemResult> = batch
            .items
            .iter()
            .map(|item| ShellItemResult {
                id: item.id,
                outcome: ShellOutcome::Unknown,
                output: Vec::new(),
                stderr: Vec::new(),
                cut: false,
            })
            .collect();
        let index: HashMap<u32, usize> =
            batch.items.iter().enumerate().map(|(at, item)| (item.id, at)).collect();
        let mut failed = None;
        let begun = Instant::now();
        loop {
            let event = match room.next(self, begun).await {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(time) => {
                    let over = |r: &&ShellItemResult| {
                        matches!(r.outcome, ShellOutcome::Unknown | ShellOutcome::Lost)
                    };
                    let open = results.iter().filter(over).map(|r| r.id).collect();
                    failed = Some(ShellError::Exhausted { time, open });
                    break;
                }
            };
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            let (ShellEvent::Started(id)
            | ShellEvent::Output { id, .. }
            | ShellEvent::Finished { id, .. }
            | ShellEvent::Skipped { id, .. }) = event;
            let Some(result) = index.get(&id).and_then(|at| results.get_mut(*at)) else {
                continue;
            };
            match event {
                ShellEvent::Started(_) => result.outcome = ShellOutcome::Lost,
                ShellEvent::Output { bytes, stderr, .. } => {
                    let into = if stderr { &mut result.stderr } else { &mut result.output };
                    into.extend_from_slice(&bytes);
                }
                ShellEvent::Finished { status, duration, cut, .. } => {
                    result.outcome = ShellOutcome::Finished { status, duration };
                    result.cut = cut;
                }
                ShellEvent::Skipped { because, .. } => result.outcome = ShellOutcome::Skipped(because),
            }
        }
        room.time = room.time.map(|time| time.saturating_sub(begun.elapsed()));
        (results, failed)
    }

    /// The next event. A `Finished` of an item with separate standard error may come after later items' events.
    pub async fn next(&mut self) -> Option<Result<ShellEvent, ShellError>> {
        let event = self.rx.recv().await?;
        if let Ok(ShellEvent::Output { bytes, .. }) = &event {
            self.queued.fetch_sub(bytes.len(), Ordering::Relaxed);
        }
        Some(event)
    }
}

impl Because {
    fn parse(words: &[&str]) -> Option<Self> {
        match words {
            ["T"] => Some(Self::Stopped),
            ["N", need] => need.parse().ok().map(Self::Need),
            _ => None,
        }
    }
}
