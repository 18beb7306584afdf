//! `vars` of a role: named expressions.

use crate::common::{World, plan, ready, resolve};
use converge_model::{Facts, RegisteredResults, Resolution};
use serde_json::json;

const ROLE: &str = r#"
inputs:
  port: {type: int, default: 80}
  token: {type: str, default: abc, sensitive: true}
vars:
  url: "http://{{ inventory_hostname }}:{{ port }}/"
  links: ["{{ url }}a", "{{ url }}b"]
  secret_url: "{{ url }}?{{ token }}"
  init: "{{ facts.init }}"
  count: "{{ answer | length }}"
  element: "/{{ item }}"
  wrong: "{{ nothing_has_this }}"
resources:
  - query: {run: x}
    register: answer
  - name: plain
    when: links | length == 2
    file: {path: /a, content: "{{ links | join(' ') }}"}
  - name: secret
    file: {path: /b, content: "{{ secret_url }}"}
  - name: fact
    file: {path: /c, content: "{{ init }}"}
  - name: result
    file: {path: /d, content: "{{ count | string }}"}
  - name: each
    for_each: [x, y]
    file: {path: "{{ element }}"}
"#;

#[test]
fn they_are_evaluated_where_they_are_used() {
    let world = World::new();
    world.role(ROLE);
    world.write("inventories/host_vars/h2.yaml", "port: 8080\n");
    let project = world.load();
    let host = plan(&project, "h2");
    let plain = ready(&host, "r/plain");
    assert_eq!(plain.params["content"], json!("http://h2:8080/a http://h2:8080/b"));
    assert!(plain.inputs_used.contains("port") && plain.lookups.contains("links"), "{:?}", plain.lookups);
    assert!(!plain.sensitive);
    assert!(ready(&host, "r/secret").sensitive);
    assert_eq!(ready(&host, "r/each[y]").params["path"], json!("/y"));
}

#[test]
fn they_wait_for_what_they_reach() {
    let world = World::new();
    world.role(ROLE);
    let project = world.load();
    assert!(project.needs("h1").facts, "a fact is read through an expression alone");
    let host = plan(&project, "h1");
    let waits = |address: &str| match resolve(&host, address, &RegisteredResults::new()) {
        Resolution::Unknown { names, .. } => names.into_iter().collect::<Vec<_>>().join(", "),
        other => panic!("{address}: {other:?}"),
    };
    assert_eq!(waits("r/fact"), "facts");
    assert_eq!(waits("r/result"), "answer");
    let mut known = RegisteredResults::new();
    known.set("r", "answer", json!("four"));
    match resolve(&host, "r/result", &known) {
        Resolution::Ready(ready) => assert_eq!(ready.params["content"], json!("4")),
        other => panic!("{other:?}"),
    }
    let facts = Facts::new([("h1".to_owned(), json!({"init": "systemd"}))]);
    let host = project.host_plan("h1", &facts, &RegisteredResults::new());
    assert_eq!(ready(&host, "r/fact").params["content"], json!("systemd"));
}

#[test]
fn a_saved_plan_is_bound_by_their_values() {
    let texts = |port: &str| {
        let world = World::new();
        world.role(ROLE);
        world.write("inventories/host_vars/h1.yaml", &format!("port: {port}\n"));
        let project = world.load();
        let host = plan(&project, "h1");
        let used = host.role("r").unwrap();
        let item = crate::common::item(&host, "r/secret");
        used.binding(item, &RegisteredResults::new())
    };
    let (first, again, other) = (texts("1"), texts("1"), texts("2"));
    assert!(first == again && first != other);
    assert!(first.sensitive);
}

