//! The Debian mirror that this machine's own apt uses.

use crate::error::{LabError, Result};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Debian release of the hosts.
pub(crate) const SUITE: &str = "bookworm";

/// Where the hosts' packages come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mirror {
    /// URI of the `debian` archive.
    pub archive: String,
    /// URI of the `debian-security` archive, when the machine names one.
    pub security: Option<String>,
}

/// One address that the hosts may reach.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MirrorAddress {
    pub name: String,
    pub address: Ipv4Addr,
    pub port: u16,
}

impl Mirror {
    /// The mirror of `CONVERGE_LAB_MIRROR`, else of this machine's apt sources.
    pub(crate) fn find() -> Result<Self> {
        if let Ok(base) = std::env::var("CONVERGE_LAB_MIRROR") {
            let base = base.trim_end_matches('/');
            return Ok(Self {
                archive: format!("{base}/debian"),
                security: Some(format!("{base}/debian-security")),
            });
        }
        let mut uris = Vec::new();
        if let Ok(text) = fs_err::read_to_string("/etc/apt/sources.list") {
            uris.extend(one_line_uris(&text));
        }
        let mut files: Vec<_> = fs_err::read_dir("/etc/apt/sources.list.d")
            .map(|entries| entries.filter_map(std::result::Result::ok).map(|entry| entry.path()).collect())
            .unwrap_or_default();
        files.sort();
        for path in files {
            let Ok(text) = fs_err::read_to_string(&path) else { continue };
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("list") => uris.extend(one_line_uris(&text)),
                Some("sources") => uris.extend(deb822_uris(&text)),
                _ => {}
            }
        }
        Self::from_uris(&uris).ok_or(LabError::NoMirror)
    }

    fn from_uris(uris: &[String]) -> Option<Self> {
        let ending = |name: &str| {
            let found = uris.iter().map(|uri| uri.trim_end_matches('/')).find(|uri| {
                (uri.starts_with("http://") || uri.starts_with("https://"))
                    && uri.rsplit('/').next() == Some(name)
            });
            found.map(ToOwned::to_owned)
        };
        Some(Self { archive: ending("debian")?, security: ending("debian-security") })
    }

    /// The lines of a `sources.list` for the hosts.
    pub(crate) fn sources(&self) -> Vec<String> {
        let mut lines = vec![
            format!("deb {} {SUITE} main", self.archive),
            format!("deb {} {SUITE}-updates main", self.archive),
        ];
        lines.extend(self.security.iter().map(|uri| format!("deb {uri} {SUITE}-security main")));
        lines
    }

    /// The addresses behind the mirror, resolved now; empty on a machine that cannot resolve names.
    pub(crate) fn endpoints(&self) -> Vec<MirrorAddress> {
        let mut found = BTreeSet::new();
        for uri in std::iter::once(&self.archive).chain(&self.security) {
            let Some((name, port)) = authority(uri) else { continue };
            let Ok(addresses) = (name.as_str(), port).to_socket_addrs() else { continue };
            let first = addresses.into_iter().find_map(|address| match address {
                SocketAddr::V4(v4) => Some(*v4.ip()),
                SocketAddr::V6(_) => None,
            });
            found.extend(first.map(|address| MirrorAddress { name, address, port }));
        }
        found.into_iter().collect()
    }
}

/// Host and port of a URI.
fn authority(uri: &str) -> Option<(String, u16)> {
    let (scheme, rest) = uri.split_once("://")?;
    let authority = rest.split('/').next()?;
    let standard = if scheme == "https" { 443 } else { 80 };
    match authority.rsplit_once(':') {
        Some((name, port)) => Some((name.to_owned(), port.parse().ok()?)),
        None => Some((authority.to_owned(), standard)),
    }
}

/// URIs of the one-line format: `deb [options] URI suite component…`.
fn one_line_uris(text: &str) -> Vec<String> {
    let mut uris = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim().strip_prefix("deb ") else { continue };
        let rest = rest.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(options) => options.split_once(']').map_or("", |(_, after)| after),
            None => rest,
        };
        uris.extend(rest.split_whitespace().next().map(ToOwned::to_owned));
    }
    uris
}

/// URIs of the deb822 format: stanzas with `Types:` and `URIs:` fields; disabled stanzas do not count.
fn deb822_uris(text: &str) -> Vec<String> {
    let mut uris = Vec::new();
    let plain: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in plain.split(|line| line.trim().is_empty()) {
        let field = |name: &str| -> String {
            let mut value = String::new();
            let mut inside = false;
            for line in stanza {
                if line.starts_with([' ', '\t']) {
                    if inside {
                        value.push(' ');
                        value.push_str(line.trim());
                    }
                    continue;
                }
                inside = false;
                if let Some((key, rest)) = line.split_once(':') {
                    inside = key.eq_ignore_ascii_case(name);
                    if inside {
                        value.push_str(rest.trim());
                    }
                }
            }
            value
        };
        let off = matches!(field("Enabled").as_str(), "no" | "false" | "off");
        if !off && field("Types").split_whitespace().any(|kind| kind == "deb") {
            uris.extend(field("URIs").split_whitespace().map(ToOwned::to_owned));
        }
    }
    uris
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_sources_are_read() {
        let text = "# deb http://old.example/debian x main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://m.example/debian/ bookworm main\n\
                    deb-src http://src.example/debian bookworm main\n\
                    deb http://s.example:8080/debian-security bookworm-security main\n";
        let mirror = Mirror::from_uris(&one_line_uris(text)).unwrap();
        assert_eq!(mirror.archive, "http://m.example/debian");
        assert_eq!(mirror.security.as_deref(), Some("http://s.example:8080/debian-security"));
        assert_eq!(authority("http://s.example:8080/debian-security"), Some(("s.example".to_owned(), 8080)));
    }

    #[test]
    fn deb822_sources_are_read() {
        let text = "Types: deb\nURIs: http://off.example/debian\nEnabled: no\n\n\
                    Types: deb deb-src\n# a comment\nURIs:\n http://m.example/debian\n http://n.example/debian\nSuites: trixie\n\n\
                    Types: deb-src\nURIs: http://src.example/debian-security\n";
        let mirror = Mirror::from_uris(&deb822_uris(text)).unwrap();
        assert_eq!(mirror, Mirror { archive: "http://m.example/debian".to_owned(), security: None });
        assert_eq!(mirror.sources().len(), 2);
    }

    #[test]
    fn other_archives_are_no_mirror() {
        let uris =
            one_line_uris("deb http://a.example/ubuntu noble main\ndeb file:/srv/debian bookworm main\n");
        assert_eq!(Mirror::from_uris(&uris), None);
    }
}
