//! Parameters against a kind's JSON Schema, with spans. What holds a template is taken as any value.
//!
//! Of JSON Schema this reads what schemars writes: `type`, `properties`, `required`, `additionalProperties`, `items`,
//! `enum`, `const`, `anyOf`/`oneOf`/`allOf`, `$ref` into the same document, `minimum`, `maximum`, `pattern`,
//! `minItems`, `minProperties`, `minLength`.

use converge_resource::HELP_KEYWORD;
use converge_syntax::{Diagnostic, Node, Value};
use converge_template::ansible_parameter;
use regex::Regex;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::catalog::KindSpec;
use crate::fields::{is_template, nearest, wrong_type};

/// Deepest nesting of schemas that is followed.
const MAX_DEPTH: usize = 64;

/// Diagnostics about parameters; `what` names them in messages, `key` is where the kind's name stands.
pub(crate) fn check(spec: &KindSpec, what: &str, params: &Node, key: &Node) -> Vec<Diagnostic> {
    Checker { spec, key }.value(params, &spec.schema, what, key, 0)
}

struct Checker<'a> {
    spec: &'a KindSpec,
    key: &'a Node,
}

impl Checker<'_> {
    /// `owner`: the key that the value stands under, for diagnostics about empty values.
    fn value(&self, node: &Node, schema: &Json, what: &str, owner: &Node, depth: usize) -> Vec<Diagnostic> {
        if depth > MAX_DEPTH || node.as_str().is_some_and(is_template) {
            return Vec::new();
        }
        let schema = self.spec.resolve(schema);
        let mut found = Vec::new();
        let types = types_of(schema);
        if !types.is_empty() && !types.iter().any(|name| fits(node, name)) {
            return vec![self.mismatch(node, what, &types, owner)];
        }
        self.allowed_values(node, schema, what, &mut found);
        for key in ["anyOf", "oneOf"] {
            if let Some(options) = schema.get(key).and_then(Json::as_array) {
                found.extend(self.one_of(node, options, what, owner, depth));
            }
        }
        for part in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
            found.extend(self.value(node, part, what, owner, depth + 1));
        }
        match &node.value {
            Value::Map(entries) => self.map(node, entries, schema, what, depth, &mut found),
            Value::List(items) => {
                at_least(node, schema, "minItems", items.len(), &format!("{what} needs an item"), &mut found);
                if let Some(inner) = schema.get("items") {
                    for item in items {
                        let label = format!("an item of {what}");
                        found.extend(self.value(item, inner, &label, item, depth + 1));
                    }
                }
            }
            Value::String(text) => {
                let length = text.chars().count();
                at_least(node, schema, "minLength", length, &format!("{what} is empty"), &mut found);
                pattern(node, text, schema, what, &mut found);
            }
            _ => number(node, schema, what, &mut found),
        }
        found
    }

    fn mismatch(&self, node: &Node, what: &str, types: &[&str], owner: &Node) -> Diagnostic {
        let mut names: Vec<&str> = types.iter().filter(|name| **name != "null").map(|n| article(n)).collect();
        names.dedup();
        let expected = if names.is_empty() { "null".to_owned() } else { names.join(" or ") };
        if node.is_null() {
            return Diagnostic::error("wrong-type", format!("{what} has no value"))
                .label(&owner.span, format!("expected {expected}"))
                .help("write a value, or remove the key");
        }
        let literal = node.span.text().trim();
        let quotable = types.contains(&"string") && !literal.is_empty() && !literal.contains('\n');
        let diagnostic = wrong_type(node, what, &expected);
        match &node.value {
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_)
                if quotable && is_template(literal) =>
            {
                diagnostic.help("convert it: {{ … | string }}")
            }
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) if quotable => {
                diagnostic.help(format!("write it in quotes: \"{literal}\""))
            }
            Value::List(_) | Value::Map(_) => diagnostic,
            _ if expected == "a list" => diagnostic.help("a list has a line `- item` for each item"),
            _ if expected == "a map" => {
                let names = property_names(self.spec.resolve(&self.spec.schema));
                if std::ptr::eq(owner, self.key) && !names.is_empty() {
                    diagnostic.help(format!("write its parameters as `key: value`: {}", names.join(", ")))
                } else {
                    diagnostic.help("a map has a line `key: value` for each entry")
                }
            }
            _ => diagnostic,
        }
    }

    fn allowed_values(&self, node: &Node, schema: &Json, what: &str, found: &mut Vec<Diagnostic>) {
        let mut allowed: Vec<&Json> = Vec::new();
        match (schema.get("enum").and_then(Json::as_array), schema.get("const")) {
            (Some(values), _) => allowed.extend(values),
            (None, Some(value)) => allowed.push(value),
            (None, None) => return,
        }
        let json = node.to_json();
        if !allowed.contains(&&json) {
            found.push(not_allowed(node, what, &allowed));
        }
    }

    fn one_of(
        &self,
        node: &Node,
        options: &[Json],
        what: &str,
        owner: &Node,
        depth: usize,
    ) -> Vec<Diagnostic> {
        let options: Vec<&Json> = options.iter().map(|option| self.spec.resolve(option)).collect();
        let mut close = Vec::new();
        let mut failed = Vec::new();
        for option in &options {
            let found = self.value(node, option, what, owner, depth + 1);
            if found.is_empty() {
                return found;
            }
            let types = types_of(option);
            if types.is_empty() || types.iter().any(|name| fits(node, name)) {
                close.push(found);
            } else {
                failed.push(found);
            }
        }
        // An enum whose variants are documented is a list of constants.
        let constants: Vec<&Json> = options.iter().flat_map(|option| constants(option)).collect();
        if let (false, true) = (constants.is_empty(), node.as_str().is_some()) {
            return vec![not_allowed(node, what, &constants)];
        }
        match (close.pop(), close.is_empty()) {
            (Some(only), true) => only,
            // The form with the fewest diagnostics is most likely the one that was meant.
            (Some(last), false) => close.into_iter().chain([last]).min_by_key(Vec::len).unwrap_or_default(),
            (None, _) => {
                let types: Vec<&str> = options.iter().flat_map(|option| types_of(option)).collect();
                if types.is_empty() {
                    return failed.pop().unwrap_or_default();
                }
                vec![self.mismatch(node, what, &types, owner)]
            }
        }
    }

    fn map(
        &self,
        node: &Node,
        entries: &[(Node, Node)],
        schema: &Json,
        what: &str,
        depth: usize,
        found: &mut Vec<Diagnostic>,
    ) {
        let properties = schema.get("properties").and_then(Json::as_object);
        let extra = schema.get("additionalProperties");
        at_least(node, schema, "minProperties", entries.len(), &format!("{what} is empty"), found);
        for (key, value) in entries {
            let name = key.scalar_text().unwrap_or_default();
            match (properties.and_then(|all| all.get(&name)), extra) {
                (Some(inner), _) => {
                    found.extend(self.value(value, inner, &format!("`{name}`"), key, depth + 1));
                }
                (None, Some(Json::Bool(false))) if !is_template(&name) => {
                    let kind = self.key.as_str().filter(|_| depth == 0).unwrap_or_default();
                    let habit = ansible_parameter(kind, &name).filter(|_| depth == 0).map(str::to_owned);
                    found.push(
                        Diagnostic::error("unknown-key", format!("{what} has no parameter `{name}`"))
                            .label(&key.span, "not known here")
                            .help(habit.unwrap_or_else(|| nearest(&name, property_names(schema)))),
                    );
                }
                (None, Some(inner @ Json::Object(_))) => {
                    found.extend(self.value(value, inner, &format!("`{name}`"), key, depth + 1));
                }
                (None, _) => {}
            }
        }
        let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
        for name in required.filter_map(Json::as_str) {
            if node.get(name).is_none() {
                let at = if depth == 0 || entries.is_empty() { &self.key.span } else { node.head_span() };
                found.push(
                    Diagnostic::error("missing-key", format!("{what} needs the parameter `{name}`"))
                        .label(at, format!("`{name}` is missing")),
                );
            }
        }
    }
}

