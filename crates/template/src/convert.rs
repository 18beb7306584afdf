//! Nodes as template values and back.

use converge_syntax::{Node, Span, UNSAFE_TAG, Value as Data};
use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use crate::text::is_template;

/// The tag of a node whose key or item is left out (`default(omit)`).
pub(crate) const OMIT_TAG: &str = "!omit";

/// The value of the global `omit`.
#[derive(Debug)]
pub(crate) struct Omit;

impl Object for Omit {
    fn repr(self: &std::sync::Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// A node as a template sees it.
pub(crate) fn to_value(node: &Node) -> Value {
    match &node.value {
        Data::Null => Value::from(()),
        Data::Bool(value) => Value::from(*value),
        Data::Int(value) => Value::from(*value),
        Data::UInt(value) => Value::from(*value),
        Data::Float(value) => Value::from(*value),
        Data::String(text) => Value::from(text.as_str()),
        Data::List(items) => items.iter().map(to_value).collect(),
        Data::Map(entries) => {
            Value::from_pairs(entries.iter().map(|(key, value)| (to_value(key), to_value(value))))
        }
    }
}

/// Converts the result of a template into a node; every part gets the same span. Text that looks like a template is tagged
/// so that it is never rendered again.
pub(crate) fn to_node(value: &Value, span: &Span) -> Result<Node, Error> {
    let made = |data: Data| Node::new(data, span.clone());
    Ok(match value.kind() {
        ValueKind::None => made(Data::Null),
        ValueKind::Bool => made(Data::Bool(value.is_true())),
        ValueKind::Number => made(number(value)?),
        ValueKind::String | ValueKind::Bytes => text(&value.to_string(), span),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.checked().map(|item| to_node(&item?, span));
            made(Data::List(items.collect::<Result<_, _>>()?))
        }
        ValueKind::Map => {
            let mut entries = Vec::new();
            for key in value.try_iter()?.checked() {
                let key = key?;
                let item = value.get_item(&key)?;
                entries.push((to_node(&key, span)?, to_node(&item, span)?));
            }
            made(Data::Map(entries))
        }
        ValueKind::Undefined => {
            return Err(Error::new(ErrorKind::UndefinedError, "a part of the result is undefined"));
        }
        ValueKind::Plain if value.downcast_object_ref::<Omit>().is_some() => {
            Node { tag: Some(OMIT_TAG.to_owned()), ..made(Data::Null) }
        }
        kind => return Err(Error::new(ErrorKind::InvalidOperation, format!("a {kind} is no value"))),
    })
}

/// Rendered text as a node.
pub(crate) fn text(text: &str, span: &Span) -> Node {
    let tag = is_template(text).then(|| UNSAFE_TAG.to_owned());
    Node { value: Data::from(text), span: span.clone(), tag }
}

fn number(value: &Value) -> Result<Data, Error> {
    if !value.is_integer() {
        return f64::try_from(value.clone()).map(Data::Float);
    }
    let whole = i128::try_from(value.clone())?;
    Ok(i64::try_from(whole)
        .map(Data::Int)
        .or_else(|_| u64::try_from(whole).map(Data::UInt))
        .unwrap_or_else(|_| Data::String(whole.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let json =
            serde_json::json!({"z": [1, 18446744073709551615u64, -1.5, null, true, "x"], "a": {"b": []}});
        let span = Span::nowhere("test");
        let node = Node::from_json(&json, &span);
        let back = to_node(&to_value(&node), &span).unwrap();
        assert_eq!(back, node);
        assert_eq!(back.to_json().to_string(), json.to_string(), "order is kept");
    }

    #[test]
    fn undefined_parts_are_errors_and_templates_are_tagged() {
        let span = Span::nowhere("test");
        let list = Value::from(vec![Value::from(1), Value::UNDEFINED]);
        assert_eq!(to_node(&list, &span).unwrap_err().kind(), ErrorKind::UndefinedError);
        assert_eq!(to_node(&Value::from("{{ a }}"), &span).unwrap().tag.as_deref(), Some("!unsafe"));
    }
}
