//! An open connection, and the decision about its host key.

use crate::error::ConnectError;
use crate::known_hosts::{HostKeyVerdict, KnownHosts};
use crate::trail::{Mark, Trust};
use russh::client::{self, Handle};
use russh::keys::{HashAlg, PublicKey, PublicKeyOrCertificate};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// A connection on which a user is logged in.
pub(crate) struct Connection {
    pub handle: Handle<Handler>,
    /// The jump host below it, which lives as long.
    pub(crate) _hop: Option<Arc<Connection>>,
}

/// Decides on the host key; everything else of the protocol is left to russh, and what the server opens by itself is refused.
pub(crate) struct Handler {
    pub known: Arc<KnownHosts>,
    pub host: String,
    pub lookup: Lookup,
    pub accept_new: bool,
    pub decided: Arc<Mutex<KeyDecision>>,
}

/// The decision about the host key: russh passes errors on only in part.
#[derive(Default)]
pub(crate) struct KeyDecision {
    pub refused: Option<ConnectError>,
    pub trusted: Option<Mark>,
}

/// The name under which a host's keys are recorded.
#[derive(Debug, Clone)]
pub(crate) struct Lookup {
    pub name: String,
    pub port: u16,
}

impl client::Handler for Handler {
    type Error = russh::Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        let known = &self.known;
        let Lookup { name, port } = &self.lookup;
        let (verdict, key) = match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => (known.check(name, *port, key), key.clone()),
            PublicKeyOrCertificate::Certificate(certificate) => (
                known.check_certificate(name, *port, certificate, SystemTime::now()),
                PublicKey::new(certificate.public_key().clone(), ""),
            ),
        };
        let trusted = |trust| Mark::HostKey {
            algorithm: key.algorithm().to_string(),
            fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
            trust,
        };
        let outcome = match verdict {
            HostKeyVerdict::Known => {
                let at = known.recorded_at(name, *port, &key).map(|at| at.to_string());
                Ok(trusted(Trust::Recorded(at.unwrap_or_default())))
            }
            HostKeyVerdict::Certified { at } => Ok(trusted(Trust::Certified(at.to_string()))),
            HostKeyVerdict::Unknown { ref others, .. } if self.accept_new && others.is_empty() => {
                known.record(&self.host, name, *port, &key).map(|file| trusted(Trust::New(file)))
            }
            verdict => Err(verdict.into_error(&self.host, known)),
        };
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(mark) => decided.trusted = Some(mark),
            Err(error) => decided.refused = error,
        }
        Ok(decided.refused.is_none() && decided.trusted.is_some())
    }
}
