//! Folders beside a scenario, read to be copied to its hosts.

use camino::{Utf8Path, Utf8PathBuf};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

/// The limit of the size of a file: it travels as shell text.
const LIMIT: u64 = 256 << 10;

/// The reason why a folder cannot be copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("{0} must be absolute: it is a path on the hosts")]
    Relative(String),
    #[error("{0}: {1}")]
    Unreadable(Utf8PathBuf, io::Error),
    #[error("{path} has {size} bytes, and {LIMIT} can be copied")]
    TooLarge { path: Utf8PathBuf, size: u64 },
}

/// A file of such a folder.
#[derive(Debug)]
pub(crate) struct FolderFile {
    /// Its path on the hosts.
    pub(crate) path: String,
    pub(crate) content: String,
    pub(crate) is_program: bool,
}

/// The files of a folder and of those below it, sorted by their paths on the hosts.
///
/// # Errors
/// The folder, or a file in it, cannot be read as text or is too large; `to` is not absolute.
pub(crate) fn read(to: &str, folder: &Utf8Path) -> Result<Vec<FolderFile>, FolderError> {
    if !to.starts_with('/') {
        return Err(FolderError::Relative(to.to_owned()));
    }
    let mut found = Vec::new();
    add(to.trim_end_matches('/'), folder, &mut found)?;
    found.sort_by(|one: &FolderFile, other| one.path.cmp(&other.path));
    Ok(found)
}

fn add(to: &str, folder: &Utf8Path, found: &mut Vec<FolderFile>) -> Result<(), FolderError> {
    let unreadable = |path: &Utf8Path| {
        let path = path.to_owned();
        move |error| FolderError::Unreadable(path, error)
    };
    for entry in folder.read_dir_utf8().map_err(unreadable(folder))? {
        let entry = entry.map_err(unreadable(folder))?;
        let path = entry.path();
        let there = format!("{to}/{}", entry.file_name());
        let known = path.metadata().map_err(unreadable(path))?;
        if known.is_dir() {
            add(&there, path, found)?;
            continue;
        }
        if known.len() > LIMIT {
            return Err(FolderError::TooLarge { path: path.to_owned(), size: known.len() });
        }
        let content = std::fs::read_to_string(path).map_err(unreadable(path))?;
        found.push(FolderFile { path: there, content, is_program: known.permissions().mode() & 0o111 != 0 });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_read_with_all_below_it_and_programs_stay_programs() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(dir.path()).unwrap();
        std::fs::create_dir(folder.join("below")).unwrap();
        std::fs::write(folder.join("below/b"), "two\n").unwrap();
        std::fs::write(folder.join("a"), "one\n").unwrap();
        std::fs::set_permissions(folder.join("a"), std::fs::Permissions::from_mode(0o700)).unwrap();
        let files = read("/srv/x/", folder).unwrap();
        let shown: Vec<(&str, &str, bool)> =
            files.iter().map(|f| (f.path.as_str(), f.content.as_str(), f.is_program)).collect();
        assert_eq!(shown, [("/srv/x/a", "one\n", true), ("/srv/x/below/b", "two\n", false)]);
        std::fs::write(folder.join("c"), [0xff]).unwrap();
        assert!(read("/srv", folder).unwrap_err().to_string().starts_with(folder.join("c").as_str()));
        assert!(read("srv", folder).unwrap_err().to_string().contains("must be absolute"));
        assert!(read("/srv", &folder.join("none")).unwrap_err().to_string().contains("none: No such file"));
    }
}
