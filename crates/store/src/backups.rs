//! Files that were brought from hosts to this machine before something there was destroyed: the newest few of each name, for their
//! owner alone.

use crate::state::state_folder;
use age::stream::StreamWriter;
use camino::{Utf8Path, Utf8PathBuf};
use converge_resource::to_hex;
use fs_err::os::unix::fs::OpenOptionsExt as _;
use sha2::{Digest as _, Sha256};
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::time::{Duration, SystemTime};

/// The number of backups of one name that are kept.
pub const RETAINED: usize = 5;

/// After this time a file that did not come whole is nobody's any more.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// The name of a file while it comes.
const PART: &str = ".part-";

/// The backups of one name.
#[derive(Debug)]
pub struct Backups {
    folder: Utf8PathBuf,
}

/// The reason why a file is not kept.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Nobody says where.
    #[error("neither XDG_STATE_HOME nor HOME is set, so there is no folder for backups on this machine")]
    NoHome,
    /// The file system said no; the message has the path.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// An age recipient that is none.
    #[error("`{0}` is not an age recipient ({1}); a recipient begins with age1")]
    Recipient(String, &'static str),
    /// The encryption failed.
    #[error("it cannot be encrypted: {0}")]
    Age(String),
    /// It is not what the host has.
    #[error("{0} arrived, and the host has {1}")]
    Differs(String, String),
}

impl Backups {
    /// Those of this name, in a folder of their own below `$XDG_STATE_HOME/converge/backups`. Nothing is written yet.
    ///
    /// # Errors
    /// No home.
    pub fn of(name: &str) -> Result<Self, BackupError> {
        let state = state_folder().ok_or(BackupError::NoHome)?;
        Ok(Self::in_folder(state.join("backups").join(file_name(name))))
    }

    fn in_folder(folder: Utf8PathBuf) -> Self {
        Self { folder }
    }

    /// Where they lie.
    pub fn folder(&self) -> &Utf8Path {
        &self.folder
    }

    /// Begins one more, encrypted where there are age recipients.
    ///
    /// # Errors
    /// The file system's, or a wrong recipient.
    pub fn begin(&self, recipients: &[String]) -> Result<IncomingFile, BackupError> {
        let mut keys = Vec::new();
        for text in recipients {
            let key = text.parse::<age::x25519::Recipient>();
            keys.push(key.map_err(|why| BackupError::Recipient(text.clone(), why))?);
        }
        let mut make = std::fs::DirBuilder::new();
        make.recursive(true).mode(0o700).create(&self.folder).map_err(|e| at(&self.folder, &e))?;
        fs_err::set_permissions(&self.folder, Permissions::from_mode(0o700))?;
        let part = self.folder.join(format!("{PART}{:016x}", rand::random::<u64>()));
        let file = fs_err::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let mut arriving = IncomingFile {
            folder: self.folder.clone(),
            part,
            sink: None,
            hash: Sha256::new(),
            size: 0,
            sealed: !keys.is_empty(),
        };
        arriving.sink = Some(if keys.is_empty() {
            Sink::Plain(file)
        } else {
            let encryptor = age::Encryptor::with_recipients(keys.iter().map(|k| k as &dyn age::Recipient));
            let encryptor = encryptor.map_err(|e| BackupError::Age(e.to_string()))?;
            Sink::Sealed(Box::new(encryptor.wrap_output(file)?))
        });
        Ok(arriving)
    }
}

/// A file on its way. When it is dropped before its end, nothing of it stays.
pub struct IncomingFile {
    folder: Utf8PathBuf,
    part: Utf8PathBuf,
    sink: Option<Sink>,
    hash: Sha256,
    size: u64,
    sealed: bool,
}

enum Sink {
    Plain(fs_err::File),
    Sealed(Box<StreamWriter<fs_err::File>>),
}

impl IncomingFile {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        match &mut self.sink {
            Some(Sink::Plain(file)) => file.write_all(bytes)?,
            Some(Sink::Sealed(writer)) => writer.write_all(bytes).map_err(|e| at(&self.part, &e))?,
            None => {}
        }
        self.hash.update(bytes);
        self.size = self.size.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// The number of bytes that have come.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// All has come: compares it with what the host says of it, gives it its name, and removes the oldest. The path is given back.
    ///
    /// # Errors
    /// Another size or SHA-256, and the file system's.
    pub fn finish(mut self, name: &str, size: u64, sha256: &str) -> Result<Utf8PathBuf, BackupError> {
        let found = to_hex(&self.hash.clone().finalize());
        if self.size != size || found != sha256 {
            let shown = |size: u64, digest: &str| {
                format!("{size} bytes with SHA-256 {}…", digest.get(..12).unwrap_or(digest))
            };
            return Err(BackupError::Differs(shown(self.size, &found), shown(size, sha256)));
        }
        match self.sink.take() {
            Some(Sink::Plain(file)) => file.sync_all()?,
            Some(Sink::Sealed(writer)) => writer.finish().map_err(|e| at(&self.part, &e))?.sync_all()?,
            None => {}
        }
        let ending = if self.sealed { ".age" } else { "" };
        let path = self.folder.join(format!("{}{ending}", file_name(name)));
        fs_err::rename(&self.part, &path)?;
        fs_err::File::open(&self.folder)?.sync_all()?;
        prune(&self.folder)?;
        Ok(path)
    }
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        // After a rename it is not there any more.
        let _best_effort = fs_err::remove_file(&self.part);
    }
}

