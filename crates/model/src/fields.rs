//! Reading maps by hand, so that one pass reports every key that is wrong.

use converge_syntax::{Diagnostic, Diagnostics, Node, Spanned, Value, did_you_mean};
pub(crate) use converge_template::is_template;

/// Is any template syntax in this value, keys included?
pub(crate) fn has_template(node: &Node) -> bool {
    match &node.value {
        Value::String(text) => is_template(text),
        Value::List(items) => items.iter().any(has_template),
        Value::Map(entries) => entries.iter().any(|(key, value)| has_template(key) || has_template(value)),
        _ => false,
    }
}

/// Is this a name that a template can use?
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c == '_' || c.is_ascii_alphabetic())
        && chars.all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// Complains about a value of another type.
pub(crate) fn wrong_type(node: &Node, what: &str, expected: &str) -> Diagnostic {
    Diagnostic::error("wrong-type", format!("{what} must be {expected}, found {}", node.describe()))
        .label(node.head_span(), format!("expected {expected}"))
}

/// So many names are listed.
const LISTED: usize = 60;

/// "did you mean", else the list of what is allowed.
pub(crate) fn nearest<'a>(word: &str, allowed: impl IntoIterator<Item = &'a str>) -> String {
    let allowed: Vec<&str> = allowed.into_iter().collect();
    match did_you_mean(word, allowed.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if allowed.is_empty() => "no name is known here".to_owned(),
        None if allowed.len() > LISTED => {
            format!("one of: {} and {} more", allowed[..LISTED / 4].join(", "), allowed.len() - LISTED / 4)
        }
        None => format!("one of: {}", allowed.join(", ")),
    }
}

/// Complains about keys of a map that are not allowed; false where the node is no map.
pub(crate) fn check_map(node: &Node, what: &str, allowed: &[&str], diags: &mut Diagnostics) -> bool {
    let Some(entries) = node.as_map() else {
        diags.push(wrong_type(node, what, "a map").help(format!("keys of {what}: {}", allowed.join(", "))));
        return false;
    };
    for (key, _) in entries {
        match key.as_str() {
            Some(name) if allowed.contains(&name) => {}
            Some(name) => diags.push(
                Diagnostic::error("unknown-key", format!("{what} has no key `{name}`"))
                    .label(&key.span, "not known here")
                    .help(nearest(name, allowed.iter().copied())),
            ),
            None => diags.push(wrong_type(key, &format!("a key of {what}"), "a string")),
        }
    }
    true
}

/// A string under a key; null counts as absent.
pub(crate) fn string(node: &Node, key: &str, diags: &mut Diagnostics) -> Option<Spanned<String>> {
    let value = node.get(key).filter(|value| !value.is_null())?;
    match value.as_str() {
        Some(text) => Some(Spanned::new(text.to_owned(), value.span.clone())),
        None => {
            diags.push(wrong_type(value, &format!("`{key}`"), "a string"));
            None
        }
    }
}

/// A boolean under a key; false where it is absent.
pub(crate) fn flag(node: &Node, key: &str, diags: &mut Diagnostics) -> bool {
    let Some(value) = node.get(key).filter(|value| !value.is_null()) else {
        return false;
    };
    value.as_bool().unwrap_or_else(|| {
        diags.push(wrong_type(value, &format!("`{key}`"), "true or false"));
        false
    })
}

/// A list of strings under a key; one string is a list of one.
pub(crate) fn strings(node: &Node, key: &str, diags: &mut Diagnostics) -> Vec<Spanned<String>> {
    let Some(value) = node.get(key).filter(|value| !value.is_null()) else {
        return Vec::new();
    };
    if let Some(text) = value.as_str() {
        return vec![Spanned::new(text.to_owned(), value.span.clone())];
    }
    let Some(items) = value.as_list() else {
        diags.push(wrong_type(value, &format!("`{key}`"), "a list of strings"));
        return Vec::new();
    };
    let mut found = Vec::new();
    for item in items {
        match item.as_str() {
            Some(text) => found.push(Spanned::new(text.to_owned(), item.span.clone())),
            None => diags.push(wrong_type(item, &format!("an item of `{key}`"), "a string")),
        }
    }
    found
}

/// Tags: a list of strings, or one string with commas, as Ansible has it. Numbers are taken as text.
pub(crate) fn tags(node: &Node, diags: &mut Diagnostics) -> Vec<String> {
    let Some(value) = node.get("tags").filter(|value| !value.is_null()) else {
        return Vec::new();
    };
    let items = value.as_list().unwrap_or(std::slice::from_ref(value));
    let mut found = Vec::new();
    for item in items {
        match (&item.value, item.scalar_text()) {
            (Value::Null | Value::List(_) | Value::Map(_), _) | (_, None) => {
                diags.push(wrong_type(item, "a tag", "a string"));
            }
            (_, Some(text)) => {
                found.extend(text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned));
            }
        }
    }
    found
}

/// Conditions under `when`: an expression, a boolean, or a list of them that must all hold.
pub(crate) fn conditions(node: &Node, diags: &mut Diagnostics) -> Vec<Node> {
    let Some((key, value)) = node.entry("when") else {
        return Vec::new();
    };
    if value.is_null() {
        diags.push(
            Diagnostic::error("wrong-type", "`when` has no condition")
                .label(&key.span, "empty")
                .help("write an expression such as `when: gpu_count > 0`, or remove the key"),
        );
        return Vec::new();
    }
    let items = value.as_list().unwrap_or(std::slice::from_ref(value));
    items
        .iter()
        .filter(|item| {
            let good = matches!(item.value, Value::String(_) | Value::Bool(_));
            if !good {
                diags.push(wrong_type(item, "a condition", "an expression"));
            }
            good
        })
        .cloned()
        .collect()
}
