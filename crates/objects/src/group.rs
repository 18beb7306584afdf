//! A local group of `/etc/group`. Its key is the name. Members belong to the users: see the user object.

use converge_resource::{BadState, State};

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
