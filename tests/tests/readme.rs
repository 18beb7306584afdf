//! README.md, held against the program: its first role is tested as it stands there.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_tests::{binary, ran, root};
use std::path::{Component, Path};
use std::process::{Command, Stdio};

/// The files of the section "A first role": a line that begins with the path in backquotes, then the block with its text.
fn files() -> Vec<(String, String)> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let section = readme.split("\n## A first role\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let (mut files, mut path, mut text) = (Vec::new(), None, None::<String>);
    for line in section.lines() {
        match (&mut text, line.strip_prefix("```")) {
            (Some(text), None) => text.extend([line, "\n"]),
            (Some(_), Some(_)) => files.extend(path.take().zip(text.take())),
            (None, Some(_)) if path.is_some() => text = Some(String::new()),
            (None, _) => {
                let named = line.strip_prefix('`').and_then(|rest| rest.split('`').next());
                path = named.filter(|p| p.contains('/')).map(str::to_owned).or(path);
            }
        }
        if line == "Then:" {
            break;
        }
    }
    files
}

#[test]
fn the_first_role_passes_every_gate_with_and_without_its_program() {
    let dir = tempfile::tempdir().unwrap();
    let files = files();
    let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
    let expected = [
        "inventories/hosts.yaml",
        "playbooks/site.yaml",
        "roles/hello/role.yaml",
        "roles/hello/templates/site.conf.j2",
    ];
    assert_eq!(paths, expected, "the four files of the section");
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
