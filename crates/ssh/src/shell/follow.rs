//! The task behind a shell: one reader of everything that the host says.

mod batch;
mod end;

use crate::batch::{Because, ShellEvent, Status};
use crate::demux::{Framer, StreamPiece};
use crate::error::ShellError;
use crate::pipes::{InputWriter, OutputReader, ProgramOutput};
use crate::program::{Nonce, Prompt, ShellStart, first_lines};
use crate::session::Session;
use crate::shell::Traffic;
use crate::target::{Become, SessionOptions};
pub(crate) use batch::QueuedBatch;
use batch::{ItemState, OpenBatch, PART};
use bytes::Bytes;
use end::{LAST_WORDS, Late, write_all};
use memchr::memmem;
use secrecy::ExposeSecret;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::Instant;
use zeroize::Zeroizing;

type Sender = UnboundedSender<Result<ShellEvent, ShellError>>;

/// Bytes that may come outside all items before it counts as garbage: the noise of a login shell's start-up files.
const MAX_NOISE: usize = 256 << 10;
/// The parts that an actor is made of.
pub(crate) struct Setup {
    pub session: Session,
    pub become_: Become,
    pub start: ShellStart,
    pub reader: OutputReader,
    pub writer: InputWriter,
    pub options: Arc<SessionOptions>,
}

/// The item that runs now.
struct RunningItem {
    id: u32,
    pid: Option<u32>,
    began: Option<f64>,
    observed: Instant,
    limit: Duration,
    deadline: Instant,
    killed: bool,
    /// The present output is standard error, kept apart from a terminal's one stream.
    apart: bool,
}

pub(crate) struct Actor {
    session: Session,
    become_: Become,
    options: Arc<SessionOptions>,
    reader: OutputReader,
    to_host: UnboundedSender<Bytes>,
    /// Set after an error: remaining input is not written then.
    stop_writing: oneshot::Sender<()>,
    start: ShellStart,
    started: bool,
    password_sent: bool,
    opened: Instant,
    last_heard: Instant,
    /// When the loop said something last, or took something.
    last_frame: Instant,
    /// Bytes that the host has taken, and how many of them were read.
    taken: Arc<AtomicUsize>,
    taken_before: usize,
    /// The buffer in which the greeting, the question for a password and the last output are looked for.
    noise: [Vec<u8>; 2],
    noise_total: usize,
    out: Framer,
    err: Framer,
    batches: VecDeque<OpenBatch>,
    held_back: Vec<Bytes>,
    running: Option<RunningItem>,
    /// The item whose standard error is coming.
    err_item: Option<u32>,
    traffic: Arc<Mutex<Traffic>>,
}

impl Actor {
    pub(crate) fn new(setup: Setup, traffic: Arc<Mutex<Traffic>>) -> Self {
        let nonce = Nonce::new();
        let (to_host, rx) = unbounded_channel();
        let (stop_writing, stop) = oneshot::channel();
        let taken = Arc::new(AtomicUsize::new(0));
        tokio::spawn(write_all(setup.writer, rx, stop, Arc::clone(&taken)));
        let now = Instant::now();
        let mut actor = Self {
            session: setup.session,
            become_: setup.become_,
            options: setup.options,
            reader: setup.reader,
            to_host,
            stop_writing,
            start: setup.start,
            started: false,
            password_sent: false,
            opened: now,
            last_heard: now,
            last_frame: now,
            taken,
            taken_before: 0,
            noise: [Vec::new(), Vec::new()],
            noise_total: 0,
            out: Framer::new(nonce.whole()),
            err: Framer::new(nonce.whole()),
            batches: VecDeque::new(),
            held_back: Vec::new(),
            running: None,
            err_item: None,
            traffic,
        };
        actor.send(Bytes::from(first_lines(&nonce, actor.start.terminal)));
        actor
    }

