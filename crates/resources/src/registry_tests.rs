//! Rules for every kind.

use super::*;
use converge_resource::{HELP_KEYWORD, LOAD_KEYWORD, SourceFile, Template, UNRECORDED_KEYWORD};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

fn kinds_on_disk() -> Vec<(String, String)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/kinds");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        // A folder holds parts of the kind of its name.
        if path.is_file() && stem != "mod" && !stem.ends_with("_tests") {
            found.push((stem, std::fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// The parameters of the example, as YAML has them.
fn example(info: &KindInfo) -> Value {
    let items: Value = serde_yaml::from_str(info.example).unwrap_or_else(|e| panic!("{}: {e}", info.kind));
    let list = items.as_array().unwrap();
    assert!(list.iter().all(|item| item["name"].is_string()), "{}: each item has a name", info.kind);
    list.iter()
        .find_map(|item| item.get(info.kind))
        .unwrap_or_else(|| panic!("the example of {} is of another kind", info.kind))
        .clone()
}

/// Prepares a parameter as the model does: files loaded, expressions evaluated.
fn loaded(schema: &Value, value: &Value) -> Value {
    match (schema.get(LOAD_KEYWORD).and_then(Value::as_str), value) {
        (Some("template"), Value::String(path)) => Template::loaded(path, ""),
        (Some(_), Value::String(path)) => SourceFile::loaded(path, b""),
        (None, Value::String(text)) if text.starts_with("{{") => json!(true),
        (None, Value::Array(list)) => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            list.iter().map(|v| loaded(items, v)).collect()
        }
        (None, Value::Object(map)) => {
            let field = |k: &String| schema.pointer(&format!("/properties/{k}")).unwrap_or(&Value::Null);
            Value::Object(map.iter().map(|(k, v)| (k.clone(), loaded(field(k), v))).collect::<Map<_, _>>())
        }
        _ => value.clone(),
    }
}

/// The part of JSON Schema that the kinds use. A keyword that it does not know fails the test.
fn complaints(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{at}: type {other}"),
    };
    for (keyword, rule) in schema.as_object().unwrap() {
        let good = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "format" | LOAD_KEYWORD
            | HELP_KEYWORD | UNRECORDED_KEYWORD => true,
            // The model's keyword for kinds whose result may be registered.
            "x-converge-outputs" => rule.is_boolean(),
            "type" => match rule {
                Value::String(name) => is(name),
                names => names.as_array().unwrap().iter().any(|n| is(n.as_str().unwrap())),
            },
            "$ref" => {
                let target = root.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap()).unwrap();
                complaints(root, target, value, at).is_empty()
            }
            "oneOf" | "anyOf" => {
                rule.as_array().unwrap().iter().any(|option| complaints(root, option, value, at).is_empty())
            }
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "minimum" => value.as_f64().is_none_or(|n| n >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|n| n <= rule.as_f64().unwrap()),
            "pattern" => {
                value.as_str().is_none_or(|t| regex::Regex::new(rule.as_str().unwrap()).unwrap().is_match(t))
            }
            "items" => {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                found.extend(list.iter().flat_map(|v| complaints(root, rule, v, &format!("{at}/*"))));
                true
            }
            "required" => {
                let has = |k: &Value| value.get(k.as_str().unwrap()).is_some();
                !value.is_object() || rule.as_array().unwrap().iter().all(has)
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                let known = |k: &String| known.is_some_and(|p| p.contains_key(k));
                let map = value.as_object().map(|map| map.iter().filter(|(k, _)| !known(k)).collect());
                let others: Vec<(&String, &Value)> = map.unwrap_or_default();
                if rule.is_object() {
                    let inner = |(k, v): &(&String, &Value)| complaints(root, rule, v, &format!("{at}/{k}"));
                    found.extend(others.iter().flat_map(inner));
                }
                rule != &json!(false) || others.is_empty()
            }
            "properties" => {
                for (key, inner) in value.as_object().into_iter().flatten() {
                    if let Some(rule) = rule.get(key) {
                        found.extend(complaints(root, rule, inner, &format!("{at}/{key}")));
                    }
                }
                true
            }
            other => panic!("{at}: the keyword {other} is not known to this test"),
        };
        if !good {
            found.push(format!("{at}: {keyword} {rule}"));
        }
    }
    found
}

