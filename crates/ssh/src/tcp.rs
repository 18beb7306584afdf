//! A byte stream to a port that the host can reach.

use crate::session::Session;
use crate::stream::{Duplex, QuickAckStream};
use russh::ChannelOpenFailure;
use std::io;
use tokio::net::TcpStream;

/// Dials a port from this machine.
///
/// # Errors
/// Errors of the system.
pub async fn dial(host: &str, port: u16) -> io::Result<Box<dyn Duplex>> {
    let stream = TcpStream::connect((bare(host), port)).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(QuickAckStream(stream)))
}

/// An IPv6 address without the brackets that it has in a URL.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

impl Session {
    /// Dials from the host of this session: through SSH, or directly when the session is a local one. The caller sets the deadline.
    /// Whoever holds a stream through SSH must read it: bytes that are not read hold up everything else on that SSH
    /// connection.
    ///
    /// # Errors
    /// Errors of the host's sshd, or of the system.
    pub async fn tcp(&self, host: &str, port: u16) -> io::Result<Box<dyn Duplex>> {
        let Some(connection) = self.ssh() else { return dial(host, port).await };
        let host = bare(host);
        let opened = connection.handle.channel_open_direct_tcpip(host, u32::from(port), "127.0.0.1", 0).await;
        let channel = opened.map_err(|error| match error {
            russh::Error::ChannelOpenFailure(ChannelOpenFailure::AdministrativelyProhibited) => {
                io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "the host forbids forwarding: AllowTcpForwarding or PermitOpen in its sshd_config",
                )
            }
            russh::Error::ChannelOpenFailure(ChannelOpenFailure::ConnectFailed) => {
                io::Error::new(io::ErrorKind::ConnectionRefused, "the host cannot connect there")
            }
            error => io::Error::new(io::ErrorKind::ConnectionAborted, format!("the SSH connection: {error}")),
        })?;
        Ok(Box::new(channel.into_stream()))
    }
}
