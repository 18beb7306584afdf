//! From a scenario to a project: its plays, made of nodes that keep their places in the scenario's file.

use crate::discover::Case;
use camino::Utf8PathBuf;
use converge_model::inventory::InventorySource;
use converge_model::vault::Vault;
use converge_model::{GivenPlays, KindCatalog, LoadOptions, Project, Role, RolePath};
use converge_resource::Place;
use converge_syntax::{Diagnostic, Diagnostics, Node, Span, Spanned, Value, did_you_mean};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// The role that makes a whole cluster.
pub(crate) const CLUSTER_ROLE: &str = "k8s";

/// Which roles of a scenario are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoleSet {
    /// The role that is tested, and those that it requires.
    Tested,
    /// Those that make its whole cluster, before.
    Given,
}

/// Loads the project of a scenario. `hosts` are the inventory's names of the scenario's hosts, in order.
///
/// # Errors
/// Errors of the roles, of those that they require, or of the inputs; errors of single hosts too.
pub(crate) fn load(
    case: &Case,
    role_set: RoleSet,
    catalog: &KindCatalog,
    inventories: Vec<InventorySource>,
    hosts: &[String],
    limit: Option<String>,
    vault: &Vault,
) -> Result<Project, Diagnostics> {
    let role_path = RolePath { dirs: vec![case.roles_folder()] };
    let tested = tested(case, &role_path, catalog)?;
    let given = given(case, &role_path, catalog)?;
    known_inputs(case, &[tested.as_slice(), &given].concat())?;
    let roles = match role_set {
        RoleSet::Tested => tested,
        RoleSet::Given => given,
    };
    let file = case.scenario.file.clone().unwrap_or_else(|| case.dir.join("role.yaml"));
    let options = LoadOptions {
        inventories,
        plays: Some(GivenPlays { path: file, plays: plays(case, &roles, role_set, hosts), role_path }),
        limit,
        vault: vault.clone(),
        catalog: catalog.clone(),
        ..LoadOptions::default()
    };
    let project = Project::load(&options)?;
    let mut wrong = Diagnostics::new();
    for complaint in project.host_errors().values().flat_map(Diagnostics::iter) {
        if !wrong.iter().any(|known| known == complaint) {
            wrong.push(complaint.clone());
        }
    }
    wrong.or_value(project)
}

/// Whether the role, or one that it requires, acts on a cluster.
pub(crate) fn needs_cluster(case: &Case, catalog: &KindCatalog) -> bool {
    let role_path = RolePath { dirs: vec![case.roles_folder()] };
    // A role that is not there is reported when the project is loaded.
    tested(case, &role_path, catalog).is_ok_and(|all| all.iter().any(|role| role.scope == Place::Cluster))
}

/// The role that is tested, those that the scenario applies with it, and all that they require, as far as they can be read; the required ones first.
///
/// # Errors
/// A role that the scenario names is not there.
fn tested(case: &Case, path: &RolePath, catalog: &KindCatalog) -> Result<Vec<Role>, Diagnostics> {
    let mut found = Vec::new();
    let mut wrong = Diagnostics::new();
    with_required(&case.role, &case.dir, path, catalog, &mut found);
    for name in &case.scenario.with {
        match path.find(name) {
            Ok(dir) => with_required(&name.value, &dir, path, catalog, &mut found),
            Err(complaint) => wrong.push(complaint),
        }
    }
    wrong.or_value(found)
}

/// The roles that make the whole cluster of a scenario; none where it has no such cluster.
fn given(case: &Case, path: &RolePath, catalog: &KindCatalog) -> Result<Vec<Role>, Diagnostics> {
    let Some(whole) = case.scenario.cluster.as_ref().and_then(|spec| spec.whole.as_ref()) else {
        return Ok(Vec::new());
    };
    let mut wrong = Diagnostics::new();
    if case.role == CLUSTER_ROLE {
        let message = format!("the role `{CLUSTER_ROLE}` makes whole clusters, and cannot be tested in one");
        wrong.push(
            Diagnostic::error("bad-value", message)
                .at(&case.scenario.span)
                .help("leave `cluster` out, and write what the plan of a bare host is to be"),
        );
    }
    let maker = Spanned::new(CLUSTER_ROLE.to_owned(), case.scenario.span.clone());
    let mut found = Vec::new();
    for name in std::iter::once(&maker).chain(&whole.roles) {
        match path.find(name) {
            Ok(dir) => with_required(&name.value, &dir, path, catalog, &mut found),
            Err(_) if name.value == CLUSTER_ROLE => wrong.push(
                Diagnostic::error(
                    "unknown-role",
                    format!("a whole cluster is made by the role `{CLUSTER_ROLE}`, and there is none"),
                )
                .at(&name.span)
                .help(format!(
                    "copy converge's own to {}/{CLUSTER_ROLE}, or write `tier: api`",
                    case.roles_folder()
                )),
            ),
            Err(complaint) => wrong.push(complaint),
        }
    }
    wrong.or_value(found)
}

