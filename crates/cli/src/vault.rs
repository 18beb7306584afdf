//! Vault passwords: files, scripts and questions, as Ansible takes them.
//!
//! Facts: `setup_vault_secrets` in `ansible/cli/__init__.py`, the classes of secrets in `ansible/parsing/vault/__init__.py`.

use crate::args::VaultArgs;
use crate::failure::Failure;
use crate::prompt;
use camino::{Utf8Path, Utf8PathBuf};
use converge_model::vault::{DEFAULT_ID, Vault, VaultSecret, is_vault};
use secrecy::ExposeSecret;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// The name of a password and its source.
fn split(text: &str) -> (&str, &str) {
    match text.split_once('@') {
        Some((id, source)) if !id.is_empty() => (id, source),
        Some((_, source)) => (DEFAULT_ID, source),
        None => (DEFAULT_ID, text),
    }
}

/// The source in `ID@SOURCE`.
pub fn source(text: &str) -> &str {
    split(text).1
}

impl VaultArgs {
    /// Reads and asks for all passwords, in Ansible's order: those with names first. `new` asks twice.
    pub fn secrets(&self, new: bool) -> Result<Vec<VaultSecret>, Failure> {
        let listed = std::env::var("ANSIBLE_VAULT_IDENTITY_LIST").unwrap_or_default();
        let listed = listed.split(',').map(str::trim).filter(|id| !id.is_empty());
        let file = std::env::var("ANSIBLE_VAULT_PASSWORD_FILE").ok().filter(|file| !file.is_empty());
        let mut sources: Vec<(&str, &str)> =
            listed.chain(self.ids.iter().map(String::as_str)).map(split).collect();
        sources.extend(self.files.iter().map(|file| (DEFAULT_ID, file.as_str())));
        sources.extend(file.iter().map(|file| (DEFAULT_ID, file.as_str())));
        if self.ask {
            sources.push((DEFAULT_ID, "prompt"));
        }
        sources.into_iter().map(|(id, source)| secret(id, source, new)).collect()
    }

    /// The passwords for reading.
    pub fn vault(&self) -> Result<Vault, Failure> {
        Ok(Vault::new(self.secrets(false)?))
    }

    /// The passwords for reading; asks for one where none is given.
    pub fn vault_or_ask(&self) -> Result<Vault, Failure> {
        let mut secrets = self.secrets(false)?;
        if secrets.is_empty() {
            secrets.push(secret(DEFAULT_ID, "prompt", false)?);
        }
        Ok(Vault::new(secrets))
    }

    /// The password that encrypts: the only one, or the one of this name; asks where none is given.
    pub fn encrypting(&self, id: Option<&str>) -> Result<VaultSecret, Failure> {
        let mut secrets = self.secrets(true)?;
        if secrets.is_empty() && id.is_none() {
            return secret(DEFAULT_ID, "prompt", true);
        }
        let names: Vec<String> = secrets.iter().map(|secret| secret.id().to_owned()).collect();
        let at = match id {
            Some(id) => names.iter().position(|name| name == id),
            None => (secrets.len() == 1).then_some(0),
        };
        match (at, id) {
            (Some(at), _) => Ok(secrets.swap_remove(at)),
            (None, Some(id)) => Err(Failure::usage(
                format!("there is no vault password of the name `{id}`; given are: {}", names.join(", ")),
                format!("give it: --vault-id {id}@FILE"),
            )),
            (None, None) => Err(Failure::usage(
                format!("several vault passwords are given: {}", names.join(", ")),
                "say which one encrypts: --encrypt-vault-id ID",
            )),
        }
    }

    /// The same with paths that mean the same from another folder.
    pub fn relative_to(self, folder: &Utf8Path) -> Self {
        let from = |text: &str| match split(text) {
            (_, "prompt" | "prompt_ask_vault_pass") => text.to_owned(),
            // Of the user's home folder, wherever the command is.
            (_, file) if file.starts_with("~/") => text.to_owned(),
            (id, file) => format!("{id}@{}", folder.join(file)),
        };
        Self {
            files: self.files.iter().map(|file| from_home_or(folder, file)).collect(),
            ids: self.ids.iter().map(|id| from(id)).collect(),
            ask: self.ask,
        }
    }
}

