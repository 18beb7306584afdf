//! The options of `ansible_ssh_common_args` and its kin, as far as `converge` has them itself.

use converge_syntax::{Diagnostic, Diagnostics, Span, did_you_mean};

use super::shlex;

/// The policy for the key of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKeyChecking {
    /// Only known keys.
    Strict,
    /// Unknown keys are learned; changed keys are refused.
    AcceptNew,
    /// Any key.
    Off,
}

/// The options in arguments of ssh. Of an option that is given twice the first counts, as in ssh.
#[derive(Debug, Clone, Default)]
pub(super) struct SshOptions {
    pub(super) port: Option<u16>,
    pub(super) user: Option<String>,
    pub(super) identity_files: Vec<String>,
    pub(super) identities_only: Option<bool>,
    pub(super) known_hosts: Option<Vec<String>>,
    pub(super) host_key_alias: Option<String>,
    pub(super) host_key_checking: Option<HostKeyChecking>,
    pub(super) timeout: Option<u64>,
    /// `ProxyJump`; `Some` of nothing is `none`.
    pub(super) jumps: Option<Vec<Hop>>,
    pub(super) certificate_files: Vec<String>,
}

/// A jump host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Name or address as it is written: of an inventory host, of ssh's configuration, of the name service.
    pub host: String,
    /// Its user, where it is written.
    pub user: Option<String>,
    /// Its port, where it is written.
    pub port: Option<u16>,
}

impl Hop {
    /// The hosts of a `ProxyJump`: `[user@]host[:port]`, `[user@][address]:port` or `ssh://…`, with commas. `None` when one is malformed.
    #[must_use]
    pub fn parse_list(text: &str) -> Option<Vec<Self>> {
        if text.eq_ignore_ascii_case("none") {
            return Some(Vec::new());
        }
        text.split(',').map(|one| Self::parse(one.trim())).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("ssh://").unwrap_or(text).trim_end_matches('/');
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(user.to_owned()).filter(|user| !user.is_empty()), rest),
            None => (None, text),
        };
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, after)) => (host, Some(after.strip_prefix(':')?)),
            // More than one colon is an address of IPv6 without a port.
            None if rest.matches(':').count() == 1 => {
                rest.split_once(':').map(|(host, port)| (host, Some(port)))?
            }
            None => (rest, None),
        };
        let port = match port {
            Some(port) => Some(port.parse().ok().filter(|port| *port != 0)?),
            None => None,
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-:%".contains(c) || !c.is_ascii();
        let sound = !host.is_empty() && !host.starts_with('-') && host.chars().all(plain);
        sound.then(|| Self { host: host.to_owned(), user, port })
    }

    /// The jump host that a command of the usual form leads through: `ssh -W %h:%p [-q] [-p PORT] [-l USER] [USER@]HOST`.
    fn of_command(command: &str) -> Option<Self> {
        let words = shlex::split(command, false).ok()?;
        let mut words = words.iter().map(|word| word.text.as_str());
        let program = words.next()?;
        if program.rsplit('/').next() != Some("ssh") {
            return None;
        }
        let (mut hop, mut forwards, mut user, mut port) = (None, false, None, None);
        while let Some(word) = words.next() {
            match word {
                "-W" => forwards = matches!(words.next()?, "%h:%p" | "[%h]:%p"),
                "-W%h:%p" => forwards = true,
                "-p" => port = Some(words.next()?.parse().ok()?),
                "-l" => user = Some(words.next()?.to_owned()),
                "-q" | "-T" | "-a" | "-x" => {}
                other if other.starts_with('-') || hop.is_some() => return None,
                other => hop = Some(Self::parse(other)?),
            }
        }
        let hop = hop.filter(|_| forwards)?;
        Some(Self { user: user.or(hop.user), port: port.or(hop.port), host: hop.host })
    }
}

/// Options that need nothing here: how connections are shared, kept alive, compressed, logged.
const WITHOUT_EFFECT: [&str; 14] = [
    "batchmode",
    "compression",
    "connectionattempts",
    "controlmaster",
    "controlpath",
    "controlpersist",
    "forwardagent",
    "forwardx11",
    "gssapiauthentication",
    "loglevel",
    "preferredauthentications",
    "serveralivecountmax",
    "serveraliveinterval",
    "tcpkeepalive",
];

