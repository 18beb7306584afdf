//! The connection of a host: the `ansible_*` variables of connections and of `become`.
//!
//! Facts: the options of `ansible/plugins/connection/ssh.py` and `ansible/plugins/become/sudo.py`. Where two names mean the
//! same, the later one in their lists wins, as in Ansible.

use std::cell::RefCell;

use converge_syntax::{Diagnostic, Diagnostics, Node, Span, Value, did_you_mean};
use secrecy::SecretString;

use super::ssh_args::{Hop, HostKeyChecking, SshOptions};

/// The transport of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionType {
    /// An SSH session.
    Ssh,
    /// Processes of this machine.
    Local,
}

/// The method of becoming another user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BecomeMethod {
    /// `sudo`
    Sudo,
    /// `su`
    Su,
    /// `doas`
    Doas,
}

/// Another user than the one who logs in.
#[derive(Debug, Clone)]
pub struct BecomeSettings {
    /// `ansible_become_method`, sudo by default.
    pub method: BecomeMethod,
    /// `ansible_become_user`, `root` by default.
    pub user: String,
    /// `ansible_become_password`.
    pub password: Option<SecretString>,
}

/// The endpoint of a host and the user there. Paths are as written: `~` is not expanded.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// SSH or this machine.
    pub transport: ConnectionType,
    /// Name or IP address, an IPv6 address without brackets: `ansible_host`, else the name of the host.
    pub address: String,
    /// `ansible_port`; `None` leaves it to the configuration of ssh, 22 by default.
    pub port: Option<u16>,
    /// `ansible_user`; `None` is the user who runs `converge`.
    pub user: Option<String>,
    /// `ansible_ssh_private_key_file` and `-i`, in the order in which they are tried.
    pub key_files: Vec<String>,
    /// `CertificateFile`
    pub certificate_files: Vec<String>,
    /// `ProxyJump`, the first hop first; `None` leaves it to the configuration of ssh, `Some` of nothing is `none`.
    pub jumps: Option<Vec<Hop>>,
    /// `converge_host_keys`: keys that count in place of known_hosts.
    pub host_keys: Vec<String>,
    /// Only `key_files`, no other key of the agent.
    pub identities_only: bool,
    /// `ansible_password`.
    pub password: Option<SecretString>,
    /// Another user for the work, where `ansible_become` is set.
    pub become_user: Option<BecomeSettings>,
    /// `ansible_host_key_checking` and `StrictHostKeyChecking`; `None` is the default, strict.
    pub host_key_checking: Option<HostKeyChecking>,
    /// `UserKnownHostsFile`; `None` is the default, an empty list is `/dev/null`.
    pub known_hosts: Option<Vec<String>>,
    /// The name under which the host key is looked up.
    pub host_key_alias: Option<String>,
    /// `ansible_ssh_timeout`, `ansible_timeout` or `ConnectTimeout`, in seconds.
    pub timeout: Option<u64>,
}

/// Reads variables, resolves their templates and collects diagnostics.
struct VariableReader<L, R> {
    lookup: L,
    resolve: R,
    found: RefCell<Diagnostics>,
}

