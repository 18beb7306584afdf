//! A project with a `converge.toml` on a real host: no command names anything, from any folder of the project.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_tests::{Ran, World, exec, ran};
use std::path::PathBuf;

const ROLE: &str = "summary: A file\nresources:\n  - name: page\n    file: {path: /etc/settings-page, content: \"hello\\n\"}\n";

/// The pages in the folder of the setting `reports`.
fn pages(world: &World) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(world.dir().join("reports")) else { return Vec::new() };
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages
}

#[test]
fn plan_apply_and_rollback_need_no_argument() {
    let world = World::new(&format!("settings-{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    world.only_role("page", ROLE).unwrap();
    // The user who logs in comes from the settings alone.
    let inventory: Vec<String> = world.inventory("").lines().map(str::to_owned).collect();
    let without_user: Vec<String> =
        inventory.iter().filter(|line| !line.contains("ansible_user")).cloned().collect();
    assert_eq!(without_user.len() + 1, inventory.len());
    world.write("hosts.yaml", &format!("{}\n", without_user.join("\n"))).unwrap();
    let settings = "inventory = \"hosts.yaml\"\nforks = 2\nreports = \"reports\"\n";
    world.write("converge.toml", &format!("{settings}user = \"nobody-of-this-name\"\n")).unwrap();
    let typed = |folder: &str, args: &[&str]| -> Ran {
        let mut command = world.command(args).unwrap();
        for name in ["CONVERGE_INVENTORY", "CONVERGE_USER", "CONVERGE_SETTINGS", "CONVERGE_REPORTS"] {
            command.env_remove(name);
        }
        ran(command.current_dir(world.dir().join(folder))).unwrap()
    };

    typed("", &["plan"]).expect(3).says("nobody-of-this-name");
    typed("", &["plan", "--user", "root"]).expect(2).says("create file /etc/settings-page");
    // A user of the inventory comes before both.
    world.write("with-user.yaml", &world.inventory("")).unwrap();
    typed("", &["plan", "-i", "with-user.yaml", "-u", "nobody-of-this-name"]).expect(2);
    world.write("converge.toml", &format!("{settings}user = \"root\"\n")).unwrap();
    let saved = world.dir().join("saved.plan");
    typed("roles/page", &["plan", "--out", saved.to_str().unwrap()]).expect(2);
    assert!(pages(&world).is_empty(), "a plan is no run");

    // A saved plan means the same from another folder of the project; who logs in stands in the settings.
    typed("playbooks", &["apply", saved.to_str().unwrap(), "--yes"]).expect(0);
    assert_eq!(exec(host, "cat /etc/settings-page"), "hello");
    let first = pages(&world);
    assert_eq!(first.len(), 1, "{first:?}");
    let run = typed("", &["snapshots", "--output", "json"]).expect(0).stdout;
    let name = first[0].file_stem().unwrap().to_str().unwrap().to_owned();
    assert!(run.contains(&name), "the page has the name of its run: {name}\n{run}");

    typed("roles/page", &["plan"]).expect(0).says("nothing to change");
    typed("roles/page", &["rollback", "--yes"]).expect(0).says("remove");
    assert_eq!(exec(host, "ls /etc/settings-page 2>/dev/null || echo gone"), "gone");
    assert_eq!(pages(&world).len(), 2);
    let own = world.dir().join("own.html");
    typed("", &["apply", "--yes", "--report", own.to_str().unwrap()]).expect(0);
    assert!(own.is_file() && pages(&world).len() == 2, "the command line comes before the settings");

    // An `ansible.cfg` is enough: what it says of the connection stands below the inventory.
    std::fs::remove_file(world.dir().join("converge.toml")).unwrap();
    let key =
        without_user.iter().find_map(|line| line.split_once("ansible_ssh_private_key_file:")).unwrap().1;
    let without_key: Vec<String> =
        without_user.iter().filter(|line| !line.contains("ansible_ssh_private_key_file")).cloned().collect();
    world.write("hosts.yaml", &format!("{}\n", without_key.join("\n"))).unwrap();
    let cfg = |user: &str| {
        let key = key.trim().trim_matches(['"', '\'']);
        let text =
            format!("[defaults]\ninventory = hosts.yaml\nremote_user = {user}\nprivate_key_file = {key}\n");
        world.write("ansible.cfg", &text).unwrap();
    };
    cfg("nobody-of-this-name");
    typed("", &["plan"]).expect(3).says("nobody-of-this-name");
    cfg("root");
    typed("", &["plan"]).expect(0).says("nothing to change");
}
