//! Versions in order: `is version('1.30', '>=')`.

use std::cmp::Ordering;

use minijinja::Error;

use super::invalid;

/// Numbers and words, as Python's `LooseVersion` takes a version apart; a number comes after a word.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VersionPart {
    Word(String),
    Number(u128),
}

fn parts(version: &str) -> Vec<VersionPart> {
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
            Ok(number) => VersionPart::Number(number),
            Err(_) => VersionPart::Word(part.to_owned()),
        });
    }
    parts
}

/// By the rules of semver.org: a version before its release comes first, build data does not count.
fn by_precedence(left: &str, right: &str) -> Result<Ordering, Error> {
    let parse = |version: &str| {
        semver::Version::parse(version)
            .map_err(|error| invalid(format!("version: `{version}` is no semantic version: {error}")))
    };
    Ok(parse(left)?.cmp_precedence(&parse(right)?))
}

/// Does `left operator right` hold?
pub(super) fn compare(left: &str, right: &str, operator: &str, semantic: bool) -> Result<bool, Error> {
    if left.is_empty() || right.is_empty() {
        return Err(invalid("version: a version is empty"));
    }
    let order = if semantic { by_precedence(left, right)? } else { parts(left).cmp(&parts(right)) };
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
