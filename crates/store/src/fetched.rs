//! Files that were fetched from hosts: below one folder of the project, for their owner alone; and the contents that they had before, which a
//! rollback brings back.

use crate::state::state_folder;
use camino::{Utf8Path, Utf8PathBuf};
use converge_resource::{Content, Digest, Probe};
use fs_err::os::unix::fs::OpenOptionsExt as _;
use std::fs::{DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::time::{Duration, SystemTime};

/// The name of the folder below that of the project.
pub const FOLDER: &str = "fetched";

/// A content that no run has replaced for so long is not kept any more.
const RETAINED: Duration = Duration::from_secs(30 * 24 * 3600);

/// The fetched files of a project.
#[derive(Clone, Debug, Default)]
pub struct FetchedFiles {
    /// The folder of the project.
    project: Option<Utf8PathBuf>,
    /// The folder of the contents that were replaced; by default one of the user's own.
    previous: Option<Utf8PathBuf>,
}

/// The thing that lies at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lies {
    /// Nothing.
    Nothing,
    /// A file.
    File {
        /// Its permission bits.
        mode: u32,
        /// Its content.
        content: Content,
    },
    /// Something that is never replaced: `link`, `directory` …
    Other(String),
}

/// The reason why a fetched file cannot be read or written here.
#[derive(Debug, thiserror::Error)]
pub enum FetchedError {
    /// Nobody says where the project is.
    #[error("this run has no project folder, so there is no place for fetched files")]
    NoProject,
    /// Neither `XDG_STATE_HOME` nor `HOME`.
    #[error("neither XDG_STATE_HOME nor HOME is set, so there is no folder for the content that is replaced")]
    NoHome,
    /// A step that leads elsewhere.
    #[error(
        "{0} is a link, and a fetched file is not written through links: remove it, or put a directory there"
    )]
    Link(Utf8PathBuf),
    /// A file in the place of a directory.
    #[error("{0} is not a directory: remove it, or choose another path")]
    NoDirectory(Utf8PathBuf),
    /// The place is not one below the folder.
    #[error("`{0}` is not a path below the folder of fetched files")]
    Outside(String),
    /// The file system said no; the message has the path.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl FetchedFiles {
    /// Those of the project in this folder.
    pub fn of(project: Option<Utf8PathBuf>) -> Self {
        Self { project, previous: None }
    }

    /// The thing at this place.
    ///
    /// # Errors
    /// A step above it leads elsewhere, or cannot be read.
    pub fn look(&self, place: &str) -> Result<Lies, FetchedError> {
        let Some(path) = self.walk(place, false)? else { return Ok(Lies::Nothing) };
        let meta = match fs_err::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Lies::Nothing),
            Err(error) => return Err(error.into()),
        };
        let other = |what: &str| Ok(Lies::Other(what.to_owned()));
        match meta.file_type() {
            of if of.is_symlink() => other("link"),
            of if of.is_dir() => other("directory"),
            of if !of.is_file() => other("special file"),
            _ if meta.len() > Probe::CONTENT_LIMIT => other("file of more than 1 MiB"),
            _ => Ok(Lies::File {
                mode: meta.permissions().mode() & 0o7777,
                content: Content::new(fs_err::read(&path)?),
            }),
        }
    }

    /// Puts this content there, for its owner alone, in one step. Directories that are missing are made.
    ///
    /// # Errors
    /// A step above it leads elsewhere; those of the file system.
    pub fn write(&self, place: &str, mode: u32, content: &Content) -> Result<(), FetchedError> {
        let path = self.walk(place, true)?.ok_or_else(|| FetchedError::Outside(place.to_owned()))?;
        put(&path, mode, content.bytes())
    }

    /// Removes the file, and the directories above it that are empty then.
    ///
    /// # Errors
    /// As [`FetchedFiles::write`].
    pub fn remove(&self, place: &str) -> Result<(), FetchedError> {
        let Some(path) = self.walk(place, false)? else { return Ok(()) };
        fs_err::remove_file(&path)?;
        for above in path.ancestors().skip(1).take(Utf8Path::new(place).components().count()) {
            if fs_err::remove_dir(above).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Keeps a content that is about to be replaced, for a rollback; what is older than a month goes.
    ///
    /// # Errors
    /// No home; those of the file system.
    pub fn keep(&self, content: &Content) -> Result<(), FetchedError> {
        let folder = self.previous().ok_or(FetchedError::NoHome)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        for entry in fs_err::read_dir(&folder)? {
            let entry = entry?;
            let age =
                entry.metadata()?.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
            if age.is_some_and(|age| age > RETAINED) {
                fs_err::remove_file(entry.path())?;
            }
        }
        put(&folder.join(content.digest().as_str()), 0o600, content.bytes())
    }

    /// A content that was kept and is whole.
    pub fn retained(&self, digest: &Digest) -> Option<Content> {
        let bytes = fs_err::read(self.previous()?.join(digest.as_str())).ok()?;
        Some(Content::new(bytes)).filter(|content| content.digest() == digest)
    }

    fn previous(&self) -> Option<Utf8PathBuf> {
        self.previous.clone().or_else(|| Some(state_folder()?.join(FOLDER)))
    }

    /// The path of a place, each step above which is a directory; `None` where one is missing, unless they are made.
    fn walk(&self, place: &str, make: bool) -> Result<Option<Utf8PathBuf>, FetchedError> {
        let steps: Vec<&str> = place.split('/').collect();
        if steps.iter().any(|step| ["", ".", ".."].contains(step)) {
            return Err(FetchedError::Outside(place.to_owned()));
        }
        let mut at = self.project.clone().ok_or(FetchedError::NoProject)?;
        for (n, step) in std::iter::once(FOLDER).chain(steps.iter().copied()).enumerate() {
            at.push(step);
            if n == steps.len() {
                break;
            }
            match fs_err::symlink_metadata(&at) {
                Ok(meta) if meta.is_symlink() => return Err(FetchedError::Link(at)),
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Err(FetchedError::NoDirectory(at)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                Err(_) if make => DirBuilder::new().mode(0o700).create(&at)?,
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(at))
    }
}

/// Writes a file beside its place and renames it: a link there is replaced, never followed.
fn put(path: &Utf8Path, mode: u32, bytes: &[u8]) -> Result<(), FetchedError> {
    let part = path.with_file_name(format!(".part-{:016x}", rand::random::<u64>()));
    let write = || {
        let mut file = fs_err::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        file.write_all(bytes)?;
        fs_err::set_permissions(&part, Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs_err::rename(&part, path)
    };
    write().map_err(|error| {
        let _best_effort = fs_err::remove_file(&part);
        error.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> (tempfile::TempDir, FetchedFiles) {
        let dir = tempfile::tempdir().unwrap();
        let top = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
        fs_err::create_dir(top.join("project")).unwrap();
        (dir, FetchedFiles { project: Some(top.join("project")), previous: Some(top.join("former")) })
    }

    #[test]
    fn a_file_is_for_its_owner_alone_and_goes_with_its_empty_directories() {
        let (dir, fetched) = project();
        assert_eq!(fetched.look("a/b").unwrap(), Lies::Nothing);
        let content = Content::new(b"one".to_vec());
        fetched.write("a/b", 0o600, &content).unwrap();
        assert_eq!(fetched.look("a/b").unwrap(), Lies::File { mode: 0o600, content });
        let two = Content::new(b"two".to_vec());
        fetched.write("a/b", 0o644, &two).unwrap();
        assert_eq!(fetched.look("a/b").unwrap(), Lies::File { mode: 0o644, content: two });
        fetched.write("c", 0o600, &Content::new(b"c".to_vec())).unwrap();
        fetched.remove("a/b").unwrap();
        let names: Vec<_> = fs_err::read_dir(dir.path().join("project/fetched"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["c"]);
        fetched.remove("c").unwrap();
        assert!(!dir.path().join("project/fetched").exists() && dir.path().join("project").exists());
    }

    #[test]
    fn nothing_is_read_or_written_through_a_link_or_outside() {
        let (dir, fetched) = project();
        let content = Content::new(b"x".to_vec());
        fs_err::create_dir(dir.path().join("elsewhere")).unwrap();
        fs_err::create_dir(dir.path().join("project/fetched")).unwrap();
        fs_err::os::unix::fs::symlink("../../elsewhere", dir.path().join("project/fetched/a")).unwrap();
        assert!(matches!(fetched.write("a/b", 0o600, &content), Err(FetchedError::Link(_))));
        assert!(matches!(fetched.look("a/b"), Err(FetchedError::Link(_))));
        assert_eq!(fetched.look("a").unwrap(), Lies::Other("link".to_owned()));
        for outside in ["../x", "/etc/x", "a/../../x", "", "x/", "./x"] {
            assert!(matches!(fetched.write(outside, 0o600, &content), Err(FetchedError::Outside(_))));
        }
        assert_eq!(fs_err::read_dir(dir.path().join("elsewhere")).unwrap().count(), 0);
        assert!(matches!(FetchedFiles::default().look("x"), Err(FetchedError::NoProject)));
    }

    #[test]
    fn a_replaced_content_is_retained_and_a_damaged_one_is_none() {
        let (dir, fetched) = project();
        let content = Content::new(b"former".to_vec());
        assert_eq!(fetched.retained(content.digest()), None);
        fetched.keep(&content).unwrap();
        assert_eq!(fetched.retained(content.digest()), Some(content.clone()));
        fs_err::write(dir.path().join("former").join(content.digest().as_str()), "x").unwrap();
        assert_eq!(fetched.retained(content.digest()), None);
    }
}
