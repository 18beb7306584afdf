//! `converge vault`: what `ansible-vault` does, on the same files.

use crate::args::{
    VaultAction, VaultCommandArgs, VaultEditArgs, VaultReadArgs, VaultRekeyArgs, VaultStringArgs,
    VaultWriteArgs,
};
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::{prompt, vault};
use camino::{Utf8Path, Utf8PathBuf};
use converge_model::vault::{DEFAULT_ID, DecryptedText, Vault, VaultSecret, encrypt, is_vault};
use converge_render::Tone;
use fs_err::os::unix::fs::OpenOptionsExt;
use secrecy::ExposeSecret;
use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use zeroize::Zeroizing;

/// The largest file that is encrypted or decrypted.
const MAX_BYTES: u64 = 256 << 20;

pub fn run(args: VaultCommandArgs, console: &Console) -> Result<u8, Failure> {
    match args.action {
        VaultAction::Encrypt(args) => encrypt_files(&args, console),
        VaultAction::EncryptString(args) => encrypt_string(&args, console),
        VaultAction::Decrypt(args) => decrypt_files(&args, console),
        VaultAction::View(args) => view(&args),
        VaultAction::Edit(args) => edit(&args, console),
        VaultAction::Rekey(args) => rekey(&args, console),
    }?;
    Ok(code::DONE)
}

fn encrypt_files(args: &VaultWriteArgs, console: &Console) -> Result<(), Failure> {
    if args.files.is_empty() {
        // The text to encrypt is read first: the question for the password is asked at the terminal, not here.
        let plain = standard_input("Type or pipe in what is to be encrypted, and end with Ctrl-D", console)?;
        if is_vault(&plain) {
            return Err(Failure::usage(
                "standard input is encrypted already",
                "use `rekey` for another password",
            ));
        }
        let secret = args.vault.encrypting(args.encrypt_vault_id.as_deref())?;
        return write_out(sealed(&plain, &secret)?.as_bytes());
    }
    let mut plain = Vec::new();
    for file in &args.files {
        let bytes = read(file)?;
        if is_vault(&bytes) {
            return Err(Failure::usage(
                format!("{file} is encrypted already; nothing was changed"),
                "remove it from the command line, or use `rekey` for another password",
            ));
        }
        plain.push((file, bytes));
    }
    let secret = args.vault.encrypting(args.encrypt_vault_id.as_deref())?;
    for (file, bytes) in plain {
        replace(file, sealed(&bytes, &secret)?.as_bytes())?;
        console.remark(Tone::Faint, "", &format!("Encrypted {file}"));
    }
    Ok(())
}

fn encrypt_string(args: &VaultStringArgs, console: &Console) -> Result<(), Failure> {
    let plain = if std::io::stdin().is_terminal() {
        let typed = prompt::read_hidden("Value to encrypt: ").map_err(|e| Failure::failed(e.to_string()))?;
        Zeroizing::new(typed.expose_secret().as_bytes().to_vec())
    } else {
        standard_input("", console)?
    };
    if plain.is_empty() {
        return Err(Failure::usage(
            "there is no value to encrypt",
            "pipe it in: printf %s \"$VALUE\" | converge vault encrypt-string",
        ));
    }
    let secret = args.vault.encrypting(args.encrypt_vault_id.as_deref())?;
    let mut text = args.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    text.push_str("!vault |\n");
    for line in sealed(&plain, &secret)?.lines() {
        // As deep as Ansible writes it, so that it can stand anywhere in a file.
        text.push_str(&format!("          {line}\n"));
    }
    write_out(text.as_bytes())
}

