//! Every command line of README and the documents is run, on a host of the lab and a small project, or a table says why it is not. A line
//! that is in neither table fails the test, and so does a row that no document has any more.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_tests::{World, binary, link_roles, ran, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// README and the documents that people write, of which every line counts. `commands.md` and `ansible.md` are made by a program, and every line of
/// `first-hour.md` is run by a test of its own.
fn documents() -> Vec<(String, String)> {
    let mut paths = vec![root().join("README.md")];
    for folder in ["docs", "docs/roles"] {
        paths.extend(std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    let written = |path: &PathBuf| {
        let other = ["commands.md", "ansible.md", "first-hour.md"].iter().any(|name| path.ends_with(name));
        path.extension().is_some_and(|e| e == "md") && !other
    };
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        (name, std::fs::read_to_string(path).unwrap())
    };
    paths.into_iter().filter(written).map(read).collect()
}

/// Whether a line of a block runs converge, by itself or in a loop.
fn is_command(line: &str) -> bool {
    line.starts_with("converge ") || line.contains("do converge ")
}

/// The command lines of a document, each with its place: lines of blocks, and texts between backquotes.
fn lines(name: &str, text: &str) -> Vec<(String, String)> {
    let (mut found, mut inside) = (Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("{name}:{number}");
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if inside {
            let line = line.trim().trim_start_matches("$ ");
            let code = line.split(" #").next().unwrap_or_default().trim();
            found.extend(is_command(code).then(|| (place, code.to_owned())));
        } else {
            let code = line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("converge "));
            found.extend(code.map(|code| (place.clone(), code.replace("\\|", "|"))));
        }
    }
    found
}