/// One password, from a file, a script or a question.
pub fn secret(id: &str, source: &str, new: bool) -> Result<VaultSecret, Failure> {
    if id.contains([';', '\n']) {
        let help = "write it without `;` and line ends";
        return Err(Failure::usage(format!("`{id}` cannot be the name of a vault password"), help));
    }
    let password = match source {
        "prompt" | "prompt_ask_vault_pass" => asked(id, new)?,
        file => from_file(id, Utf8Path::new(file))?,
    };
    if password.is_empty() {
        let what = if source == "prompt" { "what was typed".to_owned() } else { format!("`{source}`") };
        return Err(Failure::usage(
            format!("{what} is empty, and a vault password is not"),
            "give the password",
        ));
    }
    Ok(VaultSecret::new(id, password))
}

fn asked(id: &str, new: bool) -> Result<Vec<u8>, Failure> {
    let name = if id == DEFAULT_ID { String::new() } else { format!(" ({id})") };
    let ask = |lead: &str| {
        prompt::read_hidden(&format!("{lead}{name}: ")).map_err(|e| {
            Failure::refused(
                format!("there is no terminal to ask for the vault password at ({e})"),
                format!("use --vault-password-file FILE or --vault-id {id}@FILE"),
            )
        })
    };
    let first = ask(if new { "New vault password" } else { "Vault password" })?;
    if new && ask("Confirm new vault password")?.expose_secret() != first.expose_secret() {
        return Err(Failure::refused(
            "the two passwords differ; nothing was changed",
            "type the same one twice",
        ));
    }
    Ok(first.expose_secret().trim().as_bytes().to_vec())
}

fn from_file(id: &str, path: &Utf8Path) -> Result<Vec<u8>, Failure> {
    // `--vault-id prod@~/key` comes past the shell.
    let path = &converge_store::from_home(path);
    let wrong = |e: std::io::Error| {
        Failure::usage(format!("the vault password for `{id}`: {e}"), "name a file that can be read")
    };
    let meta = fs_err::metadata(path).map_err(wrong)?;
    if meta.is_dir() {
        return Err(Failure::usage(
            format!("{path} is a folder, not a vault password file"),
            "name a file in it",
        ));
    }
    if meta.permissions().mode() & 0o111 != 0 {
        return from_script(id, path);
    }
    let bytes = fs_err::read(path).map_err(wrong)?;
    if is_vault(&bytes) {
        return Err(Failure::usage(
            format!("{path} is itself encrypted, and a vault password is read as it stands"),
            "decrypt it, or use an executable script that prints the password",
        ));
    }
    Ok(bytes.trim_ascii().to_vec())
}

/// A path of this folder, or of the user's home folder where it says so.
fn from_home_or(folder: &Utf8Path, file: &Utf8Path) -> Utf8PathBuf {
    if file.starts_with("~") { file.to_owned() } else { folder.join(file) }
}

/// The output of a script. A script whose name ends in `-client` gets the name of the wanted password.
fn from_script(id: &str, path: &Utf8Path) -> Result<Vec<u8>, Failure> {
    // A bare name is a file here, not a program of the path.
    let program = if path.as_str().contains('/') { path.to_owned() } else { Utf8Path::new(".").join(path) };
    let mut command = Command::new(program.as_str());
    if path.file_stem().is_some_and(|stem| stem.ends_with("-client")) {
        command.args(["--vault-id", id]);
    }
    let done = command.stdin(Stdio::inherit()).stderr(Stdio::inherit()).output().map_err(|e| {
        Failure::usage(
            format!("{path} is executable, and cannot be run for the vault password: {e}"),
            "if the file contains the password, remove the execute permission: chmod a-x",
        )
    })?;
    if !done.status.success() {
        let what =
            if done.status.code() == Some(2) { " (exit status 2: no password of this name)" } else { "" };
        let message =
            format!("{path}, asked for the vault password of `{id}`, ended with {}{what}", done.status);
        return Err(Failure::usage(message, "run it by hand to see why"));
    }
    let text = done.stdout.as_slice();
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |at| at + 1);
    let start = text.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(0);
    Ok(text.get(start..end).unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_before_the_first_at() {
        assert_eq!(split("prod@~/key"), ("prod", "~/key"));
        assert_eq!(split("prod@user@host"), ("prod", "user@host"));
        assert_eq!(split("key"), ("default", "key"));
        assert_eq!(split("@prompt"), ("default", "prompt"));
    }
}
