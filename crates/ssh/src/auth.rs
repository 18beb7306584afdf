//! Logging in: agent, key files, password.

use crate::connect::Handler;
use crate::error::ConnectError;
use crate::target::{Options, Target};
use camino::{Utf8Path, Utf8PathBuf};
use russh::client::{AuthResult, Handle, KeyboardInteractiveAuthResponse};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{self, Algorithm, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey};
use russh::{MethodKind, MethodSet};
use secrecy::{ExposeSecret, SecretString};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::net::UnixStream;

/// Key files that are tried when none is named, under `~/.ssh`.
const DEFAULT_KEYS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];
/// Questions of keyboard-interactive login that are answered: more is a server that plays with us.
const MAX_ROUNDS: usize = 4;

/// The state of one login.
struct Login<'a> {
    handle: &'a mut Handle<Handler>,
    target: &'a Target,
    user: String,
    tried: Vec<String>,
    notes: Vec<String>,
    offered: Vec<String>,
    /// Public keys already refused, so that none is tried twice.
    seen: HashSet<Vec<u8>>,
}

/// A private key file, as far as it could be read.
struct KeyFile {
    path: Utf8PathBuf,
    /// From the file itself or from the `.pub` beside it.
    public: Option<PublicKey>,
    private: Result<PrivateKey, String>,
}

pub(crate) async fn login(
    handle: &mut Handle<Handler>,
    target: &Target,
    options: &Options,
) -> Result<(), ConnectError> {
    let user = target.user.clone().or_else(own_name).unwrap_or_else(|| "root".to_owned());
    let mut login = Login {
        handle,
        target,
        user,
        tried: Vec::new(),
        notes: Vec::new(),
        offered: Vec::new(),
        seen: HashSet::new(),
    };
    let files = login.key_files(options);
    // A named file that can be used is meant; the agent's many keys would use up the server's patience (MaxAuthTries) before it.
    let named = !target.key_files.is_empty();
    let first =
        if named { login.with_files(&files).await? } else { login.with_agent(options, &files).await? };
    let done = first
        || if named { login.with_agent(options, &files).await? } else { login.with_files(&files).await? };
    if done || login.with_password().await? {
        return Ok(());
    }
    if login.tried.is_empty() && login.notes.is_empty() {
        login.notes.push(
            "There is no key to try: start an ssh-agent, or name a key with `ansible_ssh_private_key_file`"
                .to_owned(),
        );
    }
    Err(ConnectError::RefusedLogin {
        host: target.name.clone(),
        address: target.address.clone(),
        user: login.user,
        tried: login.tried.into(),
        offered: login.offered.into(),
        notes: login.notes.into(),
    })
}

fn own_name() -> Option<String> {
    ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok()).filter(|name| !name.is_empty())
}

