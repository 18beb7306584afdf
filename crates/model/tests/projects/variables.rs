//! Layers of variables, magic variables, and the types of values.

use crate::common::{World, plan, ready};
use serde_json::json;

/// A role that writes what it sees into files.
const LAYERS: &str = r#"
inputs:
  a: {type: int, default: 1}
  b: {type: int, default: 1}
  c: {type: int, default: 1}
  d: {type: int, default: 1}
  e: {type: int, default: 1}
  f: {type: int, default: 1}
  sum: {type: str, default: "{{ a }}{{ b }}{{ c }}{{ d }}{{ e }}{{ f }}"}
resources:
  - name: sum
    file: {path: /sum, content: "{{ sum }}"}
"#;

fn layers() -> World {
    let mut world = World::new();
    world.write("roles/r/role.yaml", LAYERS);
    world.write(
        "playbooks/site.yaml",
        "- hosts: gpu\n  vars: {d: 4, e: 4, f: 4}\n  roles: [{role: r, vars: {e: 5, f: 5}}]\n",
    );
    world.write("inventories/group_vars/all.yaml", "b: 0\nc: 0\n");
    world.write("inventories/group_vars/gpu.yaml", "b: 2\nc: 2\nd: 2\ne: 2\nf: 2\n");
    world.write("inventories/host_vars/h1.yaml", "c: 3\nd: 3\ne: 3\nf: 3\n");
    world.options.set = vec![("f", "6").into()];
    world
}

#[test]
fn six_layers_low_to_high() {
    let project = layers().load();
    let text = |host: &str| ready(&plan(&project, host), "r/sum").params["content"].clone();
    assert_eq!(text("h1"), json!("123456"));
    assert_eq!(text("h2"), json!("122456"));
}

#[test]
fn vars_shows_every_candidate_and_the_winners() {
    let world = layers();
    let project = world.load();
    let reports = project.vars("h1", Some("f"));
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    let shown: Vec<String> = report
        .candidates
        .iter()
        .map(|candidate| {
            let key = candidate.key.to_string().replace(&format!("{}/", world.path("")), "");
            let key = key.replace(world.path("").as_str(), "");
            format!("{} {} {:?}", candidate.layer, key, candidate.node)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "role default roles/r/role.yaml:8:3 1",
            "group gpu inventories/group_vars/gpu.yaml:5:1 2",
            "host inventories/host_vars/h1.yaml:4:1 3",
            "play playbooks/site.yaml:2:22 4",
            "role vars playbooks/site.yaml:3:34 5",
            "--set --set 6",
        ]
    );
    let winners: Vec<_> = report
        .winners
        .iter()
        .map(|w| (w.role.clone(), w.candidate, w.value.as_ref().map(|v| v.to_json())))
        .collect();
    assert_eq!(winners, [(None, 5, Some(json!(6)))]);
    // Outside the role, the host's value wins; in it, the value at its use.
    let report = project.vars("h1", Some("e")).remove(0);
    let winners: Vec<_> = report.winners.iter().map(|w| (w.role.as_deref(), w.candidate)).collect();
    assert_eq!(winners, [(None, 2), (Some("r"), 4)]);
    assert_eq!(project.vars("h1", None).len(), 7);
    assert!(project.vars("h1", Some("nope")).is_empty());
}

#[test]
fn magic_variables_and_other_hosts() {
    let world = World::new();
    world.write("inventories/host_vars/h2.yaml", "port: '{{ base + 1 }}'\nbase: 7\n");
    world.role(
        r#"
inputs: {lines: {type: list, items: str, default: ["{{ inventory_hostname_short }}"]}}
resources:
  - name: x
    file:
      path: /x
      content: "{{ inventory_hostname }} {{ groups.gpu | join(',') }} {{ group_names }} {{ role_name }} {{ hostvars.h2.port }} {{ lines }}"
  - name: y
    file: {path: /y, content: "{{ playbook_dir }} {{ role_path }}"}
"#,
    );
    let project = world.load();
    let plan = plan(&project, "h1");
    assert_eq!(ready(&plan, "r/x").params["content"], json!("h1 h1,h2 ['gpu'] r 8 ['h1']"));
    let dirs = ready(&plan, "r/y").params["content"].as_str().unwrap().to_owned();
    assert!(dirs.contains("/playbooks ") && dirs.ends_with("/roles/r"), "{dirs}");
    assert!(ready(&plan, "r/x").lookups.contains("hostvars.h2.port"));
}

#[test]
fn an_input_made_of_another_finds_it_with_its_type() {
    let mut world = World::new();
    world.role(
        r#"
inputs:
  values: {type: map, default: {live: "{{ live }}", many: ["{{ count }}"]}}
  live: {type: bool, default: true}
  count: {type: int, default: 1}
resources:
  - name: p
    file: {path: /p, content: "{{ values | to_json }}"}
"#,
    );
    world.options.set = vec![("live", "false").into(), ("count", "3").into()];
    let params = ready(&plan(&world.load(), "h3"), "r/p").params["content"].as_str().unwrap().to_owned();
    let value: serde_json::Value = serde_json::from_str(&params).unwrap();
    assert_eq!(value, json!({"live": false, "many": [3]}));
}

#[test]
fn values_keep_their_types_and_inputs_are_checked_per_host() {
    let mut world = World::new();
    world.role(
        r#"
inputs:
  version: {type: str, default: "1.0"}
  count: {type: int, default: 1, max: 8}
  mode: {choices: [a, b], default: a}
resources:
  - name: p
    package: {name: ["x={{ version }}"], hold: "{{ count > 1 }}"}
"#,
    );
    world.options.set = vec![("version", "1.30").into(), ("count", "3").into()];
    let project = world.load();
    assert_eq!(ready(&plan(&project, "h3"), "r/p").params, json!({"name": ["x=1.30"], "hold": true}));

    // The text of a file is no template.
    world.options.set = vec![("version", "{{ 1 + 1 }}{% x").into(), ("count", "3").into()];
    world.options.set[0].is_literal = true;
    let literal = json!({"name": ["x={{ 1 + 1 }}{% x"], "hold": true});
    assert_eq!(ready(&plan(&world.load(), "h3"), "r/p").params, literal);

    world.options.set = vec![("count", "many").into()];
    world.write("inventories/host_vars/h2.yaml", "version: 1.30\nmode: c\n");
    let project = world.try_load().unwrap();
    let errors = project.host_errors();
    assert_eq!(errors.keys().collect::<Vec<_>>(), ["h1", "h2", "h3"]);
    assert_eq!(
        world.text(&errors["h2"]),
        "error[wrong-type]: the input `version` must be a string, found the number `1.3`\n  --> inventories/host_vars/h2.yaml:1:10: expected a string\n  help: write it in quotes: \"1.30\"\nerror[wrong-type]: the input `count` must be an integer, found a string\n  --> --set: expected an integer\nerror[bad-value]: the input `mode` cannot be the string `c`\n  --> inventories/host_vars/h2.yaml:2:7: not one of the choices\n  help: one of: a, b"
    );

    world.options.set = vec![("conut", "1").into()];
    assert!(
        world
            .complaints()
            .contains("nothing has the variable `conut`\n  --> --set\n  help: did you mean `count`?")
    );
}
