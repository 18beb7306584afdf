//! `ansible.cfg`, as far as it is about the inventory and the connection: its text to settings and variables. No I/O.

use super::file::WrittenSetting;
use super::keys::{Name, SettingValue};
use camino::Utf8Path;
use converge_syntax::{Diagnostic, Diagnostics, Source, Span};
use std::sync::Arc;

/// The name of the file.
pub const ANSIBLE_FILE: &str = "ansible.cfg";
/// The variable that names it.
pub const ANSIBLE_VARIABLE: &str = "ANSIBLE_CONFIG";

/// A variable of the connection, below all that an inventory sets.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionDefault {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// The place.
    pub at: Span,
}

/// The settings of such a file.
#[derive(Debug, Default)]
pub struct AnsibleCfg {
    /// Settings; paths are relative to the folder of the file.
    pub settings: Vec<WrittenSetting>,
    /// Variables of connections.
    pub variables: Vec<ConnectionDefault>,
    /// Keys about connections that mean nothing here.
    pub ignored: Vec<(String, Span)>,
}

/// Keys that are settings here: the section, the key, the setting, and the sign between several values.
const SETTINGS: [(&str, &str, Name, Option<char>); 6] = [
    ("defaults", "inventory", Name::Inventory, Some(',')),
    ("defaults", "remote_user", Name::User, None),
    ("defaults", "forks", Name::Forks, None),
    ("defaults", "roles_path", Name::RolesPath, Some(':')),
    ("defaults", "vault_password_file", Name::VaultIds, None),
    ("defaults", "vault_identity_list", Name::VaultIds, Some(',')),
];

/// Keys that are variables here.
const VARIABLES: [(&str, &str, &str); 10] = [
    ("defaults", "private_key_file", "ansible_ssh_private_key_file"),
    ("defaults", "remote_port", "ansible_port"),
    ("defaults", "timeout", "ansible_timeout"),
    ("defaults", "host_key_checking", "ansible_host_key_checking"),
    ("privilege_escalation", "become", "ansible_become"),
    ("privilege_escalation", "become_user", "ansible_become_user"),
    ("privilege_escalation", "become_method", "ansible_become_method"),
    ("ssh_connection", "ssh_args", "ansible_ssh_args"),
    ("ssh_connection", "ssh_common_args", "ansible_ssh_common_args"),
    ("ssh_connection", "ssh_extra_args", "ansible_ssh_extra_args"),
];

/// Sections that are about connections as a whole, and keys of others that are.
const OF_CONNECTIONS: [&str; 4] =
    ["privilege_escalation", "ssh_connection", "connection", "persistent_connection"];
const OTHERS: [&str; 5] =
    ["transport", "ask_pass", "ask_vault_pass", "connection_password_file", "module_path"];

/// A line of the file: the section, the key, the value and the place of the key.
struct CfgEntry {
    section: String,
    key: String,
    value: String,
    at: Span,
}

/// Reads the text of the file, which stands in this folder.
///
/// # Errors
/// Lines that are none of such a file, and values that cannot be: all of them.
pub fn read(source: &Arc<Source>, folder: &Utf8Path) -> Result<AnsibleCfg, Diagnostics> {
    let mut found = Diagnostics::new();
    let mut all = AnsibleCfg::default();
    for entry in entries(source, &mut found) {
        let is = |section: &str, key: &str| entry.section == section && entry.key == key;
        let is_known_later = entry.value.contains(['$', '{']);
        let setting = SETTINGS.iter().find(|(section, key, ..)| is(section, key));
        let variable = VARIABLES.iter().find(|(section, key, _)| is(section, key));
        if entry.value.is_empty() {
            continue;
        }
        if is_known_later && (setting.is_some() || variable.is_some()) {
            all.ignored.push((entry.key, entry.at));
        } else if let Some((_, _, name, sign)) = setting {
            match value(*name, &entry.value, *sign) {
                Some(value) => {
                    // A file with a vault password counts beside a list of them.
                    let same = all.settings.iter_mut().find(|one| one.name == *name);
                    match (same.map(|one| &mut one.value), value) {
                        (Some(SettingValue::Texts(all)), SettingValue::Texts(more)) => all.extend(more),
                        (Some(_), _) => {}
                        (None, value) => {
                            all.settings.push(WrittenSetting { name: *name, value, at: entry.at });
                        }
                    }
                }
                None => found.push(
                    Diagnostic::error(
                        "wrong-type",
                        format!(
                            "`{}` must be {}, and it is `{}`",
                            entry.key,
                            super::key(*name).form.expected(),
                            entry.value
                        ),
                    )
                    .at(&entry.at)
                    .help(format!("correct it in {}", source.name())),
                ),
            }
        } else if let Some((_, _, name)) = variable {
            let value = if *name == "ansible_ssh_private_key_file" {
                folder.join(converge_store::from_home(Utf8Path::new(&entry.value))).into_string()
            } else {
                entry.value
            };
            all.variables.push(ConnectionDefault { name, value, at: entry.at });
        } else if OF_CONNECTIONS.contains(&entry.section.as_str())
            || entry.section == "defaults" && OTHERS.contains(&entry.key.as_str())
        {
            all.ignored.push((entry.key, entry.at));
        }
    }
    found.or_value(all)
}

