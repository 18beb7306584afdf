//! Groups of items.

use crate::common::{World, item, plan, ready, resolve};
use converge_model::{Facts, RegisteredResults, Resolution};
use serde_json::json;

const ROLE: &str = r#"
inputs:
  active: {type: bool, default: true}
  deep: {type: bool, default: true}
  names: {type: list, default: [x, y]}
check:
  - when: active
    check:
      - query: {run: x}
        register: answer
resources:
  - file: {path: /before}
  - name: outer
    when: active
    tags: [one]
    resources:
      - file: {path: /a}
        tags: [two]
      - name: inner
        when: [deep, "answer == 'x'"]
        tags: one, three
        resources:
          - name: b
            when: item != 'y'
            for_each: "{{ names }}"
            file: {path: "/b/{{ item }}"}
      - service: {name: s, restart_on: [file /a, b]}
  - when: not active
    resources:
      - file: {path: /unnamed}
verify:
  - when: deep
    verify:
      - assert: {that: true}
"#;

fn why(world: &World, address: &str, answer: &str) -> String {
    let project = world.load();
    let mut known = RegisteredResults::new();
    known.set("r", "answer", json!(answer));
    let host = project.host_plan("h1", &Facts::none(), &known);
    match resolve(&host, address, &known) {
        Resolution::Skipped { why } => why,
        Resolution::Ready(_) => "ready".to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn the_conditions_of_all_groups_hold() {
    let world = World::new();
    world.role(ROLE);
    assert_eq!(why(&world, "r/file /a", "x"), "ready");
    assert_eq!(why(&world, "r/b[x]", "x"), "ready");
    assert_eq!(why(&world, "r/b[y]", "x"), "when: item != 'y'");
    assert_eq!(why(&world, "r/b[x]", "y"), "when: answer == 'x' (group inner)");
    assert_eq!(why(&world, "r/file /unnamed", "x"), "when: not active");
    assert_eq!(why(&world, "r/assert true", "x"), "ready");
    world.write("inventories/host_vars/h1.yaml", "active: false\n");
    assert_eq!(why(&world, "r/file /a", "x"), "when: active (group outer)");
    assert_eq!(why(&world, "r/b[x]", "x"), "when: active (group outer)");
    assert_eq!(why(&world, "r/query x", "x"), "when: active");
    assert_eq!(why(&world, "r/file /before", "x"), "ready");
}

#[test]
fn a_condition_of_a_group_is_not_evaluated_behind_one_that_does_not_hold() {
    let world = World::new();
    world.role(
        "inputs: {m: {type: map, default: {}}}\nresources:\n  - when: m.a is defined\n    resources:\n      - when: m.a.b\n        resources:\n          - file: {path: \"{{ m.a.b }}\"}\n            name: f\n",
    );
    assert_eq!(why(&world, "r/f", ""), "when: m.a is defined");
}

#[test]
fn items_have_the_tags_of_their_groups() {
    let mut world = World::new();
    world.role(ROLE);
    let project = world.load();
    let host = plan(&project, "h1");
    assert_eq!(item(&host, "r/b[x]").tags, ["one", "three"]);
    assert_eq!(item(&host, "r/file /a").tags, ["one", "two"]);
    world.options.skip_tags = vec!["one".to_owned()];
    let project = world.load();
    let host = plan(&project, "h1");
    assert!(!item(&host, "r/file /a").selected && item(&host, "r/file /before").selected);
    // A tag that a group alone has is no unknown one.
    assert!(project.warnings().is_empty(), "{}", project.warnings());
}

#[test]
fn the_order_is_that_of_the_file() {
    let world = World::new();
    world.role(ROLE);
    let project = world.load();
    let role = project.roles().next().unwrap();
    let names: Vec<&str> = role.resources.iter().map(|item| item.name.value.as_str()).collect();
    assert_eq!(names, ["file /before", "file /a", "b", "service s", "file /unnamed"]);
    let host = plan(&project, "h1");
    assert!(ready(&host, "r/file /a").lookups.is_empty());
}

#[test]
fn the_facts_of_a_groups_condition_are_asked_for() {
    let world = World::new();
    world.role("resources:\n  - when: facts.init == 'systemd'\n    resources: [{file: {path: /a}}]\n");
    assert!(world.load().needs("h1").facts);
}

#[test]
fn errors_of_groups() {
    let world = World::new();
    world.role(
        r#"
resources:
  - name: "a {{ b }}"
    when:
    become_user: x
    tag: x
    file: {path: /a}
    resources:
      - fil: {path: /b}
  - resources: {file: {path: /c}}
  - verify:
      - file: {path: /d}
  - resources:
      - name: twice
        file: {path: /e}
      - resources:
          - name: twice
            file: {path: /f}
          - service: {name: s, restart_on: [later]}
      - name: later
        file: {path: /g}
check:
  - check:
      - file: {path: /h}
"#,
    );
    insta::assert_snapshot!(world.complaints(), @r#"
    error[not-read-only]: `check` only reads, and `file` makes changes
      --> roles/r/role.yaml:24:9: changes the host
      help: move it to `resources`, or use one of: query, assert
    error[unknown-key]: a group of resources has no key `become_user`
      --> roles/r/role.yaml:5:5: not known here
      help: write `become_user` at each resource of the group that it is for
    error[unknown-key]: a group of resources has no key `tag`
      --> roles/r/role.yaml:6:5: not known here
      help: did you mean `tags`?
    error[unknown-key]: a group of resources has no key `file`
      --> roles/r/role.yaml:7:5: not known here
      help: a kind stands in a resource of its own: put `- ` before it
    error[bad-name]: the name of a group holds a template
      --> roles/r/role.yaml:3:11: a name is the same on every host
      help: write plain words
    error[wrong-type]: `when` has no condition
      --> roles/r/role.yaml:4:5: empty
      help: write an expression such as `when: gpu_count > 0`, or remove the key
    error[wrong-type]: `resources` of a group must be a list, found a map
      --> roles/r/role.yaml:10:17: expected a list
      help: put `- ` before each of them
    error[wrong-section]: a group of `resources` has its resources below `resources`
      --> roles/r/role.yaml:11:5: `verify`
      help: write `resources:` here, or move the group to `verify`
    error[unknown-kind]: there is no kind `fil`
      --> roles/r/role.yaml:9:9: not known here
      help: did you mean `file`?
    error[duplicate-name]: two resources are called `twice`
      --> roles/r/role.yaml:17:19: again here
          roles/r/role.yaml:14:15: first here
      help: give one of them another `name`
    error[unknown-name]: the resource `later` comes later
      --> roles/r/role.yaml:19:45: only earlier resources can be named
      help: move this resource below it
    "#);
}
