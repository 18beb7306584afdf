//! The settings there are: one table for the file, the environment, the schema and the reference page.

use crate::args::{FORKS, VaultArgs};
use camino::{Utf8Path, Utf8PathBuf};

/// The name of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// The inventories.
    Inventory,
    /// The playbook.
    Playbook,
    /// More folders with roles.
    RolesPath,
    /// Sources of vault passwords.
    VaultIds,
    /// The number of hosts at once.
    Forks,
    /// The user to log in as.
    User,
    /// The folder for the pages of runs.
    Reports,
}

/// The values that a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Paths, or names of hosts with commas.
    Inventories,
    /// One path.
    Path,
    /// Folders.
    Paths,
    /// `ID@SOURCE`.
    VaultIds,
    /// A name of a user.
    User,
    /// A number of hosts.
    Number,
}

/// A setting.
pub struct SettingKey {
    /// Its name in code.
    pub name: Name,
    /// Its key in the file.
    pub key: &'static str,
    /// The values that it takes.
    pub form: Form,
    /// The option that takes its place.
    pub option: &'static str,
    /// Its purpose.
    pub help: &'static str,
    /// A value as it is written in the file.
    pub example: &'static str,
    /// The behaviour without it.
    pub default: &'static str,
    /// It decides which programs run or which files are written: it counts only from a file that nobody else may write.
    pub needs_trust: bool,
}

/// All settings, in the order of the pages.
pub static KEYS: [SettingKey; 7] = [
    SettingKey {
        name: Name::Inventory,
        key: "inventory",
        form: Form::Inventories,
        option: "INVENTORY, -i",
        help: "The inventory: a file, a folder, or host names with commas; several as a list",
        example: "\"inventories/prod.yaml\"",
        default: "none: the command names one",
        needs_trust: true,
    },
    SettingKey {
        name: Name::Playbook,
        key: "playbook",
        form: Form::Path,
        option: "--playbook",
        help: "The playbook, for every inventory of the project",
        example: "\"playbooks/site.yaml\"",
        default: "the inventory's variable converge_playbook, else playbooks/site.yaml",
        needs_trust: true,
    },
    SettingKey {
        name: Name::RolesPath,
        key: "roles_path",
        form: Form::Paths,
        option: "--roles-path",
        help: "A folder, or a list of them, in which roles are searched after roles/ beside the playbook and beside its folder",
        example: "[\"shared/roles\"]",
        default: "none",
        needs_trust: true,
    },
    SettingKey {
        name: Name::VaultIds,
        key: "vault_ids",
        form: Form::VaultIds,
        option: "--vault-id, --vault-password-file, -J",
        help: "A vault password, or a list of them: ID@FILE, ID@prompt, or a file; the output of a file that is executable",
        example: "[\"prod@~/.vault-prod\"]",
        default: "none",
        needs_trust: true,
    },
    SettingKey {
        name: Name::Forks,
        key: "forks",
        form: Form::Number,
        option: "-f, --forks",
        help: "The number of hosts that are worked on at once, from 1 to 1000",
        example: "50",
        default: "20",
        needs_trust: false,
    },
    SettingKey {
        name: Name::User,
        key: "user",
        form: Form::User,
        option: "-u, --user",
        help: "The user to log in as, where the inventory sets no ansible_user",
        example: "\"deploy\"",
        default: "that of ~/.ssh/config, else the user who runs converge",
        needs_trust: false,
    },
    SettingKey {
        name: Name::Reports,
        key: "reports",
        form: Form::Path,
        option: "--report",
        help: "The folder in which each apply and each rollback writes its page, RUN.html",
        example: "\"reports\"",
        default: "none: no page is written",
        needs_trust: true,
    },
];

impl SettingKey {
    /// The environment variable of the same name.
    pub fn variable(&self) -> String {
        format!("CONVERGE_{}", self.key.to_uppercase())
    }

    /// Whether several values are allowed.
    pub fn is_list(&self) -> bool {
        matches!(self.form, Form::Inventories | Form::Paths | Form::VaultIds)
    }
}

impl Form {
    /// The values that are allowed, as a noun with its article.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Inventories => "a path, names of hosts with commas, or a list of these",
            Self::Path => "a path",
            Self::Paths => "a folder or a list of folders",
            Self::VaultIds => "ID@FILE, ID@prompt, a file, or a list of these",
            Self::User => "the name of a user",
            Self::Number => "an integer from 1 to 1000",
        }
    }

    /// The mistake in a text of this form.
    pub fn mistake(self, text: &str) -> Option<&'static str> {
        let odd = |c: char| c.is_control();
        match self {
            _ if text.is_empty() => Some("it is empty"),
            _ if text.contains(odd) => Some("it has a control character in it"),
            Self::User if text.starts_with('-') || text.contains(char::is_whitespace) => {
                Some("it is not a valid name of a user")
            }
            Self::VaultIds if text.ends_with('@') => Some("no file stands behind the `@`"),
            _ => None,
        }
    }
}

/// A checked value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// One text or several.
    Texts(Vec<String>),
    /// A number of hosts.
    Forks(u16),
}

impl SettingValue {
    /// The number, where it is one that may be.
    pub fn forks(number: i64) -> Option<Self> {
        u16::try_from(number).ok().filter(|_| FORKS.contains(&number)).map(Self::Forks)
    }

    /// The same with paths that are relative to this folder, where the value is made of paths. `~/` is the home folder.
    pub fn below(self, form: Form, folder: &Utf8Path) -> Self {
        let Self::Texts(texts) = self else { return self };
        if form == Form::VaultIds && !folder.as_str().is_empty() {
            return Self::Texts(VaultArgs { ids: texts, ..VaultArgs::default() }.relative_to(folder).ids);
        }
        let path = |text: &str| {
            let path = converge_store::from_home(Utf8Path::new(text));
            if folder.as_str().is_empty() { path } else { folder.join(path) }.into_string()
        };
        let placed = |text: String| match form {
            // A list of hosts is not a path.
            Form::Inventories if text.contains(',') => text,
            Form::Inventories | Form::Path | Form::Paths => path(&text),
            Form::VaultIds | Form::User | Form::Number => text,
        };
        Self::Texts(texts.into_iter().map(placed).collect())
    }

    /// The texts; none of a number.
    pub fn texts(&self) -> &[String] {
        match self {
            Self::Texts(texts) => texts,
            Self::Forks(_) => &[],
        }
    }

    /// The texts as paths.
    pub fn paths(&self) -> Vec<Utf8PathBuf> {
        self.texts().iter().map(Utf8PathBuf::from).collect()
    }

    /// As JSON: a list where several are allowed.
    pub fn json(&self, key: &SettingKey) -> serde_json::Value {
        match self {
            Self::Texts(texts) if key.is_list() => texts.clone().into(),
            Self::Texts(texts) => texts.first().cloned().into(),
            Self::Forks(number) => (*number).into(),
        }
    }

    /// The message for the user.
    pub fn shown(&self) -> String {
        match self {
            Self::Texts(texts) => texts.join("  "),
            Self::Forks(number) => number.to_string(),
        }
    }
}
