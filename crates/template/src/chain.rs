//! `a.b.c | default(x)` where `a.b` is undefined: Ansible takes the default, and so must we, while every other use of it stays an error.
//!
//! minijinja refuses an attribute of an undefined value before a filter is asked. So a template that fails in this way is
//! compiled once more, with the chains that `default` or `is defined` follows written as calls: `__dig(a, "b", "c")`.
//!
//! `'\1'` and `'\b'` in an expression of a value mean themselves in Ansible (a group, the edge of a word) and other characters in Jinja: their
//! backslash is doubled before the expression is compiled.

use std::ops::Range;

use crate::registry::Registry;
use minijinja::value::{Rest, ValueKind};
use minijinja::{Error, Value};

pub(crate) fn install(env: &mut Registry<'_>) {
    env.add_function(DIG, |base: Value, keys: Rest<Value>| {
        keys.iter().try_fold(base, |value, key| {
            if matches!(value.kind(), ValueKind::Undefined) {
                Ok::<_, Error>(Value::UNDEFINED)
            } else {
                value.get_item(key)
            }
        })
    });
}

/// The name of the function that chains become.
pub(crate) const DIG: &str = "__dig";

/// A text with its chains rewritten, and where each was.
pub(crate) struct RewrittenText {
    pub text: String,
    /// The bytes before, and the bytes after, of each edit.
    edits: Vec<(Range<usize>, Range<usize>)>,
    /// The earlier rewriting that this one was applied to.
    before: Option<Box<RewrittenText>>,
}

impl RewrittenText {
    /// The bytes of the text as it was written.
    pub fn original(&self, range: Range<usize>) -> Range<usize> {
        let place = |at: usize, end: bool| {
            let mut shift = 0_isize;
            for (before, after) in &self.edits {
                if at <= after.start {
                    break;
                }
                if at < after.end {
                    return if end { before.end } else { before.start };
                }
                shift = before.end as isize - after.end as isize;
            }
            at.saturating_add_signed(shift)
        };
        let range = place(range.start, false)..place(range.end, true);
        match &self.before {
            Some(before) => before.original(range),
            None => range,
        }
    }

    /// The text as it is compiled, what was rewritten before included: with what each operator makes looked at.
    pub fn guarded(text: &str, before: Option<Self>, bare: bool) -> Option<Self> {
        let whole = before.as_ref().map_or(text, |before| before.text.as_str());
        let guards = crate::guards::guards(whole, bare);
        if guards.is_empty() {
            return before;
        }
        let mut out = Self { text: String::with_capacity(whole.len() * 2), edits: Vec::new(), before: None };
        let mut done = 0;
        for (replaced, more) in guards {
            out.text.push_str(whole.get(done..replaced.start)?);
            let start = out.text.len();
            out.text.push_str(&more);
            done = replaced.end;
            out.edits.push((replaced, start..out.text.len()));
        }
        out.text.push_str(whole.get(done..)?);
        out.before = before.map(Box::new);
        Some(out)
    }
}

/// The rewritings to make.
#[derive(Clone, Copy)]
pub(crate) struct Rewritings {
    /// The text is one expression, without `{{ }}`.
    pub bare: bool,
    pub chains: bool,
    pub backslashes: bool,
}

/// Makes these rewritings; `None` if the text needs none.
pub(crate) fn rewrite(text: &str, wanted: Rewritings) -> Option<RewrittenText> {
    let mut out = RewrittenText { text: String::new(), edits: Vec::new(), before: None };
    let mut done = 0;
    for (chain, call) in edits(text, wanted) {
        out.text.push_str(text.get(done..chain.start)?);
        let start = out.text.len();
        out.text.push_str(&call);
        done = chain.end;
        out.edits.push((chain, start..out.text.len()));
    }
    out.text.push_str(text.get(done..)?);
    (!out.edits.is_empty()).then_some(out)
}

