//! Loads a project: reads all files, then checks everything, and reports all errors together.

mod clusters;
mod hosts;
mod roles;

use clusters::{known_clusters, uses};
use hosts::{check_hosts, in_maintenance, limited, unused_tags, vault_error};
use roles::{asked_roles, earlier_names, load_roles, required_roles, role_files, role_params, start_at};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use converge_store::trust::Owner;
use converge_syntax::{Diagnostic, Diagnostics, Severity, Span};
use indexmap::IndexMap;

use crate::clusters::{CLUSTER, Clusters};
use crate::declare::tag_filter;
use crate::empty;
use crate::fields::{is_template, nearest};
use crate::files::Files;
use crate::inventory::{CONNECTION_VARIABLES, Inventory, InventorySource};
use crate::loaded::{HostErrors, Inner};
use crate::needed_files;
use crate::options::LoadOptions;
use crate::play::Playbook;
use crate::role::Role;
use crate::scope::SharedState;
use crate::set_expressions;
use crate::stray;
use crate::vars::{SET, SetVars};

/// The variable that takes a host out.
const MAINTENANCE: &str = "maintenance";
const DEFAULT_PLAYBOOK: &str = "playbooks/site.yaml";

pub(crate) fn load(options: &LoadOptions) -> Result<Inner, Diagnostics> {
    let mut diags = Diagnostics::new();
    let ((inventory, mut warnings), playbook_path) = match inventory_and_path(options) {
        Err(_) if options.inventory_only => {
            (Inventory::read(&options.inventories, None, &options.vault)?, Utf8PathBuf::from("."))
        }
        found => found?,
    };
    let Some(playbook) = read_playbook(options, &playbook_path, &mut diags) else { return Err(diags) };
    let set = SetVars::read(&options.set, &mut diags);
    let (roles, broken) = load_roles(&playbook, &options.catalog, &mut diags);
    required_roles(&playbook, &roles, &mut diags);
    earlier_names(&roles, &mut diags);
    for role in roles.values() {
        role_files(role, &options.catalog, &mut diags);
    }
    role_params(&playbook, &roles, &broken, &mut diags);
    set_expressions::not_set_elsewhere(&playbook, &inventory, &set, &roles, &mut diags);
    asked_roles(options, &playbook, &mut diags);
    let start_at = options.start_at.as_deref().and_then(|at| start_at(at, &roles, &mut diags));
    // A variable of any host is known, so hosts outside the plays count too.
    set_is_known(&set, &inventory, &playbook, &roles, &broken, &mut diags);

    let secrets = roles.values().flat_map(|role| role.inputs.values());
    let secrets = secrets.filter(|input| input.sensitive).map(|input| input.name.clone()).collect();
    let mut errors = HostErrors::new();
    let mut clusters = Clusters::default();
    let mut hosts =
        uses(&playbook, &inventory, &set, &roles, &mut clusters, (&mut errors, &mut diags, &mut warnings));
    for name in clusters.names().filter(|name| inventory.host(name).is_some()) {
        let message = format!("`{name}` is the name of a host and of a cluster");
        diags.push(Diagnostic::error("two-things", message).help(format!("set `{CLUSTER}` to another name")));
    }
    if options.inventory_only {
        clusters = known_clusters(&playbook_path, &inventory, &set, &options.catalog);
        hosts.extend(inventory.hosts().map(|host| (host.name().to_owned(), Vec::new())));
    }
    let selected = limited(options, &inventory, &hosts, &clusters, &mut diags, &mut warnings);
    let unread = needed_files::problems(options, &inventory, &playbook, &roles, (&selected, &clusters));
    let (wrong, odd): (Vec<_>, Vec<_>) = unread.into_iter().partition(|d| d.severity == Severity::Error);
    diags.extend(wrong);
    warnings.extend(odd);
    if options.refuse_empty {
        let all: Vec<&str> = hosts.keys().map(String::as_str).collect();
        empty::refuse(options, &inventory, &playbook, (&all, &selected), &mut diags, &mut warnings);
    }
    stray::all(&inventory, &roles, broken.is_empty(), &mut warnings);
    let playbook_dir = folder_of(&playbook_path);
    let playbook_dir = playbook_dir.canonicalize_utf8().unwrap_or_else(|_| playbook_dir.to_owned());
    let mut inner = Inner {
        shared: SharedState::new(
            inventory,
            set,
            playbook_dir.as_str(),
            secrets,
            &options.vault,
            options.moment.clone(),
        ),
        catalog: options.catalog.clone(),
        playbook,
        roles,
        filter: tag_filter(&options.tags, &options.skip_tags),
        only_roles: options.roles.clone(),
        start_at,
        hosts,
        clusters,
        selected,
        warnings: Diagnostics::new(),
        errors: HostErrors::new(),
        maintenance: BTreeSet::new(),
        needs: BTreeMap::new(),
        files: Files::new(&options.vault),
        hostvars: Mutex::default(),
    };
    // A role with errors of its own would bring follow-up diagnostics about every host.
    for used in inner.hosts.values_mut() {
        used.retain(|used| !broken.contains(&used.role.name));
    }
    let inner = Arc::new(inner);
    let needs = check_hosts(&inner, &mut errors);
    let maintenance = in_maintenance(&inner, &mut diags);
    unused_tags(options, &inner, &mut diags, &mut warnings);
    writable_by_all(options, &inner.playbook, &mut warnings);
    let warnings = judged(diags, warnings, &errors, &inner.selected)?;
    match Arc::try_unwrap(inner) {
        Ok(inner) => Ok(Inner { warnings, errors, maintenance, needs, ..inner }),
        // The threads of the check have ended; nothing else holds it.
        Err(_) => Err(Diagnostic::error("internal", "the project is still in use").into()),
    }
}

