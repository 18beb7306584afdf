//! Properties of the text of a template, without rendering it.

use std::ops::Range;

/// Does a string hold `{{`, `{%` or `{#`?
pub fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// The expression inside a string that is one whole `{{ … }}`, as a byte range.
pub(crate) fn whole_expression(text: &str) -> Option<Range<usize>> {
    let inner = text.strip_prefix("{{")?.strip_suffix("}}")?;
    let mut depth = 0usize;
    let mut quote: Option<char> = None;
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(_), '\\') => {
                chars.next();
            }
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '{') => depth += 1,
            // A brace too many closes the expression before the end of the string.
            (None, '}') => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    let start = 2 + inner.len() - inner.strip_prefix(['-', '+']).unwrap_or(inner).len();
    let end = text.len() - 2 - usize::from(inner.ends_with('-') && start < text.len() - 2);
    let range = start..end;
    let body = text.get(range.clone())?;
    let lead = body.len() - body.trim_start().len();
    (quote.is_none() && depth == 0 && !body.trim().is_empty())
        .then(|| range.start + lead..range.start + lead + body.trim().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_expressions() {
        for (text, inner) in [
            ("{{ a }}", Some("a")),
            ("{{a}}", Some("a")),
            ("{{- a -}}", Some("a")),
            ("{{ {'a': {'b': 1}} }}", Some("{'a': {'b': 1}}")),
            ("{{ '}}' }}", Some("'}}'")),
            (r"{{ 'it\'s }}' }}", Some(r"'it\'s }}'")),
            ("{{ a }}{{ b }}", None),
            ("{{ a }}-{{ b }}", None),
            (" {{ a }}", None),
            ("{{ a }}\n", None),
            ("{{ }}", None),
            ("{{", None),
            ("}}", None),
            ("a", None),
        ] {
            assert_eq!(whole_expression(text).and_then(|range| text.get(range)), inner, "{text}");
        }
        assert!(is_template("a {# b #}") && is_template("{% if %}") && !is_template("{ a }"));
    }
}
