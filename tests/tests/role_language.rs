//! The language of roles on a real host: expressions, groups of items, ids.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_tests::{World, exec};
use serde_json::Value;

const ROLE: &str = r#"
summary: everything that the language of roles has
inputs:
  word: {type: str, default: hello}
  active: {type: bool, default: true}
vars:
  folder: /srv/language
  greeting: "{{ word }}, {{ facts.hostname }}"
  count: "{{ files.lines | length }} files"
resources:
  - name: files of the language
    when: active
    tags: [files]
    resources:
      - directory: {path: "{{ folder }}"}
      - name: the greeting, with the name of the host
        id: greeting-file
        file: {path: "{{ folder }}/greeting", content: "{{ greeting }}\n"}
      - name: other systems
        when: facts.init != 'systemd'
        resources:
          - name: never
            file: {path: "{{ folder }}/never", content: ""}
      - query: {run: "ls {{ folder }}/greeting"}
        register: files
      - name: the count
        id: count
        file: {path: "{{ folder }}/count", content: "{{ count }}\n"}
  - name: the log
    command:
      run: cat /srv/language/greeting >>/srv/log
      on_change: [greeting-file]
"#;

fn item<'d>(plan: &'d Value, name: &str) -> &'d Value {
    plan["hosts"][0]["items"].as_array().unwrap().iter().find(|item| item["name"] == name).unwrap()
}

#[test]
fn expressions_groups_and_ids_on_a_real_host() {
    let world = World::new("role-language", 1).unwrap();
    let host = &world.hosts()[0];
    world.only_role("language", ROLE).unwrap();
    let plan = |more: &[&str]| {
        let arguments = [&["plan", "hosts.yaml", "--output", "json"][..], more].concat();
        world.converge(&arguments).unwrap().json().unwrap()
    };
    let first = plan(&[]);
    let schema = world.converge(&["schema", "plan"]).unwrap().expect(0).json().unwrap();
    assert!(jsonschema::is_valid(&schema, &first), "{first:#}");
    let greeting = item(&first, "the greeting, with the name of the host");
    assert_eq!((&greeting["item_id"], &greeting["result"]), (&"greeting-file".into(), &"change".into()));
    assert_eq!(item(&first, "never")["reason"], "when: facts.init != 'systemd' (group other systems)");
    // The expression reaches the answer of a query that comes after changes.
    assert_eq!(item(&first, "the count")["result"], "deferred", "{first:#}");
    assert!(item(&first, "the log")["item_id"].is_null());

    world.converge(&["apply", "--yes", "hosts.yaml"]).unwrap().expect(0);
    let files = "cat /srv/language/greeting /srv/language/count /srv/log";
    assert_eq!(exec(host, files), "hello, h1\n1 files\nhello, h1");
    assert_eq!(exec(host, "ls /srv/language"), "count\ngreeting");

    // An id in `on_change` means the item: another word runs the command once more.
    world.converge(&["apply", "--yes", "hosts.yaml", "--set", "word=good day"]).unwrap().expect(0);
    assert_eq!(exec(host, "tail -n 1 /srv/log"), "good day, h1");
    let rest = plan(&["--set", "word=good day", "--start-at", "language/count"]);
    let names: Vec<&Value> =
        rest["hosts"][0]["items"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
    assert_eq!(names, ["query ls {{ folder }}/greeting", "the count", "the log"], "{rest:#}");

    // Where the condition of the group does not hold, none of its items is used.
    let without = plan(&["--set", "active=false"]);
    assert_eq!(item(&without, "the count")["reason"], "when: active (group files of the language)");

    let refused = world.converge(&["plan", "hosts.yaml", "--set", "greeting=x"]).unwrap().expect(64);
    refused
        .says("`greeting` is an expression of the role `language`: no other place sets it")
        .says("set one of the role's inputs: word, active");
    let vars = world.converge(&["vars", "h1", "greeting", "-i", "hosts.yaml"]).unwrap().expect(0);
    vars.says("expression (role language)").says("waits for facts");
    let explained = world.converge(&["explain", "language/count", "-i", "hosts.yaml"]).unwrap().expect(0);
    explained.says("language/the count").says("in the group files of the language");
    let page = world.converge(&["explain", "language"]).unwrap().expect(0);
    page.says("{{ word }}, {{ facts.hostname }}").says("id greeting-file").says("other systems:");
}
