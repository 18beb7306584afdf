//! How a shell ends: what was late, what its last words were, and which processes go with it.

use super::{Actor, PART};
use crate::batch::Batch;
use crate::error::ShellError;
use crate::pipes::{InputWriter, ProgramEnd};
use crate::program::{Prompt, kill_script};
use crate::session::Session;
use crate::target::Become;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The number of bytes of the last output that are kept for a message.
pub(super) const LAST_WORDS: usize = 2048;

/// Removes the mark that was put before su's output.
pub(super) fn without_mark(reply: &str, prompt: Option<&Prompt>) -> String {
    match prompt {
        Some(Prompt::After(mark)) => reply.replace(String::from_utf8_lossy(mark).as_ref(), ""),
        _ => reply.to_owned(),
    }
}

#[derive(Clone, Copy)]
pub(super) enum Late {
    Nothing,
    Start,
    Silence,
    Frame,
    Item,
}

/// The end of a text, at most `LAST_WORDS` bytes.
pub(super) fn last(text: &str) -> String {
    let from = text.len().saturating_sub(LAST_WORDS);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(from..).unwrap_or_default().to_owned()
}

pub(super) async fn write_all(
    mut writer: InputWriter,
    mut rx: UnboundedReceiver<Bytes>,
    stop: oneshot::Receiver<()>,
    taken: Arc<AtomicUsize>,
) {
    let work = async {
        while let Some(mut bytes) = rx.recv().await {
            while !bytes.is_empty() {
                let part = bytes.split_to(bytes.len().min(PART));
                let length = part.len();
                if !writer.write(part).await {
                    // The reader learns of the end by itself, with the reason.
                    return;
                }
                taken.fetch_add(length, Ordering::Relaxed);
            }
        }
    };
    tokio::select! {
        () = work => {}
        Ok(()) = stop => {}
    }
    writer.close().await;
}

/// Ends an item's processes through a second shell. Boxed: a shell's task starts this, and this starts a shell.
pub(super) fn end_processes(
    session: Session,
    become_: Become,
    pid: u32,
) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let ended = async {
            let shell = session.shell(&become_).await?;
            let batch = Batch::of(vec![crate::batch::ShellItem::new(0, kill_script(pid))]);
            let (_, error) = shell.run_to_end(&batch).await?;
            error.map_or(Ok(()), Err)
        };
        if let Err(error) = ended.await {
            tracing::warn!(%error, pid, "an item past its limit could not be ended");
        }
    })
}

impl Actor {
    pub(super) fn late(&mut self, what: Late) -> Result<(), ShellError> {
        // Input that is still being sent counts as progress, even over a slow connection.
        if matches!(what, Late::Item | Late::Frame) && self.takes() {
            let now = Instant::now();
            self.last_frame = now;
            match &mut self.running {
                Some(running) if !running.killed => {
                    running.deadline = now + running.limit;
                    return Ok(());
                }
                None => return Ok(()),
                Some(_) => {}
            }
        }
        let open = self.open();
        let limit = match what {
            Late::Nothing => return Ok(()),
            Late::Start => self.options.start_timeout,
            Late::Silence => self.options.silence_timeout,
            Late::Frame => self.options.frame_timeout,
            Late::Item => self.running.as_ref().map_or(Duration::ZERO, |running| running.limit),
        };
        let item = self.running.as_ref().map(|running| running.id);
        if let (Late::Item, Some(running)) = (what, &mut self.running)
            && let (Some(pid), false) = (running.pid, running.killed)
        {
            running.killed = true;
            running.deadline = Instant::now() + self.options.kill_grace;
            tokio::spawn(end_processes(self.session.clone(), self.become_.clone(), pid));
            return Ok(());
        }
        Err(ShellError::Deadline { item, limit, open })
    }

    pub(super) fn garbage(&self, what: &str) -> ShellError {
        ShellError::Garbage { what: what.to_owned(), open: self.open() }
    }

    /// The error for an end of the program at this point.
    pub(super) fn ended(&mut self, end: &ProgramEnd) -> ShellError {
        let rest = [self.out.rest(), self.err.rest()];
        let reply = [&self.noise[1], &self.noise[0], &rest[1].to_vec(), &rest[0].to_vec()]
            .map(|text| String::from_utf8_lossy(text).trim().to_owned());
        let mut reply: Vec<String> = reply.into_iter().filter(|text| !text.is_empty()).collect();
        if !end.words.is_empty() {
            reply.push(end.words.clone());
        }
        let reply = last(&reply.join("; "));
        if self.started {
            if let Some(batch) = self.batches.iter().find(|batch| batch.in_prelude) {
                let words = String::from_utf8_lossy(&batch.prelude_output).trim().to_owned();
                return ShellError::Prelude {
                    status: -1,
                    reply: format!("it ended the shell; {words} {reply}"),
                };
            }
            let open = self.open();
            return ShellError::Closed { reply, terminated: end.terminated, open };
        }
        match &self.become_ {
            Become::User { method, user, .. } => {
                let (method, user) = (*method, user.clone());
                let says = |texts: &[&str]| texts.iter().any(|text| reply.contains(text));
                let asks =
                    ["a password is required", "authentication is required", "Authentication required"];
                let wrong = ["incorrect password", "uthentication failure", "uthentication failed"];
                if self.start.prompt.is_none() && says(&asks) {
                    ShellError::PasswordNeeded { method, user }
                } else if self.password_sent && says(&wrong) {
                    ShellError::WrongPassword { method, user }
                } else if self.start.terminal && says(&["stty: "]) {
                    let reply = format!(
                        "{method} needs a terminal, and sshd gives none (PermitTTY, or `no-pty` at the key): {reply}"
                    );
                    ShellError::BecomeFailed { method, user, reply }
                } else {
                    ShellError::BecomeFailed {
                        method,
                        user,
                        reply: without_mark(&reply, self.start.prompt.as_ref()),
                    }
                }
            }
            Become::None => ShellError::NotStarted { reply },
        }
    }
}
