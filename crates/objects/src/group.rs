//! A local group of `/etc/group`. Its key is the name. Members belong to the users: see the user object.

use converge_resource::{
    DriftScript, DynRelations, ErasedObject, Facets, Footprint, Object, Relations, Traits, quote,
    state_of_words,
};

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

impl GroupState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Group { gid } => {
                vec!["group".to_owned(), gid.map_or_else(|| "~".to_owned(), |n| n.to_string())]
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["group", "~"] => Some(Self::Group { gid: None }),
            ["group", gid] => Some(Self::Group { gid: Some(gid.parse().ok()?) }),
            _ => None,
        }
    }
}

state_of_words!(GroupState);

/// The object.
pub struct Group;

impl Object for Group {
    const KIND: &'static str = "group";
    const SHELL: &'static str = include_str!("group.sh");
    const TRAITS: Traits = Traits { footprint: Footprint::Named, runs_no_code: true, ..Traits::NONE };
    const RELATIONS: &'static dyn DynRelations = &ErasedObject::<Self>::new();
    type State = GroupState;

    fn title(key: &str, from: &GroupState, to: &GroupState) -> String {
        let verb = match (from, to) {
            (_, GroupState::Absent) => "remove",
            (GroupState::Absent, _) => "create",
            _ => "change",
        };
        format!("{verb} group {key}")
    }

    /// A gid that the plan leaves open is any.
    fn fulfils(now: &GroupState, planned: &GroupState) -> bool {
        let any = *planned == GroupState::Group { gid: None } && matches!(now, GroupState::Group { .. });
        any || now == planned
    }

    fn facets(state: &GroupState) -> Facets {
        match state {
            GroupState::Absent => Vec::new(),
            GroupState::Group { gid } => {
                vec![("gid", gid.map_or_else(|| "(assigned by the host)".to_owned(), |n| n.to_string()))]
            }
        }
    }

    fn drifts(key: &str, state: &GroupState) -> Vec<DriftScript> {
        let GroupState::Group { gid } = state else { return Vec::new() };
        let group = quote(key);
        let mut drifts: Vec<DriftScript> = gid
            .and_then(|gid| gid.checked_add(1000))
            .map(|other| {
                DriftScript::new(
                    "gid",
                    format!("gid {other}"),
                    format!("groupmod -g {other} -- {group} || exit 3"),
                )
            })
            .into_iter()
            .collect();
        // The first group of a user cannot be removed.
        drifts.push(DriftScript::new("presence", "removed", format!("groupdel -- {group} || exit 3")));
        drifts
    }
}

impl Relations for Group {
    /// Files keep the number, and show the name of the group that gets it.
    fn is_followed(from: &GroupState, to: &GroupState) -> bool {
        let numbered = |state: &GroupState| matches!(state, GroupState::Group { gid: Some(_) });
        (numbered(from) || numbered(to)) && from != to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_resource::State;

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
