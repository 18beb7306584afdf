//! The SSH executor: sessions, host keys, the framed shell; a local twin. Knows no resource.
//!
//! A [`Session`] is one connection to one host. [`Session::shell`] starts a long-lived POSIX shell on it, as the login user or
//! as another one ([`Become`]); [`Shell::run`] sends it a whole [`Batch`] of items at once and yields [`ShellEvent`]s.

mod auth;
mod batch;
mod config;
mod connect;
mod connection;
mod demux;
mod error;
mod files;
mod jump;
mod jump_pool;
mod keyring;
mod known_hosts;
mod method;
mod pipes;
mod program;
mod quote;
mod session;
mod shell;
mod stream;
mod target;
mod tcp;
mod trail;

pub use batch::{Batch, Because, ShellEvent, ShellItem, ShellItemResult, ShellOutcome, Status, Stderr};
pub use config::ClientConfig;
pub use error::{ConnectError, ConnectPhase, FileLine, ShellError, ShownKey};
pub use files::expand;
pub use jump_pool::JumpPool;
pub use keyring::{KeyFileError, KeyRing, is_locked, locked_keys};
pub use known_hosts::{HostKeyVerdict, KnownHosts};
pub use method::Method;
pub use quote::quote;
pub use session::Session;
pub use shell::{Events, Room, Shell, Traffic};
pub use stream::Duplex;
pub use target::{Become, SessionOptions, SshEndpoint, Transport};
pub use tcp::dial;
pub use trail::{Mark, Trust};
