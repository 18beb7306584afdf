//! Variables, declarations and resolutions of whole projects.

use crate::common::{World, plan, ready, resolve};
use converge_model::{RegisteredResults, Resolution};
use serde_json::json;

#[test]
fn an_undefined_variable_is_an_error_of_its_hosts_alone() {
    let world = World::new();
    world.role(
        "inputs: {must: {type: str, required: true}}\nresources:\n  - name: x\n    file: {path: /x, content: \"{{ size }}!\"}\n  - name: y\n    file: {path: /y, content: \"{{ must }}\"}\n    when: size > 1\n",
    );
    world.write("inventories/group_vars/gpu.yaml", "size: 3\nmust: x\n");
    let project = world.try_load().unwrap();
    let errors = project.host_errors();
    assert_eq!(errors.keys().collect::<Vec<_>>(), ["h3"]);
    let text = world.text(&errors["h3"]);
    assert!(
        text.contains(
            "the input `must` of the role `r` has no value on h3\n  --> roles/r/role.yaml:1:10: required"
        ),
        "{text}"
    );
    assert!(text.contains("roles/r/role.yaml:4:") && text.contains("`size`"), "{text}");
    assert!(text.contains("roles/r/role.yaml:7:"), "the condition is reported too: {text}");
    assert_eq!(text.matches("error[").count(), 3, "{text}");
    let good = plan(&project, "h1");
    assert_eq!(ready(&good, "r/x").params["content"], json!("3!"));
    assert!(matches!(
        resolve(&plan(&project, "h3"), "r/x", &RegisteredResults::new()),
        Resolution::Invalid(_)
    ));
}

#[test]
fn files_are_loaded_and_their_errors_point_into_them() {
    let world = World::new();
    world.role(
        r#"
inputs: {gpus: {type: int, default: 2}}
resources:
  - name: t
    file: {path: /t, template: a.conf.j2, mode: "0644"}
  - name: s
    file: {path: /s, source: "{{ inventory_hostname }}.bin"}
    when: inventory_hostname == 'h1'
"#,
    );
    world.write(
        "roles/r/templates/a.conf.j2",
        "# made for {{ inventory_hostname }}\n{% for i in range(gpus) %}\ngpu{{ i }}\n{% endfor %}\nend\n",
    );
    world.write("roles/r/files/h1.bin", "\u{1}ok");
    let project = world.load();
    let first = plan(&project, "h1");
    let template = ready(&first, "r/t");
    assert_eq!(
        template.params["template"],
        json!({"path": "a.conf.j2", "text": "# made for h1\ngpu0\ngpu1\nend\n"})
    );
    assert_eq!(template.inputs_used.iter().collect::<Vec<_>>(), ["gpus"]);
    assert!(template.spans.value("/template/text").to_string().ends_with("role.yaml:5:32"));
    assert_eq!(ready(&first, "r/s").params["source"], json!({"path": "h1.bin", "hex": "016f6b"}));
    let Resolution::Skipped { why } = resolve(&plan(&project, "h2"), "r/s", &RegisteredResults::new()) else {
        panic!()
    };
    assert_eq!(why, "when: inventory_hostname == 'h1'");

    world.write("roles/r/templates/a.conf.j2", "x\n{{ gone }}\n");
    let complaint = world.complaints();
    assert!(complaint.contains("roles/r/templates/a.conf.j2:2:4"), "{complaint}");
    std::fs::rename(world.path("roles/r/templates/a.conf.j2"), world.path("roles/r/templates/b.conf.j2"))
        .unwrap();
    assert_eq!(
        world.complaints(),
        "error[no-file]: the role `r` has no file `templates/a.conf.j2`\n  --> roles/r/role.yaml:5:32: not found\n  help: did you mean `b.conf.j2`?"
    );
}

