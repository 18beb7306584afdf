//! A local user of `/etc/passwd`. Its key is the login name.
//!
//! The home directory is no part of it: a kind that wants one claims it as a path of its own, after the user.

use crate::attributes::differing;
use converge_resource::{
    AnswerError, AttributeChange, BadState, Digest, Object, Observed, Reversibility, State, Step, quote,
};
use std::collections::{BTreeMap, BTreeSet};

/// The state of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserState {
    /// No such user (`absent`).
    Absent,
    /// A user (`user UID GROUP GECOS HOME SHELL locked|unlocked GROUPS…`).
    User {
        /// The number. `None` only in a planned state (`~` in the line): the host chooses when it makes the user.
        uid: Option<u32>,
        /// The primary group by name; by number where the host has no name.
        group: String,
        /// The comment field.
        gecos: String,
        /// The home directory.
        home: String,
        /// The login shell.
        shell: String,
        /// True when no password opens it (the shadow field begins with `!` or `*`).
        locked: bool,
        /// The supplementary groups, from `/etc/group`.
        groups: BTreeSet<String>,
    },
}

impl From<UserState> for State {
    fn from(state: UserState) -> Self {
        match state {
            UserState::Absent => Self::absent(),
            UserState::User { uid, group, gecos, home, shell, locked, groups } => {
                let uid = uid.map_or_else(|| "~".to_owned(), |n| n.to_string());
                let lock = if locked { "locked" } else { "unlocked" };
                let fixed = ["user", &uid, &group, &gecos, &home, &shell, lock];
                Self::from_words(fixed.into_iter().chain(groups.iter().map(String::as_str)))
            }
        }
    }
}

impl TryFrom<State> for UserState {
    type Error = BadState;

    fn try_from(state: State) -> Result<Self, BadState> {
        let bad = || BadState(state.line().to_owned());
        let words = state.words()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["absent"] => Ok(Self::Absent),
            ["user", uid, group, gecos, home, shell, lock @ ("locked" | "unlocked"), groups @ ..] => {
                let set: BTreeSet<String> = groups.iter().map(|g| (*g).to_owned()).collect();
                if !set.iter().map(String::as_str).eq(groups.iter().copied()) {
                    return Err(bad());
                }
                Ok(Self::User {
                    uid: if *uid == "~" { None } else { Some(uid.parse().map_err(|_| bad())?) },
                    group: (*group).to_owned(),
                    gecos: (*gecos).to_owned(),
                    home: (*home).to_owned(),
                    shell: (*shell).to_owned(),
                    locked: *lock == "locked",
                    groups: set,
                })
            }
            _ => Err(bad()),
        }
    }
}

/// The object.
pub struct User;

impl Object for User {
    const KIND: &'static str = "user";
    const SHELL: &'static str = include_str!("user.sh");
    type State = UserState;

    fn parse(keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>> {
        crate::answer::parse::<UserState>(keys, answer)
    }

    fn steps(changes: &[(&str, UserState, UserState)]) -> Vec<Step> {
        changes
            .iter()
            .map(|(key, from, to)| {
                let line = State::from(to.clone());
                let verb = match (from, to) {
                    (_, UserState::Absent) => "remove",
                    (UserState::Absent, _) => "make",
                    _ => "change",
                };
                Step::new(
                    format!("{verb} the user {key}"),
                    format!("cv_apply_user {} {}", quote(key), quote(line.line())),
                )
            })
            .collect()
    }

    fn reversibility(_: &str, _: &UserState, _: &UserState) -> Reversibility {
        Reversibility::Reversible
    }

    fn opaque(_: &UserState, _: &UserState) -> bool {
        false
    }

    fn attributes(from: &UserState, to: &UserState) -> Vec<AttributeChange> {
        let names = ["uid", "group", "comment", "home", "shell", "password", "groups"];
        differing(&names, &facets(from), &facets(to))
    }

    fn content(_: &UserState) -> Option<Digest> {
        None
    }
}

fn facets(state: &UserState) -> BTreeMap<&'static str, String> {
    match state {
        UserState::Absent => BTreeMap::new(),
        UserState::User { uid, group, gecos, home, shell, locked, groups } => BTreeMap::from([
            ("uid", uid.map_or_else(|| "(the host chooses)".to_owned(), |n| n.to_string())),
            ("group", group.clone()),
            ("comment", gecos.clone()),
            ("home", home.clone()),
            ("shell", shell.clone()),
            ("password", if *locked { "locked" } else { "usable" }.to_owned()),
            ("groups", groups.iter().map(String::as_str).collect::<Vec<_>>().join(" ")),
        ]),
    }
}
