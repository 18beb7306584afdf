//! The ways to the hosts: worked out once for each, and the keys on them that need a passphrase.

use crate::engine::{Engine, side_by_side};
use crate::project::one_line;
use crate::{Event, LostHost};
use camino::{Utf8Path, Utf8PathBuf};
use converge_ssh::{Become, ConnectError, Mark, Session, Target, Trust};
use secrecy::SecretString;

impl Engine {
    /// Where a host is reached and as whom; a sentence where that cannot be said.
    pub(crate) async fn way(&self, host: &str) -> Result<(Target, Become), String> {
        if let Some(way) = self.ways.lock().await.get(host) {
            return way.clone();
        }
        let inventory = |name: &str| {
            let known = self.project().inventory().host(name).is_some();
            known.then(|| self.connection(name).map_err(|found| one_line(&found)))
        };
        let way = match self.connection(host) {
            Ok(own) => crate::connect::way(host, &own, &inventory, self.options(), &self.ssh).await,
            Err(found) => Err(one_line(&found)),
        };
        self.ways.lock().await.insert(host.to_owned(), way.clone());
        way
    }

    /// Connects to a host. The steps that were taken come beside, those before a failure too.
    pub(crate) async fn enter(
        &self,
        host: &str,
        target: &Target,
    ) -> (Vec<Mark>, Result<Session, ConnectError>) {
        let (trail, session) = Session::explore(target, &self.ssh).await;
        for mark in &trail {
            if let Mark::HostKey { algorithm, fingerprint, trust: Trust::New(file) } = mark {
                self.events().send(Event::HostKeyRecorded {
                    host: host.to_owned(),
                    key: format!("{algorithm} {fingerprint}"),
                    file: file.clone(),
                });
            }
        }
        (trail, session)
    }

    /// Key files on the ways to the hosts of this run that need a passphrase, and are not in the ssh-agent. Contacts no host.
    pub async fn locked_keys(&self) -> Vec<Utf8PathBuf> {
        let hosts = self.machines();
        let ways = side_by_side(hosts.iter().map(|host| self.way(host)).collect()).await;
        let targets: Vec<Target> = ways.into_iter().flatten().map(|(target, _)| target).collect();
        let all = targets.iter().flat_map(|target| target.jumps.iter().chain([target]));
        let mut files = Vec::new();
        for target in all {
            if target.key_files.is_empty() {
                // As ssh: the usual keys, where no agent has something better.
                if let (Some(home), None) = (&self.ssh.home, &self.ssh.agent) {
                    files.extend(
                        ["id_ed25519", "id_ecdsa", "id_rsa"].map(|name| home.join(".ssh").join(name)),
                    );
                }
            } else {
                files.extend(target.key_files.iter().cloned());
            }
        }
        files.sort();
        files.dedup();
        converge_ssh::locked_keys(files, self.ssh.agent.as_deref()).await
    }

    /// Unlocks a key for all hosts; false when this is not its passphrase.
    ///
    /// # Errors
    /// The file cannot be read; a sentence.
    pub fn unlock(&self, key: &Utf8Path, passphrase: &SecretString) -> Result<bool, String> {
        self.ssh.keys.unlock(key, passphrase)
    }
}

/// Why a host that cannot be connected to is out of the run.
pub(crate) fn no_session(host: &str, error: &ConnectError) -> LostHost {
    LostHost {
        message: bare(host, &error.to_string()),
        help: None,
        unreachable: error.is_unreachable() || error.is_refused_login(),
        login: error.is_refused_login(),
    }
}

/// A message without the host's name before it: whoever shows it names the host.
pub(crate) fn bare(host: &str, message: &str) -> String {
    let rest = message.strip_prefix(host).and_then(|rest| rest.strip_prefix(": "));
    rest.unwrap_or(message).to_owned()
}