/// The playbook of a project, with the folders of its roles; without plays where only the inventory is asked for.
fn read_playbook(options: &LoadOptions, path: &Utf8Path, diags: &mut Diagnostics) -> Option<Playbook> {
    let mut playbook = if options.inventory_only {
        Playbook { path: path.to_owned(), plays: Vec::new(), role_path: Playbook::role_path(path) }
    } else if let Some(given) = &options.plays {
        Playbook::from_node(path, &given.plays, given.role_path.clone(), diags)?
    } else {
        Playbook::load(path, diags)?
    };
    playbook.role_path.extend(&options.roles_path);
    Some(playbook)
}

/// The warnings of a project that can be used. Errors of single hosts come beside those of the files, where there are any.
fn judged(
    mut diags: Diagnostics,
    mut warnings: Diagnostics,
    errors: &HostErrors,
    selected: &[String],
) -> Result<Diagnostics, Diagnostics> {
    if diags.has_errors() {
        for more in errors.values() {
            diags.extend(more.clone());
        }
        return Err(unique(diags));
    }
    if let Some(problem) = vault_error(errors, selected) {
        return Err(problem.into());
    }
    warnings.extend(diags);
    Ok(unique(warnings))
}

/// Each diagnostic once, in the order in which they were found.
fn unique(diags: Diagnostics) -> Diagnostics {
    let mut observed = HashSet::new();
    diags.into_iter().filter(|diagnostic| observed.insert(diagnostic.to_string())).collect()
}

type LoadedInventory = (Inventory, Diagnostics);

/// Whoever may change the files of a project becomes root on its hosts.
fn writable_by_all(options: &LoadOptions, playbook: &Playbook, warnings: &mut Diagnostics) {
    let files = options.inventories.iter().filter_map(|source| match source {
        InventorySource::Path(path) => Some(path.clone()),
        InventorySource::HostList(_) => None,
    });
    let folders =
        [playbook.path.clone()].into_iter().chain(files).flat_map(|file| [folder_of(&file).to_owned(), file]);
    let mut observed: Vec<Utf8PathBuf> = Vec::new();
    for path in folders.chain(playbook.role_path.dirs.iter().cloned()) {
        // A group that shares a project is no surprise.
        let open = std::fs::metadata(&path).is_ok_and(|found| Owner::from(&found).is_open_to_all());
        if open && !observed.contains(&path) {
            let message = format!(
                "every user of this machine may change `{path}`, and with it what becomes root on the hosts"
            );
            let fix = format!("chmod o-w {path}");
            warnings.push(Diagnostic::warning("world-writable", message).help(fix));
            observed.push(path);
        }
    }
}

/// The inventory, and the path of the playbook that it belongs to.
fn inventory_and_path(options: &LoadOptions) -> Result<(LoadedInventory, Utf8PathBuf), Diagnostics> {
    if let Some(given) = &options.plays {
        let inventory = Inventory::read(&options.inventories, None, &options.vault)?;
        return Ok((inventory, given.path.clone()));
    }
    if let Some(path) = &options.playbook {
        return Ok((
            Inventory::read(&options.inventories, Some(folder_of(path)), &options.vault)?,
            path.clone(),
        ));
    }
    // Variables beside the playbook are read only when it is known which one that is.
    let (inventory, _) = Inventory::read(&options.inventories, None, &options.vault)?;
    let path = playbook_path(options, &inventory)?;
    Ok((Inventory::read(&options.inventories, Some(folder_of(&path)), &options.vault)?, path))
}

