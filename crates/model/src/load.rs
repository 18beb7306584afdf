//! Loads a project: reads all files, then checks everything, and reports all errors together.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use converge_syntax::{Diagnostic, Diagnostics, Severity, Span, Value};
use indexmap::IndexMap;

use crate::catalog::KindCatalog;
use crate::clusters::{CLUSTER, Clusters};
use crate::declare::{Registered, tag_filter};
use crate::empty;
use crate::expressions;
use crate::fields::{is_template, nearest, wrong_type};
use crate::files::{Files, locate};
use crate::inventory::{CONNECTION_VARIABLES, Inventory, InventorySource};
use crate::local_mistakes;
use crate::needed_files;
use crate::play::{Play, Playbook, RoleRef};
use crate::project::{HostErrors, Inner, LoadOptions, Needs, Project, Used, folder_of};
use crate::resolve::Resolution;
use crate::role::Role;
use crate::scope::{Facts, Shared};
use crate::stray;
use crate::vars::{Layers, SET, SetVars, host_layers, role_layers};
use converge_resource::Place;

/// The variable that takes a host out.
const MAINTENANCE: &str = "maintenance";
/// The variables that only an entry host of a cluster has.
const KUBECONFIGS: [&str; 2] = ["converge_kubeconfig", "converge_kubeconfig_on_host"];
const DEFAULT_PLAYBOOK: &str = "playbooks/site.yaml";