/// A line of a document, how it is run, its exit code, and what it prints.
type Runs = (&'static str, &'static str, i32, &'static str);

/// The ID of the newest run, for a command line.
const NEWEST: &str = "$(converge snapshots hosts.yaml | awk 'NR == 1 { print $1 }')";

/// In this order. `=` is the line as it is written, NEWEST the newest run.
const RUNS: &[Runs] = &[
    // Looking.
    ("converge plan INVENTORY", "converge plan hosts.yaml", 2, "create file /etc/greeting"),
    ("converge plan inventories/demo.yaml", "converge plan hosts.yaml", 2, "1 to change"),
    ("converge drift INVENTORY", "converge drift hosts.yaml", 2, "create file /etc/greeting"),
    ("converge plan --out FILE", "converge plan hosts.yaml --out saved.plan", 2, "1 to change"),
    ("converge facts INVENTORY", "converge facts hosts.yaml", 0, "debian"),
    ("converge facts INVENTORY [NAME.PATH]", "converge facts hosts.yaml os.id", 0, "debian"),
    ("converge facts INVENTORY nvidia.gpus[0].name", "converge facts hosts.yaml nvidia.gpus[0].name", 0, ""),
    ("converge doctor INVENTORY", "converge doctor hosts.yaml", 0, "h1"),
    ("converge doctor INVENTORY [--limit PATTERN]", "converge doctor hosts.yaml --limit h1", 0, "h1"),
    ("converge doctor inventories/prod.yaml", "converge doctor hosts.yaml", 0, "h1"),
    // The inventory and its values.
    ("converge inventory --list", "converge inventory hosts.yaml --list", 0, "\"word\": \"hello\""),
    ("converge inventory INVENTORY --list", "converge inventory hosts.yaml --list", 0, "hostvars"),
    ("converge vars HOST NAME", "converge vars h1 word -i hosts.yaml", 0, "hosts.yaml"),
    ("converge vars HOST [NAME]", "converge vars h1 -i hosts.yaml", 0, "word"),
    ("converge validate INVENTORY", "converge validate hosts.yaml", 0, "no errors"),
    ("converge init [DIR]", "converge init first", 0, "wrote first/roles/hello/role.yaml"),
    (
        "converge init --address 192.0.2.10 --user deploy",
        "converge init second --address 192.0.2.10 --user deploy",
        0,
        "wrote second/inventories/hosts.yaml",
    ),
    ("converge import PATH", "converge import ansible/roles/chrony", 0, "1 task: 1 exact"),
    (
        "converge import PATH [--out DIR]",
        "converge import ansible/roles/chrony --out other",
        0,
        "1 task: 1 exact",
    ),
    (
        "converge import roles/chrony --out .",
        "converge import ansible/roles/chrony --out new",
        0,
        "2 files written below new",
    ),
    ("converge import site.yml --out .", "converge import ansible/site.yml --out new", 0, "1 task: 1 exact"),
    ("converge plan hosts.yaml --playbook playbooks/site.yaml", "=", 2, "create file /etc/greeting"),
    ("converge graph INVENTORY", "converge graph hosts.yaml", 0, "greeting"),
    ("converge graph inventories/NAME.yaml", "converge graph hosts.yaml", 0, "greeting"),
    ("converge graph INVENTORY --format svg", "converge graph hosts.yaml --format svg", 0, "<svg"),
    ("converge explain KIND", "converge explain file", 0, "path"),
    ("converge explain file", "=", 0, "path"),
    ("converge explain k8s", "=", 0, "k8s_version"),
    (
        "converge explain [KIND|ROLE|RESOURCE]",
        "converge explain service && converge explain greeting",
        0,
        "word",
    ),
    ("converge schema NAME", "converge schema inventory", 0, "$schema"),
    ("converge schema role", "=", 0, "$schema"),
    ("converge schema settings", "=", 0, "$schema"),
    (
        "converge schema plan|apply|verify|snapshots|state|vars|facts|fact|import",
        "for name in plan apply verify snapshots state vars facts fact import; do converge schema $name || exit 1; done",
        0,
        "$schema",
    ),
    (
        "for name in role playbook inventory settings; do converge schema $name > .converge/$name.json; done",
        "mkdir -p .converge && for name in role playbook inventory settings; do converge schema $name > .converge/$name.json || exit 1; done; ls .converge",
        0,
        "playbook.json",
    ),
    ("converge completions SHELL", "converge completions fish", 0, "complete -c converge"),
    (
        "converge completions bash|zsh|fish|elvish|powershell",
        "for shell in bash zsh fish elvish powershell; do converge completions $shell || exit 1; done",
        0,
        "converge",
    ),
    ("converge man DIR", "converge man pages && ls pages", 0, "converge-plan.1"),
    // Changing, and back.
    ("converge apply FILE", "converge apply saved.plan --yes", 0, "changed"),
    ("converge INVENTORY", "converge hosts.yaml --yes", 0, "unchanged"),
    ("converge inventories/demo.yaml", "converge hosts.yaml --yes", 0, "unchanged"),
    ("converge apply INVENTORY", "converge apply hosts.yaml --yes", 0, "unchanged"),
    ("converge verify INVENTORY", "converge verify hosts.yaml", 0, "1 check holds"),
    ("converge run PATTERN -i INVENTORY -- CMD", "converge run h1 -i hosts.yaml -- uname", 0, "Linux"),
    ("converge snapshots INVENTORY", "converge snapshots hosts.yaml", 0, "playbooks/site.yaml"),
    ("converge snapshots inventories/demo.yaml", "converge snapshots hosts.yaml", 0, "playbooks/site.yaml"),
    ("converge state list INVENTORY", "converge state list hosts.yaml", 0, "path:/etc/greeting"),
    ("converge state show INVENTORY", "converge state show hosts.yaml", 0, "original state: absent"),
    ("converge state diff INVENTORY", "converge state diff hosts.yaml", 0, "as recorded"),
    (
        "converge rollback INVENTORY",
        "converge rollback hosts.yaml --yes && converge hosts.yaml --yes",
        0,
        "remove",
    ),
    (
        "converge rollback INVENTORY --to ID",
        "converge rollback hosts.yaml --to NEWEST --yes && converge hosts.yaml --yes",
        0,
        "remove",
    ),
    (
        "converge rollback --to RUN",
        "converge rollback hosts.yaml --to NEWEST --yes && converge hosts.yaml --yes",
        0,
        "remove",
    ),
    (
        "converge apply INVENTORY --prune",
        "sed -i 's/greeting/other/' roles/greeting/role.yaml && converge apply hosts.yaml --prune=1 --yes",
        0,
        "/etc/greeting",
    ),
    (
        "converge state forget INVENTORY ROLE/ID…",
        "converge state forget hosts.yaml path:/etc/other --yes",
        0,
        "1 object forgotten",
    ),
    (
        "converge state adopt INVENTORY ROLE/ID…",
        "converge state adopt hosts.yaml 'greeting/the other' --yes",
        0,
        "adopted",
    ),
    (
        "converge state move INVENTORY OLD NEW",
        "sed -i 's/name: the other/name: the page/' roles/greeting/role.yaml && \
         converge state move hosts.yaml 'greeting/the other' 'greeting/the page' --yes && \
         converge state forget hosts.yaml path:/etc/other --yes && converge run h1 -i hosts.yaml -- rm /etc/other",
        0,
        "moved",
    ),
    // Tests of roles.
    ("converge test roles/NAME", "converge test roles/greeting", 0, "1 scenario: 1 passed"),
    ("converge test roles/NAME --record", "converge test roles/greeting --record", 0, "1 scenario: 1 passed"),
    ("converge test roles/NAME --pure", "converge test roles/greeting --pure", 0, "1 scenario: 1 passed"),
    (
        "converge test roles/NAME --inventory FILE --limit PATTERN",
        "converge rollback hosts.yaml --yes && converge test roles/greeting --inventory hosts.yaml --limit h1 --yes",
        0,
        "1 scenario: 1 passed",
    ),
    ("converge test --remove-kept", "=", 0, ""),
    // Vaults: from here on the inventory's values need the password.
    (
        "converge vault encrypt-string",
        "printf hunter2 | converge vault encrypt-string --vault-password-file ~/.vault-prod",
        0,
        "!vault |",
    ),
    (
        "converge vault encrypt-string --name db_password",
        "printf hunter2 | converge vault encrypt-string --name db_password --vault-password-file ~/.vault-prod",
        0,
        "db_password: !vault |",
    ),
    (
        "converge vault encrypt group_vars/db/secrets.yml",
        "converge vault encrypt group_vars/db/secrets.yml --vault-password-file ~/.vault-prod && cat group_vars/db/secrets.yml",
        0,
        "$ANSIBLE_VAULT;1.1;AES256",
    ),
    (
        "converge plan inventories/prod.yaml --vault-password-file ~/.vault-prod",
        "converge plan hosts.yaml --vault-password-file ~/.vault-prod",
        2,
        "create file /etc/other",
    ),
];

/// Lines that are not run here: the test or the command that runs the same elsewhere if there is one, and the reason.
const NOT_HERE: &[(&str, &str, &str)] = &[
    ("converge vars web1 site_port", "readme", "a step of README's first role"),
    (
        "converge plan inventories/prod.yaml --playbook playbooks/gpu_cluster.yaml",
        "",
        "three hosts with GPUs, and the vendors' repositories and registries",
    ),
    ("converge inventories/prod.yaml --playbook playbooks/gpu_cluster.yaml", "", "the same hosts"),
    ("converge verify inventories/prod.yaml --playbook playbooks/gpu_cluster.yaml", "", "the same hosts"),
    ("converge rollback inventories/prod.yaml --playbook playbooks/gpu_cluster.yaml", "", "the same hosts"),
    (
        "converge apply demo-cluster.yaml --playbook playbooks/demo_cluster.yaml --yes",
        "",
        "`cargo xtask demo cluster` runs it, on a whole cluster",
    ),
    ("converge apply … --limit NAME --allow-destroy kubeadm:node", "k8s_nodes", "a whole cluster"),
    ("converge apply … --limit NAME --allow-destroy k8s_snap:node", "k8s_role", "a whole cluster"),
    ("converge apply --role time_slicing", "cluster", "a cluster with NVIDIA's operator"),
    (
        "converge test roles/exporter",
        "role_tests",
        "`cargo xtask test` runs `converge test --all` beside the tests",
    ),
];

const ROLE: &str = "summary: A file that greets\ninputs:\n  word: {type: str, default: hi, help: the greeting}\nresources:\n  - name: the greeting\n    \
    file: {path: /etc/greeting, content: \"{{ word }}\\n\"}\nverify:\n  - name: it is there\n    query: {run: test -e /etc/greeting}\n";

/// The command of a line that names it without anything else: a name in a sentence, of which only the help is printed.
fn is_name(line: &str) -> Option<&str> {
    let word = line.strip_prefix("converge ")?;
    word.chars().all(|c| c.is_ascii_lowercase() || c == '-').then_some(word)
}

#[test]
fn every_command_line_of_the_documents_is_run_or_the_reason_stands_here() {
    let documents = documents();
    let written: BTreeMap<String, String> = documents
        .iter()
        .flat_map(|(name, text)| lines(name, text))
        .map(|(place, line)| (line, place))
        .collect();
    assert!(written.len() > 60, "only {} lines", written.len());
    let known: BTreeSet<&str> =
        RUNS.iter().map(|row| row.0).chain(NOT_HERE.iter().map(|row| row.0)).collect();
    assert_eq!(known.len(), RUNS.len() + NOT_HERE.len(), "a line has two rows");
    let mut bad: Vec<String> = Vec::new();
    let names: BTreeSet<&str> = written.keys().filter_map(|line| is_name(line)).collect();
    for (line, place) in written.iter().filter(|(line, _)| is_name(line).is_none()) {
        if !known.contains(line.as_str()) {
            bad.push(format!("{place}: `{line}` has no row here: run it, or write why it cannot be"));
        }
    }
    bad.extend(
        known
            .iter()
            .filter(|line| !written.contains_key(**line))
            .map(|line| format!("no document has `{line}` any more")),
    );
    for (line, program, reason) in NOT_HERE {
        let tests = root().join("tests/tests");
        let is_there =
            tests.join(format!("{program}.rs")).is_file() || tests.join(program).join("main.rs").is_file();
        if (!program.is_empty() && !is_there) || reason.is_empty() {
            bad.push(format!("`{line}`: there is no program of tests {program}, or no reason"));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));

    let world = project();
    let folder = binary().unwrap().parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let sh = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", script]).current_dir(world.dir()).env("HOME", world.dir()).env("PATH", &path);
        command.env_remove("SSH_AUTH_SOCK").env_remove("XDG_STATE_HOME");
        ran(command.stdin(Stdio::null())).unwrap()
    };
    for name in names {
        let help = sh(&format!("converge {name} --help"));
        if help.code != Some(0) || !help.stdout.contains(&format!("Usage: converge {name}")) {
            bad.push(format!("`converge {name}` is no command:\n{}", help.all()));
        }
    }
    for (line, script, code, says) in RUNS {
        let script = if *script == "=" { line } else { script }.replace("NEWEST", NEWEST);
        let run = sh(&script);
        if run.code != Some(*code) || !run.all().contains(says) {
            let why = format!(
                "`{line}`, run as `{script}`: exit code {:?} for {code}, {says:?} wanted:\n{}",
                run.code,
                run.all()
            );
            bad.push(why);
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n\n"));
}

/// A host, and a project with a role of its own beside those that are here.
fn project() -> World {
    let world = World::new(&format!("lines-{}", std::process::id()), 1).unwrap();
    link_roles(world.dir()).unwrap();
    world.only_role("greeting", ROLE).unwrap();
    let inventory = world.inventory("word: hello");
    world.write("hosts.yaml", &format!("{inventory}db:\n  hosts: {{h1: }}\n")).unwrap();
    world.write("group_vars/db/secrets.yml", "db_password: hunter2\n").unwrap();
    let chrony = "- name: chrony runs\n  service: {name: chrony, state: started}\n";
    world.write("ansible/roles/chrony/tasks/main.yml", chrony).unwrap();
    world.write("ansible/roles/chrony/files/note", "a note\n").unwrap();
    world.write("ansible/site.yml", "- hosts: lab\n  roles: [chrony]\n").unwrap();
    world.write(".vault-prod", "the password of the vault\n").unwrap();
    world
}
