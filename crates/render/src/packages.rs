//! A package transaction in a few lines: packages that are installed, upgraded, downgraded, removed, held.

use crate::change::push_reversibility;
use crate::text::{Line, Text, Tone};
use converge_objects::PackageState;
use converge_objects::deb_version::compare;
use converge_planner::PlannedChange;
use std::cmp::Ordering;

/// The actions on a package, in the order of the lines.
const VERBS: [(&str, Tone); 8] = [
    ("remove", Tone::Remove),
    ("purge", Tone::Remove),
    ("downgrade", Tone::Warn),
    ("upgrade", Tone::Change),
    ("install", Tone::Add),
    ("mark", Tone::Change),
    ("hold", Tone::Change),
    ("repair", Tone::Warn),
];

/// The verb and the text behind it.
fn row(change: &PlannedChange) -> (&'static str, String) {
    let key = &change.change.object.key;
    let states = (
        PackageState::try_from(change.change.from.clone()),
        PackageState::try_from(change.change.to.clone()),
    );
    let (Ok(from), Ok(to)) = states else { return ("repair", key.clone()) };
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
            PackageState::Broken { status } => ("repair", format!("{key} ({status})")),
            _ => ("repair", key.clone()),
        },
    }
}

fn version(version: &str) -> &str {
    if version == "~" { "(the version that is offered then)" } else { version }
}

/// The lines of a transaction. `changes` are all of packages.
pub(crate) fn transaction(changes: &[&PlannedChange], indent: usize) -> Text {
    let rows: Vec<(&str, String)> = changes.iter().map(|c| row(c)).collect();
    let mut text = Text::new();
    for (verb, tone) in VERBS {
        let names: Vec<&str> = rows.iter().filter(|(v, _)| *v == verb).map(|(_, n)| n.as_str()).collect();
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
