//! Names of hosts as known_hosts writes them: plain, hashed, with wildcards.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

#[derive(Debug, Clone)]
pub(super) enum HostPatterns {
    Patterns(Vec<String>),
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

impl HostPatterns {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("|1|") {
            let (salt, hash) = rest.split_once('|')?;
            return Some(Self::Hashed {
                salt: STANDARD.decode(salt).ok()?,
                hash: STANDARD.decode(hash).ok()?,
            });
        }
        Some(Self::Patterns(
            text.split(',').filter(|one| !one.is_empty()).map(str::to_ascii_lowercase).collect(),
        ))
    }

    /// `name` is in lower case. A negated pattern that matches wins over all others.
    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Hashed { salt, hash } => Hmac::<Sha1>::new_from_slice(salt)
                .map(|mac| mac.chain_update(name.as_bytes()).verify_slice(hash).is_ok())
                .unwrap_or(false),
            Self::Patterns(patterns) => {
                let (no, yes): (Vec<&String>, Vec<&String>) =
                    patterns.iter().partition(|pattern| pattern.starts_with('!'));
                let hit = |pattern: &str| glob(pattern.as_bytes(), name.as_bytes());
                yes.iter().any(|pattern| hit(pattern))
                    && !no.iter().any(|pattern| hit(pattern.trim_start_matches('!')))
            }
        }
    }
}

/// `*` and `?` as in ssh: no character is special to them, brackets and dots included. Linear in practice: only the last `*` is retried.
pub(crate) fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(one) if *one == b'?' || one == byte => {
                p += 1;
                t += 1;
            }
            _ => match &mut retry {
                Some((after, from)) => {
                    *from += 1;
                    (p, t) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

pub(super) fn lookup_name(host: &str, port: u16) -> String {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}
