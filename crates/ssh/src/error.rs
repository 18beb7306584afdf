//! Errors of connecting and of running; each message says what to do.

use crate::method::Method;
use std::time::Duration;
use thiserror::Error;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLine {
    /// Path of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
}

impl std::fmt::Display for FileLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A host key that a host showed, and the name it was looked up by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownKey {
    /// Name looked up: `host` or `[host]:port`.
    pub lookup: String,
    /// Key type.
    pub algorithm: String,
    /// `SHA256:…`.
    pub fingerprint: String,
    /// The known_hosts line that would accept it.
    pub line: String,
}

/// A phase of a connection, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectPhase {
    /// The name's addresses are asked for.
    NameLookup,
    /// One of them is dialled.
    Tcp,
    /// The jump host opens a connection.
    Tunnel,
    /// Keys are exchanged, and the host's key is checked.
    Handshake,
    /// The user logs in.
    Login,
}

impl std::fmt::Display for ConnectPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NameLookup => "looking the name up",
            Self::Tcp => "the TCP connection",
            Self::Tunnel => "the connection from the jump host",
            Self::Handshake => "the SSH handshake",
            Self::Login => "the login",
        })
    }
}

/// The reason why there is no session with a host.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name has no address.
    #[error(
        "{host}: the name {address} cannot be resolved ({reason}); set `ansible_host` to an address or correct the name"
    )]
    Dns {
        /// Host as shown.
        host: String,
        /// Name that was looked up.
        address: String,
        /// The message of the resolver.
        reason: String,
    },
    /// TCP failed: refused, no route, reset.
    #[error(
        "{host}: cannot reach {address}:{port} ({reason}); is the host up, and is sshd listening on this port?"
    )]
    Unreachable {
        /// Host as shown.
        host: String,
        /// Address dialled.
        address: String,
        /// Port dialled.
        port: u16,
        /// The message of the system.
        reason: String,
    },
    /// The limit passed.
    #[error("{host}: {address}:{port} gave no answer within {}; {during} was not finished. Is it the right address, does a firewall drop it, or is the host overloaded?", seconds(.limit))]
    Timeout {
        /// Host as shown.
        host: String,
        /// Address dialled.
        address: String,
        /// Port dialled.
        port: u16,
        /// The limit.
        limit: Duration,
        /// The phase that was not finished.
        during: ConnectPhase,
    },
    /// The server refused the login.
    #[error("{host}: {address} refused the login of {user}; tried: {}; the server offers: {}.{}", list(.tried), list(.offered), hint(.notes))]
    RefusedLogin {
        /// Host as shown.
        host: String,
        /// Address dialled.
        address: String,
        /// Login user.
        user: String,
        /// Methods and keys that were tried, in order.
        tried: Box<[String]>,
        /// Methods that the server still offers.
        offered: Box<[String]>,
        /// Keys that could not be tried, and why; what to do.
        notes: Box<[String]>,
    },
    /// No known_hosts file knows the host.
    #[error("{host}: the host key of {} is not known. It shows {} {}{}. Compare this with the host's own (`ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` on its console), then run with --accept-new-host-keys or add this line to {file}:\n{}", .key.lookup, .key.algorithm, .key.fingerprint, others(.known), .key.line)]
    UnknownHostKey {
        /// Host as shown.
        host: String,
        /// The key and the line to add.
        key: Box<ShownKey>,
        /// The file to add it to.
        file: String,
        /// The places where keys of another type of this host are recorded.
        known: Vec<FileLine>,
    },
    /// Another key of the same type is on record.
    #[error("{host}: THE HOST KEY OF {} HAS CHANGED. It shows {} {}; another key is recorded at {}. Either the host was reinstalled, or someone stands in between. If you know that it was reinstalled, remove that line and add:\n{}", .key.lookup, .key.algorithm, .key.fingerprint, list(.recorded), .key.line)]
    ChangedHostKey {
        /// Host as shown.
        host: String,
        /// The key that the host shows.
        key: Box<ShownKey>,
        /// The places where the old keys are recorded.
        recorded: Vec<FileLine>,
    },
    /// The key is marked `@revoked`.
    #[error(
        "{host}: the host key of {}, {} {}, is revoked at {at}; this key must not be trusted. Give the host a new key", .key.lookup, .key.algorithm, .key.fingerprint
    )]
    RevokedHostKey {
        /// Host as shown.
        host: String,
        /// The key that the host shows.
        key: Box<ShownKey>,
        /// The `@revoked` line.
        at: FileLine,
    },
    /// A known_hosts file cannot be read.
    #[error("{host}: cannot read {file} ({reason}); host keys cannot be checked without it")]
    KnownHostsFile {
        /// Host as shown.
        host: String,
        /// The file.
        file: String,
        /// The message of the system.
        reason: String,
    },
    /// The server does not speak SSH, or not properly.
    #[error("{host}: {address}:{port} does not speak SSH as expected ({reason}); is it the right port?")]
    Protocol {
        /// Host as shown.
        host: String,
        /// Address dialled.
        address: String,
        /// Port dialled.
        port: u16,
        /// The problem.
        reason: String,
    },
    /// The server closed the connection before the handshake was over, more than once.
    #[error("{host}: {address}:{port} closed the connection during the handshake{}; too many logins at once (MaxStartups), or a ban list (fail2ban, PerSourcePenalties)? see `journalctl -u ssh` on the host", words(.reply.as_deref()))]
    HungUp {
        /// Host as shown.
        host: String,
        /// Address dialled.
        address: String,
        /// Port dialled.
        port: u16,
        /// The server's message before it closed.
        reply: Option<String>,
    },
    /// A jump host cannot be used.
    #[error("{host}: on the way through a jump host: {reason}")]
    Jump {
        /// Host as shown.
        host: String,
        /// The error of the jump host, which it names.
        reason: Box<ConnectError>,
    },
    /// A trusted authority signed the host's certificate, but it does not hold.
    #[error("{host}: the host certificate of {} is signed by the authority at {at}, but {why}. It is for the key {} {}. Sign the host's key again: ssh-keygen -s CA -h -I ID -n {} -V +52w KEY.pub", .key.lookup, .key.algorithm, .key.fingerprint, .key.lookup)]
    BadHostCertificate {
        /// Host as shown.
        host: String,
        /// The key in the certificate.
        key: Box<ShownKey>,
        /// The line of the authority.
        at: FileLine,
        /// The reason why the certificate is not valid.
        why: String,
    },
    /// A host key in the inventory is none.
    #[error(
        "{host}: `{line}` is not a host key; write it as `TYPE KEY`, as in /etc/ssh/ssh_host_ed25519_key.pub, or `@cert-authority TYPE KEY`"
    )]
    PinnedKey {
        /// Host as shown.
        host: String,
        /// The text in the inventory.
        line: String,
    },
    /// A new key cannot be recorded.
    #[error("{host}: its new host key cannot be recorded in {file} ({reason}), so it is not trusted")]
    NotRecorded {
        /// Host as shown.
        host: String,
        /// The file.
        file: String,
        /// The message of the system.
        reason: String,
    },
    /// No common algorithm.
    #[error("{host}: no common {kind} algorithm with {address}; the server offers only: {}", list(.theirs))]
    NoCommonAlgorithm {
        /// Host as shown.
        host: String,
        /// Address dialled.
        address: String,
        /// Cipher, key exchange, host key …
        kind: String,
        /// The algorithms that the server offers.
        theirs: Vec<String>,
    },
}

