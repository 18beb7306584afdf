//! The binary from outside: usage, bad input, and the commands that need no host. A local host serves as the target.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail as the test does")]

#[path = "cli/output.rs"]
mod output;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const COMMANDS: [&str; 15] = [
    "validate",
    "init",
    "settings",
    "apply",
    "plan",
    "drift",
    "rollback",
    "snapshots",
    "verify",
    "inventory",
    "vars",
    "vault",
    "graph",
    "explain",
    "completions",
];

fn put(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Two local hosts, two roles.
fn project() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    // Nobody but root makes things that belong to root.
    let me = Command::new("id").arg("-un").output().unwrap();
    let me = String::from_utf8_lossy(&me.stdout).trim().to_owned();
    put(
        dir.path(),
        "inv.yaml",
        "all:\n  hosts:\n    a: {ansible_connection: local, port: 80}\n    b: {ansible_connection: local}\n  vars: {port: 8080}\n",
    );
    put(dir.path(), "playbooks/site.yaml", "- hosts: all\n  roles: [web, base]\n");
    put(
        dir.path(),
        "roles/base/role.yaml",
        &format!(
            "summary: base\nresources:\n  - name: folder\n    directory: {{path: {at}/out, owner: {me}}}\n"
        ),
    );
    put(
        dir.path(),
        "roles/web/role.yaml",
        &format!(
            "summary: web\nrequires: [base]\ninputs:\n  token: {{type: str, default: hunter2, sensitive: true}}\nresources:\n  \
         - name: page\n    file: {{path: {at}/out/page, owner: {me}, content: \"hello\\n\", mode: \"0640\"}}\n  \
         - name: secret\n    file: {{path: {at}/out/secret, owner: {me}, content: \"{{{{ token }}}}\"}}\n"
        ),
    );
    dir
}

fn converge(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_converge"))
        .args(args)
        .current_dir(dir)
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .env_remove("CONVERGE_LOG")
        .env("HOME", dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Exit code, standard output, standard error.
fn ran(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let output = converge(dir, args);
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_command_has_help() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, _) = ran(dir.path(), &["--help"]);
    assert_eq!(code, 0);
    for command in COMMANDS {
        assert!(out.contains(&format!("\n  {command} ")), "{command} is not in the help");
        let (code, out, err) = ran(dir.path(), &[command, "--help"]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.contains(&format!("Usage: converge {command}")), "{out}");
    }
    assert!(!out.contains("docs"), "the generator is for developers");
    assert_eq!(ran(dir.path(), &["--version"]).0, 0);
}

#[test]
fn wrong_usage_ends_with_64() {
    let dir = project();
    for args in [
        &[][..],
        &["plan"],
        &["plan", "inv.yaml", "--no-such-flag"],
        &["plan", "inv.yaml", "--forks", "0"],
        &["plan", "inv.yaml", "--output", "xml"],
        &["plna", "inv.yaml"],
        &["inventory", "inv.yaml"],
        &["inventory", "inv.yaml", "--host", "c"],
        &["vars", "c", "-i", "inv.yaml"],
        &["vars", "a", "prot", "-i", "inv.yaml"],
        &["explain", "fiel"],
        &["no-such-inventory.yaml"],
        &["plan", "inv.yaml", "--set", "port"],
        &["plan", "inv.yaml", "--limit", "nobody"],
        &["plan", "inv.yaml", "--become-password-file", "no-such-file"],
    ] {
        let (code, out, err) = ran(dir.path(), args);
        assert_eq!((code, out.as_str()), (64, ""), "{args:?}: {err}");
        assert!(!err.is_empty(), "{args:?}");
    }
    let near = |args: &[&str]| ran(dir.path(), args).2;
    assert!(near(&["plna", "inv.yaml"]).contains("did you mean `converge plan`?"));
    assert!(near(&["explain", "fiel"]).contains("did you mean `file`?"));
    assert!(near(&["vars", "a", "prot", "-i", "inv.yaml"]).contains("did you mean `port`?"));
}

#[test]
fn bad_files_are_pointed_at_all_at_once() {
    let dir = project();
    put(dir.path(), "bad.yaml", "all:\n  hosts: [a\n");
    let (code, _, err) = ran(dir.path(), &["plan", "bad.yaml"]);
    assert_eq!(code, 64);
    assert!(err.contains("--> bad.yaml:2:") && err.ends_with("1 error\n"), "{err}");

    put(dir.path(), "playbooks/site.yaml", "- hosts: all\n  roles: [web, bsae]\n");
    put(dir.path(), "roles/web/role.yaml", "summary: web\nresources:\n  - name: x\n    fiel: {path: /x}\n");
    let (code, _, err) = ran(dir.path(), &["inv.yaml", "--yes"]);
    assert_eq!(code, 64, "{err}");
    assert!(err.contains("playbooks/site.yaml:2:16") && err.contains("bsae"), "{err}");
    assert!(err.contains("roles/web/role.yaml:4:5") && err.contains("`file`"), "{err}");
    assert!(err.ends_with("2 errors\n"), "{err}");
}

#[test]
fn the_inventory_is_printed_as_ansible_prints_it() {
    let dir = project();
    let (code, out, _) = ran(dir.path(), &["inventory", "inv.yaml", "--graph"]);
    assert_eq!((code, out.as_str()), (0, "@all:\n  |--@ungrouped:\n  |  |--a\n  |  |--b\n"));
    let (_, out, _) = ran(dir.path(), &["inventory", "-i", "inv.yaml", "--host", "a"]);
    let host: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(host["port"], 80);
    let (_, out, _) = ran(dir.path(), &["inventory", "inv.yaml", "--list", "--limit", "b"]);
    let list: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["_meta"]["hostvars"]["b"]["port"], 8080);
    assert_eq!(list["_meta"]["hostvars"].get("a"), None);
}