#[test]
fn every_file_is_listed_and_tested() {
    let listed: Vec<&str> = KINDS.iter().map(|k| k.kind).collect();
    let on_disk = kinds_on_disk();
    let names: Vec<&str> = on_disk.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(listed, names, "the registry lists each file of src/kinds once, in order");
    for (name, text) in on_disk {
        let beside = format!("{}/src/kinds/{name}_tests.rs", env!("CARGO_MANIFEST_DIR"));
        let tests = text.split_once("#[cfg(test)]").map(|(_, t)| t.to_owned()).unwrap_or_default()
            + &std::fs::read_to_string(beside).unwrap_or_default();
        assert!(tests.matches("#[test]").count() >= 2, "{name} is not tested");
        assert!(tests.contains("settle("), "{name}: no test plans a second time");
        assert!(tests.contains("wrong::<"), "{name}: no test gives wrong parameters");
    }
}

#[test]
fn every_kind_and_field_is_described() {
    for info in KINDS {
        let schema = (info.schema)();
        let described = |s: &Value| s.get("description").and_then(Value::as_str).is_some_and(|d| d.len() > 8);
        assert!(described(&schema), "{} has no description", info.kind);
        for (field, property) in schema["properties"].as_object().unwrap() {
            assert!(described(property), "{}.{field} has no description", info.kind);
        }
        // The parameters of `k8s_object` are a manifest.
        let open = info.kind == "k8s_object";
        assert_eq!(schema["additionalProperties"], json!(open), "{} takes unknown keys", info.kind);
    }
}

#[test]
fn every_example_is_right() {
    for info in KINDS {
        let schema = (info.schema)();
        let written = example(info);
        assert_eq!(complaints(&schema, &schema, &written, info.kind), Vec::<String>::new());
        let kind =
            (info.parse)(&loaded(&schema, &written)).unwrap_or_else(|e| panic!("{}: {e:?}", info.kind));
        assert_eq!(kind.validate(), [], "{}", info.kind);
        assert_eq!(kind.kind(), info.kind);
        // A wait claims its condition, so that the condition is read; objects that a selector picks are known only to the
        // cluster.
        let claims = kind.claims().iter().any(|c| c.object.kind != "condition");
        assert_eq!(
            info.read_only || info.kind == "k8s_transform",
            !claims,
            "{}: a kind that only reads claims nothing",
            info.kind
        );
    }
}

#[test]
fn the_schema_refuses_what_the_kind_refuses() {
    let line = (kind("line").unwrap().schema)();
    for bad in [
        json!({"line": "a"}),
        json!({"path": "/x", "lin": "a"}),
        json!({"path": 1}),
        json!({"path": "/x", "state": "gone"}),
    ] {
        assert_ne!(complaints(&line, &line, &bad, ""), Vec::<String>::new(), "{bad}");
    }
}

#[test]
fn no_kind_agrees_with_its_opposite() {
    let claims = |name: &str, params: Value| (kind(name).unwrap().parse)(&params).unwrap().claims();
    let file = claims("file", json!({"path": "/etc/x/", "content": "a"}));
    let absent = claims("absent", json!({"path": "/etc/x"}));
    let objects: BTreeSet<_> = file.iter().map(|c| &c.object).collect();
    assert_eq!(objects, absent.iter().map(|c| &c.object).collect(), "one place has one key");
    assert!(file.iter().any(|f| absent.iter().any(|a| f.facet == a.facet && f.mode != a.mode)));
}

#[test]
fn every_kind_has_a_page() {
    for info in KINDS {
        let page = crate::reference_page(info.kind).unwrap();
        assert!(page.contains(info.example), "{}", info.kind);
        assert!(!page.contains("any value"), "{}: a parameter has no type\n{page}", info.kind);
    }
}
