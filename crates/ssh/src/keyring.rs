//! Private keys that were unlocked with their passphrase: once for all hosts, since the unlocking is slow on purpose.

use camino::{Utf8Path, Utf8PathBuf};
use russh::keys::{self, PrivateKey, PublicKey};
use secrecy::{ExposeSecret, SecretString};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The reason why a private key file is not used, and the correction.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// Others may read or write it.
    #[error("{0} can be read or written by others than its owner, so it is not used: run `chmod 600 {0}`")]
    Open(Utf8PathBuf),
    /// The file system does not give it.
    #[error("{path} cannot be read ({error})")]
    Unreadable {
        /// The file.
        path: Utf8PathBuf,
        /// The error.
        error: Arc<std::io::Error>,
    },
    /// Its passphrase is not known.
    #[error(
        "{0} is protected by a passphrase; add it to the ssh-agent with `ssh-add {0}`, or give --key-passphrase-file"
    )]
    Locked(Utf8PathBuf),
    /// It holds no private key, or one of another format.
    #[error("{path} is not a private key that can be used ({error})")]
    NotAKey {
        /// The file.
        path: Utf8PathBuf,
        /// The error of the parser.
        error: Arc<keys::Error>,
    },
}

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
    /// The file cannot be read, or others can write or read it too.
    pub fn unlock(&self, path: &Utf8Path, passphrase: &SecretString) -> Result<bool, KeyFileError> {
        if crate::files::is_open(path) {
            return Err(KeyFileError::Open(path.to_owned()));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| KeyFileError::Unreadable { path: path.to_owned(), error: Arc::new(error) })?;
        let Ok(key) = keys::decode_secret_key(&text, Some(passphrase.expose_secret())) else {
            return Ok(false);
        };
        self.unlocked.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), Arc::new(key));
        Ok(true)
    }

    /// The private key of a file: the unlocked one, or the file's own.
    pub(crate) fn read(&self, path: &Utf8Path) -> Result<Arc<PrivateKey>, KeyFileError> {
        if let Some(key) = self.get(path) {
            return Ok(key);
        }
        let path = path.to_owned();
        if crate::files::is_open(&path) {
            return Err(KeyFileError::Open(path));
        }
        keys::load_secret_key(&path, None).map(Arc::new).map_err(|error| match error {
            keys::Error::KeyIsEncrypted => KeyFileError::Locked(path),
            keys::Error::IO(error) => KeyFileError::Unreadable { path, error: Arc::new(error) },
            error => KeyFileError::NotAKey { path, error: Arc::new(error) },
        })
    }

    fn get(&self, path: &Utf8Path) -> Option<Arc<PrivateKey>> {
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
