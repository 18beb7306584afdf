//! The files of variables that a run needs: as in Ansible, one that no host of the run has may be wrong, or encrypted.

use std::sync::Arc;

use converge_syntax::Diagnostics;
use indexmap::IndexMap;

use crate::clusters::Clusters;
use crate::inventory::{Inventory, InventoryHost};
use crate::options::LoadOptions;
use crate::play::Playbook;
use crate::role::Role;
use crate::stray;

/// Diagnostics about the files of variables that this run needs: those of its hosts, and of all where something reads another host's
/// variables or goes through it.
pub(crate) fn problems(
    options: &LoadOptions,
    inventory: &Inventory,
    playbook: &Playbook,
    roles: &IndexMap<String, Arc<Role>>,
    (selected, clusters): (&[String], &Clusters),
) -> Diagnostics {
    let entry_hosts = selected.iter().filter_map(|name| clusters.entry_hosts(name)).flatten();
    let own = inventory.problems_of(selected.iter().chain(entry_hosts).map(String::as_str));
    let all = inventory.problems_of(inventory.hosts().map(InventoryHost::name));
    if all.len() == own.len() {
        return own;
    }
    let reads =
        |text: &str| ["hostvars", "ProxyJump", "ProxyCommand", "-J"].iter().any(|word| text.contains(word));
    // Not the text of the file, which an encrypted one does not show.
    let in_values = inventory.assignments().any(|found| reads(&found.node.to_json().to_string()));
    let in_set = options.set.iter().any(|given| !given.is_literal && reads(&given.text));
    let in_plays = playbook.plays.iter().any(|play| reads(play.hosts.span.source.text()));
    if in_values || in_set || in_plays || stray::texts_of(roles).iter().any(|text| reads(text)) {
        all
    } else {
        own
    }
}
