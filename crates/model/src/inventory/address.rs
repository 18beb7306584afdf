//! Host identifiers with an optional port, and the expansion of ranges such as `gpu[01:16:2]`.
//!
//! The accepted forms are those of `ansible/parsing/utils/addresses.py` and of
//! `expand_hostname_range` in `ansible/plugins/inventory/__init__.py`.

use std::net::Ipv6Addr;

/// The most hosts that one range expression may stand for; more is taken for a slip.
pub const MAX_HOSTS_PER_PATTERN: usize = 100_000;

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Splits `host:port` or `[host]:port`; `None` when the text is not a host identifier.
///
/// With `allow_ranges`, `[x:y]` and `[x:y:step]` may stand in the host part.
#[must_use]
pub fn parse_address(text: &str, allow_ranges: bool) -> Option<(&str, Option<u64>)> {
    let mut host = text;
    let mut port = None;
    if let Some((inner, number)) = bracketed_host_port(host) {
        host = inner;
        port = Some(number);
    }
    if let Some((inner, number)) = host_port(host) {
        host = inner;
        port = Some(number);
    }
    if !(is_ipv4(host) || is_ipv6(host) || is_hostname(host)) {
        return None;
    }
    if !allow_ranges && host.contains('[') {
        return None;
    }
    Some((host, port))
}

/// `[anything]:digits`.
fn bracketed_host_port(text: &str) -> Option<(&str, u64)> {
    let (head, digits) = text.rsplit_once(':')?;
    let number = port_number(digits)?;
    let inner = head.strip_prefix('[')?.strip_suffix(']')?;
    (!inner.is_empty()).then_some((inner, number))
}

/// `host:digits`, where the host has no colon outside square brackets.
fn host_port(text: &str) -> Option<(&str, u64)> {
    let (head, digits) = text.rsplit_once(':')?;
    let number = port_number(digits)?;
    let mut inside = false;
    for c in head.chars() {
        match (inside, c) {
            (false, '[') => inside = true,
            (true, ']') => inside = false,
            (false, ':' | ']') => return None,
            _ => {}
        }
    }
    (!inside).then_some((head, number))
}

fn port_number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// Whether the text is an IPv4 address; a part may be a numeric range.
#[must_use]
pub fn is_ipv4(text: &str) -> bool {
    let Some(parts) = split_outside_brackets(text, '.') else {
        return false;
    };
    parts.len() == 4
        && parts.iter().all(|part| {
            if part.starts_with('[') {
                return range_len(part, RangeKind::Decimal) == Some(part.len());
            }
            !part.is_empty()
                && part.len() <= 3
                && part.bytes().all(|b| b.is_ascii_digit())
                && part.parse::<u16>().is_ok_and(|n| n <= 255)
        })
}

/// Whether the text is an IPv6 address; a 16-bit part may be a hexadecimal range.
#[must_use]
pub fn is_ipv6(text: &str) -> bool {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '[' {
            let Some(len) = range_len(rest, RangeKind::Hexadecimal) else {
                return false;
            };
            plain.push('0');
            rest = rest.get(len..).unwrap_or("");
        } else {
            plain.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or("");
        }
    }
    plain.parse::<Ipv6Addr>().is_ok()
}

/// Labels of word characters, hyphens and ranges, joined by dots; no label ends in `-` or `_`.
fn is_hostname(text: &str) -> bool {
    let Some(labels) = split_outside_brackets(text, '.') else {
        return false;
    };
    labels.iter().all(|label| is_label(label))
}

fn is_label(label: &str) -> bool {
    let mut rest = label;
    let mut first = true;
    let mut last_is_join = true;
    while let Some(c) = rest.chars().next() {
        if c == '[' {
            let Some(len) = range_len(rest, RangeKind::Alphanumeric) else {
                return false;
            };
            last_is_join = false;
            rest = rest.get(len..).unwrap_or("");
        } else if is_word(c) || (!first && c == '-') {
            last_is_join = matches!(c, '-' | '_');
            rest = rest.get(c.len_utf8()..).unwrap_or("");
        } else {
            return false;
        }
        first = false;
    }
    !first && !last_is_join
}

/// `\w` as Python's `re` has it for text, near enough: letters, digits, underscore.
fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[derive(Clone, Copy, PartialEq)]
enum RangeKind {
    Decimal,
    Hexadecimal,
    Alphanumeric,
}

