//! A systemd unit. Its key is the full name: `ssh.service`.

use crate::programs::{not_known, of_unit};
use converge_resource::{
    AlteredFact, Content, Contents, Disruption, DriftScript, DynEffects, DynLinks, DynNeeds, DynSharedObject,
    Effects, ErasedObject, Facets, Footprint, Links, Naming, Needs, Object, ObjectId, Past, SharedObject,
    State, Traits, quote, state_of_words,
};

/// The folder of the administrator's units; a file directly in it is a unit.
pub(crate) const UNIT_FOLDER: &str = "/etc/systemd/system/";

/// The last parts of names that systemd reads as units.
const SUFFIXES: &[&str] = &["service", "socket", "timer", "path", "mount", "target", "slice"];

/// The answer of `systemctl is-enabled` for a unit with this file that has not been enabled: `disabled` with an `[Install]`
/// section that says when to start it, else `static`.
pub fn enabled_by_file(content: &Content) -> &'static str {
    let text = String::from_utf8_lossy(content.bytes());
    let mut inside = false;
    let installs = text.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            inside = line == "[Install]";
        }
        let key =
            line.split_once('=').filter(|(_, value)| !value.trim().is_empty()).map(|(key, _)| key.trim());
        inside && matches!(key, Some("WantedBy" | "RequiredBy" | "UpheldBy" | "Alias" | "Also"))
    });
    if installs { "disabled" } else { "static" }
}

/// The other names that this unit file gives to its unit, once that is enabled. Those with specifiers are left out.
fn aliases(content: &Content) -> Vec<String> {
    let text = String::from_utf8_lossy(content.bytes());
    let mut inside = false;
    let mut names = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[Install]";
        }
        let value =
            line.split_once('=').filter(|(key, _)| inside && key.trim() == "Alias").map(|(_, value)| value);
        names.extend(
            value.into_iter().flat_map(str::split_whitespace).filter(|n| !n.contains('%')).map(str::to_owned),
        );
    }
    names
}

/// The names that a file or a link among the administrator's units gives: its own one, and those of `Alias=`.
pub(crate) fn names_by_file(path: &str, content: &Content) -> Vec<(ObjectId, ObjectId)> {
    let Some(unit) = unit_of_file(path) else { return Vec::new() };
    let others = aliases(content).into_iter().map(|name| (ObjectId::new(Unit::KIND, name), unit.clone()));
    std::iter::once((unit.clone(), unit.clone())).chain(others).collect()
}

/// The same of a link: it is an alias of the unit that it leads to.
pub(crate) fn name_by_link(path: &str, target: &str) -> Option<(ObjectId, ObjectId)> {
    let file = target.rsplit('/').next().unwrap_or(target);
    Some((unit_of_file(path)?, unit_of_file(&format!("{UNIT_FOLDER}{file}"))?))
}

/// The kind of the objects that a file at this path may name.
pub(crate) fn named_at(path: &str) -> Option<&'static str> {
    path.starts_with(UNIT_FOLDER).then_some(Unit::KIND)
}

/// The unit that this file makes. A template (`a@.service`) is none that can run.
fn unit_of_file(path: &str) -> Option<ObjectId> {
    made_by_file(path).filter(|unit| !unit.key.contains("@."))
}

/// The unit, or template of units, that this file makes.
fn made_by_file(path: &str) -> Option<ObjectId> {
    let name = path.strip_prefix(UNIT_FOLDER).filter(|n| !n.contains('/'))?;
    let (_, suffix) = name.rsplit_once('.')?;
    SUFFIXES.contains(&suffix).then(|| ObjectId::new(Unit::KIND, name))
}

/// The template of this unit, if it is an instance (`a@b.service` of `a@.service`) or a template.
fn template_of(name: &str) -> Option<ObjectId> {
    let (stem, instance) = name.split_once('@')?;
    let (_, suffix) = instance.rsplit_once('.')?;
    Some(ObjectId::new(Unit::KIND, format!("{stem}@.{suffix}")))
}

/// The unit that comes into being with this file, stopped and not enabled.
pub(crate) fn brought_by_file(path: &str, content: &Content) -> Option<(ObjectId, State)> {
    let state = UnitState::Unit {
        enabled: enabled_by_file(content).to_owned(),
        active: "inactive".to_owned(),
        started: None,
    };
    made_by_file(path).map(|unit| (unit, state.into()))
}

/// The unit that goes with this file.
pub(crate) fn gone_with_file(path: &str) -> Option<(ObjectId, State)> {
    made_by_file(path).map(|unit| (unit, State::absent()))
}

/// The state of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// systemd knows no such unit (`absent`).
    Absent,
    /// A unit (`unit ENABLED ACTIVE STARTED`).
    Unit {
        /// systemd's `UnitFileState`: `enabled`, `disabled`, `masked`, `static` …; empty when it has none.
        enabled: String,
        /// systemd's `ActiveState` once settled: `active`, `inactive`, `failed`.
        active: String,
        /// The record of converge of its inputs: digests of those with which it was last started, and behind `~` of those with which it was
        /// last started or reloaded, joined by `+`.
        started: Option<String>,
    },
}