/// The value of a setting; none where it cannot be this.
fn value(name: Name, text: &str, sign: Option<char>) -> Option<SettingValue> {
    let form = super::key(name).form;
    if name == Name::Forks {
        return text.parse().ok().and_then(SettingValue::forks);
    }
    let texts: Vec<String> = match sign {
        // Names of hosts with a comma behind them are one inventory.
        Some(sign) if !text.ends_with(',') => {
            text.split(sign).map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
        }
        _ => vec![text.to_owned()],
    };
    if texts.is_empty() || texts.iter().any(|one| form.mistake(one).is_some()) {
        return None;
    }
    Some(SettingValue::Texts(texts))
}

/// The entries, as Python's `configparser` takes them apart.
fn entries(source: &Arc<Source>, found: &mut Diagnostics) -> Vec<CfgEntry> {
    let mut all: Vec<CfgEntry> = Vec::new();
    let mut section = String::new();
    let mut start = 0;
    for line in source.text().split_inclusive('\n') {
        let at = start + (line.len() - line.trim_start().len());
        start += line.len();
        let text = line.trim();
        let span = Span::new(source.clone(), at, at + text.len());
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        // A semicolon begins a remark.
        let text = text.split(" ;").next().unwrap_or(text).trim_end();
        if let Some(name) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            name.trim().clone_into(&mut section);
            continue;
        }
        let is_more = line.starts_with([' ', '\t']);
        if let Some(last) = all.last_mut().filter(|last| is_more && last.section == section) {
            last.value = format!("{} {text}", last.value).trim().to_owned();
            continue;
        }
        match text.split_once(['=', ':']) {
            Some((key, value)) if !section.is_empty() => all.push(CfgEntry {
                section: section.clone(),
                key: key.trim().to_lowercase(),
                value: value.trim().trim_matches(['"', '\'']).to_owned(),
                at: span,
            }),
            _ => found.push(
                Diagnostic::error("syntax", "this line is neither `[section]` nor `key = value` below one")
                    .at(&span)
                    .help("correct it, or take it out"),
            ),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<AnsibleCfg, Vec<String>> {
        read(&Source::new("ansible.cfg", text), "etc".into())
            .map_err(|found| found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_is_about_connections_is_read_or_named() {
        let text = "# remark\n[defaults]\ninventory = a.yaml, b ; two\nRemote_User: deploy\nforks=7\nroles_path = x:~/y\n\
            vault_password_file = key\nprivate_key_file = keys/id\nstdout_callback = yaml\ntransport = paramiko\n\
            [privilege_escalation]\nbecome = True\nbecome_ask_pass = False\n[ssh_connection]\nssh_args = -o A=1\n  -o B=2\n\
            pipelining = True\nssh_extra_args =\n[galaxy]\nserver = x\n";
        let all = parsed(text).unwrap();
        let settings: Vec<(Name, String)> =
            all.settings.iter().map(|one| (one.name, one.value.shown())).collect();
        let wanted = [
            (Name::Inventory, "a.yaml  b"),
            (Name::User, "deploy"),
            (Name::Forks, "7"),
            (Name::RolesPath, "x  ~/y"),
            (Name::VaultIds, "key"),
        ];
        assert_eq!(settings, wanted.map(|(name, text)| (name, text.to_owned())));
        let variables: Vec<(&str, &str)> =
            all.variables.iter().map(|one| (one.name, one.value.as_str())).collect();
        assert_eq!(
            variables,
            [
                ("ansible_ssh_private_key_file", "etc/keys/id"),
                ("ansible_become", "True"),
                ("ansible_ssh_args", "-o A=1 -o B=2")
            ]
        );
        let ignored: Vec<(&str, String)> =
            all.ignored.iter().map(|(key, at)| (key.as_str(), at.to_string())).collect();
        assert_eq!(
            ignored,
            [
                ("transport", "ansible.cfg:10:1".to_owned()),
                ("become_ask_pass", "ansible.cfg:13:1".to_owned()),
                ("pipelining", "ansible.cfg:17:1".to_owned())
            ]
        );
    }

    #[test]
    fn values_of_one_key_and_of_the_environment() {
        let all = parsed(
            "[defaults]\ninventory = h1,h2,\nvault_password_file = a\nvault_identity_list = x@b, y@c\n",
        )
        .unwrap();
        let shown: Vec<String> = all.settings.iter().map(|one| one.value.shown()).collect();
        assert_eq!(shown, ["h1,h2,", "a  x@b  y@c"]);
        let all =
            parsed("[defaults]\nvault_identity_list = x@b\nvault_password_file = a\nroles_path = $HOME/x\n")
                .unwrap();
        assert_eq!(all.settings.len(), 1);
        assert_eq!(all.settings[0].value.shown(), "x@b  a");
        assert_eq!(all.ignored.len(), 1);
    }

    #[test]
    fn mistakes_have_a_place() {
        let found = parsed("forks = 1\n[defaults]\nforks = many\nremote_user = a b\nnothing\n").unwrap_err();
        assert_eq!(found.len(), 4, "{found:#?}");
        for (found, place) in found.iter().zip([":1:1", ":5:1", ":3:1", ":4:1"]) {
            assert!(found.contains(&format!("ansible.cfg{place}")), "{found}");
        }
    }
}
