//! `--report`: the page for a browser.

use crate::console::Console;
use crate::session::{Session, operator};
use camino::{Utf8Path, Utf8PathBuf};
use converge_engine::{ApplyReport, FleetPlan};
use converge_render::{About, Tone, html_report};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};

/// The place of a page.
pub enum PagePath {
    /// `--report`: this file.
    File(Utf8PathBuf),
    /// The setting `reports`: a file of the run's name in this folder.
    Folder(Utf8PathBuf),
}

impl PagePath {
    /// The file of the command line, else the folder of the settings.
    pub fn of(report: Option<Utf8PathBuf>, reports: Option<Utf8PathBuf>) -> Option<Self> {
        report.map(Self::File).or_else(|| reports.map(Self::Folder))
    }

    /// The file of a run's page; its folder is made.
    fn file(&self, run: &str) -> std::io::Result<Utf8PathBuf> {
        match self {
            Self::File(path) => Ok(path.clone()),
            Self::Folder(folder) => {
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                Ok(folder.join(format!("{run}.html")))
            }
        }
    }
}

/// The page of a run, when one is wanted.
pub struct Page {
    path: Option<PagePath>,
    about: About,
}

impl Page {
    /// At this place; what the page says about the run is known beforehand.
    pub fn new(path: Option<PagePath>, inventory: &str, session: &Session) -> Self {
        let engine = session.engine();
        let graph = engine.graph();
        let after = |role: &str| graph.requires(role).into_iter().map(str::to_owned).collect();
        let about = About {
            inventory: inventory.to_owned(),
            playbook: engine.playbook(),
            operator: operator(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            roles: graph.order().iter().map(|role| (role.clone(), after(role))).collect(),
        };
        Self { path, about }
    }

    /// Whether a page is wanted.
    pub fn wanted(&self) -> bool {
        self.path.is_some()
    }

    /// Writes the page. It shows configuration of hosts, so only its owner may read it. A failure to write it is reported at
    /// the end, after the results of the run.
    pub fn write(&self, plan: &FleetPlan, apply: Option<&ApplyReport>, console: &Console) {
        let Some(path) = &self.path else { return };
        let file = match path.file(&plan.id.to_string()) {
            Ok(file) => file,
            Err(error) => return console.not_written("the folder of the report", &error),
        };
        match put(&file, html_report(plan, apply, &self.about).as_bytes()) {
            Ok(()) => console.remark(Tone::Faint, "", &format!("The report is in {file}")),
            Err(error) => console.not_written(&format!("the report {file}"), &error),
        }
    }
}

/// Puts a new file at this path, whole or not at all: never through a link into another one. A pipe or a device is written to.
fn put(path: &Utf8Path, bytes: &[u8]) -> std::io::Result<()> {
    let there = std::fs::symlink_metadata(path).ok().map(|found| found.file_type());
    // Opening a pipe waits for a reader, as long as it takes; asked in this way it answers at once.
    let reader = there.filter(|sort| sort.is_fifo()).map(|_| {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)
    });
    let _reader = reader.transpose().map_err(|_| std::io::Error::other("it is a pipe that nobody reads"))?;
    if there.is_some_and(|sort| !sort.is_file() && !sort.is_symlink() && !sort.is_dir()) {
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    if there.is_some_and(|sort| sort.is_symlink()) {
        return Err(std::io::Error::other(
            "it is a symbolic link, which is not followed: remove it, or name its target",
        ));
    }
    let name = path.file_name().ok_or_else(|| std::io::Error::other("it names no file"))?;
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(bytes).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // Only the first error is reported.
        std::fs::remove_file(&temporary).ok();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_whole_private_and_no_way_into_another_file() {
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
        let elsewhere = tempfile::tempdir().unwrap();
        let pipe = Utf8Path::from_path(elsewhere.path()).unwrap().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(put(&pipe, b"x").unwrap_err().to_string().contains("nobody reads"));
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 2, "nothing else stays");
        put(Utf8Path::new("/dev/null"), b"x").unwrap();
    }
}
