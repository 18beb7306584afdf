//! Host patterns: `a:b`, `a,&b,!c`, globs, `~regex`, `g[0]`, `g[0:2]`, as `ansible/inventory/manager.py` has them.

use std::collections::HashSet;

use camino::Utf8Path;
use converge_syntax::{Diagnostic, Diagnostics, Node, Span, Value, did_you_mean};
use regex::Regex;

use super::Inventory;
use super::address::parse_address;
use super::graph::{Graph, HostId, LOCALHOST};

/// The hosts that a pattern selects.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Host names, each once, in Ansible's order. May be an implicit `localhost`.
    pub hosts: Vec<String>,
    /// Parts of the pattern that matched nothing, and the like.
    pub warnings: Diagnostics,
}

/// Splits a pattern at commas, or at colons where it is no address or range.
#[must_use]
pub fn split_pattern(pattern: &str) -> Vec<&str> {
    let parts: Vec<&str> = if pattern.contains(',') {
        pattern.split(',').collect()
    } else if parse_address(pattern, true).is_some() {
        vec![pattern]
    } else {
        split_at_colons(pattern)
    };
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Stretches without white space, colons and brackets, but for whole bracketed expressions.
fn split_at_colons(pattern: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = None;
    let mut at = 0;
    while let Some(c) = pattern.get(at..).and_then(|rest| rest.chars().next()) {
        let width = match c {
            '[' => pattern.get(at..).and_then(|rest| rest.find(']')).map(|close| close + 1),
            ':' | ']' => None,
            c if c.is_whitespace() => None,
            c => Some(c.len_utf8()),
        };
        match width {
            Some(width) => {
                start.get_or_insert(at);
                at += width;
            }
            None => {
                if let Some(from) = start.take() {
                    parts.extend(pattern.get(from..at));
                }
                at += c.len_utf8();
            }
        }
    }
    if let Some(from) = start {
        parts.extend(pattern.get(from..));
    }
    parts
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Subscript {
    Index(i64),
    Slice(usize, Option<usize>),
}

/// `expr[subscript]`; the second value is the deprecated `[x-y]` form.
fn split_subscript(pattern: &str) -> (&str, Option<Subscript>, bool) {
    let none = (pattern, None, false);
    if pattern.starts_with('~') {
        return none;
    }
    let Some((expr, inner)) = pattern.strip_suffix(']').and_then(|head| head.rsplit_once('[')) else {
        return none;
    };
    if expr.is_empty() {
        return none;
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits(inner.strip_prefix('-').unwrap_or(inner)) {
        return inner.parse().map_or(none, |index| (expr, Some(Subscript::Index(index)), false));
    }
    for separator in [':', '-'] {
        if let Some((start, end)) = inner.split_once(separator)
            && digits(start)
            && (end.is_empty() || digits(end))
        {
            let Ok(start) = start.parse() else {
                return none;
            };
            let end = match end.parse() {
                Ok(end) => Some(end),
                Err(_) if end.is_empty() => None,
                Err(_) => return none,
            };
            return (expr, Some(Subscript::Slice(start, end)), separator == '-');
        }
    }
    none
}

/// A glob of Python's `fnmatch` as a regular expression over the whole text.
fn glob_to_regex(glob: &str) -> String {
    let chars: Vec<char> = glob.chars().collect();
    let mut out = String::from("(?s)\\A");
    let mut at = 0;
    while let Some(c) = chars.get(at).copied() {
        at += 1;
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '[' => {
                let mut close = at;
                if chars.get(close) == Some(&'!') {
                    close += 1;
                }
                if chars.get(close) == Some(&']') {
                    close += 1;
                }
                while chars.get(close).is_some_and(|c| *c != ']') {
                    close += 1;
                }
                if close >= chars.len() {
                    out.push_str("\\[");
                } else {
                    out.push_str(&class(chars.get(at..close).unwrap_or(&[])));
                    at = close + 1;
                }
            }
            c => out.push_str(&regex::escape(&c.to_string())),
        }
    }
    out.push_str("\\z");
    out
}

/// The inside of `[…]`; ranges that run backwards are dropped, as in Python.
fn class(inside: &[char]) -> String {
    let (negated, inside) = match inside {
        ['!', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut items = String::new();
    let mut at = 0;
    while let Some(first) = inside.get(at).copied() {
        if inside.get(at + 1) == Some(&'-')
            && let Some(last) = inside.get(at + 2).copied()
        {
            if first <= last {
                items.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", first as u32, last as u32));
            }
            at += 3;
        } else {
            items.push_str(&format!("\\x{{{:x}}}", first as u32));
            at += 1;
        }
    }
    match (items.is_empty(), negated) {
        (true, true) => ".".to_owned(),
        // A class that holds nothing.
        (true, false) => "[^\\s\\S]".to_owned(),
        (false, true) => format!("[^{items}]"),
        (false, false) => format!("[{items}]"),
    }
}

enum Matcher {
    Exact(String),
    Regex(Regex),
}

impl Matcher {
    fn new(expr: &str) -> Result<Self, regex::Error> {
        let source = match expr.strip_prefix('~') {
            Some(regex) => format!("\\A(?:{regex})"),
            None if !expr.contains(['*', '?', '[']) => return Ok(Self::Exact(expr.to_owned())),
            None => glob_to_regex(expr),
        };
        Regex::new(&source).map(Self::Regex)
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(expected) => expected == text,
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

/// A selected host: one of the inventory, or the implicit `localhost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SelectedHost {
    Host(HostId),
    /// Index into [`LOCALHOST`].
    Implicit(usize),
}

struct PatternEvaluation<'a> {
    graph: &'a Graph,
    diagnostics: Diagnostics,
    /// A part that matches nothing is an error (`--limit`) and not a warning.
    strict: bool,
}

impl PatternEvaluation<'_> {
    /// The hosts of a list of parts: plain parts first, then `&`, then `!`.
    fn evaluate(&mut self, parts: &[(&str, Span)]) -> Vec<SelectedHost> {
        let sigil = |part: &str| part.chars().next();
        let mut hosts: Vec<SelectedHost> = Vec::new();
        let is_plain = |part: &str| !matches!(sigil(part), Some('&' | '!') | None);
        if !parts.iter().any(|(part, _)| is_plain(part))
            && let Some((_, at)) = parts.first()
        {
            hosts = self.one("all", at);
        }
        for (part, at) in parts.iter().filter(|(part, _)| is_plain(part)) {
            match self.graph.host_id(part) {
                Some(host) => hosts.push(SelectedHost::Host(host)),
                None => {
                    let more = self.one(part, at);
                    hosts.extend(more);
                }
            }
        }
        for (keep, mark) in [(true, '&'), (false, '!')] {
            for (part, at) in parts.iter().filter(|(part, _)| sigil(part) == Some(mark)) {
                let rest = part.get(1..).unwrap_or("");
                let these: HashSet<SelectedHost> = self.one(rest, at).into_iter().collect();
                hosts.retain(|host| these.contains(host) == keep);
            }
        }
        let mut observed = HashSet::new();
        hosts.retain(|host| observed.insert(*host));
        hosts
    }

    fn one(&mut self, part: &str, at: &Span) -> Vec<SelectedHost> {
        if part.is_empty() {
            self.diagnostics.push(
                Diagnostic::error("bad-pattern", "a host pattern is empty after `&` or `!`")
                    .at(at)
                    .help("write a group, a host or a glob after the sign"),
            );
            return Vec::new();
        }
        let (expr, subscript, old_form) = split_subscript(part);
        if old_form {
            self.diagnostics.push(
                Diagnostic::warning("pattern-subscript", format!("`{part}` uses `[x-y]`"))
                    .at(at)
                    .help("write [x:y]; both ends are included"),
            );
        }
        let hosts = self.matches(expr, at);
        if hosts.is_empty() {
            return hosts;
        }
        match subscript {
            None => hosts,
            Some(Subscript::Index(index)) => {
                let wanted = if index < 0 {
                    usize::try_from(index.unsigned_abs()).ok().and_then(|back| hosts.len().checked_sub(back))
                } else {
                    usize::try_from(index).ok()
                };
                match wanted.and_then(|index| hosts.get(index)) {
                    Some(host) => vec![*host],
                    None => {
                        self.diagnostics.push(
                            Diagnostic::error(
                                "pattern-subscript",
                                format!("`{part}` asks for a host that `{expr}` does not have"),
                            )
                            .label(
                                at,
                                format!(
                                    "`{expr}` has {}, counted from 0",
                                    converge_resource::counted(hosts.len(), "host")
                                ),
                            )
                            .help("write a smaller number, or -1 for the last one"),
                        );
                        Vec::new()
                    }
                }
            }
            Some(Subscript::Slice(start, end)) => {
                // An end of 0 reads as no end in Ansible: `g[0:0]` is the host at the start.
                let end = match end {
                    Some(0) => start,
                    Some(end) => end,
                    None => hosts.len() - 1,
                };
                if end == start {
                    return match hosts.get(start) {
                        Some(host) => vec![*host],
                        None => Vec::new(),
                    };
                }
                let end = end.saturating_add(1).min(hosts.len());
                hosts.get(start..end.max(start)).unwrap_or(&[]).to_vec()
            }
        }
    }

    /// Groups whose name matches, with all their hosts; hosts too for globs, regexes and names with a point.
    fn matches(&mut self, expr: &str, at: &Span) -> Vec<SelectedHost> {
        let matcher = match Matcher::new(expr) {
            Ok(matcher) => matcher,
            Err(error) => {
                // The lines before the last one show the expression, which this message names itself.
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                self.diagnostics.push(
                    Diagnostic::error(
                        "bad-pattern",
                        format!("the host pattern `{expr}` cannot be read: {reason}"),
                    )
                    .at(at)
                    .help("look-around and back-references are not available in `~regex` patterns"),
                );
                return Vec::new();
            }
        };
        let mut hosts = Vec::new();
        let mut any_group = false;
        for (id, group) in self.graph.groups.iter().enumerate() {
            if matcher.matches(&group.name) {
                any_group = true;
                hosts.extend(self.graph.hosts_of(id).into_iter().map(SelectedHost::Host));
            }
        }
        if !any_group || expr.starts_with('~') || expr.contains(['.', '?', '*', '[']) {
            hosts.extend(
                self.graph
                    .hosts
                    .iter()
                    .enumerate()
                    .filter(|(_, host)| matcher.matches(&host.name))
                    .map(|(id, _)| SelectedHost::Host(id)),
            );
        }
        if hosts.is_empty()
            && let Some(index) = LOCALHOST.iter().position(|name| *name == expr)
        {
            hosts.push(self.graph.localhost.map_or(SelectedHost::Implicit(index), SelectedHost::Host));
        }
        if hosts.is_empty() && !any_group && expr != "all" {
            self.diagnostics.push(self.nothing(expr, at));
        }
        hosts
    }

    fn nothing(&self, expr: &str, at: &Span) -> Diagnostic {
        let message = format!("no host or group matches `{expr}`");
        let diagnostic = if self.strict {
            Diagnostic::error("unknown-host", message)
        } else {
            Diagnostic::warning("unknown-host", message)
        };
        let names = self.graph.groups.iter().map(|group| group.name.as_str());
        let names = names.chain(self.graph.hosts.iter().map(|host| host.name.as_str()));
        let help = match did_you_mean(expr, names) {
            Some(name) => Some(format!("did you mean `{name}`?")),
            // The parts of a pattern with commas are not split at colons.
            None if expr.contains(':') => Some("commas and colons do not mix: write `a:b:!c`".to_owned()),
            None if self.strict => {
                Some("`converge inventory INVENTORY --graph` lists hosts and groups".to_owned())
            }
            None => None,
        };
        diagnostic.at(at).help_if(help)
    }
}

/// The place of one part inside the value that it was split from.
fn span_of(part: &str, whole: &Span) -> Span {
    match whole.text().find(part) {
        Some(at) => Span::new(whole.source.clone(), whole.start + at, whole.start + at + part.len()),
        None => whole.clone(),
    }
}

impl Inventory {
    /// The hosts of a pattern, which is a string or a list of strings as in `hosts:` of a play.
    ///
    /// # Errors
    /// A pattern that is not a string, a regular expression that cannot be read, an index that a group does not have.
    pub fn select(&self, pattern: &Node) -> Result<Selection, Diagnostics> {
        let items = match &pattern.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(pattern),
        };
        let mut diagnostics = Diagnostics::new();
        let mut parts = Vec::new();
        for item in items {
            match item.as_str() {
                Some(text) => parts
                    .extend(split_pattern(text).into_iter().map(|part| (part, span_of(part, &item.span)))),
                None => diagnostics.push(
                    Diagnostic::error(
                        "bad-pattern",
                        format!("a host pattern must be a string, this is {}", item.value.kind()),
                    )
                    .at(&item.span),
                ),
            }
        }
        self.pick(&parts, false, diagnostics)
    }

    /// The hosts of `--limit`; parts that begin with `@` name a file with one pattern a line.
    ///
    /// # Errors
    /// As [`Inventory::select`]; also a part that matches nothing, and a file that cannot be read.
    pub fn select_limit(&self, text: &str, directory: &Utf8Path) -> Result<Selection, Diagnostics> {
        let source = converge_syntax::Source::new("--limit", text);
        let whole = Span::whole(source);
        let mut diagnostics = Diagnostics::new();
        let mut files = Vec::new();
        let mut parts = Vec::new();
        for part in split_pattern(text) {
            match part.strip_prefix('@') {
                None => parts.push((part, span_of(part, &whole))),
                Some(file) => match converge_syntax::Source::read(directory.join(file).as_std_path()) {
                    Ok(source) => files.push(source),
                    Err(error) => diagnostics.push(
                        Diagnostic::error(
                            "limit-file",
                            format!("the limit file `{file}` cannot be read: {error}"),
                        )
                        .at(&span_of(part, &whole))
                        .help("a part that begins with @ names a file with one host pattern a line"),
                    ),
                },
            }
        }
        for source in &files {
            let mut start = 0;
            for line in source.text().split('\n') {
                let part = line.trim();
                if !part.is_empty() {
                    let at = start + (line.len() - line.trim_start().len());
                    parts.push((part, Span::new(source.clone(), at, at + part.len())));
                }
                start += line.len() + 1;
            }
        }
        self.pick(&parts, true, diagnostics)
    }

    fn pick(
        &self,
        parts: &[(&str, Span)],
        strict: bool,
        diagnostics: Diagnostics,
    ) -> Result<Selection, Diagnostics> {
        let mut evaluation = PatternEvaluation { graph: &self.graph, diagnostics, strict };
        let picked = evaluation.evaluate(parts);
        let hosts = picked
            .into_iter()
            .filter_map(|host| match host {
                SelectedHost::Host(id) => self.graph.hosts.get(id).map(|host| host.name.clone()),
                SelectedHost::Implicit(index) => LOCALHOST.get(index).map(|name| (*name).to_owned()),
            })
            .collect();
        let diagnostics = evaluation.diagnostics;
        if diagnostics.has_errors() {
            return Err(diagnostics);
        }
        Ok(Selection { hosts, warnings: diagnostics })
    }
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
