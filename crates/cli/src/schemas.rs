//! JSON Schemas of what a user writes, for editors: roles with all kinds, playbooks, inventories.

use converge_model::{GROUP_KEYS, GUARD_SECONDS, GUARDS};
use converge_resource::Disruption;
use converge_resources::KINDS;
use serde_json::{Map, Value, json};

/// The version of JSON Schema.
pub const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The name and the schema of every file that a user writes.
pub fn authored() -> Vec<(&'static str, Value)> {
    vec![("role", role()), ("playbook", playbook()), ("inventory", inventory())]
}

/// Any value with a template in it: what it becomes is checked when it is rendered.
fn template() -> Value {
    json!({"type": "string", "pattern": r"\{\{|\{%"})
}

/// `roles/NAME/role.yaml`
fn role() -> Value {
    let mut defs = Map::new();
    defs.insert("template".into(), template());
    for kind in KINDS {
        let mut schema = (kind.schema)();
        let inner = schema.as_object_mut().and_then(|s| s.remove("$defs"));
        for (name, mut inner) in inner.and_then(|d| d.as_object().cloned()).into_iter().flatten() {
            prepare(&mut inner, kind.kind);
            defs.insert(format!("{}.{name}", kind.kind), inner);
        }
        prepare(&mut schema, kind.kind);
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("$schema");
            schema.insert("title".into(), kind.kind.into());
        }
        defs.insert(format!("kind.{}", kind.kind), schema);
    }
    defs.insert("resource".into(), item(|_| true));
    defs.insert("reader".into(), item(|kind| kind.read_only));
    defs.insert("input".into(), input());
    for (key, of) in [("check", "reader"), ("resources", "resource"), ("verify", "reader")] {
        defs.insert(format!("group.{key}"), group(key, of));
    }
    let list = |key: &str, of: &str, what: &str| json!({"description": what, "type": "array", "items": entry(key, of)});
    json!({
        "$schema": DRAFT,
        "title": "A role of converge",
        "description": "What hosts should have: roles/NAME/role.yaml",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "summary": {"description": "One line that says what it is for", "type": "string"},
            "scope": {"description": "On every host of the play, or once for the cluster", "enum": ["host", "cluster"], "default": "host"},
            "after": {"description": "Roles that come first where the playbook has them", "type": "array", "items": {"type": "string"}},
            "requires": {"description": "Roles that come first, on all hosts that they run on", "type": "array", "items": {"type": "string"}},
            "renamed_from": {"description": "Names that this role had before: what was made under them stays its own", "type": ["string", "array"], "items": {"type": "string"}},
            "inputs": {
                "description": "Typed inputs, by name",
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                "additionalProperties": {"$ref": "#/$defs/input"},
            },
            "vars": {
                "description": "Named expressions: evaluated where a template uses them; nothing outside the role sets them",
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            },
            "check": list("check", "reader", "Preconditions: they only read, and are evaluated when the plan is made"),
            "resources": list("resources", "resource", "What the host should have; each comes after the one before it"),
            "verify": list("verify", "reader", "Postconditions: run after an apply and by `converge verify`"),
        },
        "$defs": defs,
    })
}

/// An entry of a list of a role: a group where it has the key of the list, else an item.
fn entry(key: &str, of: &str) -> Value {
    let to = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
    json!({"if": {"type": "object", "required": [key]}, "then": to(&format!("group.{key}")), "else": to(of)})
}

/// A group of items.
fn group(key: &str, of: &str) -> Value {
    let mut properties = Map::new();
    for name in GROUP_KEYS {
        properties.insert(name.to_owned(), common().get(name).cloned().unwrap_or_default());
    }
    let items = json!({"description": "Its resources; groups among them too", "type": "array", "items": entry(key, of)});
    properties.insert(key.to_owned(), items);
    json!({"description": "Resources with the same conditions and tags", "type": "object", "additionalProperties": false, "properties": properties, "required": [key]})
}

