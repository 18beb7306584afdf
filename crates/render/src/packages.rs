//! A package transaction in a few lines: what is installed, upgraded, downgraded, removed, held.

use crate::change::push_reversibility;
use crate::text::{Line, Text, Tone};
use converge_objects::PackageState;
use converge_planner::PlannedChange;
use std::cmp::Ordering;

/// What happens to one package, in the order of the lines.
const VERBS: [(&str, Tone); 8] = [
    ("remove", Tone::Remove),
    ("purge", Tone::Remove),
    ("downgrade", Tone::Warn),
    ("upgrade", Tone::Change),
    ("install", Tone::Add),
    ("mark", Tone::Change),
    ("hold", Tone::Change),
    ("mend", Tone::Warn),
];

/// The verb and what is said behind it.
fn told(change: &PlannedChange) -> (&'static str, String) {
    let key = &change.change.object.key;
    let states = (
        PackageState::try_from(change.change.from.clone()),
        PackageState::try_from(change.change.to.clone()),
    );
    let (Ok(from), Ok(to)) = states else { return ("mend", key.clone()) };
    match (from, to) {
        (
            PackageState::Present { version: a, auto: x, hold: h },
            PackageState::Present { version: b, auto: y, hold: i },
        ) => match compare(&a, &b) {
            _ if a == b && h != i => ("hold", format!("{key} {}", if i { "on" } else { "off" })),
            _ if a == b && x != y => ("mark", format!("{key} {}", if y { "automatic" } else { "manual" })),
            Ordering::Greater if b != "~" => ("downgrade", format!("{key} {a} → {b}")),
            _ => ("upgrade", format!("{key} {a} → {}", version(&b))),
        },
        (PackageState::Present { version, .. } | PackageState::Config { version }, PackageState::Absent) => {
            ("purge", format!("{key} {version}"))
        }
        (PackageState::Present { version, .. }, PackageState::Config { .. }) => {
            ("remove", format!("{key} {version}"))
        }
        (PackageState::Absent | PackageState::Config { .. }, PackageState::Present { version: v, .. }) => {
            ("install", format!("{key} {}", version(&v)))
        }
        (from, _) => match from {
            PackageState::Broken { status } => ("mend", format!("{key} ({status})")),
            _ => ("mend", key.clone()),
        },
    }
}

fn version(version: &str) -> &str {
    if version == "~" { "(the version that is offered then)" } else { version }
}

/// The lines of a transaction. `changes` are all of packages.
pub(crate) fn transaction(changes: &[&PlannedChange], indent: usize) -> Text {
    let told: Vec<(&str, String)> = changes.iter().map(|c| told(c)).collect();
    let mut text = Text::new();
    for (verb, tone) in VERBS {
        let names: Vec<&str> = told.iter().filter(|(v, _)| *v == verb).map(|(_, n)| n.as_str()).collect();
        if names.is_empty() {
            continue;
        }
        let lead = format!("{verb:<9} ");
        let hang = indent + lead.len();
        text.push(Line::at(indent).say(tone, lead).plain(names.join(", ")).fold(hang));
    }
    for change in changes {
        let mut why = Text::new();
        push_reversibility(&mut why, change, indent);
        text.append(why);
    }
    text
}

/// Compares two versions as dpkg does (deb-version(7)).
fn compare(a: &str, b: &str) -> Ordering {
    let epoch = |v: &str| match v.split_once(':') {
        Some((e, rest)) => (e.parse::<u64>().unwrap_or(0), rest.to_owned()),
        None => (0, v.to_owned()),
    };
    let revision = |v: &str| match v.rsplit_once('-') {
        Some((u, r)) => (u.to_owned(), r.to_owned()),
        None => (v.to_owned(), "0".to_owned()),
    };
    let ((e1, a), (e2, b)) = (epoch(a), epoch(b));
    let ((u1, r1), (u2, r2)) = (revision(&a), revision(&b));
    e1.cmp(&e2).then_with(|| part(&u1, &u2)).then_with(|| part(&r1, &r2))
}

fn part(a: &str, b: &str) -> Ordering {
    // `~` sorts before the end, letters before everything else.
    let weight = |c: Option<&u8>| match c {
        Some(b'~') => -1,
        None => 0,
        Some(c) if c.is_ascii_digit() => 0,
        Some(c) if c.is_ascii_alphabetic() => i32::from(*c),
        Some(c) => i32::from(*c) + 256,
    };
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() || !b.is_empty() {
        while a.first().is_some_and(|c| !c.is_ascii_digit()) || b.first().is_some_and(|c| !c.is_ascii_digit())
        {
            match weight(a.first()).cmp(&weight(b.first())) {
                Ordering::Equal => {}
                other => return other,
            }
            a = a.get(1..).unwrap_or_default();
            b = b.get(1..).unwrap_or_default();
        }
        let (x, rest_a) = number(a);
        let (y, rest_b) = number(b);
        match x.len().cmp(&y.len()).then_with(|| x.cmp(y)) {
            Ordering::Equal => (a, b) = (rest_a, rest_b),
            other => return other,
        }
    }
    Ordering::Equal
}

/// The leading digits without leading zeros, and the rest.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|c| !c.is_ascii_digit()).unwrap_or(text.len());
    let start = text.iter().take(end).position(|c| *c != b'0').unwrap_or(end);
    (text.get(start..end).unwrap_or_default(), text.get(end..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_dpkg_compares_them() {
        // The order that `dpkg --compare-versions` gives.
        let rising =
            ["1.0~rc1-1", "1.0-1", "1.0-1+deb12u1", "1.0a-1", "1.0.1-1", "1.9-1", "1.10-1", "1:0.1-1"];
        for pair in rising.windows(2) {
            assert_eq!(compare(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(compare(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(compare("1.01", "1.1-0"), Ordering::Equal);
    }
}