fn decrypt_files(args: &VaultReadArgs, console: &Console) -> Result<(), Failure> {
    let passwords = args.vault.vault_or_ask()?;
    if args.files.is_empty() {
        return write_out(&opened("standard input", &standard_input("", console)?, &passwords)?.plain);
    }
    // All are opened before one is changed.
    let all: Vec<(&Utf8PathBuf, DecryptedText)> = args
        .files
        .iter()
        .map(|file| Ok((file, opened(file.as_str(), &read(file)?, &passwords)?)))
        .collect::<Result<_, Failure>>()?;
    for (file, opened) in all {
        replace(file, &opened.plain)?;
        console.remark(Tone::Faint, "", &format!("Decrypted {file}"));
    }
    Ok(())
}

fn view(args: &VaultReadArgs) -> Result<(), Failure> {
    let passwords = args.vault.vault_or_ask()?;
    if args.files.is_empty() {
        return Err(Failure::usage(
            "no file is named",
            "name one; standard input is decrypted with `vault decrypt`",
        ));
    }
    for file in &args.files {
        write_out(&opened(file.as_str(), &read(file)?, &passwords)?.plain)?;
    }
    Ok(())
}

fn rekey(args: &VaultRekeyArgs, console: &Console) -> Result<(), Failure> {
    let passwords = args.vault.vault_or_ask()?;
    let all: Vec<(&Utf8PathBuf, DecryptedText)> = args
        .files
        .iter()
        .map(|file| Ok((file, opened(file.as_str(), &read(file)?, &passwords)?)))
        .collect::<Result<_, Failure>>()?;
    let (id, source) = match (&args.new_vault_id, &args.new_vault_password_file) {
        (Some(text), _) => text.split_once('@').unwrap_or((DEFAULT_ID, text)),
        (None, Some(file)) => (DEFAULT_ID, file.as_str()),
        (None, None) => (DEFAULT_ID, "prompt"),
    };
    let secret = vault::secret(id, source, true)?;
    for (file, opened) in all {
        replace(file, sealed(&opened.plain, &secret)?.as_bytes())?;
        console.remark(Tone::Faint, "", &format!("Encrypted {file} with the new password"));
    }
    Ok(())
}

fn edit(args: &VaultEditArgs, console: &Console) -> Result<(), Failure> {
    let file = &args.file;
    let (before, secret) = if file.exists() {
        let passwords = args.vault.vault_or_ask()?;
        let sealed = read(file)?;
        let opened = opened(file.as_str(), &sealed, &passwords)?;
        let secret = passwords.secrets().iter().find(|secret| secret.id() == opened.id).cloned();
        let secret =
            secret.ok_or_else(|| Failure::failed("the password that decrypted it is no longer available"))?;
        (Some(opened.plain.to_vec()), secret)
    } else {
        (None, args.vault.encrypting(args.encrypt_vault_id.as_deref())?)
    };
    let before = before.map(Zeroizing::new);
    let after = edited(file, before.as_ref().map_or(&[][..], |plain| plain))?;
    if before.as_ref().is_some_and(|plain| **plain == *after) {
        console.remark(Tone::Faint, "", &format!("{file} is as it was"));
        return Ok(());
    }
    if before.is_none() && after.is_empty() {
        console.remark(Tone::Faint, "", &format!("Nothing was written, and {file} is not made"));
        return Ok(());
    }
    replace(file, sealed(&after, &secret)?.as_bytes())?;
    console.remark(Tone::Faint, "", &format!("Encrypted {file}"));
    Ok(())
}