#[test]
fn variables_are_shown_with_their_places() {
    let dir = project();
    let (code, out, _) = ran(dir.path(), &["vars", "a", "port", "-i", "inv.yaml"]);
    assert_eq!(code, 0);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[1].contains("> host") && lines[1].contains("80  inv.yaml:3:"), "{out}");
    assert!(lines[2].contains("group all") && lines[2].contains("8080  inv.yaml:5:"), "{out}");
    let (_, out, _) = ran(dir.path(), &["vars", "a", "token", "-i", "inv.yaml", "--output", "json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((json["format"].as_str(), json["version"].as_u64()), (Some("converge-vars"), Some(1)));
    assert!(out.contains("roles/web/role.yaml:4:") && !out.contains("hunter2"), "{out}");
}

#[test]
fn the_example_of_a_gpu_cluster_is_sound() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = ["inventories/prod.yaml", "--playbook", "playbooks/gpu_cluster.yaml"];
    let (code, text, err) = ran(&root, &[&["graph"], &example[..]].concat());
    assert_eq!(code, 0, "{err}");
    for role in [
        "k8s",
        "firewall_ports",
        "pod_network",
        "gpu_host",
        "gpu_operator",
        "gpu_runtime",
        "time_slicing",
        "discovery",
        "runtime_class",
    ] {
        assert!(text.contains(role), "{role}: {text}");
    }
}

