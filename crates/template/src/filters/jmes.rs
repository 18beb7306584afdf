//! `json_query`: JMESPath.

use converge_syntax::{Node, Span};
use minijinja::{Error, Value};

use super::invalid;
use crate::bounds::check;
use crate::convert::{to_node, to_value};
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("json_query", json_query);
}

/// Levels and links of one expression: the parser calls itself for each.
const DEPTH: usize = 100;

/// Bytes of one expression.
const LONG: usize = 1 << 13;

fn json_query(value: Value, query: String) -> Result<Value, Error> {
    let span = Span::nowhere("json_query");
    check("json_query: bytes of an expression", query.len(), LONG)?;
    if is_too_deep(&query) {
        return Err(invalid(format!(
            "json_query: the expression goes too deep: at most {DEPTH} brackets, dots and operators in each other"
        )));
    }
    let compiled = jmespath::compile(&query).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().next().unwrap_or_default().to_owned();
        invalid(format!("json_query: `{query}` is no JMESPath: {reason}"))
    })?;
    let data = jmespath::Variable::try_from(to_node(&value, &span)?.to_json())
        .map_err(|error| invalid(format!("json_query: {error}")))?;
    let found = compiled.search(data).map_err(|error| {
        let reason = error.to_string();
        invalid(format!("json_query: {}", reason.lines().next().unwrap_or_default()))
    })?;
    let json: serde_json::Value =
        serde_json::to_value(&*found).map_err(|error| invalid(format!("json_query: {error}")))?;
    Ok(to_value(&Node::from_json(&json, &span)))
}

/// Does an expression nest too deep, or is one chain of its links too long?
fn is_too_deep(query: &str) -> bool {
    // The links so far of each open bracket; `total` is their sum.
    let mut levels: Vec<usize> = vec![0];
    let mut total = 0;
    let mut chars = query.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' | '`' => {
                while let Some(inner) = chars.next().filter(|inner| *inner != c) {
                    if inner == '\\' {
                        chars.next();
                    }
                }
            }
            '(' | '[' | '{' => {
                levels.push(1);
                total += 1;
            }
            ')' | ']' | '}' => {
                if levels.len() > 1 {
                    total -= levels.pop().unwrap_or(0);
                }
                add_link(&mut levels, &mut total);
            }
            ',' => {
                let first = usize::from(levels.len() > 1);
                if let Some(level) = levels.last_mut() {
                    total -= *level;
                    total += first;
                    *level = first;
                }
            }
            '.' | '|' | '&' | '!' | '<' | '>' | '=' | '*' => add_link(&mut levels, &mut total),
            _ => {}
        }
        if total > DEPTH {
            return true;
        }
    }
    false
}

fn add_link(levels: &mut [usize], total: &mut usize) {
    if let Some(level) = levels.last_mut() {
        *level += 1;
        *total += 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    /// The examples of jmespath.org, which the Python library of Ansible's filter follows.
    #[test]
    fn queries() {
        table(&[
            ("{'a': {'b': {'c': [1, 2]}}} | json_query('a.b.c[1]')", "2"),
            (
                "{'people': [{'n': 'b', 'age': 30}, {'n': 'a', 'age': 20}]} | json_query('people[?age > `25`].n')",
                "[b]",
            ),
            ("{'people': [{'n': 'b'}, {'n': 'a'}]} | json_query('people[*].n | sort(@)')", "[a, b]"),
            ("{'a': 1, 'b': 2} | json_query('{x: a, y: b}')", "{x: 1, y: 2}"),
            ("{'a': 1} | json_query('nope')", "null"),
            ("[3, 1] | json_query('max(@)')", "3"),
            ("{'a': [[1, 2], [3]]} | json_query('a[]')", "[1, 2, 3]"),
            ("{} | json_query('a[')", "!no JMESPath"),
            ("{'a': 1} | json_query('length(a)')", "!json_query"),
        ]);
    }
}