impl UnitState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Unit { enabled, active, started } => {
                let started = started.as_deref().unwrap_or("-");
                ["unit", enabled, active, started].map(str::to_owned).to_vec()
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["unit", enabled, active, started] => Some(Self::Unit {
                enabled: (*enabled).to_owned(),
                active: (*active).to_owned(),
                started: (*started != "-").then(|| (*started).to_owned()),
            }),
            _ => None,
        }
    }
}

state_of_words!(UnitState);

/// The object.
pub struct Unit;

impl Object for Unit {
    const KIND: &'static str = "unit";
    const SHELL: &'static str = include_str!("unit.sh");
    const SECONDS: u64 = 600;
    /// systemd has no record of who used an alias: one record of what it was started with serves all its names.
    const TRAITS: Traits = Traits { naming: Naming::Real, footprint: Footprint::Named, ..Traits::NONE };
    const LINKS: &'static dyn DynLinks = &ErasedObject::<Self>::new();
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const SHARED: &'static dyn DynSharedObject = &ErasedObject::<Self>::new();
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
    type State = UnitState;

    fn title(key: &str, from: &UnitState, to: &UnitState) -> String {
        title(key, from, to)
    }

    fn opaque(from: &UnitState, to: &UnitState) -> bool {
        act(from, to) != Act::Nothing
    }

    fn facets(state: &UnitState) -> Facets {
        match state {
            UnitState::Absent => Vec::new(),
            UnitState::Unit { enabled, active, started } => {
                let record = started.iter().map(|digest| ("started with", digest.chars().take(12).collect()));
                [("unit", "known".to_owned()), ("enabled", enabled.clone()), ("active", active.clone())]
                    .into_iter()
                    .chain(record)
                    .collect()
            }
        }
    }

    /// A running unit is stopped or restarted; the first start of a unit disrupts nothing, and no reload does.
    fn disruption(from: &UnitState, to: Option<&UnitState>) -> Disruption {
        let disturbed = match to {
            None => active(from),
            Some(to) => matches!(act(from, to), Act::Stop | Act::Restart),
        };
        if disturbed { Disruption::Restarts } else { Disruption::None }
    }

    /// A unit whose file is still there cannot be absent, and no step makes a unit fail: stopped is as near as a host can come.
    fn fulfils(now: &UnitState, planned: &UnitState) -> bool {
        match (now, planned) {
            (UnitState::Unit { active, started: None, .. }, UnitState::Absent) => {
                active == "inactive" || active == "failed"
            }
            (UnitState::Unit { active, .. }, UnitState::Unit { enabled, active: wanted, started })
                if active == "inactive" && wanted == "failed" =>
            {
                let (enabled, started) = (enabled.clone(), started.clone());
                *now == UnitState::Unit { enabled, active: active.clone(), started }
            }
            _ => now == planned,
        }
    }

    /// A unit that comes or goes is stopped and disabled, and its record goes last; without its mask it is disabled before it is enabled. A boot in
    /// between starts it, or does not.
    fn amid(before: &UnitState, after: &UnitState, now: &UnitState) -> bool {
        let UnitState::Unit { enabled, started, .. } = now else { return false };
        let ends = [before, after].map(|state| match state {
            UnitState::Unit { enabled, started, .. } => (enabled.as_str(), started.as_deref()),
            UnitState::Absent => ("", None),
        });
        let through = ends.iter().any(|(word, _)| word.is_empty() || word.starts_with("masked"));
        let links = ends.iter().any(|(word, _)| word == enabled)
            || through && matches!(enabled.as_str(), "disabled" | "static" | "indirect");
        let recorded = started.is_none() || ends.iter().any(|(_, record)| *record == started.as_deref());
        links && recorded
    }

    fn drifts(key: &str, state: &UnitState) -> Vec<DriftScript> {
        let UnitState::Unit { enabled, active, .. } = state else { return Vec::new() };
        let unit = quote(key);
        let mut drifts = match active.as_str() {
            "active" => vec![DriftScript::new("active", "stopped", format!("systemctl stop -- {unit}"))],
            "inactive" => {
                vec![DriftScript::new("active", "started", format!("systemctl start -- {unit} || exit 3"))]
            }
            _ => Vec::new(),
        };
        drifts.extend(match enabled.as_str() {
            "enabled" => {
                Some(DriftScript::new("enabled", "disabled", format!("systemctl -q disable -- {unit}")))
            }
            "disabled" => Some(DriftScript::new(
                "enabled",
                "enabled",
                format!("systemctl -q enable -- {unit} || exit 3"),
            )),
            "masked" => {
                Some(DriftScript::new("masked", "unmasked", format!("systemctl -q unmask -- {unit}")))
            }
            _ => None,
        });
        drifts
    }
}

impl Links for Unit {
    fn template(key: &str) -> Option<ObjectId> {
        template_of(key)
    }

