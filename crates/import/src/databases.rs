//! A `getent` in a loop over databases.

use crate::task::Task;
use crate::tokens::whole_expression;
use crate::yaml::map;
use converge_syntax::{Node, Value};

/// Makes a block of a `getent` for each database of a list: each has a fact of its own.
pub(crate) fn take_apart(task: &mut Task) {
    let is_of_loop = |node: &Node| node.as_str().and_then(whole_expression) == Some("item");
    if task.module != "getent"
        || task.keyword("register").is_some()
        || !task.args.get("database").is_some_and(is_of_loop)
    {
        return;
    }
    let list = ["loop", "with_items", "with_list"].iter().find_map(|key| task.keyword(key));
    let names = list.and_then(Node::as_list).unwrap_or_default();
    let is_plain = |name: &Node| name.as_str().is_some_and(|text| !text.contains("{{"));
    if names.is_empty() || !names.iter().all(is_plain) {
        return;
    }
    let (around, own): (Vec<_>, Vec<_>) = task
        .keywords
        .iter()
        .filter(|(key, _)| key != "loop" && !key.starts_with("with_") && key != "loop_control")
        .cloned()
        .partition(|(key, _)| matches!(key.as_str(), "when" | "tags"));
    let one = |name: &Node| {
        let mut one = Task { keywords: own.clone(), ..task.clone() };
        one.name = Some(format!("{} ({})", task.title(), name.as_str().unwrap_or_default()));
        if let Value::Map(entries) = &mut one.args.value {
            for (_, value) in entries.iter_mut().filter(|(key, _)| key.as_str() == Some("database")) {
                *value = name.clone();
            }
        }
        one
    };
    task.block = names.iter().map(one).collect();
    task.keywords = around;
    task.args = map::<&str>([]);
    "block".clone_into(&mut task.module);
}
