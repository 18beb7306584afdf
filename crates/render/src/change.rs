//! One change in words: what happens to which object, its attributes, its content.

use crate::diff;
use crate::text::{Line, Look, Text, Tone};
use converge_objects::unit::act;
use converge_objects::{Command, PathState, UnitState, object};
use converge_planner::PlannedChange;
use converge_resource::{AttributeChange, Change, Content, Digest, Reversibility, State};
use similar::ChangeTag;
use std::collections::BTreeMap;

/// The action of a change: the sign in front of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Create,
    Remove,
    Update,
    Replace,
}

impl Sign {
    /// As it is shown.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Create => "+",
            Self::Remove => "-",
            Self::Update => "~",
            Self::Replace => "±",
        }
    }

    pub(crate) fn tone(self) -> Tone {
        match self {
            Self::Create => Tone::Add,
            Self::Remove => Tone::Remove,
            Self::Update | Self::Replace => Tone::Change,
        }
    }

    /// The word of the JSON output.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Remove => "remove",
            Self::Update => "update",
            Self::Replace => "replace",
        }
    }

    /// The sign of a change, from its states.
    pub(crate) fn of(change: &Change) -> Self {
        let sort = |s: &State| s.line().split(' ').next().unwrap_or_default().to_owned();
        // A package that left only its configuration is not there for its users.
        let gone = |s: &State| s.is_absent() || (change.object.kind == "package" && sort(s) == "config");
        match (gone(&change.from), gone(&change.to)) {
            (true, false) => Self::Create,
            (false, true) => Self::Remove,
            _ if change.object.kind == "path" && sort(&change.from) != sort(&change.to) => Self::Replace,
            _ => Self::Update,
        }
    }

    /// One sign for several changes.
    pub(crate) fn of_all<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Self {
        let mut signs = changes.into_iter().map(Self::of);
        let first = signs.next().unwrap_or(Self::Update);
        if signs.all(|s| s == first) { first } else { Self::Update }
    }
}

/// `create the file /etc/motd`, `restart ssh.service`, `run systemctl daemon-reload`.
pub(crate) fn title(change: &Change, sensitive: bool) -> String {
    let key = &change.object.key;
    let sign = Sign::of(change);
    let verb = match sign {
        Sign::Create => "create",
        Sign::Remove => "remove",
        Sign::Update => "change",
        Sign::Replace => "replace",
    };
    match change.object.kind.as_str() {
        "path" => {
            let shown = if change.to.is_absent() { &change.from } else { &change.to };
            let noun = match PathState::try_from(shown.clone()) {
                Ok(PathState::File { .. }) => "file ",
                Ok(PathState::Dir { .. }) => "directory ",
                Ok(PathState::Link { .. }) => "link ",
                _ => "",
            };
            format!("{verb} {noun}{key}")
        }
        "unit" => format!("{} {key}", unit_verbs(change)),
        "command" => command(change, sensitive),
        // A transaction of several packages is described by its item.
        kind @ "package" => format!("{verb} {kind} {key}"),
        kind => object(kind).map_or_else(|| format!("{verb} {kind} {key}"), |o| o.title(change)),
    }
}

fn command(change: &Change, sensitive: bool) -> String {
    let back = change.to.line() == "pending" || change.to.line() == "ran -";
    let verb = if back { "undo" } else { "run" };
    if sensitive {
        return format!("{verb} a command (sensitive)");
    }
    let Some(command) = Command::from_key(&change.object.key) else { return format!("{verb} a command") };
    let script = if back { command.undo.unwrap_or_default() } else { command.run };
    let user = command.user.map(|u| format!(" as {u}")).unwrap_or_default();
    let dir = command.surroundings.chdir.map(|d| format!(" in {d}")).unwrap_or_default();
    let script = script.trim();
    let first = script.lines().next().unwrap_or_default();
    let short: String = first.chars().take(80).collect();
    let more = if short.len() < script.len() { " …" } else { "" };
    format!("{verb}{user}{dir}: {short}{more}")
}

