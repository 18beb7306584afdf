//! Compares inventories and host patterns with the real Ansible.
//!
//! The environment variable `CONVERGE_ANSIBLE_VENV` names a Python virtual environment with `ansible-core`; the test command
//! of the workspace makes it. Without it the comparison is skipped, loudly, and fails where `CI` is set.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use converge_model::inventory::{Inventory, InventorySource, OutputOptions};
use converge_model::vault::Vault;
use converge_syntax::{Node, Source, Span};

/// An inventory of the fixtures: sources, directory of the playbook, and a host and a group to ask for.
struct Case {
    sources: &'static [&'static str],
    playbook: Option<&'static str>,
    /// The working folder; an empty one where none is named.
    working: Option<&'static str>,
    hosts: &'static [&'static str],
    /// Patterns, each with a limit or none.
    patterns: &'static [(&'static str, Option<&'static str>)],
    /// The outputs that the case leaves out.
    without: &'static [Output],
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Output {
    /// `--graph --vars`
    GraphVars,
    /// `--list --yaml`, with and without `--export`
    Yaml,
    /// `--list --export`, which reads the variables of groups without hosts
    Export,
}

const fn case(sources: &'static [&'static str], hosts: &'static [&'static str]) -> Case {
    Case { sources, playbook: None, working: None, hosts, patterns: &[], without: &[] }
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            // The graph and YAML show dates as Python's objects; they are text here.
            without: &[Output::GraphVars, Output::Yaml],
            ..case(&["01_scalars/hosts.yaml"], &["gpu01"])
        },
        case(
            &["02_literals/hosts.ini"],
            &["types", "quoted", "lists", "escapes", "comments", "hash", "equals", "strings"],
        ),
        Case {
            patterns: &[
                ("node[1:3]", None),
                ("node*", None),
                ("*rack?", None),
                ("storage[1:2]", None),
                ("storage[-1]", None),
                ("~s[01][19]?", None),
                ("10.0.0.*", None),
                ("10.0.0.1,10.0.0.3", None),
                ("letters[0],storage[0]", None),
                ("letters[1:]", None),
                ("letters[2:9]", None),
                ("n-[xy]", None),
                ("m*[1]", None),
                ("all[0]", None),
                ("all[0:0]", None),
                ("N[!A]", None),
            ],
            ..case(&["03_ranges/hosts"], &["gpu04.rackb", "port1"])
        },
        Case {
            patterns: &[("2001:db8::99", None), ("2001:db8::a,gpu01", None), ("racks:!a-rack", None)],
            ..case(&["04_ranges_yaml/hosts.yml"], &["node2", "gpu03"])
        },
        Case {
            patterns: &[
                ("all", None),
                ("*", None),
                ("k8s", None),
                ("k8s:!k8s_control_plane", None),
                ("k8s:&edge", None),
                ("&edge", None),
                ("!edge", None),
                ("!edge:k8s", None),
                ("edge:k8s_control_plane", None),
                ("edge,k8s_control_plane", None),
                ("gpu2", None),
                ("gpu2,gpu1,baremetal_gpus", None),
                ("ungrouped", None),
                ("nothing", None),
                ("nothing,cp1", None),
                ("~(cp|gpu)\\d$", None),
                ("k8s_*", None),
                ("k8s[0]:k8s[-1]", None),
                ("all", Some("k8s_workers")),
                ("edge", Some("cp*:!cp2")),
                ("k8s", Some("cp1,gpu1")),
                ("localhost", None),
            ],
            ..case(&["05_nested_yaml/hosts.yaml"], &["cp1", "cp2", "gpu1", "edge1", "lonely"])
        },
        Case {
            patterns: &[
                ("all", None),
                ("k8s", None),
                ("k8s:edge", None),
                ("empty", None),
                ("all:!k8s", None),
            ],
            ..case(&["06_nested_ini/hosts"], &["cp1", "gpu1"])
        },
        case(&["07_vars_files/hosts.yaml"], &["w1", "w2", "d1", "p1", "j1"]),
        case(&["08_vars_folders/hosts"], &["w1", "w2", "d1"]),
        case(&["09_playbook_vars/inventory/hosts.yaml"], &["w1", "w2"]),
        Case {
            playbook: Some("09_playbook_vars/playbooks"),
            ..case(&["09_playbook_vars/inventory/hosts.yaml"], &["w1", "w2"])
        },
        Case {
            playbook: Some("09_playbook_vars/inventory"),
            ..case(&["09_playbook_vars/inventory/hosts.yaml"], &["w1", "w2"])
        },
        case(&["10_priority/hosts.yaml"], &["h1", "h2"]),
        case(&["11_several/a/hosts.yaml", "11_several/b/hosts.ini"], &["w1", "w2", "w3"]),
        case(&["11_several/b/hosts.ini", "11_several/a/hosts.yaml", "w3,x9"], &["w1", "w2", "w3", "x9"]),
        case(&["11_several/a", "11_several/b/hosts.ini", "11_several/a"], &["w1", "w3"]),
        Case {
            patterns: &[("all", None), ("web", None), ("d*:c*", None)],
            ..case(&["12_directory"], &["w1", "c1", "d2"])
        },
        Case {
            patterns: &[
                ("prod", None),
                ("nvidia:&dc1", None),
                ("prod:&nvidia:!maintenance", None),
                ("k8s[0:2]", None),
                ("*d*[0]", None),
                ("n[1:3]", None),
                ("dc1[1:]:&gpu", None),
                ("gpu:amd:dc2", None),
                ("maintenance", Some("n3")),
                ("all", None),
            ],
            ..case(&["13_many_groups/hosts.yaml"], &["n1", "n3", "n5"])
        },
        Case {
            patterns: &[("größe", None), ("東京*", None), ("z?rich", None)],
            ..case(&["14_unicode/hosts.yaml"], &["zürich", "東京1"])
        },
        case(&["15_empty/hosts.yaml"], &["a", "single"]),
        case(&["h1,h2:2222, [2001:db8::5]:22,h1"], &["h1", "h2", "2001:db8::5"]),
        Case {
            patterns: &[("2001:db8::2", None), ("::1", None), ("fe80::1,fe80::2", None), ("127.0.0.1", None)],
            ..case(&["17_addresses/hosts"], &["web", "2001:db8::1", "db.example.org", "host"])
        },
        case(&["18_anchors/hosts.yaml"], &["h2", "h3"]),
        Case {
            // Ansible fails where the graph shows an encrypted value.
            without: &[Output::GraphVars],
            ..case(&["19_secret/hosts.yaml"], &["h1"])
        },
        case(&["20_json/hosts.json"], &["w1"]),
        case(&["21_no_extension/inventory"], &["w2"]),
        Case {
            patterns: &[
                ("kube_control_plane[0]", None),
                ("etcd:&kube_node", None),
                ("kube_node:!etcd", None),
            ],
            ..case(&["22_kubespray/inventory.ini"], &["node1", "node2", "node3"])
        },
        Case {
            patterns: &[("k8s:&baremetal_gpus", None), ("baremetal:!k8s", None), ("~vm[12]:amd_gpus", None)],
            ..case(&["23_gpu_cluster/hosts.yaml"], &["tower1", "vm2", "store1"])
        },
        Case {
            patterns: &[("::1", None), ("127.0.0.1", None), ("all", None), ("local*", None)],
            ..case(&["24_localhost/hosts"], &["localhost"])
        },
        Case {
            patterns: &[
                ("with-dash", None),
                ("web", None),
                ("with.dot", None),
                ("host.with.dots", None),
                ("9nine", None),
            ],
            ..case(&["25_names/hosts.yaml"], &["web", "n"])
        },
        case(&["26_text/hosts.yaml"], &["h1"]),
        Case {
            working: Some("27_working_folder"),
            ..case(&["27_working_folder/inventories/prod/hosts"], &["h1", "h2"])
        },
        Case {
            working: Some("27_working_folder"),
            playbook: Some("27_working_folder/inventories"),
            ..case(&["27_working_folder/inventories/prod/hosts"], &["h1", "h2"])
        },
        case(&["28_odd_values/hosts"], &["h1"]),
        Case { patterns: &[("all", None), ("web", None)], ..case(&["29_foreign_files"], &["h1", "h3"]) },
        Case {
            // The file of a group without hosts is wrong, and only what prints that group reads it.
            without: &[Output::GraphVars, Output::Yaml, Output::Export],
            ..case(&["30_broken_unused/hosts.yaml"], &["h1", "h2"])
        },
    ]
}

