//! Values as YAML text.

use serde_json::Value;

/// Whether a plain word is read as this very text by every program.
pub(super) fn is_plain(text: &str) -> bool {
    let first = text.chars().next().unwrap_or(' ');
    let word = |c: char| c.is_ascii_alphanumeric() || "_./-+:@%=,~".contains(c);
    let reserved = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];
    (first.is_ascii_alphabetic() || first == '/' || first == '_')
        && text.chars().all(|c| word(c) || c == ' ')
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains("  ")
        && !text.contains(',')
        && !reserved.contains(&text.to_ascii_lowercase().as_str())
}

pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(s) if is_plain(s) => s.clone(),
        // JSON's strings are YAML's double-quoted ones.
        other => other.to_string(),
    }
}

/// On one line.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries: Vec<String> = map.iter().map(|(k, v)| format!("{}: {}", key(k), flow(v))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => scalar(other),
    }
}

pub(super) fn key(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { Value::from(text).to_string() }
}

/// On lines of their own, each indented by so many blanks; no line end behind the last.
pub(super) fn block(value: &Value, indent: usize) -> String {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            let lines: Vec<String> =
                map.iter().map(|(k, v)| format!("{pad}{}:{}", key(k), behind(v, indent))).collect();
            lines.join("\n")
        }
        Value::Array(list) if !list.is_empty() => {
            list.iter().map(|v| format!("{pad}-{}", behind_dash(v, indent))).collect::<Vec<_>>().join("\n")
        }
        other => format!("{pad}{}", flow(other)),
    }
}

/// The text after a colon: on the same line, or below.
pub(super) fn behind(value: &Value, indent: usize) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => format!("\n{}", block(value, indent + 2)),
        Value::Array(list) if !list.is_empty() => format!("\n{}", block(value, indent + 2)),
        other => format!(" {}", flow(other)),
    }
}

/// The text after a dash.
pub(super) fn behind_dash(value: &Value, indent: usize) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let below = block(value, indent + 2);
            format!(" {}", below.trim_start())
        }
        other => format!(" {}", flow(other)),
    }
}
