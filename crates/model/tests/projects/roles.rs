//! Roles and playbooks with errors, and the diagnostics for them.

use crate::common::World;
use proptest::prelude::*;

/// The diagnostics of a role, without the role's path.
fn role_complaints(text: &str) -> String {
    let world = World::new();
    world.role(text);
    world.complaints().replace("roles/r/role.yaml:", "")
}

fn playbook_complaints(text: &str) -> String {
    let world = World::new();
    world.write(
        "roles/r/role.yaml",
        "inputs: {size: {type: int, default: 1}}\nresources: [{package: {name: jq}}]\n",
    );
    world.write("roles/other/role.yaml", "resources: []\n");
    world.write("playbooks/site.yaml", text);
    world.complaints().replace("playbooks/site.yaml:", "")
}

#[test]
fn a_role_with_every_key_is_right() {
    let world = World::new();
    world.role(
        r#"
summary: everything
scope: host
requires: []
inputs:
  active: {type: bool, default: true}
  size: {type: int, default: 3, min: 1, max: 9, help: how much}
  ratio: {type: float, default: 1}
  word: {type: str, default: abc, pattern: "[a-z]+", max: 5}
  where: {type: path, default: /srv}
  names: {type: list, items: str, default: [a, b]}
  deep: {type: list, items: {type: map, items: int}, default: [{a: 1}]}
  limits: {type: map, items: int, default: {a: 1}}
  level: {choices: [low, high], default: low}
  token: {type: str, default: "{{ word }}", sensitive: true}
check:
  - query: {run: nvidia-smi -L}
    register: smi
    tags: [always]
resources:
  - name: a file
    file: {path: "{{ where }}/x", content: "{{ smi }}"}
    when: [size > 2, ratio == 1.0]
    become_user: "{{ word }}"
  - service: {name: x, restart_on: [a file]}
    tags: one, two
  - package: {name: "{{ item }}"}
    for_each: "{{ names }}"
    sensitive: true
verify:
  - assert: {that: "{{ size == 3 }}"}
"#,
    );
    let project = world.load();
    let role = project.roles().next().unwrap();
    assert_eq!(role.summary.as_deref(), Some("everything"));
    let names: Vec<&str> = role.items().map(|item| item.name.value.as_str()).collect();
    assert_eq!(
        names,
        ["query nvidia-smi -L", "a file", "service x", "package {{ item }}", "assert {{ size == 3 }}"]
    );
    assert!(project.warnings().is_empty(), "{}", project.warnings());
    assert!(role.is_sensitive("token") && !role.is_sensitive("word"));
}