fn property_names(schema: &Json) -> Vec<&str> {
    schema
        .get("properties")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
        .map(|(k, _)| k.as_str())
        .collect()
}

fn types_of(schema: &Json) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(name)) => vec![name.as_str()],
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

fn constants(schema: &Json) -> Vec<&Json> {
    match (schema.get("const"), schema.get("enum").and_then(Json::as_array)) {
        (Some(value), _) => vec![value],
        (None, Some(values)) => values.iter().collect(),
        (None, None) => Vec::new(),
    }
}

fn fits(node: &Node, name: &str) -> bool {
    match (&node.value, name) {
        (Value::Null, "null")
        | (Value::Bool(_), "boolean")
        | (Value::Int(_) | Value::UInt(_), "integer" | "number")
        | (Value::Float(_), "number")
        | (Value::String(_), "string")
        | (Value::List(_), "array")
        | (Value::Map(_), "object") => true,
        (Value::Float(value), "integer") => value.fract() == 0.0,
        _ => false,
    }
}

fn article(name: &str) -> &str {
    match name {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a map",
        other => other,
    }
}

fn not_allowed(node: &Node, what: &str, allowed: &[&Json]) -> Diagnostic {
    let names: Vec<String> = allowed
        .iter()
        .filter(|value| !value.is_null())
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let word = node.as_str().unwrap_or("");
    Diagnostic::error("bad-value", format!("{what} cannot be {}", node.describe()))
        .label(node.head_span(), "not one of the choices")
        .help(nearest(word, names))
}

