//! `id` of an item: a short name that references may use in place of its `name`.

use std::collections::HashMap;

use converge_syntax::{Diagnostic, Diagnostics, Node, Span, Spanned, Value};

use super::{Item, NAMING};
use crate::fields::string;

/// Reads the key `id` of an item.
pub(super) fn read(item: &Node, diags: &mut Diagnostics) -> Option<Spanned<String>> {
    let id = string(item, "id", diags)?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if !id.value.is_empty() && id.value.chars().all(fits) {
        return Some(id);
    }
    let fixed: String =
        id.value.trim().to_lowercase().chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let fixed = fixed.trim_matches('-');
    let help = if fixed.is_empty() {
        "write a word, or remove the key".to_owned()
    } else {
        format!("write `{fixed}`; plain words stand in `name`")
    };
    diags.push(
        Diagnostic::error("bad-name", format!("`{}` cannot be the id of a resource", id.value))
            .label(&id.span, "small letters, digits, `_` and `-`")
            .help(help),
    );
    None
}

/// Complains about an id that two items have, or that is the name of another item.
pub(super) fn unique(items: &[Item], diags: &mut Diagnostics) {
    let mut observed: HashMap<&str, &Span> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        let Some(id) = &item.id else { continue };
        let named = items.iter().enumerate().find(|(at, other)| *at != index && other.name.value == id.value);
        let first = observed.get(id.value.as_str()).copied();
        if let Some(other) = first.or(named.map(|(_, other)| &other.name.span)) {
            let what = if first.is_some() {
                "two resources have the id"
            } else {
                "a resource has the name of another as its id:"
            };
            diags.push(
                Diagnostic::error("duplicate-name", format!("{what} `{}`", id.value))
                    .label(&id.span, "again here")
                    .label(other, "first here")
                    .help("give one of them another `id`"),
            );
        }
        observed.entry(&id.value).or_insert(&id.span);
    }
}

/// Puts the name of a resource wherever a parameter refers to it by its id.
pub(super) fn to_names(items: &mut [Item]) {
    let names: HashMap<String, String> = items
        .iter()
        .filter_map(|item| Some((item.id.as_ref()?.value.clone(), item.name.value.clone())))
        .collect();
    if names.is_empty() {
        return;
    }
    for item in items {
        for name in &mut item.names {
            if let Some(full) = names.get(&name.value) {
                name.value.clone_from(full);
            }
        }
        let Value::Map(entries) = &mut item.params.value else { continue };
        for (_, value) in
            entries.iter_mut().filter(|(key, _)| key.as_str().is_some_and(|key| NAMING.contains(&key)))
        {
            let listed = match &mut value.value {
                Value::List(listed) => listed.as_mut_slice(),
                _ => std::slice::from_mut(value),
            };
            for node in listed {
                if let Some(full) = node.as_str().and_then(|text| names.get(text)) {
                    node.value = Value::String(full.clone());
                }
            }
        }
    }
}