#[test]
fn every_complaint_of_a_role_in_one_run() {
    insta::assert_snapshot!(role_complaints(
        r#"
sumary: typo
requires: [r, gone]
inputs:
  a: {type: integer}
  b: {type: int, default: many}
  c-d: {type: str}
  facts: {type: str}
  e: {choices: []}
  f: str
check:
  - package: {name: jq}
resources:
  - fil: {path: /a}
  - file: {path: /b, contnet: x}
  - file: {content: 1}
  - file: {path: /c}
    package: {name: jq}
  - name: only a name
  - copy: {src: a}
  - file: {path: /d}
    mode: "0644"
  - file: {path: /d}
  - service: {name: s, state: runing, restart_on: [file /b, file /e, later]}
    register: out
  - name: later
    command: {run: x, timeout: -1, on_change: later}
    notify: s
verify: nothing
"#
    ), @r#"
    error[unknown-key]: a role has no key `sumary`
      --> 2:1: not known here
      help: did you mean `summary`?
    error[role-cycle]: the role `r` requires itself
      --> 3:12: itself
    error[unknown-type]: there is no type `integer`
      --> 5:13: not a type
      help: write `int`
    error[wrong-type]: the input `b` must be an integer, found the string `many`
      --> 6:27: expected an integer
    error[bad-name]: `c-d` cannot be the name of an input
      --> 7:3: not usable in templates
      help: write `c_d`
    error[bad-name]: `facts` is set by converge and cannot be an input
      --> 8:3: taken
    error[missing-key]: the input `e` has no choices
      --> 9:16: an enum needs them
      help: write `choices: [a, b]`
    error[wrong-type]: the input `f` must be a map, found the string `str`
      --> 10:6: expected a map
      help: write `f: {type: str}`
    error[not-read-only]: `check` only reads, and `package` makes changes
      --> 12:5: changes the host
      help: move it to `resources`, or use one of: query, assert
    error[unknown-kind]: there is no kind `fil`
      --> 14:5: not known here
      help: did you mean `file`?
    error[unknown-key]: `file` has no parameter `contnet`
      --> 15:22: not known here
      help: did you mean `content`?
    error[wrong-type]: `content` must be a string, found the integer `1`
      --> 16:21: expected a string
      help: write it in quotes: "1"
    error[missing-key]: `file` needs the parameter `path`
      --> 16:5: `path` is missing
    error[two-kinds]: a resource has exactly one kind
      --> 18:5: a second kind
          17:5: the first kind
      help: make two resources of it: put `- ` before the second
    error[no-kind]: a resource has exactly one kind, and this has none
      --> 19:5: only common keys
      help: kinds there are: file, package, release, service, command, query, assert
    error[unknown-kind]: there is no kind `copy`
      --> 20:5: not known here
      help: write `file` with `content` or `source`; `command` with cp for a file of the host
    error[unknown-key]: a resource has no key `mode`
      --> 22:5: not known here
      help: `mode` is a parameter of `file`: indent it below `file:`
    error[bad-value]: `state` cannot be the string `runing`
      --> 24:31: not one of the choices
      help: one of: started, stopped
    error[bad-register]: `service` has no result to register
      --> 25:15: no result
      help: register the result of a `query`
    error[unknown-key]: a resource has no key `notify`
      --> 28:5: not known here
      help: write `restart_on` or `reload_on` at the service instead
    error[bad-value]: `timeout` is less than 0
      --> 27:32: at least 0
    error[wrong-type]: `on_change` must be a list, found the string `later`
      --> 27:47: expected a list
      help: a list has a line `- item` for each item
    error[wrong-type]: `verify` must be a list, found the string `nothing`
      --> 29:9: expected a list
      help: put `- ` before each of them
    error[duplicate-name]: two resources are called `file /d`
      --> 23:5: again here
          21:5: first here
      help: give one of them another `name`
    error[unknown-name]: this role has no resource `file /e`
      --> 24:61: not found
      help: did you mean `file /b`?
    error[unknown-name]: the resource `later` comes later
      --> 24:70: only earlier resources can be named
      help: move this resource below it
    error[unknown-name]: a resource cannot name itself
      --> 27:47: itself
    error[unknown-role]: there is no role `gone`
      --> 3:15: not found
      help: roles there are: r
    "#);
}

#[test]
fn each_complaint_of_an_item() {
    for (text, expected) in [
        (
            "resources: [{file: {path: /a}, tags: {a: b}}]",
            "error[wrong-type]: a tag must be a string, found a map\n  --> 1:39: expected a string",
        ),
        (
            "resources: [{file: {path: /a}, when: 3}]",
            "error[wrong-type]: a condition must be an expression, found the integer `3`\n  --> 1:38: expected an expression",
        ),
        (
            "resources: [{file: {path: /a}, for_each: 3}]",
            "error[wrong-type]: `for_each` must be a list, a map or a template, found the integer `3`\n  --> 1:42: expected a list, a map or a template\n  help: write `for_each: \"{{ some_list }}\"` or a list",
        ),
        (
            "resources: [{name: 'a {{ b }}', file: {path: /a}}]",
            "error[bad-name]: the name of a resource holds a template\n  --> 1:20: a name is the same on every host\n  help: write plain words; elements of `for_each` get their key beside the name",
        ),
        (
            "check: [{query: {run: x}, register: a}, {query: {run: y}, register: a}, {query: {run: z}, register: item}]",
            "error[duplicate-name]: `a` is registered already\n  --> 1:69: taken\n      1:37: here\n  help: choose another name for the result\nerror[duplicate-name]: `item` is set by converge\n  --> 1:101: taken\n  help: choose another name for the result",
        ),
        (
            "resources: [{file: {path: /a, template: gone.j2, source: ../../etc/passwd}}]",
            "error[no-file]: the role `r` has no file `templates/gone.j2`\n  --> 1:41: not found\n  help: write the file roles/r/templates/gone.j2\nerror[bad-path]: `../../etc/passwd` is not a path below `files/` of the role\n  --> 1:58: must stay in the role's folder\n  help: put the file into roles/r/files/ and write its name",
        ),
        (
            "- a",
            "error[wrong-type]: a role must be a map, found a list\n  --> 1:3: expected a map\n  help: keys of a role: summary, scope, renamed_from, requires, after, inputs, vars, check, resources, verify",
        ),
        ("", "error[empty]: a role is empty\n  --> roles/r/role.yaml"),
        (
            "scope: hosts",
            "error[bad-value]: there is no scope `hosts`\n  --> 1:8: not a scope\n  help: did you mean `host`?",
        ),
        (
            "inputs: {a: {type: int, min: 3, max: 1}, b: {type: bool, pattern: x}, c: {type: str, required: true, default: x}}",
            "error[bad-input]: no value of `a` is between 3 and 1\n  --> 1:33: less than `min`\nerror[bad-input]: `pattern` says nothing about true or false\n  --> 1:58: of the input `b`\n  help: remove it\nerror[bad-input]: the input `c` is required and has a default\n  --> 1:111: never used\n  help: remove `required` or `default`",
        ),
        (
            "inputs: {a: {type: path, default: etc/x}, b: {type: list, items: int, default: [1, two]}, c: {type: str, min: 3, default: ab}}",
            "error[bad-value]: the input `a` must be an absolute path\n  --> 1:35: does not start with /\nerror[wrong-type]: an item of the input `b` must be an integer, found the string `two`\n  --> 1:84: expected an integer\nerror[bad-value]: the input `c` must be at least 3 characters\n  --> 1:123: this is 2 characters",
        ),
    ] {
        assert_eq!(role_complaints(text), expected, "{text}");
    }
}

#[test]
fn each_complaint_of_a_playbook() {
    for (text, expected) in [
        (
            "hosts: all",
            "error[wrong-type]: a playbook must be a list of plays, found a map\n  --> 1:1: expected a list of plays\n  help: put `- ` before `hosts:` of the first play",
        ),
        (
            "- roles: [r]\n  tasks: []\n- hosts: all\n- hosts: all\n  roles: [{vars: {}}, rr, {role: r, vars: {siz: 2}}]\n",
            "error[unknown-key]: a play has no key `tasks`\n  --> 2:3: not known here\n  help: a play holds roles only: write a role\nerror[missing-key]: a play needs `hosts`\n  --> 1:3: `hosts` is missing\n  help: write a host pattern, such as `hosts: all`\nerror[missing-key]: a play needs `roles`\n  --> 3:3: `roles` is missing\n  help: write `roles: [NAME]`\nerror[missing-key]: a role entry needs `role`\n  --> 5:12: `role` is missing\n  help: write `{role: NAME, vars: {…}}`\nerror[unknown-role]: there is no role `rr`\n  --> 5:23: not found\n  help: roles there are: other, r\nerror[unknown-input]: the role `r` has no input `siz`\n  --> 5:44: not known there\n  help: did you mean `size`?",
        ),
        (
            "- hosts: all\n  roles: [r]\n  serial: [1, 25%, 2.5]\n  max_fail_percentage: [1]\n  any_errors_fatal: 3\n  min_available: \"{{ x }}\"\n",
            "error[wrong-type]: `serial` must be a whole number of hosts or a percentage, found the number `2.5`\n  --> 3:20: expected a whole number of hosts or a percentage\n  help: write `2` or `25%`\nerror[wrong-type]: `max_fail_percentage` must be a percentage from 0 to 100, found a list\n  --> 4:25: expected a percentage from 0 to 100\n  help: write `30`: the play stops when more than 30 % of a batch have failed\nerror[wrong-type]: `any_errors_fatal` must be true or false, found the integer `3`\n  --> 5:21: expected true or false\nerror[wrong-type]: `min_available` must be a whole number of hosts or a percentage, found the string `{{ x }}`\n  --> 6:18: expected a whole number of hosts or a percentage\n  help: a play is read before variables are known: write the number itself",
        ),
        (
            "- hosts: all\n  roles: [r]\n  vars: {a-b: 1, groups: 2}\n",
            "error[bad-name]: `a-b` cannot be the name of a variable\n  --> 3:10: not usable\n  help: letters, digits and underscores; no digit first\nerror[bad-name]: `groups` is set by converge and cannot be set here\n  --> 3:18: not usable\n  help: choose another name",
        ),
        (
            "- hosts: all\n  roles: [{role: r, vars: {size: 2}}]\n- hosts: h1\n  roles: [r]\n",
            "h1: error[two-uses]: h1 has the role `r` twice, with different values of `size`\n  --> 4:11: again here\n      2:18: first here\n  help: use the role once; what repeats in it goes into a list input with `for_each`\n",
        ),
    ] {
        assert_eq!(playbook_complaints(text), expected, "{text}");
    }
}

#[test]
fn a_required_role_must_be_in_the_playbook() {
    let world = World::new();
    world.write("roles/a/role.yaml", "requires: [b, c]\nresources: []\n");
    world.write("roles/b/role.yaml", "requires: [a]\nresources: []\n");
    world.write("roles/c/role.yaml", "resources: []\n");
    world.write("playbooks/site.yaml", "- hosts: h1\n  roles: [a]\n- hosts: h2\n  roles: [b]\n");
    assert_eq!(
        world.complaints(),
        "error[missing-role]: the role `a` requires `c`, which is in no play\n  --> roles/a/role.yaml:1:15: required here\n      playbooks/site.yaml:2:11: `a` is used here\n  help: add `c` to the `roles` of a play"
    );
    // A role on other hosts is an edge; cycles are for the planner to find.
    world.write("roles/a/role.yaml", "requires: [b]\nresources: []\n");
    let project = world.load();
    let edges: Vec<String> = project
        .role_edges()
        .iter()
        .map(|edge| format!("{}→{} {}", edge.from, edge.to, edge.span.line()))
        .collect();
    assert_eq!(edges, ["a→b 1", "b→a 1"]);
    assert_eq!(project.hosts_of_role("b"), ["h2"]);
}

#[test]
fn the_playbook_is_found() {
    let world = World::new();
    world.write("roles/r/role.yaml", "resources: []\n");
    let complaint = world.complaints();
    assert!(
        complaint.contains("there is no playbook") && complaint.contains("looked for `playbooks/site.yaml`"),
        "{complaint}"
    );
    world.write("playbooks/site.yaml", "- hosts: h1\n  roles: [r]\n");
    assert_eq!(world.load().hosts(), ["h1"]);
    world.write("inventories/group_vars/all.yaml", "converge_playbook: ../playbooks/gpu.yaml\n");
    let complaint = world.complaints();
    assert!(complaint.contains("inventories/group_vars/all.yaml:1:20: named here"), "{complaint}");
    world.write("playbooks/gpu.yaml", "- hosts: gpu\n  roles: [r]\n");
    // The playbook's own roles come after those of the project.
    world.write("playbooks/roles/mine/role.yaml", "resources: []\n");
    world.write("playbooks/gpu.yaml", "- hosts: gpu\n  roles: [r, mine]\n");
    let project = world.load();
    assert_eq!(project.hosts(), ["h1", "h2"]);
    assert_eq!(project.roles_of("h1"), ["r", "mine"]);
}

/// YAML that looks like a role, wrong in all sorts of ways.
fn soup() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "summary",
        "scope",
        "requires",
        "inputs",
        "check",
        "resources",
        "verify",
        "name",
        "file",
        "query",
        "when",
        "for_each",
        "register",
        "tags",
        "type",
        "int",
        "str",
        "list",
        "items",
        "choices",
        "default",
        "min",
        "path",
        "restart_on",
        "service",
        "hosts",
        "roles",
        "role",
        "vars",
        "all",
        "r",
        "'{{ a }}'",
        "'{{ a'",
        "[]",
        "{}",
        "~",
        "3",
        "-1.5",
        "true",
        "'x: y'",
        "&a",
        "*a",
        "!vault",
        "é",
    ]);
    let line = (0usize..6, any::<bool>(), word.clone(), any::<bool>(), word).prop_map(
        |(depth, dash, key, colon, value)| {
            let dash = if dash { "- " } else { "" };
            let colon = if colon { ": " } else { "" };
            format!("{}{dash}{key}{colon}{value}", "  ".repeat(depth))
        },
    );
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_role_or_a_complaint(text in soup()) {
        let mut found = converge_syntax::Diagnostics::new();
        let source = converge_syntax::Source::new("role.yaml", text.clone());
        let role = converge_model::Role::parse("r", "roles/r".into(), source, &crate::common::catalog(), &mut found);
        prop_assert!(role.is_some() || found.has_errors());
        let source = converge_syntax::Source::new("site.yaml", text);
        let playbook = converge_model::Playbook::parse("site.yaml".into(), source, &mut found);
        prop_assert!(playbook.is_some() || found.has_errors());
    }

    #[test]
    fn any_role_can_be_loaded_or_not(text in soup()) {
        let world = World::new();
        world.role(&text);
        match world.try_load() {
            Ok(project) => { let _ = project.vars("h1", None); }
            Err(found) => prop_assert!(found.has_errors()),
        }
    }
}