impl Login<'_> {
    /// The connection broke in the middle of the login: usually `MaxAuthTries`.
    fn lost(&self, error: &dyn std::fmt::Display) -> ConnectError {
        let mut notes = self.notes.clone();
        notes.push(format!("Then the server ended the connection ({error}): too many keys tried (MaxAuthTries)? Name one with `ansible_ssh_private_key_file`"));
        ConnectError::RefusedLogin {
            host: self.target.name.clone(),
            address: self.target.address.clone(),
            user: self.user.clone(),
            tried: self.tried.clone().into(),
            offered: self.offered.clone().into(),
            notes: notes.into(),
        }
    }

    fn key_files(&mut self, options: &Options) -> Vec<KeyFile> {
        let home = options.home.as_deref();
        let named = !self.target.key_files.is_empty();
        let paths: Vec<Utf8PathBuf> = if named {
            self.target.key_files.iter().map(|path| expand(path, home)).collect()
        } else {
            let in_home = |name| home.map(|home| home.join(".ssh").join(name));
            DEFAULT_KEYS.iter().filter_map(in_home).filter(|path| path.exists()).collect()
        };
        paths.into_iter().map(KeyFile::read).collect()
    }

    async fn with_agent(&mut self, options: &Options, files: &[KeyFile]) -> Result<bool, ConnectError> {
        let Some(socket) = &options.agent else { return Ok(false) };
        let stream = match UnixStream::connect(socket.as_std_path()).await {
            Ok(stream) => stream,
            Err(error) => {
                self.notes.push(format!("No ssh-agent answers at {socket} ({error})"));
                return Ok(false);
            }
        };
        let mut agent = AgentClient::connect(stream);
        let identities = match agent.request_identities().await {
            Ok(identities) => identities,
            Err(error) => {
                self.notes.push(format!("The ssh-agent at {socket} lists no keys ({error})"));
                return Ok(false);
            }
        };
        if identities.is_empty() {
            self.notes.push(format!("The ssh-agent at {socket} holds no key"));
        }
        let named = |key: &PublicKey| {
            files.iter().any(|file| file.public.as_ref().is_some_and(|own| own.key_data() == key.key_data()))
        };
        let mut keys: Vec<(PublicKey, String)> = identities
            .into_iter()
            .filter_map(|identity| match identity {
                AgentIdentity::PublicKey { key, comment } => Some((key, comment)),
                AgentIdentity::Certificate { .. } => None,
            })
            .filter(|(key, _)| !self.target.identities_only || named(key))
            .collect();
        // Those that belong to a key file first: a server listens to a few keys only.
        keys.sort_by_key(|(key, _)| !named(key));
        for (key, comment) in keys {
            if !self.first_time(&key) {
                continue;
            }
            self.tried.push(format!("{} {comment} from the agent", describe(&key)));
            let hash = self.rsa_hash(&key.algorithm()).await;
            let blob = key.to_bytes();
            match self.handle.authenticate_publickey_with(self.user.clone(), key, hash, &mut agent).await {
                Ok(result) => {
                    if self.accepted(&result) {
                        return Ok(true);
                    }
                }
                Err(russh::AgentAuthError::Key(error)) => {
                    self.notes.push(format!("The agent did not sign with {comment} ({error})"));
                    // The file of the same key may still do.
                    if let Ok(blob) = blob {
                        self.seen.remove(&blob);
                    }
                }
                Err(error) => return Err(self.lost(&error)),
            }
            if self.handle.is_closed() {
                return Err(self.lost(&"it hung up"));
            }
        }
        Ok(false)
    }

    async fn with_files(&mut self, files: &[KeyFile]) -> Result<bool, ConnectError> {
        for file in files {
            let key = match &file.private {
                Ok(key) => key,
                Err(why) => {
                    self.notes.push(why.clone());
                    continue;
                }
            };
            if !self.first_time(key.public_key()) {
                continue;
            }
            self.tried.push(format!("{} {}", describe(key.public_key()), file.path));
            let hash = self.rsa_hash(&key.algorithm()).await;
            let key = PrivateKeyWithHashAlg::new(Arc::new(key.clone()), hash);
            let result = self
                .handle
                .authenticate_publickey(self.user.clone(), key)
                .await
                .map_err(|error| self.lost(&error))?;
            if self.accepted(&result) {
                return Ok(true);
            }
            if self.handle.is_closed() {
                return Err(self.lost(&"it hung up"));
            }
        }
        Ok(false)
    }

    async fn with_password(&mut self) -> Result<bool, ConnectError> {
        let Some(password) = self.target.password.clone() else { return Ok(false) };
        self.tried.push("password".to_owned());
        let result =
            self.handle.authenticate_password(self.user.clone(), password.expose_secret().to_owned()).await;
        let result = result.map_err(|error| self.lost(&error))?;
        if self.accepted(&result) {
            return Ok(true);
        }
        if !self.offered.iter().any(|method| method == <&str>::from(&MethodKind::KeyboardInteractive)) {
            return Ok(false);
        }
        self.tried.push("keyboard-interactive".to_owned());
        self.interactive(&password).await
    }

    /// Answers each hidden question with the password, as Ansible's users expect of `ansible_password`.
    async fn interactive(&mut self, password: &SecretString) -> Result<bool, ConnectError> {
        let mut reply =
            self.handle.authenticate_keyboard_interactive_start(self.user.clone(), None::<String>).await;
        for _ in 0..MAX_ROUNDS {
            match reply.map_err(|error| self.lost(&error))? {
                KeyboardInteractiveAuthResponse::Success => return Ok(true),
                KeyboardInteractiveAuthResponse::Failure { remaining_methods, .. } => {
                    self.offered = names(&remaining_methods);
                    return Ok(false);
                }
                KeyboardInteractiveAuthResponse::InfoRequest { prompts, .. } => {
                    let answer =
                        |echo: bool| if echo { String::new() } else { password.expose_secret().to_owned() };
                    let answers = prompts.iter().map(|prompt| answer(prompt.echo)).collect();
                    reply = self.handle.authenticate_keyboard_interactive_respond(answers).await;
                }
            }
        }
        Ok(false)
    }

    fn first_time(&mut self, key: &PublicKey) -> bool {
        key.to_bytes().is_ok_and(|bytes| self.seen.insert(bytes))
    }

    fn accepted(&mut self, result: &AuthResult) -> bool {
        match result {
            AuthResult::Success => true,
            AuthResult::Failure { remaining_methods, partial_success } => {
                self.offered = names(remaining_methods);
                if *partial_success {
                    self.notes.push("The server took this key but wants a second method as well".to_owned());
                }
                false
            }
        }
    }

    /// The signature's hash for an RSA key: SHA-1, the type's first, is refused by every current server.
    async fn rsa_hash(&self, algorithm: &Algorithm) -> Option<HashAlg> {
        if !matches!(algorithm, Algorithm::Rsa { .. }) {
            return None;
        }
        let best = self.handle.best_supported_rsa_hash().await;
        best.ok().flatten().unwrap_or(Some(HashAlg::Sha512))
    }
}

impl KeyFile {
    fn read(path: Utf8PathBuf) -> Self {
        let beside = keys::load_public_key(format!("{path}.pub")).ok();
        let private = keys::load_secret_key(&path, None).map_err(|error| match error {
            keys::Error::KeyIsEncrypted => {
                format!("{path} is protected by a passphrase; add it to the ssh-agent with `ssh-add {path}`")
            }
            keys::Error::IO(error) => format!("{path} cannot be read ({error})"),
            error => format!("{path} is not a private key that can be used ({error})"),
        });
        Self { public: private.as_ref().ok().map(|key| key.public_key().clone()).or(beside), path, private }
    }
}

/// `~/` at the beginning means the home directory, as ssh takes it.
pub(crate) fn expand(path: &Utf8Path, home: Option<&Utf8Path>) -> Utf8PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

fn describe(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

fn names(methods: &MethodSet) -> Vec<String> {
    methods.iter().map(|method| <&str>::from(method).to_owned()).collect()
}
