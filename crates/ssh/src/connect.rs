//! Dialling, key exchange, host keys.

use crate::auth;
use crate::connection::{Connection, Handler, KeyDecision, Lookup};
use crate::error::{ConnectError, ConnectPhase};
use crate::jump;
use crate::known_hosts::KnownHosts;
use crate::stream::{Duplex, Ear, FirstWords, ProxyProgram, QuickAckStream};
use crate::target::{SessionOptions, SshEndpoint};
use crate::trail::{Mark, Trail};
use russh::client::{self, Msg};
use russh::{ChannelOpenFailure, ChannelStream, Preferred, cipher, compression, kex};
use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// The first pause before a server that hung up is tried again, and the last; each is twice the one before.
const FIRST_WAIT: Duration = Duration::from_millis(150);
const LAST_WAIT: Duration = Duration::from_millis(2400);

/// Bytes that a channel may send before we have taken them: enough for 1 Gbit/s at 60 ms.
const WINDOW: u32 = 8 << 20;

/// The key exchanges that current OpenSSH prefers, without the slow group exchanges of old servers. The hybrid costs well
/// below a millisecond more than curve25519 alone, and no further round trip.
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

/// A deadline for the phases of a connection; the error of a timeout names the phase.
struct Limit<'a> {
    target: &'a SshEndpoint,
    at: Instant,
}

impl Limit<'_> {
    async fn on<T>(&self, during: ConnectPhase, work: impl Future<Output = T>) -> Result<T, ConnectError> {
        timeout_at(self.at, work).await.map_err(|_| ConnectError::Timeout {
            host: self.target.name.clone(),
            address: self.target.address.clone(),
            port: self.target.port,
            limit: self.target.connect_timeout,
            during,
        })
    }
}

pub(crate) fn connect<'a>(
    target: &'a SshEndpoint,
    options: &'a SessionOptions,
    trail: &'a mut Trail,
) -> Pin<Box<dyn Future<Output = Result<Connection, ConnectError>> + Send + 'a>> {
    // Boxed: a host behind jump hosts connects to them first.
    Box::pin(connect_to(target, options, trail))
}

