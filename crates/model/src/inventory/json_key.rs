//! Keys and numbers as Python's `json.dumps` writes them.

use converge_syntax::{Node, Value};

use super::python::float_repr;

/// The key of a map in JSON.
pub(super) fn json_key(key: &Node) -> String {
    match &key.value {
        Value::Float(x) => float_json(*x),
        _ => key.scalar_text().unwrap_or_default(),
    }
}

/// A number in JSON.
pub(super) fn float_json(x: f64) -> String {
    if x.is_nan() {
        "NaN".to_owned()
    } else if x.is_infinite() {
        if x > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        float_repr(x)
    }
}
