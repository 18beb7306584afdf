//! A kernel parameter's running value. Its key is the dotted name: `net.ipv4.ip_forward`.

use converge_resource::{BadState, State};

/// The state of a kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SysctlState {
    /// This kernel has no such parameter, or its module is not loaded (`absent`).
    Absent,
    /// Its running value (`value TEXT`), runs of blanks made one space, trimmed.
    Value(String),
}

impl SysctlState {
    /// A value as the host prints it: runs of blanks made one space, trimmed.
    pub fn value(text: &str) -> Self {
        Self::Value(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl From<SysctlState> for State {
    fn from(state: SysctlState) -> Self {
        match state {
            SysctlState::Absent => Self::absent(),
            SysctlState::Value(text) => Self::from_words(["value", &text]),
        }
    }
}

impl TryFrom<State> for SysctlState {
    type Error = BadState;

    fn try_from(state: State) -> Result<Self, BadState> {
        let words = state.words()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["absent"] => Ok(Self::Absent),
            ["value", text] => Ok(Self::Value((*text).to_owned())),
            _ => Err(BadState(state.line().to_owned())),
        }
    }
}