/// Every edit: the bytes, and what they become.
fn edits(text: &str, wanted: Rewritings) -> Vec<(Range<usize>, String)> {
    let bare = wanted.bare;
    let mut found = Vec::new();
    let mut at = 0;
    let mut inside = bare;
    let mut after_dot = false;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if !inside {
            let Some(open) = rest.find('{') else { break };
            at += open;
            let rest = text.get(at..).unwrap_or_default();
            if rest.starts_with("{#") {
                at += rest.find("#}").map_or(rest.len(), |end| end + 2);
            } else if rest.starts_with("{%") && is_raw(rest) {
                at += rest.find("endraw").map_or(rest.len(), |end| end);
            } else if rest.starts_with("{{") || rest.starts_with("{%") {
                at += 2;
                inside = true;
            } else {
                at += 1;
            }
            continue;
        }
        let Some(c) = rest.chars().next() else { break };
        if !bare && (rest.starts_with("}}") || rest.starts_with("%}")) {
            inside = false;
            at += 2;
        } else if c == '\'' || c == '"' {
            let length = quoted(rest);
            if wanted.backslashes {
                let literal = rest.get(..length).unwrap_or_default();
                found.extend(
                    backslashes(literal).map(|place| (at + place..at + place + 1, "\\\\".to_owned())),
                );
            }
            at += length;
        } else if c.is_alphabetic() || c == '_' {
            let name = word(rest);
            match chain(text, at, at + name).filter(|_| wanted.chains && !after_dot) {
                Some((end, call)) => {
                    found.push((at..end, call));
                    at = end;
                }
                None => at += name,
            }
        } else {
            at += c.len_utf8();
        }
        after_dot = c == '.';
    }
    found
}

/// The backslashes of a quoted text that stand before a digit or a `b`.
fn backslashes(literal: &str) -> impl Iterator<Item = usize> + '_ {
    let mut escaped = false;
    literal.char_indices().filter_map(move |(at, c)| {
        if escaped {
            escaped = false;
            return (c == 'b' || ('1'..='9').contains(&c)).then(|| at - 1);
        }
        escaped = c == '\\';
        None
    })
}

fn is_raw(tag: &str) -> bool {
    tag.trim_start_matches("{%").trim_start_matches(['-', '+']).trim_start().starts_with("raw")
}

/// The length of a word.
fn word(text: &str) -> usize {
    text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len())
}

