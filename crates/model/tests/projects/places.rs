//! Where the playbook and the roles of a project are looked for.

use crate::common::{World, plan, ready};
use converge_model::inventory::InventorySource;
use serde_json::json;

fn project(world: &World, folder: &str, content: &str) {
    world.write(&format!("{folder}/inventories/lab.yaml"), "all:\n  hosts: {h1: }\n");
    world.write(&format!("{folder}/playbooks/site.yaml"), "- hosts: all\n  roles: [r]\n");
    world.write(
        &format!("{folder}/roles/r/role.yaml"),
        &format!("resources:\n  - name: f\n    file: {{path: /f, content: {content}}}\n"),
    );
}

/// Whoever may write the folder of the link would otherwise decide what becomes root on the hosts.
#[test]
fn the_project_of_an_inventory_that_is_a_link_is_where_its_file_is() {
    let mut world = World::new();
    project(&world, "project", "ours");
    project(&world, "elsewhere", "theirs");
    let link = world.path("elsewhere/inventories/link.yaml");
    std::os::unix::fs::symlink(world.path("project/inventories/lab.yaml"), &link).unwrap();
    world.options.inventories = vec![InventorySource::Path(link.clone())];
    let content = |world: &World| ready(&plan(&world.load(), "h1"), "r/f").params["content"].clone();
    assert_eq!(content(&world), json!("ours"));
    // Of a link to a link too, and of one that is relative.
    let second = world.path("elsewhere/inventories/second.yaml");
    std::os::unix::fs::symlink("link.yaml", &second).unwrap();
    world.options.inventories = vec![InventorySource::Path(second)];
    assert_eq!(content(&world), json!("ours"));
    // Without a playbook there, none is taken from beside the link.
    std::fs::remove_file(world.path("project/playbooks/site.yaml")).unwrap();
    let reply = world.complaints();
    assert!(
        reply.contains("project/playbooks/site.yaml") && !reply.contains("elsewhere/playbooks"),
        "{reply}"
    );
}