fn fixtures() -> Utf8PathBuf {
    Utf8PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/inventory"))
}

/// One question to Ansible, and what we say to it.
struct Question {
    call: Vec<String>,
    answer: String,
}

fn questions(case: &Case, root: &Utf8Path) -> Vec<Question> {
    let arguments: Vec<String> = case
        .sources
        .iter()
        .map(
            |source| {
                if source.contains(',') { (*source).to_owned() } else { root.join(source).into_string() }
            },
        )
        .collect();
    let sources: Vec<InventorySource> =
        arguments.iter().map(|argument| InventorySource::from_argument(argument)).collect();
    let playbook = case.playbook.map(|playbook| root.join(playbook));
    let folder = playbook.clone().or_else(|| case.working.map(|working| root.join(working)));
    let (inventory, _) = Inventory::read(&sources, folder.as_deref(), &Vault::default())
        .unwrap_or_else(|diagnostics| panic!("{:?}:\n{diagnostics}", case.sources));
    let wrong = inventory.problems_of(case.hosts.iter().copied());
    assert!(!wrong.has_errors(), "{:?}:\n{wrong}", case.sources);
    let mut base: Vec<String> =
        arguments.iter().flat_map(|argument| ["-i".to_owned(), argument.clone()]).collect();
    if let Some(playbook) = &playbook {
        base.extend(["--playbook-dir".to_owned(), playbook.to_string()]);
    }
    let mut questions = Vec::new();
    let mut ask = |program: &str, more: &[&str], answer: String| {
        let mut call = vec![program.to_owned()];
        call.extend(base.iter().cloned());
        call.extend(more.iter().map(|argument| (*argument).to_owned()));
        questions.push(Question { call, answer });
    };
    let plain = OutputOptions { working_folder: case.playbook.is_none(), ..OutputOptions::default() };
    let export = OutputOptions { export: true, ..plain.clone() };
    let yaml = OutputOptions { yaml: true, ..plain.clone() };
    let yaml_export = OutputOptions { yaml: true, export: true, ..plain.clone() };
    let vars = OutputOptions { vars: true, ..plain.clone() };
    ask("ansible-inventory", &["--list"], inventory.print_list(&plain));
    if !case.without.contains(&Output::Export) {
        ask("ansible-inventory", &["--list", "--export"], inventory.print_list(&export));
    }
    if !case.without.contains(&Output::Yaml) {
        ask("ansible-inventory", &["--list", "--yaml"], inventory.print_list(&yaml));
        ask("ansible-inventory", &["--list", "--yaml", "--export"], inventory.print_list(&yaml_export));
    }
    ask("ansible-inventory", &["--graph"], inventory.print_graph("all", &plain).unwrap());
    if !case.without.contains(&Output::GraphVars) {
        ask("ansible-inventory", &["--graph", "--vars"], inventory.print_graph("all", &vars).unwrap());
    }
    for group in inventory.groups().skip(2).take(2) {
        let answer = inventory.print_graph(group.name(), &plain).unwrap();
        ask("ansible-inventory", &["--graph", group.name()], answer);
    }
    for host in case.hosts {
        let answer = inventory.print_host(host, &plain).unwrap_or_else(|| panic!("no host {host}"));
        ask("ansible-inventory", &["--host", host], answer);
    }
    for (pattern, limit) in case.patterns {
        let node = Node::new(*pattern, Span::whole(Source::new("pattern", *pattern)));
        let selection = inventory.select(&node).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        let mut hosts = selection.hosts;
        let mut more = vec![*pattern, "--list-hosts"];
        if let Some(limit) = limit {
            let limited: HashSet<String> =
                inventory.select_limit(limit, Utf8Path::new(".")).unwrap().hosts.into_iter().collect();
            hosts.retain(|host| limited.contains(host));
            more.extend(["--limit", limit]);
        }
        let mut answer = format!("  hosts ({}):", hosts.len());
        for host in &hosts {
            answer.push_str(&format!("\n    {host}"));
        }
        ask("ansible", &more, answer);
    }
    // Last, since the driver keeps the inventory and Ansible keeps the limit.
    for limit in case.hosts.iter().take(1) {
        let hosts = inventory.select_limit(limit, Utf8Path::new(".")).unwrap().hosts;
        let options = OutputOptions { limit: Some(hosts.into_iter().collect()), ..plain.clone() };
        ask("ansible-inventory", &["--list", "--limit", limit], inventory.print_list(&options));
    }
    questions
}