    pub(crate) async fn run(mut self, mut queue: UnboundedReceiver<QueuedBatch>) {
        let mut more = true;
        let error = loop {
            if !more && (self.batches.is_empty() || self.batches.iter().all(|batch| batch.tx.is_closed())) {
                return;
            }
            let (wake, what) = self.next_deadline();
            let step = tokio::select! {
                work = queue.recv(), if more => {
                    match work {
                        Some(work) => self.take(work),
                        None => more = false,
                    }
                    Ok(())
                }
                raw = self.reader.next() => self.heard(raw),
                () = tokio::time::sleep_until(wake) => self.late(what),
            };
            if let Err(error) = step {
                break error;
            }
        };
        tracing::debug!(%error, "shell ended");
        self.give_up(&error);
        // Everything that is sent from now on learns the same.
        while let Some(work) = queue.recv().await {
            work.batch.say(Err(error.clone()));
        }
    }

    /// Reports to all batches, and gives up the channel and the connection.
    fn give_up(self, error: &ShellError) {
        for batch in &self.batches {
            batch.say(Err(error.clone()));
        }
        // The writer may have ended by itself.
        self.stop_writing.send(()).ok();
    }

    fn take(&mut self, work: QueuedBatch) {
        if self.batches.is_empty() {
            self.last_heard = Instant::now();
            self.last_frame = self.last_heard;
        }
        self.count(|traffic| traffic.batches += 1);
        for frame in work.frames {
            self.send(frame);
        }
        self.batches.push_back(work.batch);
    }

