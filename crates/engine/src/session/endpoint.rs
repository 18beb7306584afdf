//! Where a host is reached, or why that cannot be said.

use crate::TargetError;
use converge_syntax::Diagnostics;

/// Where a host is reached and as whom.
pub(crate) type Endpoint = Result<(converge_ssh::SshEndpoint, converge_ssh::Become), EndpointError>;

/// The reason why it cannot be said where a host is reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EndpointError {
    /// Variables of its connection are wrong.
    #[error("{}", one_line(.0))]
    Variables(Diagnostics),
    /// A setting would accept any host key.
    #[error(
        "host key checking is set to {0}; converge always checks host keys. Remove the setting; for a first contact run once \
         with --accept-new-host-keys, or add the host's key to known_hosts (`ssh-keyscan`, compared with the host's console)"
    )]
    HostKeyChecking(&'static str),
    /// ssh's configuration names jump hosts in a way that is not understood.
    #[error("`ProxyJump {0}` in ssh's configuration is not a list of hosts; write [user@]host[:port]")]
    ProxyJump(String),
    /// Jump hosts are reached through jump hosts, and so on, above this limit.
    #[error("more than {0} jump hosts lead to each other; look for a circle of ProxyJump")]
    TooManyJumps(usize),
    /// It cannot be said for a jump host on the way.
    #[error("the jump host {host}: {error}")]
    JumpHost {
        /// The jump host.
        host: String,
        /// Its own error.
        error: Box<EndpointError>,
    },
}

impl From<EndpointError> for TargetError {
    fn from(error: EndpointError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// All diagnostics in one line, for a place that has room for one.
pub(crate) fn one_line(found: &Diagnostics) -> String {
    let lines: Vec<String> = found
        .iter()
        .map(|d| match d.span() {
            Some(span) => format!("{span}: {}", d.message),
            None => d.message.clone(),
        })
        .collect();
    lines.join("; ")
}