const UNDERSTOOD: [&str; 10] = [
    "CertificateFile",
    "ConnectTimeout",
    "HostKeyAlias",
    "IdentitiesOnly",
    "IdentityFile",
    "Port",
    "ProxyJump",
    "StrictHostKeyChecking",
    "User",
    "UserKnownHostsFile",
];

impl SshOptions {
    /// Adds the arguments in `text`, the value of the variable `name`. Diagnostics go to `found`.
    pub(super) fn add(&mut self, name: &str, text: &str, at: &Span, found: &mut Diagnostics) {
        let words = match shlex::split(text, false) {
            Ok(words) => words,
            Err(unclosed) => {
                found.push(
                    Diagnostic::error(
                        "bad-quoting",
                        format!("`{name}` has a `{}` without an end", unclosed.what),
                    )
                    .at(at)
                    .help("close the quote"),
                );
                return;
            }
        };
        let mut words = words.into_iter().map(|word| word.text);
        while let Some(word) = words.next() {
            let mut chars = word.chars();
            let (Some('-'), Some(letter)) = (chars.next(), chars.next()) else {
                found.push(
                    Diagnostic::warning(
                        "ssh-option",
                        format!("`{word}` in `{name}` is not an option of ssh; it is ignored"),
                    )
                    .at(at)
                    .help("write -o Option=value"),
                );
                continue;
            };
            let attached = chars.as_str();
            let mut value = || if attached.is_empty() { words.next() } else { Some(attached.to_owned()) };
            match letter {
                'o' => match value() {
                    Some(option) => self.option(name, &option, at, found),
                    None => {
                        found.push(Diagnostic::error("ssh-option", format!("`{name}` ends in -o")).at(at))
                    }
                },
                'p' => self.set(name, "Port", &value().unwrap_or_default(), at, found),
                'l' => self.set(name, "User", &value().unwrap_or_default(), at, found),
                'i' => self.set(name, "IdentityFile", &value().unwrap_or_default(), at, found),
                'J' => {
                    let jump = value().unwrap_or_default();
                    self.set(name, "ProxyJump", &jump, at, found);
                }
                'C' | 'q' | 'v' | 'x' | 'a' | 'T' | '4' | '6' => {}
                _ => found.push(
                    Diagnostic::warning(
                        "ssh-option",
                        format!("`{word}` in `{name}` is not supported; it is ignored"),
                    )
                    .at(at)
                    .help(format!("supported are -p, -l, -i and -o with {}", UNDERSTOOD.join(", "))),
                ),
            }
        }
    }

    /// `Option=value` or `Option value`.
    fn option(&mut self, name: &str, option: &str, at: &Span, found: &mut Diagnostics) {
        let (key, value) = option.split_once(['=', ' ', '\t']).unwrap_or((option, ""));
        let value = value.trim().trim_start_matches('=').trim();
        self.set(name, key.trim(), value, at, found);
    }

