//! The facts that the roles of a host read.

use std::sync::Arc;

use camino::Utf8Path;

use crate::declare::{HostDeclarations, RoleUse};
use crate::fact_names::FactNames;
use crate::loaded::Inner;

/// The facts that the roles of a host, their templates and the variables that they see read.
pub(crate) fn read_by(inner: &Arc<Inner>, plan: &HostDeclarations) -> FactNames {
    let mut names = FactNames::default();
    for used in plan.roles.iter().filter(|used| used.selected) {
        role(&mut names, inner, used);
        used.layers.values().flatten().for_each(|candidate| names.scan_variable(&candidate.node));
    }
    names
}

fn role(names: &mut FactNames, inner: &Arc<Inner>, used: &RoleUse) {
    for item in used.role.items() {
        // A comment is no template, but what a scalar holds may be.
        names.scan_node(&item.params);
        item.when
            .iter()
            .chain(&item.for_each)
            .chain(&item.become_user)
            .for_each(|node| names.scan_node(node));
    }
    used.role
        .inputs
        .values()
        .filter_map(|input| input.default.as_ref())
        .for_each(|node| names.scan_node(node));
    for folder in ["templates", "files"] {
        templates(names, inner, used, &used.role.dir.join(folder), 4);
    }
    if let Some(play) = inner.playbook.plays.iter().find(|play| play.title() == used.play) {
        play.roles.iter().flat_map(|role| &role.when).for_each(|node| names.scan_node(node));
    }
}

fn templates(names: &mut FactNames, inner: &Arc<Inner>, used: &RoleUse, folder: &Utf8Path, depth: usize) {
    for entry in folder.read_dir_utf8().into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && depth > 0 {
            templates(names, inner, used, path, depth - 1);
        } else if path.is_file()
            && (folder.components().any(|c| c.as_str() == "templates") || path.extension() == Some("j2"))
        {
            // A file that cannot be read is reported where it is used.
            if let Ok(source) = inner.files.template(path, &used.role.span) {
                names.scan(source.text());
            }
        }
    }
}
