//! Loops as `for_each`.

use crate::expression::{ExpressionNames, ImportProblem, RegisteredResult, uses, whole_expression};
use crate::includes::listed;
use crate::task::Task;
use crate::yaml::{each_text, made};
use converge_syntax::{Node, Value};
use converge_template::{AnsibleSort, ansible_instead};
use std::collections::BTreeSet;

/// Most elements of a list that is written out.
const MAX_ELEMENTS: usize = 1000;

/// The list, map or template of a task's loop, and the name of its element if it is not `item`.
pub(crate) struct Loop {
    pub each: Node,
    pub element: Option<String>,
}

/// The text of an expression for a value: the inside of `{{ }}`, a text in quotes, a literal.
pub(crate) fn expression_of(node: &Node) -> Option<String> {
    Some(match &node.value {
        Value::String(text) => match whole_expression(text) {
            Some(inside) => format!("({inside})").replace("((", "((").to_owned(),
            None if text.contains("{{") || text.contains("{%") => {
                let parts: Vec<String> = crate::tokens::parts(text)?
                    .into_iter()
                    .map(|part| match part {
                        crate::tokens::TemplatePart::Plain(text) => Some(quoted(text)),
                        crate::tokens::TemplatePart::Code("{{", inside, _) => {
                            Some(format!("({})", inside.trim()))
                        }
                        crate::tokens::TemplatePart::Code(..) => None,
                    })
                    .collect::<Option<_>>()?;
                parts.join(" ~ ")
            }
            None => quoted(text),
        },
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(expression_of).collect::<Option<_>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Map(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| {
                    Some(format!("{}: {}", quoted(&key.scalar_text()?), expression_of(value)?))
                })
                .collect::<Option<_>>()?;
            format!("{{{}}}", entries.join(", "))
        }
        Value::Null => "none".to_owned(),
        _ => node.scalar_text()?,
    })
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"))
}

/// Whether a task without a loop reads `item`: the element of a loop around its role or file, which a resource here does not know, and which
/// an expression of the role would take from the `for_each` of the resource that reads it.
pub(crate) fn reads_outer_element(task: &Task) -> bool {
    let mut found = BTreeSet::new();
    let mut look = |text: &str, bare: bool| {
        // A template may have a loop of its own.
        if !text.contains("for item") {
            uses(text, "item", bare, &mut found);
        }
    };
    let below = ["block", "rescue", "always", "name"];
    for (key, value) in task.keywords.iter().filter(|(key, _)| !below.contains(&key.as_str())) {
        let bare = matches!(key.as_str(), "when" | "until" | "failed_when" | "changed_when");
        each_text(value, &mut |text| look(text, bare));
    }
    let bare = matches!(task.module.as_str(), "assert");
    each_text(&task.args, &mut |text| look(text, bare));
    task.free.iter().for_each(|text| look(text, false));
    !crate::registers::has_loop(task) && !found.is_empty()
}