fn at_least(node: &Node, schema: &Json, key: &str, count: usize, message: &str, found: &mut Vec<Diagnostic>) {
    if let Some(least) = schema.get(key).and_then(Json::as_u64)
        && (count as u64) < least
    {
        let text = if least > 1 { format!("at least {least}") } else { "empty".to_owned() };
        found.push(Diagnostic::error("bad-value", message).label(node.head_span(), text));
    }
}

fn pattern(node: &Node, text: &str, schema: &Json, what: &str, found: &mut Vec<Diagnostic>) {
    let Some(source) = schema.get("pattern").and_then(Json::as_str) else {
        return;
    };
    if compiled(source).is_some_and(|regex| !regex.is_match(text)) {
        found.push(
            Diagnostic::error("bad-value", format!("{what} has an invalid format"))
                .label(node.head_span(), format!("must match {source}"))
                .help_if(schema.get(HELP_KEYWORD).and_then(Json::as_str).map(str::to_owned)),
        );
    }
}

/// A pattern of a schema. Schemas are parts of the program, and their patterns are asked for each parameter of each host: each is compiled
/// once. One that is no regular expression refuses nothing.
fn compiled(source: &str) -> Option<Arc<Regex>> {
    static COMPILED: LazyLock<RwLock<HashMap<String, Option<Arc<Regex>>>>> = LazyLock::new(RwLock::default);
    if let Some(known) = COMPILED.read().unwrap_or_else(PoisonError::into_inner).get(source) {
        return known.clone();
    }
    let regex = Regex::new(source).ok().map(Arc::new);
    COMPILED.write().unwrap_or_else(PoisonError::into_inner).insert(source.to_owned(), regex.clone());
    regex
}

