//! The errors of a lab.

use std::path::PathBuf;

/// The reason why a lab operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A tool of the system could not be started or ended with a failure.
    #[error("`{command}` failed ({status}){}{detail}", if detail.is_empty() { "" } else { ": " })]
    Tool {
        /// The command line, shortened.
        command: String,
        /// Exit status, or why it could not be started.
        status: String,
        /// The end of what it wrote to standard error.
        detail: String,
    },
    /// A file of the lab could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A name that cannot name a lab or a host.
    #[error("`{0}` cannot name a {1}: use 1 to 30 of a-z, 0-9 and `-`, beginning with a letter")]
    Name(String, &'static str),
    /// Another process holds the lab.
    #[error("the lab `{name}` is in use by process {owner}")]
    Busy {
        /// The lab's name.
        name: String,
        /// The process that holds it, as its lock file says.
        owner: String,
    },
    /// There is no lab of this name to attach to.
    #[error("no lab `{0}` is running")]
    NotRunning(String),
    /// All subnets are taken.
    #[error("no subnet of 10.77.0.0/24 to 10.99.0.0/24 is free: too many labs run on this machine")]
    NoSubnet,
    /// The subnet that was asked for is taken.
    #[error(
        "10.{0}.0.0/24 is taken: by another lab (the link clab{0}), or by another network of this machine"
    )]
    SubnetTaken(u8),
    /// No Debian mirror is known.
    #[error(
        "this machine's apt names no Debian mirror over http or https: set CONVERGE_LAB_MIRROR to one, as http://HOST"
    )]
    NoMirror,
    /// A host did not come up in time.
    #[error("host {host} did not answer on port 22 within {seconds} s; the end of {}:\n{tail}", console.display())]
    NoAnswer {
        /// The host's name in the lab.
        host: String,
        /// The time waited.
        seconds: u64,
        /// The host's console log.
        console: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// The host is not running.
    #[error("host {0} is down")]
    HostDown(String),
    /// A program of Kubernetes or its surroundings cannot be had.
    #[error("the Kubernetes part {part}: {why}")]
    Part {
        /// Which part.
        part: &'static str,
        /// The obstacle, with the end of a build's output.
        why: String,
    },
    /// Debian packages are missing, and nothing may be installed.
    #[error(
        "to make what a cluster is installed from, Debian packages are missing on this machine: apt-get install {0}"
    )]
    Packages(String),
    /// Something did not end in time.
    #[error("{what} did not end within {seconds} s")]
    Stuck {
        /// The condition that was waited for.
        what: String,
        /// The time waited.
        seconds: u64,
    },
}

/// The result of a lab operation.
pub(crate) type Result<T> = std::result::Result<T, LabError>;
