//! What happened on the way in, step by step: for `converge doctor` and for people who are asked to trust a key.

use std::time::Duration;

/// One step of a way in that was taken.
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
    /// A jump host let us through.
    Through {
        /// Its name.
        hop: String,
        /// What the jump host was asked for, `address:port`.
        to: String,
        /// How long it took, its own login included.
        took: Duration,
    },
    /// TCP is connected.
    Dialled {
        /// `address:port`
        address: String,
        /// How long it took.
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
        /// Why it is trusted.
        trust: Trust,
    },
    /// A way to log in was tried.
    Tried {
        /// The key or method.
        what: String,
        /// The server took it.
        taken: bool,
    },
    /// Logged in.
    LoggedIn {
        /// As this user.
        user: String,
    },
}

/// Why a host key is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// It is recorded here.
    Recorded(String),
    /// An authority that is recorded here signed it.
    Certified(String),
    /// It was unknown, and was recorded here because first contact was allowed: the file.
    New(String),
}

/// The steps so far.
pub(crate) type Trail = Vec<Mark>;
