//! Conditions that are known before a host is asked: converge works on Debian, Ubuntu and what is made from them, and an import follows the
//! Ansible of today.
//!
//! Logic of three values: what is not known here stays open.

use crate::includes::listed;
use crate::system;
use crate::task::{Foreign, Task};
use crate::tokens::{Token, TokenSort, tokens, whole_expression};
use std::cmp::Ordering;

/// The version of ansible-core that an import follows.
const ANSIBLE: &[u64] = &[2, 20, 0];
/// Most brackets in each other.
const MAX_DEPTH: usize = 64;

/// The hosts for which a condition is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecidedFor {
    /// All: on Linux, and on the version of Ansible.
    Hosts,
    /// Those with a system that converge works on.
    Systems,
}

/// The word of the report for a task that is for no host that converge works on.
pub(crate) const NOT_APPLIED: &str = "does not apply";

/// Whether a condition of Ansible (or one on facts here) holds on every host that converge works on; `None` where the host decides.
pub(crate) fn decided(text: &str, scope: DecidedFor) -> Option<bool> {
    let all: Vec<Token<'_>> =
        tokens(text).into_iter().filter(|token| token.sort != TokenSort::Blank).collect();
    // An expression that chooses is no condition that can be taken apart.
    if all.iter().any(|token| token.is("if") || token.is("else")) {
        return None;
    }
    any(&all, scope, 0)
}

/// Marks the tasks whose conditions hold on no host that converge works on, with those below them.
pub(crate) fn mark(tasks: &mut [Task], outer: Option<&Foreign>) {
    for task in tasks {
        let conditions = task.keyword("when").map(listed).unwrap_or_default();
        let own = conditions.iter().find_map(|condition| {
            let text = condition.scalar_text()?;
            let bare = whole_expression(&text).unwrap_or(&text);
            let is_foreign = decided(bare, DecidedFor::Systems) == Some(false);
            is_foreign.then(|| Foreign {
                condition: bare.split_whitespace().collect::<Vec<_>>().join(" "),
                by_system: decided(bare, DecidedFor::Hosts).is_none(),
            })
        });
        task.foreign = outer.cloned().or(own);
        let foreign = task.foreign.clone();
        mark(&mut task.block, foreign.as_ref());
    }
}