/// The length of a quoted text with its quotes.
pub(crate) fn quoted(text: &str) -> usize {
    let mut chars = text.char_indices();
    let Some((_, quote)) = chars.next() else { return 0 };
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// The end of the chain that begins with a name, and its call, where two or more steps and a guard follow.
fn chain(text: &str, start: usize, name_end: usize) -> Option<(usize, String)> {
    let mut keys: Vec<String> = Vec::new();
    let mut end = name_end;
    loop {
        let rest = text.get(end..)?;
        if let Some(after) = rest.strip_prefix('.') {
            let length = word(after);
            if length == 0 {
                return None;
            }
            let name = after.get(..length)?;
            keys.push(if name.bytes().all(|b| b.is_ascii_digit()) {
                name.to_owned()
            } else {
                format!("\"{name}\"")
            });
            end += 1 + length;
        } else if rest.starts_with('[') {
            let length = bracketed(rest)?;
            let key = rest.get(1..length - 1)?;
            // A slice is no key.
            if key.trim().is_empty() || has_colon(key) {
                return None;
            }
            keys.push(key.to_owned());
            end += length;
        } else {
            break;
        }
    }
    let base = text.get(start..name_end)?;
    let rest = text.get(end..)?.trim_start();
    (keys.len() > 1 && is_guard(rest)).then(|| (end, format!("{DIG}({base}, {})", keys.join(", "))))
}

fn is_guard(rest: &str) -> bool {
    let named = |rest: &str, names: &[&str]| {
        let rest = rest.trim_start();
        rest.get(..word(rest)).is_some_and(|name| names.contains(&name))
    };
    if let Some(filter) = rest.strip_prefix('|') {
        return named(filter, &["default", "d"]);
    }
    let Some(test) = rest.strip_prefix("is").filter(|test| test.starts_with(char::is_whitespace)) else {
        return false;
    };
    let test = test.trim_start();
    let test = test.strip_prefix("not").filter(|test| test.starts_with(char::is_whitespace)).unwrap_or(test);
    named(test, &["defined", "undefined"])
}

/// The length of `[…]` with its brackets.
fn bracketed(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let c = rest.chars().next()?;
        match c {
            '\'' | '"' => {
                at += quoted(rest);
                continue;
            }
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        at += c.len_utf8();
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn has_colon(key: &str) -> bool {
    let mut at = 0;
    while let Some(rest) = key.get(at..).filter(|rest| !rest.is_empty()) {
        match rest.chars().next() {
            Some('\'' | '"') => at += quoted(rest),
            Some(':') => return true,
            Some(c) => at += c.len_utf8(),
            None => break,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAINS: Rewritings = Rewritings { bare: false, chains: true, backslashes: false };

    #[test]
    fn groups_and_edges_of_words_keep_their_backslash() {
        let both = Rewritings { bare: false, chains: true, backslashes: true };
        for (text, wanted) in [
            (r"{{ x | r('\b(a)', '\1') }}", Some(r"{{ x | r('\\b(a)', '\\1') }}")),
            (r"{{ x | r('\\1') }}", None),
            (r"{{ '\n\d\'' }} '\1'", None),
            (r"{{ a.b.c | default('\1') }}", Some(r#"{{ __dig(a, "b", "c") | default('\\1') }}"#)),
        ] {
            assert_eq!(rewrite(text, both).map(|rewritten| rewritten.text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn guarded_chains_become_calls() {
        for (text, wanted) in [
            ("{{ a.b.c | default(1) }}", Some("{{ __dig(a, \"b\", \"c\") | default(1) }}")),
            ("x {{ a['k'].c|d('') }} {% if a.b.0 is not defined %}", Some("x {{ __dig(a, 'k', \"0\")")),
            ("{{ a[b['x']].c is undefined }}", Some("{{ __dig(a, b['x'], \"c\") is undefined }}")),
            ("{{ a.b | default(1) }}", None),
            ("{{ a.b.c }}", None),
            ("{{ a.b.c | upper }}", None),
            ("a.b.c | default(1) {{ x }}", None),
            ("{{ 'a.b.c | default(1)' }}", None),
            ("{# a.b.c | default(1) #}", None),
            ("{% raw %}{{ a.b.c | default(1) }}{% endraw %}", None),
            ("{{ a.f().b.c | default(1) }}", None),
            ("{{ a.b[1:2] | default(1) }}", None),
        ] {
            let got = rewrite(text, CHAINS).map(|rewritten| rewritten.text);
            match wanted {
                None => assert_eq!(got, None, "{text}"),
                Some(wanted) if wanted.starts_with('x') => {
                    assert_eq!(
                        got.as_deref(),
                        Some("x {{ __dig(a, 'k', \"c\")|d('') }} {% if __dig(a, \"b\", 0) is not defined %}")
                    );
                }
                Some(wanted) => assert_eq!(got.as_deref(), Some(wanted), "{text}"),
            }
        }
        assert_eq!(
            rewrite("a.b.c is defined", Rewritings { bare: true, ..CHAINS }).unwrap().text,
            "__dig(a, \"b\", \"c\") is defined"
        );
    }

    #[test]
    fn places_are_those_of_the_text_as_written() {
        let text = "{{ a.b.c | default(nope.x) }}";
        let rewritten = rewrite(text, CHAINS).unwrap();
        let at = rewritten.text.find("nope").unwrap();
        assert_eq!(text.get(rewritten.original(at..at + 4)), Some("nope"));
        let call = rewritten.text.find("__dig").unwrap();
        assert_eq!(text.get(rewritten.original(call + 2..call + 9)), Some("a.b.c"));
    }
}
