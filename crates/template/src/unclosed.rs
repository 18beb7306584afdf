//! Blocks of a template that nothing closes.

use std::ops::Range;

/// A block that is open at the end of its template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OpenBlock {
    /// Its keyword: `for`, `if`.
    pub name: String,
    /// Its opening tag.
    pub range: Range<usize>,
}

const BLOCKS: [&str; 9] = ["for", "if", "with", "block", "filter", "macro", "call", "set", "autoescape"];

/// The innermost block that is still open at the end.
pub(crate) fn innermost(text: &str) -> Option<OpenBlock> {
    let mut open: Vec<OpenBlock> = Vec::new();
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('{')).map(|found| at + found) {
        let rest = text.get(found..)?;
        let Some(close) = [("{#", "#}"), ("{{", "}}"), ("{%", "%}")]
            .into_iter()
            .find(|(lead, _)| rest.starts_with(lead))
            .map(|(_, close)| close)
        else {
            at = found + 1;
            continue;
        };
        let Some(length) = rest.find(close).map(|end| end + 2) else { break };
        at = found + length;
        if close != "%}" {
            continue;
        }
        let inner = rest.get(2..length - 2).unwrap_or_default().trim_matches(['-', '+']).trim();
        let name = inner.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        if name == "raw" {
            // Nothing counts up to its end.
            at = text.get(at..).and_then(|rest| rest.find("endraw")).map_or(text.len(), |end| at + end);
        } else if let Some(closed) = name.strip_prefix("end") {
            if open.last().is_some_and(|block| block.name == closed) {
                open.pop();
            }
        } else if BLOCKS.contains(&name) && !(name == "set" && inner.contains('=')) {
            open.push(OpenBlock { name: name.to_owned(), range: found..at });
        }
    }
    open.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_open_block_is_named_with_its_tag() {
        for (text, tag) in [
            ("a {% for x in y %}{% if x %}b{% endif %}", Some("{% for x in y %}")),
            ("{% for x in y %}{%- if x -%}b", Some("{%- if x -%}")),
            ("{% set a = 1 %}{% set b %}c", Some("{% set b %}")),
            ("{% raw %}{% for %}{% endraw %}{# {% if x %} #}{{ '{% if %}' }}", None),
            ("{% for x in y %}{% endfor %}{ {", None),
        ] {
            let found = innermost(text);
            assert_eq!(found.and_then(|open| text.get(open.range)), tag, "{text}");
        }
    }
}
