//! `--report`: the page for a browser.

use crate::console::Console;
use crate::failure::Failure;
use crate::session::{Session, operator};
use camino::Utf8PathBuf;
use converge_engine::{ApplyReport, FleetPlan};
use converge_render::{About, Tone, html_report};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

/// The page of a run, when one is wanted.
pub struct Page {
    path: Option<Utf8PathBuf>,
    about: About,
}

impl Page {
    /// For this file; what the page says about the run is known beforehand.
    pub fn new(path: Option<Utf8PathBuf>, inventory: &str, session: &Session) -> Self {
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

    /// Is there to be a page?
    pub fn wanted(&self) -> bool {
        self.path.is_some()
    }

    /// Writes it. It shows configuration of hosts, so only its owner may read it.
    pub fn write(
        &self,
        plan: &FleetPlan,
        apply: Option<&ApplyReport>,
        console: &Console,
    ) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        let page = html_report(plan, apply, &self.about);
        let failed =
            |e: std::io::Error| Failure::failed(format!("the report {path} could not be written: {e}"));
        let open = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        open.and_then(|mut file| file.write_all(page.as_bytes())).map_err(failed)?;
        console.remark(Tone::Faint, "", &format!("The report is in {path}"));
        Ok(())
    }
}