impl ConnectError {
    /// The host could not be reached at all: a matter of exit code 3.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Dns { .. }
                | Self::Unreachable { .. }
                | Self::Timeout { .. }
                | Self::Protocol { .. }
                | Self::NoCommonAlgorithm { .. }
                | Self::HungUp { .. }
        ) || matches!(self, Self::Jump { reason, .. } if reason.is_unreachable())
    }

    /// The host, or a jump host before it, refused the login.
    #[must_use]
    pub fn is_refused_login(&self) -> bool {
        matches!(self, Self::RefusedLogin { .. })
            || matches!(self, Self::Jump { reason, .. } if reason.is_refused_login())
    }

    /// The host was there, and either side refused the other: login, host key.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        !self.is_unreachable()
    }
}

/// The reason why a shell, or a batch on it, ended early.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ShellError {
    /// The program wants a password and none was given.
    #[error(
        "{method} on the host asks for a password for becoming {user}; give it with -K, or {}", without(*.method)
    )]
    PasswordNeeded {
        /// The program.
        method: Method,
        /// User to become.
        user: String,
    },
    /// The program did not take the password.
    #[error(
        "{method} on the host did not accept the password for becoming {user}; check what you typed for -K or `ansible_become_password`{}", whose(*.method, .user)
    )]
    WrongPassword {
        /// The program.
        method: Method,
        /// User to become.
        user: String,
    },
    /// The program refused for another reason, or is not there.
    #[error("cannot become {user} on the host through {method}: {reply}")]
    BecomeFailed {
        /// The program.
        method: Method,
        /// User to become.
        user: String,
        /// Its message.
        reply: String,
    },
    /// The shell did not start.
    #[error("no shell on the host: {reply}")]
    NotStarted {
        /// The message of the host.
        reply: String,
    },
    /// The server opens no more channels (`MaxSessions`).
    #[error("the host's sshd opens no further session ({reply}); raise MaxSessions in its sshd_config")]
    NoChannel {
        /// The message of the server.
        reply: String,
    },
    /// Output that the loop on the host never writes.
    #[error("the host's answer makes no sense: {what}")]
    Garbage {
        /// The output.
        what: String,
        /// Items without an end.
        open: Vec<u32>,
    },
    /// The connection or the shell ended.
    #[error("the connection to the shell was lost{}", bracketed(.reply))]
    Closed {
        /// Last words on standard error.
        reply: String,
        /// Whether the shell was ended by `SIGTERM`, as the host's watchdog does it.
        terminated: bool,
        /// Items without an end.
        open: Vec<u32>,
    },
    /// A limit passed and the item could not be ended.
    #[error("{} within {}", late(.item.as_ref()), seconds(.limit))]
    Deadline {
        /// The running item; `None` when the host was silent between items or before the first.
        item: Option<u32>,
        /// The limit.
        limit: Duration,
        /// Items without an end.
        open: Vec<u32>,
    },
    /// The caller's limit for all answers together is used up.
    #[error("the host's answers together {} than allowed", if *.time { "took longer" } else { "are larger" })]
    Exhausted {
        /// It is time that is used up; else it is bytes.
        time: bool,
        /// Items without an end.
        open: Vec<u32>,
    },
    /// The prelude failed, so that no item ran.
    #[error("the prelude failed with status {status}: {reply}")]
    Prelude {
        /// Its exit status.
        status: i32,
        /// Its output.
        reply: String,
    },
    /// The batch is malformed: a caller's mistake.
    #[error("malformed batch: {0}")]
    BadBatch(String),
}

