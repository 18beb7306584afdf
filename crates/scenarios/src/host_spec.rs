//! The hosts of a scenario.

use converge_syntax::{Diagnostic, Diagnostics, Node, Span, Spanned, did_you_mean, from_node};
use serde::Deserialize;

/// Hosts of one scenario at most.
const MAX_HOSTS: i64 = 16;

/// A host of a scenario.
#[derive(Clone, Debug)]
pub struct HostSpec {
    /// Its name in the inventory, and its host name.
    pub name: String,
    /// The groups that it is in.
    pub groups: Vec<String>,
    /// Values for inputs on this host: a map.
    pub inputs: Option<Node>,
}

impl HostSpec {
    pub(crate) fn plain(number: i64) -> Self {
        Self { name: format!("h{number}"), groups: Vec::new(), inputs: None }
    }
}

pub(crate) fn hosts(node: Option<&Node>, diags: &mut Diagnostics) -> Vec<HostSpec> {
    let Some(node) = node.filter(|n| !n.is_null()) else { return vec![HostSpec::plain(1)] };
    if let Some(count) = node.as_i64() {
        if !(1..=MAX_HOSTS).contains(&count) {
            diags.push(
                Diagnostic::error("bad-value", format!("a scenario has 1 to {MAX_HOSTS} hosts"))
                    .label(&node.span, "not possible"),
            );
        }
        return (1..=count.clamp(1, MAX_HOSTS)).map(HostSpec::plain).collect();
    }
    let Some(entries) = node.as_map() else {
        diags.push(wrong(node, "`hosts`", "a number, or a map of hosts").help("write `hosts: 2`"));
        return vec![HostSpec::plain(1)];
    };
    let mut found = Vec::new();
    for (key, value) in entries {
        let name = key.as_str().unwrap_or_default();
        let fits = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.len() <= 30
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if !fits {
            diags.push(
                Diagnostic::error("bad-name", format!("`{name}` cannot be the name of a host"))
                    .label(&key.span, "not usable")
                    .help("a lower-case letter, then lower-case letters, digits and `-`; 30 at most"),
            );
            continue;
        }
        let raw = if value.is_null() {
            RawHost { groups: Vec::new(), inputs: None }
        } else {
            let Some(raw) = diags.take(from_node::<RawHost>(value)) else { continue };
            raw
        };
        must_be_map("inputs", raw.inputs.as_ref(), diags);
        found.push(HostSpec { name: name.to_owned(), groups: raw.groups, inputs: raw.inputs });
    }
    if found.len() > usize::try_from(MAX_HOSTS).unwrap_or(usize::MAX) {
        let message = format!("a scenario has 1 to {MAX_HOSTS} hosts");
        diags.push(Diagnostic::error("bad-value", message).at(node.head_span()));
    }
    found
}

pub(crate) fn groups(node: Option<&Node>, hosts: &mut [HostSpec], diags: &mut Diagnostics) {
    let Some(node) = node.filter(|n| !n.is_null()) else { return };
    let Some(entries) = node.as_map() else {
        diags.push(wrong(node, "`groups`", "a map of lists of hosts").help("write `groups: {web: [h1]}`"));
        return;
    };
    let names: Vec<String> = hosts.iter().map(|h| h.name.clone()).collect();
    for (key, value) in entries {
        let group = key.as_str().unwrap_or_default().to_owned();
        let Some(members) = diags.take(from_node::<Vec<Spanned<String>>>(value)) else { continue };
        for member in members {
            match hosts.iter_mut().find(|h| h.name == member.value) {
                Some(host) => host.groups.push(group.clone()),
                None => diags.push(unknown_host(&member.value, &member.span, &names)),
            }
        }
    }
}

pub(crate) fn unknown_host(name: &str, span: &Span, names: &[String]) -> Diagnostic {
    let help = match did_you_mean(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("hosts of this scenario: {}", names.join(", ")),
    };
    Diagnostic::error("unknown-host", format!("the scenario has no host `{name}`"))
        .label(span, "not known")
        .help(help)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    inputs: Option<Node>,
}

/// The error for a value of another type.
pub(crate) fn wrong(node: &Node, what: &str, expected: &str) -> Diagnostic {
    Diagnostic::error("wrong-type", format!("{what} must be {expected}, found {}", node.describe()))
        .label(node.head_span(), format!("expected {expected}"))
}

/// Reports a value that is there and no map.
pub(crate) fn must_be_map(name: &str, value: Option<&Node>, diags: &mut Diagnostics) {
    if let Some(value) = value.filter(|v| !v.is_null() && v.as_map().is_none()) {
        diags.push(wrong(value, &format!("`{name}`"), "a map"));
    }
}