/// The inventory of each reference system names its playbook; its roles come in this order.
#[test]
fn the_reference_systems_are_sound_and_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (system, order) in [
        (
            "thinkube",
            &[
                "k8s",
                "nvidia_driver",
                "pod_network",
                "control_plane_workloads",
                "gpu_operator",
                "gpu_runtime",
                "gpu_ready",
                "time_slicing",
                "node_profile",
                "gpu_validation",
            ][..],
        ),
        (
            "thinkube-snap",
            &[
                "k8s_snap",
                "nvidia_driver",
                "gpu_host",
                "control_plane_workloads",
                "gpu_operator",
                "gpu_runtime",
                "gpu_ready",
                "time_slicing",
                "discovery",
                "gpu_validation",
            ],
        ),
        (
            "smart-scaler",
            &[
                "gpu_host",
                "nvidia_container_toolkit",
                "gpu_runtime",
                "gpu_ready",
                "cluster_extras",
                "nim_service",
                "gpu_monitoring",
            ],
        ),
        ("trainer-ci", &["nvidia_driver", "gpu_host", "docker_runtime", "gpu_ready", "trainer_runtimes"]),
        (
            "pytorch-cloud",
            &["device_plugin", "node_profile", "gpu_validation", "arc_controller", "arc_runner_set"],
        ),
        (
            "amd-mi300",
            &[
                "ipvs",
                "k8s",
                "pod_network",
                "amd_device_plugin",
                "gpu_validation",
                "arc_controller",
                "arc_runner_set",
            ],
        ),
    ] {
        let inventory = format!("inventories/{system}.yaml");
        let (code, text, err) = ran(&root, &["graph", &inventory]);
        assert_eq!(code, 0, "{system}: {err}");
        let roles: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        let places: Vec<Option<usize>> =
            order.iter().map(|role| roles.iter().position(|found| found == role)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{system}: {text}");
    }
}

#[test]
fn the_graph_comes_in_three_forms() {
    let dir = project();
    let (_, text, _) = ran(dir.path(), &["graph", "inv.yaml"]);
    assert_eq!(text, "  1  base\n  2  web   after base\n");
    let (_, dot, _) = ran(dir.path(), &["graph", "inv.yaml", "--format", "dot"]);
    assert!(dot.contains("\"base\" -> \"web\";"));
    let (_, mermaid, _) = ran(dir.path(), &["graph", "inv.yaml", "--format", "mermaid"]);
    assert!(mermaid.starts_with("graph LR\n"));
    put(dir.path(), "roles/base/role.yaml", "summary: base\nrequires: [web]\nresources: []\n");
    let (code, _, err) = ran(dir.path(), &["graph", "inv.yaml"]);
    assert_eq!(code, 64);
    assert!(err.contains("base") && err.contains("web") && err.contains("role.yaml:2:"), "{err}");
}

#[test]
fn kinds_are_explained_and_shells_completed() {
    let dir = tempfile::tempdir().unwrap();
    let (code, kinds, _) = ran(dir.path(), &["explain"]);
    assert_eq!(code, 0);
    let names: Vec<&str> = kinds
        .lines()
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.contains(&"file") && names.contains(&"unit"), "{kinds}");
    for kind in names {
        let (code, page, _) = ran(dir.path(), &["explain", kind]);
        assert!(code == 0 && page.starts_with(&format!("# `{kind}`")), "{kind}");
    }
    for (shell, says) in
        [("bash", "complete -- "), ("zsh", "complete -- "), ("fish", "complete -- "), ("elvish", "snapshots")]
    {
        let (code, script, _) = ran(dir.path(), &["completions", shell]);
        assert!(code == 0 && script.contains(says), "{shell}");
    }
}

#[test]
fn pages_are_written_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(ran(dir.path(), &["docs", "--out", "docs"]).0, 0);
    let commands = std::fs::read_to_string(dir.path().join("docs/commands.md")).unwrap();
    assert!(COMMANDS.iter().all(|c| commands.contains(&format!("\n## `converge {c}`\n"))), "{commands}");
    assert!(dir.path().join("docs/kinds/file.md").exists());
    assert_eq!(ran(dir.path(), &["docs", "--out", "docs", "--check"]).0, 0);
    put(dir.path(), "docs/kinds/file.md", "old");
    let (code, out, _) = ran(dir.path(), &["docs", "--out", "docs", "--check"]);
    assert_eq!((code, out.as_str()), (1, "kinds/file.md is not up to date\n"));
}

