//! A key of this user, kept outside plan files, that seals what a plan must not hold in clear.

use crate::document::write_private;
use crate::state::state_folder;
use crate::trust::{Distrust, Owner, RunningUser, distrust};
use camino::Utf8PathBuf;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Seals secrets: equal secrets have equal seals, and nobody without the key can guess one.
#[derive(Clone)]
pub struct Sealer {
    key: [u8; 32],
}

/// The reason why there is no key.
#[derive(Debug, thiserror::Error)]
#[error("the key that seals secrets in plans, {path}: {why}")]
pub struct SealError {
    /// The key's file.
    pub path: Utf8PathBuf,
    /// The problem.
    pub why: String,
}

impl Sealer {
    /// Reads the key at `$XDG_STATE_HOME/converge/plan.key` (default `~/.local/state`), making it the first time.
    ///
    /// # Errors
    /// No home, a key that others may read, or a file of another size.
    pub fn open() -> Result<Self, SealError> {
        let folder = state_folder().ok_or_else(|| SealError {
            path: "plan.key".into(),
            why: "neither XDG_STATE_HOME nor HOME is set".to_owned(),
        })?;
        Self::open_at(folder.join("plan.key"))
    }

    /// The same, at this path.
    ///
    /// # Errors
    /// As [`Sealer::open`].
    pub fn open_at(path: Utf8PathBuf) -> Result<Self, SealError> {
        use std::os::unix::fs::PermissionsExt as _;
        let fail = |why: String| SealError { path: path.clone(), why };
        if !path.exists() {
            if let Some(parent) = path.parent() {
                use std::os::unix::fs::DirBuilderExt as _;
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
                made.map_err(|e| fail(format!("{parent}: {e}")))?;
            }
            write_private(&path, &rand::random::<[u8; 32]>()).map_err(|e| fail(e.to_string()))?;
        }
        // Whoever may write its folder may put another key in its place.
        if let Some(parent) = path.parent() {
            let owner = Owner::from(&fs_err::metadata(parent).map_err(|e| fail(e.to_string()))?);
            if let Some(Distrust { why, fix }) = distrust(parent, owner, &RunningUser::current()) {
                return Err(fail(format!("its folder is not safe: {why}; run `{fix}`")));
            }
        }
        let mode = fs_err::metadata(&path).map_err(|e| fail(e.to_string()))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(fail(
                "others may read it; run `chmod 600` on it, or remove it and plan again".to_owned(),
            ));
        }
        let bytes = fs_err::read(&path).map_err(|e| fail(e.to_string()))?;
        let key = <[u8; 32]>::try_from(bytes)
            .map_err(|_| fail("it has not 32 bytes; remove it and plan again".to_owned()))?;
        Ok(Self { key })
    }

    /// HMAC-SHA256 of the text, in hexadecimal.
    ///
    /// # Errors
    /// None in practice: HMAC takes keys of every size.
    pub fn seal(&self, text: &str) -> Result<String, SealError> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key)
            .map_err(|e| SealError { path: "plan.key".into(), why: e.to_string() })?;
        mac.update(text.as_bytes());
        Ok(converge_resource::to_hex(&mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once_and_must_be_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(dir.path().join("state/plan.key")).unwrap();
        let seal = |text: &str| Sealer::open_at(path.clone()).unwrap().seal(text).unwrap();
        assert_eq!(seal("s3cret"), seal("s3cret"));
        assert_ne!(seal("s3cret"), seal("s3cret "));
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Sealer::open_at(path.clone()).err().unwrap().to_string().contains("others may read it"));
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let folder = path.parent().unwrap();
        assert_eq!(fs_err::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        fs_err::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let open = Sealer::open_at(path.clone()).err().unwrap().to_string();
        assert!(open.contains("every user of this machine may write"), "{open}");
        fs_err::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        fs_err::write(&path, "short").unwrap();
        assert!(Sealer::open_at(path).err().unwrap().to_string().contains("32 bytes"));
    }

    /// The umask belongs to a whole process, so that this one is a process of its own.
    #[test]
    fn the_folder_of_a_new_key_is_private_whatever_the_umask_is() {
        use std::os::unix::fs::PermissionsExt as _;
        const PLACE: &str = "CONVERGE_TEST_SEAL_AT";
        if let Ok(path) = std::env::var(PLACE) {
            Sealer::open_at(Utf8PathBuf::from(path)).unwrap();
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state/converge");
        let own = std::env::current_exe().unwrap();
        let name = "seal::tests::the_folder_of_a_new_key_is_private_whatever_the_umask_is";
        let output = std::process::Command::new("sh")
            .args(["-c", "umask 000; exec \"$0\" --exact \"$1\""])
            .arg(own)
            .arg(name)
            .env(PLACE, folder.join("plan.key"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.join("plan.key")), 0o600);
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&dir.path().join("state")), 0o700, "a folder above it that was made with it");
    }
}
