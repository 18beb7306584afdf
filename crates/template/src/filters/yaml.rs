//! YAML in and out: text that any YAML 1.1 reader, Ansible among them, reads back as it was.

use converge_syntax::{Dialect, Node, Source, Span, Value as Data, format_float, parse_yaml, resolve_plain};
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, Value};

use super::invalid;
use crate::convert::{to_node, to_value};

pub(super) fn install(env: &mut Environment<'static>) {
    env.add_filter("to_yaml", to_yaml);
    env.add_filter("to_nice_yaml", to_nice_yaml);
    env.add_filter("from_yaml", from_yaml);
    env.add_filter("from_yaml_all", from_yaml_all);
}

struct Style {
    indent: usize,
    sort: bool,
    /// Collections of scalars only stand on one line.
    flow_leaves: bool,
}

fn dump(value: &Value, kwargs: &Kwargs, indent: usize, flow_leaves: bool) -> Result<String, Error> {
    let style = Style {
        indent: kwargs.get::<Option<usize>>("indent")?.unwrap_or(indent).clamp(1, 16),
        sort: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(true),
        flow_leaves: kwargs.get::<Option<bool>>("default_flow_style")?.unwrap_or(flow_leaves),
    };
    // Lines are never folded, which is what a large width asks for.
    kwargs.get::<Option<i64>>("width")?;
    kwargs.assert_all_used()?;
    let node = to_node(value, &Span::nowhere("yaml"))?;
    let mut out = String::new();
    block(&node, &style, 0, &mut out);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    Ok(out)
}

fn to_yaml(value: Value, kwargs: Kwargs) -> Result<String, Error> {
    dump(&value, &kwargs, 2, true)
}

fn to_nice_yaml(value: Value, indent: Option<usize>, kwargs: Kwargs) -> Result<String, Error> {
    dump(&value, &kwargs, indent.unwrap_or(4), false)
}

fn sorted<'a>(entries: &'a [(Node, Node)], style: &Style) -> Vec<&'a (Node, Node)> {
    let mut entries: Vec<&(Node, Node)> = entries.iter().collect();
    if style.sort {
        entries.sort_by_key(|(key, _)| key.scalar_text());
    }
    entries
}

/// Does it stand on one line?
fn is_inline(node: &Node, style: &Style) -> bool {
    let scalar = |node: &Node| node.as_list().is_none() && node.as_map().is_none();
    match &node.value {
        Data::List(items) => items.is_empty() || (style.flow_leaves && items.iter().all(scalar)),
        Data::Map(entries) => {
            entries.is_empty() || (style.flow_leaves && entries.iter().all(|(_, value)| scalar(value)))
        }
        _ => true,
    }
}

/// Writes a node whose first line is already indented to `column`.
fn block(node: &Node, style: &Style, column: usize, out: &mut String) {
    if is_inline(node, style) {
        inline(node, style, out);
        return;
    }
    let pad = |first: bool, out: &mut String| {
        if !first {
            out.extend(std::iter::repeat_n(' ', column));
        }
    };
    let end = |out: &mut String| {
        if !out.ends_with('\n') {
            out.push('\n');
        }
    };
    match &node.value {
        Data::Map(entries) => {
            for (index, (key, value)) in sorted(entries, style).into_iter().enumerate() {
                pad(index == 0, out);
                scalar(key, out);
                out.push(':');
                if is_inline(value, style) {
                    out.push(' ');
                    inline(value, style, out);
                } else {
                    // PyYAML writes the items of a list in the column of its key.
                    let inner = if value.as_list().is_some() { column } else { column + style.indent };
                    out.push('\n');
                    out.extend(std::iter::repeat_n(' ', inner));
                    block(value, style, inner, out);
                }
                end(out);
            }
        }
        Data::List(items) => {
            for (index, item) in items.iter().enumerate() {
                pad(index == 0, out);
                out.push('-');
                // As PyYAML: only what goes over several lines stands in the column of the indent.
                let width = if is_inline(item, style) { 1 } else { style.indent.max(2) - 1 };
                out.extend(std::iter::repeat_n(' ', width));
                block(item, style, column + style.indent.max(2), out);
                end(out);
            }
        }
        _ => {}
    }
}

fn inline(node: &Node, style: &Style, out: &mut String) {
    match &node.value {
        Data::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                inline(item, style, out);
            }
            out.push(']');
        }
        Data::Map(entries) => {
            out.push('{');
            for (index, (key, value)) in sorted(entries, style).into_iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                scalar(key, out);
                out.push_str(": ");
                inline(value, style, out);
            }
            out.push('}');
        }
        _ => scalar(node, out),
    }
}

fn scalar(node: &Node, out: &mut String) {
    match &node.value {
        Data::String(text) => out.push_str(&quoted(text)),
        Data::Float(value) => out.push_str(&float(*value)),
        _ => out.push_str(&node.scalar_text().unwrap_or_default()),
    }
}

