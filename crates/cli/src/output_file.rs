//! Files that a run writes beside its output: pages, traces.

use camino::{Utf8Path, Utf8PathBuf};
use std::fs::{File, FileType};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

/// Puts a new file at this path, whole or not at all: never through a link into another one. A pipe or a device is written to.
pub fn put(path: &Utf8Path, bytes: &[u8]) -> std::io::Result<()> {
    let there = sort(path);
    // Opening a pipe waits for a reader, as long as it takes; asked in this way it answers at once.
    let reader = there.filter(|sort| sort.is_fifo()).map(|_| {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)
    });
    let _reader = reader.transpose().map_err(|_| std::io::Error::other("it is a pipe that nobody reads"))?;
    if there.is_some_and(is_device) {
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let (mut file, temporary) = temporary(path)?;
    let written = file.write_all(bytes).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // Only the first error is reported.
        std::fs::remove_file(&temporary).ok();
    }
    written
}

/// Whether a file can be put at this path: nothing stays behind.
pub fn check(path: &Utf8Path) -> std::io::Result<()> {
    match sort(path) {
        Some(sort) if is_device(sort) => Ok(()),
        _ => temporary(path).and_then(|(_, temporary)| std::fs::remove_file(temporary)),
    }
}

fn sort(path: &Utf8Path) -> Option<FileType> {
    std::fs::symlink_metadata(path).ok().map(|found| found.file_type())
}

fn is_device(sort: FileType) -> bool {
    !sort.is_file() && !sort.is_symlink() && !sort.is_dir()
}

/// A new file beside this path, which is to take its place.
fn temporary(path: &Utf8Path) -> std::io::Result<(File, Utf8PathBuf)> {
    match sort(path) {
        Some(sort) if sort.is_symlink() => {
            let why = "it is a symbolic link, which is not followed: remove it, or name its target";
            return Err(std::io::Error::other(why));
        }
        Some(sort) if sort.is_dir() => return Err(std::io::Error::other("it is a folder")),
        _ => {}
    }
    let name = path.file_name().ok_or_else(|| std::io::Error::other("the path has no file name"))?;
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    Ok((file, temporary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_whole_private_and_leads_into_no_other_file() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let dir = Utf8Path::from_path(dir.path()).unwrap();
        let report = dir.join("report.html");
        for text in ["one", "two"] {
            put(&report, text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&report).unwrap(), text);
        }
        assert_eq!(std::fs::metadata(&report).unwrap().permissions().mode() & 0o777, 0o600);
        let link = dir.join("link.html");
        std::os::unix::fs::symlink(&report, &link).unwrap();
        assert!(put(&link, b"three").unwrap_err().to_string().contains("symbolic link"));
        assert_eq!(std::fs::read_to_string(&report).unwrap(), "two");
        assert!(put(&dir.join("nowhere/x"), b"x").is_err());
        for (path, can) in
            [("new.json", true), ("report.html", true), ("link.html", false), ("nowhere/x", false)]
        {
            assert_eq!(check(&dir.join(path)).is_ok(), can, "{path}");
        }
        assert!(check(dir).unwrap_err().to_string().contains("folder"));
        let elsewhere = tempfile::tempdir().unwrap();
        let pipe = Utf8Path::from_path(elsewhere.path()).unwrap().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(put(&pipe, b"x").unwrap_err().to_string().contains("nobody reads"));
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 2, "nothing else stays");
        put(Utf8Path::new("/dev/null"), b"x").unwrap();
    }
}
