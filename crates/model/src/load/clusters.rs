//! The clusters of a project, and which hosts name them.

use super::load_roles;
use crate::catalog::KindCatalog;
use crate::clusters::Clusters;
use crate::inventory::Inventory;
use crate::loaded::{HostErrors, HostRole};
use crate::play::{Play, Playbook, RoleRef};
use crate::role::Role;
use crate::vars::{Layers, SetVars, host_layers, role_layers};
use camino::Utf8Path;
use converge_resource::Place;
use converge_syntax::{Diagnostic, Diagnostics};
use indexmap::IndexMap;
use std::sync::Arc;

/// The variables that only an entry host of a cluster has.
pub(super) const KUBECONFIGS: [&str; 2] = ["converge_kubeconfig", "converge_kubeconfig_on_host"];

/// The hosts of the plays and the roles of each. A role that a host has twice is one, where both uses agree.
pub(super) fn uses(
    playbook: &Playbook,
    inventory: &Inventory,
    set: &SetVars,
    roles: &IndexMap<String, Arc<Role>>,
    clusters: &mut Clusters,
    (errors, diags, warnings): (&mut HostErrors, &mut Diagnostics, &mut Diagnostics),
) -> IndexMap<String, Vec<HostRole>> {
    let mut hosts: IndexMap<String, Vec<HostRole>> = IndexMap::new();
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
                    mine.push(HostRole { play: play.index, index, role: role.clone(), tags });
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
pub(super) fn known_clusters(
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
pub(super) fn differ(
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
