//! `converge.toml` and environment variables from outside: where they are found, which of them counts, and when they are not trusted.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail as the test does")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn put(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A project of two inventories with one local host each, and a role.
fn project(settings: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        let text = format!("all:\n  hosts:\n    {name}: {{ansible_connection: local}}\n");
        put(dir.path(), &format!("inventories/{name}.yaml"), &text);
    }
    put(dir.path(), "playbooks/site.yaml", "- hosts: all\n  roles: [hello]\n");
    let at = dir.path().display();
    let role = format!(
        "summary: hello\nresources:\n  - name: page\n    file: {{path: {at}/page, content: hello}}\n"
    );
    put(dir.path(), "roles/hello/role.yaml", &role);
    put(dir.path(), "converge.toml", settings);
    for (path, mode) in [("", 0o755), ("converge.toml", 0o644)] {
        allow(&dir.path().join(path), mode);
    }
    dir
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

fn ran(dir: &Path, environment: &[(&str, &str)], line: &str) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_converge"));
    command.args(line.split(' ').filter(|word| !word.is_empty())).current_dir(dir).env("HOME", dir);
    for (name, _) in std::env::vars()
        .filter(|(name, _)| name.starts_with("CONVERGE_") || name == "SUDO_UID" || name == "ANSIBLE_CONFIG")
    {
        command.env_remove(name);
    }
    let output = command.envs(environment.iter().copied()).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Ran { code: output.status.code().unwrap(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// The hosts of the inventory that counts.
fn hosts(dir: &Path, environment: &[(&str, &str)], line: &str) -> Vec<String> {
    let ran = ran(dir, environment, line);
    assert_eq!(ran.code, 0, "{line}: {}", ran.err);
    ran.json()["_meta"]["hostvars"].as_object().unwrap().keys().cloned().collect()
}

#[test]
fn a_project_needs_no_inventory_on_the_command_line() {
    let dir = project("inventory = \"inventories/one.yaml\"\n");
    for folder in ["", "roles/hello"] {
        let plan = ran(&dir.path().join(folder), &[], "plan");
        assert!(
            plan.code == 2 && plan.out.starts_with("one · 1 to change"),
            "{folder}: {}{}",
            plan.out,
            plan.err
        );
        for line in [
            "graph",
            "validate",
            "vars one",
            "verify",
            "snapshots",
            "run one -- true",
            "facts os.id",
            "doctor",
            "drift",
        ] {
            let ran = ran(&dir.path().join(folder), &[], line);
            assert!(
                !ran.err.contains("no inventory") && ran.code < 64,
                "{folder} {line}: {} {}",
                ran.code,
                ran.err
            );
        }
    }
    let help = ran(dir.path(), &[], "");
    assert!(
        help.code == 64 && help.err.contains("Usage: converge"),
        "converge alone is the help: {}",
        help.err
    );
    assert!(!dir.path().join("page").exists());
}

#[test]
fn the_command_line_comes_before_the_environment_and_this_before_the_file() {
    let dir = project("inventory = \"inventories/one.yaml\"\nforks = 3\n");
    let variables = [("CONVERGE_INVENTORY", "inventories/two.yaml"), ("CONVERGE_USER", "joe")];
    let at = dir.path();
    assert_eq!(hosts(at, &[], "inventory --list"), ["one"]);
    assert_eq!(hosts(at, &variables, "inventory --list"), ["two"]);
    assert_eq!(hosts(at, &variables, "inventory --list -i inventories/one.yaml"), ["one"]);
    assert_eq!(hosts(at, &variables, "inventory inventories/one.yaml --list"), ["one"]);
    let both = [("CONVERGE_INVENTORY", "inventories/two.yaml:inventories/one.yaml")];
    assert_eq!(hosts(at, &both, "inventory --list"), ["one", "two"]);
    // A variable is of the working folder, the file of its own.
    let below = at.join("roles");
    assert_eq!(hosts(&below, &[], "inventory --list"), ["one"]);
    assert_eq!(
        hosts(&below, &[("CONVERGE_INVENTORY", "../inventories/two.yaml")], "inventory --list"),
        ["two"]
    );

    let shown = ran(at, &variables, "settings --output json").json();
    assert_eq!((shown["format"].as_str(), shown["version"].as_u64()), (Some("converge-settings"), Some(1)));
    assert_eq!(shown["file"], "converge.toml");
    let of = |name: &str| {
        let all = shown["settings"].as_array().unwrap();
        let one = all.iter().find(|one| one["name"] == name).unwrap();
        (
            one["value"].to_string(),
            one["source"].as_str().unwrap().to_owned(),
            one["at"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let wanted = |value: &str, source: &str, at: &str| (value.to_owned(), source.to_owned(), at.to_owned());
    assert_eq!(of("inventory"), wanted("[\"inventories/two.yaml\"]", "environment", "CONVERGE_INVENTORY"));
    assert_eq!(of("forks"), wanted("3", "file", "converge.toml:2:1"));
    assert_eq!(of("user"), wanted("\"joe\"", "environment", "CONVERGE_USER"));
    assert_eq!(of("playbook"), wanted("null", "default", ""));
    let text = ran(&below, &variables, "settings").out;
    assert!(text.starts_with("../converge.toml\n\n"), "{text}");
    for line in [
        "inventory   inventories/two.yaml  CONVERGE_INVENTORY\n",
        "forks       3                     ../converge.toml:2:1\n",
        "reports     -                     default: none: no page is written\n",
    ] {
        assert!(text.contains(line), "{line}in\n{text}");
    }
}

#[test]
fn the_roles_path_is_searched_after_the_projects_own_roles() {
    let dir = project("inventory = \"inventories/one.yaml\"\nroles_path = \"shared\"\n");
    let missing = ran(dir.path(), &[], "graph");
    assert!(missing.code == 64 && missing.err.contains("`shared`, which is not a folder"), "{}", missing.err);
    put(dir.path(), "playbooks/site.yaml", "- hosts: all\n  roles: [hello, other]\n");
    put(dir.path(), "shared/other/role.yaml", "summary: other\nresources: []\n");
    put(dir.path(), "shared/hello/role.yaml", "summary: not this one\nresorces: []\n");
    let graph = ran(dir.path(), &[], "graph");
    assert!(graph.code == 0 && graph.out.contains("other"), "{}", graph.err);
    assert!(ran(dir.path(), &[], "explain other").out.contains("other"));
    std::fs::remove_file(dir.path().join("converge.toml")).unwrap();
    let typed = ran(dir.path(), &[], "graph inventories/one.yaml --roles-path shared");
    assert_eq!((typed.code, typed.out), (0, graph.out), "{}", typed.err);
    assert_eq!(ran(dir.path(), &[], "graph inventories/one.yaml").code, 64);
}

/// A vault password from a program, which leaves a trace.
fn with_program(dir: &Path) -> std::path::PathBuf {
    let trace = dir.join("trace");
    put(dir, "secret.sh", &format!("#!/bin/sh\ntouch {}\necho password\n", trace.display()));
    allow(&dir.join("secret.sh"), 0o755);
    trace
}

#[test]
fn a_file_that_others_may_write_runs_no_program() {
    let settings = "forks = 3\ninventory = \"inventories/one.yaml\"\nvault_ids = \"secret.sh\"\n";
    let dir = project(settings);
    let (at, trace) = (dir.path(), with_program(dir.path()));
    let list = "inventory inventories/one.yaml --list";
    let found = ran(at, &[], list);
    assert_eq!((found.code, found.err.as_str()), (0, ""));
    assert!(trace.exists(), "the program of a trusted file runs");
    std::fs::remove_file(&trace).unwrap();

    for (path, mode, word) in [
        ("converge.toml", 0o666, "every user of this machine may write"),
        ("", 0o757, "every user of this machine may write"),
        ("", 0o1777, "every user of this machine may write"),
    ] {
        let whole = at.join(path);
        let before = std::fs::metadata(&whole).unwrap().permissions().mode();
        allow(&whole, mode);
        let found = ran(at, &[], list);
        assert_eq!(found.code, 0, "{}", found.err);
        assert!(!trace.exists(), "{path} {mode:o}: the program ran");
        let ignored = "warning[untrusted-settings]: ignored: `inventory`, `vault_ids`, because ";
        assert!(found.err.contains(ignored) && found.err.contains(word), "{}", found.err);
        assert!(
            found.err.contains("converge.toml:2:1") && found.err.contains("help: chmod o-w "),
            "{}",
            found.err
        );
        let none = ran(at, &[], "plan");
        assert!(none.code == 64 && none.err.contains("no inventory is given"), "{}", none.err);
        let shown = ran(at, &[], "settings");
        assert!(
            shown.out.contains("forks       3") && shown.out.contains("ignored at converge.toml:3:1"),
            "{}",
            shown.out
        );
        // Whoever names the file trusts it.
        let named = ran(at, &[("CONVERGE_SETTINGS", "converge.toml")], list);
        assert_eq!((named.code, named.err.as_str()), (0, ""));
        std::fs::remove_file(&trace).unwrap();
        allow(&whole, before);
    }
}

#[test]
fn a_file_of_another_user_runs_no_program() {
    let dir = project("vault_ids = \"secret.sh\"\n");
    let trace = with_program(dir.path());
    if std::os::unix::fs::chown(dir.path().join("converge.toml"), Some(12345), None).is_err() {
        // Nobody but root gives files away; the rule itself has unit tests.
        return;
    }
    let list = "inventory inventories/one.yaml --list";
    let found = ran(dir.path(), &[], list);
    assert!(found.code == 0 && found.err.contains("belongs to another user (uid 12345)"), "{}", found.err);
    assert!(!trace.exists());
    // With sudo it is the caller's.
    assert_eq!(ran(dir.path(), &[("SUDO_UID", "12345")], list).err, "");
    assert!(trace.exists());
}

#[test]
fn a_link_counts_as_the_file_that_it_leads_to() {
    let dir = project("inventory = \"inventories/one.yaml\"\n");
    let elsewhere = tempfile::tempdir().unwrap();
    let real = elsewhere.path().join("settings.toml");
    std::fs::rename(dir.path().join("converge.toml"), &real).unwrap();
    std::os::unix::fs::symlink(&real, dir.path().join("converge.toml")).unwrap();
    assert_eq!(
        hosts(dir.path(), &[], "inventory --list"),
        ["one"],
        "paths are those of the folder of the link"
    );
    allow(elsewhere.path(), 0o777);
    let open = ran(dir.path(), &[], "inventory --list");
    assert!(open.code == 64 && open.err.contains("every user of this machine may write"), "{}", open.err);
}

#[test]
fn mistakes_in_the_environment_are_reported_with_those_of_the_file() {
    let dir = project("inventry = \"x\"\nforks = \"many\"\n");
    let variables = [("CONVERGE_FORKS", "0"), ("CONVERGE_INVENTROY", "x")];
    let found = ran(dir.path(), &variables, "plan");
    assert_eq!(found.code, 64);
    for text in [
        "the variable `CONVERGE_FORKS` must be an integer from 1 to 1000, and it is `0`",
        "converge.toml:1:1: unknown key",
        "did you mean `inventory`?",
        "converge.toml:2:9: expected an integer",
        "3 errors, 1 warning\n",
    ] {
        assert!(found.err.contains(text), "{text} in\n{}", found.err);
    }
    // A command without use for settings is not stopped by them.
    assert_eq!(ran(dir.path(), &variables, "schema settings").code, 0);
    let gone = ran(dir.path(), &[("CONVERGE_SETTINGS", "nowhere.toml")], "plan");
    assert!(
        gone.code == 64 && gone.err.contains("nowhere.toml") && gone.err.contains("unset it"),
        "{}",
        gone.err
    );
    put(dir.path(), "converge.toml", "");
    let near = ran(dir.path(), &[("CONVERGE_INVENTROY", "x")], "settings");
    assert!(near.code == 0 && near.err.contains("did you mean `CONVERGE_INVENTORY`?"), "{}", near.err);
}

#[test]
fn what_is_no_plain_file_is_passed_over_and_what_is_too_large_is_refused() {
    let dir = project("");
    let file = dir.path().join("converge.toml");
    std::fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    assert!(
        ran(dir.path(), &[], "settings").out.starts_with("no converge.toml"),
        "a pipe would wait for ever"
    );
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "#".repeat((1 << 20) + 1)).unwrap();
    let large = ran(dir.path(), &[], "settings");
    assert!(large.code == 64 && large.err.contains("larger than 1 MiB"), "{}", large.err);
    std::fs::write(&file, [b'#', 0xff]).unwrap();
    assert!(ran(dir.path(), &[], "settings").err.contains("is not UTF-8 text"));
}

#[test]
fn ansible_cfg_is_the_lowest_layer_and_shown_with_its_places() {
    let dir = project("forks = 3\n");
    let at = dir.path();
    let text = "[defaults]\ninventory = inventories/two.yaml\nforks = 7\nremote_user = deploy\nprivate_key_file = keys/id\n\
        [privilege_escalation]\nbecome = True\n[ssh_connection]\npipelining = True\n";
    put(at, "ansible.cfg", text);
    allow(&at.join("ansible.cfg"), 0o644);
    for folder in ["", "roles"] {
        assert_eq!(hosts(&at.join(folder), &[], "inventory --list"), ["two"]);
    }
    assert_eq!(hosts(at, &[("CONVERGE_INVENTORY", "inventories/one.yaml")], "inventory --list"), ["one"]);
    let shown = ran(at, &[], "settings --output json").json();
    let of = |name: &str| {
        let all = shown["settings"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap()["at"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        [of("inventory"), of("user"), of("forks")],
        ["ansible.cfg:2:1", "ansible.cfg:4:1", "converge.toml:1:1"]
    );
    let ansible = &shown["ansible"];
    assert_eq!(ansible["file"], "ansible.cfg");
    assert_eq!(ansible["variables"][0]["name"], "ansible_ssh_private_key_file");
    assert_eq!(ansible["variables"][1]["value"], "True");
    assert_eq!(ansible["ignored"][0]["key"], "pipelining");
    let text = ran(at, &[], "settings").out;
    for part in ["ansible.cfg:2:1", "ansible_become", "ansible.cfg:7:1", "pipelining: ignored"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // Another place for it, and one that others may write.
    put(at, "other/own.cfg", "[defaults]\ninventory = ../inventories/one.yaml\n");
    assert_eq!(hosts(at, &[("ANSIBLE_CONFIG", "other/own.cfg")], "inventory --list"), ["one"]);
    put(at, "bad.cfg", "[defaults]\nforks = many\n");
    let bad = ran(at, &[("ANSIBLE_CONFIG", "bad.cfg")], "plan");
    assert!(bad.code == 64 && bad.err.contains("bad.cfg:2:1"), "{} {}", bad.code, bad.err);
    allow(&at.join("ansible.cfg"), 0o666);
    let open = ran(at, &[], "plan");
    assert!(
        open.code == 64 && open.err.contains("ansible.cfg is ignored, because every user"),
        "{}",
        open.err
    );
    assert!(open.err.contains("ANSIBLE_CONFIG=ansible.cfg"), "{}", open.err);
}