#[test]
fn vars_lists_them_as_the_layer_that_wins() {
    let world = World::new();
    world.role(ROLE);
    let project = world.load();
    let shown = |name: &str| {
        let mut reports = project.vars("h1", Some(name));
        let report = reports.remove(0);
        let (candidate, winner) = (&report.candidates[0], &report.winners[0]);
        let value = winner.value.as_ref().map(|value| value.to_json().to_string());
        let within = candidate.within.clone().unwrap_or_default();
        format!("{} {within} {}", candidate.layer, value.or_else(|| winner.why.clone()).unwrap_or_default())
    };
    assert_eq!(shown("url"), r#"expression role r "http://h1:80/""#);
    assert_eq!(shown("secret_url"), "expression role r sensitive");
    assert_eq!(shown("init"), "expression role r waits for facts");
}

#[test]
fn the_roles_of_a_cluster_show_at_its_entry_host() {
    let world = World::new();
    world.role("scope: cluster\nvars: {a: 1}\nresources: []\n");
    let project = world.load();
    assert_eq!(project.vars("h1", Some("a")).len(), 1);
    assert_eq!(project.vars("cluster", Some("a")).len(), 1);
    assert_eq!(project.vars("h2", Some("a")).len(), 0);
}

#[test]
fn nothing_else_sets_them() {
    let mut world = World::new();
    world.role("inputs: {port: {type: int, default: 1}}\nvars: {url: \"http://{{ port }}\", own: 1}\nresources: []\n");
    world.write("roles/other/role.yaml", "inputs: {own: {type: int, default: 1}}\nresources: []\n");
    world.write(
        "playbooks/site.yaml",
        "- hosts: h1\n  vars: {url: a}\n  roles:\n    - {role: r, vars: {url: b}}\n- hosts: h3\n  roles: [other]\n",
    );
    world.write("inventories/group_vars/gpu.yaml", "url: c\n");
    // h3 has another role alone.
    world.write("inventories/host_vars/h3.yaml", "own: 3\n");
    world.options.set = vec![("url", "d").into()];
    insta::assert_snapshot!(world.complaints(), @r#"
    error[not-settable]: `url` is an expression of the role `r`: no other place sets it
      --> playbooks/site.yaml:2:10: set here
          roles/r/role.yaml:2:8: declared here
      help: take it out, or set one of the role's inputs: port
    error[not-settable]: `url` is an expression of the role `r`: no other place sets it
      --> playbooks/site.yaml:4:24: set here
          roles/r/role.yaml:2:8: declared here
      help: take it out, or set one of the role's inputs: port
    error[not-settable]: `url` is an expression of the role `r`: no other place sets it
      --> inventories/group_vars/gpu.yaml:1:1: set here
          roles/r/role.yaml:2:8: declared here
      help: take it out, or set one of the role's inputs: port
    error[not-settable]: `url` is an expression of the role `r`: no other place sets it
      --> --set
          roles/r/role.yaml:2:8: declared here
      help: take it out, or set one of the role's inputs: port
    "#);
}

#[test]
fn errors_of_their_declaration() {
    let world = World::new();
    world.role(
        r#"
inputs: {port: {type: int, default: 1}}
vars:
  port: 2
  a-b: 1
  item: 1
  5: x
  one: "{{ two }}"
  two: ["{{ three }}"]
  three: "{{ one }} {{ three_more }}"
  three_more: "{{ three_more }}"
  fine: "{{ one }}"
  answer: 1
resources:
  - query: {run: x}
    register: answer
"#,
    );
    insta::assert_snapshot!(world.complaints(), @r#"
    error[duplicate-name]: `port` is an input of the role
      --> roles/r/role.yaml:4:3: taken
          roles/r/role.yaml:2:10: here
      help: an input has a `default`; an expression has another name
    error[bad-name]: `a-b` cannot be the name of an expression
      --> roles/r/role.yaml:5:3: not usable in templates
      help: write `a_b`
    error[bad-name]: `item` is set by converge and cannot be an expression
      --> roles/r/role.yaml:6:3: taken
    error[wrong-type]: the name of an expression must be a string, found the integer `5`
      --> roles/r/role.yaml:7:3: expected a string
      help: write it in quotes, "5", or choose another name
    error[variable-cycle]: expressions refer to each other in a circle: one → two → three → one
      --> roles/r/role.yaml:8:8: refers to `two`
          roles/r/role.yaml:9:8: refers to `three`
          roles/r/role.yaml:10:10: refers to `one`
      help: break the circle: one of them must not refer to the others
    error[variable-cycle]: expressions refer to each other in a circle: three_more → three_more
      --> roles/r/role.yaml:11:15: refers to `three_more`
      help: break the circle: one of them must not refer to the others
    error[duplicate-name]: `answer` is an expression of the role
      --> roles/r/role.yaml:16:15: taken
          roles/r/role.yaml:13:3: here
      help: choose another name for the result
    "#);
    world.role("vars: [a]\nresources: []\n");
    insta::assert_snapshot!(world.complaints(), @r#"
    error[wrong-type]: `vars` must be a map, found a list
      --> roles/r/role.yaml:1:8: expected a map
      help: write `vars: {name: "{{ expression }}"}`
    "#);
}

#[test]
fn an_expression_that_no_item_uses_is_not_evaluated() {
    let world = World::new();
    world.role("vars: {wrong: \"{{ nothing_has_this }}\"}\nresources: [{file: {path: /a}}]\n");
    assert_eq!(world.complaints(), "");
    world.role("vars: {wrong: \"{{ nothing_has_this }}\"}\nresources: [{file: {path: \"{{ wrong }}\"}}]\n");
    assert!(world.complaints().contains("roles/r/role.yaml:1:19"), "{}", world.complaints());
}