#[test]
fn a_plan_of_a_local_host_shows_everything_and_changes_nothing() {
    let dir = project();
    let (code, out, err) = ran(dir.path(), &["plan", "inv.yaml", "--limit", "a"]);
    assert_eq!(code, 2, "{out}{err}");
    assert!(out.contains("a · 3 to change") && out.contains("+hello"), "{out}");
    assert!(out.contains("content is sensitive: changes") && !out.contains("hunter2"), "{out}");
    assert!(!out.contains('\u{1b}'), "no colour in a pipe");
    assert!(!dir.path().join("out").exists());
    let (code, out, _) = ran(dir.path(), &["drift", "inv.yaml", "--limit", "a", "--output", "json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, json["format"].as_str(), json["version"].as_u64()),
        (2, Some("converge-plan-report"), Some(1))
    );
    assert!(!out.contains("hunter2"));
}

#[test]
fn equal_hosts_are_planned_as_one() {
    let dir = project();
    let (_, out, _) = ran(dir.path(), &["plan", "inv.yaml"]);
    assert!(out.starts_with("a, b · 2 hosts, each: 3 to change\n"), "{out}");
    assert!(out.ends_with("\n2 hosts: 6 to change\n"), "{out}");
}

#[test]
fn without_anybody_to_ask_nothing_is_changed() {
    let dir = project();
    for args in
        [&["inv.yaml", "--limit", "a"][..], &["apply", "inv.yaml", "--limit", "a", "--output", "json"]]
    {
        let (code, _, err) = ran(dir.path(), args);
        assert_eq!(code, 4, "{err}");
        assert!(err.contains("nothing was changed") && err.contains("--yes"), "{err}");
    }
    assert!(!dir.path().join("out").exists());
}

#[test]
fn a_host_that_is_not_there_ends_with_3() {
    let dir = project();
    put(dir.path(), "gone.yaml", "all:\n  hosts:\n    gone: {ansible_host: 127.0.0.1, ansible_port: 1}\n");
    let (code, out, _) = ran(dir.path(), &["plan", "gone.yaml"]);
    assert_eq!(code, 3, "{out}");
    assert!(out.contains("gone · unreachable") && out.ends_with("1 host: 1 host unreachable\n"), "{out}");
}

#[test]
fn a_plan_in_a_file_holds_its_own_choices_and_no_secret() {
    let dir = project();
    let (code, _, err) = ran(dir.path(), &["plan", "inv.yaml", "--limit", "a", "--out", "p.plan"]);
    assert_eq!(code, 2, "{err}");
    let text = std::fs::read_to_string(dir.path().join("p.plan")).unwrap();
    assert!(!text.contains("hunter2"));
    let (code, _, err) = ran(dir.path(), &["p.plan", "--limit", "b"]);
    assert_eq!(code, 64);
    assert!(err.contains("its own choice"), "{err}");
    // The project is found from another folder; without a terminal for the question the command ends there.
    let elsewhere = tempfile::tempdir().unwrap();
    let plan = dir.path().join("p.plan");
    let output = Command::new(env!("CARGO_BIN_EXE_converge"))
        .arg(&plan)
        .current_dir(elsewhere.path())
        .env("HOME", dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("a · 3 to change"), "{out}");
    put(dir.path(), "p.plan", &text.replacen("\"version\":", "\"version\":9", 1));
    let (code, _, err) = ran(dir.path(), &["p.plan"]);
    assert_eq!(code, 64, "{err}");
    assert!(err.contains("newer"), "{err}");
}

#[test]
fn a_project_that_everybody_may_change_gets_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = project();
    let args = ["plan", "inv.yaml", "--limit", "a"];
    let warned =
        |(_, out, err): (i32, String, String)| (out + &err).contains("every user of this machine may change");
    assert!(!warned(ran(dir.path(), &args)));
    let roles = dir.path().join("roles");
    std::fs::set_permissions(&roles, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(warned(ran(dir.path(), &args)));
}

#[test]
fn a_role_is_explained_by_its_folder_too() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(ran(dir.path(), &["init", "--address", "192.0.2.1"]).0, 0);
    let by_name = ran(dir.path(), &["explain", "hello"]);
    assert_eq!(by_name.0, 0, "{}", by_name.2);
    for path in ["roles/hello", "roles/hello/"] {
        assert_eq!(ran(dir.path(), &["explain", path]), by_name, "{path}");
    }
    let (code, _, err) = ran(dir.path(), &["explain", "roles/helo"]);
    assert_eq!(code, 64);
    assert!(
        err.contains("there is no role `helo` in roles") && err.contains("did you mean `hello`?"),
        "{err}"
    );
}

