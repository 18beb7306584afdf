//! Ansible Vault: encrypted values and files, as `ansible-vault` writes and reads them.
//!
//! Format: a line `$ANSIBLE_VAULT;1.1;AES256`, or `$ANSIBLE_VAULT;1.2;AES256;ID` with the name of the password, then lines of 80
//! hexadecimal digits; these hold salt, HMAC and encrypted text, each in hexadecimal again, with line ends between.

mod cipher;
mod decrypted;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::{ExposeSecret, SecretSlice};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use cipher::{CipherError, VaultParts};
use converge_resource::{from_hex, to_hex};

pub(crate) use decrypted::{decrypted_documents, decrypted_text, documents, unquoted};

/// The first word of every vault text.
pub const HEADER: &str = "$ANSIBLE_VAULT";
/// The name of a password that has none of its own.
pub const DEFAULT_ID: &str = "default";
/// The tags that an encrypted value has in YAML.
pub(crate) const TAGS: [&str; 2] = ["!vault", "!vault-encrypted"];
const CIPHER: &str = "AES256";
const LINE: usize = 80;
const SALT: usize = 32;

/// Is this a vault?
#[must_use]
pub fn is_vault(bytes: &[u8]) -> bool {
    bytes.starts_with(HEADER.as_bytes())
}

/// A password and the name that it has.
#[derive(Clone)]
pub struct VaultSecret {
    id: String,
    password: Arc<SecretSlice<u8>>,
}

impl VaultSecret {
    /// A password under a name ([`DEFAULT_ID`] where the user gave none).
    pub fn new(id: impl Into<String>, password: Vec<u8>) -> Self {
        Self { id: id.into(), password: Arc::new(password.into()) }
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Debug for VaultSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VaultSecret({})", self.id)
    }
}

/// The reason why a vault could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// No password was given.
    #[error("this is encrypted{}, and no vault password is given", named(id))]
    NoPassword {
        /// The name in the vault's header.
        id: Option<String>,
    },
    /// None of the passwords opens it.
    #[error("this is encrypted{}, and none of the given vault passwords ({}) opens it", named(id), tried.join(", "))]
    WrongPassword {
        /// The name in the vault's header.
        id: Option<String>,
        /// The names of the passwords that were tried.
        tried: Vec<String>,
    },
    /// The text is not a whole vault.
    #[error("the encrypted data is damaged: {0}")]
    Damaged(String),
    /// The vault has a format that is not supported.
    #[error("the encrypted data has a form that is not read: {0}")]
    Unsupported(String),
}

fn named(id: &Option<String>) -> String {
    id.as_ref().map(|id| format!(" for the vault id `{id}`")).unwrap_or_default()
}

impl VaultError {
    /// The correction, for the user.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::NoPassword { id: Some(id) } => {
                format!("give the password: --vault-id {id}@FILE, or --vault-id {id}@prompt")
            }
            Self::NoPassword { id: None } => {
                "give the password: --vault-password-file FILE, or --ask-vault-pass".to_owned()
            }
            Self::WrongPassword { id: Some(id), tried } if !tried.contains(id) => {
                format!("give its password too: --vault-id {id}@FILE")
            }
            Self::WrongPassword { .. } => {
                "check the password; data that was changed or cut looks the same".to_owned()
            }
            Self::Damaged(_) => "take the file from your version control again".to_owned(),
            Self::Unsupported(_) => {
                "bring it to the form 1.1 or 1.2 with a current `ansible-vault rekey`".to_owned()
            }
        }
    }
}

/// A decrypted text and the name of the password that opened it.
#[derive(Clone)]
pub struct DecryptedText {
    /// The bytes.
    pub plain: Arc<Zeroizing<Vec<u8>>>,
    /// The name of the password.
    pub id: String,
}

impl fmt::Debug for DecryptedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The passwords of a run, and what they opened so far. Cheap to clone.
#[derive(Clone, Default)]
pub struct Vault(Arc<Inner>);

#[derive(Default)]
struct Inner {
    secrets: Vec<VaultSecret>,
    /// By the digest of the vault: a value of a group is opened once, not once a host.
    opened: Mutex<HashMap<[u8; 32], Result<DecryptedText, VaultError>>>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vault").field(&self.0.secrets).finish()
    }
}

impl Vault {
    /// Passwords in the order in which they are tried.
    pub fn new(secrets: Vec<VaultSecret>) -> Self {
        Self(Arc::new(Inner { secrets, opened: Mutex::default() }))
    }