/// `enable and start`, as far as the states tell.
fn unit_verbs(change: &Change) -> String {
    let (Ok(from), Ok(to)) =
        (UnitState::try_from(change.from.clone()), UnitState::try_from(change.to.clone()))
    else {
        return "change".to_owned();
    };
    let enabled = |s: &UnitState| match s {
        UnitState::Absent => String::new(),
        UnitState::Unit { enabled, .. } => enabled.clone(),
    };
    let (e1, e2) = (enabled(&from), enabled(&to));
    let mut verbs = Vec::new();
    if e1 != e2 {
        match e2.as_str() {
            "enabled" => verbs.push("enable"),
            "disabled" if e1 == "masked" => verbs.push("unmask"),
            "disabled" => verbs.push("disable"),
            "masked" => verbs.push("mask"),
            _ => {}
        }
    }
    verbs.extend(act(&from, &to).verb());
    if verbs.is_empty() { "change".to_owned() } else { verbs.join(" and ") }
}

/// The attributes that differ. For a sensitive item, only those that cannot hold a value of the user.
pub(crate) fn attributes(change: &Change, sensitive: bool) -> Vec<AttributeChange> {
    let all = match object(&change.object.kind) {
        Some(object) => object.attributes(change),
        None => Vec::new(),
    };
    let open = matches!(change.object.kind.as_str(), "path" | "package" | "unit" | "group");
    all.into_iter()
        .map(|a| {
            if !sensitive || (open && !matches!(a.name.as_str(), "target" | "started with")) {
                return a;
            }
            let hide = |v: Option<String>| v.map(|_| "(sensitive)".to_owned());
            AttributeChange { name: a.name, before: hide(a.before), after: hide(a.after) }
        })
        .collect()
}

/// A change of content.
pub(crate) enum ContentChange {
    /// Text against text; absent is the empty text.
    Text { old: Option<String>, new: Option<String> },
    /// Only size and digest are known, or the bytes are no text.
    Opaque { old: Option<(Option<u64>, Digest)>, new: Option<(Option<u64>, Digest)> },
    /// The content changes; no more may be shown.
    Sensitive,
}

/// The change of the object's content; `None` if it has none or it stays.
pub(crate) fn content(
    change: &Change,
    sensitive: bool,
    contents: &BTreeMap<Digest, Content>,
) -> Option<ContentChange> {
    let object = object(&change.object.kind)?;
    let (old, new) = (object.content(&change.from), object.content(&change.to));
    if old == new {
        return None;
    }
    if sensitive {
        return Some(ContentChange::Sensitive);
    }
    let text = |digest: &Option<Digest>| match digest {
        None => Some(None),
        Some(d) => contents.get(d).and_then(Content::text).map(|t| Some(t.to_owned())),
    };
    if let (Some(old), Some(new)) = (text(&old), text(&new)) {
        return Some(ContentChange::Text { old, new });
    }
    let sized = |digest: Option<Digest>, state: &State| {
        let size = match PathState::try_from(state.clone()) {
            Ok(PathState::File { size, .. }) => size,
            _ => None,
        };
        digest.map(|d| (size, d))
    };
    Some(ContentChange::Opaque { old: sized(old, &change.from), new: sized(new, &change.to) })
}

