//! Logging in: agent, key files, password.

use crate::connection::Handler;
use crate::error::ConnectError;
use crate::files::expand;
use crate::keyring::{self, KeyFileError, KeyRing};
use crate::known_hosts::ago;
use crate::target::{SessionOptions, SshEndpoint};
use crate::trail::{Mark, Trail};
use camino::{Utf8Path, Utf8PathBuf};
use russh::client::{AuthResult, Handle, KeyboardInteractiveAuthResponse};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::ssh_key::certificate::CertType;
use russh::keys::{self, Algorithm, Certificate, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey};
use russh::{MethodKind, MethodSet, Signer};
use secrecy::{ExposeSecret, SecretString};
use std::collections::HashSet;
use std::sync::Arc;
use tokio::net::UnixStream;

/// Key files that are tried when none is named, under `~/.ssh`.
const DEFAULT_KEYS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];
/// Questions of keyboard-interactive login that are answered: more is a server that plays with us.
const MAX_ROUNDS: usize = 4;

/// The state of one login.
struct LoginState<'a> {
    handle: &'a mut Handle<Handler>,
    target: &'a SshEndpoint,
    user: String,
    tried: Vec<String>,
    notes: Vec<String>,
    offered: Vec<String>,
    /// Public keys already refused, so that none is tried twice.
    observed: HashSet<Vec<u8>>,
    keys: &'a KeyRing,
    trail: &'a mut Trail,
}

/// Which of the agent's keys are offered.
#[derive(Clone, Copy)]
enum Of {
    All,
    /// RSA keys that are in a key file too.
    RsaFiles,
}

/// A private key file, as far as it could be read.
struct KeyFile {
    path: Utf8PathBuf,
    /// From the file itself or from the `.pub` beside it.
    public: Option<PublicKey>,
    private: Result<Arc<PrivateKey>, KeyFileError>,
    /// Certificates for it that hold now.
    certificates: Vec<Certificate>,
}

