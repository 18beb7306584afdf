//! The reason why a cluster cannot be worked with.

use crate::kubeconfig::KubeconfigError;
use thiserror::Error;

/// The reason why there is no connection to a cluster, or no answer on it. Each message says what is wrong, where, and what to do.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterError {
    /// Nobody answers.
    #[error("{cluster}: no answer from the API server {server}: {why}")]
    Unreachable {
        /// The cluster as shown.
        cluster: String,
        /// The server's address as the kubeconfig names it.
        server: String,
        /// The problem.
        why: String,
    },
    /// It took too long.
    #[error(
        "{cluster}: the API server {server} gave no answer within {seconds} s; is etcd behind it slow or down?"
    )]
    Timeout {
        /// The cluster as shown.
        cluster: String,
        /// The server's address.
        server: String,
        /// The limit.
        seconds: u64,
    },
    /// The server's certificate has expired.
    #[error(
        "{cluster}: the certificate of the API server {server} has expired ({reply}); on each control plane run `kubeadm certs renew all` and restart its static pods (k8s-snap: `k8s refresh-certs`)"
    )]
    ServerExpired {
        /// The cluster as shown.
        cluster: String,
        /// The server's address.
        server: String,
        /// The message of the library.
        reply: String,
    },
    /// The certificate in the kubeconfig has expired.
    #[error(
        "{cluster}: the client certificate in the kubeconfig expired on {when}; run `kubeadm certs renew admin.conf` on the control plane and take the new kubeconfig"
    )]
    ClientExpired {
        /// The cluster as shown.
        cluster: String,
        /// Its end, RFC 3339.
        when: String,
    },
    /// The server's certificate is signed by another authority, or is for another name.
    #[error(
        "{cluster}: the certificate of the API server {server} is not trusted ({reply}); is this kubeconfig of another cluster, or older than its authority? Take the present one from the control plane (/etc/kubernetes/admin.conf); for another name set `tls-server-name` in it"
    )]
    Untrusted {
        /// The cluster as shown.
        cluster: String,
        /// The server's address.
        server: String,
        /// The message of the library.
        reply: String,
    },
    /// The server does not know the credentials.
    #[error(
        "{cluster}: the API server {server} does not accept the credentials of the kubeconfig ({reply}); take a present one from the control plane"
    )]
    Unauthorized {
        /// The cluster as shown.
        cluster: String,
        /// The server's address.
        server: String,
        /// The message of the server.
        reply: String,
    },
    /// The credentials are valid and have no permission.
    #[error("{cluster}: the API server {server} denied the request: {reply}")]
    Forbidden {
        /// The cluster as shown.
        cluster: String,
        /// The server's address.
        server: String,
        /// The message of the server.
        reply: String,
    },
    /// The kubeconfig cannot be used.
    #[error("{cluster}: its kubeconfig cannot be used: {why}")]
    Kubeconfig {
        /// The cluster as shown.
        cluster: String,
        /// The problem and its correction.
        why: KubeconfigError,
    },
    /// An option is wrong.
    #[error("{cluster}: {why}")]
    Options {
        /// The cluster as shown.
        cluster: String,
        /// The problem and its correction.
        why: String,
    },
    /// The endpoint does not answer like an API server.
    #[error("{cluster}: {server} does not answer as an API server does: {reply}")]
    Odd {
        /// The cluster as shown.
        cluster: String,
        /// The server's address.
        server: String,
        /// The answer.
        reply: String,
    },
}

impl ClusterError {
    /// Whether the server was not reachable (exit code 3).
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Timeout { .. })
    }
}

/// The reason why a run was not begun. Nothing was changed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum RunRefusal {
    /// Another run holds the lock of the cluster: its description.
    #[error("{0}")]
    Busy(String),
    /// It cannot take records, and why.
    #[error("{0}")]
    Unfit(String),
}