#[test]
fn elements_of_for_each_are_items_of_their_own() {
    let world = World::new();
    world.role(
        r#"
inputs:
  users: {type: list, default: [{name: ann, id: 1}, {name: bob, id: 2}]}
  map: {type: map, default: {x: 1, y: 2}}
resources:
  - name: user
    file: {path: "/home/{{ item.name }}", content: "{{ item.id | string }}"}
    for_each: "{{ users }}"
    when: item.id > 1
  - name: entry
    file: {path: "/{{ item.key }}", content: "{{ item.value }} of it"}
    for_each: "{{ map }}"
  - name: none
    package: {name: "{{ item }}"}
    for_each: []
  - name: wrong
    package: {name: x}
    for_each: "{{ users[0].name }}"
"#,
    );
    let project = world.try_load().unwrap();
    let plan = plan(&project, "h1");
    let addresses: Vec<&str> = plan.roles[0].items.iter().map(|item| item.address.as_str()).collect();
    assert_eq!(addresses, ["r/user[ann]", "r/user[bob]", "r/entry[x]", "r/entry[y]", "r/wrong"]);
    assert!(matches!(resolve(&plan, "r/user[ann]", &RegisteredResults::new()), Resolution::Skipped { .. }));
    assert_eq!(ready(&plan, "r/user[bob]").params, json!({"path": "/home/bob", "content": "2"}));
    assert_eq!(ready(&plan, "r/entry[y]").params["path"], json!("/y"));
    let text = world.text(&project.host_errors()["h1"]);
    assert!(
        text.contains("`for_each` needs a list or a map, found a string\n  --> roles/r/role.yaml:18:15"),
        "{text}"
    );
}

#[test]
fn secrets_stay_secret() {
    let world = World::new();
    world.role(
        r#"
inputs:
  token: {type: str, default: hunter2-abc, sensitive: true, pattern: "[a-z0-9-]+"}
  url: {type: str, default: "https://x/{{ token | upper }}"}
resources:
  - name: direct
    file: {path: /a, content: "{{ token }}"}
  - name: through
    file: {path: /b, content: "{{ url }}"}
  - name: by hand
    file: {path: /c, content: c}
    sensitive: true
  - name: open
    file: {path: /d, content: d}
  - name: each
    file: {path: /e, content: "{{ item }}"}
    for_each: ["{{ token }}"]
  - name: other host
    file: {path: /f, content: "{{ hostvars.h2.token }}"}
    when: inventory_hostname == 'h1'
"#,
    );
    world.write("inventories/group_vars/all.yaml", "token: hunter2-def\n");
    let project = world.load();
    let plan = plan(&project, "h1");
    let sensitive = |address: &str| ready(&plan, address).sensitive;
    for address in ["r/direct", "r/through", "r/by hand", "r/each[0]", "r/other host"] {
        assert!(sensitive(address), "{address}");
    }
    assert!(!sensitive("r/open"));
    let direct = ready(&plan, "r/direct");
    assert_eq!(direct.params["content"], json!("hunter2-def"));
    let reports = project.vars("h1", None);
    let debug = format!("{direct:?} {:?} {reports:?}", plan.roles[0].items);
    assert!(!debug.contains("hunter2"), "{debug}");
    for report in &reports {
        assert!(
            report.winners.iter().all(|w| w.value.is_none() && w.why.as_deref() == Some("sensitive")),
            "{report:?}"
        );
    }

    world.write("inventories/group_vars/all.yaml", "token: hunter2 DEF\n");
    let complaint = world.complaints();
    assert!(complaint.contains("it is set at inventories/group_vars/all.yaml:1:8"), "{complaint}");
    assert!(!complaint.contains("hunter2"), "{complaint}");
}