/// YAML 1.1 wants a point before an exponent and a sign in it.
fn float(value: f64) -> String {
    let text = format_float(value);
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

/// Text as a scalar on one line: plain where that reads back as the same text.
fn quoted(text: &str) -> String {
    let control = |c: char| c.is_control() || matches!(c, '\u{feff}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    if text.chars().any(control) {
        let mut out = String::from("\"");
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                c if control(c) => out.push_str(&format!("\\u{:04X}", u32::from(c))),
                c => out.push(c),
            }
        }
        out.push('"');
        return out;
    }
    let indicator = |c: char| "-?:,[]{}#&*!|>'\"%@`".contains(c);
    let first = text.chars().next();
    // A dash, a question mark or a colon may start a word.
    let starts_badly = first.is_none_or(|c| {
        (indicator(c)
            && !("-?:".contains(c)
                && text.chars().nth(1).is_some_and(|next| next != ' ' && !indicator(next))))
            || c == ' '
    });
    let breaks = text.contains(": ")
        || text.contains(" #")
        || text.ends_with([' ', ':'])
        || text.contains(['[', ']', '{', '}', ','])
        || text.starts_with("---")
        || text.starts_with("...")
        || text == "="
        || text == "<<";
    if starts_badly || breaks || resolve_plain(text) != Data::from(text) || looks_like_date(text) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    text.to_owned()
}

/// Dates resolve to text here, but to dates in PyYAML.
fn looks_like_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 8 && bytes.iter().take(4).all(u8::is_ascii_digit) && bytes.get(4) == Some(&b'-')
}

fn documents(text: String) -> Result<Vec<Node>, Error> {
    parse_yaml(Source::new("from_yaml", text), Dialect::Ansible).map_err(|found| {
        let first = found.iter().next();
        let line = first.and_then(|found| found.span()).map_or(1, Span::line);
        invalid(format!("from_yaml: line {line}: {}", first.map_or("", |found| found.message.as_str())))
    })
}

fn from_yaml_all(text: String) -> Result<Vec<Value>, Error> {
    Ok(documents(text)?.iter().map(to_value).collect())
}

fn from_yaml(text: String) -> Result<Value, Error> {
    match documents(text)?.as_slice() {
        [] => Ok(Value::from(())),
        [one] => Ok(to_value(one)),
        _ => Err(invalid("from_yaml: the text holds more than one document")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::check::table;

    #[test]
    fn written_and_read_again() {
        table(&[
            (
                "{'b': [1, 2], 'a': {'y': {'z': 'yes'}}} | to_nice_yaml(indent=2)",
                "\"a:\\n  y:\\n    z: 'yes'\\nb:\\n- 1\\n- 2\\n\"",
            ),
            ("{'a': {'b': 1}} | to_nice_yaml", "\"a:\\n    b: 1\\n\""),
            ("{'b': 1, 'a': 2} | to_nice_yaml(sort_keys=false)", "\"b: 1\\na: 2\\n\""),
            ("{'a': [1, 'x'], 'b': {'c': 2}} | to_yaml", "\"a: [1, x]\\nb: {c: 2}\\n\""),
            ("[{'a': 1, 'b': 2}] | to_nice_yaml(indent=2)", "\"- a: 1\\n  b: 2\\n\""),
            ("'a: [1, {b: ~}]' | from_yaml", "{a: [1, {b: null}]}"),
            ("'mode: 0644' | from_yaml", "{mode: 420}"),
            ("'a: [' | from_yaml", "!from_yaml: line"),
            ("'' | from_yaml", ""),
        ]);
    }

    #[test]
    fn every_text_reads_back_as_itself() {
        for text in [
            "",
            " ",
            "a",
            "yes",
            "no",
            "on",
            "~",
            "null",
            "1",
            "0644",
            "08",
            "1:30",
            "1e3",
            "1.5",
            ".inf",
            "2024-01-02",
            "- a",
            "-a",
            "?",
            "a: b",
            "a:b",
            "a #b",
            "#a",
            "it's",
            "\"q\"",
            "a\nb",
            "tab\there",
            "trailing ",
            "[a]",
            "{a}",
            "&a",
            "*a",
            "!a",
            "%a",
            "@a",
            "`a",
            "|",
            ">",
            "=",
            "<<",
            "---",
            "...",
            "é",
            "a,b",
            ":",
            "a:",
            "\u{7}",
            "\u{85}x",
            "{{ x }}",
            "-",
            "--",
            "!vault x",
            "'",
            "0x1F",
            "+1",
        ] {
            for flow in [false, true] {
                let scalar = quoted(text);
                let yaml = if flow {
                    format!("[{scalar}, {{k: {scalar}}}]")
                } else {
                    format!("- {scalar}\n- k: {scalar}\n")
                };
                let documents = parse_yaml(Source::new("t", yaml.clone()), Dialect::Ansible);
                let node = documents.unwrap_or_else(|error| panic!("{yaml}: {error}")).remove(0);
                assert_eq!(node.pointer("/0").unwrap().as_str(), Some(text), "{yaml}");
                assert_eq!(node.pointer("/1/k").unwrap().as_str(), Some(text), "{yaml}");
            }
        }
    }

    #[test]
    fn floats_stay_floats() {
        for value in [1.0, 1e300, 1.5e-9, -0.25] {
            assert_eq!(resolve_plain(&float(value)), Data::Float(value));
        }
    }
}
