//! The standard streams of a running program: over an SSH channel, or of a child process.

use bytes::{Bytes, BytesMut};
use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, timeout_at};

/// The longest time for a program's last output to come after its end.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The number of the signal, the same on every system that runs a controller.
const SIGTERM: i32 = 15;

/// A part of a program's output.
#[derive(Debug)]
pub(crate) enum ProgramOutput {
    /// Standard output.
    Out(Bytes),
    /// Standard error.
    Err(Bytes),
    /// The program ended, or the server refused to start it.
    Ended(ProgramEnd),
}

/// The end of a program.
#[derive(Debug)]
pub(crate) struct ProgramEnd {
    /// A sentence; empty where nobody tells.
    pub words: String,
    /// Whether it was ended by `SIGTERM`.
    pub terminated: bool,
}

impl From<String> for ProgramEnd {
    fn from(words: String) -> Self {
        Self { words, terminated: false }
    }
}

/// The program's input.
pub(crate) enum InputWriter {
    Ssh(ChannelWriteHalf<Msg>),
    Local(ChildStdin),
}

impl InputWriter {
    /// Writes all of it; false when the program no longer reads.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> bool {
        match self {
            Self::Ssh(half) => half.data_bytes(bytes).await.is_ok(),
            Self::Local(stdin) => stdin.write_all(&bytes).await.is_ok() && stdin.flush().await.is_ok(),
        }
    }

    /// End of input, and no further interest in the channel.
    pub(crate) async fn close(self) {
        if let Self::Ssh(half) = self {
            // A connection that is gone needs no goodbye.
            drop(half.eof().await);
            drop(half.close().await);
        }
    }
}

/// The program's output.
pub(crate) enum OutputReader {
    Ssh {
        half: ChannelReadHalf,
        /// The end of the program, and the deadline for its last output: sshd may report the end first.
        ended: Option<(ProgramEnd, Instant)>,
        _slot: OwnedSemaphorePermit,
    },
    Local(mpsc::Receiver<ProgramOutput>),
}

impl OutputReader {
    /// The next part; `None` once there will be nothing more.
    pub(crate) async fn next(&mut self) -> Option<ProgramOutput> {
        match self {
            Self::Local(receiver) => receiver.recv().await,
            Self::Ssh { half, ended, .. } => loop {
                let message = match ended {
                    None => half.wait().await,
                    // Background processes may hold the channel open; then the time decides.
                    Some((_, until)) => timeout_at(*until, half.wait()).await.unwrap_or_default(),
                };
                let how = match message {
                    None | Some(ChannelMsg::Close) => {
                        return ended.take().map(|(how, _)| ProgramOutput::Ended(how));
                    }
                    Some(ChannelMsg::Data { data }) => return Some(ProgramOutput::Out(data)),
                    Some(ChannelMsg::ExtendedData { data, ext: 1 }) => return Some(ProgramOutput::Err(data)),
                    Some(ChannelMsg::ExitStatus { exit_status }) => {
                        format!("the shell ended with status {exit_status}").into()
                    }
                    Some(ChannelMsg::ExitSignal { signal_name, .. }) => ProgramEnd {
                        words: format!("the shell was ended by signal {signal_name:?}"),
                        terminated: matches!(signal_name, Sig::TERM),
                    },
                    Some(ChannelMsg::Failure) => "sshd refused to run a command".to_owned().into(),
                    Some(_) => continue,
                };
                *ended = Some((how, Instant::now() + LAST_WORDS));
            },
        }
    }
}

/// Takes a child's streams over; a task of its own reads them, so that the child never waits for us.
pub(crate) fn local(mut child: Child) -> Option<(InputWriter, OutputReader)> {
    let (stdin, stdout, stderr) = (child.stdin.take()?, child.stdout.take()?, child.stderr.take()?);
    let (tx, rx) = mpsc::channel(64);
    tokio::spawn(pump(child, stdout, stderr, tx));
    Some((InputWriter::Local(stdin), OutputReader::Local(rx)))
}

async fn pump(
    mut child: Child,
    mut stdout: ChildStdout,
    mut stderr: ChildStderr,
    tx: mpsc::Sender<ProgramOutput>,
) {
    let (mut out_open, mut err_open) = (true, true);
    let mut status = None;
    while out_open || err_open {
        let raw = tokio::select! {
            biased;
            bytes = chunk(&mut stdout), if out_open => match bytes {
                Some(bytes) => ProgramOutput::Out(bytes),
                None => { out_open = false; continue }
            },
            bytes = chunk(&mut stderr), if err_open => match bytes {
                Some(bytes) => ProgramOutput::Err(bytes),
                None => { err_open = false; continue }
            },
            ended = child.wait(), if status.is_none() => { status = Some(ended); continue }
            // The child is gone, but something it started in the background holds the streams.
            () = tokio::time::sleep(Duration::from_millis(100)), if status.is_some() => break,
        };
        if tx.send(raw).await.is_err() {
            break;
        }
    }
    let ended = match status {
        Some(ended) => ended,
        // If both streams are closed or have no reader, the loop ends with its input, so this does not wait for ever.
        None => child.wait().await,
    };
    let end = match ended {
        Ok(status) => ProgramEnd {
            words: format!("the shell ended: {status}"),
            terminated: status.signal() == Some(SIGTERM),
        },
        Err(error) => format!("the shell is lost: {error}").into(),
    };
    // The receiver may have gone first.
    drop(tx.send(ProgramOutput::Ended(end)).await);
}

async fn chunk(stream: &mut (impl AsyncRead + Unpin)) -> Option<Bytes> {
    let mut buf = BytesMut::with_capacity(32 << 10);
    match stream.read_buf(&mut buf).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(buf.freeze()),
    }
}