/// Adds a role and all that it requires, as far as they can be read; the required ones first, each once.
fn with_required(
    name: &str,
    dir: &Utf8PathBuf,
    path: &RolePath,
    catalog: &KindCatalog,
    found: &mut Vec<Role>,
) {
    if found.iter().any(|role| role.name == name) {
        return;
    }
    // Errors of a role are reported when the project is loaded.
    let Some(role) = Role::load(name, dir, catalog, &mut Diagnostics::new()) else { return };
    let place = found.len();
    found.push(role.clone());
    for required in &role.requires {
        if let Ok(dir) = path.find(required) {
            with_required(&required.value, &dir, path, catalog, found);
        }
    }
    let role = found.remove(place);
    found.push(role);
}

/// An input that no role has is a mistake of the scenario.
fn known_inputs(case: &Case, roles: &[Role]) -> Result<(), Diagnostics> {
    let mut wrong = Diagnostics::new();
    let known: Vec<&str> = roles.iter().flat_map(|r| r.inputs.keys().map(String::as_str)).collect();
    let given = case.scenario.hosts.iter().filter_map(|h| h.inputs.as_ref());
    for (key, _) in given.chain(&case.scenario.inputs).filter_map(Node::as_map).flatten() {
        let name = key.as_str().unwrap_or_default();
        if !known.contains(&name) && !roles.is_empty() {
            let help = match did_you_mean(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "it has no inputs".to_owned(),
                None => format!("one of: {}", known.join(", ")),
            };
            wrong.push(
                Diagnostic::error(
                    "unknown-input",
                    format!(
                        "neither the role `{}` nor one that comes with it has the input `{name}`",
                        case.role
                    ),
                )
                .label(&key.span, "not known there")
                .help(help),
            );
        }
    }
    wrong.or_value(())
}

fn plays(case: &Case, roles: &[Role], role_set: RoleSet, hosts: &[String]) -> Node {
    let scenario = &case.scenario;
    let text = |text: &str, span: &Span| Node::new(text, span.clone());
    let map = |entries: Vec<(&str, Node)>| {
        let entries = entries.into_iter().map(|(key, value)| (text(key, &scenario.span), value)).collect();
        Node::new(Value::Map(entries), scenario.span.clone())
    };
    let list = |nodes: Vec<Node>| Node::new(Value::List(nodes), scenario.span.clone());
    let at = scenario.inputs.as_ref().map_or(&scenario.span, |inputs| &inputs.span);
    let mut names: Vec<String> = roles.iter().map(|r| r.name.clone()).collect();
    if role_set == RoleSet::Tested && !names.contains(&case.role) {
        names.push(case.role.clone());
    }
    let cluster = |name: &String| roles.iter().any(|r| r.name == *name && r.scope == Place::Cluster);
    let plays = scenario.hosts.iter().zip(hosts).enumerate().map(|(number, (spec, host))| {
        // The cluster is reached through the first host.
        let names = names.iter().filter(|name| number == 0 || !cluster(name));
        // The inputs of a host override those of all hosts.
        let mut vars: Vec<(Node, Node)> = Vec::new();
        let layers = [&scenario.inputs, &spec.inputs];
        for (key, value) in layers.into_iter().flatten().filter_map(Node::as_map).flatten() {
            vars.retain(|(known, _)| known.as_str() != key.as_str());
            vars.push((key.clone(), value.clone()));
        }
        let at = spec.inputs.as_ref().map_or(at, |inputs| &inputs.span);
        map(vec![
            ("name", text(&case.name(), &scenario.span)),
            ("hosts", text(host, &scenario.span)),
            ("vars", Node::new(Value::Map(vars), at.clone())),
            ("roles", list(names.map(|name| text(name, at)).collect())),
        ])
    });
    list(plays.collect())
}

/// The text of an inventory of these hosts, with variables of all and of each, and with more groups than the scenario names.
pub(crate) fn inventory(
    case: &Case,
    all: Map<String, Json>,
    more_groups: &[(&str, Vec<&str>)],
    variables: impl Fn(&str) -> Map<String, Json>,
) -> String {
    let hosts: Map<String, Json> =
        case.scenario.hosts.iter().map(|host| (host.name.clone(), variables(&host.name).into())).collect();
    let mut groups: BTreeMap<&str, Map<String, Json>> = BTreeMap::new();
    for host in &case.scenario.hosts {
        for group in &host.groups {
            groups.entry(group).or_default().insert(host.name.clone(), Json::Null);
        }
    }
    for (group, members) in more_groups {
        let hosts = groups.entry(group).or_default();
        hosts.extend(members.iter().map(|name| ((*name).to_owned(), Json::Null)));
    }
    let children: Map<String, Json> =
        groups.into_iter().map(|(name, hosts)| (name.to_owned(), json!({"hosts": hosts}))).collect();
    json!({"all": {"vars": all, "hosts": hosts, "children": children}}).to_string()
}

/// The place of a span, for a mismatch.
pub(crate) fn place<T>(spanned: &Spanned<T>) -> Option<String> {
    (!spanned.span.source.text().is_empty()).then(|| spanned.span.to_string())
}