/// The length of the range expression at the start of `text`, brackets included.
fn range_len(text: &str, kind: RangeKind) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let (inner, _) = inner.split_once(']')?;
    let parts: Vec<&str> = inner.split(':').collect();
    let (begin, end, step) = match parts.as_slice() {
        [begin, end] => (*begin, *end, None),
        [begin, end, step] => (*begin, *end, Some(*step)),
        _ => return None,
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let letter = |s: &str| s.len() == 1 && s.bytes().all(|b| b.is_ascii_alphabetic());
    let hex = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_hexdigit());
    let bounds = match kind {
        RangeKind::Decimal => digits(begin) && digits(end),
        RangeKind::Hexadecimal => hex(begin) && hex(end),
        RangeKind::Alphanumeric => (digits(begin) && digits(end)) || (letter(begin) && letter(end)),
    };
    (bounds && step.is_none_or(digits)).then_some(inner.len() + 2)
}

/// Splits at `separator` where it is not inside `[…]`; `None` for an unclosed bracket.
fn split_outside_brackets(text: &str, separator: char) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut inside = false;
    for (at, c) in text.char_indices() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            c if c == separator && !inside => {
                parts.push(text.get(start..at)?);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    if inside {
        return None;
    }
    parts.push(text.get(start..)?);
    Some(parts)
}

/// The hosts and the port that a host pattern of an inventory file expands to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpandedPattern {
    /// Host names in the order of the range.
    pub hosts: Vec<String>,
    /// The port of a `host:port` pattern.
    pub port: Option<u64>,
}

/// A range that cannot be expanded: what is wrong, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRange {
    /// One sentence.
    pub message: String,
    /// The correction to write.
    pub help: String,
}

fn bad(message: impl Into<String>, help: impl Into<String>) -> BadRange {
    BadRange { message: message.into(), help: help.into() }
}

/// Expands a host pattern as it stands in an inventory file.
///
/// # Errors
/// When a range is malformed or stands for more than [`MAX_HOSTS_PER_PATTERN`] hosts.
pub fn expand_host_pattern(pattern: &str) -> Result<ExpandedPattern, BadRange> {
    let (host, port) = parse_address(pattern, true).unwrap_or((pattern, None));
    let mut hosts = Vec::new();
    expand_ranges(host, &mut hosts)?;
    Ok(ExpandedPattern { hosts, port })
}

const RANGE_HELP: &str = "write a range as [begin:end] or [begin:end:step], such as gpu[01:16]";

fn expand_ranges(text: &str, hosts: &mut Vec<String>) -> Result<(), BadRange> {
    let Some((head, rest)) = text.split_once('[') else {
        if hosts.len() >= MAX_HOSTS_PER_PATTERN {
            return Err(bad(
                format!("the range stands for more than {MAX_HOSTS_PER_PATTERN} hosts"),
                "write a smaller range",
            ));
        }
        hosts.push(text.to_owned());
        return Ok(());
    };
    let Some((range, tail)) = rest.split_once(']') else {
        return Err(bad(format!("the range in `{text}` has no closing `]`"), RANGE_HELP));
    };
    if head.contains(']') || head.contains('|') || range.contains('|') || tail.contains('|') {
        return Err(bad(format!("`{text}` is not a host name or range"), RANGE_HELP));
    }
    for piece in range_items(range)? {
        expand_ranges(&format!("{head}{piece}{tail}"), hosts)?;
    }
    Ok(())
}