/// An item: common keys and exactly one kind.
fn item(takes: impl Fn(&converge_resource::KindInfo) -> bool) -> Value {
    let mut properties = common();
    let mut one = Vec::new();
    if let Some(properties) = properties.as_object_mut() {
        for kind in KINDS.iter().filter(|k| takes(k)) {
            let description = (kind.schema)().get("description").cloned().unwrap_or_default();
            let own = json!({"$ref": format!("#/$defs/kind.{}", kind.kind)});
            // All parameters of a kind may come out of one template: a manifest out of a file.
            let schema = json!({"description": description, "anyOf": [own, {"$ref": "#/$defs/template"}]});
            properties.insert(kind.kind.into(), schema);
            one.push(json!({"required": [kind.kind]}));
        }
    }
    json!({"type": "object", "additionalProperties": false, "properties": properties, "oneOf": one})
}

/// The keys that items of all kinds have.
fn common() -> Value {
    let condition = json!({"type": ["string", "boolean"]});
    json!({
        "name": {"description": "What it is, in plain words; unique in the role", "type": "string"},
        "id": {"description": "A short name for references, unique in the role", "type": "string", "pattern": "^[a-z0-9_-]+$"},
        "when": {
            "description": "A condition, or several that must all hold: an expression without braces",
            "anyOf": [condition.clone(), {"type": "array", "items": condition}],
        },
        "for_each": {
            "description": "Repeat for each element, which is `item`",
            "anyOf": [{"type": "array"}, {"type": "object"}, {"$ref": "#/$defs/template"}],
        },
        "tags": {"description": "Tags for --tags and --skip-tags", "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "register": {"description": "The name that its result gets", "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "become_user": {"description": "The user that its command runs as", "type": "string"},
        "sensitive": {"description": "Never show its values", "type": "boolean"},
        "disruption": {"description": "The disruption of its change, where that is more or less than converge knows", "enum": Disruption::WORDS},
        "guard": {"description": "The access that its change can break: the host reverts it automatically unless it is confirmed in time", "enum": GUARDS},
        "guard_seconds": {"description": "Within how many seconds it must be confirmed", "type": "integer", "minimum": GUARD_SECONDS.0, "maximum": GUARD_SECONDS.1},
    })
}

/// A typed input.
fn input() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "type": {"description": "What values it takes", "enum": ["bool", "int", "float", "str", "list", "map", "path", "enum"]},
            "choices": {"description": "The values of an enum", "type": "array"},
            "min": {"description": "Least number, or least length", "type": "number"},
            "max": {"description": "Greatest number, or greatest length", "type": "number"},
            "pattern": {"description": "What text must match, from start to end", "type": "string"},
            "items": {"description": "The type of items of a list or values of a map"},
            "default": {"description": "The value where no layer of variables gives one"},
            "required": {"description": "Must some layer give a value?", "type": "boolean"},
            "help": {"description": "What it is for", "type": "string"},
            "sensitive": {"description": "Its value is a secret", "type": "boolean"},
        },
    })
}