#[test]
fn what_init_writes_is_a_project() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = ran(dir.path(), &["init", "first", "--address", "fe80::1", "--user", "joe"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("wrote first/roles/hello/role.yaml") && out.contains("cd first"), "{out}");
    let first = dir.path().join("first");
    // Its settings name the inventory, in each of its folders.
    for folder in ["", "roles/hello"] {
        let (code, out, err) = ran(&first.join(folder), &["validate"]);
        assert_eq!((code, out.as_str(), err.as_str()), (0, "1 host, 1 role: no errors\n", ""), "{folder}");
    }
    let schema = std::fs::read_to_string(first.join(".converge/settings.json")).unwrap();
    let settings = std::fs::read_to_string(first.join("converge.toml")).unwrap();
    assert!(settings.starts_with("#:schema ./.converge/settings.json\n"), "{settings}");
    let printed = ran(&first, &["schema", "settings"]).1;
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(json(&schema), json(&printed));
    // Each file begins with a line that leads to its schema, and fits that.
    for (file, name) in [
        ("inventories/hosts.yaml", "inventory"),
        ("playbooks/site.yaml", "playbook"),
        ("roles/hello/role.yaml", "role"),
    ] {
        let text = std::fs::read_to_string(first.join(file)).unwrap();
        let line = text.lines().next().unwrap();
        let path =
            line.strip_prefix("# yaml-language-server: $schema=").unwrap_or_else(|| panic!("{file}: {line}"));
        let schema = std::fs::read_to_string(first.join(file).parent().unwrap().join(path)).unwrap();
        assert_eq!(json(&schema), json(&ran(&first, &["schema", name]).1), "{file}");
        let document: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        let validator = jsonschema::validator_for(&json(&schema)).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{file}");
    }
    let (_, out, _) = ran(&first, &["inventory", "inventories/hosts.yaml", "--host", "web1"]);
    assert!(
        out.contains("\"ansible_host\": \"fe80::1\"") && out.contains("\"ansible_user\": \"joe\""),
        "{out}"
    );
    // Nothing is overwritten, and nothing is written beside what is there.
    std::fs::remove_file(first.join("playbooks/site.yaml")).unwrap();
    let (code, _, err) = ran(&first, &["init"]);
    assert_eq!(code, 64, "{err}");
    assert!(!first.join("playbooks/site.yaml").exists());
}

#[test]
fn an_encrypted_file_needs_no_password_where_no_host_of_the_run_has_it() {
    let dir = project();
    put(
        dir.path(),
        "inv.yaml",
        "web:\n  hosts: {a: {ansible_connection: local}}\ndb:\n  hosts: {b: {ansible_connection: local}}\n",
    );
    put(dir.path(), "group_vars/db.yml", "$ANSIBLE_VAULT;1.1;AES256\n6162\n");
    let code = |args: &[&str]| ran(dir.path(), args).0;
    assert_eq!(code(&["inventory", "inv.yaml", "--host", "a"]), 0);
    assert_eq!(code(&["inventory", "inv.yaml", "--graph"]), 0);
    assert_eq!(code(&["inventory", "inv.yaml", "--list", "--limit", "web"]), 0);
    assert_eq!(code(&["inventory", "inv.yaml", "--list"]), 64);
    assert_eq!(code(&["graph", "inv.yaml", "--limit", "a"]), 0);
    assert_eq!(code(&["graph", "inv.yaml"]), 64);
    // Something reads another host's variables: then its file counts.
    put(dir.path(), "group_vars/web.yml", "port: \"{{ hostvars['b'].port | default(1) }}\"\n");
    assert_eq!(code(&["graph", "inv.yaml", "--limit", "a"]), 64);
}
