//! Our own strict reading of known_hosts: hashes, patterns, markers, several files.

mod pattern;

use crate::error::{ConnectError, FileLine, ShownKey};
use crate::files::expand;
use camino::{Utf8Path, Utf8PathBuf};
pub(crate) use pattern::glob;
use pattern::{HostPatterns, lookup_name};
use russh::keys::ssh_key::certificate::CertType;
use russh::keys::{Algorithm, Certificate, EcdsaCurve, HashAlg, PublicKey};
use std::time::SystemTime;

/// The files that ssh reads if none is named; `~` is the home directory.
const DEFAULT_FILES: [&str; 4] =
    ["~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"];

/// The files that say which host has which key.
#[derive(Debug, Clone, Default)]
pub struct KnownHosts {
    entries: Vec<KnownHost>,
    /// The first file: where a new key would be added.
    first: String,
}

#[derive(Debug, Clone)]
struct KnownHost {
    at: FileLine,
    marker: Marker,
    hosts: HostPatterns,
    key: PublicKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    None,
    CertAuthority,
    Revoked,
}

/// The verdict of the files about a key that a host shows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostKeyVerdict {
    /// The key is recorded.
    Known,
    /// An authority that is recorded for the host signed it.
    Certified {
        /// The authority's line.
        at: FileLine,
    },
    /// An authority that is recorded for the host signed it, but the certificate does not hold.
    BadCertificate {
        /// Name looked up.
        lookup: String,
        /// The key in the certificate.
        key: PublicKey,
        /// The authority's line.
        at: FileLine,
        /// The reason.
        why: String,
    },
    /// The host has no recorded key of this type.
    Unknown {
        /// Name looked up: `host` or `[host]:port`.
        lookup: String,
        /// The key shown.
        key: PublicKey,
        /// The places where keys of other types are recorded.
        others: Vec<FileLine>,
    },
    /// Other keys of this type are recorded.
    Changed {
        /// Name looked up.
        lookup: String,
        /// The key shown.
        key: PublicKey,
        /// The places where the other keys are recorded.
        recorded: Vec<FileLine>,
    },
    /// The key is marked `@revoked`.
    Revoked {
        /// Name looked up.
        lookup: String,
        /// The key shown.
        key: PublicKey,
        /// The line that says so.
        at: FileLine,
    },
}

