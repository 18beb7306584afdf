//! Dialling, key exchange, host keys.

use crate::auth;
use crate::error::ConnectError;
use crate::known_hosts::KnownHosts;
use crate::target::{Options, Target};
use russh::client::{self, Handle};
use russh::keys::PublicKeyOrCertificate;
use russh::{Preferred, cipher, compression, kex};
use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Bytes that a channel may send before we have taken them: enough for 1 Gbit/s at 60 ms.
const WINDOW: u32 = 8 << 20;

/// What current OpenSSH prefers, without the slow group exchanges of old servers. The hybrid costs well below a millisecond more than
/// curve25519 alone, and no further round trip.
const KEX: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::DH_GEX_SHA256,
    kex::DH_G16_SHA512,
    kex::DH_G14_SHA256,
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
];

/// AES first: the processors on both ends have instructions for it.
const CIPHERS: &[cipher::Name] = &[
    cipher::AES_256_GCM,
    cipher::AES_128_GCM,
    cipher::CHACHA20_POLY1305,
    cipher::AES_256_CTR,
    cipher::AES_192_CTR,
    cipher::AES_128_CTR,
];

/// A connection on which somebody is logged in.
pub(crate) struct Connection {
    pub handle: Handle<Handler>,
}

/// A TCP stream that acknowledges at once. sshd leaves Nagle's algorithm on: after its unasked announcement of host keys, its next
/// small answer waits for our acknowledgement, which Linux would delay by 40 ms. The option wears off, so it is set after each read.
struct Prompt(TcpStream);

impl AsyncRead for Prompt {
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

impl AsyncWrite for Prompt {
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

/// Decides on the host key; everything else of the protocol is left to russh, and what the server opens by itself is refused.
pub(crate) struct Handler {
    known: Arc<KnownHosts>,
    host: String,
    lookup: Lookup,
    /// The reason for a refusal: russh passes errors on only in part.
    refused: Arc<Mutex<Option<ConnectError>>>,
}

/// The name under which a host's keys are recorded.
#[derive(Debug, Clone)]
pub(crate) struct Lookup {
    pub name: String,
    pub port: u16,
}

impl client::Handler for Handler {
    type Error = russh::Error;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = key else {
            // Host certificates are not offered to the server, so it may not choose one.
            return Ok(false);
        };
        match self.known.check(&self.lookup.name, self.lookup.port, key).into_error(&self.host, &self.known) {
            None => Ok(true),
            Some(error) => {
                if let Ok(mut refused) = self.refused.lock() {
                    *refused = Some(error);
                }
                Ok(false)
            }
        }
    }
}

/// What is going on while a limit runs, for its message.
struct Limit<'a> {
    target: &'a Target,
    at: Instant,
}

impl Limit<'_> {
    async fn on<T>(&self, during: &'static str, work: impl Future<Output = T>) -> Result<T, ConnectError> {
        timeout_at(self.at, work).await.map_err(|_| ConnectError::Timeout {
            host: self.target.name.clone(),
            address: self.target.address.clone(),
            port: self.target.port,
            limit: self.target.connect_timeout,
            during,
        })
    }
}

pub(crate) async fn connect(target: &Target, options: &Options) -> Result<Connection, ConnectError> {
    let limit = Limit { target, at: Instant::now() + target.connect_timeout };
    let known = Arc::new(KnownHosts::load(target, options)?);
    let lookup = match &target.host_key_alias {
        Some(alias) => Lookup { name: alias.clone(), port: 22 },
        None => Lookup { name: target.address.clone(), port: target.port },
    };
    let stream = dial(target, &limit).await?;
    let config = Arc::new(config(&known, &lookup));
    let refused = Arc::new(Mutex::new(None));
    let handler = Handler { known, host: target.name.clone(), lookup, refused: Arc::clone(&refused) };
    let shaken = limit.on("the SSH handshake", client::connect_stream(config, stream, handler)).await?;
    let mut handle = shaken.map_err(|error| {
        let reason = refused.lock().ok().and_then(|mut reason| reason.take());
        reason.unwrap_or_else(|| protocol_error(target, error))
    })?;
    limit.on("the login", auth::login(&mut handle, target, options)).await??;
    Ok(Connection { handle })
}

async fn dial(target: &Target, limit: &Limit<'_>) -> Result<Prompt, ConnectError> {
    let dns = |reason: String| ConnectError::Dns {
        host: target.name.clone(),
        address: target.address.clone(),
        reason,
    };
    let name = target.address.trim_start_matches('[').trim_end_matches(']');
    let found = limit.on("looking the name up", tokio::net::lookup_host((name, target.port))).await?;
    let addresses: Vec<SocketAddr> = found.map_err(|error| dns(error.to_string()))?.collect();
    let mut reason = None;
    for (at, address) in addresses.iter().enumerate() {
        // Each further address must still have its share of the time.
        let left = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        let share = limit.at.saturating_duration_since(Instant::now()) / left;
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it the handshake is as right, only slower.
                stream.set_nodelay(true).ok();
                return Ok(Prompt(stream));
            }
            Ok(Err(error)) => reason = Some(error.to_string()),
            Err(_) => {}
        }
    }
    match reason {
        Some(reason) => Err(ConnectError::Unreachable {
            host: target.name.clone(),
            address: target.address.clone(),
            port: target.port,
            reason,
        }),
        None if addresses.is_empty() => Err(dns("no address".to_owned())),
        None => Err(ConnectError::Timeout {
            host: target.name.clone(),
            address: target.address.clone(),
            port: target.port,
            limit: target.connect_timeout,
            during: "the TCP connection",
        }),
    }
}

fn config(known: &KnownHosts, lookup: &Lookup) -> client::Config {
    client::Config {
        nodelay: true,
        window_size: WINDOW,
        keepalive_interval: Some(Duration::from_secs(15)),
        keepalive_max: 3,
        preferred: Preferred {
            kex: Cow::Borrowed(KEX),
            key: Cow::Owned(known.preferred_algorithms(&lookup.name, lookup.port)),
            cipher: Cow::Borrowed(CIPHERS),
            compression: Cow::Borrowed(&[compression::NONE]),
            ..Preferred::DEFAULT
        },
        ..client::Config::default()
    }
}

fn protocol_error(target: &Target, error: russh::Error) -> ConnectError {
    if let russh::Error::NoCommonAlgo { kind, theirs, .. } = &error {
        return ConnectError::NoCommonAlgorithm {
            host: target.name.clone(),
            address: target.address.clone(),
            kind: format!("{kind:?}"),
            theirs: theirs.clone(),
        };
    }
    let reason = match error {
        russh::Error::Disconnect | russh::Error::HUP => {
            "it closed the connection during the handshake; MaxStartups or a ban list may be at work"
                .to_owned()
        }
        russh::Error::Version => "it does not begin with an SSH version line".to_owned(),
        error => error.to_string(),
    };
    ConnectError::Protocol {
        host: target.name.clone(),
        address: target.address.clone(),
        port: target.port,
        reason,
    }
}