impl ShellError {
    /// The connection or the shell ended, and nothing tells by which signal.
    #[must_use]
    pub fn closed(reply: String, open: Vec<u32>) -> Self {
        Self::Closed { reply, terminated: false, open }
    }
}

fn seconds(limit: &Duration) -> String {
    format!("{} s", (limit.as_secs_f64() * 10.0).round() / 10.0)
}

fn list<T: ToString>(items: &[T]) -> String {
    if items.is_empty() {
        return "nothing".to_owned();
    }
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn words(reply: Option<&str>) -> String {
    reply.map(|reply| format!(" ({reply})")).unwrap_or_default()
}

fn hint(notes: &[String]) -> String {
    notes.iter().map(|note| format!(" {note}.")).collect()
}

fn others(known: &[FileLine]) -> String {
    if known.is_empty() {
        String::new()
    } else {
        format!(" (only keys of other types are recorded, at {})", list(known))
    }
}

fn bracketed(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}

/// Numbers of items mean nothing to whoever reads this; the caller knows their names.
fn late(item: Option<&u32>) -> &'static str {
    match item {
        Some(_) => "a step did not end",
        None => "the host did not answer",
    }
}

fn without(method: Method) -> &'static str {
    match method {
        Method::Sudo => "let the login user run sudo without one",
        Method::Su => "log in as a user that may use sudo",
        Method::Doas => "let the login user run doas without one (`permit nopass` in doas.conf)",
    }
}

fn whose(method: Method, user: &str) -> String {
    match method {
        Method::Su => format!(" (su wants the one of {user})"),
        Method::Sudo | Method::Doas => String::new(),
    }
}
