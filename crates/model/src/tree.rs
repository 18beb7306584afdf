//! A folder of a role as a tar.gz: the same bytes for the same files, whoever checked them out and when.

use std::os::unix::fs::PermissionsExt as _;

use camino::{Utf8Path, Utf8PathBuf};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::file_error::FileError;

/// Packs a folder below its own name; whether one of its files is encrypted. `plain` reads a file, and `most` is the limit of all of them
/// together, in bytes. What begins with `.git` is left out.
pub(crate) fn packed(
    folder: &Utf8Path,
    most: u64,
    plain: impl Fn(&Utf8Path) -> Result<(Vec<u8>, bool), FileError>,
) -> Result<(Vec<u8>, bool), FileError> {
    let name = folder.file_name().unwrap_or("files");
    let mut files = Vec::new();
    listed(folder, Utf8Path::new(""), &mut files)?;
    let mut builder = Builder::new(GzBuilder::new().mtime(0).write(Vec::new(), Compression::default()));
    let (mut size, mut secret) = (0, false);
    for (path, kind) in files {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mtime(0);
        let full = folder.join(&path);
        let content = if kind == EntryType::Directory {
            header.set_mode(0o755);
            Vec::new()
        } else {
            let runs = fs_err::metadata(&full)?.permissions().mode() & 0o100 != 0;
            header.set_mode(if runs { 0o755 } else { 0o644 });
            let (content, encrypted) = plain(&full)?;
            secret |= encrypted;
            content
        };
        size += content.len() as u64;
        if size > most {
            return Err(FileError::TooLarge);
        }
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, Utf8Path::new(name).join(&path), content.as_slice())?;
    }
    let bytes = builder.into_inner()?.finish()?;
    Ok((bytes, secret))
}

/// All below a folder by paths from it: a folder before its contents, names in their order.
fn listed(
    root: &Utf8Path,
    at: &Utf8Path,
    found: &mut Vec<(Utf8PathBuf, EntryType)>,
) -> Result<(), FileError> {
    let mut entries = root.join(at).read_dir_utf8()?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by(|a, b| a.file_name().cmp(b.file_name()));
    for entry in entries.iter().filter(|entry| !entry.file_name().starts_with(".git")) {
        let path = at.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            found.push((path.clone(), EntryType::Directory));
            listed(root, &path, found)?;
        } else if kind.is_file() {
            found.push((path, EntryType::Regular));
        } else {
            return Err(FileError::Special(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Utf8Path) -> Result<(Vec<u8>, bool), FileError> {
        Ok((std::fs::read(path)?, false))
    }

    fn members(bytes: &[u8]) -> Vec<(String, u32, u64)> {
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
        let entries = archive.entries().unwrap().map(Result::unwrap);
        let member = |entry: tar::Entry<'_, _>| {
            let header = entry.header();
            (entry.path().unwrap().display().to_string(), header.mode().unwrap(), header.size().unwrap())
        };
        entries.map(member).collect()
    }

    #[test]
    fn the_same_files_are_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
        let made = |folder: &str, names: &[&str]| {
            let at = root.join(folder).join("chart");
            for name in names {
                std::fs::create_dir_all(at.join(name).parent().unwrap()).unwrap();
                std::fs::write(at.join(name), name).unwrap();
            }
            std::fs::set_permissions(at.join("run"), std::fs::Permissions::from_mode(0o700)).unwrap();
            packed(&at, 100, read).unwrap().0
        };
        let first = made("a", &["Chart.yaml", "run", "templates/x.yaml", ".git/HEAD"]);
        assert_eq!(first, made("b", &["templates/x.yaml", "run", "Chart.yaml"]));
        let expected = [
            ("chart/Chart.yaml".to_owned(), 0o644, 10),
            ("chart/run".to_owned(), 0o755, 3),
            ("chart/templates".to_owned(), 0o755, 0),
            ("chart/templates/x.yaml".to_owned(), 0o644, 16),
        ];
        let found: Vec<_> =
            members(&first).into_iter().map(|(p, m, s)| (p.trim_end_matches('/').to_owned(), m, s)).collect();
        assert_eq!(found, expected);
        assert!(matches!(packed(&root.join("a/chart"), 20, read), Err(FileError::TooLarge)));
        std::os::unix::fs::symlink("/etc/passwd", root.join("a/chart/link")).unwrap();
        assert!(
            matches!(packed(&root.join("a/chart"), 100, read), Err(FileError::Special(path)) if path == "link")
        );
    }
}
