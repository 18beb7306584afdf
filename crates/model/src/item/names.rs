//! Names of items: written, unique, and declared before they are used.

use super::{Item, NAMING, Section};
use crate::catalog::KindSpec;
use crate::expressions::Expression;
use crate::fields::{is_template, nearest, string};
use crate::input::Input;
use crate::magic::MAGIC;
use converge_syntax::{Diagnostic, Diagnostics, Node, Span, Spanned};
use indexmap::IndexMap;
use std::collections::HashMap;

pub(super) fn name_of(
    node: &Node,
    kind: &str,
    kind_key: &Node,
    params: &Node,
    spec: &KindSpec,
    diags: &mut Diagnostics,
) -> Spanned<String> {
    match string(node, "name", diags) {
        Some(name) => {
            let problem = if name.value.trim().is_empty() {
                Some("is empty")
            } else if is_template(&name.value) {
                Some("holds a template")
            } else if name.value.contains(char::is_control) {
                Some("has more than one line")
            } else {
                None
            };
            if let Some(problem) = problem {
                diags.push(
                    Diagnostic::error("bad-name", format!("the name of a resource {problem}"))
                        .label(&name.span, "a name is the same on every host")
                        .help("write plain words; elements of `for_each` get their key beside the name"),
                );
            }
            name
        }
        None => {
            let text = match spec.main_parameter(params) {
                Some(main) => format!("{kind} {main}"),
                None => kind.to_owned(),
            };
            Spanned::new(text, kind_key.span.clone())
        }
    }
}

pub(super) fn named_items(params: &Node, diags: &mut Diagnostics) -> Vec<Spanned<String>> {
    let mut names = Vec::new();
    for key in NAMING {
        let mut bad = Diagnostics::new();
        let found = crate::fields::strings(params, key, &mut bad);
        // Wrong types are the schema's to report.
        for name in found {
            if is_template(&name.value) {
                diags.push(
                    Diagnostic::error(
                        "bad-name",
                        format!("`{key}` names resources of this role, and a template is not a valid name"),
                    )
                    .label(&name.span, "a template")
                    .help("write the resource's name as it stands"),
                );
            } else {
                names.push(name);
            }
        }
    }
    names
}

pub(super) fn unique_names(items: &[Item], diags: &mut Diagnostics) {
    let mut observed: HashMap<&str, &Span> = HashMap::new();
    for item in items {
        match observed.get(item.name.value.as_str()) {
            Some(first) => diags.push(
                Diagnostic::error(
                    "duplicate-name",
                    format!("two resources are called `{}`", item.name.value),
                )
                .label(&item.name.span, "again here")
                .label(first, "first here")
                .help("give one of them another `name`"),
            ),
            None => {
                observed.insert(&item.name.value, &item.name.span);
            }
        }
    }
}

pub(super) fn registers(
    items: &[Item],
    inputs: &IndexMap<String, Input>,
    vars: &IndexMap<String, Expression>,
    diags: &mut Diagnostics,
) {
    let mut observed: HashMap<&str, &Span> = HashMap::new();
    for register in items.iter().filter_map(|item| item.register.as_ref()) {
        let name = register.value.as_str();
        let taken = if MAGIC.contains(&name) {
            Some(("set by converge", None))
        } else if let Some(input) = inputs.get(name) {
            Some(("an input of the role", Some(&input.span)))
        } else if let Some(expression) = vars.get(name) {
            Some(("an expression of the role", Some(&expression.span)))
        } else {
            observed.get(name).map(|first| ("registered already", Some(*first)))
        };
        if let Some((why, other)) = taken {
            let mut diagnostic = Diagnostic::error("duplicate-name", format!("`{name}` is {why}"))
                .label(&register.span, "taken")
                .help("choose another name for the result");
            if let Some(span) = other {
                diagnostic = diagnostic.label(span, "here");
            }
            diags.push(diagnostic);
        }
        observed.insert(name, &register.span);
    }
}

pub(super) fn names_are_earlier(items: &[Item], index: usize, diags: &mut Diagnostics) {
    let Some(item) = items.get(index) else {
        return;
    };
    let others = || items.iter().filter(|other| other.section == Section::Resources);
    for name in &item.names {
        let position = others().position(|other| other.name == *name);
        let own = others().position(|other| std::ptr::eq(other, item));
        let diagnostic = match (position, own) {
            (Some(at), Some(own)) if at < own => continue,
            (Some(at), Some(own)) if at == own => {
                Diagnostic::error("unknown-name", "a resource cannot name itself").label(&name.span, "itself")
            }
            (Some(_), Some(_)) => {
                Diagnostic::error("unknown-name", format!("the resource `{}` comes later", name.value))
                    .label(&name.span, "only earlier resources can be named")
                    .help("move this resource below it")
            }
            _ => Diagnostic::error("unknown-name", format!("this role has no resource `{}`", name.value))
                .label(&name.span, "not found")
                .help(nearest(
                    &name.value,
                    others().take_while(|o| !std::ptr::eq(*o, item)).flat_map(Item::references),
                )),
        };
        diags.push(diagnostic);
    }
}
