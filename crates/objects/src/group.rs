//! A local group of `/etc/group`. Its key is the name. Members belong to the users: see the user object.

use crate::attributes::differing;
use converge_resource::{
    AnswerError, AttributeChange, BadState, Digest, Object, Observed, Reversibility, State, Step, quote,
};
use std::collections::BTreeMap;

/// The state of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// No such group (`absent`).
    Absent,
    /// A group (`group GID`).
    Group {
        /// The number. `None` only in a planned state (`~` in the line): the host chooses when it makes the group.
        gid: Option<u32>,
    },
}

impl From<GroupState> for State {
    fn from(state: GroupState) -> Self {
        match state {
            GroupState::Absent => Self::absent(),
            GroupState::Group { gid } => {
                Self::from_words(["group", &gid.map_or_else(|| "~".to_owned(), |n| n.to_string())])
            }
        }
    }
}

impl TryFrom<State> for GroupState {
    type Error = BadState;

    fn try_from(state: State) -> Result<Self, BadState> {
        let words = state.words()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["absent"] => Ok(Self::Absent),
            ["group", "~"] => Ok(Self::Group { gid: None }),
            ["group", gid] => {
                Ok(Self::Group { gid: Some(gid.parse().map_err(|_| BadState(state.line().to_owned()))?) })
            }
            _ => Err(BadState(state.line().to_owned())),
        }
    }
}

/// The object.
pub struct Group;

impl Object for Group {
    const KIND: &'static str = "group";
    const SHELL: &'static str = include_str!("group.sh");
    type State = GroupState;

    fn parse(keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>> {
        crate::answer::parse::<GroupState>(keys, answer)
    }

    fn steps(changes: &[(&str, GroupState, GroupState)]) -> Vec<Step> {
        changes
            .iter()
            .map(|(key, from, to)| {
                let line = State::from(to.clone());
                let verb = match (from, to) {
                    (_, GroupState::Absent) => "remove",
                    (GroupState::Absent, _) => "make",
                    _ => "renumber",
                };
                Step::new(
                    format!("{verb} the group {key}"),
                    format!("cv_apply_group {} {}", quote(key), quote(line.line())),
                )
            })
            .collect()
    }

    fn reversibility(_: &str, _: &GroupState, _: &GroupState) -> Reversibility {
        Reversibility::Reversible
    }

    fn opaque(_: &GroupState, _: &GroupState) -> bool {
        false
    }

    fn attributes(from: &GroupState, to: &GroupState) -> Vec<AttributeChange> {
        differing(&["gid"], &facets(from), &facets(to))
    }

    fn content(_: &GroupState) -> Option<Digest> {
        None
    }
}

fn facets(state: &GroupState) -> BTreeMap<&'static str, String> {
    match state {
        GroupState::Absent => BTreeMap::new(),
        GroupState::Group { gid } => {
            BTreeMap::from([("gid", gid.map_or_else(|| "(the host chooses)".to_owned(), |n| n.to_string()))])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_lines_and_lines_are_states() {
        for (state, line) in [
            (GroupState::Absent, "absent"),
            (GroupState::Group { gid: Some(50) }, "group 50"),
            (GroupState::Group { gid: None }, "group ~"),
        ] {
            assert_eq!(State::from(state.clone()).line(), line);
            assert_eq!(GroupState::try_from(State::from_line(line)), Ok(state));
        }
        assert!(GroupState::try_from(State::from_line("group many")).is_err());
        let steps = Group::steps(&[("crew", GroupState::Absent, GroupState::Group { gid: Some(50) })]);
        assert_eq!(steps[0].script, "cv_apply_group crew 'group 50'");
    }
}
