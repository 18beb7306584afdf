//! Roles and their scenarios on disk.

use crate::scenario::Scenario;
use camino::{Utf8Path, Utf8PathBuf};
use converge_syntax::{Diagnostic, Diagnostics, Span};

/// One scenario of one role: the unit that is run and reported.
#[derive(Clone, Debug)]
pub struct Case {
    /// The role.
    pub role: String,
    /// The folder that holds the role.
    pub dir: Utf8PathBuf,
    /// Its preconditions and expectations.
    pub scenario: Scenario,
}

impl Case {
    /// `role/scenario`
    pub fn name(&self) -> String {
        format!("{}/{}", self.role, self.scenario.name)
    }

    /// The role, and those that the scenario applies with it.
    pub fn tested_roles(&self) -> impl Iterator<Item = &str> {
        let with = self.scenario.with.iter().map(|name| name.value.as_str());
        std::iter::once(self.role.as_str()).chain(with)
    }

    /// Whether the scenario needs a cluster of its hosts.
    pub fn is_whole(&self) -> bool {
        self.scenario.cluster.as_ref().is_some_and(|spec| spec.whole.is_some())
    }

    /// The folder that holds the role and the roles that it requires.
    pub fn roles_folder(&self) -> Utf8PathBuf {
        match self.dir.parent() {
            Some(parent) if !parent.as_str().is_empty() => parent.to_owned(),
            _ => Utf8PathBuf::from("."),
        }
    }
}

/// The folders of all roles below a folder of roles, sorted.
///
/// # Errors
/// There is no such folder, or no role in it.
pub fn find_roles(folder: &Utf8Path) -> Result<Vec<Utf8PathBuf>, Diagnostics> {
    let entries = folder.read_dir_utf8().map_err(|e| {
        Diagnostic::error("no-roles", format!("cannot read the folder `{folder}`: {e}"))
            .help("run it where `roles/` is, or name the folder of a role")
    })?;
    let mut roles: Vec<Utf8PathBuf> = entries
        .filter_map(Result::ok)
        .map(|e| e.path().to_owned())
        .filter(|p| p.join("role.yaml").is_file())
        .collect();
    roles.sort();
    if roles.is_empty() {
        return Err(Diagnostic::error("no-roles", format!("no folder in `{folder}` has a role.yaml")).into());
    }
    Ok(roles)
}

/// The scenarios of the role in this folder, by name; without scenarios one with the defaults.
///
/// # Errors
/// There is no role, or a scenario cannot be read: everything that is wrong.
pub fn role_at(dir: &Utf8Path) -> Result<Vec<Case>, Diagnostics> {
    let dir = Utf8PathBuf::from(dir.as_str().trim_end_matches('/'));
    let role_file = dir.join("role.yaml");
    let name = dir.file_name().map(str::to_owned);
    let Some(role) = name.filter(|_| role_file.is_file()) else {
        return Err(Diagnostic::error("unknown-role", format!("there is no role in `{dir}`"))
            .at(&Span::nowhere(role_file.as_str()))
            .help("name the folder of a role: `converge test roles/NAME`")
            .into());
    };
    let mut files: Vec<Utf8PathBuf> = dir
        .join("tests")
        .read_dir_utf8()
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|e| e.path().to_owned())
        .filter(|p| p.is_file() && matches!(p.extension(), Some("yaml" | "yml")))
        .collect();
    files.sort();
    let mut diags = Diagnostics::new();
    let mut scenarios: Vec<Scenario> = files.iter().filter_map(|f| Scenario::load(f, &mut diags)).collect();
    if diags.has_errors() {
        return Err(diags);
    }
    if scenarios.is_empty() {
        scenarios.push(Scenario::defaults(&role_file));
    }
    let case = |scenario| Case { role: role.clone(), dir: dir.clone(), scenario };
    Ok(scenarios.into_iter().map(case).collect())
}
