//! `~/.ssh/config` and `/etc/ssh/ssh_config`: asked of `ssh -G` where there is an ssh, else read by a reader of our own.
//!
//! Ours knows `Host`, `HostName`, `User`, `Port`, `IdentityFile`, `IdentitiesOnly`, `CertificateFile`, `ProxyJump`, `ProxyCommand`,
//! `UserKnownHostsFile`, `HostKeyAlias` and `Include`. A `Match` block other than `Match all` counts for nothing there.

use crate::files::expand;
use crate::known_hosts::glob;
use crate::target::SessionOptions;
use camino::{Utf8Path, Utf8PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

const SYSTEM: &str = "/etc/ssh/ssh_config";
/// Files included from included files, and so on.
const DEPTH: usize = 8;
/// `ssh -G` may run `Match exec` commands and look names up.
const LIMIT: Duration = Duration::from_secs(10);

/// The settings of ssh's configuration for a host. `None` and empty lists mean that it sets nothing, or the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientConfig {
    /// `HostName`
    pub host_name: Option<String>,
    /// `User`
    pub user: Option<String>,
    /// `Port`
    pub port: Option<u16>,
    /// `IdentityFile`
    pub key_files: Vec<Utf8PathBuf>,
    /// `IdentitiesOnly`
    pub identities_only: bool,
    /// `CertificateFile`
    pub certificate_files: Vec<Utf8PathBuf>,
    /// `UserKnownHostsFile`, and `GlobalKnownHostsFile` behind it.
    pub known_hosts: Vec<Utf8PathBuf>,
    /// `HostKeyAlias`
    pub host_key_alias: Option<String>,
    /// `ProxyJump` as it is written.
    pub proxy_jump: Option<String>,
    /// `ProxyCommand`, its `%h`, `%n`, `%p` and `%r` filled in.
    pub proxy_command: Option<String>,
}

impl ClientConfig {
    /// The settings for `host`, the name that one would give to ssh. Known values (user, port) serve its own conditions.
    /// Starts a process only if a file sets something.
    pub async fn of(host: &str, user: Option<&str>, port: Option<u16>, options: &SessionOptions) -> Self {
        if host.is_empty() || host.starts_with('-') || host.contains(['\0', '\n']) {
            return Self::default();
        }
        let own = options.home.as_ref().map(|home| home.join(".ssh/config"));
        let files: Vec<&Utf8Path> =
            own.iter().map(Utf8PathBuf::as_path).chain([Utf8Path::new(SYSTEM)]).collect();
        let mut reader = ConfigReader { host, home: options.home.as_deref(), found: Vec::new(), says: false };
        for file in &files {
            let base = file.parent().unwrap_or(Utf8Path::new("/"));
            reader.read(file, base, true, 0);
        }
        if !reader.says {
            return Self::default();
        }
        let answered = ask(host, user, port, &files).await;
        let lines = answered.unwrap_or(reader.found);
        Self::from_lines(&lines, host, user, port, options.home.as_deref())
    }

    /// From `key value` pairs; of a key that is there twice the first counts, but for lists of files.
    fn from_lines(
        lines: &[(String, String)],
        host: &str,
        user: Option<&str>,
        port: Option<u16>,
        home: Option<&Utf8Path>,
    ) -> Self {
        let all = |key: &str| {
            lines.iter().filter(|(k, _)| k == key).map(|(_, value)| value.clone()).collect::<Vec<_>>()
        };
        let first =
            |key: &str| all(key).into_iter().next().filter(|value| !value.eq_ignore_ascii_case("none"));
        let name = first("hostname").map(|name| name.replace("%h", host).replace("%%", "%"));
        let at = name.clone().unwrap_or_else(|| host.to_owned());
        let user_of = user.map(str::to_owned).or_else(|| first("user"));
        let port_of = port.or_else(|| first("port").and_then(|port| port.parse().ok()));
        let fill = |text: &str| {
            let mut out = String::new();
            let mut chars = text.chars();
            while let Some(c) = chars.next() {
                match (c, if c == '%' { chars.next() } else { None }) {
                    ('%', Some('%')) => out.push('%'),
                    ('%', Some('h')) => out.push_str(&at),
                    ('%', Some('n')) => out.push_str(host),
                    ('%', Some('p')) => out.push_str(&port_of.unwrap_or(22).to_string()),
                    ('%', Some('r')) => out.push_str(user_of.as_deref().unwrap_or_default()),
                    ('%', Some('d')) => out.push_str(home.map_or("", Utf8Path::as_str)),
                    ('%', Some(other)) => out.extend(['%', other]),
                    (c, _) => out.push(c),
                }
            }
            out
        };
        let path = |text: &String| expand(Utf8Path::new(&fill(text)), home);
        let words = |text: String| split(&text);
        let keys: Vec<Utf8PathBuf> =
            all("identityfile").iter().filter(|file| *file != "none").map(path).collect();
        // `ssh -G` names the default keys where none is configured.
        let usual = |file: &Utf8PathBuf| {
            ["id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_xmss", "id_dsa"]
                .iter()
                .any(|name| Some(file) == home.map(|home| home.join(".ssh").join(name)).as_ref())
        };
        let key_files = if keys.len() > 1 && keys.iter().all(usual) { Vec::new() } else { keys };
        let known = first("userknownhostsfile").map(words).unwrap_or_default();
        let default = |files: &[String]| matches!(files, [one, two] if one.ends_with("/.ssh/known_hosts") && two.ends_with("/.ssh/known_hosts2"));
        let known_hosts = if known.is_empty() || default(&known) {
            Vec::new()
        } else {
            let global =
                first("globalknownhostsfile").unwrap_or_else(|| "/etc/ssh/ssh_known_hosts".to_owned());
            known.iter().chain(&split(&global)).map(path).collect()
        };
        Self {
            user: first("user"),
            port: first("port").and_then(|port| port.parse().ok()),
            key_files,
            identities_only: first("identitiesonly").is_some_and(|value| value.eq_ignore_ascii_case("yes")),
            certificate_files: all("certificatefile")
                .iter()
                .filter(|file| *file != "none")
                .map(path)
                .collect(),
            known_hosts,
            host_key_alias: first("hostkeyalias"),
            proxy_jump: first("proxyjump"),
            proxy_command: first("proxycommand").map(|command| fill(&command)),
            host_name: name.filter(|name| name != host),
        }
    }
}

