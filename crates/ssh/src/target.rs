//! The description of a target: a host and its connection.

use crate::jump_pool::JumpPool;
use crate::keyring::KeyRing;
use crate::method::Method;
use camino::Utf8PathBuf;
use secrecy::SecretString;
use std::time::Duration;

/// The transport to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Over SSH.
    #[default]
    Ssh,
    /// As a child process of this program, on this machine.
    Local,
}

/// One host, as the inventory describes it.
#[derive(Debug, Clone)]
pub struct SshEndpoint {
    /// The name shown to the user.
    pub name: String,
    /// Host name or address to dial; host keys are looked up by it.
    pub address: String,
    /// TCP port.
    pub port: u16,
    /// Login user; `None` is the user who runs this program.
    pub user: Option<String>,
    /// Private key files, tried in this order; empty means `~/.ssh/id_ed25519`, `id_ecdsa`, `id_rsa` where they exist.
    pub key_files: Vec<Utf8PathBuf>,
    /// OpenSSH certificates for these keys, besides `KEY-cert.pub` beside each.
    pub certificate_files: Vec<Utf8PathBuf>,
    /// Offer only `key_files`, and of the agent's keys only those that belong to them.
    pub identities_only: bool,
    /// Password for password and keyboard-interactive login.
    pub password: Option<SecretString>,
    /// Name to look host keys up by, instead of address and port.
    pub host_key_alias: Option<String>,
    /// known_hosts files; empty means `~/.ssh/known_hosts`, `~/.ssh/known_hosts2` and `/etc/ssh/ssh_known_hosts`.
    pub known_hosts: Vec<Utf8PathBuf>,
    /// Host keys that count in place of known_hosts: `TYPE KEY`, or `@cert-authority TYPE KEY` for the key of an authority. Keys that
    /// known_hosts marks `@revoked` stay refused.
    pub host_keys: Vec<String>,
    /// Hosts through which this one is reached, the first one dialled from here. Their own `jumps` do not count.
    pub jumps: Vec<SshEndpoint>,
    /// A command of this machine's shell whose standard streams lead to the host.
    pub proxy_command: Option<String>,
    /// Limit for dialling, handshake and login together.
    pub connect_timeout: Duration,
    /// SSH, or this machine.
    pub transport: Transport,
}

impl SshEndpoint {
    /// A host reached by SSH on port 22 with default keys, host-key files and a limit of 10 s.
    #[must_use]
    pub fn ssh(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            address: name.clone(),
            name,
            port: 22,
            user: None,
            key_files: Vec::new(),
            identities_only: false,
            password: None,
            host_key_alias: None,
            known_hosts: Vec::new(),
            certificate_files: Vec::new(),
            host_keys: Vec::new(),
            jumps: Vec::new(),
            proxy_command: None,
            connect_timeout: Duration::from_secs(10),
            transport: Transport::Ssh,
        }
    }

    /// This machine, without SSH.
    #[must_use]
    pub fn local(name: impl Into<String>) -> Self {
        Self { transport: Transport::Local, ..Self::ssh(name) }
    }
}

/// As whom a shell runs.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Become {
    /// The login user.
    #[default]
    None,
    /// Another user.
    User {
        /// By which program.
        method: Method,
        /// User to become, usually `root`.
        user: String,
        /// The password that the program asks for; `None` requires a program that does not ask.
        password: Option<SecretString>,
    },
}

impl Become {
    /// Another user through sudo.
    #[must_use]
    pub fn sudo(user: impl Into<String>, password: Option<SecretString>) -> Self {
        Self::User { method: Method::Sudo, user: user.into(), password }
    }
}

/// Limits and details that are the same for all hosts.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Socket of the ssh-agent; by default `$SSH_AUTH_SOCK`.
    pub agent: Option<Utf8PathBuf>,
    /// Home directory in which `.ssh` is looked for; by default `$HOME`.
    pub home: Option<Utf8PathBuf>,
    /// Record the key of a host that no known_hosts file knows, and trust it. A changed key is still refused.
    pub accept_new: bool,
    /// Keys that were unlocked with their passphrase.
    pub keys: KeyRing,
    /// Connections to jump hosts.
    pub jumps: JumpPool,
    /// The shell started on the host, as words. Default `sh`.
    pub shell: Vec<String>,
    /// Time a shell has for its first sign of life, sudo included.
    pub start_timeout: Duration,
    /// Limit for an item without one of its own. It starts again whenever more of its input has been sent.
    pub item_timeout: Duration,
    /// Longest time without a byte from the host while a batch is open.
    pub silence_timeout: Duration,
    /// Longest time outside all items without a frame of the loop or a byte that it takes; other output of the host does not
    /// count.
    pub frame_timeout: Duration,
    /// Time for an item to end after its limit has passed and its processes got a signal.
    pub kill_grace: Duration,
    /// Bytes kept of an item's output (each of stdout and stderr); the rest is dropped and the item flagged.
    pub max_output: usize,
    /// Bytes of output that may wait for a caller that is slow in taking events; more is dropped and the item flagged.
    pub max_queued: usize,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            agent: std::env::var("SSH_AUTH_SOCK").ok().filter(|path| !path.is_empty()).map(Utf8PathBuf::from),
            home: std::env::var("HOME").ok().map(Utf8PathBuf::from),
            accept_new: false,
            keys: KeyRing::default(),
            jumps: JumpPool::default(),
            shell: vec!["sh".to_owned()],
            start_timeout: Duration::from_secs(30),
            item_timeout: Duration::from_secs(3600),
            silence_timeout: Duration::from_secs(1800),
            frame_timeout: Duration::from_secs(180),
            kill_grace: Duration::from_secs(15),
            max_output: 8 << 20,
            max_queued: 64 << 20,
        }
    }
}
