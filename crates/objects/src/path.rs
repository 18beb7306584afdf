//! A path: absent, a regular file, a directory, a symbolic link, or something else (a device, a socket).

use converge_resource::{BadState, Digest, State};

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
