//! The steps of a connection, one by one: for `converge doctor` and for people who are asked to trust a key.

use std::time::Duration;

/// One step of a connection that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mark {
    /// The name has these addresses.
    Resolved {
        /// The name.
        name: String,
        /// Its addresses.
        addresses: Vec<String>,
    },
    /// A jump host passed the connection on.
    Through {
        /// Its name.
        hop: String,
        /// The address that the jump host connected to, `address:port`.
        to: String,
        /// The duration, its own login included.
        took: Duration,
    },
    /// TCP is connected.
    Dialled {
        /// `address:port`
        address: String,
        /// The duration.
        took: Duration,
    },
    /// The server's first line.
    Greeted {
        /// As it came, without control characters.
        line: String,
    },
    /// The host key was accepted.
    HostKey {
        /// Its type.
        algorithm: String,
        /// `SHA256:…`
        fingerprint: String,
        /// The reason why it is trusted.
        trust: Trust,
    },
    /// A method of login was tried.
    Tried {
        /// The key or method.
        what: String,
        /// The server took it.
        taken: bool,
    },
    /// A private RSA key from a file signed the login, the first time that this run used it: the code that signs with it can be timed
    /// (RUSTSEC-2023-0071). The ssh-agent signs in its own process, and ed25519 is not affected.
    RsaKeyFile {
        /// The file.
        path: String,
    },
    /// Logged in.
    LoggedIn {
        /// As this user.
        user: String,
    },
}

/// The reason why a host key is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The place where the key is recorded.
    Recorded(String),
    /// An authority that is recorded here signed it.
    Certified(String),
    /// The key was unknown, and was recorded in this file because first contact was allowed.
    New(String),
}

/// The steps so far.
pub(crate) type Trail = Vec<Mark>;
