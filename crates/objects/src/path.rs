//! A path: absent, a regular file, a directory, a symbolic link, or something else (a device, a socket).

use crate::attributes::differing;
use converge_resource::{
    AnswerError, AttributeChange, BadState, Content, Digest, Object, ObjectId, Observed, Reversibility,
    State, Step, quote,
};
use std::collections::BTreeMap;

/// The state of a path. Its key is an absolute path; the final component is never followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathState {
    /// Nothing is there (`absent`).
    Absent,
    /// A regular file (`file MODE OWNER GROUP SIZE SHA256`).
    File {
        /// SHA-256 of its content.
        digest: Digest,
        /// Bytes.
        size: u64,
        /// Permission bits with setuid, setgid and sticky: `0o644`.
        mode: u32,
        /// The owner by name; by number where the host has no name.
        owner: String,
        /// The group by name; by number where the host has no name.
        group: String,
    },
    /// A directory (`dir MODE OWNER GROUP`).
    Dir {
        /// Permission bits with setuid, setgid and sticky.
        mode: u32,
        /// As for a file.
        owner: String,
        /// As for a file.
        group: String,
    },
    /// A symbolic link (`link TARGET`).
    Link {
        /// What it holds, unresolved.
        target: String,
    },
    /// Neither of these (`other WHAT`): never touched.
    Other {
        /// `fifo`, `socket`, `character special file` …, as `stat` says.
        what: String,
    },
}

impl From<PathState> for State {
    fn from(state: PathState) -> Self {
        match state {
            PathState::Absent => Self::absent(),
            PathState::File { digest, size, mode, owner, group } => Self::from_words([
                "file",
                &format!("{mode:o}"),
                &owner,
                &group,
                &size.to_string(),
                digest.as_str(),
            ]),
            PathState::Dir { mode, owner, group } => {
                Self::from_words(["dir", &format!("{mode:o}"), &owner, &group])
            }
            PathState::Link { target } => Self::from_words(["link", &target]),
            PathState::Other { what } => Self::from_words(["other", &what]),
        }
    }
}

impl TryFrom<State> for PathState {
    type Error = BadState;

    fn try_from(state: State) -> Result<Self, BadState> {
        let bad = || BadState(state.line().to_owned());
        let words = state.words()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let octal = |text: &str| u32::from_str_radix(text, 8).ok().filter(|m| *m <= 0o7777).ok_or_else(bad);
        match words.as_slice() {
            ["absent"] => Ok(Self::Absent),
            ["file", mode, owner, group, size, digest] => Ok(Self::File {
                digest: Digest::from_hex(digest).ok_or_else(bad)?,
                size: size.parse().map_err(|_| bad())?,
                mode: octal(mode)?,
                owner: (*owner).to_owned(),
                group: (*group).to_owned(),
            }),
            ["dir", mode, owner, group] => {
                Ok(Self::Dir { mode: octal(mode)?, owner: (*owner).to_owned(), group: (*group).to_owned() })
            }
            ["link", target] => Ok(Self::Link { target: (*target).to_owned() }),
            ["other", what] => Ok(Self::Other { what: (*what).to_owned() }),
            _ => Err(bad()),
        }
    }
}

/// The object.
pub struct Path;

impl Object for Path {
    const KIND: &'static str = "path";
    const SHELL: &'static str = include_str!("path.sh");
    type State = PathState;

    fn parse(keys: &[&str], answer: &str) -> BTreeMap<String, Result<Observed, AnswerError>> {
        crate::answer::parse::<PathState>(keys, answer)
    }

    fn steps(changes: &[(&str, PathState, PathState)]) -> Vec<Step> {
        changes.iter().map(|(key, from, to)| step(key, from, to)).collect()
    }

    fn reversibility(_: &str, from: &PathState, _: &PathState) -> Reversibility {
        match from {
            PathState::File { size, .. } if *size > SAVE_LIMIT => {
                Reversibility::Irreversible(format!("its {size} bytes are above the 100 MiB that are saved"))
            }
            PathState::Other { what } => Reversibility::Irreversible(format!("a {what} is not saved")),
            _ => Reversibility::Reversible,
        }
    }

    fn opaque(_: &PathState, _: &PathState) -> bool {
        false
    }

    fn attributes(from: &PathState, to: &PathState) -> Vec<AttributeChange> {
        let (a, b) = (facets(from), facets(to));
        differing(&["type", "mode", "owner", "group", "target"], &a, &b)
    }

    fn content(state: &PathState) -> Option<Digest> {
        match state {
            PathState::File { digest, .. } => Some(digest.clone()),
            _ => None,
        }
    }

    fn brings(key: &str, content: &Content) -> Vec<(ObjectId, State)> {
        crate::unit::brought_by_file(key, content).into_iter().collect()
    }
}

/// Content above this many bytes is not saved before it is replaced.
pub const SAVE_LIMIT: u64 = 100 << 20;

fn step(key: &str, from: &PathState, to: &PathState) -> Step {
    let line = State::from(to.clone());
    let apply = format!("cv_apply_path {} {}", quote(key), quote(line.line()));
    match (from, to) {
        // The content stays: only owner and mode are set, and the file keeps its inode.
        (PathState::File { digest: a, .. }, PathState::File { digest: b, mode, owner, group, .. })
            if a == b =>
        {
            Step::new(
                format!("set owner and mode of {key}"),
                format!("cv_own_path {} {mode:o} {} {}", quote(key), quote(owner), quote(group)),
            )
        }
        (_, PathState::File { digest, .. }) => {
            Step::new(format!("write {key}"), apply).reading(digest.clone())
        }
        (_, PathState::Dir { .. }) => Step::new(format!("make the directory {key}"), apply),
        (_, PathState::Link { .. }) => Step::new(format!("link {key}"), apply),
        (_, PathState::Absent) => Step::new(format!("remove {key}"), apply),
        (_, PathState::Other { .. }) => Step::new(format!("leave {key}"), apply),
    }
}

fn facets(state: &PathState) -> BTreeMap<&'static str, String> {
    let mut out = BTreeMap::new();
    let (kind, rights) = match state {
        PathState::Absent => return out,
        PathState::File { mode, owner, group, .. } => ("file", Some((mode, owner, group))),
        PathState::Dir { mode, owner, group } => ("directory", Some((mode, owner, group))),
        PathState::Link { target } => {
            out.insert("target", target.clone());
            ("link", None)
        }
        PathState::Other { what } => (what.as_str(), None),
    };
    out.insert("type", kind.to_owned());
    if let Some((mode, owner, group)) = rights {
        out.insert("mode", format!("{mode:04o}"));
        out.insert("owner", owner.clone());
        out.insert("group", group.clone());
    }
    out
}

#[cfg(test)]
mod tests;
