//! The roles of `tests/fixtures/ansible`, imported: what each task becomes, and what is refused with a place.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong in a test ends it")]

use converge_import::{
    ImportReport, ImportedContent, ImportedRole, RoleFile, RoleFiles, TaskCounts, TaskVerdict, import_role,
};
use converge_model::{KindCatalog, KindSpec};
use converge_syntax::Diagnostics;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The kinds of hosts, by the published schema of roles: this crate does not depend on the kinds themselves.
fn catalog() -> KindCatalog {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/role.json");
    let role: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut catalog = KindCatalog::new();
    for name in role["$defs"].as_object().unwrap().keys().filter_map(|key| key.strip_prefix("kind.")) {
        let schema = json!({"$ref": format!("#/$defs/kind.{name}"), "$defs": role["$defs"]});
        catalog.insert(name, KindSpec::for_hosts(schema, ["assert", "query", "wait_for"].contains(&name)));
    }
    catalog
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/ansible").join(name)
}

fn import(name: &str) -> Result<ImportedRole, Diagnostics> {
    let root = folder(name);
    let mut files = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                files.insert(relative, RoleFile::Text(std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    import_role(&RoleFiles::new(name.rsplit('/').next().unwrap(), "", files), &catalog())
}

fn text(role: &ImportedRole, path: &str) -> String {
    match &role.files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}")).content {
        ImportedContent::Text(text) => text.clone(),
        ImportedContent::Copy(from) => {
            std::fs::read_to_string(from).unwrap_or_else(|_| format!("copy of {from}"))
        }
    }
}

fn counts(role: &ImportedRole) -> TaskCounts {
    ImportReport { findings: role.findings.clone() }.counts()
}

fn verdicts(role: &ImportedRole) -> Vec<(&str, &str)> {
    let found = role.findings.iter().filter(|finding| finding.verdict == TaskVerdict::Open);
    found.map(|finding| (finding.name.as_str(), finding.why[0].as_str())).collect()
}

#[test]
fn a_role_with_handlers_and_variables_of_the_system() {
    let role = import("roles/timesync").unwrap();
    let text = text(&role, "role.yaml");
    assert_eq!(counts(&role), TaskCounts { tasks: 9, exact: 7, remark: 1, open: 1 });
    assert_eq!(verdicts(&role), [("Install chrony on Red Hat", "there is no conversion of `dnf`")]);
    for part in [
        "summary: The clock follows chosen time servers\n",
        "  # A step is made in the first updates only\n  timesync_makestep: {type: str, default: 1 3}\n",
        "  timesync_log: {type: bool, default: \"{{ timesync_enabled | bool }}\"}\n",
        "  timesync_service: \"{{ 'chrony' if facts.package_manager == 'apt' else 'chronyd' if facts.package_manager in ['dnf', 'microdnf', 'yum'] }}\"\n",
        "  # The daemon of systemd would set the same clock\n  - name: Look for systemd-timesyncd\n    query:\n",
        "    when: timesyncd.status == 0\n    service: {name: systemd-timesyncd, state: stopped, enabled: false}\n",
        "    package: {name: \"{{ timesync_package }}\", max_age: 86400}\n",
        "      restart_on: [Write the configuration]\n",
        "    when: \"facts.package_manager in ['dnf', 'microdnf', 'yum']\"\n    assert:\n      that: false\n",
    ] {
        assert!(text.contains(part), "{part}\n---\n{text}");
    }
    let template = self::text(&role, "templates/chrony.conf.j2");
    assert!(
        template.starts_with("# Managed by converge\n") && template.contains("{{ facts.hostname }}"),
        "{template}"
    );
}

#[test]
fn a_role_with_a_unit_of_its_own() {
    let role = import("roles/agent").unwrap();
    let text = text(&role, "role.yaml");
    assert_eq!(counts(&role), TaskCounts { tasks: 17, exact: 13, remark: 4, open: 0 });
    for part in [
        "    for_each: \"{{ [(agent_home), '/etc/agent'] | flatten(levels=1) }}\"\n",
        "    query: {run: \"sh {{ agent_home }}/agent.sh --version\"}\n    register: agent_version\n",
        "    when: agent_version.status == 0\n",
        "on_change: [hosts of the agent]",
        "    service: {name: agent, state: started, enabled: true, restart_on: [program, settings, unit]}\n",
        "    wait_for: {file: /tmp/agent.started, timeout: 20}\n",
    ] {
        assert!(text.contains(part), "{part}\n---\n{text}");
    }
}

