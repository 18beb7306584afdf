//! Defaults and argument specifications as typed inputs.

use crate::expression::{ExpressionNames, ImportProblem, whole_expression};
use crate::report::{ImportFinding, TaskVerdict};
use crate::task::comments_above;
use crate::tokens::{Token, TokenSort, tokens};
use crate::written::CommentedValue;
use crate::yaml::{made, map};
use converge_syntax::{Node, Value};
use std::collections::BTreeMap;

/// The type of an input and whether it is sure.
struct Guess {
    name: &'static str,
    is_sure: bool,
}

fn sure(name: &'static str) -> Guess {
    Guess { name, is_sure: true }
}

/// The type of a default.
fn type_of(node: &Node, known: &BTreeMap<String, &'static str>) -> Guess {
    match &node.value {
        Value::Bool(_) => sure("bool"),
        Value::Int(_) | Value::UInt(_) => sure("int"),
        Value::Float(_) => sure("float"),
        Value::List(_) => sure("list"),
        Value::Map(_) => sure("map"),
        Value::Null => Guess { name: "str", is_sure: false },
        Value::String(text) => match whole_expression(text) {
            Some(expression) => of_expression(expression, known),
            None => sure("str"),
        },
    }
}

/// The name of the type of a value; text where it is not known.
pub(crate) fn type_name(value: &Node) -> &'static str {
    type_of(value, &BTreeMap::new()).name
}

/// The type of an expression, as far as its text tells it.
fn of_expression(text: &str, known: &BTreeMap<String, &'static str>) -> Guess {
    let all: Vec<Token<'_>> =
        tokens(text).into_iter().filter(|token| token.sort != TokenSort::Blank).collect();
    let words: Vec<&str> = all.iter().map(|token| token.text).collect();
    if let [name] = words.as_slice() {
        if let Some(own) = known.get(*name) {
            return sure(own);
        }
        return match all.first().map(|token| token.sort) {
            Some(TokenSort::Text) => sure("str"),
            Some(TokenSort::Number) => sure(if name.contains('.') { "float" } else { "int" }),
            _ => Guess { name: "str", is_sure: false },
        };
    }
    // The last filter outside of brackets decides.
    let mut depth = 0usize;
    let mut last = None;
    let mut sign = None;
    for (at, word) in words.iter().enumerate() {
        match *word {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "|" if depth == 0 => last = words.get(at + 1).copied(),
            "==" | "!=" | ">" | "<" | ">=" | "<=" | "is" | "and" | "or" | "not" | "in" | "if"
                if depth == 0 =>
            {
                sign = Some(*word)
            }
            "~" if depth == 0 => sign = Some("~"),
            _ => {}
        }
    }
    match (sign, last) {
        (Some("if"), _) => {}
        (Some("~"), _) => return sure("str"),
        (Some(_), _) => return sure("bool"),
        (None, Some("bool")) => return sure("bool"),
        (None, Some("int" | "length" | "count" | "round")) => return sure("int"),
        (None, Some("float")) => return sure("float"),
        (
            None,
            Some("list" | "flatten" | "unique" | "sort" | "union" | "difference" | "intersect" | "split"),
        ) => return sure("list"),
        (None, Some("combine" | "items2dict")) => return sure("map"),
        (
            None,
            Some(
                "lower" | "upper" | "trim" | "replace" | "regex_replace" | "join" | "string" | "basename"
                | "dirname" | "to_json" | "hash" | "password_hash" | "b64encode",
            ),
        ) => {
            return sure("str");
        }
        _ => {}
    }
    match words.first() {
        Some(&"[") if last.is_none() && sign.is_none() => sure("list"),
        _ => Guess { name: "str", is_sure: false },
    }
}

/// The type of an argument specification.
fn specified(name: &str) -> Option<&'static str> {
    Some(match name {
        "str" => "str",
        "path" => "str",
        "int" => "int",
        "bool" => "bool",
        "float" => "float",
        "list" => "list",
        "dict" => "map",
        _ => return None,
    })
}

/// The inputs of a role, and what a person should know about them.
pub(crate) struct ImportedInputs {
    pub inputs: Vec<CommentedValue>,
    pub findings: Vec<ImportFinding>,
}

fn finding(
    node: &Node,
    name: &str,
    verdict: TaskVerdict,
    why: String,
    write: Option<String>,
) -> ImportFinding {
    ImportFinding {
        file: node.span.source.name().to_owned(),
        line: node.span.line(),
        name: name.to_owned(),
        module: "default".to_owned(),
        verdict,
        became: "input".to_owned(),
        why: vec![why],
        write,
        is_task: false,
        is_handler: false,
    }
}