/// A playbook: a list of plays.
fn playbook() -> Value {
    let vars = json!({"description": "Variables", "type": "object"});
    let tags = json!({"description": "Tags for --tags and --skip-tags", "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]});
    let step = json!({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": r"^[0-9]+%?$|\{\{"}]});
    let condition = json!({"type": ["string", "boolean"]});
    json!({
        "$schema": DRAFT,
        "title": "A playbook of converge",
        "description": "Which roles go where",
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": false,
            "required": ["hosts", "roles"],
            "properties": {
                "name": {"description": "What it is, in plain words", "type": "string"},
                "hosts": {"description": "An inventory pattern: `web:&prod:!web3`", "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
                "roles": {
                    "description": "The roles of these hosts; their order comes from the graph of roles",
                    "type": "array",
                    "items": {"anyOf": [
                        {"type": "string"},
                        {
                            "type": "object",
                            "additionalProperties": false,
                            "required": ["role"],
                            "properties": {
                                "role": {"description": "The role", "type": "string"},
                                "vars": vars.clone(),
                                "when": {
                                    "description": "A condition, or several that must all hold",
                                    "anyOf": [condition.clone(), {"type": "array", "items": condition}],
                                },
                                "tags": tags.clone(),
                            },
                        },
                    ]},
                },
                "vars": vars,
                "tags": tags,
                "serial": {
                    "description": "Hosts of a batch: a number, a percentage, or a list of them",
                    "anyOf": [step.clone(), {"type": "array", "items": step}],
                },
                "max_fail_percentage": {"description": "Stop when more than this part of a batch failed", "type": ["number", "string"]},
                "min_available": {"description": "How many of the play's hosts must be there for the next batch: a number, `95%`, or `majority`", "type": ["integer", "string"]},
                "any_errors_fatal": {"description": "Stop everywhere at the first failure", "type": "boolean"},
            },
        },
    })
}

/// An inventory in YAML, as Ansible reads it.
fn inventory() -> Value {
    let variables = json!({
        "type": ["object", "null"],
        "properties": {
            "ansible_host": {"description": "The address to connect to", "type": "string"},
            "ansible_port": {"description": "The port", "type": ["integer", "string"]},
            "ansible_user": {"description": "The user to log in as", "type": "string"},
            "ansible_connection": {"description": "`ssh`, or `local` for this machine", "type": "string"},
            "ansible_ssh_private_key_file": {"description": "The key to log in with", "type": "string"},
            "ansible_ssh_common_args": {"description": "Options as for ssh: `-o ProxyJump=…`, `-o UserKnownHostsFile=…`", "type": "string"},
            "ansible_become": {"description": "Become another user after the login", "type": ["boolean", "string"]},
            "ansible_become_user": {"description": "The user to become", "type": "string"},
            "ansible_become_method": {"description": "How: sudo, su, doas", "type": "string"},
            "converge_playbook": {"description": "The playbook of this inventory", "type": "string"},
            "maintenance": {"description": "Leave this host out of runs", "type": ["boolean", "string"]},
        },
    });
    json!({
        "$schema": DRAFT,
        "title": "An inventory of converge",
        "description": "Hosts, groups and variables, in Ansible's YAML form",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/group"},
        "$defs": {
            "variables": variables,
            "group": {
                "type": ["object", "null"],
                "additionalProperties": false,
                "properties": {
                    "hosts": {
                        "description": "Hosts by name or range (`gpu[01:16]`), each with its variables",
                        "type": ["object", "string", "null"],
                        "additionalProperties": {"$ref": "#/$defs/variables"},
                    },
                    "children": {
                        "description": "Groups below this one",
                        "type": ["object", "string", "null"],
                        "additionalProperties": {"$ref": "#/$defs/group"},
                    },
                    "vars": {"description": "Variables of all hosts of the group", "$ref": "#/$defs/variables"},
                },
            },
        },
    })
}

/// Points references at the kind's own definitions, and lets a template stand where text is not taken anyway.
fn prepare(schema: &mut Value, kind: &str) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get_mut("$ref")
                && let Some(name) = target.strip_prefix("#/$defs/")
            {
                *target = format!("#/$defs/{kind}.{name}");
            }
            map.remove(converge_resource::LOAD_KEYWORD);
            map.remove(converge_resource::UNRECORDED_KEYWORD);
            for value in map.values_mut() {
                prepare(value, kind);
            }
            for key in ["properties", "items", "additionalProperties"] {
                let Some(inner) = map.get_mut(key) else { continue };
                match (key, inner) {
                    ("properties", Value::Object(all)) => all.values_mut().for_each(or_template),
                    (_, inner @ Value::Object(_)) => or_template(inner),
                    _ => {}
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prepare(item, kind)),
        _ => {}
    }
}

/// A schema that a template fits too, unless any text does.
fn or_template(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    let free = map
        .get("type")
        .is_some_and(|t| t == "string" || t.as_array().is_some_and(|all| all.iter().any(|t| t == "string")));
    let bound = ["enum", "const", "pattern", "minLength", "format"].iter().any(|k| map.contains_key(*k));
    if free && !bound || map.is_empty() {
        return;
    }
    let description = map.remove("description");
    let default = map.remove("default");
    let inner = Value::Object(std::mem::take(map));
    map.extend(description.map(|d| ("description".to_owned(), d)));
    map.extend(default.map(|d| ("default".to_owned(), d)));
    map.insert("anyOf".into(), json!([inner, {"$ref": "#/$defs/template"}]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_model::COMMON_KEYS;

    fn schema(name: &str) -> Value {
        authored().into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    fn wrong(name: &str, yaml: &str) -> Vec<String> {
        let document: Value = serde_yaml::from_str(yaml).unwrap();
        let schema = schema(name);
        let validator = jsonschema::validator_for(&schema).unwrap();
        validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect()
    }

    fn keys(value: &Value, pointer: &str) -> Vec<String> {
        value.pointer(pointer).and_then(Value::as_object).unwrap().keys().cloned().collect()
    }

    fn sorted(mut list: Vec<String>) -> Vec<String> {
        list.sort();
        list
    }

    #[test]
    fn the_example_of_every_kind_fits() {
        for kind in KINDS {
            let yaml = format!(
                "resources:\n{}",
                kind.example.lines().map(|l| format!("  {l}\n")).collect::<String>()
            );
            let found = wrong("role", &yaml);
            assert!(found.is_empty(), "{}: {found:#?}\n{yaml}", kind.kind);
        }
    }

    #[test]
    fn the_project_in_this_repository_fits() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
        for role in std::fs::read_dir(format!("{root}/roles")).unwrap() {
            let path = role.unwrap().path().join("role.yaml");
            let found = wrong("role", &std::fs::read_to_string(&path).unwrap());
            assert!(found.is_empty(), "{}: {found:#?}", path.display());
        }
        assert_eq!(wrong("playbook", &read("playbooks/site.yaml")), Vec::<String>::new());
        assert_eq!(wrong("inventory", &read("inventories/demo.yaml")), Vec::<String>::new());
    }

    #[test]
    fn slips_are_found() {
        for yaml in [
            "resorces: []",
            "resources: [{name: x}]",
            "resources: [{file: {path: /a, content: x}, directory: {path: /b}}]",
            "resources: [{fiel: {path: /a}}]",
            "resources: [{file: {pth: /a, content: x}}]",
            "check: [{package: {name: curl}}]",
            "inputs: {a: {type: number}}",
            "resources: [{resources: [{file: {pth: /a}}]}]",
            "resources: [{resources: [{resources: [{fiel: {path: /a}}]}]}]",
            "resources: [{become_user: x, resources: []}]",
            "check: [{check: [{package: {name: curl}}]}]",
            "resources: [{id: Not so, file: {path: /a, content: x}}]",
        ] {
            assert!(!wrong("role", yaml).is_empty(), "{yaml}");
        }
        let groups = "resources: [{name: x, when: [a, b], tags: [c], resources: [{resources: [{id: d-1, file: {path: /a, content: x}}]}]}]";
        assert_eq!(wrong("role", groups), Vec::<String>::new());
        assert!(!wrong("playbook", "- {hosts: all, tasks: []}").is_empty());
        assert!(!wrong("inventory", "all: {host: {a: }}").is_empty());
        assert_eq!(
            wrong(
                "role",
                "resources: [{for_each: \"{{ users }}\", group: {name: \"{{ item }}\", gid: \"{{ 1 + 1 }}\"}}]"
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn it_names_what_the_model_reads() {
        let role = schema("role");
        assert_eq!(
            sorted(keys(&role, "/properties")),
            sorted(converge_model::role::KEYS.map(str::to_owned).to_vec())
        );
        let item = keys(&role, "/$defs/resource/properties");
        for key in COMMON_KEYS.into_iter().chain(KINDS.iter().map(|k| k.kind)) {
            assert!(item.iter().any(|k| k == key), "an item has no `{key}`");
        }
        assert_eq!(item.len(), COMMON_KEYS.len() + KINDS.len());
        assert_eq!(
            sorted(keys(&role, "/$defs/input/properties")),
            sorted(converge_model::input::KEYS.map(str::to_owned).to_vec())
        );
        let playbook = schema("playbook");
        assert_eq!(
            sorted(keys(&playbook, "/items/properties")),
            sorted(converge_model::play::PLAY_KEYS.map(str::to_owned).to_vec())
        );
        let used = keys(&playbook, "/items/properties/roles/items/anyOf/1/properties");
        assert_eq!(sorted(used), sorted(converge_model::play::USE_KEYS.map(str::to_owned).to_vec()));
    }
}
