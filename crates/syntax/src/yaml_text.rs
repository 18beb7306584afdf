//! YAML as text: what any YAML 1.1 reader, Ansible among them, reads back as it was.

use crate::{BIG_INTEGER, Node, Value as Data, format_float, resolve_plain};

/// How YAML is written.
#[derive(Debug, Clone, Copy)]
pub struct YamlStyle {
    /// Columns that an inner value is indented by.
    pub indent: usize,
    /// Entries of maps are written in the order of their keys.
    pub sort: bool,
    /// Collections of scalars only stand on one line.
    pub flow_leaves: bool,
}

/// A document, with the last line end. Lines are never folded.
#[must_use]
pub fn write_yaml(node: &Node, style: &YamlStyle) -> String {
    let mut out = String::new();
    block(node, style, 0, &mut out);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn sorted<'a>(entries: &'a [(Node, Node)], style: &YamlStyle) -> Vec<&'a (Node, Node)> {
    let mut entries: Vec<&(Node, Node)> = entries.iter().collect();
    if style.sort {
        entries.sort_by_key(|(key, _)| key.scalar_text());
    }
    entries
}

/// Whether it is the text of an encrypted value, which stands in lines of its own.
fn is_vault(node: &Node) -> bool {
    matches!(node.value, Data::String(_))
        && matches!(node.tag.as_deref(), Some("!vault" | "!vault-encrypted"))
}

/// Does it stand on one line?
fn is_inline(node: &Node, style: &YamlStyle) -> bool {
    let scalar = |node: &Node| node.as_list().is_none() && node.as_map().is_none() && !is_vault(node);
    match &node.value {
        Data::List(items) => items.is_empty() || (style.flow_leaves && items.iter().all(scalar)),
        Data::Map(entries) => {
            entries.is_empty() || (style.flow_leaves && entries.iter().all(|(_, value)| scalar(value)))
        }
        _ => !is_vault(node),
    }
}

/// Writes a node whose first line is already indented to `column`.
fn block(node: &Node, style: &YamlStyle, column: usize, out: &mut String) {
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
                } else if is_vault(value) {
                    out.push(' ');
                    vault(value, column + style.indent, out);
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
                // As PyYAML: only a value of several lines starts in the column of the indent.
                let width = if is_inline(item, style) { 1 } else { style.indent.max(2) - 1 };
                if is_vault(item) {
                    out.push(' ');
                    vault(item, column + style.indent.max(2), out);
                    continue;
                }
                out.extend(std::iter::repeat_n(' ', width));
                block(item, style, column + style.indent.max(2), out);
                end(out);
            }
        }
        _ => vault(node, style.indent, out),
    }
}

/// An encrypted value behind its key or dash, with the last line end.
fn vault(node: &Node, column: usize, out: &mut String) {
    let text = node.as_str().unwrap_or_default();
    out.push_str(if text.ends_with('\n') { "!vault |\n" } else { "!vault |-\n" });
    for line in text.lines() {
        out.extend(std::iter::repeat_n(' ', column));
        out.push_str(line);
        out.push('\n');
    }
}

fn inline(node: &Node, style: &YamlStyle, out: &mut String) {
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
        Data::String(digits) if node.tag.as_deref() == Some(BIG_INTEGER) => out.push_str(digits),
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
    if starts_badly
        || breaks
        || resolve_plain(text) != Data::from(text)
        || looks_like_date(text)
        || is_integer(text)
    {
        return format!("'{}'", text.replace('\'', "''"));
    }
    text.to_owned()
}

/// Dates resolve to text here, but to dates in PyYAML.
fn looks_like_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 8 && bytes.iter().take(4).all(u8::is_ascii_digit) && bytes.get(4) == Some(&b'-')
}

/// Whether a YAML 1.1 reader takes it for a whole number, however large: that of converge stops at 64 bits.
fn is_integer(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    let of =
        |digits: &str, is: fn(&u8) -> bool| !digits.is_empty() && digits.bytes().all(|b| b == b'_' || is(&b));
    match (digits.strip_prefix("0x"), digits.strip_prefix("0b")) {
        (Some(hex), _) => of(hex, u8::is_ascii_hexdigit),
        (_, Some(binary)) => of(binary, |b| matches!(b, b'0' | b'1')),
        _ => digits.starts_with(|c: char| c.is_ascii_digit()) && of(digits, u8::is_ascii_digit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, Source, Span, parse_yaml};

    fn node(value: Data) -> Node {
        Node::new(value, Span::nowhere("test"))
    }

    #[test]
    fn a_text_that_reads_as_a_large_number_is_quoted() {
        for text in [
            "0xf97e180c050e5Ab072211Ad2C213Eb5AEE4DF134",
            "18446744073709551616",
            "-9999999999999999999999",
            "0b1_1",
        ] {
            assert!(is_integer(text), "{text}");
        }
        for text in ["", "-", "0x", "f9", "1a", "0xg", "1.5", "_1"] {
            assert!(!is_integer(text), "{text}");
        }
        assert_eq!(quoted("18446744073709551616"), "'18446744073709551616'");
    }

    #[test]
    fn an_encrypted_value_keeps_its_lines_and_its_tag() {
        let text = "$ANSIBLE_VAULT;1.1;AES256\n6162\n";
        let written = "a:\n- !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\nb: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\n";
        let mut secret = node(Data::from(text));
        secret.tag = Some("!vault".into());
        let list = node(Data::List(vec![secret.clone()]));
        let map = node(Data::Map(vec![(node(Data::from("a")), list), (node(Data::from("b")), secret)]));
        let style = YamlStyle { indent: 2, sort: true, flow_leaves: false };
        assert_eq!(write_yaml(&map, &style), written);
        let read = parse_yaml(Source::new("test", written), Dialect::Ansible).unwrap();
        let [(_, list), (_, secret)] = read[0].as_map().unwrap() else { panic!("two entries") };
        assert_eq!((secret.as_str(), secret.tag.as_deref()), (Some(text), Some("!vault")));
        assert_eq!(list.as_list().unwrap()[0].as_str(), Some(text));
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