async fn connect_to(
    target: &SshEndpoint,
    options: &SessionOptions,
    trail: &mut Trail,
) -> Result<Connection, ConnectError> {
    let begun = Instant::now();
    let hop = jump::connection(&target.jumps, options)
        .await
        .map_err(|reason| ConnectError::Jump { host: target.name.clone(), reason: Box::new(reason) })?;
    if let (Some(_), Some(last)) = (&hop, target.jumps.last()) {
        let to = format!("{}:{}", target.address, target.port);
        trail.push(Mark::Through { hop: last.name.clone(), to, took: begun.elapsed() });
    }
    let limit = Limit { target, at: Instant::now() + target.connect_timeout };
    let known = Arc::new(KnownHosts::load(
        &target.name,
        &target.known_hosts,
        &target.host_keys,
        options.home.as_deref(),
    )?);
    let mut wait = FIRST_WAIT;
    loop {
        match attempt(target, options, &limit, hop.as_ref(), Arc::clone(&known), trail).await {
            Ok(connection) => return Ok(connection),
            // sshd drops connections while too many others are logging in (MaxStartups): a matter of moments.
            Err(ConnectError::HungUp { .. }) if wait <= LAST_WAIT && Instant::now() + wait * 2 < limit.at => {
                let jitter = wait.mul_f64(f64::from(rand::random::<u8>()) / 256.0);
                tokio::time::sleep(wait + jitter).await;
                wait *= 2;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn attempt(
    target: &SshEndpoint,
    options: &SessionOptions,
    limit: &Limit<'_>,
    hop: Option<&Arc<Connection>>,
    known: Arc<KnownHosts>,
    trail: &mut Trail,
) -> Result<Connection, ConnectError> {
    let lookup = match &target.host_key_alias {
        Some(alias) => Lookup { name: alias.clone(), port: 22 },
        None => Lookup { name: target.address.clone(), port: target.port },
    };
    let stream: Box<dyn Duplex> = match (hop, &target.proxy_command) {
        (Some(hop), _) => Box::new(forward(target, limit, hop).await?),
        (None, Some(command)) => Box::new(program(target, command)?),
        (None, None) => Box::new(dial(target, limit, trail).await?),
    };
    let heard = FirstWords::default();
    let stream = Ear { stream, heard: heard.clone() };
    let config = Arc::new(config(&known, &lookup));
    let decided = Arc::new(Mutex::new(KeyDecision::default()));
    let handler = Handler {
        known,
        host: target.name.clone(),
        lookup,
        accept_new: options.accept_new,
        decided: Arc::clone(&decided),
    };
    let shaken = limit.on(ConnectPhase::Handshake, client::connect_stream(config, stream, handler)).await;
    let line = heard.line();
    if !line.is_empty() {
        trail.push(Mark::Greeted { line: line.clone() });
    }
    let decided = std::mem::take(&mut *decided.lock().unwrap_or_else(PoisonError::into_inner));
    trail.extend(decided.trusted);
    let mut handle =
        shaken?.map_err(|error| decided.refused.unwrap_or_else(|| protocol_error(target, error, &line)))?;
    limit.on(ConnectPhase::Login, auth::login(&mut handle, target, options, trail)).await??;
    Ok(Connection { handle, _hop: hop.map(Arc::clone) })
}

/// A channel to the host that its jump host opens.
async fn forward(
    target: &SshEndpoint,
    limit: &Limit<'_>,
    hop: &Connection,
) -> Result<ChannelStream<Msg>, ConnectError> {
    let address = target.address.trim_start_matches('[').trim_end_matches(']');
    let opening = hop.handle.channel_open_direct_tcpip(address, u32::from(target.port), "127.0.0.1", 0);
    let opened = limit.on(ConnectPhase::Tunnel, opening).await?;
    let last = target.jumps.last().map(|hop| hop.name.clone()).unwrap_or_default();
    let channel = opened.map_err(|error| {
        let why = match error {
            russh::Error::ChannelOpenFailure(ChannelOpenFailure::AdministrativelyProhibited) => {
                "it forbids forwarding: AllowTcpForwarding or PermitOpen in its sshd_config".to_owned()
            }
            russh::Error::ChannelOpenFailure(ChannelOpenFailure::ConnectFailed) => {
                "it cannot connect there".to_owned()
            }
            error => error.to_string(),
        };
        ConnectError::Unreachable {
            host: target.name.clone(),
            address: target.address.clone(),
            port: target.port,
            reason: format!("the jump host {last} says that {why}"),
        }
    })?;
    Ok(channel.into_stream())
}

/// A program that leads to the host.
fn program(target: &SshEndpoint, command: &str) -> Result<ProxyProgram, ConnectError> {
    let failed = |reason: String| ConnectError::Unreachable {
        host: target.name.clone(),
        address: target.address.clone(),
        port: target.port,
        reason: format!("ProxyCommand: {reason}"),
    };
    let mut child = tokio::process::Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let (input, output) =
        child.stdin.take().zip(child.stdout.take()).ok_or_else(|| failed("no pipes".to_owned()))?;
    Ok(ProxyProgram { input, output, _child: child })
}

async fn dial(
    target: &SshEndpoint,
    limit: &Limit<'_>,
    trail: &mut Trail,
) -> Result<QuickAckStream, ConnectError> {
    let begun = Instant::now();
    let dns = |reason: String| ConnectError::Dns {
        host: target.name.clone(),
        address: target.address.clone(),
        reason,
    };
    let name = target.address.trim_start_matches('[').trim_end_matches(']');
    let found = limit.on(ConnectPhase::NameLookup, tokio::net::lookup_host((name, target.port))).await?;
    let addresses: Vec<SocketAddr> = found.map_err(|error| dns(error.to_string()))?.collect();
    trail.push(Mark::Resolved {
        name: name.to_owned(),
        addresses: addresses.iter().map(|address| address.ip().to_string()).collect(),
    });
    let mut reason = None;
    for (at, address) in addresses.iter().enumerate() {
        // Each further address must still have its share of the time.
        let left = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        let share = limit.at.saturating_duration_since(Instant::now()) / left;
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it the handshake is as right, only slower.
                stream.set_nodelay(true).ok();
                trail.push(Mark::Dialled { address: address.to_string(), took: begun.elapsed() });
                return Ok(QuickAckStream(stream));
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
            during: ConnectPhase::Tcp,
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
            host_key_certificates: Cow::Owned(known.certificate_algorithms(&lookup.name, lookup.port)),
            cipher: Cow::Borrowed(CIPHERS),
            compression: Cow::Borrowed(&[compression::NONE]),
            ..Preferred::DEFAULT
        },
        ..client::Config::default()
    }
}

/// Translates an error of the handshake. `line` is the first line that came.
fn protocol_error(target: &SshEndpoint, error: russh::Error, line: &str) -> ConnectError {
    let (host, address, port) = (target.name.clone(), target.address.clone(), target.port);
    if let russh::Error::NoCommonAlgo { kind, theirs, .. } = &error {
        return ConnectError::NoCommonAlgorithm {
            host,
            address,
            kind: format!("{kind:?}"),
            theirs: theirs.clone(),
        };
    }
    let closed = match &error {
        russh::Error::Disconnect | russh::Error::HUP => true,
        russh::Error::IO(error) => matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        ),
        _ => false,
    };
    // OpenSSH says in clear why it will not talk: `Exceeded MaxStartups`, `Not allowed at this time`.
    let sorry = ["Exceeded MaxStartups", "Not allowed at this time"].iter().any(|text| line.contains(text));
    if sorry || (closed && (line.is_empty() || line.starts_with("SSH-"))) {
        let reply = sorry.then(|| line.to_owned());
        return ConnectError::HungUp { host, address, port, reply };
    }
    let reason = match error {
        russh::Error::Version | russh::Error::Disconnect | russh::Error::HUP => {
            "it does not begin with an SSH version line".to_owned()
        }
        error => error.to_string(),
    };
    ConnectError::Protocol { host, address, port, reason }
}
