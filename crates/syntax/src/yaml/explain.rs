//! Errors of YAML in plain words: the place, the cause, and how to write it.

use super::Composer;
use crate::node::{Node, Value};
use crate::source::Span;
use granit_parser::{ScanError, Tag};

/// Tags that mean something; the parser's core tags besides.
pub(super) const TAGS: [&str; 3] = ["!vault", "!vault-encrypted", crate::UNSAFE_TAG];

/// Most comments right behind a quoted scalar that are read around.
pub(super) const MAX_GLUED: usize = 100;

/// The comment right behind a quoted scalar, near the place where the parser stops. PyYAML reads `a: "x"#note`; the YAML that
/// the parser knows wants a space before the `#`.
pub(super) fn glued_comment(text: &str, at: usize) -> Option<std::ops::Range<usize>> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..)?.split('\n').next()?;
    let sharp = ["\"#", "'#"].iter().filter_map(|glued| line.find(glued)).min()? + 1;
    // Only where the parser stops at it.
    (start + sharp).abs_diff(at).le(&1).then_some(start + sharp..start + line.len())
}

/// The value that begins with an expression: where a map or list in brackets is open before it, the value ends at the next comma or bracket.
pub(super) fn flow_value<'t>(before: &str, text: &'t str) -> &'t str {
    let count = |brackets: [char; 2]| before.matches(brackets).count();
    if count(['{', '[']) <= count(['}', ']']) {
        return text;
    }
    let mut inside = false;
    let mut rest = text.char_indices().peekable();
    while let Some((at, letter)) = rest.next() {
        let doubled = rest.peek().is_some_and(|(_, next)| *next == letter);
        match letter {
            '{' if doubled => inside = true,
            '}' if doubled && inside => {
                inside = false;
                rest.next();
            }
            ',' | '}' | ']' if !inside => return text.get(..at).unwrap_or(text).trim_end(),
            _ => {}
        }
    }
    text
}

/// Plain words for what the parser says, with advice where the cause is known.
pub(super) fn explain(kind: &str, line: &str, before: &str) -> (String, Option<&'static str>) {
    let tab = line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t');
    let help = if tab {
        Some("indent with spaces; YAML allows no tabs")
    } else if kind.contains("mapping values")
        || before.matches(": ").count() > 0 && kind.contains("simple key")
    {
        Some("a value that holds `: ` must be quoted")
    } else if kind.contains("quote") {
        Some("close the quote; in single quotes a quote is written twice")
    } else if kind.contains("unknown anchor") {
        Some("an alias `*name` needs an anchor `&name` before it in the same document")
    } else if kind.contains("bracket") || kind.contains("flow") {
        Some("check the brackets and commas; text with brackets or commas must be quoted")
    } else if kind.contains("block") || kind.contains("indent") {
        Some("check the indentation: the keys of a map and the items of a list start in the same column")
    } else {
        None
    };
    (format!("invalid YAML: {kind}"), help)
}

/// A tag as core name (`str`, `int` …) or as a tag of its own (`!vault`).
pub(super) fn split_tag(tag: Option<&Tag>) -> (Option<String>, Option<String>) {
    let Some(tag) = tag else { return (None, None) };
    let full = format!("{}{}", tag.handle(), tag.suffix());
    match full.strip_prefix("tag:yaml.org,2002:") {
        Some(name @ ("str" | "int" | "float" | "bool" | "null" | "map" | "seq")) => {
            (Some(name.to_owned()), None)
        }
        Some(name) => (None, Some(format!("!!{name}"))),
        None if full == "!" => (Some("str".to_owned()), None),
        None => (None, Some(full)),
    }
}

/// Levels of lists and maps below a node, itself included.
pub(super) fn depth_of(node: &Node) -> usize {
    match &node.value {
        Value::List(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Map(entries) => 1 + entries.iter().map(|(_, value)| depth_of(value)).max().unwrap_or(0),
        _ => 0,
    }
}

impl<'t> Composer<'t> {
    /// The `{{ … }}` that starts where a flow map starts, up to the end of its line at most.
    pub(super) fn expression(&self, start: &Span) -> Option<Span> {
        let rest = self.source.text().get(start.start..)?;
        let line = rest.lines().next()?;
        if !line.starts_with("{{") {
            return None;
        }
        let length = line.find("}}").map_or(line.trim_end().len(), |at| at + 2);
        Some(Span::new(self.source.clone(), start.start, start.start + length))
    }

    pub(super) fn unquoted(&mut self, expression: &Span) {
        let line = self.source.line_text(expression.line()).unwrap_or_default();
        let column = line.find(expression.text()).unwrap_or(0);
        let whole = line.get(column..).unwrap_or_default().trim_end();
        let whole = whole.split(" #").next().unwrap_or(whole).trim_end();
        let whole = flow_value(line.get(..column).unwrap_or_default(), whole);
        let quoted = if whole.contains('"') { format!("'{whole}'") } else { format!("\"{whole}\"") };
        self.error(
            "unquoted-expression",
            "an expression must be quoted: YAML reads `{` as the start of a map",
            expression,
            Some(&format!("quote the expression: {quoted}")),
        );
    }

    pub(super) fn syntax_error(&mut self, error: &ScanError) {
        let text = self.source.text();
        let marker = error.marker();
        let at = marker.byte_offset().unwrap_or_else(|| {
            text.char_indices().nth(marker.index()).map_or(text.len(), |(offset, _)| offset)
        });
        let length = text
            .get(at..)
            .and_then(|rest| rest.chars().next())
            .filter(|c| *c != '\n')
            .map_or(0, char::len_utf8);
        self.stopped = Some(at);
        let mut span = Span::new(self.source.clone(), at, at + length);
        let line = span.line();
        // An unquoted expression often breaks the syntax further on, sometimes before its map was read.
        if self.found.iter().any(|known| {
            known.code == "unquoted-expression"
                && known.span().is_some_and(|span| line.abs_diff(span.line()) <= 1)
        }) {
            return;
        }
        for near in [line, line.saturating_sub(1)] {
            if let Some(expression) = self.expression_on(near) {
                return self.unquoted(&expression);
            }
        }
        // The parser complains of a tab at the end of the line before it.
        let kind = error.kind().to_string();
        if let Some(tab) = self.indenting_tab(line).filter(|_| kind.contains("tab")) {
            span = tab;
        }
        let shown = self.source.line_text(span.line()).unwrap_or_default();
        let before = shown
            .char_indices()
            .nth(span.column().saturating_sub(1))
            .map_or(shown, |(at, _)| shown.get(..at).unwrap_or(shown));
        let (message, help) = explain(&kind, shown, before);
        self.error("syntax", message, &span, help);
    }

    /// The first tab that indents a line, on this line or one of the next two.
    pub(super) fn indenting_tab(&self, line: usize) -> Option<Span> {
        (line..line + 3).find_map(|line| {
            let text = self.source.line_text(line)?;
            let indent = text.get(..text.len() - text.trim_start().len())?;
            let at = self.source.line_start(line)? + indent.find('\t')?;
            Some(Span::new(self.source.clone(), at, at + 1))
        })
    }

    /// An expression that stands unquoted as the start of a value on a line.
    pub(super) fn expression_on(&self, line: usize) -> Option<Span> {
        let text = self.source.line_text(line)?;
        let column = [": {{", "- {{"].iter().filter_map(|lead| text.find(lead)).min()? + 2;
        let start = self.source.line_start(line)? + column;
        self.expression(&Span::new(self.source.clone(), start, start))
    }
}