    fn set(&mut self, name: &str, key: &str, value: &str, at: &Span, found: &mut Diagnostics) {
        let bad = |found: &mut Diagnostics, expected: &str| {
            found.push(
                Diagnostic::error("ssh-option", format!("`{value}` in `{name}` is no value of {key}"))
                    .at(at)
                    .help(format!("{key} takes {expected}")),
            );
        };
        let lower = key.to_ascii_lowercase();
        match lower.as_str() {
            "port" => match value.parse() {
                Ok(port) => _ = self.port.get_or_insert(port),
                Err(_) => bad(found, "a number from 1 to 65535"),
            },
            "user" if !value.is_empty() => _ = self.user.get_or_insert(value.to_owned()),
            "hostkeyalias" if !value.is_empty() => _ = self.host_key_alias.get_or_insert(value.to_owned()),
            "user" | "hostkeyalias" => bad(found, "a name"),
            "identityfile" if !value.is_empty() => self.identity_files.push(value.to_owned()),
            "identityfile" => bad(found, "a path"),
            "identitiesonly" => match value.to_ascii_lowercase().as_str() {
                "yes" | "true" => _ = self.identities_only.get_or_insert(true),
                "no" | "false" => _ = self.identities_only.get_or_insert(false),
                _ => bad(found, "yes or no"),
            },
            "userknownhostsfile" if !value.is_empty() => {
                let files = value.split_whitespace().filter(|file| !matches!(*file, "/dev/null" | "none"));
                let files = files.map(str::to_owned).collect();
                self.known_hosts.get_or_insert(files);
            }
            "userknownhostsfile" => bad(found, "paths"),
            "stricthostkeychecking" => match value.to_ascii_lowercase().as_str() {
                "yes" | "true" | "ask" => _ = self.host_key_checking.get_or_insert(HostKeyChecking::Strict),
                "accept-new" => _ = self.host_key_checking.get_or_insert(HostKeyChecking::AcceptNew),
                "no" | "false" | "off" => _ = self.host_key_checking.get_or_insert(HostKeyChecking::Off),
                _ => bad(found, "yes, accept-new or no"),
            },
            "connecttimeout" => match value.parse() {
                Ok(seconds) => _ = self.timeout.get_or_insert(seconds),
                Err(_) => bad(found, "whole seconds"),
            },
            "proxyjump" => match Hop::parse_list(value) {
                Some(hops) => _ = self.jumps.get_or_insert(hops),
                None => bad(found, "[user@]host[:port], more of them with commas, or none"),
            },
            "proxycommand" if value.eq_ignore_ascii_case("none") => _ = self.jumps.get_or_insert(Vec::new()),
            // An inventory starts no programs on this machine. Without its jump host a connection would go somewhere else.
            "proxycommand" => match Hop::of_command(value) {
                Some(hop) => _ = self.jumps.get_or_insert(vec![hop]),
                None => found.push(
                    Diagnostic::error("ssh-option", format!("the ProxyCommand in `{name}` is not supported"))
                        .label(at, format!("asks for `{value}`"))
                        .help("write ProxyJump=host; only `ssh -W %h:%p host` is understood here, other commands work from ~/.ssh/config"),
                ),
            },
            "certificatefile" if !value.is_empty() => self.certificate_files.push(value.to_owned()),
            "certificatefile" => bad(found, "a path"),
            other if WITHOUT_EFFECT.contains(&other) => {}
            _ => {
                let guess = did_you_mean(key, UNDERSTOOD).map(|known| format!("did you mean {known}?"));
                found.push(
                    Diagnostic::warning(
                        "ssh-option",
                        format!("the option {key} in `{name}` is not supported; it is ignored"),
                    )
                    .at(at)
                    .help(guess.unwrap_or_else(|| format!("supported are {}", UNDERSTOOD.join(", ")))),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jump_hosts_in_all_their_forms() {
        let shown = |text: &str| {
            Hop::parse_list(text).map(|hops| {
                let one = |hop: &Hop| {
                    format!("{}@{}:{}", hop.user.as_deref().unwrap_or(""), hop.host, hop.port.unwrap_or(0))
                };
                hops.iter().map(one).collect::<Vec<_>>().join(" ")
            })
        };
        for (text, hops) in [
            ("b", Some("@b:0")),
            ("me@b1:2222, b2", Some("me@b1:2222 @b2:0")),
            ("ssh://me@b:22/", Some("me@b:22")),
            ("[2001:db8::1]:2222", Some("@2001:db8::1:2222")),
            ("2001:db8::1", Some("@2001:db8::1:0")),
            ("none", Some("")),
            ("b:0", None),
            ("b:x", None),
            ("b,,c", None),
            ("-oProxyCommand=x", None),
            ("b;rm", None),
            ("", None),
        ] {
            assert_eq!(shown(text).as_deref(), hops, "{text}");
        }
    }

    #[test]
    fn the_usual_proxy_command_is_a_jump_host() {
        let hop = |text: &str| Hop::of_command(text);
        let b = Hop { host: "b".to_owned(), user: Some("me".to_owned()), port: Some(2222) };
        assert_eq!(hop("ssh -W %h:%p -q me@b -p 2222"), Some(b.clone()));
        assert_eq!(hop("/usr/bin/ssh -q -l me -p 2222 -W [%h]:%p b"), Some(b));
        for other in
            ["nc %h %p", "ssh b nc %h %p", "ssh -W %h:22 b", "ssh -o X=y -W %h:%p b", "ssh b", "ssh -W %h:%p"]
        {
            assert_eq!(hop(other), None, "{other}");
        }
    }
}
