//! `id` of an item: a short name for references.

use crate::common::{World, item, plan, ready};
use serde_json::json;

const ROLE: &str = r#"
resources:
  - name: The configuration of the agent, with its limits
    id: conf
    file: {path: /a}
  - name: keys
    id: keys-1
    for_each: [x, y]
    file: {path: "/keys/{{ item }}"}
  - file: {path: /b}
    id: second
  - name: the agent
    service: {name: agent, restart_on: [conf, keys, file /b]}
  - name: reload
    command: {run: x, on_change: [keys-1, second]}
"#;

#[test]
fn a_reference_may_use_the_id() {
    let world = World::new();
    world.role(ROLE);
    let project = world.load();
    let host = plan(&project, "h1");
    // The planner knows items by their names: parameters and references have these.
    let long = "The configuration of the agent, with its limits";
    assert_eq!(ready(&host, "r/the agent").params["restart_on"], json!([long, "keys", "file /b"]));
    assert_eq!(ready(&host, "r/reload").params["on_change"], json!(["keys", "file /b"]));
    let names: Vec<&str> = item(&host, "r/the agent").names.iter().map(|name| name.value.as_str()).collect();
    assert_eq!(names, [long, "keys", "file /b"]);
}

#[test]
fn an_item_is_found_by_its_id() {
    let mut world = World::new();
    world.role(ROLE);
    let project = world.load();
    let host = plan(&project, "h1");
    let element = item(&host, "r/keys[y]");
    assert!(element.is_at("r/keys[y]") && element.is_at("r/keys-1[y]"));
    assert!(!element.is_at("r/keys-1") && !element.is_at("r/keys-1[x]") && !element.is_at("keys-1[y]"));
    assert!(!item(&host, "r/the agent").is_at("r/agent"));
    for start in ["r/conf", "r/The configuration of the agent, with its limits"] {
        world.options.start_at = Some(start.to_owned());
        let project = world.load();
        assert_eq!(project.start_at(), Some(("r", Some("The configuration of the agent, with its limits"))));
    }
    world.options.start_at = Some("r/secnd".to_owned());
    assert!(world.complaints().contains("did you mean `second`?"), "{}", world.complaints());
}

#[test]
fn errors_of_ids() {
    let world = World::new();
    world.role(
        r#"
resources:
  - {id: Not so, file: {path: /a}}
  - {id: "", file: {path: /b}}
  - {id: "{{ x }}", file: {path: /c}}
  - {id: one, file: {path: /d}}
  - {id: one, file: {path: /e}}
  - {id: named, file: {path: /f}}
  - {id: named-too, name: named, file: {path: /g}}
  - {id: own, name: own, file: {path: /h}}
  - {id: 3, file: {path: /i}}
  - {name: s, service: {name: s, restart_on: [ons, later]}}
  - {id: later, file: {path: /j}}
"#,
    );
    insta::assert_snapshot!(world.complaints(), @r#"
    error[bad-name]: `Not so` cannot be the id of a resource
      --> roles/r/role.yaml:3:10: small letters, digits, `_` and `-`
      help: write `not-so`; plain words stand in `name`
    error[bad-name]: `` cannot be the id of a resource
      --> roles/r/role.yaml:4:10: small letters, digits, `_` and `-`
      help: write a word, or remove the key
    error[bad-name]: `{{ x }}` cannot be the id of a resource
      --> roles/r/role.yaml:5:10: small letters, digits, `_` and `-`
      help: write `x`; plain words stand in `name`
    error[wrong-type]: `id` must be a string, found the integer `3`
      --> roles/r/role.yaml:11:10: expected a string
    error[duplicate-name]: two resources have the id `one`
      --> roles/r/role.yaml:7:10: again here
          roles/r/role.yaml:6:10: first here
      help: give one of them another `id`
    error[duplicate-name]: a resource has the name of another as its id: `named`
      --> roles/r/role.yaml:8:10: again here
          roles/r/role.yaml:9:27: first here
      help: give one of them another `id`
    error[unknown-name]: this role has no resource `ons`
      --> roles/r/role.yaml:12:47: not found
      help: did you mean `one`?
    error[unknown-name]: the resource `file /j` comes later
      --> roles/r/role.yaml:12:52: only earlier resources can be named
      help: move this resource below it
    "#);
}
