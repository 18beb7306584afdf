//! The roles of `tests/fixtures/ansible`, imported: what each task becomes, and what is refused with a place.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong in a test ends it")]

#[path = "fixtures/answers.rs"]
mod answers;
#[path = "fixtures/edits_and_firewalls.rs"]
mod edits_and_firewalls;
#[path = "fixtures/same_effect.rs"]
mod same_effect;

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
    let mut role = RoleFiles::new(name.rsplit('/').next().unwrap(), "", files(&root));
    for outer in role.outer_folders() {
        role.add_outer(&outer, files(&root.join(&outer)));
    }
    import_role(&role, &catalog())
}

/// The files below a folder.
fn files(root: &Path) -> BTreeMap<String, RoleFile> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                files.insert(relative, RoleFile::Text(std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    files
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
    assert_eq!(counts(&role), TaskCounts { tasks: 9, exact: 9, remark: 0, open: 0 });
    for part in [
        "summary: The clock follows chosen time servers\n",
        "  # A step is made in the first updates only\n  timesync_makestep: {type: str, default: 1 3}\n",
        "  timesync_log: {type: bool, default: \"{{ timesync_enabled | bool }}\"}\n",
        "  timesync_service: chrony\n",
        "  # The daemon of systemd would set the same clock\n  - name: Look for systemd-timesyncd\n    query:\n",
        "    when: timesyncd.status == 0\n    service: {name: systemd-timesyncd, state: stopped, enabled: false}\n",
        "    package: {name: \"{{ timesync_package }}\", max_age: 86400, starts_services: true}\n",
        "      restart_on: [Write the configuration]\n",
        "      that: \"{{ facts.package_manager == 'apt' }}\"\n",
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
    assert_eq!(counts(&role), TaskCounts { tasks: 29, exact: 27, remark: 2, open: 0 });
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
    assert_eq!(counts(&role), TaskCounts { tasks: 14, exact: 12, remark: 2, open: 0 });
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
    assert_eq!(counts(&role), TaskCounts { tasks: 15, exact: 13, remark: 0, open: 2 });
    let open =
        [("Generation", "nothing says when it is done"), ("Cluster settings", "it works on a cluster")];
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

/// Imports a role of these tasks and other files.
fn of(files: &[(&str, &str)]) -> ImportedRole {
    let text_of = |(path, text): &(&str, &str)| ((*path).to_owned(), RoleFile::Text((*text).to_owned()));
    import_role(&RoleFiles::new("small", "", files.iter().map(text_of).collect()), &catalog()).unwrap()
}

/// The number of tasks that do not apply.
fn not_applied(role: &ImportedRole) -> usize {
    role.findings.iter().filter(|finding| finding.became == "does not apply").count()
}

#[test]
fn tasks_for_other_systems_do_not_apply_and_the_role_refuses_those_systems() {
    let tasks = "
- name: repository
  yum_repository: {name: a, baseurl: 'https://example.com'}
  register: repository
  notify: refresh
  when: ansible_facts['os_family'] == 'RedHat'
- when: wanted and ansible_os_family == 'Suse'
  block:
    - zypper: {name: a}
  rescue:
    - debug: {msg: no}
- include_tasks: setup-{{ ansible_os_family }}.yml
- file: {path: /a, state: directory}
  notify: other
  when: ansible_distribution == 'Ubuntu'
- file: {path: /b, state: directory}
  when: not (repository is changed)
";
    let handlers = "
- {name: refresh, command: yum makecache}
- {name: other, service: {name: a, state: restarted}, when: ansible_os_family == 'Suse'}
";
    let role = of(&[
        ("tasks/main.yml", tasks),
        ("tasks/setup-RedHat.yml", "- dnf: {name: a}\n"),
        ("tasks/setup-Debian.yml", "- apt: {name: a, install_recommends: false}\n"),
        ("handlers/main.yml", handlers),
    ]);
    assert_eq!(counts(&role), TaskCounts { tasks: 10, exact: 10, remark: 0, open: 0 }, "{:?}", role.findings);
    assert_eq!(not_applied(&role), 6, "{:?}", role.findings);
    let written = text(&role, "role.yaml");
    for part in [
        "that: \"{{ facts.package_manager == 'apt' }}\"",
        "    when: facts.os.id == 'ubuntu'\n    directory: {path: /a}\n",
        "    package: {name: a, starts_services: true}\n",
    ] {
        assert!(written.contains(part), "{part}\n---\n{written}");
    }
    assert!(!written.contains("zypper") && !written.contains("that: false"), "{written}");
    // A role without such tasks refuses nothing.
    let plain = of(&[("tasks/main.yml", "- file: {path: /a, state: directory}\n")]);
    assert!(!text(&plain, "role.yaml").contains("check:"));
}

#[test]
fn conditions_on_the_version_of_ansible_are_decided() {
    let tasks = "
- assert: {that: [\"ansible_version.full is version('2.15', '>=')\"]}
- {file: {path: /old, state: directory}, when: \"ansible_version.full is version_compare('2.12', '<')\"}
- {file: {path: /new, state: directory}, when: \"ansible_version.full is version_compare('2.12', '>=')\"}
- {file: {path: /c, state: directory}, when: \"wanted and ansible_version.full is version('2.9', '>')\"}
";
    let role = of(&[("tasks/main.yml", tasks)]);
    assert_eq!((counts(&role).exact, not_applied(&role)), (4, 1), "{:?}", role.findings);
    let written = text(&role, "role.yaml");
    // Every system has the same version of Ansible.
    assert!(!written.contains("check:") && !written.contains("/old"), "{written}");
    assert!(
        written.contains("directory: {path: /new}") && written.contains("when: wanted and true"),
        "{written}"
    );
}

#[test]
fn variables_come_from_the_first_file_that_is_found() {
    let by_release = "
- include_vars: '{{ item }}'
  with_first_found:
    - \"{{ ansible_facts['distribution'] + '-' + ansible_facts['distribution_version'] }}.yml\"
    - '{{ ansible_os_family }}.yml'
";
    let files = [
        ("tasks/main.yml", by_release),
        ("vars/Ubuntu-24.04.yml", "unit: new\n"),
        ("vars/Debian.yml", "unit: old\n"),
        ("vars/RedHat.yml", "unit: red\n"),
    ];
    let role = of(&files);
    let written = text(&role, "role.yaml");
    let expected =
        "unit: \"{{ 'new' if facts.os.id == 'ubuntu' and facts.os.version == '24.04' else 'old' }}\"";
    assert!(written.contains(expected), "{written}");
    let by_lookup = "
- include_vars: \"{{ lookup('first_found', params) }}\"
  vars: {params: {files: ['{{ ansible_os_family }}.yml', main.yml], paths: [vars]}}
";
    let role = of(&[
        ("tasks/main.yml", by_lookup),
        ("vars/RedHat.yml", "unit: red\n"),
        ("vars/main.yml", "unit: all\n"),
    ]);
    let written = text(&role, "role.yaml");
    assert_eq!(counts(&role).exact, 1, "{:?}", role.findings);
    assert!(written.contains("unit: all") && !written.contains("red"), "{written}");
    // A name that no table knows stays open.
    let unknown = by_lookup.replace("ansible_os_family", "flavour");
    let role = of(&[("tasks/main.yml", &unknown), ("vars/small.yml", "unit: red\n")]);
    assert_eq!(counts(&role).open, 1, "{:?}", role.findings);
}

#[test]
fn states_of_services_that_a_variable_holds() {
    let tasks = "
- {copy: {dest: /etc/a, content: a}, notify: again}
- {service: {name: a, state: '{{ state }}', enabled: '{{ enabled }}'}}
- {service: {name: b, state: '{{ from_outside }}'}}
";
    let handlers = "- {name: again, service: {name: a, state: '{{ how }}'}}\n";
    let role = of(&[
        ("tasks/main.yml", tasks),
        ("handlers/main.yml", handlers),
        ("defaults/main.yml", "state: started\nenabled: true\nhow: restarted\n"),
    ]);
    assert_eq!(counts(&role), TaskCounts { tasks: 4, exact: 3, remark: 1, open: 0 }, "{:?}", role.findings);
    let written = text(&role, "role.yaml");
    for part in [
        "    when: how == 'restarted'\n    service: {name: a, restart_on: [",
        "    when: how == 'reloaded'\n    service: {name: a, reload_on: [",
    ] {
        assert!(written.contains(part), "{part}\n---\n{written}");
    }
}

#[test]
fn small_conversions_that_have_the_same_effect() {
    let tasks = "
- {file: {path: /a, state: directory, recurse: true}}
- {file: {path: /b, state: directory, recurse: true, owner: root}}
- when: ansible_os_family == 'Debian'
  block:
    - {copy: {dest: /etc/a, content: a}, notify: again}
    - meta: flush_handlers
- {modprobe: {name: dummy}, when: ansible_virtualization_type != 'docker'}
";
    let handlers = "- {name: again, service: {name: a, state: restarted}}\n";
    let role = of(&[("tasks/main.yml", tasks), ("handlers/main.yml", handlers)]);
    assert_eq!(counts(&role), TaskCounts { tasks: 6, exact: 6, remark: 0, open: 0 }, "{:?}", role.findings);
    let written = text(&role, "role.yaml");
    for part in [
        "when: facts.virtualisation.container != 'docker'",
        "find /b ! -user root -exec chown -h root {} +",
        "found=$(find -L /b ! -type l \\( ! -user root \\) -print -quit) && test -z \"$found\"",
    ] {
        assert!(written.contains(part), "{part}\n---\n{written}");
    }
}

/// One fact that cannot be written must not keep the whole role from being imported.
#[test]
fn a_template_with_statements_that_a_condition_chooses_is_open() {
    let tasks = "
- set_fact: {answer: '{% if a %}yes{% else %}no{% endif %}'}
  when: wanted
- file: {path: /a, state: directory}
";
    let role = of(&[("tasks/main.yml", tasks)]);
    assert_eq!(counts(&role), TaskCounts { tasks: 2, exact: 1, remark: 0, open: 1 }, "{:?}", role.findings);
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
    assert_eq!((count.exact, count.remark, count.open), (3, 0, 0), "{:?}", verdicts(&role));
}

#[test]
fn hostile_roles_give_errors_with_a_place() {
    let bomb = import("hostile/bomb").unwrap_err().to_string();
    assert!(bomb.contains("more than 500000 values") && bomb.contains("tasks/main.yml:6:"), "{bomb}");
    let endless = import("hostile/endless").unwrap_err().to_string();
    assert!(endless.contains("include each other") && endless.contains("tasks/main.yml:1:"), "{endless}");
    let calls = import("hostile/calls").unwrap();
    assert_eq!(counts(&calls), TaskCounts { tasks: 4, exact: 2, remark: 0, open: 2 });
    let all = format!("{:?}", verdicts(&calls));
    assert!(all.contains("there is no lookup `pipe`") && all.contains("it works on another host"), "{all}");
}