fn range_items(range: &str) -> Result<Vec<String>, BadRange> {
    let parts: Vec<&str> = range.split(':').collect();
    let (begin, end, step) = match parts.as_slice() {
        [begin, end] => (*begin, *end, "1"),
        [begin, end, step] => (*begin, *end, *step),
        _ => {
            return Err(bad(format!("`[{range}]` is not a range: it needs a begin and an end"), RANGE_HELP));
        }
    };
    let begin = if begin.is_empty() { "0" } else { begin };
    if end.is_empty() {
        return Err(bad(format!("the range `[{range}]` has no end"), RANGE_HELP));
    }
    let step: usize = step.parse().ok().filter(|step| *step > 0).ok_or_else(|| {
        bad(format!("the step `{step}` of the range `[{range}]` is not a whole number above 0"), RANGE_HELP)
    })?;
    let padded = begin.len() > 1 && begin.starts_with('0');
    if padded && begin.len() != end.len() {
        return Err(bad(
            format!("begin and end of the range `[{range}]` differ in length"),
            format!("pad both to the same width, such as [{begin}:{end:0>width$}]", width = begin.len()),
        ));
    }
    if let (Some(first), Some(last)) = (LETTERS.find(begin), LETTERS.find(end)) {
        if first > last {
            return Err(bad(
                format!("the range `[{range}]` begins after its end"),
                "put the smaller letter first",
            ));
        }
        return Ok(LETTERS.chars().take(last + 1).skip(first).step_by(step).map(String::from).collect());
    }
    let number = |text: &str| -> Result<u64, BadRange> {
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten().ok_or_else(|| {
            bad(format!("`{text}` in the range `[{range}]` is neither a number nor a letter"), RANGE_HELP)
        })
    };
    let (first, last) = (number(begin)?, number(end)?);
    if first > last {
        return Err(bad(
            format!("the range `[{range}]` is empty: it begins after its end"),
            "put the smaller number first",
        ));
    }
    if (last - first) / step as u64 >= MAX_HOSTS_PER_PATTERN as u64 {
        return Err(bad(
            format!("the range `[{range}]` stands for more than {MAX_HOSTS_PER_PATTERN} hosts"),
            "write a smaller range",
        ));
    }
    let width = if padded { begin.len() } else { 0 };
    Ok((first..=last).step_by(step).map(|n| format!("{n:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_split_as_ansible_splits_them() {
        for (text, expected) in [
            ("web", Some(("web", None))),
            ("web:22", Some(("web", Some(22)))),
            ("web.example.org:2222", Some(("web.example.org", Some(2222)))),
            ("10.0.0.1:22", Some(("10.0.0.1", Some(22)))),
            ("2001:db8::1", Some(("2001:db8::1", None))),
            ("[2001:db8::1]:22", Some(("2001:db8::1", Some(22)))),
            ("[2001:db8::1]", None),
            ("::1", Some(("::1", None))),
            ("gpu[01:16]:22", Some(("gpu[01:16]", Some(22)))),
            ("gpu[a:c]", Some(("gpu[a:c]", None))),
            ("gpu[0]", None),
            ("10.0.[0:3].1", Some(("10.0.[0:3].1", None))),
            ("a_", None),
            ("-a", None),
            ("a:b", None),
            ("@all", None),
            ("rå", Some(("rå", None))),
        ] {
            assert_eq!(parse_address(text, true), expected, "{text}");
        }
        assert_eq!(parse_address("gpu[1:2]", false), None);
    }

    #[test]
    fn ranges_expand_in_order() {
        let hosts = |text: &str| expand_host_pattern(text).map(|e| e.hosts.join(" "));
        assert_eq!(hosts("gpu[01:07:3]"), Ok("gpu01 gpu04 gpu07".to_owned()));
        assert_eq!(hosts("n[8:11]"), Ok("n8 n9 n10 n11".to_owned()));
        assert_eq!(hosts("n[:2]x"), Ok("n0x n1x n2x".to_owned()));
        assert_eq!(hosts("[a:b][1:2]"), Ok("a1 a2 b1 b2".to_owned()));
        assert_eq!(hosts("[y:B]"), Ok("y z A B".to_owned()));
        assert_eq!(hosts("r[1:1]:22"), Ok("r1".to_owned()));
    }

    #[test]
    fn bad_ranges_say_what_is_wrong() {
        for (text, part) in [
            ("n[1]", "needs a begin and an end"),
            ("n[1:]", "has no end"),
            ("n[01:100]", "differ in length"),
            ("n[c:a]", "begins after its end"),
            ("n[5:3]", "is empty"),
            ("n[1:5:0]", "step `0`"),
            ("n[1:é]", "neither a number nor a letter"),
            ("n[1:2", "no closing"),
            ("n[0:99999999999]", "more than"),
            ("n[1:1000][1:1000]", "more than"),
        ] {
            let error = expand_host_pattern(text).unwrap_err();
            assert!(error.message.contains(part), "{text}: {}", error.message);
            assert!(!error.help.is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "[a-c0-9\\[\\]:.|é-]{0,24}") {
            let _ = parse_address(&text, true);
            if let Ok(expanded) = expand_host_pattern(&text) {
                prop_assert!(expanded.hosts.len() <= MAX_HOSTS_PER_PATTERN);
            }
        }
    }
}