/// The name as one of a file that every program takes.
fn file_name(name: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' };
    let plain: String = name.chars().map(good).collect();
    if plain.starts_with('.') { format!("_{plain}") } else { plain }
}

fn at(path: &Utf8Path, error: &io::Error) -> BackupError {
    BackupError::Io(io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// Keeps the newest few. Names begin with their time.
fn prune(folder: &Utf8Path) -> Result<(), BackupError> {
    let mut whole = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(PART) {
            let age =
                entry.metadata()?.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
            if age.is_some_and(|age| age > ABANDONED) {
                fs_err::remove_file(entry.path())?;
            }
        } else if is_backup(&name) {
            whole.push((name, entry.path()));
        }
    }
    whole.sort();
    for (_, path) in whole.iter().rev().skip(RETAINED) {
        fs_err::remove_file(path)?;
    }
    Ok(())
}

/// Whether a name is one that we give: `20261122T081500Z-…`. Other files there are not converge's.
fn is_backup(name: &str) -> bool {
    let digits = |part: Option<&str>| part.is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    digits(name.get(..8))
        && name.get(8..9) == Some("T")
        && digits(name.get(9..15))
        && name.get(15..17) == Some("Z-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn backups() -> (tempfile::TempDir, Backups) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8PathBuf::from_path_buf(dir.path().join("state/10.0.0.1_6443")).unwrap();
        (dir, Backups::in_folder(folder))
    }

    fn sha256(bytes: &[u8]) -> String {
        to_hex(&Sha256::digest(bytes))
    }

    fn names(backups: &Backups) -> Vec<String> {
        let entries = fs_err::read_dir(backups.folder()).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn mode(path: &Utf8Path) -> u32 {
        fs_err::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_comes_whole_is_stored_for_its_owner_alone() {
        let (_dir, backups) = backups();
        let mut file = backups.begin(&[]).unwrap();
        file.write(b"one").unwrap();
        file.write(b"two").unwrap();
        assert_eq!(file.size(), 6);
        let path = file.finish("20261122T081500Z-cp 1-before.db", 6, &sha256(b"onetwo")).unwrap();
        assert_eq!(path.file_name(), Some("20261122T081500Z-cp_1-before.db"));
        assert_eq!(fs_err::read(&path).unwrap(), b"onetwo");
        assert_eq!((mode(&path), mode(backups.folder())), (0o600, 0o700));
    }

    #[test]
    fn what_is_another_or_does_not_end_leaves_nothing() {
        let (_dir, backups) = backups();
        let begun = || {
            let mut file = backups.begin(&[]).unwrap();
            file.write(b"one").unwrap();
            file
        };
        let short = begun().finish("20261122T081500Z-a.db", 4, &sha256(b"one")).unwrap_err().to_string();
        assert!(
            short.starts_with("3 bytes with SHA-256") && short.contains("the host has 4 bytes"),
            "{short}"
        );
        assert!(begun().finish("20261122T081500Z-a.db", 3, &sha256(b"two")).is_err());
        drop(begun());
        assert_eq!(names(&backups), Vec::<String>::new());
        let wrong = backups.begin(&["age1nobody".to_owned()]).err().unwrap().to_string();
        assert!(wrong.contains("`age1nobody` is not an age recipient"), "{wrong}");
    }

    #[test]
    fn it_is_encrypted_where_there_are_recipients() {
        let (_dir, backups) = backups();
        let identity = age::x25519::Identity::generate();
        let mut file = backups.begin(&[identity.to_public().to_string()]).unwrap();
        file.write(b"secret").unwrap();
        let path = file.finish("20261122T081500Z-a.db", 6, &sha256(b"secret")).unwrap();
        assert!(path.as_str().ends_with("-a.db.age"), "{path}");
        let bytes = fs_err::read(&path).unwrap();
        assert!(!bytes.windows(6).any(|w| w == b"secret"));
        let decryptor = age::Decryptor::new(bytes.as_slice()).unwrap();
        let mut text = String::new();
        let identities = [&identity as &dyn age::Identity];
        decryptor.decrypt(identities.into_iter()).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "secret");
    }

    #[test]
    fn the_newest_few_stay_and_other_files_are_left_alone() {
        let (_dir, backups) = backups();
        let keep = |n: usize| {
            let mut file = backups.begin(&[]).unwrap();
            file.write(b"x").unwrap();
            file.finish(&format!("2026112{n}T081500Z-a.db"), 1, &sha256(b"x")).unwrap();
        };
        keep(0);
        fs_err::write(backups.folder().join("mine.db"), "").unwrap();
        (1..=RETAINED).for_each(keep);
        let there = names(&backups);
        assert_eq!(there.len(), RETAINED + 1, "{there:?}");
        assert!(there.contains(&"mine.db".to_owned()) && !there[0].starts_with("20261120"), "{there:?}");
    }
}
