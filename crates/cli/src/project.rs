//! From arguments to a loaded project.

use crate::args::SelectArgs;
use crate::console::Console;
use crate::failure::Failure;
use camino::{Utf8Path, Utf8PathBuf};
use converge_engine::ProjectName;
use converge_model::inventory::InventorySource;
use converge_model::{KindCatalog, KindSpec, LoadOptions, Moment, Project, SetVariable, parse_set};
use converge_syntax::Diagnostics;

/// All kinds that a user can write.
pub fn catalog() -> KindCatalog {
    let mut catalog = KindCatalog::new();
    for kind in converge_resources::KINDS {
        catalog.insert(kind.kind, KindSpec::of(kind));
    }
    catalog
}

/// The inventories of the command line: the plain argument first.
pub fn sources(target: Option<&str>, more: &[String]) -> Result<Vec<InventorySource>, Failure> {
    let sources: Vec<InventorySource> = target
        .into_iter()
        .chain(more.iter().map(String::as_str))
        .map(InventorySource::from_argument)
        .collect();
    if sources.is_empty() {
        let help = "name a file, a folder or hosts: `inventories/prod.yaml`, or `-i h1,h2,`; or set `inventory` in converge.toml (`converge settings`)";
        return Err(Failure::usage("no inventory is given", help));
    }
    Ok(sources)
}

/// Reads inventory, playbook and roles, and prints the warnings.
pub fn load(target: Option<&str>, select: &SelectArgs, console: &Console) -> Result<Project, Failure> {
    read(target, select, false, None, console)
}

/// Loads a project at the moment of a saved plan, so that it renders as it did then.
pub fn load_at(moment: Moment, select: &SelectArgs, console: &Console) -> Result<Project, Failure> {
    read(None, select, false, Some(moment), console)
}

/// Reads the inventory alone: all its hosts, whatever the playbook has.
pub fn load_inventory(
    target: Option<&str>,
    select: &SelectArgs,
    console: &Console,
) -> Result<Project, Failure> {
    read(target, select, true, None, console)
}

fn read(
    target: Option<&str>,
    select: &SelectArgs,
    inventory_only: bool,
    moment: Option<Moment>,
    console: &Console,
) -> Result<Project, Failure> {
    let mut complaints = Diagnostics::new();
    let set = select
        .set
        .iter()
        .filter_map(|text| complaints.take(parse_set(text).map_err(Diagnostics::from)))
        .collect::<Vec<_>>();
    let set = set
        .into_iter()
        .map(|(name, value)| set_variable(name, value))
        .collect::<Result<Vec<_>, Failure>>()?;
    if let Some(missing) = select.roles_path.iter().find(|dir| !dir.is_dir()) {
        let help = "correct the roles path: --roles-path DIR, or the setting `roles_path`";
        return Err(Failure::usage(format!("the roles path names `{missing}`, which is not a folder"), help));
    }
    let options = LoadOptions {
        inventories: sources(target, &select.inventories)?,
        playbook: select.playbook.clone(),
        plays: None,
        roles_path: select.roles_path.clone(),
        set,
        limit: select.limit.clone(),
        roles: select.roles.clone(),
        start_at: select.start_at.clone(),
        tags: select.tags.clone(),
        skip_tags: select.skip_tags.clone(),
        catalog: catalog(),
        inventory_only,
        vault: select.vault.vault()?,
        moment,
        refuse_empty: !select.allow_empty,
    };
    match Project::load(&options) {
        Ok(project) if !complaints.has_errors() => {
            refuse_typed_secrets(&project, &options.set)?;
            if !project.warnings().is_empty() {
                console.complain(project.warnings());
            }
            Ok(project)
        }
        Ok(_) => Err(complaints.into()),
        Err(more) => {
            complaints.extend(more);
            Err(complaints.into())
        }
    }
}

/// The arguments with paths that mean the same from another folder.
pub fn relative_to(folder: &Utf8Path, target: Option<&str>, select: &SelectArgs) -> SelectArgs {
    let mut all = select.clone();
    let target = target.map(str::to_owned);
    all.inventories = target
        .into_iter()
        .chain(std::mem::take(&mut all.inventories))
        .map(|text| match InventorySource::from_argument(&text) {
            InventorySource::Path(path) => folder.join(path).into_string(),
            InventorySource::HostList(list) => list,
        })
        .collect();
    all.playbook = all.playbook.map(|p| folder.join(p));
    all.roles_path = all.roles_path.iter().map(|dir| folder.join(dir)).collect();
    all.vault = all.vault.relative_to(folder);
    for pair in &mut all.set {
        if let Some((name, file)) = pair.split_once("=@").filter(|(name, _)| !name.contains('=')) {
            *pair = format!("{name}=@{}", folder.join(file));
        }
    }
    all
}

/// The folder of the project: that of the playbook, or the one above it where the playbook lies in `playbooks`.
pub fn folder(project: &Project) -> Utf8PathBuf {
    let playbook = real(project.playbook().path.as_str());
    let folder = playbook.parent().unwrap_or(Utf8Path::new("/"));
    let top =
        if folder.file_name() == Some("playbooks") { folder.parent().unwrap_or(folder) } else { folder };
    top.to_owned()
}

fn real(path: &str) -> Utf8PathBuf {
    let path = Utf8Path::new(path);
    path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned())
}

/// The name of the project in records: playbook and inventories by their paths below its folder, which are the same in every checkout and on
/// every controller. What lies outside of it has its absolute path.
pub fn scope(project: &Project, inventories: &str) -> ProjectName {
    let top = folder(project);
    let below =
        |path: Utf8PathBuf| path.strip_prefix(&top).map(Utf8Path::to_owned).unwrap_or(path).into_string();
    ProjectName {
        inventory: inventories.split(' ').map(|path| below(real(path))).collect::<Vec<_>>().join(" "),
        playbook: below(real(project.playbook().path.as_str())),
    }
}

/// The variable of `--set NAME=VALUE`: with the text of a file for `@FILE`, of standard input for `@-`, without the line end at its end.
fn set_variable(name: String, value: String) -> Result<SetVariable, Failure> {
    let Some(file) = value.strip_prefix('@') else {
        return Ok(SetVariable { name, text: value, is_literal: false });
    };
    let text = match file {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|e| Failure::usage(e.to_string(), "pipe the value in"))?,
        file => fs_err::read_to_string(file).map_err(|e| {
            Failure::usage(e.to_string(), "name a text file that can be read: --set NAME=@FILE")
        })?,
    };
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text).to_owned();
    Ok(SetVariable { name, text, is_literal: true })
}

/// A typed value shows in the list of processes, in the history of the shell, and in a saved plan.
fn refuse_typed_secrets(project: &Project, set: &[SetVariable]) -> Result<(), Failure> {
    let mut typed = set.iter().filter(|given| !given.is_literal).map(|given| &given.name);
    match typed.find(|name| project.roles().any(|role| role.is_sensitive(name))) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(
            format!("`{name}` is sensitive, and values of `--set` are visible in the list of processes"),
            format!(
                "write it into a file that only you can read: --set {name}=@FILE, or pipe it in: --set {name}=@-"
            ),
        )),
    }
}
