//! Many plain files on a real host: they are changed and rolled back together, and each is still compared by itself.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{World, exec, until_exec};
use std::process::{Command, Stdio};

const NUMBER: usize = 60;

/// So many files, each with the version in it; the second also has another mode.
fn role(version: &str) -> String {
    let mode = if version == "one" { "0644" } else { "0600" };
    format!(
        "resources:\n  - name: folder\n    directory: {{path: /srv/many}}\n  - name: file\n    for_each: \"{{{{ range(0, {NUMBER}) | list }}}}\"\n    \
         file: {{path: \"/srv/many/{{{{ item }}}}\", content: \"{version} {{{{ item }}}}\\n\", mode: \"{mode}\"}}\n"
    )
}

fn tree(host: &Host) -> String {
    exec(
        host,
        "cd /srv/many && find . -printf '%p %y %m %U %G %s\\n' | sort && find . -type f | sort | xargs sha256sum",
    )
}

fn set(world: &World, version: &str) {
    world.only_role("many", &role(version)).unwrap();
}

#[test]
fn files_are_changed_and_rolled_back_together_whatever_comes_between() {
    let world = World::new(&format!("many-{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    world.write("hosts.yaml", &world.inventory("ansible_timeout: 3")).unwrap();
    set(&world, "one");
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    let first = tree(host);

    // All of them are changed, and come back.
    set(&world, "two");
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    let second = tree(host);
    assert_ne!(first, second);
    world.converge(&["plan", "hosts.yaml"]).unwrap().expect(0);
    world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(tree(host), first);

    // Without a controller.
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(tree(host), second);
    exec(host, "sh /var/lib/converge/undo.sh");
    assert_eq!(tree(host), first);

    // Somebody edits one after the plan: it is refused by name, and theirs stays.
    let mut child = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped());
    exec(
        host,
        "systemd-run -q --unit theirs sh -c 'while [ \"$(cat /srv/many/0)\" != \"two 0\" ]; do :; done; echo theirs >/srv/many/59'",
    );
    let output = child.spawn().unwrap().wait_with_output().unwrap();
    let reply = String::from_utf8_lossy(&output.stdout).into_owned();
    until_exec(host, 20, "[ \"$(cat /srv/many/59)\" = theirs ]");
    // Its turn may have come before; a line that somebody adds later is theirs nevertheless.
    world.converge(&["rollback", "--yes", "hosts.yaml"]).unwrap();
    assert_eq!(exec(host, "cat /srv/many/59"), "theirs", "{reply}");
    assert_eq!(exec(host, "cd /srv/many && cat $(seq 0 58)"), numbered("one", 59), "{reply}");
    exec(host, "printf 'one 59\\n' >/srv/many/59");
    assert_eq!(tree(host), first);

    // The controller is killed while files are changed: each is the old or the new one, and one more run ends it.
    let mut child = world.command(&["apply", "--yes", "hosts.yaml"]).unwrap();
    let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_exec(host, 60, "grep -q 'two' /srv/many/0");
    assert!(Command::new("kill").args(["-KILL", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    until_exec(host, 90, "flock -n /var/lib/converge/lock true");
    let now = exec(host, "cd /srv/many && cat $(seq 0 59)");
    for (number, line) in now.lines().enumerate() {
        assert!(line == format!("one {number}") || line == format!("two {number}"), "{line}");
    }
    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    assert_eq!(tree(host), second);
}

fn numbered(version: &str, number: usize) -> String {
    (0..number).map(|n| format!("{version} {n}")).collect::<Vec<_>>().join("\n")
}