#[test]
fn roles_tags_and_limit_narrow_what_takes_part() {
    let mut world = World::new();
    world.write(
        "roles/a/role.yaml",
        "check: [{assert: {that: true}}]\nresources:\n  - {name: x, package: {name: x}, tags: fast}\n  - {name: q, query: {run: q}, register: q}\n  - {name: y, package: {name: y}}\n  - {name: z, package: {name: z}, tags: never}\n",
    );
    world.write("roles/b/role.yaml", "requires: [a]\nresources: [{name: x, package: {name: x}}]\n");
    world.write("playbooks/site.yaml", "- hosts: all\n  roles: [a, {role: b, tags: [bee]}]\n");
    let selected = |world: &World| {
        let project = world.load();
        let plan = plan(&project, "h1");
        let items: Vec<&str> = plan
            .roles
            .iter()
            .flat_map(|r| r.all())
            .filter(|i| i.selected)
            .map(|i| i.address.as_str())
            .collect();
        let complete: Vec<bool> = plan.roles.iter().map(|used| used.complete).collect();
        (items.join(" "), complete, project.hosts().join(" "))
    };
    assert_eq!(
        selected(&world),
        ("a/assert true a/x a/q a/y b/x".into(), vec![false, true], "h1 h2 h3".into())
    );
    world.options.tags = vec!["fast,bee".into()];
    assert_eq!(selected(&world).0, "a/assert true a/x a/q b/x");
    world.options.tags = vec![];
    world.options.roles = vec!["b".into()];
    world.options.limit = Some("gpu:!h1".into());
    assert_eq!(selected(&world), ("b/x".into(), vec![false, true], "h2".into()));
    world.options.roles = vec!["bb".into()];
    world.options.limit = Some("h9".into());
    world.options.tags = vec!["fsat".into()];
    let complaint = world.complaints();
    assert!(complaint.contains("has the role `bb`\n  --> --role\n  help: one of: a, b"), "{complaint}");
    assert!(complaint.contains("h9") && complaint.contains("--limit"), "{complaint}");
    world.options.roles = vec![];
    world.options.limit = None;
    assert_eq!(
        world.load().warnings().to_string(),
        "warning[unknown-tag]: nothing has the tag `fsat`\n  --> --tags\n  help: did you mean `fast`?"
    );
}

#[test]
fn a_role_that_a_host_has_twice_is_one_where_the_uses_agree() {
    let world = World::new();
    world.write(
        "roles/r/role.yaml",
        "inputs: {n: {type: int, default: 1}}\nresources: [{name: x, package: {name: x}}]\n",
    );
    world.write(
        "playbooks/site.yaml",
        "- hosts: all\n  roles: [{role: r, tags: [one]}]\n- hosts: h1\n  tags: [two]\n  roles: [{role: r, when: 1 > 0}, {role: r, vars: {n: 1}}]\n",
    );
    let complaint = world.complaints();
    assert!(complaint.contains("h1 has the role `r` twice, with different conditions"), "{complaint}");
    world.write("playbooks/site.yaml", "- hosts: all\n  roles: [{role: r, tags: [one]}]\n- hosts: h1\n  tags: [two]\n  roles: [{role: r, vars: {n: 1}}]\n");
    let project = world.load();
    assert_eq!(project.roles_of("h1"), ["r"]);
    assert_eq!(plan(&project, "h1").roles[0].items[0].tags, ["one", "two"]);
    assert_eq!(plan(&project, "h2").roles[0].items[0].tags, ["one"]);
}

#[test]
fn a_condition_on_a_role_skips_all_of_it() {
    let world = World::new();
    world.write(
        "roles/r/role.yaml",
        "resources:\n  - {name: x, package: {name: \"{{ item }}\"}, for_each: \"{{ gone }}\"}\n",
    );
    world.write(
        "playbooks/site.yaml",
        "- hosts: all\n  roles: [{role: r, when: \"'gpu' in group_names and inventory_hostname != 'h1'\"}]\n",
    );
    world.write("inventories/host_vars/h2.yaml", "gone: [a]\n");
    let project = world.load();
    let Resolution::Skipped { why } = resolve(&plan(&project, "h1"), "r/x", &RegisteredResults::new()) else {
        panic!()
    };
    assert_eq!(why, "when: 'gpu' in group_names and inventory_hostname != 'h1'");
    assert_eq!(ready(&plan(&project, "h2"), "r/x[a]").params["name"], json!("a"));
}

