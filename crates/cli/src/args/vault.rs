//! The options for encrypted values, and the arguments of `converge vault`.

use camino::Utf8PathBuf;
use clap::{Args, Subcommand};
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

/// `converge vault`
#[derive(Debug, Args)]
pub struct VaultCommandArgs {
    /// The action.
    #[command(subcommand)]
    pub action: VaultAction,
}

/// The action of `converge vault`.
#[derive(Debug, Subcommand)]
pub enum VaultAction {
    /// Encrypt files in place; without a file, standard input to standard output
    Encrypt(VaultWriteArgs),
    /// Encrypt one value, for a file of variables
    ///
    /// The value is asked for at a terminal, or read from standard input as it is, line ends included. It is no argument: those stand
    /// in the list of processes.
    EncryptString(VaultStringArgs),
    /// Decrypt files in place; without a file, standard input to standard output
    Decrypt(VaultReadArgs),
    /// Print what is in encrypted files
    View(VaultReadArgs),
    /// Edit an encrypted file with $VISUAL or $EDITOR; a file that is not there is made
    Edit(VaultEditArgs),
    /// Encrypt files anew with another password
    Rekey(VaultRekeyArgs),
}

/// `converge vault decrypt` and `view`
#[derive(Debug, Args)]
pub struct VaultReadArgs {
    /// The files [default: standard input]
    #[arg(value_name = "FILE")]
    pub files: Vec<Utf8PathBuf>,
    #[command(flatten)]
    pub vault: VaultArgs,
}

/// `converge vault encrypt`
#[derive(Debug, Args)]
pub struct VaultWriteArgs {
    /// The files [default: standard input]
    #[arg(value_name = "FILE")]
    pub files: Vec<Utf8PathBuf>,
    /// Which of several passwords encrypts
    #[arg(long, value_name = "ID")]
    pub encrypt_vault_id: Option<String>,
    #[command(flatten)]
    pub vault: VaultArgs,
}

/// `converge vault encrypt-string`
#[derive(Debug, Args)]
pub struct VaultStringArgs {
    /// The variable: prints `NAME: !vault |`
    #[arg(short, long)]
    pub name: Option<String>,
    /// Which of several passwords encrypts
    #[arg(long, value_name = "ID")]
    pub encrypt_vault_id: Option<String>,
    #[command(flatten)]
    pub vault: VaultArgs,
}

/// `converge vault edit`
#[derive(Debug, Args)]
pub struct VaultEditArgs {
    /// The file
    pub file: Utf8PathBuf,
    /// Which of several passwords encrypts a new file
    #[arg(long, value_name = "ID")]
    pub encrypt_vault_id: Option<String>,
    #[command(flatten)]
    pub vault: VaultArgs,
}

/// `converge vault rekey`
#[derive(Debug, Args)]
pub struct VaultRekeyArgs {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<Utf8PathBuf>,
    /// The new password [default: ask]
    #[arg(long, value_name = "FILE", conflicts_with = "new_vault_id")]
    pub new_vault_password_file: Option<Utf8PathBuf>,
    /// The new password with its name: ID@FILE or ID@prompt
    #[arg(long, value_name = "ID@SOURCE")]
    pub new_vault_id: Option<String>,
    #[command(flatten)]
    pub vault: VaultArgs,
}
