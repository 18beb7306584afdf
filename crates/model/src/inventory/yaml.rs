//! The YAML format of inventories: groups with `hosts`, `vars` and `children`.
//!
//! Facts: `ansible/plugins/inventory/yaml.py`.

use converge_syntax::{Diagnostic, Node, Value, did_you_mean};

use super::build::Builder;
use super::graph::{Assignment, GroupId};

const SECTIONS: [&str; 3] = ["hosts", "vars", "children"];

/// Reads a YAML inventory, which is a map of groups, into the builder.
pub(super) fn read(builder: &mut Builder, root: &Node) {
    for (key, value) in root.as_map().unwrap_or(&[]) {
        match value.value {
            Value::Map(_) | Value::Null => {
                group(builder, key, value);
            }
            _ => builder.warn(
                "not-a-group",
                format!("`{}` is passed over: a group is a map, this is {}", label(key), value.value.kind()),
                &key.span,
                "write hosts, vars and children below a group; variables of all hosts go below all: vars:",
            ),
        }
    }
}

fn label(key: &Node) -> String {
    key.scalar_text().unwrap_or_default()
}

/// Reads one group; `None` where it is not one.
fn group(builder: &mut Builder, key: &Node, value: &Node) -> Option<GroupId> {
    let Some(name) = key.as_str().filter(|name| !name.is_empty()) else {
        builder.error(
            "bad-group",
            format!("the name of a group must be a string, this is {}", key.value.kind()),
            &key.span,
            "put the name in quotes",
        );
        return None;
    };
    let id = match &value.value {
        Value::Map(_) | Value::Null => builder.group(name, &key.span),
        _ => {
            builder.error(
                "bad-group",
                format!("the group `{name}` must be a map, this is {}", value.value.kind()),
                value.head_span(),
                "write hosts, vars and children below it, or nothing at all",
            );
            return None;
        }
    };
    for (key, value) in value.as_map().unwrap_or(&[]) {
        section(builder, id, name, key, value);
    }
    Some(id)
}

fn section(builder: &mut Builder, id: GroupId, group_name: &str, key: &Node, value: &Node) {
    let name = label(key);
    if !SECTIONS.contains(&name.as_str()) {
        let guess = did_you_mean(&name, SECTIONS);
        builder.diagnostics.push(
            Diagnostic::warning(
                "unknown-section",
                format!("`{name}` in the group `{group_name}` is passed over: a group has hosts, vars and children"),
            )
            .at(&key.span)
            .help(match guess {
                Some(guess) => format!("did you mean `{guess}`?"),
                None => "a child group stands below `children`, a variable below `vars`".to_owned(),
            }),
        );
        return;
    }
    // A string stands for a map with that one key.
    let one = match &value.value {
        Value::String(_) => vec![(value.clone(), Node::null(value.span.clone()))],
        _ => Vec::new(),
    };
    let entries = match &value.value {
        Value::Null => return,
        Value::String(_) => one.as_slice(),
        Value::Map(entries) => entries.as_slice(),
        other => {
            let help = match name.as_str() {
                "vars" => "write one `name: value` a line below it, without dashes",
                "hosts" => "write one `name:` a line below it, without dashes",
                _ => "write one `group:` a line below it, without dashes",
            };
            builder.error(
                "bad-section",
                format!("`{name}` of the group `{group_name}` must be a map, this is {}", other.kind()),
                value.head_span(),
                help,
            );
            return;
        }
    };
    for (key, value) in entries {
        match name.as_str() {
            "vars" => {
                if let Some(assignment) = assignment(builder, key, value) {
                    builder.group_var(id, assignment);
                }
            }
            "children" => {
                if let Some(child) = group(builder, key, value) {
                    builder.child(id, child, &key.span);
                }
            }
            _ => host(builder, id, key, value),
        }
    }
}

/// `name: value` below `vars` or a host.
pub(super) fn assignment(builder: &mut Builder, key: &Node, value: &Node) -> Option<Assignment> {
    let name = match key.as_str() {
        Some(name) => {
            builder.check_name(name, &key.span);
            name.to_owned()
        }
        None => {
            // Ansible takes it, deprecated; no template can name it.
            let name = super::json_key::json_key(key);
            builder.warn(
                "bad-variable-name",
                format!(
                    "the name of a variable must be a string, this is {}: it is read as `{name}`",
                    key.value.kind()
                ),
                &key.span,
                "put it in quotes, or choose another name",
            );
            name
        }
    };
    Some(Assignment { name, key: key.span.clone(), node: value.clone() })
}

/// A value that Python treats as false stands for an empty set of variables.
fn is_falsy(node: &Node) -> bool {
    match &node.value {
        Value::Null | Value::Bool(false) | Value::Int(0) => true,
        Value::Float(x) => *x == 0.0,
        Value::String(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(entries) => entries.is_empty(),
        Value::Bool(true) | Value::Int(_) | Value::UInt(_) => false,
    }
}

fn host(builder: &mut Builder, group: GroupId, key: &Node, value: &Node) {
    let Some(pattern) = key.as_str() else {
        builder.error(
            "bad-host",
            format!("the name of a host must be a string, this is {}", key.value.kind()),
            &key.span,
            "put the name in quotes",
        );
        return;
    };
    let entries = match value.as_map() {
        Some(entries) => entries,
        None if is_falsy(value) => &[],
        None => {
            builder.error(
                "bad-host",
                format!(
                    "the variables of the host `{pattern}` must be a map, this is {}",
                    value.value.kind()
                ),
                value.head_span(),
                "write one `name: value` a line below the host",
            );
            &[]
        }
    };
    let assignments: Vec<Assignment> =
        entries.iter().filter_map(|(key, value)| assignment(builder, key, value)).collect();
    for id in builder.hosts(pattern, group, &key.span).unwrap_or_default() {
        for assignment in &assignments {
            builder.host_var(id, assignment.clone());
        }
    }
}