#[test]
fn a_role_knows_which_roles_the_run_goes_through() {
    let mut world = World::new();
    let names = "resources:\n  - {name: x, file: {path: /x, content: \"{{ role_names | join(' ') }}\"}}\n";
    for role in ["a", "b", "c"] {
        world.write(&format!("roles/{role}/role.yaml"), names);
    }
    world.write(
        "playbooks/site.yaml",
        "- {hosts: all, roles: [a, {role: b, when: inventory_hostname == 'h1', tags: [t]}]}\n- {hosts: gpu, roles: [c]}\n",
    );
    let text = |world: &World, host: &str| ready(&plan(&world.load(), host), "a/x").params["content"].clone();
    assert_eq!(text(&world, "h1"), json!("a b c"));
    assert_eq!(text(&world, "h2"), json!("a c"));
    assert_eq!(text(&world, "h3"), json!("a"));
    world.options.skip_tags = vec!["t".into()];
    assert_eq!(text(&world, "h1"), json!("a c"));
    world.options.skip_tags.clear();
    world.options.roles = vec!["a".into(), "b".into()];
    assert_eq!(text(&world, "h1"), json!("a b"));
}

#[test]
fn types_are_checked_again_after_templates() {
    let world = World::new();
    world.role(
        "inputs: {n: {type: int, default: 3}}\nresources:\n  - name: x\n    command: {run: x, timeout: \"{{ n - 5 }}\"}\n  - name: y\n    file: {path: \"{{ n }}\", content: x}\n    become_user: \"{{ n }}\"\n",
    );
    let text = world.text(&world.try_load().unwrap().host_errors()["h1"]);
    assert!(text.contains("`timeout` is less than 0\n  --> roles/r/role.yaml:4:32: at least 0"), "{text}");
    assert!(text.contains("`path` must be a string, found an integer\n  --> roles/r/role.yaml:6:18: expected a string\n  help: convert it: {{ … | string }}"), "{text}");
    assert!(text.contains("`become_user` must be the name of a user, found an integer"), "{text}");
}

#[test]
fn how_hosts_are_reached_may_be_templated() {
    let world = World::new();
    world.role("resources: []\n");
    world.write(
        "inventories/group_vars/all.yaml",
        "ansible_host: '10.0.0.{{ number }}'\nansible_user: root\nnumber: 3\n",
    );
    world.write("inventories/host_vars/h2.yaml", "number: '{{ facts.x }}'\n");
    let project = world.load();
    let (connection, _) = project.connection("h1").unwrap();
    assert_eq!((connection.address.as_str(), connection.user.as_deref()), ("10.0.0.3", Some("root")));
    assert_eq!(project.host_var("h1", "ansible_host").unwrap().unwrap().as_str(), Some("10.0.0.3"));
    assert!(project.host_var("h1", "nope").unwrap().is_none());
    assert!(
        project
            .connection("h2")
            .unwrap_err()
            .to_string()
            .contains("before the host is reached, and reads facts")
    );
}

/// Every host reads every other one: a value that is rendered for one must serve all.
#[test]
fn a_large_fleet_loads() {
    let world = World::new();
    let hosts: String = (0..200).map(|n| format!("    n{n}: {{ansible_host: 10.0.0.{n}}}\n")).collect();
    world.write("inventories/lab.yaml", &format!("all:\n  hosts:\n{hosts}"));
    world.write("inventories/group_vars/all.yaml", "address: '{{ ansible_host }}:{{ port }}'\nport: 1\n");
    world.role(
        "resources:\n  - name: names\n    file:\n      path: /n\n      content: \"{% for h in groups.all %}{{ hostvars[h].address }}\\n{% endfor %}\"\n",
    );
    let project = world.load();
    let text = ready(&plan(&project, "n199"), "r/names").params["content"].as_str().unwrap().to_owned();
    assert_eq!(text.lines().count(), 200);
    assert!(text.ends_with("10.0.0.199:1\n"), "{text}");
}
