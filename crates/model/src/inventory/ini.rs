//! The INI format of inventories: `[group]`, `[group:vars]`, `[group:children]`.
//!
//! Facts: `ansible/plugins/inventory/ini.py`. Values of host lines go through [`super::shlex`] and
//! [`literal`](super::literal), values of `:vars` sections through the latter alone.

use std::collections::HashMap;
use std::sync::Arc;

use converge_syntax::{Diagnostic, Source, Span, did_you_mean};

use super::build::{Builder, span};
use super::graph::{Assignment, GroupId, UNGROUPED};
use super::literal::value_of;
use super::shlex;

#[derive(Clone, Copy, PartialEq)]
enum IniSection {
    Hosts,
    Vars,
    Children,
    /// After a header that cannot be read: its lines are passed over.
    Skipped,
}

/// A group that a section needs and no section has declared yet.
struct PendingGroup {
    at: Span,
    kind: IniSection,
    parents: Vec<(GroupId, Span)>,
}

struct IniReader<'a> {
    builder: &'a mut Builder,
    source: &'a Arc<Source>,
    pending: HashMap<String, PendingGroup>,
    order: Vec<String>,
    group: GroupId,
    section: IniSection,
}

/// Reads INI text into the builder; diagnostics go to its diagnostics.
pub(super) fn read(builder: &mut Builder, source: &Arc<Source>) {
    let mut reader = IniReader {
        builder,
        source,
        pending: HashMap::new(),
        order: Vec::new(),
        group: UNGROUPED,
        section: IniSection::Hosts,
    };
    for (start, line) in lines(source.content()) {
        let text = line.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        let start = start + (line.len() - line.trim_start().len());
        reader.line(text, start);
    }
    reader.unresolved();
}

/// Lines with their byte offsets, split as Python's `str.splitlines` splits.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    const ENDS: [char; 10] =
        ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    let mut start = 0;
    text.split(ENDS).map(move |line| {
        let at = start;
        let end = at + line.len();
        start = end + text.get(end..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        (at, line)
    })
}

/// `[name]` or `[name:kind]` with an optional comment behind: name, kind and the offset of the kind.
fn header(text: &str) -> Option<(&str, Option<&str>)> {
    let (inner, after) = text.strip_prefix('[')?.split_once(']')?;
    let after = after.trim_start();
    if !(after.is_empty() || after.starts_with('#')) {
        return None;
    }
    let (name, kind) = match inner.split_once(':') {
        Some((name, kind)) => (name, Some(kind)),
        None => (inner, None),
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return None;
    }
    if kind.is_some_and(|kind| kind.is_empty() || !kind.chars().all(|c| c == '_' || c.is_alphanumeric())) {
        return None;
    }
    Some((name, kind))
}

