//! Python's regular expressions, look-around and back-references included (`fancy-regex`); a search that takes too many steps is an
//! error.

use fancy_regex::{Captures, Regex, RegexBuilder};
use minijinja::value::{Kwargs, Rest, ValueOrKwargs};
use minijinja::{Error, Value};

use super::{arguments, invalid};
use crate::bounds::{ELEMENTS, charge, check, makes};
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("regex_replace", regex_replace);
    env.add_filter("regex_search", regex_search);
    env.add_filter("regex_findall", regex_findall);
    env.add_filter("regex_escape", regex_escape);
}

/// A pattern with its flags.
pub(super) fn compile(pattern: &str, ignore_case: bool, multi_line: bool) -> Result<Regex, Error> {
    // Python writes the end of the text as `\Z`.
    let pattern = pattern.replace("\\Z", "\\z");
    RegexBuilder::new(&pattern)
        .case_insensitive(ignore_case)
        .multi_line(multi_line)
        .delegate_size_limit(4 << 20)
        .backtrack_limit(1_000_000)
        .build()
        .map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            invalid(format!("the pattern `{pattern}` is not valid: {reason}"))
        })
}

/// A search that gave up: look-around and back-references can take very long.
pub(super) fn gave_up(error: fancy_regex::Error) -> Error {
    invalid(format!("the search with this pattern gave up: {error}"))
}

pub(super) fn flags(kwargs: &Kwargs) -> Result<(bool, bool), Error> {
    let flag = |name: &str| Ok::<_, Error>(kwargs.get::<Option<bool>>(name)?.unwrap_or(false));
    Ok((flag("ignorecase")?, flag("multiline")?))
}

fn regex_replace(
    text: String,
    pattern: Option<String>,
    replacement: Option<String>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let (ignore_case, multi_line) = flags(&kwargs)?;
    let pattern = kwargs.get::<Option<String>>("pattern")?.or(pattern).unwrap_or_default();
    let replacement = kwargs.get::<Option<String>>("replacement")?.or(replacement).unwrap_or_default();
    let count = kwargs.get::<Option<usize>>("count")?.unwrap_or(0);
    let mandatory = kwargs.get::<Option<usize>>("mandatory_count")?.unwrap_or(0);
    kwargs.assert_all_used()?;
    let regex = compile(&pattern, ignore_case, multi_line)?;
    let mut found = 0;
    let mut out = String::new();
    let mut done = 0;
    for captures in regex.captures_iter(text.as_str()) {
        let captures = captures.map_err(gave_up)?;
        if count > 0 && found == count {
            break;
        }
        let Some(whole) = captures.get(0) else { break };
        found += 1;
        charge(1)?;
        push(&mut out, text.get(done..whole.start()).unwrap_or_default())?;
        expand(&mut out, &replacement, &captures)?;
        done = whole.end();
    }
    push(&mut out, text.get(done..).unwrap_or_default())?;
    if found < mandatory {
        return Err(invalid(format!("regex_replace: {found} matches, but {mandatory} are wanted")));
    }
    Ok(out)
}

/// Adds to a result, unless that would be too much.
fn push(out: &mut String, more: &str) -> Result<(), Error> {
    makes("regex_replace", out.len().checked_add(more.len()))?;
    out.push_str(more);
    Ok(())
}

/// Adds a replacement with its `\1`, `\g<1>` and `\g<name>`, and `\n`, `\t`, `\\`.
fn expand(out: &mut String, replacement: &str, captures: &Captures<'_, str>) -> Result<(), Error> {
    let group = |name: &str| {
        let found = match name.parse::<usize>() {
            Ok(number) => captures.get(number),
            Err(_) => captures.name(name),
        };
        found.map_or("", |found| found.as_str())
    };
    let mut rest = replacement;
    while let Some((before, after)) = rest.split_once('\\') {
        push(out, before)?;
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 {
            let (number, tail) = after.split_at(digits.min(2));
            push(out, group(number))?;
            rest = tail;
        } else if let Some((name, tail)) = after.strip_prefix("g<").and_then(|named| named.split_once('>')) {
            push(out, group(name))?;
            rest = tail;
        } else {
            let mut chars = after.chars();
            match chars.next() {
                Some('n') => push(out, "\n")?,
                Some('t') => push(out, "\t")?,
                Some('\\') | None => push(out, "\\")?,
                Some(other) => {
                    push(out, "\\")?;
                    push(out, other.encode_utf8(&mut [0; 4]))?;
                }
            }
            rest = chars.as_str();
        }
    }
    push(out, rest)
}