fn number(node: &Node, schema: &Json, what: &str, found: &mut Vec<Diagnostic>) {
    let Some(value) = node.as_f64() else {
        return;
    };
    for (key, wrong, word) in [("minimum", "less", "least"), ("maximum", "more", "most")] {
        let Some(limit) = schema.get(key).and_then(Json::as_f64) else {
            continue;
        };
        if (wrong == "less" && value < limit) || (wrong == "more" && value > limit) {
            found.push(
                Diagnostic::error("bad-value", format!("{what} is {wrong} than {limit}"))
                    .label(&node.span, format!("at {word} {limit}")),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_syntax::{Dialect, Source, Span, parse_yaml};
    use serde_json::json;

    fn spec() -> KindSpec {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "mode": {"anyOf": [{"$ref": "#/$defs/Mode"}, {"type": "null"}]},
                "state": {"$ref": "#/$defs/State"},
                "names": {"type": ["array", "null"], "items": {"type": "string"}, "minItems": 1},
                "count": {"type": "integer", "minimum": 0},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            },
            "required": ["path"],
            "additionalProperties": false,
            "$defs": {
                "Mode": {"type": "string", "pattern": "^[0-7]{3,4}$"},
                "State": {"oneOf": [{"const": "present", "type": "string"}, {"const": "absent", "type": "string"}]},
            },
        });
        KindSpec::for_hosts(schema, false)
    }

    fn complaints(yaml: &str) -> Vec<String> {
        let source = Source::new("r.yaml", yaml);
        let params = parse_yaml(source, Dialect::Ansible).unwrap().remove(0);
        let key = Node::new("file", Span::nowhere("key"));
        check(&spec(), "`file`", &params, &key).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn good_parameters_pass() {
        for yaml in [
            "{path: /a}",
            "{path: /a, mode: '0644', state: absent, names: [a, b], count: 3, labels: {a: b}}",
            "{path: /a, mode: , either: x}",
            "{path: /a, either: [x, y]}",
            "{path: '{{ p }}', names: '{{ l }}', count: '{{ n }}', state: '{{ s }}', either: [ '{{ e }}' ]}",
        ] {
            assert_eq!(complaints(yaml), Vec::<String>::new(), "{yaml}");
        }
    }

    #[test]
    fn bad_parameters_are_named_with_help() {
        let all = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        for (yaml, expected) in [
            (
                "{pth: /a}",
                all(&[
                    "error[unknown-key]: `file` has no parameter `pth`\n  --> r.yaml:1:2: not known here\n  help: did you mean `path`?",
                    "error[missing-key]: `file` needs the parameter `path`\n  --> key: `path` is missing",
                ]),
            ),
            (
                "{path: 1, state: absnt}",
                all(&[
                    "error[wrong-type]: `path` must be a string, found the integer `1`\n  --> r.yaml:1:8: expected a string\n  help: write it in quotes: \"1\"",
                    "error[bad-value]: `state` cannot be the string `absnt`\n  --> r.yaml:1:18: not one of the choices\n  help: did you mean `absent`?",
                ]),
            ),
            (
                "{path: /a, names: x, count: -1}",
                all(&[
                    "error[wrong-type]: `names` must be a list, found the string `x`\n  --> r.yaml:1:19: expected a list\n  help: a list has a line `- item` for each item",
                    "error[bad-value]: `count` is less than 0\n  --> r.yaml:1:29: at least 0",
                ]),
            ),
            (
                "{path: /a, names: [], either: {}, labels: {a: 1}}",
                all(&[
                    "error[bad-value]: `names` needs an item\n  --> r.yaml:1:19: empty",
                    "error[wrong-type]: `either` must be a string or a list, found a map\n  --> r.yaml:1:31: expected a string or a list",
                    "error[wrong-type]: `a` must be a string, found the integer `1`\n  --> r.yaml:1:47: expected a string\n  help: write it in quotes: \"1\"",
                ]),
            ),
            (
                "{path: /a, mode: 'rwx', either: [1]}",
                all(&[
                    "error[bad-value]: `mode` has an invalid format\n  --> r.yaml:1:18: must match ^[0-7]{3,4}$",
                    "error[wrong-type]: an item of `either` must be a string, found the integer `1`\n  --> r.yaml:1:34: expected a string\n  help: write it in quotes: \"1\"",
                ]),
            ),
            (
                "/etc/x",
                all(&[
                    "error[wrong-type]: `file` must be a map, found the string `/etc/x`\n  --> r.yaml:1:1: expected a map\n  help: write its parameters as `key: value`: path, mode, state, names, count, labels, either",
                ]),
            ),
            (
                "{path: }",
                all(&[
                    "error[wrong-type]: `path` has no value\n  --> r.yaml:1:2: expected a string\n  help: write a value, or remove the key",
                ]),
            ),
        ] {
            assert_eq!(complaints(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let spec = KindSpec::for_hosts(json!({"$ref": "#", "anyOf": [{"$ref": "#"}]}), false);
        let key = Node::new("k", Span::nowhere("k"));
        check(&spec, "x", &key, &key);
    }
}