#[test]
fn a_role_of_accounts() {
    let role = import("roles/accounts").unwrap();
    let text = text(&role, "role.yaml");
    assert_eq!(counts(&role), TaskCounts { tasks: 10, exact: 7, remark: 3, open: 0 });
    for part in [
        "    authorized_key: {user: \"{{ item.name }}\", key: \"{{ item.key }}\"}\n",
        "(accounts_group) if (accounts_group) is not string else (accounts_group).split(',')",
        "    service: {name: ssh, reload_on: [No password by ssh]}\n",
        "      schedule: 15 3 * * *\n",
    ] {
        assert!(text.contains(part), "{part}\n---\n{text}");
    }
}

#[test]
fn a_role_with_open_items() {
    let role = import("roles/tuning").unwrap();
    let text = text(&role, "role.yaml");
    assert_eq!(counts(&role), TaskCounts { tasks: 15, exact: 12, remark: 0, open: 3 });
    let twice = "`Debian's marker` writes /etc/tuning-system already, and one file has one resource";
    let open = [
        ("Red Hat's marker", twice),
        ("Generation", "nothing says when it is done"),
        ("Cluster settings", "it works on a cluster"),
    ];
    assert_eq!(verdicts(&role), open);
    for part in [
        "    assert: {that: \"{{ not (facts.memory_mib < 64) }}\", message: a host needs memory}\n",
        "  tuning_files: \"{{ 65536 if facts.cpus > 1 else 32768 }}\"\n",
        "    when: facts.package_manager == 'apt'\n    resources:\n      - name: Debian's marker\n",
        "    tags: [scratch]\n    resources:\n",
        "    when: tuning_locales | bool\n    locale: {names: de_DE.UTF-8}\n",
        "  #     command: kubectl apply -f /etc/tuning.yaml\n",
        "write `k8s_manifests`, in a role with `scope: cluster`. Decide, and remove this check\"\n",
    ] {
        assert!(text.contains(part), "{part}\n---\n{text}");
    }
}

/// A value that a task sets only where nobody has is what an input with a default is; one that is made from itself is open.
#[test]
fn a_fact_that_is_set_only_where_it_is_undefined_is_an_input() {
    let tasks = "
- set_fact: {daemon: '{{ __daemon }}'}
  when: daemon is not defined
- set_fact: {list: '{{ __list }}'}
  when: list is undefined
- set_fact: {more: '{{ more | default([]) + [1] }}'}
- set_fact: {daemon: other}
";
    let text_of = |text: &str| RoleFile::Text(text.to_owned());
    let files = [
        ("tasks/main.yml".to_owned(), text_of(tasks)),
        ("vars/main.yml".to_owned(), text_of("__daemon: ntpd\n__list: [a]\n")),
    ];
    let role = import_role(&RoleFiles::new("clock", "", files.into()), &catalog()).unwrap();
    let written = text(&role, "role.yaml");
    assert!(written.contains("daemon: {type: str, default: \"{{ __daemon }}\"}"), "{written}");
    assert!(written.contains("list: {type: list, default: \"{{ __list }}\"}"), "{written}");
    let count = counts(&role);
    assert_eq!((count.exact, count.open), (2, 2), "{:?}", verdicts(&role));
}

/// A command of Ansible is read by no shell: what a value has in it must not become a command here, and what is not sure says so.
#[test]
fn words_of_a_command_stay_words() {
    let tasks = "
- command: {argv: [tool, '$5 {{ name }}', '{{ other }}']}
  args: {creates: /a}
- command: tool {{ name }} creates=/b
- command: ls $HOME/x '~/y' ~/z creates=/c
";
    let files = [("tasks/main.yml".to_owned(), RoleFile::Text(tasks.to_owned()))];
    let role = import_role(&RoleFiles::new("words", "", files.into()), &catalog()).unwrap();
    let written = text(&role, "role.yaml");
    assert!(written.contains("tool '$5 '{{ (name) | quote }} {{ (other) | quote }}"), "{written}");
    assert!(
        written.contains("ls \\\"$HOME/x\\\" '~/y' ~/z") || written.contains("ls \"$HOME/x\" '~/y' ~/z"),
        "{written}"
    );
    let count = counts(&role);
    assert_eq!((count.exact, count.remark, count.open), (2, 1, 0), "{:?}", verdicts(&role));
}

#[test]
fn hostile_roles_give_errors_with_a_place() {
    let bomb = import("hostile/bomb").unwrap_err().to_string();
    assert!(bomb.contains("more than 500000 values") && bomb.contains("tasks/main.yml:6:"), "{bomb}");
    let endless = import("hostile/endless").unwrap_err().to_string();
    assert!(endless.contains("include each other") && endless.contains("tasks/main.yml:1:"), "{endless}");
    let calls = import("hostile/calls").unwrap();
    assert_eq!(counts(&calls), TaskCounts { tasks: 4, exact: 1, remark: 0, open: 3 });
    let all = format!("{:?}", verdicts(&calls));
    assert!(all.contains("there is no lookup `pipe`") && all.contains("it works on another host"), "{all}");
}
