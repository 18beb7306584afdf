//! A kernel parameter's running value. Its key is the dotted name: `net.ipv4.ip_forward`.

use crate::attributes::differing;
use converge_resource::{
    AnswerError, AttributeChange, BadState, Digest, Object, Observed, Reversibility, State, Step, quote,
};
use std::collections::BTreeMap;

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

/// The object.
pub struct Sysctl;

impl Object for Sysctl {
    const KIND: &'static str = "sysctl";
    const SHELL: &'static str = include_str!("sysctl.sh");
    type State = SysctlState;

    fn parse(keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>> {
        crate::answer::parse::<SysctlState>(keys, answer)
    }

    fn steps(changes: &[(&str, SysctlState, SysctlState)]) -> Vec<Step> {
        changes
            .iter()
            .map(|(key, _, to)| {
                let line = State::from(to.clone());
                Step::new(
                    format!("set {key}"),
                    format!("cv_apply_sysctl {} {}", quote(key), quote(line.line())),
                )
            })
            .collect()
    }

    fn reversibility(key: &str, from: &SysctlState, _: &SysctlState) -> Reversibility {
        match from {
            SysctlState::Absent => {
                Reversibility::Irreversible(format!("{key} has no value now to go back to"))
            }
            SysctlState::Value(_) => Reversibility::Reversible,
        }
    }

    fn opaque(_: &SysctlState, _: &SysctlState) -> bool {
        false
    }

    fn attributes(from: &SysctlState, to: &SysctlState) -> Vec<AttributeChange> {
        differing(&["value"], &facets(from), &facets(to))
    }

    fn content(_: &SysctlState) -> Option<Digest> {
        None
    }
}

fn facets(state: &SysctlState) -> BTreeMap<&'static str, String> {
    match state {
        SysctlState::Absent => BTreeMap::new(),
        SysctlState::Value(value) => BTreeMap::from([("value", value.clone())]),
    }
}