impl KnownHosts {
    /// Reads the files of a target, with `~` as this home directory; those of ssh when it has none. A file that does not exist is empty, as for ssh.
    /// Where the target has `pinned` keys, only they are trusted.
    ///
    /// # Errors
    /// `KnownHostsFile` when a file exists and cannot be read; `PinnedKey` when a pinned key is none.
    pub fn load(
        target: &str,
        files: &[Utf8PathBuf],
        pinned: &[String],
        home: Option<&Utf8Path>,
    ) -> Result<Self, ConnectError> {
        let files: Vec<Utf8PathBuf> = if files.is_empty() {
            DEFAULT_FILES.iter().map(|file| expand(Utf8Path::new(file), home)).collect()
        } else {
            files.iter().map(|file| expand(file, home)).collect()
        };
        let mut known =
            Self { entries: Vec::new(), first: files.first().map(ToString::to_string).unwrap_or_default() };
        for file in &files {
            match std::fs::read(file) {
                Ok(bytes) => known.add(file.as_str(), &String::from_utf8_lossy(&bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(ConnectError::KnownHostsFile {
                        host: target.to_owned(),
                        file: file.to_string(),
                        reason: error.to_string(),
                    });
                }
            }
        }
        if !pinned.is_empty() {
            // Pinned keys are the only trusted ones; revoked keys stay revoked.
            known.entries.retain(|entry| entry.marker == Marker::Revoked);
            known.first = String::new();
        }
        for (at, line) in pinned.iter().enumerate() {
            let at = FileLine { file: "converge_host_keys".to_owned(), line: at + 1 };
            known.entries.push(
                KnownHost::pinned(line, at)
                    .ok_or_else(|| ConnectError::PinnedKey { host: target.to_owned(), line: line.clone() })?,
            );
        }
        Ok(known)
    }

    /// Records a new key in the first file; its path. Someone else may have recorded another one in the meantime: then it is refused.
    pub(crate) fn record(
        &self,
        host: &str,
        name: &str,
        port: u16,
        key: &PublicKey,
    ) -> Result<String, Option<ConnectError>> {
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.first.is_empty() {
            // The keys are pinned in the inventory: no other is ever learned.
            return Err(self.check(name, port, key).into_error(host, self));
        }
        let failed = |error: std::io::Error| {
            Some(ConnectError::NotRecorded {
                host: host.to_owned(),
                file: self.first.clone(),
                reason: error.to_string(),
            })
        };
        let text = match std::fs::read(&self.first) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(error)),
        };
        let mut now = Self { entries: Vec::new(), first: self.first.clone() };
        now.add(&self.first, &text);
        match now.check(name, port, key) {
            HostKeyVerdict::Known => return Ok(self.first.clone()),
            HostKeyVerdict::Unknown { .. } => {}
            other => return Err(other.into_error(host, &now)),
        }
        let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let line = format!(
            "{separator}{} {}\n",
            lookup_name(name, port),
            PublicKey::new(key.key_data().clone(), "").to_openssh().unwrap_or_default().trim()
        );
        append(Utf8Path::new(&self.first), &line).map_err(failed)?;
        Ok(self.first.clone())
    }

    /// Checks a certificate that a host shows. A certificate of an authority that is not recorded for the host is ignored,
    /// and so is one that is not valid: then its key is checked like any other, as ssh does.
    #[must_use]
    pub fn check_certificate(
        &self,
        host: &str,
        port: u16,
        certificate: &Certificate,
        now: SystemTime,
    ) -> HostKeyVerdict {
        let key = PublicKey::new(certificate.public_key().clone(), "");
        let authority = PublicKey::new(certificate.signature_key().clone(), "");
        for one in [&authority, &key] {
            if let revoked @ HostKeyVerdict::Revoked { .. } = self.check(host, port, one) {
                return revoked;
            }
        }
        let lookup = lookup_name(host, port);
        let line = self
            .authorities(host, port)
            .find(|entry| entry.key.key_data() == authority.key_data())
            .map(|entry| entry.at.clone());
        let plain = self.check(host, port, &key);
        match line {
            None => plain,
            Some(at) => match why_not(certificate, &lookup_name(host, 22), now) {
                None => HostKeyVerdict::Certified { at },
                Some(_) if plain == HostKeyVerdict::Known => plain,
                Some(why) => HostKeyVerdict::BadCertificate { lookup, key, at, why },
            },
        }
    }

    /// Algorithms of certificates to ask for: none where no authority is recorded for the host.
    #[must_use]
    pub fn certificate_algorithms(&self, host: &str, port: u16) -> Vec<Algorithm> {
        if self.authorities(host, port).next().is_some() { offered() } else { Vec::new() }
    }

    fn authorities(&self, host: &str, port: u16) -> impl Iterator<Item = &KnownHost> {
        let names = [lookup_name(host, port), lookup_name(host, 22)];
        self.entries.iter().filter(move |entry| {
            entry.marker == Marker::CertAuthority && names.iter().any(|name| entry.hosts.matches(name))
        })
    }

    /// The places where this key is recorded for this host.
    pub(crate) fn recorded_at(&self, host: &str, port: u16, key: &PublicKey) -> Option<FileLine> {
        let names = [lookup_name(host, port), lookup_name(host, 22)];
        let mut all = names.iter().flat_map(|name| self.plain(name));
        all.find(|entry| entry.key.key_data() == key.key_data()).map(|entry| entry.at.clone())
    }

    /// Adds the lines of a file. Lines that cannot be understood are left out, as by ssh, and noted in the log.
    pub fn add(&mut self, file: &str, text: &str) {
        if self.first.is_empty() {
            self.first = file.to_owned();
        }
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = FileLine { file: file.to_owned(), line: at + 1 };
            match KnownHost::parse(line, at.clone()) {
                Some(entry) => self.entries.push(entry),
                None => tracing::warn!(%at, "this known_hosts line is not understood"),
            }
        }
    }

    /// Checks a key of this host. Lines of certificate authorities do not apply to a plain key.
    #[must_use]
    pub fn check(&self, host: &str, port: u16, key: &PublicKey) -> HostKeyVerdict {
        let lookup = lookup_name(host, port);
        let key = PublicKey::new(key.key_data().clone(), "");
        let same = |entry: &&KnownHost| entry.key.key_data() == key.key_data();
        // A revoked key is revoked under the host's name without port too.
        let bare = lookup_name(host, 22);
        let names = [lookup.as_str(), bare.as_str()];
        let revoked = self
            .entries
            .iter()
            .filter(|entry| {
                entry.marker == Marker::Revoked && names.iter().any(|name| entry.hosts.matches(name))
            })
            .find(same);
        if let Some(entry) = revoked {
            return HostKeyVerdict::Revoked { lookup, key, at: entry.at.clone() };
        }
        let mine: Vec<&KnownHost> = self.plain(&lookup).collect();
        // As ssh does: a key recorded for the host without port is good for another port as well.
        if mine.iter().copied().any(|entry| same(&entry)) || self.plain(&bare).any(|entry| same(&entry)) {
            return HostKeyVerdict::Known;
        }
        let (recorded, others): (Vec<&KnownHost>, Vec<&KnownHost>) =
            mine.into_iter().partition(|entry| entry.key.algorithm() == key.algorithm());
        let places = |entries: &[&KnownHost]| entries.iter().map(|entry| entry.at.clone()).collect();
        if recorded.is_empty() {
            HostKeyVerdict::Unknown { others: places(&others), lookup, key }
        } else {
            HostKeyVerdict::Changed { recorded: places(&recorded), lookup, key }
        }
    }

    /// Host-key algorithms to offer, those with a recorded key of this host first: else the server may show one of another type.
    #[must_use]
    pub fn preferred_algorithms(&self, host: &str, port: u16) -> Vec<Algorithm> {
        let lookup = lookup_name(host, port);
        let mut names: Vec<String> = vec![lookup];
        // Only when nothing is recorded for this very port does the bare name count.
        if self.plain(&names.concat()).next().is_none() {
            names = vec![lookup_name(host, 22)];
        }
        let known: Vec<Algorithm> =
            names.iter().flat_map(|name| self.plain(name)).map(|entry| entry.key.algorithm()).collect();
        let is_known = |algorithm: &Algorithm| {
            known.iter().any(|one| {
                one == algorithm || matches!((one, algorithm), (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }))
            })
        };
        let (mut first, rest): (Vec<Algorithm>, Vec<Algorithm>) = offered().into_iter().partition(is_known);
        first.extend(rest);
        first
    }

    fn plain<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a KnownHost> {
        self.entries.iter().filter(move |entry| entry.marker == Marker::None && entry.hosts.matches(name))
    }
}

