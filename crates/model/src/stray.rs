//! Files and names that nothing reads, where somebody means them to be read.

use std::collections::BTreeSet;
use std::sync::Arc;

use converge_syntax::{Diagnostic, Diagnostics, Span, did_you_mean};
use indexmap::IndexMap;

use crate::ansible_role::{ANSIBLE, main_file};
use crate::inventory::{Assignment, Inventory};
use crate::magic::MAGIC;
use crate::role::Role;

/// Warns of all that is not read, or does not mean what it seems to. Variables are judged only where all roles could be read.
pub(crate) fn all(
    inventory: &Inventory,
    roles: &IndexMap<String, Arc<Role>>,
    all_roles_read: bool,
    warnings: &mut Diagnostics,
) {
    roles.values().for_each(|role| role_files(role, warnings));
    reserved_names(inventory, warnings);
    if all_roles_read {
        misspelt_variables(inventory, roles, warnings);
    }
}

/// Warns about files of an Ansible role beside `role.yaml`.
fn role_files(role: &Role, warnings: &mut Diagnostics) {
    for (folder, instead) in ANSIBLE {
        if let Some(path) = main_file(&role.dir, folder) {
            warnings.push(
                Diagnostic::warning("stray-file", format!("`{path}` is not read"))
                    .at(&Span::nowhere(path.as_str()))
                    .help(format!("{instead}, and remove the file (docs/ansible.md)")),
            );
        }
    }
}

/// Warns about variables of the inventory that have a name which converge sets itself.
fn reserved_names(inventory: &Inventory, warnings: &mut Diagnostics) {
    let mut found: Vec<&Assignment> =
        inventory.assignments().filter(|found| MAGIC.contains(&found.name.as_str())).collect();
    found.sort_by(|a, b| (a.key.source.name(), a.key.start).cmp(&(b.key.source.name(), b.key.start)));
    for found in found {
        warnings.push(
            Diagnostic::warning(
                "reserved-name",
                format!("`{}` is set by converge: this value is not used", found.name),
            )
            .at(&found.key)
            .help("choose another name"),
        );
    }
}

/// Warns about a variable of the inventory that is nearly an input of a role, and that nothing else names.
fn misspelt_variables(
    inventory: &Inventory,
    roles: &IndexMap<String, Arc<Role>>,
    warnings: &mut Diagnostics,
) {
    let inputs: BTreeSet<&str> =
        roles.values().flat_map(|role| role.inputs.keys()).map(String::as_str).collect();
    let mut observed: BTreeSet<String> = BTreeSet::new();
    let mut texts: Option<Vec<String>> = None;
    let mut all: Vec<&Assignment> = inventory.assignments().collect();
    all.sort_by(|a, b| (a.key.source.name(), a.key.start).cmp(&(b.key.source.name(), b.key.start)));
    for found in &all {
        let name = found.name.as_str();
        let special = ["ansible_", "converge_"].iter().any(|lead| name.starts_with(lead));
        if special || inputs.contains(name) || !observed.insert(found.name.clone()) {
            continue;
        }
        let Some(near) = did_you_mean(name, inputs.iter().copied()).filter(|near| is_slip(name, near)) else {
            continue;
        };
        let texts = texts.get_or_insert_with(|| texts_of(roles));
        let named = texts.iter().any(|text| text.contains(name))
            || all.iter().any(|other| other.node.span.text().contains(name));
        if !named {
            warnings.push(
                Diagnostic::warning("unknown-variable", format!("nothing uses the variable `{name}`"))
                    .label(&found.key, "set here")
                    .help(format!("did you mean `{near}`?")),
            );
        }
    }
}

/// Whether one name is the other with letters swapped, doubled, left out or mistaken: not `port_2` for `port_1`, and no other ending.
fn is_slip(name: &str, near: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    converge_syntax::edit_distance(name, near) <= 2
        && digits(name) == digits(near)
        && !name.starts_with(near)
        && !near.starts_with(name)
}

/// The texts in which a role may name a variable: its file and its templates.
pub(crate) fn texts_of(roles: &IndexMap<String, Arc<Role>>) -> Vec<String> {
    let mut texts = Vec::new();
    for role in roles.values() {
        texts.push(role.span.source.text().to_owned());
        let mut folders = vec![role.dir.join("templates")];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path().to_owned()),
                    _ => texts.extend(std::fs::read_to_string(entry.path())),
                }
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_no_other_name() {
        for (name, near, slip) in [
            ("site_prot", "site_port", true),
            ("site_pot", "site_port", true),
            ("port_2", "port_1", false),
            ("site_ports", "site_port", false),
            ("port", "site_port", false),
        ] {
            assert_eq!(is_slip(name, near), slip, "{name} {near}");
        }
    }
}
