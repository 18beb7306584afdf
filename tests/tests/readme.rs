//! README.md, held against the program: its first role is tested as it stands there, and its commands are run in their order.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{Ran, World, binary, ended, exec, ran, root};
use std::io::Write as _;
use std::path::{Component, Path};
use std::process::{Command, Stdio};

/// The section "A first role".
fn section() -> String {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    readme.split("\n## A first role\n").nth(1).unwrap().split("\n## ").next().unwrap().to_owned()
}

/// Its files: a line that begins with the path in backquotes, then the block with its text.
fn files() -> Vec<(String, String)> {
    let section = section();
    let (mut files, mut path, mut text) = (Vec::new(), None, None::<String>);
    for line in section.lines() {
        match (&mut text, line.strip_prefix("```")) {
            (Some(text), None) => text.extend([line, "\n"]),
            (Some(_), Some(_)) => files.extend(path.take().zip(text.take())),
            (None, Some(_)) if path.is_some() => text = Some(String::new()),
            (None, _) => {
                let named = line.strip_prefix('`').and_then(|rest| rest.split('`').next());
                path = named.filter(|p| p.contains('/') || p.ends_with(".toml")).map(str::to_owned).or(path);
            }
        }
        if line == "Then:" {
            break;
        }
    }
    files
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
    let (lab, host) = (world.lab(), &world.hosts()[0]);
    let config = format!(
        "Host {ADDRESS}\n  HostName {}\n  IdentityFile {}\n  UserKnownHostsFile {}\n",
        host.address(),
        lab.identity().display(),
        lab.known_hosts().display()
    );
    world.write(".ssh/config", &config).unwrap();
}

/// One of the commands as it is printed, at a terminal at which somebody answers `y`.
fn typed(world: &World, line: &str) -> Ran {
    let folder = binary().unwrap().parent().unwrap().display().to_string();
    let mut command = Command::new("script");
    // The size of the terminal: lines of a plan are not folded.
    command.args(["-qefc", &format!("stty cols 200 rows 50; {line}"), "/dev/null"]);
    command.current_dir(world.dir()).env("HOME", world.dir()).env_remove("SSH_AUTH_SOCK");
    command.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap())).env("TERM", "dumb");
    // A CI system counts as a terminal with colours.
    command.env("NO_COLOR", "1");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It stays open: the end of the input would end the terminal.
    let mut answers = child.stdin.take().unwrap();
    answers.write_all(b"y\n").unwrap();
    let ran = ended(child).unwrap();
    drop(answers);
    ran
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
    let run = |line: &str| typed(&world, line);
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
