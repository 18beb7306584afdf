//! The byte streams below SSH: TCP, a channel of a jump host, a program.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout};

/// As much of the server's first words as is kept.
const FIRST_WORDS: usize = 256;

/// A stream in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl std::fmt::Debug for dyn Duplex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Duplex")
    }
}

/// A TCP stream that acknowledges at once. sshd leaves Nagle's algorithm on: after its unasked announcement of host keys, its next
/// small answer waits for our acknowledgement, which Linux would delay by 40 ms. The option wears off, so it is set after each read.
pub(crate) struct QuickAckStream(pub TcpStream);

impl AsyncRead for QuickAckStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.0).poll_read(cx, buf);
        #[cfg(target_os = "linux")]
        if result.is_ready() {
            // Without it everything is as right, only slower.
            self.0.set_quickack(true).ok();
        }
        result
    }
}

impl AsyncWrite for QuickAckStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A program whose standard streams lead to the server (`ProxyCommand`). It ends with the connection.
pub(crate) struct ProxyProgram {
    pub input: ChildStdin,
    pub output: ChildStdout,
    pub _child: Child,
}

impl AsyncRead for ProxyProgram {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_read(cx, buf)
    }
}

impl AsyncWrite for ProxyProgram {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(cx)
    }
}

/// The server's first words, as they were heard.
#[derive(Clone, Default)]
pub(crate) struct FirstWords(Arc<Mutex<Vec<u8>>>);

impl FirstWords {
    /// The first line, without control characters; empty when nothing was said.
    pub(crate) fn line(&self) -> String {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = heard.split(|byte| *byte == b'\n').next().unwrap_or_default();
        String::from_utf8_lossy(line).chars().filter(|c| !c.is_control()).collect()
    }
}

/// Passes a stream on and remembers how it began: a server that closes at once often says why.
pub(crate) struct Ear<S> {
    pub stream: S,
    pub heard: FirstWords,
}

impl<S: Duplex> AsyncRead for Ear<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        let mut heard = self.heard.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = FIRST_WORDS.saturating_sub(heard.len());
        if room > 0 {
            let new = buf.filled().get(before..).unwrap_or_default();
            heard.extend_from_slice(new.get(..room.min(new.len())).unwrap_or_default());
        }
        drop(heard);
        result
    }
}

impl<S: Duplex> AsyncWrite for Ear<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
