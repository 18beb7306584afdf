//! Values with the place they were written at.

use std::fmt;

use crate::source::Span;

/// The tag of text in which no template is read.
pub const UNSAFE_TAG: &str = "!unsafe";

/// A value and where it was written. Equality compares value and tag, not the place.
#[derive(Clone)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The place; of a map or list: from its first key or item to the end of its last.
    pub span: Span,
    /// A YAML tag that is not of the core schema, such as `!vault` or `!unsafe`.
    pub tag: Option<String>,
}

/// The value of a node; maps and lists keep the author's order.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number above `i64::MAX`; never one below.
    UInt(u64),
    /// A floating-point number, infinities and NaN included.
    Float(f64),
    /// Text.
    String(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping; keys are unique.
    Map(Vec<(Node, Node)>),
}

impl Value {
    /// The name of the type with its article, for messages: `a string`, `an integer`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::UInt(_) => "an integer",
            Self::Float(_) => "a number",
            Self::String(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::UInt(value), Self::Int)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl Node {
    /// A value without a tag.
    pub fn new(value: impl Into<Value>, span: Span) -> Self {
        Self { value: value.into(), span, tag: None }
    }

    /// Null at a place.
    pub fn null(span: Span) -> Self {
        Self { value: Value::Null, span, tag: None }
    }

    /// The value under a key of a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|(_, value)| value)
    }

    /// Key and value of a map.
    pub fn entry(&self, key: &str) -> Option<(&Self, &Self)> {
        self.as_map()?.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(name, value)| (name, value))
    }

    /// The place of a key of a map.
    pub fn key_span(&self, key: &str) -> Option<&Span> {
        self.entry(key).map(|(name, _)| &name.span)
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of a map.
    pub fn as_map(&self) -> Option<&[(Self, Self)]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The whole number, where it fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.value {
            Value::Int(value) => Some(value),
            _ => None,
        }
    }

    /// The number, whole or not.
    pub fn as_f64(&self) -> Option<f64> {
        match self.value {
            Value::Int(value) => Some(value as f64),
            Value::UInt(value) => Some(value as f64),
            Value::Float(value) => Some(value),
            _ => None,
        }
    }

    /// Is it null?
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// The node at a JSON pointer (RFC 6901): `""` is the node itself, `/a/0/b` goes down maps and lists.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |node, step| {
            let step = step.replace("~1", "/").replace("~0", "~");
            match &node.value {
                Value::Map(entries) => entries
                    .iter()
                    .find(|(key, _)| key.scalar_text().as_deref() == Some(step.as_str()))
                    .map(|(_, value)| value),
                Value::List(items) => items.get(step.parse::<usize>().ok()?),
                _ => None,
            }
        })
    }

    /// A short place to point at: of a map its first key, of a list its first item, of a scalar all of it.
    pub fn head_span(&self) -> &Span {
        match &self.value {
            Value::Map(entries) => entries.first().map_or(&self.span, |(key, _)| key.head_span()),
            Value::List(items) => items.first().map_or(&self.span, Self::head_span),
            _ => &self.span,
        }
    }

    /// A scalar as text, as it would be a key in JSON; `None` for maps and lists.
    pub fn scalar_text(&self) -> Option<String> {
        Some(match &self.value {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::UInt(value) => value.to_string(),
            Value::Float(value) => format_float(*value),
            Value::String(text) => text.clone(),
            Value::List(_) | Value::Map(_) => return None,
        })
    }

    /// As JSON, places and tags dropped. Keys become strings; infinities and NaN become the strings that YAML uses.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::UInt(value) => Json::from(*value),
            Value::Float(value) => serde_json::Number::from_f64(*value)
                .map_or_else(|| Json::String(format_float(*value)), Json::Number),
            Value::String(text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(entries) => Json::Object(
                entries
                    .iter()
                    .map(|(key, value)| {
                        let name = key.scalar_text().unwrap_or_else(|| key.to_json().to_string());
                        (name, value.to_json())
                    })
                    .collect(),
            ),
        }
    }

    /// From JSON; every node gets the same place.
    pub fn from_json(json: &serde_json::Value, span: &Span) -> Self {
        use serde_json::Value as Json;
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Value::Int(value),
                (None, Some(value)) => Value::UInt(value),
                (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::String(text.clone()),
            Json::Array(items) => Value::List(items.iter().map(|item| Self::from_json(item, span)).collect()),
            Json::Object(entries) => Value::Map(
                entries
                    .iter()
                    .map(|(key, value)| (Self::new(key.as_str(), span.clone()), Self::from_json(value, span)))
                    .collect(),
            ),
        };
        Self { value, span: span.clone(), tag: None }
    }
}

/// A float as YAML writes it: always with a point or an exponent, `.inf`, `-.inf`, `.nan`.
pub fn format_float(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    // Debug prints the shortest text that reads back as the same number, `1.0` for one.
    format!("{value:?}")
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value && self.tag == other.tag
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tag) = &self.tag {
            write!(f, "{tag} ")?;
        }
        self.value.fmt(f)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Float(value) => f.write_str(&format_float(*value)),
            Self::String(text) => text.fmt(f),
            Self::List(items) => f.debug_list().entries(items).finish(),
            Self::Map(entries) => {
                f.debug_map().entries(entries.iter().map(|(key, value)| (key, value))).finish()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(json: serde_json::Value) -> Node {
        Node::from_json(&json, &Span::nowhere("test"))
    }

    #[test]
    fn json_there_and_back() {
        let json =
            serde_json::json!({"b": [1, -2, 18446744073709551615u64, 1.5, null, true], "a": {"x": "y"}});
        assert_eq!(node(json.clone()).to_json(), json);
        assert_eq!(node(json).to_json().to_string().find("\"b\""), Some(1), "order is kept");
    }

    #[test]
    fn pointers() {
        let root = node(serde_json::json!({"a": [{"b/c": 7, "~": 8}]}));
        assert_eq!(root.pointer("/a/0/b~1c").unwrap().as_i64(), Some(7));
        assert_eq!(root.pointer("/a/0/~0").unwrap().as_i64(), Some(8));
        assert_eq!(root.pointer(""), Some(&root));
        for missing in ["/a/1", "/a/x", "a", "/a/0/b~1c/d"] {
            assert_eq!(root.pointer(missing), None, "{missing}");
        }
    }

    #[test]
    fn keys_of_other_types_become_strings_in_json() {
        let span = Span::nowhere("test");
        let entry = |key: Value| (Node::new(key, span.clone()), Node::new(1i64, span.clone()));
        let map = Node {
            value: Value::Map(vec![
                entry(Value::Bool(true)),
                entry(Value::Int(8)),
                entry(Value::Float(1.0)),
                entry(Value::Null),
            ]),
            span: span.clone(),
            tag: None,
        };
        assert_eq!(map.to_json().to_string(), r#"{"true":1,"8":1,"1.0":1,"null":1}"#);
        assert_eq!(Node::new(f64::NEG_INFINITY, span).to_json(), serde_json::json!("-.inf"));
    }
}
