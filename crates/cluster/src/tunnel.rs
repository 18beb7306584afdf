//! The connection to the API server: from this machine, or through an SSH connection.

use converge_ssh::{Duplex, Session};
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Seconds within which the server must accept a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// The origin of the connection.
#[derive(Clone)]
pub(crate) enum Road {
    /// From this machine.
    Direct,
    /// From a host.
    Through(Session),
}

impl Road {
    /// Whether the SSH connection to the host has ended.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Through(session) if session.is_closed())
    }

    /// A stream to this address.
    pub(crate) async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Duplex>> {
        let dialling = async {
            match self {
                Self::Direct => converge_ssh::dial(host, port).await,
                Self::Through(session) => session.tcp(host, port).await,
            }
        };
        tokio::time::timeout(PATIENCE, dialling).await.unwrap_or_else(|_| {
            let reply = format!("{host}:{port} accepts no connection within {} s", PATIENCE.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, reply))
        })
    }
}

/// Dials for hyper.
#[derive(Clone)]
pub(crate) struct Dialer(pub(crate) Road);

/// Host and port of an address.
pub(crate) fn address(uri: &Uri) -> Option<(String, u16)> {
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    Some((uri.host()?.to_owned(), port))
}

impl tower::Service<Uri> for Dialer {
    type Response = TokioIo<TunnelStream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let road = self.0.clone();
        Box::pin(async move {
            let (host, port) = address(&uri)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the address names no host"))?;
            Ok(TokioIo::new(TunnelStream(road.dial(&host, port).await?)))
        })
    }
}

/// A stream as hyper wants it.
pub(crate) struct TunnelStream(Box<dyn Duplex>);

impl Connection for TunnelStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for TunnelStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for TunnelStream {
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