#[test]
fn every_inventory_is_read_as_ansible_reads_it() {
    let root = fixtures();
    let cases = cases();
    let asked: Vec<Vec<Question>> = cases.iter().map(|case| questions(case, &root)).collect();
    let questions: Vec<&Question> = asked.iter().flatten().collect();
    let patterns: usize = cases.iter().map(|case| case.patterns.len()).sum();
    assert!(cases.len() >= 20 && patterns >= 30, "{} inventories, {patterns} patterns", cases.len());

    let Ok(venv) = std::env::var("CONVERGE_ANSIBLE_VENV") else {
        assert!(
            std::env::var("CI").is_err(),
            "CONVERGE_ANSIBLE_VENV is not set: Ansible must be there to compare with"
        );
        // Not through `println!`: the test harness would keep it to itself.
        let skipped =
            "SKIPPED: CONVERGE_ANSIBLE_VENV is not set, no inventory was compared with the real Ansible";
        writeln!(std::io::stderr(), "\n*** {skipped} ***\n").unwrap();
        return;
    };
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("empty")).unwrap();
    std::fs::write(home.path().join("ansible.cfg"), "[defaults]\n").unwrap();
    let empty = Utf8PathBuf::from_path_buf(home.path().join("empty")).unwrap();
    let asked: Vec<serde_json::Value> = cases
        .iter()
        .zip(&asked)
        .map(|(case, asked)| {
            let one = |q: &Question| serde_json::json!({ "call": q.call, "ours": q.answer });
            let calls: Vec<serde_json::Value> = asked.iter().map(one).collect();
            let working = case.working.map_or_else(|| empty.clone(), |working| root.join(working));
            serde_json::json!({ "cwd": working, "calls": calls })
        })
        .collect();
    let task = serde_json::json!({ "cases": asked });
    let mut command = Command::new(format!("{venv}/bin/python"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ANSIBLE_")) {
        command.env_remove(name);
    }
    let mut child = command
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/inventory_driver.py"))
        .env("ANSIBLE_CONFIG", home.path().join("ansible.cfg"))
        .env("ANSIBLE_HOME", home.path())
        .env("HOME", home.path())
        .env("ANSIBLE_NOCOLOR", "1")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(task.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Vec<serde_json::Value>> = serde_json::from_slice(&output.stdout).unwrap();
    let answers: Vec<serde_json::Value> = answers.into_iter().flatten().collect();
    assert_eq!(answers.len(), questions.len());

    let mut differences = Vec::new();
    for (question, answer) in questions.iter().zip(&answers) {
        let theirs = answer["out"].as_str().unwrap();
        if answer["failed"].as_bool().unwrap() {
            differences.push(format!("{}\nAnsible fails: {}", question.call.join(" "), answer["err"]));
        } else if !answer["same"].as_bool().unwrap() {
            let difference = first_difference(&question.answer, theirs);
            differences.push(format!("{}\n{difference}\n{}", question.call.join(" "), answer["err"]));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} answers differ from Ansible's:\n{}",
        differences.len(),
        questions.len(),
        differences.join("\n\n")
    );
}

/// The lines around the first one that differs.
fn first_difference(own: &str, theirs: &str) -> String {
    let (own, theirs): (Vec<&str>, Vec<&str>) = (own.lines().collect(), theirs.lines().collect());
    let at = own.iter().zip(&theirs).take_while(|(left, right)| left == right).count();
    let around =
        |lines: &[&str]| lines.get(at.saturating_sub(1)..(at + 4).min(lines.len())).unwrap_or(&[]).join("\n");
    format!("line {}\nours:\n{}\nAnsible's:\n{}", at + 1, around(&own), around(&theirs))
}
