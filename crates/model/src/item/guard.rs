//! The keys of an item that say how it is guarded.

use super::{GUARD_SECONDS, GUARDS, Section};
use crate::fields::{nearest, string, wrong_type};
use converge_resource::Place;
use converge_syntax::{Diagnostic, Diagnostics, Node, Value};

/// A key with one of some words, which matters only for an item that changes something.
pub(super) fn word(
    node: &Node,
    key: &str,
    words: &[&'static str],
    section: Section,
    diags: &mut Diagnostics,
) -> Option<String> {
    let word = string(node, key, diags)?;
    if section != Section::Resources {
        diags.push(
            Diagnostic::error("bad-value", format!("`{key}` means nothing here"))
                .label(&word.span, format!("`{}` only reads", section.key()))
                .help("remove it"),
        );
        return None;
    }
    if !words.contains(&word.value.as_str()) {
        diags.push(
            Diagnostic::error("bad-value", format!("there is no {key} `{}`", word.value))
                .label(&word.span, "not known")
                .help(nearest(&word.value, words.iter().copied())),
        );
        return None;
    }
    Some(word.value)
}

/// The key `guard`: hosts have a switch, clusters have none.
pub(super) fn guard(node: &Node, section: Section, scope: Place, diags: &mut Diagnostics) -> Option<String> {
    let given = word(node, "guard", &GUARDS, section, diags)?;
    if scope == Place::Host {
        return Some(given);
    }
    if let Some(key) = node.key_span("guard") {
        diags.push(
            Diagnostic::error("bad-value", "`guard` means nothing in a role of scope `cluster`")
                .label(key, "a switch stands on a host")
                .help("remove it"),
        );
    }
    None
}

/// The key `guard_seconds`.
pub(super) fn guard_seconds(node: &Node, diags: &mut Diagnostics) -> Option<u64> {
    let given = node.get("guard_seconds").filter(|given| !given.is_null())?;
    let (least, most) = GUARD_SECONDS;
    let Value::Int(seconds) = given.value else {
        diags.push(wrong_type(given, "`guard_seconds`", "a whole number").help("write `guard_seconds: 90`"));
        return None;
    };
    if !(least..=most).contains(&seconds) {
        diags.push(
            Diagnostic::error("bad-value", format!("`guard_seconds` is from {least} to {most}"))
                .label(&given.span, "out of range")
                .help("it is the time to connect anew and to ask what the change can break"),
        );
        return None;
    }
    u64::try_from(seconds).ok()
}