impl<L, R> VariableReader<L, R>
where
    L: Fn(&str) -> Option<Node>,
    R: Fn(&Node) -> Result<Node, Diagnostics>,
{
    fn say(&self, diagnostic: Diagnostic) {
        self.found.borrow_mut().push(diagnostic);
    }

    /// The last of several names that has a value, resolved; null and empty text count as unset.
    fn get(&self, names: &[&str]) -> Option<(String, Node)> {
        let unset = |node: &Node| node.is_null() || node.as_str() == Some("");
        let (name, node) = names.iter().rev().find_map(|name| {
            let node = (self.lookup)(name)?;
            (!unset(&node)).then_some((*name, node))
        })?;
        match (self.resolve)(&node) {
            Ok(resolved) if unset(&resolved) => None,
            Ok(resolved) => Some((name.to_owned(), resolved)),
            Err(more) => {
                self.found.borrow_mut().extend(more);
                None
            }
        }
    }

    fn wrong(&self, name: &str, node: &Node, expected: &str) {
        self.say(
            Diagnostic::error(
                "wrong-type",
                format!("`{name}` must be {expected}, this is {}", node.value.kind()),
            )
            .at(&node.span),
        );
    }

    fn text(&self, names: &[&str]) -> Option<(String, Span)> {
        let (name, node) = self.get(names)?;
        match node.value {
            Value::List(_) | Value::Map(_) | Value::Bool(_) => {
                self.wrong(&name, &node, "a string");
                None
            }
            _ => node.scalar_text().map(|text| (text, node.span)),
        }
    }

    fn secret(&self, names: &[&str]) -> Option<SecretString> {
        self.text(names).map(|(text, _)| SecretString::from(text))
    }

    fn whole<T: TryFrom<i64>>(&self, names: &[&str], expected: &str) -> Option<T> {
        let (name, node) = self.get(names)?;
        let number = match &node.value {
            Value::Int(n) => Some(*n),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let value = number.filter(|n| *n >= 0).and_then(|n| T::try_from(n).ok());
        if value.is_none() {
            let shown = node.scalar_text().unwrap_or_else(|| node.value.kind().to_owned());
            self.say(
                Diagnostic::error("wrong-type", format!("`{name}` must be {expected}, this is `{shown}`"))
                    .at(&node.span),
            );
        }
        value
    }

    /// Reads a boolean as Ansible does.
    fn truth(&self, names: &[&str]) -> Option<bool> {
        let (name, node) = self.get(names)?;
        let text = node.scalar_text().unwrap_or_default().to_ascii_lowercase();
        match text.as_str() {
            "true" | "yes" | "y" | "on" | "t" | "1" | "1.0" => Some(true),
            "false" | "no" | "n" | "off" | "f" | "0" | "0.0" => Some(false),
            _ => {
                self.wrong(&name, &node, "true or false");
                None
            }
        }
    }
}

impl ConnectionSettings {
    /// A host of which the inventory says nothing, reached by SSH at this address.
    #[must_use]
    pub fn plain(address: &str) -> Self {
        Self {
            transport: ConnectionType::Ssh,
            address: address.to_owned(),
            port: None,
            user: None,
            key_files: Vec::new(),
            certificate_files: Vec::new(),
            jumps: None,
            host_keys: Vec::new(),
            identities_only: false,
            password: None,
            become_user: None,
            host_key_checking: None,
            known_hosts: None,
            host_key_alias: None,
            timeout: None,
        }
    }

    /// Reads how the host `name` is reached. `lookup` gives the winning value of a variable as it is written, `resolve`
    /// renders its templates. The second value holds warnings.
    ///
    /// # Errors
    /// Values of the wrong type, connections and `become` methods that are not supported, and
    /// whatever `resolve` complains about: all of them.
    pub fn resolve(
        name: &str,
        lookup: impl Fn(&str) -> Option<Node>,
        resolve: impl Fn(&Node) -> Result<Node, Diagnostics>,
    ) -> Result<(Self, Diagnostics), Diagnostics> {
        let reader = VariableReader { lookup, resolve, found: RefCell::default() };
        let transport = transport(&reader);
        // ssh takes the first of two options: `ssh_args` stand before the variables, the others behind them.
        let mut first = SshOptions::default();
        let mut last = SshOptions::default();
        for (variable, is_first) in [
            ("ansible_ssh_args", true),
            ("ansible_ssh_common_args", false),
            ("ansible_ssh_extra_args", false),
        ] {
            if let Some((text, at)) = reader.text(&[variable]) {
                let options = if is_first { &mut first } else { &mut last };
                options.add(variable, &text, &at, &mut reader.found.borrow_mut());
            }
        }
        for variable in ["ansible_ssh_private_key", "ansible_private_key", "ansible_ssh_pkcs11_provider"] {
            if let Some((variable, node)) = reader.get(&[variable]) {
                reader.say(
                    Diagnostic::error("unsupported", format!("`{variable}` is not supported"))
                        .at(&node.span.first_line())
                        .help("save the key in a file and name it in ansible_ssh_private_key_file, or use the agent"),
                );
            }
        }
        let address = reader
            .text(&["ansible_host", "ansible_ssh_host"])
            .map_or_else(|| name.to_owned(), |(text, _)| text);
        let address = address
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .map(str::to_owned)
            .unwrap_or(address);
        let port: Option<u16> =
            reader.whole(&["ansible_port", "ansible_ssh_port"], "a number from 1 to 65535");
        let user = reader.text(&["ansible_user", "ansible_ssh_user"]).map(|(text, _)| text);
        let key =
            reader.text(&["ansible_private_key_file", "ansible_ssh_private_key_file"]).map(|(text, _)| text);
        let timeout = reader.whole(&["ansible_timeout", "ansible_ssh_timeout"], "whole seconds");
        let checking = reader.truth(&["ansible_host_key_checking", "ansible_ssh_host_key_checking"]);
        // As in Ansible, `false` turns the check off and `true` says nothing.
        let checking = checking.filter(|checking| !checking).map(|_| HostKeyChecking::Off);
        let password = reader.secret(&["ansible_password", "ansible_ssh_pass", "ansible_ssh_password"]);
        let become_user = become_of(&reader);
        let mut key_files = first.identity_files;
        key_files.extend(key);
        key_files.extend(last.identity_files);
        let mut certificate_files = first.certificate_files;
        certificate_files.extend(last.certificate_files);
        let connection = Self {
            certificate_files,
            jumps: first.jumps.or(last.jumps),
            host_keys: host_keys(&reader),
            transport,
            address,
            port: first.port.or(port.filter(|port| *port != 0)).or(last.port),
            user: first.user.or(user).or(last.user),
            key_files,
            identities_only: first.identities_only.or(last.identities_only).unwrap_or(false),
            password,
            become_user,
            host_key_checking: first.host_key_checking.or(checking).or(last.host_key_checking),
            known_hosts: first.known_hosts.or(last.known_hosts),
            host_key_alias: first.host_key_alias.or(last.host_key_alias),
            timeout: first.timeout.or(timeout).or(last.timeout),
        };
        let found = reader.found.into_inner();
        if found.has_errors() { Err(found) } else { Ok((connection, found)) }
    }
}

/// The variables of a connection by their usual names, for what sets one that no inventory has yet.
pub(crate) const CONNECTION_VARIABLES: [&str; 17] = [
    "ansible_host",
    "ansible_port",
    "ansible_user",
    "ansible_password",
    "ansible_connection",
    "ansible_ssh_private_key_file",
    "ansible_timeout",
    "ansible_become",
    "ansible_become_user",
    "ansible_become_method",
    "ansible_become_password",
    "ansible_host_key_checking",
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
    "converge_host_keys",
    "maintenance",
];

fn transport<L, R>(reader: &VariableReader<L, R>) -> ConnectionType
where
    L: Fn(&str) -> Option<Node>,
    R: Fn(&Node) -> Result<Node, Diagnostics>,
{
    let Some((text, at)) = reader.text(&["ansible_connection"]) else {
        return ConnectionType::Ssh;
    };
    match text.strip_prefix("ansible.builtin.").unwrap_or(&text) {
        "ssh" | "smart" | "paramiko" | "paramiko_ssh" => {}
        "local" => return ConnectionType::Local,
        other => reader.say(
            Diagnostic::error("unsupported", format!("the connection `{other}` is not supported"))
                .label(&at, "asked for here")
                .help("write ssh or local"),
        ),
    }
    ConnectionType::Ssh
}

/// `converge_host_keys`: one key or a list, each `TYPE KEY` or `@cert-authority TYPE KEY`.
fn host_keys<L, R>(reader: &VariableReader<L, R>) -> Vec<String>
where
    L: Fn(&str) -> Option<Node>,
    R: Fn(&Node) -> Result<Node, Diagnostics>,
{
    let Some((name, node)) = reader.get(&["converge_host_keys"]) else { return Vec::new() };
    let nodes: Vec<&Node> = match &node.value {
        Value::List(items) => items.iter().collect(),
        _ => vec![&node],
    };
    let sound = |text: &str| {
        let rest = text.trim().strip_prefix("@cert-authority").unwrap_or(text);
        let mut words = rest.split_ascii_whitespace();
        let kinds = ["ssh-ed25519", "ssh-rsa", "ecdsa-sha2-", "sk-"];
        let kind = words.next().is_some_and(|kind| kinds.iter().any(|known| kind.starts_with(known)));
        kind && words.next().is_some_and(|key| key.starts_with("AAAA"))
    };
    let mut keys = Vec::new();
    for one in nodes {
        match one.as_str().filter(|text| sound(text)) {
            Some(text) => keys.push(text.trim().to_owned()),
            None => reader.say(
                Diagnostic::error("wrong-type", format!("`{name}` must hold host keys"))
                    .at(&one.span)
                    .help("write `ssh-ed25519 AAAA…` as in /etc/ssh/ssh_host_ed25519_key.pub, or `@cert-authority ssh-ed25519 AAAA…`"),
            ),
        }
    }
    keys
}

fn become_of<L, R>(reader: &VariableReader<L, R>) -> Option<BecomeSettings>
where
    L: Fn(&str) -> Option<Node>,
    R: Fn(&Node) -> Result<Node, Diagnostics>,
{
    if !reader.truth(&["ansible_become"]).unwrap_or(false) {
        return None;
    }
    let mut how = BecomeMethod::Sudo;
    if let Some((method, at)) = reader.text(&["ansible_become_method"]) {
        let name =
            method.strip_prefix("ansible.builtin.").or_else(|| method.strip_prefix("community.general."));
        match name.unwrap_or(&method) {
            "sudo" => {}
            "su" => how = BecomeMethod::Su,
            "doas" => how = BecomeMethod::Doas,
            _ => reader.say(
                Diagnostic::error(
                    "unsupported",
                    format!("`ansible_become_method: {method}` is not supported"),
                )
                .at(&at)
                .help(match did_you_mean(&method, ["sudo", "su", "doas"]) {
                    Some(near) => format!("did you mean `{near}`? There are sudo, su and doas"),
                    None => "write sudo, su or doas, or log in as the user that does the work".to_owned(),
                }),
            ),
        }
    }
    // The names of a method's own variables come later in Ansible's lists, and win.
    let (own_users, own_passwords): ([&str; 2], [&str; 3]) = match how {
        BecomeMethod::Sudo => (
            ["ansible_become_user", "ansible_sudo_user"],
            ["ansible_become_password", "ansible_become_pass", "ansible_sudo_pass"],
        ),
        BecomeMethod::Su => (
            ["ansible_become_user", "ansible_su_user"],
            ["ansible_become_password", "ansible_become_pass", "ansible_su_pass"],
        ),
        BecomeMethod::Doas => (
            ["ansible_become_user", "ansible_doas_user"],
            ["ansible_become_password", "ansible_become_pass", "ansible_doas_pass"],
        ),
    };
    for variable in [
        "ansible_become_exe",
        "ansible_sudo_exe",
        "ansible_su_exe",
        "ansible_doas_exe",
        "ansible_become_flags",
        "ansible_sudo_flags",
        "ansible_su_flags",
        "ansible_doas_flags",
    ] {
        if let Some((variable, node)) = reader.get(&[variable]) {
            let harmless = match node.as_str() {
                Some(text) if variable.ends_with("_exe") => matches!(text, "sudo" | "su" | "doas"),
                Some(text) => text.split_whitespace().all(|flag| matches!(flag, "-H" | "-S" | "-n")),
                None => false,
            };
            if !harmless {
                reader.say(
                    Diagnostic::warning(
                        "unsupported",
                        format!("`{variable}` is not supported; it is ignored"),
                    )
                    .at(&node.span)
                    .help("sudo, su and doas are run as they are found in PATH, with the flags that converge needs"),
                );
            }
        }
    }
    Some(BecomeSettings {
        method: how,
        user: reader.text(&own_users).map_or_else(|| "root".to_owned(), |(text, _)| text),
        password: reader.secret(&own_passwords),
    })
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
