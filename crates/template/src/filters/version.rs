//! Versions in order: `is version('1.30', '>=')`.

use std::cmp::Ordering;

use minijinja::Error;

use super::invalid;

/// Numbers and words, as Python's `LooseVersion` takes a version apart; a number comes after a word.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Word(String),
    Number(u128),
}

fn parts(version: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = version;
    while let Some(first) = rest.chars().next() {
        let digit = first.is_ascii_digit();
        let lower = first.is_ascii_lowercase();
        let same = |c: char| {
            if digit {
                c.is_ascii_digit()
            } else if lower {
                c.is_ascii_lowercase()
            } else {
                !c.is_ascii_digit() && !c.is_ascii_lowercase() && c != '.'
            }
        };
        let length = if first == '.' { 1 } else { rest.find(|c: char| !same(c)).unwrap_or(rest.len()) };
        let (part, tail) = rest.split_at(length);
        rest = tail;
        if part == "." {
            continue;
        }
        parts.push(match part.parse() {
            Ok(number) => Part::Number(number),
            Err(_) => Part::Word(part.to_owned()),
        });
    }
    parts
}

/// By the rules of semver.org: a version before its release comes first, build data does not count.
fn semver(left: &str, right: &str) -> Result<Ordering, Error> {
    type Parsed<'a> = ([u64; 3], Option<&'a str>);
    fn parse(version: &str) -> Option<Parsed<'_>> {
        let version = version.split('+').next()?;
        let (core, pre) = match version.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (version, None),
        };
        let mut numbers = core.split('.').map(|number| number.parse::<u64>().ok());
        let core = [numbers.next()??, numbers.next()??, numbers.next()??];
        numbers.next().is_none().then_some((core, pre))
    }
    let wrong = |version: &str| invalid(format!("version: `{version}` is no semantic version"));
    let (a, pre_a) = parse(left).ok_or_else(|| wrong(left))?;
    let (b, pre_b) = parse(right).ok_or_else(|| wrong(right))?;
    Ok(a.cmp(&b).then_with(|| match (pre_a, pre_b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => {
            let identifiers = |pre: &str| -> Vec<(bool, u64, String)> {
                pre.split('.')
                    .map(|part| match part.parse::<u64>() {
                        Ok(number) => (false, number, String::new()),
                        Err(_) => (true, 0, part.to_owned()),
                    })
                    .collect()
            };
            identifiers(a).cmp(&identifiers(b))
        }
    }))
}

/// Does `left operator right` hold?
pub(super) fn compare(left: &str, right: &str, operator: &str, semantic: bool) -> Result<bool, Error> {
    if left.is_empty() || right.is_empty() {
        return Err(invalid("version: a version is empty"));
    }
    let order = if semantic { semver(left, right)? } else { parts(left).cmp(&parts(right)) };
    Ok(match operator {
        "==" | "=" | "eq" => order.is_eq(),
        "!=" | "<>" | "ne" => order.is_ne(),
        "<" | "lt" => order.is_lt(),
        "<=" | "le" => order.is_le(),
        ">" | "gt" => order.is_gt(),
        ">=" | "ge" => order.is_ge(),
        _ => {
            return Err(invalid(format!(
                "version: there is no operator `{operator}`; known are == != < <= > >= and eq ne lt le gt ge"
            )));
        }
    })
}
