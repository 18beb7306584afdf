//! The roles of a playbook: read, and checked against each other.

use crate::catalog::KindCatalog;
use crate::fields::{is_template, nearest};
use crate::files::locate;
use crate::options::LoadOptions;
use crate::play::Playbook;
use crate::role::Role;
use converge_syntax::{Diagnostic, Diagnostics, Span};
use indexmap::IndexMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The roles that the playbook names, and the names of those with errors.
pub(super) fn load_roles(
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
pub(super) fn earlier_names(roles: &IndexMap<String, Arc<Role>>, diags: &mut Diagnostics) {
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
pub(super) fn required_roles(
    playbook: &Playbook,
    roles: &IndexMap<String, Arc<Role>>,
    diags: &mut Diagnostics,
) {
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
pub(super) fn role_files(role: &Role, catalog: &KindCatalog, diags: &mut Diagnostics) {
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
pub(super) fn role_params(
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

pub(super) fn asked_roles(options: &LoadOptions, playbook: &Playbook, diags: &mut Diagnostics) {
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
pub(super) fn start_at(
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
