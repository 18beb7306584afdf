//! The options of `ansible_ssh_common_args` and its kin, as far as `converge` has them itself.

use converge_syntax::{Diagnostic, Diagnostics, Span, did_you_mean};

use super::connection::HostKeyChecking;
use super::shlex;

/// What arguments of ssh ask for. Of an option that is given twice the first counts, as in ssh.
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

const UNDERSTOOD: [&str; 8] = [
    "ConnectTimeout",
    "HostKeyAlias",
    "IdentitiesOnly",
    "IdentityFile",
    "Port",
    "StrictHostKeyChecking",
    "User",
    "UserKnownHostsFile",
];

impl SshOptions {
    /// Adds the arguments in `text`, the value of the variable `name`. Complaints go to `found`.
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
            // Without its jump host a connection would go somewhere else.
            "proxyjump" | "proxycommand" if !value.eq_ignore_ascii_case("none") => found.push(
                Diagnostic::error("ssh-option", format!("{key} in `{name}` is not there yet"))
                    .label(at, format!("asks for `{value}`"))
                    .help("run converge on a machine that reaches the host directly"),
            ),
            "proxyjump" | "proxycommand" => {}
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