/// Inputs from `defaults` and from the options of `argument_specs`.
pub(crate) fn inputs(
    defaults: &[(Node, Node)],
    specs: Option<&Node>,
    names: &ExpressionNames,
) -> ImportedInputs {
    let mut all = ImportedInputs { inputs: Vec::new(), findings: Vec::new() };
    let option = |name: &str| specs.and_then(|specs| specs.get(name));
    let mut known: BTreeMap<String, &'static str> = BTreeMap::new();
    for (key, value) in defaults {
        let name = key.scalar_text().unwrap_or_default();
        let guess = type_of(value, &known);
        if guess.is_sure {
            known.insert(name, guess.name);
        }
    }
    for (key, value) in defaults {
        let name = key.scalar_text().unwrap_or_default();
        let spec = option(&name);
        // Ansible looks whether a value can be converted, and leaves it as it is.
        let spec_fits = spec.is_none_or(|spec| is_of_spec(value, spec));
        if !spec_fits {
            let why = "its value in `defaults` is not of the type that `argument_specs` gives it: the type of the value is written";
            all.findings.push(finding(key, &name, TaskVerdict::Remark, why.to_owned(), None));
        }
        let guess = spec
            .filter(|_| spec_fits)
            .and_then(|spec| specified(&spec_type(spec)))
            .map_or_else(|| type_of(value, &known), sure);
        let mut entries = of_spec(spec.filter(|_| spec_fits), guess.name);
        let secret = value.tag.as_deref() == Some("!vault");
        match names.node(value) {
            Ok(value) => entries.push(("default".to_owned(), value)),
            Err(ImportProblem { why, write }) => {
                entries.push(("required".to_owned(), made(true)));
                all.findings.push(finding(
                    key,
                    &name,
                    TaskVerdict::Open,
                    why,
                    Some(format!("{write}, as the `default` of the input")),
                ));
            }
        }
        if !guess.is_sure {
            let why = format!(
                "the type is not known from its default: `str` is written, and another value is an error until `type` is corrected: {}",
                value.span.first_line().text()
            );
            all.findings.push(finding(key, &name, TaskVerdict::Remark, why, None));
        }
        if secret {
            entries.push(("sensitive".to_owned(), made(true)));
        }
        rest_of_spec(spec, &mut entries);
        all.inputs.push(CommentedValue {
            comments: comments_above(&key.span.source, key.span.line()),
            name,
            value: map(entries),
        });
    }
    for (key, spec) in specs.and_then(Node::as_map).unwrap_or_default() {
        let name = key.scalar_text().unwrap_or_default();
        if all.inputs.iter().any(|input| input.name == name) {
            continue;
        }
        if !is_variable(&name) {
            let why = "`argument_specs` has it, and no variable can have this name: nothing is written";
            all.findings.push(finding(key, &name, TaskVerdict::Remark, why.to_owned(), None));
            continue;
        }
        let mut entries = of_spec(Some(spec), specified(&spec_type(spec)).unwrap_or("str"));
        // A default of a specification is text for people: Ansible sets no variable from it.
        if spec.get("required").and_then(Node::as_bool) == Some(true) {
            entries.push(("required".to_owned(), made(true)));
        }
        rest_of_spec(Some(spec), &mut entries);
        all.inputs.push(CommentedValue { comments: Vec::new(), name, value: map(entries) });
    }
    all
}

/// The type that a specification names; text without one.
fn spec_type(spec: &Node) -> String {
    spec.get("type").and_then(Node::scalar_text).unwrap_or_else(|| "str".to_owned())
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// Whether a value has the type of a specification, and is one of its choices. What a template comes to is not known.
fn is_of_spec(value: &Node, spec: &Node) -> bool {
    let is_choice = |value: &Node| {
        let choices = spec.get("choices").and_then(Node::as_list);
        choices.is_none_or(|choices| choices.iter().any(|choice| choice.value == value.value))
    };
    if value.as_str().is_some_and(|text| text.contains("{{") || text.contains("{%")) {
        return true;
    }
    let elements = spec.get("elements").and_then(Node::scalar_text);
    match (&value.value, specified(&spec_type(spec))) {
        (Value::List(items), Some("list")) => elements.is_none_or(|ty| {
            items.iter().all(|item| {
                item.as_str().is_some_and(|text| text.contains("{{")) || has_type(item, specified(&ty))
            })
        }),
        (_, ty) => has_type(value, ty) && (value.is_null() || is_choice(value)),
    }
}

fn has_type(value: &Node, ty: Option<&str>) -> bool {
    match ty {
        Some("str") => matches!(value.value, Value::String(_) | Value::Null),
        Some("int") => matches!(value.value, Value::Int(_) | Value::UInt(_) | Value::Null),
        Some("float") => {
            matches!(value.value, Value::Float(_) | Value::Int(_) | Value::UInt(_) | Value::Null)
        }
        Some("bool") => matches!(value.value, Value::Bool(_) | Value::Null),
        Some("list") => matches!(value.value, Value::List(_) | Value::Null),
        Some("map") => matches!(value.value, Value::Map(_) | Value::Null),
        _ => true,
    }
}

fn of_spec(spec: Option<&Node>, ty: &str) -> Vec<(String, Node)> {
    let mut entries = vec![("type".to_owned(), made(ty))];
    let Some(spec) = spec else { return entries };
    if let Some(choices) = spec.get("choices").filter(|_| ty != "list") {
        entries = vec![("choices".to_owned(), choices.clone())];
    }
    if let Some(inner) = spec
        .get("elements")
        .and_then(Node::scalar_text)
        .and_then(|name| specified(&name))
        .filter(|_| ty == "list")
    {
        entries.push(("items".to_owned(), made(inner)));
    }
    entries
}

fn rest_of_spec(spec: Option<&Node>, entries: &mut Vec<(String, Node)>) {
    let Some(spec) = spec else { return };
    if spec.get("no_log").and_then(Node::as_bool) == Some(true)
        && !entries.iter().any(|(key, _)| key == "sensitive")
    {
        entries.push(("sensitive".to_owned(), made(true)));
    }
    let text = spec.get("description").map(|text| match text.as_list() {
        Some(items) => items.iter().filter_map(Node::scalar_text).collect::<Vec<_>>().join(" "),
        None => text.scalar_text().unwrap_or_default(),
    });
    if let Some(text) = text.filter(|text| !text.trim().is_empty() && !text.contains("{{")) {
        entries.push(("help".to_owned(), made(text.split_whitespace().collect::<Vec<_>>().join(" "))));
    }
}
