//! The facts that declarations read, and what waits for them.

use crate::common::{World, item, plan, ready, resolve};
use converge_model::{Facts, RegisteredResults, Resolution};
use serde_json::json;
use std::collections::BTreeMap;

#[test]
fn what_waits_says_for_what() {
    let world = World::new();
    world.role(
        r#"
inputs: {family: {type: str, default: "{{ facts.os }}"}}
check:
  - query: {run: nvidia-smi}
    register: smi
resources:
  - name: by fact
    file: {path: /a, content: "{{ family }}"}
  - name: by result
    file: {path: /b, content: "{{ smi.stdout }} {{ family }}"}
    when: smi.rc == 0
  - name: each
    package: {name: "{{ item }}"}
    for_each: "{{ facts.wanted }}"
  - name: neighbour
    file: {path: /c, content: "{{ hostvars.h3.facts.os }}"}
    when: inventory_hostname == 'h2'
  - name: plain
    file: {path: /d, content: "{{ facts.os if false else 'd' }}"}
"#,
    );
    let project = world.load();
    assert!(project.needs("h1").facts);
    assert!(project.needs("h1").facts_of.is_empty());
    assert_eq!(project.needs("h2").facts_of.iter().collect::<Vec<_>>(), ["h3"]);
    let before = plan(&project, "h1");
    let waits = |address: &str| match resolve(&before, address, &RegisteredResults::new()) {
        Resolution::Unknown { names, .. } => names.into_iter().collect::<Vec<_>>().join(" "),
        other => panic!("{address}: {other:?}"),
    };
    assert_eq!(waits("r/by fact"), "facts");
    assert_eq!(waits("r/by result"), "smi");
    assert_eq!(waits("r/each"), "facts");
    assert!(item(&before, "r/each").is_unexpanded() && !before.roles[0].complete);
    ready(&before, "r/plain");

    let facts = Facts::new([("h1".to_owned(), json!({"os": "debian", "wanted": ["jq", "tree"]}))]);
    let mut registered = RegisteredResults::new();
    registered.set("r", "smi", json!({"rc": 0, "stdout": "{{ 7 }}"}));
    let after = project.host_plan("h1", &facts, &registered);
    assert_eq!(ready(&after, "r/each[tree]").params["name"], json!("tree"));
    assert!(after.roles[0].complete);
    let Resolution::Ready(found) = resolve(&after, "r/by result", &registered) else { panic!() };
    assert_eq!(found.params["content"], json!("{{ 7 }} debian"), "what a host says is no template");
    assert!(!found.sensitive);
    registered.set_sensitive("r", "smi", json!({"rc": 0, "stdout": "x"}));
    let Resolution::Ready(found) = resolve(&after, "r/by result", &registered) else { panic!() };
    assert!(found.sensitive, "what a sensitive item said");
}

#[test]
fn no_facts_are_asked_where_nothing_reads_them() {
    let mut world = World::new();
    world.role(
        r#"
resources:
  - name: a
    file: {path: /a, content: "{{ facts.os }}"}
    tags: slow
  - name: b
    file: {path: /b, content: x}
  - name: c
    file: {path: /c, content: "{{ facts.os }}"}
    when: inventory_hostname == 'h3'
"#,
    );
    world.options.skip_tags = vec!["slow".into()];
    let project = world.load();
    let needs: Vec<bool> = ["h1", "h2", "h3"].map(|host| project.needs(host).facts).into();
    assert_eq!(needs, [false, false, true]);
}

#[test]
fn a_host_is_asked_for_what_others_in_the_run_read_of_it() {
    let mut world = World::new();
    let file = |text: &str| {
        format!("resources:\n  - name: x\n    file: {{path: /x, content: \"{{{{ {text} }}}}\"}}\n")
    };
    world.write("roles/a/role.yaml", &file("facts.os"));
    world.write("roles/b/role.yaml", &file("hostvars.h1.facts.nvidia"));
    world.write("playbooks/site.yaml", "- hosts: h1\n  roles: [a]\n- hosts: h2\n  roles: [b]\n");
    let names = |world: &World| {
        let project = world.load();
        ["h1", "h2"].map(|host| ["os", "nvidia"].map(|name| project.fact_names_of(host).has(name)))
    };
    assert_eq!(names(&world), [[true, true], [false, false]]);
    world.options.limit = Some("h1".into());
    assert_eq!(names(&world), [[true, false], [false, false]]);
}

/// The template stops at the first host that was not asked. With assumed facts it shows all of them.
#[test]
fn a_template_over_hosts_shows_which_hosts_it_reads() {
    let world = World::new();
    world.write(
        "roles/r/role.yaml",
        "resources:\n  - name: all\n    file: {path: /a, content: \"{% for h in ['h1', 'h2', 'h3'] %}{{ hostvars[h].facts.os }} {% endfor %}\"}\n",
    );
    world.write("playbooks/site.yaml", "- hosts: h1\n  roles: [r]\n");
    let project = world.load();
    let needs = project.needs("h1");
    assert_eq!(needs.facts_of.iter().collect::<Vec<_>>(), ["h1"]);
    assert!(needs.facts_of_others && needs.fact_names.has("os") && !needs.fact_names.has("nvidia"));
    let none = RegisteredResults::new();
    let with = |facts: &Facts| resolve(&project.host_plan("h1", facts, &none), "r/all", &none);
    let one = Facts::new([("h1".to_owned(), json!({"os": "debian"}))]);
    let Resolution::Unknown { names, .. } = with(&one) else { panic!("h2 was not asked") };
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["hostvars.h2.facts"]);
    let Resolution::Ready(all) = with(&one.assumed("h1", ["h1", "h2", "h3"])) else {
        panic!("all are assumed")
    };
    assert!(["h1", "h2", "h3"].iter().all(|h| all.lookups.contains(&format!("hostvars.{h}.facts.os"))));
    // Behind what hosts alter.
    let facts = Facts::new(["h1", "h2", "h3"].map(|host| (host.to_owned(), json!({"os": host}))));
    let (known, nothing) = (BTreeMap::from([("os".to_owned(), json!("new"))]), BTreeMap::new());
    let behind = facts.altered([("h2", &known, Vec::new())]);
    let Resolution::Ready(all) = with(&behind) else { panic!("all are known") };
    assert_eq!(all.params["content"], "h1 new h3 ");
    let behind = facts.altered([("h2", &known, Vec::new()), ("h3", &nothing, vec!["os".to_owned()])]);
    let Resolution::Unknown { names, .. } = with(&behind) else { panic!("one is not known") };
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["hostvars.h3.facts.os"]);
}
