//! JSON in and out, written as Python writes it.

use converge_syntax::{Node, Span, Value as Data, format_float};
use minijinja::value::Kwargs;
use minijinja::{Error, Value};

use super::invalid;
use crate::convert::{to_node, to_value};
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("to_json", to_json);
    env.add_filter("to_nice_json", to_nice_json);
    env.add_filter("from_json", from_json);
}

/// The format of `json.dumps`.
struct Style {
    indent: Option<usize>,
    sort: bool,
    ascii: bool,
}

fn style(kwargs: &Kwargs, indent: Option<usize>, sort: bool) -> Result<Style, Error> {
    let style = Style {
        indent: kwargs.get::<Option<usize>>("indent")?.or(indent),
        sort: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(sort),
        ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(true),
    };
    kwargs.assert_all_used()?;
    crate::bounds::check("to_json: an indent", style.indent.unwrap_or(0), 100)?;
    Ok(style)
}

fn to_json(value: Value, kwargs: Kwargs) -> Result<String, Error> {
    dump(&value, &style(&kwargs, None, false)?)
}

fn to_nice_json(value: Value, indent: Option<usize>, kwargs: Kwargs) -> Result<String, Error> {
    dump(&value, &style(&kwargs, indent.or(Some(4)), true)?)
}

fn dump(value: &Value, style: &Style) -> Result<String, Error> {
    crate::measure::with_indent("to_json", value, style.indent.unwrap_or(0))?;
    let node = to_node(value, &Span::nowhere("json"))?;
    let mut out = String::new();
    write(&node, style, 0, &mut out);
    Ok(out)
}

fn write(node: &Node, style: &Style, level: usize, out: &mut String) {
    match &node.value {
        Data::Null => out.push_str("null"),
        Data::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Data::Int(value) => out.push_str(&value.to_string()),
        Data::UInt(value) => out.push_str(&value.to_string()),
        Data::Float(value) if value.is_nan() => out.push_str("NaN"),
        Data::Float(value) if value.is_infinite() => {
            out.push_str(if *value > 0.0 { "Infinity" } else { "-Infinity" });
        }
        Data::Float(value) => out.push_str(&format_float(*value)),
        Data::String(text) => string(text, style.ascii, out),
        Data::List(items) => {
            body('[', ']', items.iter(), style, level, out, |item, out| write(item, style, level + 1, out));
        }
        Data::Map(entries) => {
            let mut entries: Vec<(String, &Node)> =
                entries.iter().map(|(key, value)| (key.scalar_text().unwrap_or_default(), value)).collect();
            if style.sort {
                entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            }
            body('{', '}', entries.iter(), style, level, out, |(key, value), out| {
                string(key, style.ascii, out);
                out.push_str(": ");
                write(value, style, level + 1, out);
            });
        }
    }
}

fn body<T>(
    open: char,
    close: char,
    items: impl ExactSizeIterator<Item = T>,
    style: &Style,
    level: usize,
    out: &mut String,
    mut each: impl FnMut(T, &mut String),
) {
    out.push(open);
    let any = items.len() > 0;
    let line = |level: usize, out: &mut String| {
        if let Some(indent) = style.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * level));
        }
    };
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push_str(if style.indent.is_some() { "," } else { ", " });
        }
        line(level + 1, out);
        each(item, out);
    }
    if any {
        line(level, out);
    }
    out.push(close);
}

fn string(text: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (ascii && !(' '..='~').contains(&c)) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn from_json(text: String) -> Result<Value, Error> {
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| invalid(format!("from_json: {error}")))?;
    Ok(to_value(&Node::from_json(&json, &Span::nowhere("json"))))
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    #[test]
    fn as_python_writes_it() {
        table(&[
            ("{'b': [1, 2.0, none, true], 'a': 'x'} | to_json", r#"'{"b": [1, 2.0, null, true], "a": "x"}'"#),
            ("'é\"\n\u{1f600}' | to_json", r#"'"\u00e9\"\n\ud83d\ude00"'"#),
            ("'é' | to_json(ensure_ascii=false)", "'\"é\"'"),
            ("{'b': 1, 'a': []} | to_json(sort_keys=true)", r#"'{"a": [], "b": 1}'"#),
            (
                "{'b': [1, {}], 'a': 2} | to_nice_json",
                "\"{\\n    \\\"a\\\": 2,\\n    \\\"b\\\": [\\n        1,\\n        {}\\n    ]\\n}\"",
            ),
            ("[1] | to_nice_json(indent=2)", "\"[\\n  1\\n]\""),
            ("'{\"a\": [1, null]}' | from_json", "{a: [1, null]}"),
            ("'{a' | from_json", "!from_json"),
        ]);
    }
}
