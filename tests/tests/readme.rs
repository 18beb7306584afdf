//! README.md, held against the program: its first role is tested as it stands there, and its commands are run in their order.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::guide::{Step, steps};
use converge_tests::{Ran, World, binary, exec, ran, root};
use std::path::{Component, Path};
use std::process::{Command, Stdio};

/// The section "A first role".
fn section() -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    readme.split("\n## A first role\n").nth(1).unwrap().split("\n## ").next().unwrap().to_owned()
}

/// Its files.
fn files() -> Vec<(String, String)> {
    let section = section();
    let files = steps(section.split("\nThen:\n").next().unwrap()).into_iter();
    files
        .filter_map(|step| if let Step::File { path, text } = step { Some((path, text)) } else { None })
        .collect()
}

/// The commands of its last block, without their comments.
fn commands() -> Vec<String> {
    let section = section();
    let block = section.split("\nThen:\n").nth(1).unwrap().split("```").nth(1).unwrap();
    let lines = block.lines().skip(1).map(|line| line.split(" #").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The address and the user that README's reader has.
const ADDRESS: &str = "192.0.2.10";

/// Puts the five files into the project as they are printed. That the address leads to a host of the lab stands in ssh's configuration.
fn first_project(world: &World) {
    for (path, text) in files() {
        world.write(&path, &text).unwrap();
    }
    std::fs::remove_file(world.dir().join("hosts.yaml")).unwrap();
    world.known_as(&[(ADDRESS, &world.hosts()[0])]).unwrap();
}

/// The traces of the role on a host: its files, its packages, the ports and whether its unit runs.
fn left(host: &Host) -> String {
    exec(
        host,
        "dpkg-query -W -f '${Package} ${Status}\\n' | grep -E '^(nginx|curl)' ; ls /etc/nginx/sites-available /var/www/html 2>&1; \
         systemctl is-active nginx; ss -Hltn 'sport = :8080'; true",
    )
}

#[test]
fn the_commands_of_the_first_role_do_what_is_printed() {
    let world = World::new(&format!("readme-{}", std::process::id()), 1).unwrap();
    let host = &world.hosts()[0];
    first_project(&world);
    let commands = commands();
    let [vars, plan, apply, again, snapshots, rollback] = commands.as_slice() else {
        panic!("the block has other commands: {commands:#?}")
    };
    assert_eq!(plan, again);
    let run = |line: &str| world.typed(world.dir(), line).unwrap();
    let clean = left(host);

    run(vars).expect(0).says("8080").says("hosts.yaml");
    let first = run(plan).expect(2).says("nginx-light");
    assert_eq!(left(host), clean, "planning changed something");
    run(apply).expect(0).says("[y/N]").says("To revert: converge rollback inventories/hosts.yaml");
    assert_eq!(exec(host, "curl -fsS http://127.0.0.1:8080/"), "Hello from web1");
    run(again).expect(0).says("nothing to change");
    run(snapshots).expect(0).says("playbooks/site.yaml").says("web1");
    run(rollback).expect(0).says("[y/N]").says("remove file /var/www/html/index.html");
    // The web server's package leaves a page when it is purged, whoever does that. Nothing else is there.
    exec(host, "rm /var/www/html/index.nginx-debian.html && rmdir /var/www/html /var/www");
    assert_eq!(left(host), clean);
    assert_eq!(
        plan_of(&run(plan).expect(2)),
        plan_of(&first),
        "the plan after the rollback, and the first one"
    );
}

/// A plan without the time that it took.
fn plan_of(ran: &Ran) -> Vec<String> {
    let lines = ran.stdout.lines().map(str::trim_end);
    lines.filter(|line| !line.contains("exit code")).map(str::to_owned).collect()
}

#[test]
fn the_first_role_passes_every_gate_with_and_without_its_program() {
    let dir = tempfile::tempdir().unwrap();
    let files = files();
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let expected = [
        "inventories/hosts.yaml",
        "converge.toml",
        "playbooks/site.yaml",
        "roles/hello/role.yaml",
        "roles/hello/templates/site.conf.j2",
    ];
    assert_eq!(paths, expected, "the five files of the section");
    let write = |path: &str, text: &str| {
        assert!(Path::new(path).components().all(|c| matches!(c, Component::Normal(_))), "{path}");
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for (path, text) in &files {
        write(path, text);
    }
    write(
        "roles/hello/tests/with.yaml",
        "before: {packages: [curl]}\nexpect: {after: [\"curl -fsS http://127.0.0.1/ | grep Hello\"]}\n",
    );
    write("roles/hello/tests/without.yaml", "before: {run: [\"apt-get -y -q purge curl\"]}\n");
    let mut command = Command::new(binary().unwrap());
    command.args(["test", "roles/hello", "--verbose"]).current_dir(dir.path()).env("HOME", dir.path());
    let run = ran(command.stdin(Stdio::null())).unwrap().expect(0).says("2 scenarios: 2 passed");
    // Its web server leaves a page, whoever removes it.
    run.says("left by the scripts of packages").says("/var/www/html/index.nginx-debian.html");
}
