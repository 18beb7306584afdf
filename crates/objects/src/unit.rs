//! A systemd unit. Its key is the full name: `ssh.service`.

use converge_resource::{BadState, State};

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