pub(crate) async fn login(
    handle: &mut Handle<Handler>,
    target: &SshEndpoint,
    options: &SessionOptions,
    trail: &mut Trail,
) -> Result<(), ConnectError> {
    let user = target.user.clone().or_else(own_name).unwrap_or_else(|| "root".to_owned());
    let mut login = LoginState {
        handle,
        target,
        user,
        tried: Vec::new(),
        notes: Vec::new(),
        offered: Vec::new(),
        observed: HashSet::new(),
        keys: &options.keys,
        trail,
    };
    let files = login.key_files(options);
    // A named file that can be used is meant; the agent's many keys would use up the server's patience (MaxAuthTries) before it. With an RSA
    // key the agent signs nevertheless, where it holds it: see `Mark::RsaKeyFile`.
    let named = !target.key_files.is_empty();
    let has_rsa = files.iter().any(|file| file.public.as_ref().is_some_and(is_rsa));
    let done = if named {
        (has_rsa && login.with_agent(options, &files, Of::RsaFiles).await?)
            || login.with_files(&files).await?
            || login.with_agent(options, &files, Of::All).await?
    } else {
        login.with_agent(options, &files, Of::All).await? || login.with_files(&files).await?
    };
    if done || login.with_password().await? {
        let user = login.user.clone();
        login.trail.push(Mark::LoggedIn { user });
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

impl LoginState<'_> {
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

    fn key_files(&mut self, options: &SessionOptions) -> Vec<KeyFile> {
        let home = options.home.as_deref();
        let named = !self.target.key_files.is_empty();
        let paths: Vec<Utf8PathBuf> = if named {
            self.target.key_files.iter().map(|path| expand(path, home)).collect()
        } else {
            let in_home = |name| home.map(|home| home.join(".ssh").join(name));
            DEFAULT_KEYS.iter().filter_map(in_home).filter(|path| path.exists()).collect()
        };
        let mut files: Vec<KeyFile> =
            paths.into_iter().map(|path| KeyFile::read(path, &options.keys)).collect();
        for file in &mut files {
            file.certificates = self.certificates(file, home);
        }
        files
    }

    /// The certificates for a key: beside it, and those that are named.
    fn certificates(&mut self, file: &KeyFile, home: Option<&Utf8Path>) -> Vec<Certificate> {
        let beside = Utf8PathBuf::from(format!("{}-cert.pub", file.path));
        let named = self.target.certificate_files.iter().map(|path| expand(path, home));
        let mut found = Vec::new();
        for path in std::iter::once(beside).chain(named) {
            if !path.exists() {
                continue;
            }
            match keys::load_openssh_certificate(&path) {
                Ok(certificate) => {
                    let fits =
                        file.public.as_ref().is_some_and(|own| own.key_data() == certificate.public_key());
                    if fits && self.holds(&certificate, path.as_str()) {
                        found.push(certificate);
                    }
                }
                Err(error) => self.note(format!("{path} is not a certificate that can be used ({error})")),
            }
        }
        found
    }

    /// Whether a certificate is for users and for now; if not, why not is noted.
    fn holds(&mut self, certificate: &Certificate, from: &str) -> bool {
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_secs());
        if certificate.cert_type() != CertType::User {
            self.note(format!("The certificate {from} is one for hosts"));
        } else if now >= certificate.valid_before() {
            self.note(format!(
                "The certificate {from} expired {} ago",
                ago(now - certificate.valid_before())
            ));
        } else if now < certificate.valid_after() {
            self.note(format!(
                "The certificate {from} is valid only in {}",
                ago(certificate.valid_after() - now)
            ));
        } else {
            return true;
        }
        false
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    async fn with_agent(
        &mut self,
        options: &SessionOptions,
        files: &[KeyFile],
        of: Of,
    ) -> Result<bool, ConnectError> {
        let Some(socket) = &options.agent else { return Ok(false) };
        let stream = match UnixStream::connect(socket.as_std_path()).await {
            Ok(stream) => stream,
            Err(error) => {
                self.note(format!("No ssh-agent answers at {socket} ({error})"));
                return Ok(false);
            }
        };
        let mut agent = AgentClient::connect(stream);
        let identities = match agent.request_identities().await {
            Ok(identities) => identities,
            Err(error) => {
                self.note(format!("The ssh-agent at {socket} lists no keys ({error})"));
                return Ok(false);
            }
        };
        if identities.is_empty() {
            self.note(format!("The ssh-agent at {socket} holds no key"));
        }
        let named = |key: &PublicKey| {
            files.iter().any(|file| file.public.as_ref().is_some_and(|own| own.key_data() == key.key_data()))
        };
        let mut keys: Vec<(PublicKey, String, Option<Certificate>)> = Vec::new();
        for identity in identities {
            match identity {
                AgentIdentity::PublicKey { key, comment } => keys.push((key, comment, None)),
                AgentIdentity::Certificate { certificate, comment } => {
                    let key = PublicKey::new(certificate.public_key().clone(), comment.as_str());
                    if self.holds(&certificate, &format!("{comment} in the agent")) {
                        keys.push((key, comment, Some(certificate)));
                    }
                }
            }
        }
        keys.retain(|(key, ..)| match of {
            Of::All => !self.target.identities_only || named(key),
            Of::RsaFiles => is_rsa(key) && named(key),
        });
        // Keys of a key file come first: a server listens to a few keys only. Certificates before their keys, as ssh does it.
        keys.sort_by_key(|(key, _, certificate)| (!named(key), certificate.is_none()));
        for (key, comment, certificate) in keys {
            let from_files = files
                .iter()
                .filter(|file| {
                    certificate.is_none()
                        && file.public.as_ref().is_some_and(|own| own.key_data() == key.key_data())
                })
                .flat_map(|file| file.certificates.iter().cloned());
            let certificates: Vec<Certificate> = from_files.collect();
            for one in certificates {
                if self.agent_offers(&mut agent, &key, &comment, Some((one, false))).await? {
                    return Ok(true);
                }
            }
            let held = certificate.map(|certificate| (certificate, true));
            if self.agent_offers(&mut agent, &key, &comment, held).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Offers one identity of the agent, or a certificate for it; `true` beside a certificate says that the agent holds it itself.
    async fn agent_offers(
        &mut self,
        agent: &mut AgentClient<UnixStream>,
        key: &PublicKey,
        comment: &str,
        certificate: Option<(Certificate, bool)>,
    ) -> Result<bool, ConnectError> {
        let blob = match &certificate {
            Some((certificate, _)) => certificate.to_bytes().ok(),
            None => key.to_bytes().ok(),
        };
        let Some(blob) = blob.filter(|blob| self.observed.insert(blob.clone())) else { return Ok(false) };
        let hash = self.rsa_hash(&key.algorithm()).await;
        let user = self.user.clone();
        let what = match &certificate {
            Some((certificate, _)) => format!("{} with the agent", certified(certificate)),
            None => format!("{} {comment} from the agent", describe(key)),
        };
        self.tried.push(what.clone());
        let result = match certificate {
            None => self.handle.authenticate_publickey_with(user, key.clone(), hash, agent).await,
            Some((certificate, true)) => {
                self.handle.authenticate_certificate_with(user, certificate, hash, agent).await
            }
            Some((certificate, false)) => {
                let mut signer = PlainSigner { agent, key: key.clone() };
                self.handle.authenticate_certificate_with(user, certificate, hash, &mut signer).await
            }
        };
        match result {
            Ok(result) => {
                if self.accepted(what, &result) {
                    return Ok(true);
                }
            }
            Err(russh::AgentAuthError::Key(error)) => {
                self.notes.push(format!("The agent did not sign with {comment} ({error})"));
                // The file of the same key may still do.
                self.observed.remove(&blob);
            }
            Err(error) => return Err(self.lost(&error)),
        }
        if self.handle.is_closed() { Err(self.lost(&"it hung up")) } else { Ok(false) }
    }

    async fn with_files(&mut self, files: &[KeyFile]) -> Result<bool, ConnectError> {
        for file in files {
            let key = match &file.private {
                Ok(key) => key,
                Err(error) => {
                    self.note(error.to_string());
                    continue;
                }
            };
            for certificate in &file.certificates {
                // russh names such a certificate by SHA-1 here, which servers refuse; through the agent it does not.
                if matches!(key.algorithm(), Algorithm::Rsa { .. }) {
                    self.note(format!("The RSA certificate for {} is used only with its key in the ssh-agent (`ssh-add {}`)", file.path, file.path));
                    continue;
                }
                let fresh = certificate.to_bytes().is_ok_and(|bytes| self.observed.insert(bytes));
                if fresh && self.file_offers(file, key, Some(certificate.clone())).await? {
                    return Ok(true);
                }
            }
            if self.first_time(key.public_key()) && self.file_offers(file, key, None).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn file_offers(
        &mut self,
        file: &KeyFile,
        key: &Arc<PrivateKey>,
        certificate: Option<Certificate>,
    ) -> Result<bool, ConnectError> {
        let user = self.user.clone();
        let what = match &certificate {
            Some(certificate) => format!("{} {}", certified(certificate), file.path),
            None => format!("{} {}", describe(key.public_key()), file.path),
        };
        self.tried.push(what.clone());
        let hash = self.rsa_hash(&key.algorithm()).await;
        let result = match certificate {
            Some(certificate) => self
                .handle
                .authenticate_openssh_cert(user, Arc::clone(key), certificate)
                .await
                .map_err(|error| error.to_string()),
            None => self
                .handle
                .authenticate_publickey(user, PrivateKeyWithHashAlg::new(Arc::clone(key), hash))
                .await
                .map_err(|error| error.to_string()),
        };
        let result = result.map_err(|error| self.lost(&error))?;
        if self.accepted(what, &result) {
            if hash.is_some() && self.keys.is_first_use_of_rsa(&file.path) {
                self.trail.push(Mark::RsaKeyFile { path: file.path.to_string() });
            }
            return Ok(true);
        }
        if self.handle.is_closed() { Err(self.lost(&"it hung up")) } else { Ok(false) }
    }

    async fn with_password(&mut self) -> Result<bool, ConnectError> {
        let Some(password) = self.target.password.clone() else { return Ok(false) };
        self.tried.push("password".to_owned());
        let result =
            self.handle.authenticate_password(self.user.clone(), password.expose_secret().to_owned()).await;
        let result = result.map_err(|error| self.lost(&error))?;
        if self.accepted("password".to_owned(), &result) {
            return Ok(true);
        }
        if !self.offered.iter().any(|method| method == <&str>::from(&MethodKind::KeyboardInteractive)) {
            return Ok(false);
        }
        self.tried.push("keyboard-interactive".to_owned());
        let taken = self.interactive(&password).await?;
        self.trail.push(Mark::Tried { what: "keyboard-interactive".to_owned(), taken });
        Ok(taken)
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
        key.to_bytes().is_ok_and(|bytes| self.observed.insert(bytes))
    }

    fn accepted(&mut self, what: String, result: &AuthResult) -> bool {
        self.trail.push(Mark::Tried { what, taken: result.success() });
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
    fn read(path: Utf8PathBuf, ring: &KeyRing) -> Self {
        let beside = keyring::public_beside(&path);
        let private = ring.read(&path);
        let public = private.as_ref().ok().map(|key| key.public_key().clone()).or(beside);
        Self { public, path, private, certificates: Vec::new() }
    }
}

/// Signs for a certificate with the plain key that the agent holds.
struct PlainSigner<'a> {
    agent: &'a mut AgentClient<UnixStream>,
    key: PublicKey,
}

impl Signer for PlainSigner<'_> {
    type Error = russh::AgentAuthError;

    async fn auth_sign(
        &mut self,
        _certificate: &AgentIdentity,
        hash: Option<HashAlg>,
        to_sign: Vec<u8>,
    ) -> Result<Vec<u8>, Self::Error> {
        let identity = AgentIdentity::PublicKey { key: self.key.clone(), comment: String::new() };
        self.agent.auth_sign(&identity, hash, to_sign).await
    }
}

fn is_rsa(key: &PublicKey) -> bool {
    matches!(key.algorithm(), Algorithm::Rsa { .. })
}

fn describe(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

fn certified(certificate: &Certificate) -> String {
    let key = PublicKey::new(certificate.public_key().clone(), "");
    format!("certificate {:?} for {}", certificate.key_id(), describe(&key))
}

fn names(methods: &MethodSet) -> Vec<String> {
    methods.iter().map(|method| <&str>::from(method).to_owned()).collect()
}
