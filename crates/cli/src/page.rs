//! `--report`: the page for a browser.

use crate::console::Console;
use crate::output_file::put;
use crate::session::{CommandSession, operator};
use camino::Utf8PathBuf;
use converge_engine::{ApplyReport, FleetPlan};
use converge_render::{About, Tone, html_report};
use std::os::unix::fs::DirBuilderExt;

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
    pub fn new(path: Option<PagePath>, inventory: &str, session: &CommandSession) -> Self {
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
