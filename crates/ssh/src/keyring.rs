//! Private keys that were unlocked with their passphrase: once for all hosts, since the unlocking is slow on purpose.

use camino::{Utf8Path, Utf8PathBuf};
use russh::keys::{self, PrivateKey, PublicKey};
use secrecy::{ExposeSecret, SecretString};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Unlocked keys, by path. Clones share them.
#[derive(Clone, Default)]
pub struct KeyRing {
    unlocked: Arc<Mutex<HashMap<Utf8PathBuf, Arc<PrivateKey>>>>,
    /// RSA key files that a login was signed with.
    rsa: Arc<Mutex<HashSet<Utf8PathBuf>>>,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyRing")
    }
}

impl KeyRing {
    /// Unlocks a key file and keeps the key; false when the passphrase is wrong.
    ///
    /// # Errors
    /// The file cannot be read; a sentence.
    pub fn unlock(&self, path: &Utf8Path, passphrase: &SecretString) -> Result<bool, String> {
        if crate::files::is_open(path) {
            return Err(format!(
                "{path} can be read or written by others than its owner, so it is not used: run `chmod 600 {path}`"
            ));
        }
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("{path} cannot be read ({error})"))?;
        let Ok(key) = keys::decode_secret_key(&text, Some(passphrase.expose_secret())) else {
            return Ok(false);
        };
        self.unlocked.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), Arc::new(key));
        Ok(true)
    }

    pub(crate) fn get(&self, path: &Utf8Path) -> Option<Arc<PrivateKey>> {
        self.unlocked.lock().unwrap_or_else(PoisonError::into_inner).get(path).map(Arc::clone)
    }

    /// Whether no login was signed with this RSA key file before.
    pub(crate) fn is_first_use_of_rsa(&self, path: &Utf8Path) -> bool {
        self.rsa.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned())
    }
}

/// Whether the file holds a private key behind a passphrase.
#[must_use]
pub fn is_locked(path: &Utf8Path) -> bool {
    matches!(keys::load_secret_key(path, None), Err(keys::Error::KeyIsEncrypted))
}

/// The public key beside a private key file, or the one inside it.
pub(crate) fn public_beside(path: &Utf8Path) -> Option<PublicKey> {
    keys::load_public_key(format!("{path}.pub")).ok()
}

/// The public keys that an ssh-agent holds; none if it does not answer.
pub(crate) async fn held_by(socket: Option<&Utf8Path>) -> Vec<PublicKey> {
    let Some(socket) = socket else { return Vec::new() };
    let asked = async {
        let stream = tokio::net::UnixStream::connect(socket.as_std_path()).await.ok()?;
        keys::agent::client::AgentClient::connect(stream).request_identities().await.ok()
    };
    let limit = std::time::Duration::from_secs(5);
    let identities = tokio::time::timeout(limit, asked).await.ok().flatten().unwrap_or_default();
    identities.iter().map(|identity| identity.public_key().into_owned()).collect()
}

/// The key files among these that need a passphrase and are not in the agent already, each once.
pub async fn locked_keys(
    files: impl IntoIterator<Item = Utf8PathBuf>,
    agent: Option<&Utf8Path>,
) -> Vec<Utf8PathBuf> {
    let mut locked: Vec<Utf8PathBuf> = Vec::new();
    for file in files {
        if !locked.contains(&file) && is_locked(&file) {
            locked.push(file);
        }
    }
    if locked.is_empty() {
        return locked;
    }
    let held = held_by(agent).await;
    locked.retain(|path| {
        let public = public_beside(path);
        !public.is_some_and(|own| held.iter().any(|key| key.key_data() == own.key_data()))
    });
    locked
}