/// Reads the loop of a task.
pub(crate) fn loop_of(task: &Task, names: &ExpressionNames) -> Result<Option<Loop>, ImportProblem> {
    let found = task.keywords.iter().find(|(key, _)| key == "loop" || key.starts_with("with_"));
    let Some((key, value)) = found else { return Ok(None) };
    let control = task.keyword("loop_control");
    let part = |name: &str| control.and_then(|control| control.get(name)).and_then(Node::scalar_text);
    for word in ["index_var", "extended", "extended_allitems", "break_when"] {
        if part(word).is_some_and(|value| value != "false") {
            return Err(ImportProblem::new(
                format!("`{word}` of the loop has no counterpart"),
                "give the elements a field of their own; `item` is the element of `for_each`",
            ));
        }
    }
    let instead = || ansible_instead(&[AnsibleSort::Keyword], key).unwrap_or("write `for_each`");
    let unknown = |why: String| ImportProblem::new(why, instead());
    for (name, registered) in &names.registered {
        let mut found = BTreeSet::new();
        each_text(value, &mut |text| uses(text, name, false, &mut found));
        if !found.is_empty() && !matches!(registered, RegisteredResult::Unknown(_)) {
            return Err(ImportProblem::new(
                format!("the list of the loop is the result `{name}` of another task"),
                "a list of `for_each` is known when the plan is made: write it as an input, or do all in one `command`",
            ));
        }
    }
    if value.as_list().is_some_and(|items| items.len() > MAX_ELEMENTS) {
        return Err(ImportProblem::new(
            format!("the loop has more than {MAX_ELEMENTS} elements"),
            "write one resource for all of them",
        ));
    }
    let value = names.node(value)?;
    let expression =
        |node: &Node| expression_of(node).ok_or_else(|| unknown("the list is no expression".to_owned()));
    let two = || match listed(&value).as_slice() {
        [a, b] => Ok((expression(a)?, expression(b)?)),
        _ => Err(unknown(format!("`{key}` has not two lists"))),
    };
    let each = match key.as_str() {
        "loop" | "with_list" => value.clone(),
        "with_dict" => value.clone(),
        "with_items" | "with_flattened" => flat(&value)?,
        "with_nested" | "with_cartesian" => {
            let (a, b) = two()?;
            made(format!("{{{{ {a} | product({b}) | list }}}}"))
        }
        "with_together" => {
            let (a, b) = two()?;
            made(format!("{{{{ {a} | zip({b}) | list }}}}"))
        }
        "with_subelements" => {
            let (a, b) = two()?;
            made(format!("{{{{ {a} | subelements({b}) }}}}"))
        }
        "with_sequence" => {
            sequence(&value).ok_or_else(|| unknown("the sequence is not one of plain numbers".to_owned()))?
        }
        _ => return Err(unknown(format!("`{key}` has no counterpart that is known beforehand"))),
    };
    let good = match &each.value {
        Value::List(_) | Value::Map(_) => true,
        Value::String(text) => whole_expression(text).is_some(),
        _ => false,
    };
    if !good {
        return Err(unknown("the loop is over one value, and no list".to_owned()));
    }
    Ok(Some(Loop { each, element: part("loop_var").filter(|name| name != "item") }))
}

/// `with_items` lays lists in the list flat, by one level.
fn flat(value: &Node) -> Result<Node, ImportProblem> {
    let Some(items) = value.as_list() else {
        return Ok(match value.as_str().and_then(whole_expression) {
            Some(_) => value.clone(),
            // One value is a list of one.
            None => made(Value::List(vec![value.clone()])),
        });
    };
    let nested = |item: &Node| {
        item.as_list().is_some() || item.as_str().is_some_and(|text| whole_expression(text).is_some())
    };
    if let [one] = items
        && nested(one)
    {
        return Ok(one.clone());
    }
    if !items.iter().any(nested) {
        return Ok(value.clone());
    }
    let text = expression_of(value)
        .ok_or_else(|| ImportProblem::new("the list is no expression", "write `for_each`"))?;
    Ok(made(format!("{{{{ {text} | flatten(levels=1) }}}}")))
}

fn sequence(value: &Node) -> Option<Node> {
    let text = value.as_str()?;
    let (mut start, mut end, mut stride) = (1i64, None, 1i64);
    for word in text.split_whitespace() {
        match word.split_once('=')? {
            ("start", number) => start = number.parse().ok()?,
            ("end", number) => end = Some(number.parse::<i64>().ok()?),
            ("count", number) => end = Some(start + number.parse::<i64>().ok()? - 1),
            ("stride", number) => stride = number.parse().ok().filter(|stride| *stride > 0)?,
            _ => return None,
        }
    }
    let end = end.filter(|end| end.checked_sub(start).is_some_and(|count| count < MAX_ELEMENTS as i64))?;
    // The elements of Ansible's sequence are texts.
    Some(made(format!("{{{{ range({start}, {}, {stride}) | map('string') | list }}}}", end + 1)))
}