    /// The passwords.
    pub fn secrets(&self) -> &[VaultSecret] {
        &self.0.secrets
    }

    /// Opens a vault: with the password that its header names first, then with all others, as Ansible does.
    ///
    /// # Errors
    /// No password opens it, or it is damaged.
    pub fn open(&self, text: &str) -> Result<DecryptedText, VaultError> {
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let lock = || self.0.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&digest) {
            return known.clone();
        }
        let opened = self.open_anew(text);
        lock().insert(digest, opened.clone());
        opened
    }

    fn open_anew(&self, text: &str) -> Result<DecryptedText, VaultError> {
        let (id, sealed) = parse(text)?;
        if self.0.secrets.is_empty() {
            return Err(VaultError::NoPassword { id });
        }
        let (first, rest): (Vec<_>, Vec<_>) =
            self.0.secrets.iter().partition(|secret| Some(&secret.id) == id.as_ref());
        for secret in first.into_iter().chain(rest) {
            match cipher::open(&sealed, secret.password.expose_secret()) {
                Ok(plain) => return Ok(DecryptedText { plain: Arc::new(plain), id: secret.id.clone() }),
                Err(CipherError::Mac) => {}
                Err(CipherError::Padding) => {
                    return Err(VaultError::Damaged("its padding is wrong".to_owned()));
                }
            }
        }
        let mut tried: Vec<String> = Vec::new();
        for secret in &self.0.secrets {
            if !tried.contains(&secret.id) {
                tried.push(secret.id.clone());
            }
        }
        Err(VaultError::WrongPassword { id, tried })
    }
}

impl converge_template::Decrypt for Vault {
    fn decrypt(&self, text: &str) -> Result<String, (String, String)> {
        let opened = self.open(text).map_err(|error| (error.to_string(), error.help()))?;
        String::from_utf8(opened.plain.to_vec()).map_err(|_| {
            let help = "a value is text; encrypt bytes in base64, and decode them where they are used";
            ("what is encrypted here is not UTF-8 text".to_owned(), help.to_owned())
        })
    }
}

/// Encrypts: the text of a vault, with a line end at its end. The header names the password unless it is the default one.
///
/// # Errors
/// The name cannot stand in a header.
pub fn encrypt(plain: &[u8], secret: &VaultSecret) -> Result<String, VaultError> {
    encrypt_with_salt(plain, secret, &rand::random::<[u8; SALT]>())
}

fn encrypt_with_salt(plain: &[u8], secret: &VaultSecret, salt: &[u8]) -> Result<String, VaultError> {
    let id = secret.id();
    if id.contains([';', '\n', '\r']) {
        return Err(VaultError::Unsupported(format!(
            "the vault id `{id}` has a semicolon or line end in it"
        )));
    }
    let sealed = cipher::seal(plain, secret.password.expose_secret(), salt)
        .ok_or_else(|| VaultError::Unsupported("the text is too long".to_owned()))?;
    let inner = [to_hex(&sealed.salt), to_hex(&sealed.mac), to_hex(&sealed.text)].join("\n");
    let mut text = match id {
        DEFAULT_ID => format!("{HEADER};1.1;{CIPHER}\n"),
        id => format!("{HEADER};1.2;{CIPHER};{id}\n"),
    };
    let body = to_hex(inner.as_bytes());
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(LINE.min(rest.len()));
        text.push_str(line);
        text.push('\n');
        rest = more;
    }
    Ok(text)
}

