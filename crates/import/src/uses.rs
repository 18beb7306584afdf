//! The uses of a name in texts.

use crate::expression::{before, path_at, test_at};
use crate::tokens::{TemplatePart, TokenSort, parts, tokens};
use std::collections::BTreeSet;

/// The paths and tests with which a text uses a name: `.stat.exists`, ` is changed`.
pub(crate) fn uses(text: &str, name: &str, bare: bool, found: &mut BTreeSet<String>) {
    // Every registered name is looked for in every template.
    if !text.contains(name) {
        return;
    }
    let in_code = |code: &str, found: &mut BTreeSet<String>| {
        let all = tokens(code);
        for (at, token) in all.iter().enumerate() {
            if token.sort != TokenSort::Name
                || token.text != name
                || before(&all, at).is_some_and(|t| t.is(".") || t.is("|"))
            {
                continue;
            }
            let mut path = path_at(&all, at + 1);
            if let Some((_, test, _)) = test_at(&all, path.end) {
                path.text.push_str(&format!(" is {test}"));
            }
            found.insert(path.text);
        }
    };
    if bare && !text.contains("{{") {
        in_code(text, found);
        return;
    }
    for part in parts(text).unwrap_or_default() {
        if let TemplatePart::Code(_, inside, _) = part {
            in_code(inside, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_of_a_result_are_found() {
        let mut found = BTreeSet::new();
        uses("a.stat.exists and not a['stat']['isdir'] or a is changed or b.a", "a", true, &mut found);
        let all: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(all, [" is changed", ".stat.exists", ".stat.isdir"]);
    }
}