impl HostKeyVerdict {
    /// The error that this verdict means; `None` for a known key.
    pub(crate) fn into_error(self, host: &str, known: &KnownHosts) -> Option<ConnectError> {
        let host = host.to_owned();
        let shown = |lookup: String, key: &PublicKey| {
            Box::new(ShownKey {
                algorithm: key.algorithm().to_string(),
                fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
                line: format!("{lookup} {}", key.to_openssh().unwrap_or_default().trim()),
                lookup,
            })
        };
        Some(match self {
            Self::Known | Self::Certified { .. } => return None,
            Self::BadCertificate { lookup, key, at, why } => {
                ConnectError::BadHostCertificate { host, key: shown(lookup, &key), at, why }
            }
            Self::Unknown { lookup, key, others } => ConnectError::UnknownHostKey {
                host,
                key: shown(lookup, &key),
                file: known.first.clone(),
                known: others,
            },
            Self::Changed { lookup, key, recorded } => {
                ConnectError::ChangedHostKey { host, key: shown(lookup, &key), recorded }
            }
            Self::Revoked { lookup, key, at } => {
                ConnectError::RevokedHostKey { host, key: shown(lookup, &key), at }
            }
        })
    }
}

impl KnownHost {
    /// `[marker] hosts type key [comment]`, separated by blanks or tabs.
    fn parse(line: &str, at: FileLine) -> Option<Self> {
        let mut words = line.split_ascii_whitespace().peekable();
        let marker = match words.next_if(|word| word.starts_with('@')) {
            None => Marker::None,
            Some("@cert-authority") => Marker::CertAuthority,
            Some("@revoked") => Marker::Revoked,
            Some(_) => return None,
        };
        let hosts = HostPatterns::parse(words.next()?)?;
        let (kind, key) = (words.next()?, words.next()?);
        let key = PublicKey::from_openssh(&format!("{kind} {key}")).ok()?;
        Some(Self { at, marker, hosts, key })
    }
}