/// Everything below the title: attributes, content, whether it can be undone.
pub(crate) fn body(
    planned: &PlannedChange,
    sensitive: bool,
    contents: &BTreeMap<Digest, Content>,
    indent: usize,
    look: &Look,
) -> Text {
    let mut text = Text::new();
    push_attributes(&mut text, &attributes(&planned.change, sensitive), &planned.change, indent);
    match content(&planned.change, sensitive, contents) {
        None => {}
        Some(ContentChange::Sensitive) => {
            text.push(Line::at(indent).say(Tone::Change, "content is sensitive: changes"));
        }
        Some(ContentChange::Text { old, new }) => text.append(match (old, new) {
            (None, Some(new)) => diff::whole(&new, ChangeTag::Insert, indent, look),
            (Some(old), None) => diff::whole(&old, ChangeTag::Delete, indent, look),
            (old, new) => diff::hunks(&old.unwrap_or_default(), &new.unwrap_or_default(), indent, look),
        }),
        Some(ContentChange::Opaque { old, new }) => {
            let side = |s: Option<(Option<u64>, Digest)>| {
                s.map(|(size, d)| {
                    let size = size.map_or_else(|| "the file with".to_owned(), bytes);
                    format!("{size} sha256 {}", if look.verbose { d.as_str() } else { d.short() })
                })
            };
            let change = AttributeChange { name: "content".to_owned(), before: side(old), after: side(new) };
            text.push(attribute(&change, indent));
        }
    }
    push_reversibility(&mut text, planned, indent);
    text
}

/// `! cannot be undone: why`
pub(crate) fn push_reversibility(text: &mut Text, planned: &PlannedChange, indent: usize) {
    if let Reversibility::Irreversible(why) = &planned.reversibility {
        text.prose(indent, Tone::Warn, "! cannot be undone: ", why);
    }
}

pub(crate) fn push_attributes(text: &mut Text, all: &[AttributeChange], change: &Change, indent: usize) {
    // The sort of a path that comes or goes is said in the title, as is the record a unit is restarted for.
    let may_show = |a: &&AttributeChange| match a.name.as_str() {
        "type" => a.before.is_some() && a.after.is_some(),
        "started with" => false,
        "state" | "ran for" => change.object.kind != "command",
        "unit" => false,
        _ => true,
    };
    let all: Vec<&AttributeChange> = all.iter().filter(may_show).collect();
    for a in all.iter().filter(|a| a.before.is_some() && a.after.is_some()) {
        text.push(attribute(a, indent));
    }
    let after = all.iter().filter(|a| a.before.is_none());
    push_values(text, "", after.map(|a| (a.name.as_str(), a.after.as_deref())).collect(), indent);
    let gone = if change.to.is_absent() { "" } else { "no longer " };
    let before = all.iter().filter(|a| a.after.is_none());
    push_values(text, gone, before.map(|a| (a.name.as_str(), a.before.as_deref())).collect(), indent);
}

/// `mode 0755, owner demo` on one line.
fn push_values(text: &mut Text, lead: &str, values: Vec<(&str, Option<&str>)>, indent: usize) {
    if values.is_empty() {
        return;
    }
    let mut line = Line::at(indent).fold(indent + 2).faint(lead);
    for (i, (name, value)) in values.into_iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        line = line.faint(format!("{comma}{name} ")).plain(quoted(value.unwrap_or_default()));
    }
    text.push(line);
}

/// `mode 0644 → 0640`
fn attribute(a: &AttributeChange, indent: usize) -> Line {
    let line = Line::at(indent).fold(indent + 2).faint(format!("{} ", a.name));
    match (&a.before, &a.after) {
        (Some(b), Some(c)) => line.say(Tone::Remove, quoted(b)).faint(" → ").say(Tone::Add, quoted(c)),
        (None, Some(c)) => line.say(Tone::Add, quoted(c)),
        (Some(b), None) => line.say(Tone::Remove, quoted(b)),
        (None, None) => line,
    }
}

/// A value as it is, but an empty one or one with blanks at its ends in quotes.
fn quoted(value: &str) -> String {
    if value.is_empty() || value.trim() != value { format!("\"{value}\"") } else { value.to_owned() }
}

/// `512 B`, `1.4 KiB`, `20.0 MiB`
pub(crate) fn bytes(size: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, one) in UNITS {
        if size >= one {
            let tenths = size / (one / 10).max(1);
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{size} B")
}