    /// Its file alone makes it so.
    fn bare(state: &UnitState) -> bool {
        matches!(state, UnitState::Unit { enabled, active, started: None }
            if active == "inactive" && matches!(enabled.as_str(), "disabled" | "static" | "indirect" | ""))
    }
}

impl Effects for Unit {
    fn alters(key: &str, from: &UnitState, to: &UnitState) -> Vec<AlteredFact> {
        if Self::opaque(from, to) { not_known(of_unit(key)) } else { Vec::new() }
    }

    fn may_alter(key: &str) -> Vec<&'static str> {
        of_unit(key)
    }
}

impl SharedObject for Unit {
    /// The record is converge's own, whoever wrote it last. A unit that is enabled as the run left it still shows what the run made of it while
    /// it runs as the run left it or found it, has failed since, or was started by a boot: none of these is a user's decision. Started with
    /// something else, by another run or rollback, it shows no more what this one made of it.
    fn shows(now: &UnitState, past: &Past<'_, UnitState>, _: &Contents<'_>) -> bool {
        let (
            UnitState::Unit { enabled, active, started },
            UnitState::Unit { enabled: left, active: ran, started: with },
        ) = (now, past.left)
        else {
            return now == past.left;
        };
        let (before, found_with) = match past.before {
            UnitState::Unit { active, started, .. } => (active.as_str(), started.as_ref()),
            UnitState::Absent => ("inactive", None),
        };
        let other = started.is_some() && with.is_some() && started != with && started.as_ref() != found_with;
        if active == "active" && ran == "active" && other {
            return false;
        }
        let boots = !enabled.is_empty() && enabled != "disabled" && !enabled.starts_with("masked");
        let by_itself = if ran == "active" { active != "inactive" } else { active != "active" || boots };
        enabled == left && (active == ran || active == before || by_itself)
    }
}

fn active(state: &UnitState) -> bool {
    matches!(state, UnitState::Unit { active, .. } if active == "active")
}

fn record(state: &UnitState) -> Option<&str> {
    match state {
        UnitState::Unit { started, .. } => started.as_deref(),
        UnitState::Absent => None,
    }
}

/// The effect of a change on a unit, apart from its start at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The unit keeps running unchanged.
    Nothing,
    /// The unit is started.
    Start,
    /// The unit is started again.
    Restart,
    /// It reads its inputs again while it runs.
    Reload,
    /// It is stopped.
    Stop,
}

impl Act {
    /// The verb for people; none where nothing is done.
    pub fn verb(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Start => Some("start"),
            Self::Restart => Some("restart"),
            Self::Reload => Some("reload"),
            Self::Stop => Some("stop"),
        }
    }
}

/// The act of this change. A unit is also restarted or reloaded if only the record of its inputs is to be removed, since it then runs with
/// the inputs that come back. A restart reads all again: one act serves both.
pub fn act(from: &UnitState, to: &UnitState) -> Act {
    let differ = |reload: bool| inputs(from, reload) != inputs(to, reload);
    match (active(from), active(to)) {
        (false, false) => Act::Nothing,
        (false, true) => Act::Start,
        (true, false) => Act::Stop,
        (true, true) if differ(false) => Act::Restart,
        (true, true) if differ(true) => Act::Reload,
        (true, true) => Act::Nothing,
    }
}

/// The parts of the record for which a unit is restarted, or those for which it is reloaded.
fn inputs(state: &UnitState, reload: bool) -> Vec<&str> {
    let parts = record(state).into_iter().flat_map(|record| record.split('+'));
    parts.filter(|part| part.starts_with('~') == reload).collect()
}

fn title(key: &str, from: &UnitState, to: &UnitState) -> String {
    let enabled = |state: &UnitState| match state {
        UnitState::Unit { enabled, .. } => enabled.clone(),
        UnitState::Absent => String::new(),
    };
    let mut words = Vec::new();
    match enabled(to).as_str() {
        same if same == enabled(from) => {}
        "enabled" | "enabled-runtime" => words.push("enable"),
        "disabled" => words.push("disable"),
        "masked" | "masked-runtime" => words.push("mask"),
        _ => {}
    }
    words.extend(act(from, to).verb());
    if words.is_empty() {
        words.push("settle");
    }
    format!("{} {key}", words.join(" and "))
}

impl Needs for Unit {
    /// One that runs, or starts at boot, needs the file that a package brought; it is of no package where the administrator wrote it.
    fn stands_on(key: &str, state: &UnitState) -> Vec<String> {
        let UnitState::Unit { enabled, active, .. } = state else { return Vec::new() };
        let is_used = active == "active" || enabled.starts_with("enabled");
        let names = template_of(key).map(|template| template.key).into_iter().chain([key.to_owned()]);
        names.filter(|_| is_used).map(|name| format!("/lib/systemd/system/{name}")).collect()
    }
}

#[cfg(test)]
#[path = "unit_tests.rs"]
mod tests;
