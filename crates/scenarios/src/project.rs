//! From a scenario to a project: its plays, made of nodes that keep their places in the scenario's file.

use crate::discover::Case;
use camino::Utf8PathBuf;
use converge_model::inventory::InventorySource;
use converge_model::vault::Vault;
use converge_model::{GivenPlays, KindCatalog, LoadOptions, Project, Role, RolePath};
use converge_resource::Place;
use converge_syntax::{Diagnostic, Diagnostics, Node, Span, Spanned, Value, did_you_mean};

/// Loads the project that a scenario stands for. `hosts` are the inventory's names of the scenario's hosts, in order.
///
/// # Errors
/// What is wrong with the role, with those that it requires, or with the inputs; single hosts' errors too.
pub(crate) fn load(
    case: &Case,
    catalog: &KindCatalog,
    inventories: Vec<InventorySource>,
    hosts: &[String],
    limit: Option<String>,
    vault: &Vault,
) -> Result<Project, Diagnostics> {
    let role_path = RolePath { dirs: vec![case.roles_folder()] };
    let roles = with_required(case, &role_path, catalog);
    known_inputs(case, &roles)?;
    let file = case.scenario.file.clone().unwrap_or_else(|| case.dir.join("role.yaml"));
    let options = LoadOptions {
        inventories,
        plays: Some(GivenPlays { path: file, plays: plays(case, &roles, hosts), role_path }),
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
    with_required(case, &role_path, catalog).iter().any(|role| role.scope == Place::Cluster)
}

/// The role and all that it requires, as far as they can be read; the required ones first.
fn with_required(case: &Case, path: &RolePath, catalog: &KindCatalog) -> Vec<Role> {
    fn add(name: &str, dir: &Utf8PathBuf, path: &RolePath, catalog: &KindCatalog, found: &mut Vec<Role>) {
        // What is wrong with a role is said when the project is loaded.
        let Some(role) = Role::load(name, dir, catalog, &mut Diagnostics::new()) else { return };
        let place = found.len();
        found.push(role.clone());
        for required in &role.requires {
            if !found.iter().any(|r| r.name == required.value)
                && let Ok(dir) = path.find(required)
            {
                add(&required.value, &dir, path, catalog, found);
            }
        }
        let role = found.remove(place);
        found.push(role);
    }
    let mut found = Vec::new();
    add(&case.role, &case.dir, path, catalog, &mut found);
    found
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
                        "neither the role `{}` nor one that it requires has the input `{name}`",
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

fn plays(case: &Case, roles: &[Role], hosts: &[String]) -> Node {
    let scenario = &case.scenario;
    let text = |text: &str, span: &Span| Node::new(text, span.clone());
    let map = |entries: Vec<(&str, Node)>| {
        let entries = entries.into_iter().map(|(key, value)| (text(key, &scenario.span), value)).collect();
        Node::new(Value::Map(entries), scenario.span.clone())
    };
    let list = |nodes: Vec<Node>| Node::new(Value::List(nodes), scenario.span.clone());
    let at = scenario.inputs.as_ref().map_or(&scenario.span, |inputs| &inputs.span);
    let mut names: Vec<String> = roles.iter().map(|r| r.name.clone()).collect();
    if !names.contains(&case.role) {
        names.push(case.role.clone());
    }
    let cluster = |name: &String| roles.iter().any(|r| r.name == *name && r.scope == Place::Cluster);
    let plays = scenario.hosts.iter().zip(hosts).enumerate().map(|(number, (spec, host))| {
        // The first host is the way to the cluster.
        let names = names.iter().filter(|name| number == 0 || !cluster(name));
        // What a host has of its own stands above what all have.
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

/// The text of an inventory of these hosts, with more lines of variables for each.
pub(crate) fn inventory(case: &Case, variables: impl Fn(&str) -> Vec<(String, String)>) -> String {
    let json = |text: &str| serde_json::Value::from(text).to_string();
    let mut out = String::from("all:\n  hosts:\n");
    for host in &case.scenario.hosts {
        let vars: Vec<String> =
            variables(&host.name).iter().map(|(name, value)| format!("{name}: {}", json(value))).collect();
        out.push_str(&format!("    {}: {{{}}}\n", host.name, vars.join(", ")));
    }
    let mut groups: Vec<&String> = case.scenario.hosts.iter().flat_map(|h| &h.groups).collect();
    groups.sort();
    groups.dedup();
    if !groups.is_empty() {
        out.push_str("  children:\n");
    }
    for group in groups {
        out.push_str(&format!("    {}:\n      hosts:\n", json(group)));
        for host in case.scenario.hosts.iter().filter(|h| h.groups.contains(group)) {
            out.push_str(&format!("        {}:\n", host.name));
        }
    }
    out
}

/// The place of a span, for a mismatch.
pub(crate) fn place<T>(spanned: &Spanned<T>) -> Option<String> {
    (!spanned.span.source.text().is_empty()).then(|| spanned.span.to_string())
}
