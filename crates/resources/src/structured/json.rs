//! JSON, by the concrete syntax tree of `jsonc-parser`: every blank, comment and number stays as it was written.

use super::{Editor, Refusal};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{
    CstArray, CstContainerNode, CstInputValue, CstLeafNode, CstNode, CstObject, CstRootNode,
};
use serde_json::{Map, Number, Value};

pub struct Json;

/// Extensions that users' files have: comments and trailing commas. Text that no JSON parser accepts is refused.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

fn parse(text: &str) -> Result<CstRootNode, Refusal> {
    CstRootNode::parse(text, &OPTIONS).map_err(|e| Refusal::new(&[], format!("the text is not JSON: {e}")))
}

fn data(node: &CstNode, depth: usize) -> Result<Value, Refusal> {
    if depth > 100 {
        return Err(Refusal::new(&[], "the text is nested more than 100 levels deep"));
    }
    Ok(match node {
        CstNode::Container(CstContainerNode::Object(object)) => {
            let mut map = Map::new();
            for property in object.properties() {
                let name = property.decoded_name().unwrap_or_default();
                let value = property.value().map_or(Ok(Value::Null), |v| data(&v, depth + 1))?;
                if map.insert(name.clone(), value).is_some() {
                    return Err(Refusal::new(&[], format!("the key `{name}` stands twice in one object"))
                        .help("remove one of the two by hand: programs do not agree which one counts"));
                }
            }
            Value::Object(map)
        }
        CstNode::Container(CstContainerNode::Array(array)) => {
            Value::Array(array.elements().iter().map(|e| data(e, depth + 1)).collect::<Result<_, _>>()?)
        }
        CstNode::Container(_) => Value::Null,
        CstNode::Leaf(CstLeafNode::BooleanLit(b)) => Value::Bool(b.value()),
        CstNode::Leaf(CstLeafNode::StringLit(s)) => Value::String(
            s.decoded_value().map_err(|e| Refusal::new(&[], format!("a string cannot be read: {e}")))?,
        ),
        CstNode::Leaf(CstLeafNode::NumberLit(n)) => number(&n.to_string()),
        CstNode::Leaf(_) => Value::Null,
    })
}

/// A number that no Rust type holds is represented by its digits.
fn number(raw: &str) -> Value {
    let exact = serde_json::from_str::<Number>(raw).ok();
    let integer = raw.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    match exact {
        Some(n) if !integer || n.is_i64() || n.is_u64() => Value::Number(n),
        _ => Value::Object(Map::from_iter([("number".to_owned(), Value::String(raw.to_owned()))])),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(b) => CstInputValue::Bool(*b),
        Value::Number(n) => CstInputValue::Number(n.to_string()),
        Value::String(s) => CstInputValue::String(s.clone()),
        Value::Array(list) => CstInputValue::Array(list.iter().map(input).collect()),
        Value::Object(map) => CstInputValue::Object(map.iter().map(|(k, v)| (k.clone(), input(v))).collect()),
    }
}

/// A place that the driver knows to be there, and is not: the text and its data do not fit together.
fn lost(at: &[String]) -> Refusal {
    Refusal::new(at, "the place cannot be found again in the text")
}

/// A mapping or a list.
enum Holder {
    Object(CstObject),
    Array(CstArray),
}

fn holder(root: &CstRootNode, at: &[String]) -> Option<Holder> {
    let mut node = root.value()?;
    for word in at {
        node = match child(&node)? {
            Holder::Object(object) => object.get(word)?.value()?,
            Holder::Array(array) => array.elements().into_iter().nth(word.parse().ok()?)?,
        };
    }
    child(&node)
}

fn child(node: &CstNode) -> Option<Holder> {
    node.as_object().map(Holder::Object).or_else(|| node.as_array().map(Holder::Array))
}

impl Editor for Json {
    fn read(&self, text: &str) -> Result<Value, Refusal> {
        parse(text)?.value().map_or(Ok(Value::Null), |v| data(&v, 0))
    }

    fn fit(&self, _: &[String], value: &Value) -> Result<Value, Refusal> {
        Ok(value.clone())
    }

    fn put(&self, text: &str, at: &[String], value: &Value) -> Result<String, Refusal> {
        let root = parse(text)?;
        let Some((last, above)) = at.split_last() else {
            if root.value().is_none() && text.trim().is_empty() {
                return Ok(format!("{:#}\n", value));
            }
            root.set_value(input(value));
            return Ok(root.to_string());
        };
        match holder(&root, above).ok_or_else(|| lost(at))? {
            Holder::Object(object) => match object.get(last) {
                Some(property) => property.set_value(input(value)),
                None => {
                    object.append(last, input(value));
                }
            },
            Holder::Array(array) => {
                let item = last.parse().ok().and_then(|n: usize| array.elements().into_iter().nth(n));
                replace(item.ok_or_else(|| lost(at))?, value);
            }
        }
        Ok(root.to_string())
    }

    fn take(&self, text: &str, at: &[String]) -> Result<String, Refusal> {
        let root = parse(text)?;
        let (last, above) = at.split_last().ok_or_else(|| lost(at))?;
        match holder(&root, above) {
            Some(Holder::Object(object)) => object.get(last).ok_or_else(|| lost(at))?.remove(),
            _ => return Err(lost(at)),
        }
        Ok(root.to_string())
    }

    fn append(&self, text: &str, at: &[String], value: &Value) -> Result<String, Refusal> {
        let root = parse(text)?;
        match holder(&root, at) {
            Some(Holder::Array(array)) => {
                array.append(input(value));
            }
            _ => return Err(lost(at)),
        }
        Ok(root.to_string())
    }
}

fn replace(node: CstNode, value: &Value) {
    let value = input(value);
    match node {
        CstNode::Container(CstContainerNode::Object(n)) => drop(n.replace_with(value)),
        CstNode::Container(CstContainerNode::Array(n)) => drop(n.replace_with(value)),
        CstNode::Leaf(CstLeafNode::BooleanLit(n)) => drop(n.replace_with(value)),
        CstNode::Leaf(CstLeafNode::StringLit(n)) => drop(n.replace_with(value)),
        CstNode::Leaf(CstLeafNode::NumberLit(n)) => drop(n.replace_with(value)),
        CstNode::Leaf(CstLeafNode::NullKeyword(n)) => drop(n.replace_with(value)),
        _ => {}
    }
}