impl KnownHost {
    /// `[@cert-authority] type key [comment]`, good for the host whatever its name is.
    fn pinned(line: &str, at: FileLine) -> Option<Self> {
        let (marker, rest) = match line.trim().strip_prefix("@cert-authority") {
            Some(rest) => (Marker::CertAuthority, rest),
            None => (Marker::None, line),
        };
        let mut words = rest.split_ascii_whitespace();
        let (kind, key) = (words.next()?, words.next()?);
        let key = PublicKey::from_openssh(&format!("{kind} {key}")).ok()?;
        Some(Self { at, marker, hosts: HostPatterns::Patterns(vec!["*".to_owned()]), key })
    }
}

/// The reason why a host certificate is not valid. `name` is the name of the host without port.
fn why_not(certificate: &Certificate, name: &str, now: SystemTime) -> Option<String> {
    if certificate.cert_type() != CertType::Host {
        return Some("it is one for users".to_owned());
    }
    if matches!(certificate.signature().algorithm(), Algorithm::Rsa { hash: None } | Algorithm::Dsa) {
        return Some("it is signed with SHA-1".to_owned());
    }
    if certificate.verify_signature().is_err() {
        return Some("the signature is wrong".to_owned());
    }
    if let Some(option) = certificate.critical_options().keys().next() {
        return Some(format!("it has the critical option {option}, which nobody knows"));
    }
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if seconds < certificate.valid_after() {
        return Some(format!(
            "it is valid only in {} (is this machine's clock right?)",
            ago(certificate.valid_after() - seconds)
        ));
    }
    if seconds >= certificate.valid_before() {
        return Some(format!("it expired {} ago", ago(seconds - certificate.valid_before())));
    }
    let principals = certificate.valid_principals();
    let hit = |principal: &String| glob(principal.to_ascii_lowercase().as_bytes(), name.as_bytes());
    if principals.iter().any(hit) {
        return None;
    }
    let named = if principals.is_empty() { "no host at all".to_owned() } else { principals.join(", ") };
    Some(format!("it names {named}, not {name}"))
}

/// A span of time in the unit that fits.
pub(crate) fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Appends to a file of one's own, which is made where it is missing.
fn append(file: &Utf8Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    if let Some(folder) = file.parent().filter(|folder| !folder.as_str().is_empty() && !folder.exists()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn offered() -> Vec<Algorithm> {
    let ecdsa = |curve| Algorithm::Ecdsa { curve };
    let rsa = |hash| Algorithm::Rsa { hash: Some(hash) };
    vec![
        Algorithm::Ed25519,
        ecdsa(EcdsaCurve::NistP256),
        ecdsa(EcdsaCurve::NistP384),
        ecdsa(EcdsaCurve::NistP521),
        rsa(HashAlg::Sha512),
        rsa(HashAlg::Sha256),
    ]
}

#[cfg(test)]
#[path = "known_hosts_tests.rs"]
mod tests;