fn regex_search(text: String, pattern: String, groups: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let mut wanted = Vec::new();
    let (groups, options) = arguments(groups)?;
    for value in groups {
        let name = value.to_string();
        let group = match name.strip_prefix("\\g<").and_then(|rest| rest.strip_suffix('>')) {
            Some(group) => group.to_owned(),
            None => match name.strip_prefix('\\') {
                Some(number) => number.to_owned(),
                None => {
                    return Err(invalid(format!(
                        "regex_search: `{name}` names no group; write '\\\\1' or '\\\\g<name>'"
                    )));
                }
            },
        };
        wanted.push(group);
    }
    let (ignore_case, multi_line) = flags(&options)?;
    options.assert_all_used()?;
    let regex = compile(&pattern, ignore_case, multi_line)?;
    let Some(captures) = regex.captures(text.as_str()).map_err(gave_up)? else { return Ok(Value::from(())) };
    if wanted.is_empty() {
        return Ok(Value::from(captures.get(0).map_or("", |found| found.as_str())));
    }
    let mut found = Vec::new();
    for group in wanted {
        let number = match group.parse::<usize>() {
            Ok(number) => Some(number).filter(|number| *number < captures.len()),
            Err(_) => regex.capture_names().position(|name| name == Some(group.as_str())),
        };
        let number =
            number.ok_or_else(|| invalid(format!("regex_search: the pattern has no group `{group}`")))?;
        found.push(captures.get(number).map_or(Value::from(()), |found| Value::from(found.as_str())));
    }
    Ok(Value::from(found))
}

/// All matches: their text, or their groups where the pattern has some.
fn regex_findall(text: String, pattern: String, kwargs: Kwargs) -> Result<Vec<Value>, Error> {
    let (ignore_case, multi_line) = flags(&kwargs)?;
    kwargs.assert_all_used()?;
    let regex = compile(&pattern, ignore_case, multi_line)?;
    let all = regex.captures_iter(text.as_str()).enumerate().map(|(count, captures)| {
        let captures = captures.map_err(gave_up)?;
        check("regex_findall: a list", count + 1, ELEMENTS)?;
        let text = |index: usize| Value::from(captures.get(index).map_or("", |found| found.as_str()));
        Ok(match captures.len() {
            1 => text(0),
            2 => text(1),
            count => (1..count).map(text).collect(),
        })
    });
    all.collect()
}

/// As Python's `re.escape`; `posix_basic` escapes what grep's basic expressions know.
fn regex_escape(text: String, kind: Option<String>, kwargs: Kwargs) -> Result<String, Error> {
    let kind = kwargs.get::<Option<String>>("re_type")?.or(kind).unwrap_or_else(|| "python".to_owned());
    kwargs.assert_all_used()?;
    let special: &[char] = match kind.as_str() {
        "python" => &[
            '(', ')', '[', ']', '{', '}', '?', '*', '+', '-', '|', '^', '$', '\\', '.', '&', '~', '#', ' ',
            '\t', '\n', '\r', '\u{b}', '\u{c}',
        ],
        "posix_basic" => &['[', ']', '.', '^', '$', '*', '\\'],
        _ => {
            return Err(invalid(format!(
                "regex_escape: there is no type `{kind}`; known are python and posix_basic"
            )));
        }
    };
    let mut out = String::new();
    for c in text.chars() {
        if special.contains(&c) {
            out.push('\\');
        }
        out.push(c);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    #[test]
    fn replace() {
        table(&[
            (r"'gpu-01' | regex_replace('^gpu-(\\d+)$', 'node\\1')", "node01"),
            (r"'a-b' | regex_replace('(?P<x>a)-(?P<y>b)', '\\g<y>-\\g<x>-\\g<1>')", "b-a-a"),
            ("'aaa' | regex_replace('a', 'b', count=2)", "bba"),
            ("'Aa' | regex_replace('a', 'x', ignorecase=true)", "xx"),
            ("'a\nb' | regex_replace('^', '> ', multiline=true)", "\"> a\\n> b\""),
            ("'abc' | regex_replace('b')", "ac"),
            ("'cost $1' | regex_replace('x', '$1')", "cost $1"),
            ("'x' | regex_replace('x', '$1')", "$1"),
            ("'x' | regex_replace('y', '', mandatory_count=1)", "!0 matches"),
            ("'x' | regex_replace('(', '')", "!is not valid"),
            ("'xay' | regex_replace('a(?=y)', '')", "xy"),
            ("('ab' * 40) | regex_replace('(?i)(a|b|ab)*(?>c)', '')", "!gave up"),
        ]);
    }

    #[test]
    fn search() {
        table(&[
            (r"'v1.30.2' | regex_search('[0-9]+\\.[0-9]+')", "'1.30'"),
            ("'x' | regex_search('y')", ""),
            (r"'a=1' | regex_search('(\\w)=(\\d)', '\\2', '\\1')", "['1', a]"),
            (r"'a=1' | regex_search('(?P<k>\\w)=', '\\g<k>')", "[a]"),
            (r"'a' | regex_search('a', '\\1')", "!no group `1`"),
            (r"'a1 b2' | regex_findall('[a-z]')", "[a, b]"),
            (r"'a1 b2' | regex_findall('([a-z])(\\d)')", "[[a, '1'], [b, '2']]"),
            ("'a.b*' | regex_escape", r"'a\.b\*'"),
            ("'a+b' | regex_escape('posix_basic')", "a+b"),
        ]);
    }
}
