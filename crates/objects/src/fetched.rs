//! A file that was fetched from the host: it lies on the machine that runs converge, below one folder of the project. Its key is its path there.

use converge_resource::{Digest, Facets, Object, Traits, state_of_words};

/// The state of the place on the machine that runs converge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchedState {
    /// Nothing is there (`absent`).
    Absent,
    /// A regular file (`file MODE SHA256`).
    File {
        /// Permission bits.
        mode: u32,
        /// SHA-256 of its content.
        digest: Digest,
    },
    /// Something that is never replaced (`other WHAT`): a link, a directory, a file that is too large.
    Other {
        /// `link`, `directory` …
        what: String,
    },
}

impl FetchedState {
    /// A file for its owner alone, as every fetched one is.
    pub fn private(digest: Digest) -> Self {
        Self::File { mode: 0o600, digest }
    }

    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::File { mode, digest } => vec!["file".to_owned(), format!("{mode:o}"), digest.to_string()],
            Self::Other { what } => vec!["other".to_owned(), what.clone()],
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["file", mode, digest] => Some(Self::File {
                mode: u32::from_str_radix(mode, 8).ok()?,
                digest: Digest::from_hex(digest)?,
            }),
            ["other", what] => Some(Self::Other { what: (*what).to_owned() }),
            _ => None,
        }
    }
}

state_of_words!(FetchedState);

/// The object.
pub struct Fetched;

impl Object for Fetched {
    const KIND: &'static str = "fetched";
    const SHELL: &'static str = include_str!("fetched.sh");
    const TRAITS: Traits = Traits { on_controller: true, ..Traits::NONE };
    type State = FetchedState;

    fn title(key: &str, from: &FetchedState, to: &FetchedState) -> String {
        let verb = match (from, to) {
            (_, FetchedState::Absent) => "remove",
            (FetchedState::Absent, _) => "create",
            _ => "change",
        };
        format!("{verb} fetched/{key} on this machine")
    }

    fn facets(state: &FetchedState) -> Facets {
        match state {
            FetchedState::Absent => Vec::new(),
            FetchedState::File { mode, .. } => vec![("mode", format!("{mode:04o}"))],
            FetchedState::Other { what } => vec![("type", what.clone())],
        }
    }

    fn content(state: &FetchedState) -> Option<Digest> {
        match state {
            FetchedState::File { digest, .. } => Some(digest.clone()),
            FetchedState::Absent | FetchedState::Other { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shells;
    use converge_resource::State;

    #[test]
    fn states_are_lines() {
        let digest = Digest::of(b"x");
        for state in
            [FetchedState::Absent, FetchedState::private(digest), FetchedState::Other { what: "link".into() }]
        {
            let line: State = state.clone().into();
            assert_eq!(FetchedState::try_from(line), Ok(state));
        }
    }

    /// The host shows what the controller says of the file, and after the step what the step has noted; outside of an item it cannot tell.
    #[test]
    fn a_host_shows_what_it_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        for shell in shells(dir.path()) {
            let root = tempfile::tempdir().unwrap();
            let head = "CV_DIR=$CV_ROOT; CV_TOKEN=t; cv_run_dir() { :; }; CV_FETCHED='a/b absent\n\\0143\\0040\\0144 file 600 x'";
            let see = |more: &str| shell.good(root.path(), &format!("{head}; {more}"), &[], b"");
            assert_eq!(see("cv_see_fetched a/b 'c d'"), "- absent\n- file 600 x\n", "{}", shell.name);
            assert_eq!(see("cv_apply_fetched a/b 'file 600 y'; cv_line_fetched a/b"), "file 600 y\n");
            // A note of another item is not this one's.
            assert_eq!(see("CV_TOKEN=u; cv_line_fetched a/b"), "absent\n");
            let outside = shell.good(root.path(), "cv_see_fetched a/b", &[], b"");
            assert!(outside.starts_with("! "), "{}: {outside}", shell.name);
        }
    }
}