pub(crate) fn load(options: &LoadOptions) -> Result<Project, Diagnostics> {
    let mut diags = Diagnostics::new();
    let ((inventory, mut warnings), playbook_path) = match inventory_and_path(options) {
        Err(_) if options.inventory_only => {
            (Inventory::read(&options.inventories, None, &options.vault)?, Utf8PathBuf::from("."))
        }
        found => found?,
    };
    let playbook = if options.inventory_only {
        let role_path = Playbook::role_path(&playbook_path);
        Some(Playbook { path: playbook_path.clone(), plays: Vec::new(), role_path })
    } else if let Some(given) = &options.plays {
        Playbook::from_node(&playbook_path, &given.plays, given.role_path.clone(), &mut diags)
    } else {
        Playbook::load(&playbook_path, &mut diags)
    };
    let Some(mut playbook) = playbook else {
        return Err(diags);
    };
    playbook.role_path.extend(&options.roles_path);
    let set = SetVars::read(&options.set, &mut diags);
    let (roles, broken) = load_roles(&playbook, &options.catalog, &mut diags);
    required_roles(&playbook, &roles, &mut diags);
    earlier_names(&roles, &mut diags);
    for role in roles.values() {
        role_files(role, &options.catalog, &mut diags);
    }
    role_params(&playbook, &roles, &broken, &mut diags);
    expressions::not_set_elsewhere(&playbook, &inventory, &set, &roles, &mut diags);
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
    roles.values().for_each(|role| stray::role_files(role, &mut warnings));
    stray::reserved_names(&inventory, &mut warnings);
    if broken.is_empty() {
        stray::misspelt_variables(&inventory, &roles, &mut warnings);
    }
    let playbook_dir = folder_of(&playbook_path);
    let playbook_dir = playbook_dir.canonicalize_utf8().unwrap_or_else(|_| playbook_dir.to_owned());
    let mut inner = Inner {
        shared: Shared::new(
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
    // A role with errors of its own would bring follow-up complaints about every host.
    for used in inner.hosts.values_mut() {
        used.retain(|used| !broken.contains(&used.role.name));
    }
    let inner = Arc::new(inner);
    let needs = check_hosts(&inner, &mut errors);
    let maintenance = in_maintenance(&inner, &mut diags);
    unused_tags(options, &inner, &mut diags, &mut warnings);
    writable_by_all(options, &inner.playbook, &mut warnings);
    if diags.has_errors() {
        for more in errors.into_values() {
            diags.extend(more);
        }
        return Err(unique(diags));
    }
    if let Some(problem) = local_mistakes::vault_error(&errors, &inner.selected) {
        return Err(problem.into());
    }
    warnings.extend(diags);
    let warnings = unique(warnings);
    match Arc::try_unwrap(inner) {
        Ok(inner) => Ok(Project(Arc::new(Inner { warnings, errors, maintenance, needs, ..inner }))),
        // The threads of the check have ended; nothing else holds it.
        Err(_) => Err(Diagnostic::error("internal", "the project is still in use").into()),
    }
}

/// Each complaint once, in the order in which they were found.
fn unique(diags: Diagnostics) -> Diagnostics {
    let mut seen = HashSet::new();
    diags.into_iter().filter(|diagnostic| seen.insert(diagnostic.to_string())).collect()
}

type Loaded = (Inventory, Diagnostics);

/// The inventory, and the path of the playbook that it belongs to.
/// Whoever may change the files of a project becomes root on its hosts.
fn writable_by_all(options: &LoadOptions, playbook: &Playbook, warnings: &mut Diagnostics) {
    use std::os::unix::fs::MetadataExt as _;
    let files = options.inventories.iter().filter_map(|source| match source {
        InventorySource::Path(path) => Some(path.clone()),
        InventorySource::HostList(_) => None,
    });
    let folders =
        [playbook.path.clone()].into_iter().chain(files).flat_map(|file| [folder_of(&file).to_owned(), file]);
    let mut seen: Vec<Utf8PathBuf> = Vec::new();
    for path in folders.chain(playbook.role_path.dirs.iter().cloned()) {
        let open = std::fs::metadata(&path).is_ok_and(|found| found.mode() & 0o002 != 0);
        if open && !seen.contains(&path) {
            let message = format!(
                "every user of this machine may change `{path}`, and with it what becomes root on the hosts"
            );
            let fix = format!("chmod o-w {path}");
            warnings.push(Diagnostic::warning("world-writable", message).help(fix));
            seen.push(path);
        }
    }
}

fn inventory_and_path(options: &LoadOptions) -> Result<(Loaded, Utf8PathBuf), Diagnostics> {
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

/// The roles that the playbook names, and the names of those with errors.
fn load_roles(
    playbook: &Playbook,
    catalog: &KindCatalog,
    diags: &mut Diagnostics,
) -> (IndexMap<String, Arc<Role>>, BTreeSet<String>) {
    let path = &playbook.role_path;
    let mut roles = IndexMap::new();
    let mut broken = BTreeSet::new();
    for used in playbook.plays.iter().flat_map(|play| &play.roles) {
        let name = used.role.value.as_str();
        if roles.contains_key(name) {
            continue;
        }
        let dir = match path.find(&used.role) {
            Ok(dir) => dir,
            Err(problem) => {
                diags.push(problem);
                broken.insert(name.to_owned());
                continue;
            }
        };
        let mut found = Diagnostics::new();
        let role = Role::load(name, &dir, catalog, &mut found);
        if found.has_errors() || role.is_none() {
            broken.insert(name.to_owned());
        }
        diags.extend(found);
        if let Some(role) = role {
            roles.insert(name.to_owned(), Arc::new(role));
        }
    }
    (roles, broken)
}

/// An earlier name of a role (`renamed_from`) must not be the name of another role.
fn earlier_names(roles: &IndexMap<String, Arc<Role>>, diags: &mut Diagnostics) {
    for role in roles.values() {
        for earlier in role.renamed_from.iter().filter(|earlier| roles.contains_key(&earlier.value)) {
            let message =
                format!("`{}` was renamed from `{}`, which is still in use", role.name, earlier.value);
            diags.push(
                Diagnostic::error("still-in-use", message)
                    .label(&earlier.span, "a role of the playbook bears this name")
                    .help("take the one or the other out: what was made under that name can have one owner alone"),
            );
        }
    }
}

/// A required role must be somewhere in the playbook.
fn required_roles(playbook: &Playbook, roles: &IndexMap<String, Arc<Role>>, diags: &mut Diagnostics) {
    let used: BTreeSet<&str> =
        playbook.plays.iter().flat_map(|play| &play.roles).map(|used| used.role.value.as_str()).collect();
    let path = &playbook.role_path;
    for role in roles.values() {
        for required in role.requires.iter().filter(|required| !used.contains(required.value.as_str())) {
            match path.find(required) {
                Err(problem) => diags.push(problem),
                Ok(_) => {
                    let name = &required.value;
                    let at = playbook
                        .plays
                        .iter()
                        .flat_map(|play| &play.roles)
                        .find(|r| r.role.value == role.name);
                    let mut diagnostic = Diagnostic::error(
                        "missing-role",
                        format!("the role `{}` requires `{name}`, which is in no play", role.name),
                    )
                    .label(&required.span, "required here");
                    if let Some(at) = at {
                        diagnostic = diagnostic.label(&at.role.span, format!("`{}` is used here", role.name));
                    }
                    diags.push(diagnostic.help(format!("add `{name}` to the `roles` of a play")));
                }
            }
        }
    }
}

/// Files that are named without a template must be there.
fn role_files(role: &Role, catalog: &KindCatalog, diags: &mut Diagnostics) {
    for item in role.items() {
        let Some(spec) = catalog.get(&item.kind.value) else {
            continue;
        };
        for (name, load) in spec.loads() {
            let Some(value) = item.params.get(name) else {
                continue;
            };
            if let Some(text) = value.as_str().filter(|text| !is_template(text))
                && let Err(problem) = locate(role, load, text, &value.span)
            {
                diags.push(problem);
            }
        }
    }
}

/// Values of a role entry must be inputs of the role.
fn role_params(
    playbook: &Playbook,
    roles: &IndexMap<String, Arc<Role>>,
    broken: &BTreeSet<String>,
    diags: &mut Diagnostics,
) {
    for used in playbook.plays.iter().flat_map(|play| &play.roles) {
        let Some(role) = roles.get(&used.role.value).filter(|role| !broken.contains(&role.name)) else {
            continue;
        };
        let taken = |name: &String| role.inputs.contains_key(name) || role.vars.contains_key(name);
        for var in used.vars.iter().filter(|var| !taken(&var.name)) {
            let help = if role.inputs.is_empty() {
                format!("the role `{}` has no inputs", role.name)
            } else {
                nearest(&var.name, role.inputs.keys().map(String::as_str))
            };
            diags.push(
                Diagnostic::error(
                    "unknown-input",
                    format!("the role `{}` has no input `{}`", role.name, var.name),
                )
                .label(&var.key, "not known there")
                .help(help),
            );
        }
    }
}

fn asked_roles(options: &LoadOptions, playbook: &Playbook, diags: &mut Diagnostics) {
    let names: BTreeSet<&str> =
        playbook.plays.iter().flat_map(|play| &play.roles).map(|used| used.role.value.as_str()).collect();
    for asked in options.roles.iter().filter(|asked| !names.contains(asked.as_str())) {
        diags.push(
            Diagnostic::error("unknown-role", format!("no play of {} has the role `{asked}`", playbook.path))
                .at(&Span::nowhere("--role"))
                .help(nearest(asked, names.iter().copied())),
        );
    }
}

/// `ROLE` or `ROLE/ITEM`, of the playbook's roles.
fn start_at(
    text: &str,
    roles: &IndexMap<String, Arc<Role>>,
    diags: &mut Diagnostics,
) -> Option<(String, Option<String>)> {
    let (name, item) = text.split_once('/').map_or((text, None), |(role, item)| (role, Some(item)));
    let Some(role) = roles.get(name) else {
        diags.push(
            Diagnostic::error("unknown-role", format!("the playbook has no role `{name}`"))
                .at(&Span::nowhere("--start-at"))
                .help(nearest(name, roles.keys().map(String::as_str))),
        );
        return None;
    };
    let Some(item) = item else {
        return Some((name.to_owned(), None));
    };
    let Some(found) = role.resources.iter().find(|i| i.is_called(item)) else {
        diags.push(
            Diagnostic::error("unknown-name", format!("the role `{name}` has no resource `{item}`"))
                .at(&Span::nowhere("--start-at"))
                .help(nearest(item, role.resources.iter().flat_map(|i| i.references()))),
        );
        return None;
    };
    Some((name.to_owned(), Some(found.name.value.clone())))
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
    // `expressions::not_set_elsewhere` reports these.
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

/// The hosts of the plays and the roles of each. A role that a host has twice is one, where both uses agree.
fn uses(
    playbook: &Playbook,
    inventory: &Inventory,
    set: &SetVars,
    roles: &IndexMap<String, Arc<Role>>,
    clusters: &mut Clusters,
    (errors, diags, warnings): (&mut HostErrors, &mut Diagnostics, &mut Diagnostics),
) -> IndexMap<String, Vec<Used>> {
    let mut hosts: IndexMap<String, Vec<Used>> = IndexMap::new();
    for play in &playbook.plays {
        let selection = match inventory.select(&play.hosts) {
            Ok(selection) => selection,
            Err(more) => {
                diags.extend(more);
                continue;
            }
        };
        warnings.extend(selection.warnings);
        for host in selection.hosts {
            if play
                .roles
                .iter()
                .all(|used| roles.get(&used.role.value).is_none_or(|r| r.scope == Place::Host))
            {
                hosts.entry(host.clone()).or_default();
            }
            for (index, used) in play.roles.iter().enumerate() {
                let Some(role) = roles.get(&used.role.value) else {
                    continue;
                };
                let holder = match role.scope {
                    Place::Host => host.clone(),
                    Place::Cluster => {
                        let name = Clusters::name_of(inventory, set, &host);
                        clusters.add(&name, &host);
                        name
                    }
                };
                let mine = hosts.entry(holder).or_default();
                let mut tags = play.tags.clone();
                tags.extend(used.tags.iter().filter(|tag| !play.tags.contains(tag)).cloned());
                let Some(before) = mine.iter_mut().find(|other| other.role.name == role.name) else {
                    mine.push(Used { play: play.index, index, role: role.clone(), tags });
                    continue;
                };
                let earlier =
                    playbook.plays.get(before.play).and_then(|p| Some((p, p.roles.get(before.index)?)));
                let Some(earlier) = earlier else {
                    continue;
                };
                match differ(inventory, set, &host, role, earlier, (play, used)) {
                    None => {
                        let new: Vec<String> =
                            tags.into_iter().filter(|tag| !before.tags.contains(tag)).collect();
                        before.tags.extend(new);
                    }
                    Some(what) => errors.entry(host.clone()).or_default().push(
                        Diagnostic::error(
                            "two-uses",
                            format!("{host} has the role `{}` twice, with different {what}", role.name),
                        )
                        .label(&used.role.span, "again here")
                        .label(&earlier.1.role.span, "first here")
                        .help("use the role once; what repeats in it goes into a list input with `for_each`"),
                    ),
                }
            }
        }
    }
    hosts
}

/// The clusters of an inventory without plays: those of the playbook that it belongs to, as far as that can be read, and those of
/// hosts whose own variables say so.
fn known_clusters(
    playbook: &Utf8Path,
    inventory: &Inventory,
    set: &SetVars,
    catalog: &KindCatalog,
) -> Clusters {
    let mut clusters = Clusters::default();
    let mut add = |host: &str| {
        let name = Clusters::name_of(inventory, set, host);
        if inventory.host(&name).is_none() {
            clusters.add(&name, host);
        }
    };
    // Errors of the playbook are reported elsewhere.
    let mut unsaid = Diagnostics::new();
    if let Some(playbook) = Playbook::load(playbook, &mut unsaid) {
        let (roles, _) = load_roles(&playbook, catalog, &mut unsaid);
        let acts = |name: &str| roles.get(name).is_some_and(|role| role.scope == Place::Cluster);
        for play in playbook.plays.iter().filter(|play| play.roles.iter().any(|r| acts(&r.role.value))) {
            let hosts = inventory.select(&play.hosts).map(|selection| selection.hosts).unwrap_or_default();
            hosts.iter().for_each(|host| add(host));
        }
    }
    for host in inventory.hosts() {
        let layers = host_layers(inventory, set, host.name());
        if KUBECONFIGS.iter().any(|name| layers.get(*name).is_some()) {
            add(host.name());
        }
    }
    clusters
}

/// The differences between two entries of a role on one host.
fn differ(
    inventory: &Inventory,
    set: &SetVars,
    host: &str,
    role: &Role,
    (play, used): (&Play, &RoleRef),
    (other_play, other): (&Play, &RoleRef),
) -> Option<String> {
    let winner =
        |layers: &Layers, name: &str| layers.get(name).and_then(|all| all.last()).map(|c| c.node.clone());
    let first = role_layers(inventory, set, host, play, used, role);
    let second = role_layers(inventory, set, host, other_play, other, role);
    let names = first.keys().chain(second.keys());
    let mut different: Vec<&str> =
        names.map(String::as_str).filter(|name| winner(&first, name) != winner(&second, name)).collect();
    different.sort_unstable();
    different.dedup();
    if !different.is_empty() {
        return Some(format!(
            "values of {}",
            different.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
        ));
    }
    (used.when != other.when).then(|| "conditions".to_owned())
}

/// The hosts that `--limit` leaves.
fn limited(
    options: &LoadOptions,
    inventory: &Inventory,
    hosts: &IndexMap<String, Vec<Used>>,
    clusters: &Clusters,
    diags: &mut Diagnostics,
    warnings: &mut Diagnostics,
) -> Vec<String> {
    let Some(limit) = &options.limit else {
        return hosts.keys().cloned().collect();
    };
    let Some(selection) = diags.take(inventory.select_limit(limit, Utf8Path::new("."))) else {
        return Vec::new();
    };
    warnings.extend(selection.warnings);
    // A cluster takes part if one of its entry hosts does.
    let takes_part = |name: &str| match clusters.entry_hosts(name) {
        Some(entry_hosts) => entry_hosts.iter().any(|host| selection.hosts.contains(host)),
        None => selection.hosts.iter().any(|host| host == name),
    };
    let selected: Vec<String> = hosts.keys().filter(|host| takes_part(host)).cloned().collect();
    if selected.is_empty() && !selection.hosts.is_empty() {
        warnings.push(
            Diagnostic::warning("no-hosts", "no play has a host of the limit")
                .at(&Span::nowhere("--limit"))
                .help(format!(
                    "hosts of the plays: {}",
                    hosts.keys().cloned().collect::<Vec<_>>().join(", ")
                )),
        );
    }
    selected
}

/// Resolves everything on every host without knowledge about the hosts: an error that shows now does not need any contact.
fn check_hosts(inner: &Arc<Inner>, errors: &mut HostErrors) -> BTreeMap<String, Needs> {
    let hosts: Vec<&String> = inner.hosts.keys().collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let share = hosts.len().div_ceil(workers).max(8);
    // One for all hosts, which then share `hostvars`.
    let facts = Facts::none();
    let facts = &facts;
    let mut needs = BTreeMap::new();
    std::thread::scope(|threads| {
        let work = |part: &[&String]| -> Vec<(String, Needs, Diagnostics)> {
            part.iter().map(|host| check_host(inner, host, facts)).collect()
        };
        let running: Vec<_> = hosts.chunks(share).map(|part| threads.spawn(move || work(part))).collect();
        for (host, need, found) in running.into_iter().filter_map(|thread| thread.join().ok()).flatten() {
            if !found.is_empty() {
                errors.entry(host.clone()).or_default().extend(found);
            }
            needs.insert(host, need);
        }
    });
    needs
}

/// The hosts that the inventory takes out with `maintenance: true`.
fn in_maintenance(inner: &Inner, diags: &mut Diagnostics) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let hosts = inner.hosts.keys().filter(|name| inner.clusters.entry_hosts(name).is_none());
    let entry_hosts = inner.clusters.names().filter_map(|name| inner.clusters.entry_hosts(name)).flatten();
    for host in hosts.chain(entry_hosts).collect::<BTreeSet<_>>() {
        match crate::report::host_var(inner, host, MAINTENANCE) {
            Ok(None) => {}
            Ok(Some(node)) => match &node.value {
                Value::Bool(true) => {
                    out.insert(host.clone());
                }
                Value::Bool(false) | Value::Null => {}
                _ => diags.push(
                    wrong_type(&node, "`maintenance`", "true or false").help("write `maintenance: true`"),
                ),
            },
            // A host about which this cannot be said must not be touched by mistake.
            Err(more) => diags.extend(more),
        }
    }
    out
}

fn check_host(inner: &Arc<Inner>, host: &str, facts: &Facts) -> (String, Needs, Diagnostics) {
    let registered = Registered::new();
    let plan = inner.clone().host_plan(host, facts, &registered);
    let mut found = plan.errors.clone();
    let mut needs = Needs::default();
    for used in &plan.roles {
        for item in used.all() {
            match used.resolve(item, &registered) {
                Resolution::Invalid(more) => found.extend(more),
                Resolution::Unknown { names, .. } if item.selected => {
                    let own =
                        |names: &BTreeSet<String>| names.contains("facts") || names.contains("facts_before");
                    let possible = used.possible_lookups(item, names.clone());
                    // Which hosts a template goes over may follow from facts and results.
                    needs.facts_of_others |= possible.contains("hostvars");
                    let names = if own(&names) { names } else { possible };
                    needs.facts |= own(&names);
                    let others = names
                        .iter()
                        .filter_map(|name| name.strip_prefix("hostvars."))
                        .filter_map(|n| n.strip_suffix(".facts").or_else(|| n.strip_suffix(".facts_before")));
                    needs.facts_of.extend(others.map(str::to_owned));
                }
                _ => {}
            }
        }
    }
    // A cluster has no facts of its own: roles there read those of the host through which it is reached.
    let speaker = inner.clusters.speaker(host);
    if needs.facts && speaker != host {
        needs.facts = false;
        needs.facts_of.insert(speaker.to_owned());
    }
    if needs.facts || !needs.facts_of.is_empty() || needs.facts_of_others {
        needs.fact_names = crate::fact_names::read_by(inner, &plan);
    }
    (host.to_owned(), needs, unique(found))
}

/// A tag that nothing has would silently do nothing.
fn unused_tags(options: &LoadOptions, inner: &Inner, diags: &mut Diagnostics, warnings: &mut Diagnostics) {
    let mut known: BTreeSet<&str> = ["all", "always", "never", "tagged", "untagged"].into();
    for play in &inner.playbook.plays {
        known.extend(play.tags.iter().map(String::as_str));
        known.extend(play.roles.iter().flat_map(|used| &used.tags).map(String::as_str));
    }
    known.extend(
        inner.roles.values().flat_map(|role| role.items()).flat_map(|item| &item.tags).map(String::as_str),
    );
    for (flag, tags) in [("--tags", &inner.filter.only), ("--skip-tags", &inner.filter.skip)] {
        for tag in tags.iter().filter(|tag| !known.contains(tag.as_str())) {
            let problem = empty::unknown_tag(options, flag, tag, nearest(tag, known.iter().copied()));
            let list = if problem.severity == Severity::Error { &mut *diags } else { &mut *warnings };
            list.push(problem);
        }
    }
}
