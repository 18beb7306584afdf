//! A systemd unit. Its key is the full name: `ssh.service`.

use crate::attributes::differing;
use converge_resource::{
    AnswerError, AttributeChange, BadState, Digest, Object, Observed, Reversibility, State, Step, quote,
};
use std::collections::BTreeMap;

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
        /// The digest, recorded by converge, of what it was last started with.
        started: Option<String>,
    },
}

impl From<UnitState> for State {
    fn from(state: UnitState) -> Self {
        match state {
            UnitState::Absent => Self::absent(),
            UnitState::Unit { enabled, active, started } => {
                Self::from_words(["unit", &enabled, &active, started.as_deref().unwrap_or("-")])
            }
        }
    }
}

impl TryFrom<State> for UnitState {
    type Error = BadState;

    fn try_from(state: State) -> Result<Self, BadState> {
        let words = state.words()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["absent"] => Ok(Self::Absent),
            ["unit", enabled, active, started] => Ok(Self::Unit {
                enabled: (*enabled).to_owned(),
                active: (*active).to_owned(),
                started: (*started != "-").then(|| (*started).to_owned()),
            }),
            _ => Err(BadState(state.line().to_owned())),
        }
    }
}

/// The object.
pub struct Unit;

impl Object for Unit {
    const KIND: &'static str = "unit";
    const SHELL: &'static str = include_str!("unit.sh");
    type State = UnitState;

    fn parse(keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>> {
        crate::answer::parse::<UnitState>(keys, answer)
    }

    fn steps(changes: &[(&str, UnitState, UnitState)]) -> Vec<Step> {
        changes
            .iter()
            .map(|(key, from, to)| {
                let line = State::from(to.clone());
                let script = format!("cv_apply_unit {} {}", quote(key), quote(line.line()));
                Step::new(title(key, from, to), script).within(600)
            })
            .collect()
    }

    fn reversibility(_: &str, _: &UnitState, _: &UnitState) -> Reversibility {
        Reversibility::Reversible
    }

    fn opaque(from: &UnitState, to: &UnitState) -> bool {
        starts(from, to) || stops(from, to)
    }

    fn attributes(from: &UnitState, to: &UnitState) -> Vec<AttributeChange> {
        differing(&["unit", "enabled", "active", "started with"], &facets(from), &facets(to))
    }

    fn content(_: &UnitState) -> Option<Digest> {
        None
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

/// True when the unit is started or restarted on the way.
fn starts(from: &UnitState, to: &UnitState) -> bool {
    active(to) && (!active(from) || (record(to).is_some() && record(from) != record(to)))
}

fn stops(from: &UnitState, to: &UnitState) -> bool {
    active(from) && !active(to)
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
    if starts(from, to) {
        words.push(if active(from) { "restart" } else { "start" });
    } else if stops(from, to) {
        words.push("stop");
    }
    if words.is_empty() {
        words.push("settle");
    }
    format!("{} {key}", words.join(" and "))
}

fn facets(state: &UnitState) -> BTreeMap<&'static str, String> {
    match state {
        UnitState::Absent => BTreeMap::new(),
        UnitState::Unit { enabled, active, started } => {
            let mut out = BTreeMap::from([
                ("unit", "known".to_owned()),
                ("enabled", enabled.clone()),
                ("active", active.clone()),
            ]);
            if let Some(digest) = started {
                out.insert("started with", digest.chars().take(12).collect());
            }
            out
        }
    }
}