fn playbook_path(options: &LoadOptions, inventory: &Inventory) -> Result<Utf8PathBuf, Diagnostics> {
    // Of an inventory that is a link, the project is where its file is.
    let real = |source: &InventorySource| match source {
        InventorySource::Path(path) if path.is_symlink() => {
            let real = path.canonicalize_utf8().ok()?;
            InventorySource::Path(real).directory()
        }
        source => source.directory(),
    };
    let folders: Vec<Utf8PathBuf> = options.inventories.iter().filter_map(real).collect();
    let roots = folders.iter().map(|folder| match folder.parent() {
        // Above `..` there is another one.
        _ if matches!(folder.components().next_back(), Some(Utf8Component::ParentDir)) => folder.join(".."),
        Some(parent) if parent.as_str().is_empty() => Utf8PathBuf::from("."),
        Some(parent) if folder.as_str() != "." => parent.to_owned(),
        _ => folder.join(".."),
    });
    let named = inventory
        .hosts()
        .find_map(|host| inventory.merged_vars(host.name()).swap_remove("converge_playbook"));
    let (wanted, span, bases): (String, Option<Span>, Vec<Utf8PathBuf>) = match named {
        Some(candidate) => {
            let Some(text) = candidate.node.as_str().filter(|text| !is_template(text)) else {
                return Err(Diagnostic::error("wrong-type", "`converge_playbook` must be a plain path")
                    .at(candidate.node.head_span())
                    .into());
            };
            let bases = folders.iter().cloned().chain(roots).chain([Utf8PathBuf::from(".")]).collect();
            (text.to_owned(), Some(candidate.node.span.clone()), bases)
        }
        None => {
            // An inventory may lie in the project's own folder, and the user somewhere below it.
            let bases = [Utf8PathBuf::from(".")].into_iter().chain(roots).chain(folders.iter().cloned());
            (DEFAULT_PLAYBOOK.to_owned(), None, bases.collect())
        }
    };
    let mut tried: Vec<Utf8PathBuf> = Vec::new();
    for base in bases {
        let path = if base.as_str() == "." { Utf8PathBuf::from(&wanted) } else { base.join(&wanted) };
        if path.is_file() {
            return Ok(path);
        }
        if !tried.contains(&path) {
            tried.push(path);
        }
    }
    let other = tried.iter().map(|path| path.with_extension("yml")).find(|path| path.is_file());
    if let Some(other) = other {
        let name = tried.first().and_then(|path| path.file_name()).unwrap_or_default();
        let help = format!("`{other}` is there: rename it to {name}, or name it with --playbook");
        return Err(Diagnostic::error("no-playbook", "there is no playbook").help(help).into());
    }
    let places: Vec<String> = tried.iter().map(|path| format!("`{path}`")).collect();
    let mut diagnostic = Diagnostic::error("no-playbook", "there is no playbook")
        .help(format!("name one with --playbook FILE; looked for {}", places.join(", ")));
    if let Some(span) = span {
        diagnostic = diagnostic.label(&span, "named here");
    }
    Err(diagnostic.into())
}

/// A misspelt `--set` would otherwise change nothing, in silence.
fn set_is_known(
    set: &SetVars,
    inventory: &Inventory,
    playbook: &Playbook,
    roles: &IndexMap<String, Arc<Role>>,
    broken: &BTreeSet<String>,
    diags: &mut Diagnostics,
) {
    if set.names().next().is_none() || !broken.is_empty() {
        return;
    }
    let mut known: BTreeSet<String> = roles.values().flat_map(|role| role.inputs.keys().cloned()).collect();
    // `set_expressions::not_set_elsewhere` reports these.
    known.extend(roles.values().flat_map(|role| role.vars.keys().cloned()));
    known.extend(playbook.plays.iter().flat_map(|play| &play.vars).map(|var| var.name.clone()));
    known.extend(inventory.hosts().flat_map(|host| inventory.host_vars(host.name())).map(|found| found.name));
    known.extend(CONNECTION_VARIABLES.map(str::to_owned));
    for name in set.names().filter(|name| !known.contains(*name)) {
        diags.push(
            Diagnostic::error("unknown-input", format!("nothing has the variable `{name}`"))
                .at(&Span::nowhere(SET))
                .help(nearest(name, known.iter().map(String::as_str))),
        );
    }
}

/// The folder of a path; `.` for a bare name.
fn folder_of(path: &Utf8Path) -> &Utf8Path {
    path.parent().filter(|dir| !dir.as_str().is_empty()).unwrap_or_else(|| Utf8Path::new("."))
}
