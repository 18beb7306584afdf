//! YAML as a person writes it: short maps on one line, long ones below each other, text of several lines as it is.

use converge_syntax::{Node, Span, Value, YamlStyle, write_yaml};

/// The width up to which a map or a list stands on one line.
const WIDTH: usize = 110;

/// A node that was made here.
pub(crate) fn made(value: impl Into<Value>) -> Node {
    Node::new(value, Span::nowhere("import"))
}

/// A list of texts.
pub(crate) fn texts<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Node {
    made(Value::List(items.into_iter().map(|item| made(item.as_ref())).collect()))
}

/// A map of these entries.
pub(crate) fn map<K: AsRef<str>>(entries: impl IntoIterator<Item = (K, Node)>) -> Node {
    made(Value::Map(entries.into_iter().map(|(key, value)| (made(key.as_ref()), value)).collect()))
}

/// Visits every text of a node that is no key.
pub(crate) fn each_text(node: &Node, visit: &mut impl FnMut(&str)) {
    match &node.value {
        Value::String(text) => visit(text),
        Value::List(items) => items.iter().for_each(|item| each_text(item, visit)),
        Value::Map(entries) => entries.iter().for_each(|(_, value)| each_text(value, visit)),
        _ => {}
    }
}

/// Blanks in front of a line.
pub(crate) fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Writes comments, a line each.
pub(crate) fn comments(out: &mut String, indent: usize, lines: &[String]) {
    for line in lines {
        pad(out, indent);
        out.push_str(line);
        out.push('\n');
    }
}

/// A node on one line, where it has a form of one line.
pub(crate) fn inline(node: &Node) -> Option<String> {
    if is_long_text(node) || has_long_text(node) {
        return None;
    }
    let text = match &node.value {
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(inline).collect::<Option<_>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| Some(format!("{}: {}", scalar(key), inline(value)?)))
                .collect::<Option<_>>()?;
            format!("{{{}}}", entries.join(", "))
        }
        _ => scalar(node),
    };
    Some(text)
}

/// A scalar on one line. Double quotes where nothing in them has to be escaped.
fn scalar(node: &Node) -> String {
    let style = YamlStyle { indent: 2, sort: false, flow_leaves: true };
    let text = write_yaml(node, &style);
    let text = text.trim_end_matches('\n');
    let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    match inner.filter(|inner| !inner.contains(['"', '\\'])) {
        Some(inner) => format!("\"{}\"", inner.replace("''", "'")),
        None => text.to_owned(),
    }
}

/// Whether a text is written in lines of its own: it has several, and no letter that YAML would need an escape for.
fn is_long_text(node: &Node) -> bool {
    node.as_str().is_some_and(|text| {
        text.trim_end_matches('\n').contains('\n')
            && !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t')
            && !text.starts_with([' ', '\n', '\t'])
    }) || node.tag.as_deref().is_some_and(|tag| tag.starts_with("!vault"))
}

fn has_long_text(node: &Node) -> bool {
    match &node.value {
        Value::List(items) => items.iter().any(|item| is_long_text(item) || has_long_text(item)),
        Value::Map(entries) => entries.iter().any(|(_, value)| is_long_text(value) || has_long_text(value)),
        _ => false,
    }
}

/// Writes `key: value` with its line end, at this column.
pub(crate) fn entry(out: &mut String, indent: usize, key: &str, value: &Node) {
    pad(out, indent);
    keyed(out, indent, key, value);
}

/// As [`entry`], where the line is begun already.
pub(crate) fn keyed(out: &mut String, indent: usize, key: &str, value: &Node) {
    let key = scalar(&made(key));
    out.push_str(&key);
    out.push(':');
    below(out, indent, key.len() + 1, value);
}

/// The value behind a key or a dash: on the same line where it fits, else below.
fn below(out: &mut String, indent: usize, used: usize, value: &Node) {
    let is_scalar = value.as_list().is_none() && value.as_map().is_none();
    if let Some(text) = inline(value)
        && (is_scalar || indent + used + text.chars().count() < WIDTH || text.len() < 3)
    {
        out.push(' ');
        out.push_str(&text);
        out.push('\n');
        return;
    }
    match &value.value {
        Value::List(items) => {
            out.push('\n');
            for item in items {
                pad(out, indent + 2);
                out.push('-');
                match item
                    .as_map()
                    .filter(|map| !map.is_empty() && inline(item).is_none_or(|text| text.len() > WIDTH))
                {
                    Some(entries) => {
                        for (index, (key, value)) in entries.iter().enumerate() {
                            if index == 0 {
                                out.push(' ');
                            } else {
                                pad(out, indent + 4);
                            }
                            keyed(out, indent + 4, &key.scalar_text().unwrap_or_default(), value);
                        }
                    }
                    None => below(out, indent + 2, 1, item),
                }
            }
        }
        Value::Map(entries) => {
            out.push('\n');
            for (key, value) in entries {
                entry(out, indent + 2, &key.scalar_text().unwrap_or_default(), value);
            }
        }
        _ => long_text(out, indent + 2, value),
    }
}

/// Text of several lines, as a literal block.
fn long_text(out: &mut String, indent: usize, node: &Node) {
    let text = node.as_str().unwrap_or_default();
    if let Some(tag) = &node.tag {
        out.push(' ');
        out.push_str(tag);
    }
    let line_ends = text.len() - text.trim_end_matches('\n').len();
    out.push_str(match line_ends {
        0 => " |-\n",
        1 => " |\n",
        _ => " |+\n",
    });
    for line in text.lines() {
        if !line.is_empty() {
            pad(out, indent);
            out.push_str(line);
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_syntax::{Dialect, Source, parse_yaml};

    #[test]
    fn what_is_written_reads_back_as_it_was() {
        let long = "x".repeat(120);
        for value in [
            map([("a", made("b")), ("mode", made("0644"))]),
            map([("text", made("one\ntwo\n")), ("list", texts(["a: b", "{{ x }}", "it's"]))]),
            map([("long", texts([long.as_str(), "two\nlines"]))]),
            map([("m", map([("k", made(long.as_str())), ("n", map([("o", made("p\n\nq"))]))]))]),
            map([("l", made(Value::List(vec![map([("run", made("a\nb\n")), ("creates", made("/x"))])])))]),
            map([("empty", made(Value::List(Vec::new()))), ("tail", made("a\nb\n\n"))]),
            map([("lead", made(" a\nb")), ("tab", made("a\tb"))]),
        ] {
            let mut out = String::new();
            entry(&mut out, 0, "root", &value);
            let read = parse_yaml(Source::new("t", out.clone()), Dialect::Native);
            let read = read.unwrap_or_else(|error| panic!("{out}\n{error}"));
            assert_eq!(read[0].get("root"), Some(&value), "{out}");
        }
    }
}
