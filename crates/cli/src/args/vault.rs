//! The options for encrypted values.

use camino::Utf8PathBuf;
use clap::Args;
use serde::{Deserialize, Serialize};

/// The sources of passwords for encrypted values and files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultArgs {
    /// Read a vault password from this file, or from what it prints where it is executable. May be given several times
    /// [also: the variable ANSIBLE_VAULT_PASSWORD_FILE]
    #[arg(
        help_heading = "Encrypted values",
        id = "vault_password_files",
        long = "vault-password-file",
        alias = "vault-pass-file",
        value_name = "FILE"
    )]
    pub files: Vec<Utf8PathBuf>,
    /// A vault password with its name: ID@FILE or ID@prompt. May be given several times
    /// [also: the variable ANSIBLE_VAULT_IDENTITY_LIST]
    #[arg(help_heading = "Encrypted values", id = "vault_ids", long = "vault-id", value_name = "ID@SOURCE")]
    pub ids: Vec<String>,
    /// Ask for the vault password
    #[arg(
        help_heading = "Encrypted values",
        short = 'J',
        id = "ask_vault_pass",
        long = "ask-vault-pass",
        alias = "ask-vault-password"
    )]
    pub ask: bool,
}