/// The name in the header, and what is encrypted.
fn parse(text: &str) -> Result<(Option<String>, VaultParts), VaultError> {
    let mut lines = text.trim().lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(';').map(str::trim).collect();
    let id = match header.as_slice() {
        [HEADER, "1.1", CIPHER] => None,
        [HEADER, "1.2", CIPHER, id] if !id.is_empty() => Some((*id).to_owned()),
        // Ansible writes no name into a 1.2 header where there is none to write.
        [HEADER, "1.2", CIPHER] => None,
        [HEADER, version @ ("1.1" | "1.2"), cipher, ..] if *cipher != CIPHER => {
            return Err(VaultError::Unsupported(format!("version {version} with the cipher {cipher}")));
        }
        [HEADER, version, ..] if !matches!(*version, "1.1" | "1.2") => {
            return Err(VaultError::Unsupported(format!("version {version}")));
        }
        _ => {
            return Err(VaultError::Damaged(format!(
                "its first line is not `{HEADER};1.1;AES256` or `{HEADER};1.2;AES256;ID`"
            )));
        }
    };
    let damaged = |why: &str| VaultError::Damaged(why.to_owned());
    let body: String = lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
    let inner = from_hex(&body).ok_or_else(|| damaged("its lines are not hexadecimal digits"))?;
    let inner =
        String::from_utf8(inner).map_err(|_| damaged("its three parts are not hexadecimal digits"))?;
    let mut parts = inner.split('\n');
    let mut part = |what: &str| {
        let digits = parts.next().filter(|digits| !digits.is_empty());
        let digits = digits.ok_or_else(|| VaultError::Damaged(format!("it ends before its {what}")))?;
        from_hex(digits.trim())
            .ok_or_else(|| VaultError::Damaged(format!("its {what} is not hexadecimal digits")))
    };
    let (salt, mac, text) = (part("salt")?, part("HMAC")?, part("text")?);
    Ok((id, VaultParts { salt, mac, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(id: &str, password: &str) -> VaultSecret {
        VaultSecret::new(id, password.as_bytes().to_vec())
    }

    fn open(vault: &str, secrets: &[(&str, &str)]) -> Result<String, VaultError> {
        let all = secrets.iter().map(|(id, password)| secret(id, password)).collect();
        let opened = Vault::new(all).open(vault)?;
        Ok(format!("{} by {}", String::from_utf8_lossy(&opened.plain), opened.id))
    }

    #[test]
    fn names_choose_the_password_and_all_are_tried() {
        let plain = encrypt(b"s3cret", &secret(DEFAULT_ID, "pw")).unwrap();
        assert!(plain.starts_with("$ANSIBLE_VAULT;1.1;AES256\n"));
        assert!(plain.lines().skip(1).all(|line| line.len() <= 80));
        assert_eq!(open(&plain, &[("default", "pw")]).unwrap(), "s3cret by default");
        assert_eq!(open(&plain, &[("a", "no"), ("b", "pw")]).unwrap(), "s3cret by b");
        let named = encrypt(b"s3cret", &secret("prod", "pw")).unwrap();
        assert!(named.starts_with("$ANSIBLE_VAULT;1.2;AES256;prod\n"));
        assert_eq!(open(&named, &[("dev", "pw"), ("prod", "pw")]).unwrap(), "s3cret by prod");
        assert_eq!(open(&named, &[("dev", "pw")]).unwrap(), "s3cret by dev");
        // Leading white space of a block in YAML does not matter.
        let indented = named.replace('\n', "\n      ");
        assert_eq!(open(&indented, &[("prod", "pw")]).unwrap(), "s3cret by prod");
    }

    #[test]
    fn errors_name_what_is_missing() {
        let named = encrypt(b"s3cret", &secret("prod", "pw")).unwrap();
        let error = open(&named, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "this is encrypted for the vault id `prod`, and no vault password is given"
        );
        assert_eq!(error.help(), "give the password: --vault-id prod@FILE, or --vault-id prod@prompt");
        let error = open(&named, &[("dev", "x"), ("dev", "y")]).unwrap_err();
        assert!(error.to_string().contains("none of the given vault passwords (dev) opens it"), "{error}");
        assert_eq!(error.help(), "give its password too: --vault-id prod@FILE");
        let error = open(&named, &[("prod", "x")]).unwrap_err();
        assert!(error.help().contains("check the password"), "{}", error.help());
    }

    #[test]
    fn damage_is_distinguished_from_a_wrong_password() {
        let sound = encrypt(b"s3cret", &secret(DEFAULT_ID, "pw")).unwrap();
        let cut: String = sound.lines().take(2).map(|line| format!("{line}\n")).collect();
        for (text, words) in [
            ("$ANSIBLE_VAULT", "its first line"),
            ("$ANSIBLE_VAULT;1.0;AES\n61", "version 1.0"),
            ("$ANSIBLE_VAULT;1.1;AES\n61", "version 1.1 with the cipher AES"),
            ("$ANSIBLE_VAULT;1.1;AES256\n6", "not hexadecimal"),
            ("$ANSIBLE_VAULT;1.1;AES256\nzz", "not hexadecimal"),
            ("$ANSIBLE_VAULT;1.1;AES256\n3061", "ends before its HMAC"),
            ("$ANSIBLE_VAULT;1.1;AES256\n", "ends before its salt"),
            (cut.as_str(), "ends before its"),
        ] {
            let error = open(text, &[("default", "pw")]).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(encrypt(b"x", &secret("a;b", "pw")).is_err());
    }
}