impl IniReader<'_> {
    fn span(&self, start: usize, text: &str) -> Span {
        span(self.source, start, start + text.len())
    }

    fn line(&mut self, text: &str, start: usize) {
        let at = self.span(start, text);
        if let Some((name, kind)) = header(text) {
            self.header(name, kind, start);
            return;
        }
        if text.starts_with('[') && text.ends_with(']') {
            self.section = IniSection::Skipped;
            self.builder.error(
                "bad-section",
                format!("`{text}` is not a section header"),
                &at,
                "write [group], [group:children] or [group:vars], without white space",
            );
            return;
        }
        match self.section {
            IniSection::Hosts => self.host(text, start),
            IniSection::Vars => self.variable(text, start),
            IniSection::Children => self.child(text, start),
            IniSection::Skipped => {}
        }
    }

    fn header(&mut self, name: &str, kind: Option<&str>, start: usize) {
        let at = self.span(start + 1, name);
        self.section = match kind {
            None | Some("hosts") => IniSection::Hosts,
            Some("vars") => IniSection::Vars,
            Some("children") => IniSection::Children,
            Some(other) => {
                self.section = IniSection::Skipped;
                let kind_at = self.span(start + 2 + name.len(), other);
                let guess = did_you_mean(other, ["hosts", "vars", "children"]);
                self.builder.diagnostics.push(
                    Diagnostic::error(
                        "bad-section",
                        format!("the section [{name}:{other}] has an unknown kind"),
                    )
                    .label(&kind_at, "neither `vars` nor `children`")
                    .help(match guess {
                        Some(guess) => format!("did you mean [{name}:{guess}]?"),
                        None => format!("write [{name}], [{name}:children] or [{name}:vars]"),
                    }),
                );
                return;
            }
        };
        if self.builder.graph.group_id(name).is_none() {
            if self.section == IniSection::Vars && !self.pending.contains_key(name) {
                self.wait(name, &at, IniSection::Vars, None);
            }
            self.builder.group(name, &at);
        }
        self.group = self.builder.group(name, &at);
        if self.section != IniSection::Vars {
            self.declared(name);
        }
    }

    fn wait(&mut self, name: &str, at: &Span, kind: IniSection, parent: Option<GroupId>) {
        let pending = self.pending.entry(name.to_owned()).or_insert_with(|| {
            self.order.push(name.to_owned());
            PendingGroup { at: at.clone(), kind, parents: Vec::new() }
        });
        pending.parents.extend(parent.map(|parent| (parent, at.clone())));
    }

    /// A group is declared: whoever waited for it as a child gets it.
    fn declared(&mut self, name: &str) {
        let mut queue = vec![name.to_owned()];
        while let Some(name) = queue.pop() {
            let Some(pending) = self.pending.remove(&name) else {
                continue;
            };
            if pending.kind != IniSection::Children {
                continue;
            }
            let Some(id) = self.builder.graph.group_id(&name) else {
                continue;
            };
            for (parent, at) in pending.parents {
                self.builder.child(parent, id, &at);
                let parent = self.builder.graph.group_name(parent);
                if self.pending.get(&parent).is_some_and(|pending| pending.kind == IniSection::Children) {
                    queue.push(parent);
                }
            }
        }
    }

    fn unresolved(&mut self) {
        for name in std::mem::take(&mut self.order) {
            let Some(pending) = self.pending.remove(&name) else {
                continue;
            };
            let known: Vec<String> = self
                .builder
                .graph
                .groups
                .iter()
                .map(|group| group.name.clone())
                .filter(|known| *known != name)
                .collect();
            let guess = did_you_mean(&name, known.iter().map(String::as_str));
            let help = guess.map_or_else(
                || format!("add a section [{name}]; it may be empty"),
                |guess| format!("did you mean `{guess}`? Else add a section [{name}]; it may be empty"),
            );
            let message = match pending.kind {
                IniSection::Vars => format!("[{name}:vars] sets variables of a group that is not declared"),
                _ => format!("`{name}` is a child but no section declares this group"),
            };
            self.builder.error("unknown-group", message, &pending.at, &help);
        }
    }

    fn host(&mut self, text: &str, start: usize) {
        let words = match shlex::split(text, true) {
            Ok(words) => words,
            Err(unclosed) => {
                let at = span(self.source, start + unclosed.range.start, start + unclosed.range.end);
                let (message, help) = match unclosed.what {
                    '\\' => ("the line ends in a backslash".to_owned(), "write \\\\ for a backslash"),
                    quote => {
                        (format!("the quote {quote} is not closed"), "close it, or put a backslash before it")
                    }
                };
                self.builder.error("bad-quoting", message, &at, help);
                return;
            }
        };
        let Some((first, rest)) = words.split_first() else {
            return;
        };
        let at = |range: &std::ops::Range<usize>| span(self.source, start + range.start, start + range.end);
        let host_at = at(&first.range);
        let mut assignments = Vec::new();
        for word in rest {
            let word_at = at(&word.range);
            let Some((name, value)) = word.text.split_once('=') else {
                self.builder.error(
                    "bad-variable",
                    format!("`{}` is not a variable", word.text),
                    &word_at,
                    "write host variables as name=value; quote a value that holds white space",
                );
                continue;
            };
            // The name stands unquoted in nearly every file; else the whole word is the place.
            let key_end = word.range.start + name.len();
            let plain = text.get(word.range.start..key_end) == Some(name);
            let (key, value_at) = if plain {
                (at(&(word.range.start..key_end)), at(&(key_end + 1..word.range.end)))
            } else {
                (word_at.clone(), word_at)
            };
            self.builder.check_name(name, &key);
            assignments.push(Assignment { name: name.to_owned(), key, node: value_of(value, &value_at) });
        }
        if first.text.trim_end().ends_with(':') {
            self.builder.error(
                "bad-host",
                format!("the host `{}` ends in a colon", first.text),
                &host_at,
                "write host:port, or save YAML with the ending .yaml",
            );
            return;
        }
        if first.text.trim() == "---" {
            self.builder.error(
                "bad-host",
                "`---` begins a YAML file",
                &host_at,
                "save YAML with the ending .yaml",
            );
            return;
        }
        let Some(hosts) = self.builder.hosts(&first.text, self.group, &host_at) else {
            return;
        };
        for host in hosts {
            for assignment in &assignments {
                self.builder.host_var(host, assignment.clone());
            }
        }
    }

    fn variable(&mut self, text: &str, start: usize) {
        let Some((left, right)) = text.split_once('=') else {
            let at = self.span(start, text);
            self.builder.error(
                "bad-variable",
                format!("`{text}` is not a variable"),
                &at,
                "write name=value",
            );
            return;
        };
        let name = left.trim();
        let value = right.trim();
        let key = self.span(start, name);
        let value_start = start + left.len() + 1 + (right.len() - right.trim_start().len());
        let value_at = self.span(value_start, value);
        self.builder.check_name(name, &key);
        let assignment = Assignment { name: name.to_owned(), key, node: value_of(value, &value_at) };
        self.builder.group_var(self.group, assignment);
    }

    fn child(&mut self, text: &str, start: usize) {
        // As in Ansible, a comment begins behind white space: `web#1` is a name.
        let name = text.split(char::is_whitespace).next().unwrap_or(text);
        let after = text.get(name.len()..).unwrap_or("").trim_start();
        let at = self.span(start, text);
        if name.contains([':', ']']) || !(after.is_empty() || after.starts_with('#')) {
            self.builder.error(
                "bad-child",
                format!("`{text}` is not the name of a group"),
                &at,
                "write one group a line; variables of a group go into its [group:vars] section",
            );
            return;
        }
        let at = self.span(start, name);
        match self.builder.graph.group_id(name) {
            Some(child) => self.builder.child(self.group, child, &at),
            None => {
                let parent = self.group;
                self.wait(name, &at, IniSection::Children, Some(parent));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_text(text: &str) -> Builder {
        let mut builder = Builder::new(&crate::vault::Vault::default());
        read(&mut builder, &Source::new("hosts", text));
        builder
    }

    #[test]
    fn every_mistake_is_reported_with_its_line() {
        let builder = read_text(
            "ok ansible_host=10.0.0.1\nbad[1:3\nx=1 y\nweb foo\nq v='1\n[web:var]\nskipped without complaint\n[a b]\n\
             [p:vars]\nnothing\n[c:children]\nmissing\nweb x=1\n",
        );
        let observed: Vec<(usize, &str)> =
            builder.diagnostics.iter().map(|d| (d.span().map_or(0, Span::line), d.code)).collect();
        assert_eq!(
            observed,
            [
                (2, "bad-range"),
                (3, "bad-variable"),
                (4, "bad-variable"),
                (5, "bad-quoting"),
                (6, "bad-section"),
                (8, "bad-section"),
                (10, "bad-variable"),
                (13, "bad-child"),
                (9, "unknown-group"),
                (12, "unknown-group"),
            ]
        );
        assert!(builder.diagnostics.iter().all(|d| d.help.is_some()));
    }

    #[test]
    fn spans_cover_names_and_values() {
        let builder = read_text("h1 a=1 b='x y'\n[g:vars]\n k =  [1, 2] # c\n[g]\n");
        let host = &builder.graph.hosts[0];
        let texts: Vec<(&str, &str)> = host.vars.iter().map(|v| (v.key.text(), v.node.span.text())).collect();
        assert_eq!(texts, [("a", "1"), ("b", "'x y'")]);
        let group = &builder.graph.groups[2];
        assert_eq!(group.vars[0].key.text(), "k");
        assert_eq!(group.vars[0].node.span.line(), 3);
        assert_eq!(group.vars[0].node.to_json(), serde_json::json!([1, 2]));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[a-c1\\[\\]:='\"\\\\# \n\u{2028}é;]{0,80}") {
            let builder = read_text(&text);
            for diagnostic in &builder.diagnostics {
                let at = diagnostic.span().unwrap();
                prop_assert!(text.get(at.start..at.end).is_some());
            }
        }

        #[test]
        fn lines_are_where_they_say(text in "[ab\n\r\u{2028}é]{0,30}") {
            for (start, line) in lines(&text) {
                prop_assert_eq!(text.get(start..start + line.len()), Some(line));
            }
        }
    }
}