/// Lets the user's editor change a text in a file that only they can read, in memory where there is such a place.
fn edited(file: &Utf8Path, plain: &[u8]) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let failed = |e: std::io::Error| Failure::failed(format!("cannot edit {file}: {e}"));
    let memory = std::env::var("XDG_RUNTIME_DIR").ok().filter(|dir| !dir.is_empty());
    let places = memory.into_iter().chain(["/dev/shm".to_owned()]);
    let place = places.map(Utf8PathBuf::from).find(|dir| dir.is_dir());
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("converge-vault-").permissions(std::fs::Permissions::from_mode(0o700));
    let made = place.and_then(|dir| builder.tempdir_in(dir).ok());
    let folder = made.map_or_else(|| builder.tempdir(), Ok).map_err(failed)?;
    // Editors choose colours by the name.
    let path = folder.path().join(file.file_name().unwrap_or("vault"));
    let mut open = fs_err::OpenOptions::new();
    open.write(true).create_new(true).mode(0o600);
    open.open(&path).and_then(|mut f| f.write_all(plain)).map_err(failed)?;
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|e| !e.trim().is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // The variable may hold arguments: `code --wait`.
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let done = Command::new(program).args(words).arg(&path).status().map_err(|e| {
        Failure::usage(
            format!("the editor `{program}` cannot be started: {e}"),
            "set EDITOR to one that is there",
        )
    })?;
    if !done.success() {
        return Err(Failure::refused(
            format!("the editor ended with {done}; {file} is as it was"),
            "end it normally to keep what you wrote",
        ));
    }
    let after = Zeroizing::new(fs_err::read(&path).map_err(failed)?);
    // Where the folder is on a disk, the text does not stay there to be found.
    if let Ok(length) = fs_err::metadata(&path).map(|meta| meta.len()) {
        let zeros = vec![0; usize::try_from(length).unwrap_or(0)];
        let _gone = fs_err::OpenOptions::new().write(true).open(&path).and_then(|mut f| f.write_all(&zeros));
    }
    folder.close().map_err(failed)?;
    Ok(after)
}

fn sealed(plain: &[u8], secret: &VaultSecret) -> Result<String, Failure> {
    encrypt(plain, secret).map_err(|e| Failure::usage(e.to_string(), e.help()))
}

fn opened(name: &str, bytes: &[u8], passwords: &Vault) -> Result<DecryptedText, Failure> {
    if !is_vault(bytes) {
        return Err(Failure::usage(format!("{name} is not encrypted"), "remove it from the command line"));
    }
    passwords
        .open(&String::from_utf8_lossy(bytes))
        .map_err(|e| Failure::usage(format!("{name}: {e}"), e.help()))
}

fn read(file: &Utf8Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let wrong = |e: std::io::Error| Failure::usage(e.to_string(), "name a file that can be read");
    let mut bytes = Zeroizing::new(Vec::new());
    let open = fs_err::File::open(file).map_err(wrong)?;
    open.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(wrong)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(
            format!("{file} is larger than {} MiB", MAX_BYTES >> 20),
            "encrypt smaller files",
        ));
    }
    Ok(bytes)
}

fn standard_input(hint: &str, console: &Console) -> Result<Zeroizing<Vec<u8>>, Failure> {
    if std::io::stdin().is_terminal() && !hint.is_empty() {
        console.remark(Tone::Faint, "", hint);
    }
    let mut bytes = Zeroizing::new(Vec::new());
    std::io::stdin()
        .lock()
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::failed(format!("standard input: {e}")))?;
    Ok(bytes)
}

/// Writes bytes as they are: these commands show secrets because they are asked to.
fn write_out(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|e| Failure::failed(format!("standard output: {e}")))
}

/// Puts a file in the place of another in one step, with its mode; a new one only its owner can read.
fn replace(file: &Utf8Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed =
        |e: std::io::Error| Failure::failed(format!("{file} cannot be written, and is as it was: {e}"));
    // Through a link: the file behind it is meant.
    let file = file.canonicalize_utf8().unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().filter(|dir| !dir.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let mode = fs_err::metadata(&file).map_or(0o600, |meta| meta.permissions().mode() & 0o7777);
    let mut new = tempfile::Builder::new().prefix(".converge-vault-").tempfile_in(folder).map_err(failed)?;
    new.write_all(bytes).map_err(failed)?;
    new.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    new.as_file().sync_all().map_err(failed)?;
    new.persist(&file).map_err(|e| failed(e.error))?;
    Ok(())
}
