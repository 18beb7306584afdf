//! Files of a role: templates and sources. Each is read once in a run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use converge_syntax::{Diagnostic, Source, Span};

use crate::catalog::Load;
use crate::fields::nearest;
use crate::file_error::{FileError, MAX_BYTES};
use crate::role::Role;
use crate::tree;
use crate::vault::{Vault, decrypted_text, is_vault};

/// The content of a file, or the reason why it has none. Both are kept for all places that name the file.
type FileContent<T> = Result<T, Arc<FileError>>;

/// A cache of the files read so far.
pub(crate) struct Files {
    vault: Vault,
    templates: Mutex<HashMap<Utf8PathBuf, FileContent<Arc<Source>>>>,
    sources: Mutex<HashMap<Utf8PathBuf, FileContent<Bytes>>>,
}

/// The bytes of a file of a role.
#[derive(Clone)]
pub(crate) struct Bytes {
    /// In hexadecimal.
    pub hex: Arc<str>,
    /// The file is encrypted.
    pub secret: bool,
}

impl Load {
    /// The folder of the role.
    fn folder(self) -> &'static str {
        match self {
            Self::Template => "templates",
            Self::Source | Self::Tree => "files",
        }
    }
}

/// The path of a file of a role.
///
/// # Errors
/// The error of a path that leads out of the role's folder, or of a missing file; the help names the nearest one.
pub(crate) fn locate(role: &Role, load: Load, written: &str, span: &Span) -> Result<Utf8PathBuf, Diagnostic> {
    let folder = load.folder();
    let path = Utf8Path::new(written);
    if written.is_empty() || !path.components().all(|part| matches!(part, Utf8Component::Normal(_))) {
        return Err(Diagnostic::error(
            "bad-path",
            format!("`{written}` is not a path below `{folder}/` of the role"),
        )
        .label(span, "must stay in the role's folder")
        .help(format!("put the file into {}/{folder}/ and write its name", role.dir)));
    }
    let full = role.dir.join(folder).join(path);
    let (found, other) = match load {
        Load::Tree => (full.is_dir(), full.is_file().then_some("a file, and a folder is meant")),
        _ => (full.is_file(), full.is_dir().then_some("a folder, and a file is meant")),
    };
    if found {
        return Ok(full);
    }
    if let Some(other) = other {
        let message = format!("`{folder}/{written}` of the role `{}` is {other}", role.name);
        return Err(Diagnostic::error("no-file", message).label(span, "named here"));
    }
    let known = listing(&role.dir.join(folder), 3, load == Load::Tree);
    let stripped = written.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    let help = match stripped.filter(|rest| known.iter().any(|name| name == rest)) {
        Some(rest) => format!("write `{rest}`: it is searched in `{folder}/`"),
        None if known.is_empty() && load == Load::Tree => format!("make the folder {full}"),
        None if known.is_empty() => format!("write the file {full}"),
        None => nearest(written, known.iter().map(String::as_str)),
    };
    let sought = if load == Load::Tree { "folder" } else { "file" };
    let message = format!("the role `{}` has no {sought} `{folder}/{written}`", role.name);
    Err(Diagnostic::error("no-file", message).label(span, "not found").help(help))
}

/// The files, or the folders, below a folder, by path from it, sorted.
fn listing(folder: &Utf8Path, depth: usize, folders: bool) -> Vec<String> {
    let mut names = Vec::new();
    for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
        let name = entry.file_name().to_owned();
        let is_folder = entry.path().is_dir();
        if is_folder && depth > 0 {
            let inner = listing(entry.path(), depth - 1, folders);
            names.extend(inner.into_iter().map(|inner| format!("{name}/{inner}")));
        }
        if is_folder == folders && (is_folder || entry.path().is_file()) {
            names.push(name);
        }
    }
    names.sort();
    names
}

impl Files {
    /// An empty cache; the passwords decrypt encrypted files.
    pub(crate) fn new(vault: &Vault) -> Self {
        Self { vault: vault.clone(), templates: Mutex::default(), sources: Mutex::default() }
    }

    /// The text of a template; a secret source where the file is encrypted.
    pub(crate) fn template(&self, path: &Utf8Path, span: &Span) -> Result<Arc<Source>, Diagnostic> {
        let mut known = self.templates.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || {
            check_size(path)?;
            let source = Source::read(path.as_std_path())?;
            let opened =
                decrypted_text(&source, &self.vault).map_err(|problem| FileError::Text(Box::new(problem)))?;
            Ok(opened.map_or(source, |text| Source::secret(path.as_str(), text.as_str(), [])))
        };
        let read = || read().map_err(Arc::new);
        known.entry(path.to_owned()).or_insert_with(read).clone().map_err(|why| unreadable(path, &why, span))
    }

    /// The bytes of a source, or of a folder as a tar.gz; what is encrypted is decrypted.
    pub(crate) fn bytes(&self, load: Load, path: &Utf8Path, span: &Span) -> Result<Bytes, Diagnostic> {
        let mut known = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || {
            let (bytes, secret) = match load {
                Load::Tree => tree::packed(path, MAX_BYTES, |file| self.plain(file))?,
                _ => self.plain(path)?,
            };
            Ok(Bytes { hex: converge_resource::to_hex(&bytes).into(), secret })
        };
        let read = || read().map_err(Arc::new);
        known.entry(path.to_owned()).or_insert_with(read).clone().map_err(|why| unreadable(path, &why, span))
    }

    /// The bytes of one file, and whether it is encrypted.
    fn plain(&self, path: &Utf8Path) -> Result<(Vec<u8>, bool), FileError> {
        check_size(path)?;
        let bytes = fs_err::read(path)?;
        if !is_vault(&bytes) {
            return Ok((bytes, false));
        }
        let opened = self.vault.open(&String::from_utf8_lossy(&bytes))?;
        Ok((opened.plain.to_vec(), true))
    }
}

fn check_size(path: &Utf8Path) -> Result<(), FileError> {
    let size = fs_err::metadata(path)?.len();
    if size > MAX_BYTES {
        return Err(FileError::TooLarge);
    }
    Ok(())
}

fn unreadable(path: &Utf8Path, why: &FileError, span: &Span) -> Diagnostic {
    Diagnostic::error("unreadable", format!("cannot read {path}: {why}")).label(span, "named here")
}
