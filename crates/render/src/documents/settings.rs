//! The settings of a project, as `converge settings` finds them.

use super::*;

/// `converge settings --output json`: each setting with its value and its source.
#[derive(Serialize, JsonSchema)]
pub struct SettingsDocument {
    /// The document's format
    pub format: SettingsFormat,
    /// Its version
    pub version: One,
    /// The settings file
    pub file: Option<String>,
    /// The variable of the environment that named the file
    pub named_by: Option<String>,
    /// The settings
    pub settings: Vec<SettingEntry>,
    /// The settings read from `ansible.cfg`
    pub ansible: Option<AnsibleSettings>,
}

/// A setting.
#[derive(Serialize, JsonSchema)]
pub struct SettingEntry {
    /// Its name in the file
    pub name: String,
    /// Its value: a list where several are allowed; null where only the default is in force
    pub value: Value,
    /// The source of the value
    pub source: SettingSource,
    /// The place of the value: file, line and column, or the variable
    pub at: Option<String>,
    /// The default, in words
    pub default: String,
    /// The place of a value that was ignored, since others may write its file or folder
    pub ignored_at: Option<String>,
}

/// The source of a setting.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// The settings file
    File,
    /// A variable of the environment
    Environment,
    /// The default
    Default,
}

/// The settings that were read from `ansible.cfg`.
#[derive(Serialize, JsonSchema)]
pub struct AnsibleSettings {
    /// The file
    pub file: String,
    /// Variables that it gives to all hosts
    pub variables: Vec<AnsibleVariable>,
    /// Its keys that mean nothing here
    pub ignored: Vec<IgnoredKey>,
}

/// A variable that `ansible.cfg` gives to all hosts.
#[derive(Serialize, JsonSchema)]
pub struct AnsibleVariable {
    /// Its name
    pub name: String,
    /// Its value
    pub value: String,
    /// Its place: file, line and column
    pub at: String,
}

/// A key of `ansible.cfg` that means nothing here.
#[derive(Serialize, JsonSchema)]
pub struct IgnoredKey {
    /// Its name
    pub key: String,
    /// Its place: file, line and column
    pub at: String,
}