    fn count(&self, count: impl FnOnce(&mut Traffic)) {
        count(&mut self.traffic.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends, but nothing before the password was taken: the rest would be read as one.
    fn send(&mut self, bytes: Bytes) {
        if self.start.prompt.is_some() && !self.started {
            self.held_back.push(bytes);
        } else {
            // A writer that is gone is noticed by the reader.
            self.count(|traffic| traffic.sent += bytes.len() as u64);
            drop(self.to_host.send(bytes));
        }
    }

    fn heard(&mut self, raw: Option<ProgramOutput>) -> Result<(), ShellError> {
        self.last_heard = Instant::now();
        if let Some(ProgramOutput::Out(bytes) | ProgramOutput::Err(bytes)) = &raw {
            self.count(|traffic| traffic.received += bytes.len() as u64);
        }
        match raw {
            Some(ProgramOutput::Out(bytes)) if self.started => self.stdout(&bytes),
            Some(ProgramOutput::Err(bytes)) if self.started => self.stderr(&bytes),
            Some(ProgramOutput::Out(bytes)) => self.starting(&bytes, 0),
            Some(ProgramOutput::Err(bytes)) => self.starting(&bytes, 1),
            Some(ProgramOutput::Ended(end)) => Err(self.ended(&end)),
            None => Err(self.ended(&String::new().into())),
        }
    }

    fn starting(&mut self, bytes: &[u8], stream: usize) -> Result<(), ShellError> {
        let Some(noise) = self.noise.get_mut(stream) else { return Ok(()) };
        noise.extend_from_slice(bytes);
        if noise.len() > MAX_NOISE {
            return Err(self.garbage("a flood of text before the shell's first word; find what prints at a login of this user (.bashrc, .profile, /etc/profile.d, /etc/bash.bashrc)"));
        }
        if stream == 0 {
            let hello = memmem::find(noise, &self.start.hello);
            let Some(after) = hello.map(|at| at + self.start.hello.len()) else { return self.asked(stream) };
            // The greeting is a line; what follows it is already frames.
            let Some(end) = memchr::memchr(b'\n', noise.get(after..).unwrap_or_default()) else {
                return Ok(());
            };
            let rest = noise.split_off(after + end + 1);
            self.noise = [Vec::new(), Vec::new()];
            self.started = true;
            for frame in std::mem::take(&mut self.held_back) {
                self.send(frame);
            }
            return self.stdout(&rest);
        }
        self.asked(stream)
    }

    /// Gives the password when the question for it has come on this stream.
    fn asked(&mut self, stream: usize) -> Result<(), ShellError> {
        let asks_here = match &self.start.prompt {
            Some(Prompt::Own(_)) => stream == 1,
            Some(Prompt::After(_)) => stream == 0,
            None => false,
        };
        let (Some(noise), Some(prompt)) = (self.noise.get_mut(stream), &self.start.prompt) else {
            return Ok(());
        };
        if !asks_here || !prompt.asked(noise, self.password_sent) {
            return Ok(());
        }
        let Become::User { method, user, password } = &self.become_ else { return Ok(()) };
        let (method, user) = (*method, user.clone());
        let Some(password) = password else { return Err(ShellError::PasswordNeeded { method, user }) };
        if self.password_sent {
            return Err(ShellError::WrongPassword { method, user });
        }
        self.password_sent = true;
        noise.clear();
        let mut line = Zeroizing::new(password.expose_secret().as_bytes().to_vec());
        line.push(b'\n');
        drop(self.to_host.send(Bytes::from_owner(line)));
        Ok(())
    }

    fn stdout(&mut self, bytes: &[u8]) -> Result<(), ShellError> {
        self.out.push(bytes);
        while let Some(piece) = self.out.next() {
            match piece {
                StreamPiece::Data(bytes) => self.stdout_data(bytes)?,
                StreamPiece::Line(line) => self.frame(&line)?,
                StreamPiece::Overlong => return Err(self.garbage("an endless line")),
            }
        }
        Ok(())
    }

    fn stdout_data(&mut self, bytes: Bytes) -> Result<(), ShellError> {
        let Some(batch) = self.batches.iter_mut().find(|batch| !batch.done) else {
            return self.stray(&bytes, 0);
        };
        if let Some(running) = &self.running {
            batch.output(running.id, bytes, running.apart, &self.options);
            return Ok(());
        }
        if batch.in_prelude && batch.prelude_output.len() < LAST_WORDS {
            batch.prelude_output.extend_from_slice(&bytes);
            return Ok(());
        }
        self.stray(&bytes, 0)
    }

    /// Text that belongs to no item, from background processes for example: kept for a message, and not without end.
    fn stray(&mut self, bytes: &[u8], stream: usize) -> Result<(), ShellError> {
        self.noise_total += bytes.len();
        if self.noise_total > MAX_NOISE {
            return Err(self.garbage("a flood of text outside all items"));
        }
        if let Some(noise) = self.noise.get_mut(stream) {
            noise.extend_from_slice(bytes);
            let over = noise.len().saturating_sub(LAST_WORDS);
            noise.drain(..over);
        }
        Ok(())
    }

    fn stderr(&mut self, bytes: &[u8]) -> Result<(), ShellError> {
        self.err.push(bytes);
        while let Some(piece) = self.err.next() {
            match piece {
                StreamPiece::Data(bytes) => match self.err_item {
                    Some(id) => match self.batches.iter_mut().find(|batch| batch.awaits_stderr()) {
                        Some(batch) => batch.output(id, bytes, true, &self.options),
                        None => self.stray(&bytes, 1)?,
                    },
                    None => self.stray(&bytes, 1)?,
                },
                StreamPiece::Overlong => return Err(self.garbage("an endless line")),
                StreamPiece::Line(line) => self.stderr_frame(&line)?,
            }
        }
        Ok(())
    }

    fn stderr_frame(&mut self, line: &str) -> Result<(), ShellError> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let senseless = format!("the line {line:?} on standard error");
        let Some(batch) = self.batches.iter_mut().find(|batch| batch.awaits_stderr()) else {
            return Err(self.garbage(&senseless));
        };
        match words.as_slice() {
            ["S", id] if self.err_item.is_none() => match batch.item(id) {
                Some(item) if item.separate && !item.stderr_ended => self.err_item = Some(item.id),
                _ => return Err(self.garbage(&senseless)),
            },
            ["E", id] => match batch.item(id) {
                Some(item) if Some(item.id) == self.err_item => {
                    item.stderr_ended = true;
                    let id = item.id;
                    self.err_item = None;
                    batch.settle(id);
                    self.next_batch();
                }
                _ => return Err(self.garbage(&senseless)),
            },
            _ => return Err(self.garbage(&senseless)),
        }
        Ok(())
    }

    fn frame(&mut self, line: &str) -> Result<(), ShellError> {
        let now = Instant::now();
        self.last_frame = now;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // The two streams do not keep step: standard error of a batch may come when the next one runs already.
        let Some(batch) = self.batches.iter_mut().find(|batch| !batch.done) else {
            return Err(self.garbage(&format!("the line {line:?} while nothing was asked")));
        };
        let idle = self.running.is_none();
        let ok = match words.as_slice() {
            ["P"] if idle => {
                batch.in_prelude = true;
                true
            }
            ["Q", status] if batch.in_prelude => batch.end_prelude(status),
            ["S", id, time, pid] if idle => {
                match batch.item(id).filter(|item| item.state == ItemState::Waiting) {
                    None => false,
                    Some(item) => {
                        item.state = ItemState::Running;
                        let limit = item.timeout.unwrap_or(self.options.item_timeout);
                        let id = item.id;
                        self.running = Some(RunningItem {
                            id,
                            pid: pid.parse().ok(),
                            began: time.parse().ok(),
                            observed: now,
                            limit,
                            deadline: now + limit,
                            killed: false,
                            apart: false,
                        });
                        batch.say(Ok(ShellEvent::Started(id)));
                        true
                    }
                }
            }
            ["E", id, status, time] => match (self.running.take(), status.parse()) {
                (Some(running), Ok(status)) if running.id.to_string() == *id => {
                    let took = time.parse::<f64>().ok().zip(running.began).map(|(end, began)| end - began);
                    let duration = took
                        .and_then(|took| Duration::try_from_secs_f64(took).ok())
                        .unwrap_or_else(|| now.duration_since(running.observed));
                    let status = if running.killed { Status::TimedOut } else { Status::Exited(status) };
                    if let Some(item) = batch.item(id) {
                        item.ended = Some((status, duration));
                        item.stderr_ended |= self.start.terminal;
                    }
                    batch.settle(running.id);
                    true
                }
                _ => false,
            },
            ["R", id] if self.start.terminal => match &mut self.running {
                Some(running) if running.id.to_string() == *id && !running.apart => {
                    running.apart = true;
                    true
                }
                _ => false,
            },
            ["K", id, why @ ..] if idle => {
                match (batch.item(id).filter(|item| item.state == ItemState::Waiting), Because::parse(why)) {
                    (Some(item), Some(because)) => {
                        item.state = ItemState::Over;
                        let id = item.id;
                        batch.say(Ok(ShellEvent::Skipped { id, because }));
                        true
                    }
                    _ => false,
                }
            }
            ["D"]
                if idle
                    && batch
                        .items
                        .iter()
                        .all(|item| item.state == ItemState::Over || item.ended.is_some()) =>
            {
                batch.done = true;
                self.next_batch();
                true
            }
            _ => false,
        };
        if ok { Ok(()) } else { Err(self.garbage(&format!("the line {line:?}"))) }
    }

    fn next_batch(&mut self) {
        while self.batches.front().is_some_and(OpenBatch::complete) {
            self.batches.pop_front();
        }
    }

    fn next_deadline(&self) -> (Instant, Late) {
        let silence = (self.last_heard + self.options.silence_timeout, Late::Silence);
        let far = (Instant::now() + Duration::from_secs(3600), Late::Nothing);
        if !self.started {
            return (self.opened + self.options.start_timeout, Late::Start);
        }
        match &self.running {
            Some(running) if running.deadline < silence.0 => (running.deadline, Late::Item),
            _ if self.batches.is_empty() => far,
            None => (self.last_frame + self.options.frame_timeout, Late::Frame),
            Some(_) => silence,
        }
    }

    /// Whether the host has taken bytes since this was asked last.
    fn takes(&mut self) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        std::mem::replace(&mut self.taken_before, taken) != taken
    }

    fn open(&self) -> Vec<u32> {
        self.batches.iter().flat_map(OpenBatch::open).collect()
    }
}