/// The slices between a word that stands outside of brackets.
fn split<'a, 't>(all: &'a [Token<'t>], word: &str) -> Vec<&'a [Token<'t>]> {
    let mut depth = 0usize;
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, token) in all.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ if depth == 0 && token.is(word) => {
                parts.push(all.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(all.get(start..).unwrap_or_default());
    parts
}

fn any(all: &[Token<'_>], scope: DecidedFor, depth: usize) -> Option<bool> {
    joined(&split(all, "or"), true, |part| every(part, scope, depth))
}

fn every(all: &[Token<'_>], scope: DecidedFor, depth: usize) -> Option<bool> {
    joined(&split(all, "and"), false, |part| one(part, scope, depth))
}

/// The value of parts of which one that is `decisive` decides for all.
fn joined<'t>(
    parts: &[&[Token<'t>]],
    decisive: bool,
    decide: impl Fn(&[Token<'t>]) -> Option<bool>,
) -> Option<bool> {
    let mut found = Some(!decisive);
    for part in parts {
        match decide(part) {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => found = None,
        }
    }
    found
}

fn one(all: &[Token<'_>], scope: DecidedFor, depth: usize) -> Option<bool> {
    if depth > MAX_DEPTH {
        return None;
    }
    if let [not, rest @ ..] = all
        && not.is("not")
    {
        return one(rest, scope, depth + 1).map(|holds| !holds);
    }
    if let [open, inside @ .., close] = all
        && open.is("(")
        && close.is(")")
        && is_closed(inside)
    {
        return any(inside, scope, depth + 1);
    }
    comparison(all, scope)
}

/// Whether no bracket of it closes one before it.
fn is_closed(all: &[Token<'_>]) -> bool {
    let mut depth = 0i64;
    all.iter().all(|token| {
        match token.text {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        depth >= 0
    })
}

/// A comparison of a fact with texts, or of Ansible's version.
fn comparison(all: &[Token<'_>], scope: DecidedFor) -> Option<bool> {
    let words: Vec<&str> = all.iter().map(|token| token.text).collect();
    match words.as_slice() {
        ["true" | "True"] => return Some(true),
        ["false" | "False"] => return Some(false),
        ["ansible_version", ".", "full" | "string", rest @ ..]
        | ["ansible_version", "[", "'full'" | "'string'" | "\"full\"" | "\"string\"", "]", rest @ ..] => {
            return version(rest);
        }
        _ => {}
    }
    let (fact, used) = fact(&words)?;
    if scope == DecidedFor::Hosts && fact != "system" {
        return None;
    }
    let mut rest = all.get(used..)?;
    let mut lower = false;
    if let [bar, name, after @ ..] = rest
        && bar.is("|")
        && name.is("lower")
    {
        (lower, rest) = (true, after);
    }
    let (negated, values) = match rest {
        [sign, value] if sign.is("==") || sign.is("!=") => (sign.is("!="), vec![value.quoted()?]),
        [sign, list @ ..] if sign.is("in") => (false, texts(list)?),
        [not, sign, list @ ..] if not.is("not") && sign.is("in") => (true, texts(list)?),
        _ => return None,
    };
    let mut found = Some(false);
    for value in values {
        match system::is_of_target(fact, value, lower) {
            Some(true) => {
                found = Some(true);
                break;
            }
            Some(false) => {}
            None => found = None,
        }
    }
    found.map(|holds| holds != negated)
}

/// The texts of a list in brackets.
fn texts<'t>(list: &[Token<'t>]) -> Option<Vec<&'t str>> {
    let [open, items @ .., close] = list else { return None };
    if !(open.is("[") && close.is("]") || open.is("(") && close.is(")")) {
        return None;
    }
    items.iter().filter(|token| !token.is(",")).map(Token::quoted).collect()
}

/// The fact at the beginning, by Ansible's name without `ansible_` or by the one here, and the number of its words.
fn fact<'t>(words: &[&'t str]) -> Option<(&'t str, usize)> {
    match words {
        ["ansible_facts", ".", name, ..] => Some((name.strip_prefix("ansible_").unwrap_or(name), 3)),
        ["ansible_facts", "[", name, "]", ..] => {
            let name = name.trim_matches(['\'', '"']);
            Some((name.strip_prefix("ansible_").unwrap_or(name), 4))
        }
        ["facts", ".", "package_manager", ..] => Some(("pkg_mgr", 3)),
        ["facts", ".", "os", ".", "id", ..] => Some(("os.id", 5)),
        [name, ..] => Some((name.strip_prefix("ansible_")?, 1)),
        [] => None,
    }
}

/// `is [not] version('2.12', '>=')`, of the version that is followed.
fn version(words: &[&str]) -> Option<bool> {
    let (negated, rest) = match words {
        ["is", "not", "version" | "version_compare", rest @ ..] => (true, rest),
        ["is" | "|", "version" | "version_compare", rest @ ..] => (false, rest),
        _ => return None,
    };
    let ["(", other, ",", sign, ")"] = rest else { return None };
    let holds = version_holds(other.trim_matches(['\'', '"']), sign.trim_matches(['\'', '"']))?;
    Some(holds != negated)
}

/// Whether the version of Ansible that is followed stands so to this one.
fn version_holds(other: &str, sign: &str) -> Option<bool> {
    let other: Vec<u64> = other.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let order = ANSIBLE.cmp(other.as_slice());
    Some(match sign {
        "<" | "lt" => order == Ordering::Less,
        "<=" | "le" => order != Ordering::Greater,
        ">" | "gt" => order == Ordering::Greater,
        ">=" | "ge" => order != Ordering::Less,
        "==" | "=" | "eq" => order == Ordering::Equal,
        "!=" | "<>" | "ne" => order != Ordering::Equal,
        _ => return None,
    })
}

/// The oldest Python on a host that the followed Ansible works with; the newest one is not known.
const PYTHON: &[u64] = &[3, 9];

/// The words from a place to the end of the call in it, without blanks, and the place after it.
fn words_of_call<'t>(all: &[Token<'t>], at: usize) -> Option<(Vec<&'t str>, usize)> {
    let open = all.iter().skip(at).position(|token| token.is("("))? + at;
    let close = all.iter().skip(open).position(|token| token.is(")"))? + open;
    let tokens = all.get(at..=close)?.iter().filter(|token| token.sort != TokenSort::Blank);
    Some((tokens.map(|token| token.text).collect(), close + 1))
}

/// The test of a host's Python that stands at a place, where all that Ansible works with give one answer, and the place after it.
pub(crate) fn python_test(all: &[Token<'_>], at: usize) -> Option<(bool, usize)> {
    let (words, end) = words_of_call(all, at)?;
    let (negated, rest) = match words.as_slice() {
        ["is", "not", "version" | "version_compare", rest @ ..] => (true, rest),
        ["is" | "|", "version" | "version_compare", rest @ ..] => (false, rest),
        _ => return None,
    };
    let ["(", other, ",", sign, ")"] = rest else { return None };
    let other: Vec<u64> =
        other.trim_matches(['\'', '"']).split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    if other.as_slice() > PYTHON {
        return None;
    }
    let holds = match sign.trim_matches(['\'', '"']) {
        "<" | "lt" => false,
        ">=" | "ge" => true,
        _ => return None,
    };
    Some((holds != negated, end))
}

/// The test of Ansible's version that stands at a place behind the name, as `true` or `false`, and the place after it.
pub(crate) fn version_test(all: &[Token<'_>], at: usize) -> Option<(bool, usize)> {
    let (words, end) = words_of_call(all, at)?;
    let rest = match words.as_slice() {
        [".", "full" | "string", rest @ ..]
        | ["[", "'full'" | "'string'" | "\"full\"" | "\"string\"", "]", rest @ ..] => rest,
        _ => return None,
    };
    Some((version(rest)?, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_on_systems_are_decided_and_others_stay_open() {
        for (text, expected) in [
            ("ansible_os_family == 'RedHat'", Some(false)),
            ("ansible_facts['os_family'] == \"Debian\"", Some(true)),
            ("ansible_facts.os_family not in ['RedHat', 'Debian']", Some(false)),
            ("ansible_facts.distribution | lower == 'centos'", Some(false)),
            ("ansible_distribution == 'Ubuntu'", None),
            ("ansible_distribution != 'Fedora'", Some(true)),
            ("ansible_distribution == 'Of Nobody'", None),
            ("ansible_pkg_mgr in ('dnf', 'yum')", Some(false)),
            ("ansible_system == 'Linux'", Some(true)),
            ("wanted and ansible_os_family == 'Suse'", Some(false)),
            ("wanted or ansible_os_family == 'Suse'", None),
            ("not (ansible_os_family == 'RedHat' or ansible_distribution == 'Archlinux')", Some(true)),
            ("(ansible_os_family == 'RedHat') == wanted", None),
            ("'RedHat' if wanted else ansible_os_family == 'Debian'", None),
            ("other.ansible_os_family == 'RedHat'", None),
            ("ansible_os_family == family", None),
            ("facts.package_manager in ['dnf', 'microdnf', 'yum']", Some(false)),
            ("facts.os.id == 'rocky'", Some(false)),
            ("facts.os.id == 'debian'", None),
        ] {
            assert_eq!(decided(text, DecidedFor::Systems), expected, "{text}");
        }
        assert_eq!(decided("ansible_os_family == 'RedHat'", DecidedFor::Hosts), None);
        assert_eq!(decided("ansible_system != 'Linux'", DecidedFor::Hosts), Some(false));
    }

    #[test]
    fn the_version_of_ansible_is_that_of_today() {
        for (text, expected) in [
            ("ansible_version.full is version_compare('2.12', '<')", Some(false)),
            ("ansible_version['full'] is version('2.9.10', '>=')", Some(true)),
            ("ansible_version.full is not version('2.9', '>=')", Some(false)),
            ("ansible_version.full is version('2.9', '~')", None),
            ("ansible_version.full is version(least, '>=')", None),
            ("ansible_version.major > 1", None),
        ] {
            assert_eq!(decided(text, DecidedFor::Hosts), expected, "{text}");
        }
    }

    #[test]
    fn a_python_that_ansible_works_with_is_no_old_one() {
        let test = |text: &str| python_test(&tokens(text), 0).map(|(holds, _)| holds);
        for (text, expected) in [
            (" is version('3', '<')", Some(false)),
            (" is version('3.8', '>=') and more", Some(true)),
            (" is not version('3.9', '<')", Some(true)),
            (" is version('3.10', '<')", None),
            (" is version('3.9', '<=')", None),
            (" == '3'", None),
            (" is version(least, '<')", None),
        ] {
            assert_eq!(test(text), expected, "{text}");
        }
    }

    #[test]
    fn brackets_without_end_are_no_panic() {
        let text = format!("{}a{}", "(".repeat(5000), ")".repeat(5000));
        assert_eq!(decided(&text, DecidedFor::Systems), None);
        assert_eq!(decided(")(((", DecidedFor::Systems), None);
        assert_eq!(decided("", DecidedFor::Systems), None);
    }
}