/// The answer of `ssh -G`; nothing where there is no ssh, or it does not like a file.
async fn ask(
    host: &str,
    user: Option<&str>,
    port: Option<u16>,
    files: &[&Utf8Path],
) -> Option<Vec<(String, String)>> {
    let mut command = Command::new("ssh");
    // Through its input: ssh looks for its own files where the password file says that home is, whatever $HOME says.
    command.args(["-F", "/dev/stdin", "-T", "-G"]);
    if let Some(port) = port {
        command.args(["-p", &port.to_string()]);
    }
    if let Some(user) = user.filter(|user| !user.is_empty()) {
        command.args(["-o", &format!("User={user}")]);
    }
    command.args(["--", host]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().ok()?;
    let mut input = child.stdin.take()?;
    let text: String = files.iter().map(|file| format!("Include \"{file}\"\n")).collect();
    let talk = async move {
        input.write_all(text.as_bytes()).await.ok()?;
        drop(input);
        child.wait_with_output().await.ok()
    };
    let output = timeout(LIMIT, talk).await.ok().flatten()?;
    if !output.status.success() {
        tracing::warn!(host, "ssh -G does not understand its configuration; converge reads it itself");
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pair =
        |line: &str| line.split_once(' ').map(|(key, value)| (key.to_owned(), value.trim().to_owned()));
    Some(text.lines().filter_map(pair).collect())
}

/// Reads configuration files for one host.
struct ConfigReader<'a> {
    host: &'a str,
    home: Option<&'a Utf8Path>,
    found: Vec<(String, String)>,
    /// A file says something that matters here, about this host or another.
    says: bool,
}

/// The options that matter here; all others stay between ssh and its user.
const MATTERS: [&str; 12] = [
    "hostname",
    "user",
    "port",
    "identityfile",
    "identitiesonly",
    "certificatefile",
    "userknownhostsfile",
    "globalknownhostsfile",
    "hostkeyalias",
    "proxyjump",
    "proxycommand",
    "match",
];

impl ConfigReader<'_> {
    /// Reads a file; whether its last block counts for the host ends with the file.
    fn read(&mut self, file: &Utf8Path, base: &Utf8Path, mut counts: bool, depth: usize) {
        let Ok(text) = std::fs::read_to_string(file) else { return };
        for line in text.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once([' ', '\t', '=']).unwrap_or((line, ""));
            let key = key.to_ascii_lowercase();
            let value = value.trim_start_matches([' ', '\t', '=']).trim();
            self.says |= MATTERS.contains(&key.as_str());
            match key.as_str() {
                "host" => counts = hits(&split(value), self.host),
                "match" => counts = value.eq_ignore_ascii_case("all"),
                // Read in any case: whether something matters shows only inside.
                "include" if depth < DEPTH => {
                    for pattern in split(value) {
                        for path in included(&pattern, base, self.home) {
                            self.read(&path, base, counts, depth + 1);
                        }
                    }
                }
                _ if counts && MATTERS.contains(&key.as_str()) => {
                    let whole = matches!(
                        key.as_str(),
                        "proxycommand" | "userknownhostsfile" | "globalknownhostsfile"
                    );
                    let value = if whole {
                        value.to_owned()
                    } else {
                        split(value).into_iter().next().unwrap_or_default()
                    };
                    self.found.push((key, value));
                }
                _ => {}
            }
        }
    }
}

/// Whether a list of patterns hits; one with `!` that hits wins over all others.
fn hits(patterns: &[String], host: &str) -> bool {
    let hit = |pattern: &str| glob(pattern.as_bytes(), host.as_bytes());
    let no = patterns.iter().filter_map(|pattern| pattern.strip_prefix('!')).any(hit);
    !no && patterns.iter().filter(|pattern| !pattern.starts_with('!')).any(|pattern| hit(pattern))
}

/// The files of an `Include`, sorted; wildcards count in the last part of the path.
fn included(pattern: &str, base: &Utf8Path, home: Option<&Utf8Path>) -> Vec<Utf8PathBuf> {
    let path = expand(Utf8Path::new(pattern), home);
    let path = if path.is_absolute() { path } else { base.join(path) };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    if !name.contains(['*', '?']) {
        return vec![path];
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|one| !one.starts_with('.') && glob(name.as_bytes(), one.as_bytes())).collect();
    names.sort();
    names.iter().map(|name| folder.join(name)).collect()
}

/// Words, those in double quotes with their blanks.
fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quoted, mut open) = (false, false);
    for c in text.chars() {
        match c {
            '"' => (quoted, open) = (!quoted, true),
            c if c.is_ascii_whitespace() && !quoted => {
                if open {
                    words.push(std::mem::take(&mut word));
                }
                open = false;
            }
            '#' if !open => break,
            c => {
                word.push(c);
                open = true;
            }
        }
    }
    if open {
        words.push(word);
    }
    words
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
