//! A path: absent, a regular file, a directory, a symbolic link, or something else (a device, a socket).

use converge_resource::{
    Content, Digest, Facets, Object, ObjectId, Reversibility, Spoil, State, Step, quote, state_of_words,
};

/// The state of a path. Its key is an absolute path; the final component is never followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathState {
    /// Nothing is there (`absent`).
    Absent,
    /// A regular file (`file MODE OWNER GROUP SIZE SHA256`).
    File {
        /// SHA-256 of its content.
        digest: Digest,
        /// Bytes. `None` only in a planned state (`~` in the line): nobody knows before the host has fetched the file.
        size: Option<u64>,
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

impl PathState {
    fn words(&self) -> Vec<String> {
        let rights =
            |mode: &u32, owner: &String, group: &String| [format!("{mode:o}"), owner.clone(), group.clone()];
        let (kind, rest) = match self {
            Self::Absent => ("absent", Vec::new()),
            Self::File { digest, size, mode, owner, group } => {
                let mut rest = rights(mode, owner, group).to_vec();
                rest.extend([size.map_or_else(|| "~".to_owned(), |n| n.to_string()), digest.to_string()]);
                ("file", rest)
            }
            Self::Dir { mode, owner, group } => ("dir", rights(mode, owner, group).to_vec()),
            Self::Link { target } => ("link", vec![target.clone()]),
            Self::Other { what } => ("other", vec![what.clone()]),
        };
        std::iter::once(kind.to_owned()).chain(rest).collect()
    }

    fn read(words: &[&str]) -> Option<Self> {
        let octal = |text: &str| u32::from_str_radix(text, 8).ok().filter(|m| *m <= 0o7777);
        match words {
            ["absent"] => Some(Self::Absent),
            ["file", mode, owner, group, size, digest] => Some(Self::File {
                digest: Digest::from_hex(digest)?,
                size: if *size == "~" { None } else { Some(size.parse().ok()?) },
                mode: octal(mode)?,
                owner: (*owner).to_owned(),
                group: (*group).to_owned(),
            }),
            ["dir", mode, owner, group] => {
                Some(Self::Dir { mode: octal(mode)?, owner: (*owner).to_owned(), group: (*group).to_owned() })
            }
            ["link", target] => Some(Self::Link { target: (*target).to_owned() }),
            ["other", what] => Some(Self::Other { what: (*what).to_owned() }),
            _ => None,
        }
    }
}

state_of_words!(PathState);

/// The object.
pub struct Path;

impl Object for Path {
    const KIND: &'static str = "path";
    const SHELL: &'static str = include_str!("path.sh");
    type State = PathState;

    fn title(key: &str, from: &PathState, to: &PathState) -> String {
        match (from, to) {
            (PathState::File { digest: a, .. }, PathState::File { digest: b, .. }) if a == b => {
                format!("set owner and mode of {key}")
            }
            (_, PathState::File { size: None, .. }) => format!("fetch {key}"),
            (_, PathState::File { .. }) => format!("write {key}"),
            (_, PathState::Dir { .. }) => format!("make the directory {key}"),
            (_, PathState::Link { .. }) => format!("link {key}"),
            (_, PathState::Absent) => format!("remove {key}"),
            (_, PathState::Other { .. }) => format!("leave {key}"),
        }
    }

    /// systemd reads its units again when one of their files has changed; it makes mount units of `/etc/fstab`.
    fn steps(changes: &[(&str, PathState, PathState)]) -> Vec<Step> {
        let read = |key: &str| key.starts_with(crate::unit::UNIT_FOLDER) || key == "/etc/fstab";
        let reload = changes.iter().any(|(key, ..)| read(key));
        let reload = reload.then(|| Step::new("systemctl daemon-reload", "cv_reload_units"));
        changes.iter().map(|(key, from, to)| step(key, from, to)).chain(reload).collect()
    }

    fn reversibility(_: &str, from: &PathState, _: &PathState) -> Reversibility {
        match from {
            PathState::File { size: Some(size), .. } if *size > SAVE_LIMIT => {
                Reversibility::Irreversible(format!("its {size} bytes are above the 100 MiB that are saved"))
            }
            PathState::Other { what } => Reversibility::Irreversible(format!("a {what} is not saved")),
            _ => Reversibility::Reversible,
        }
    }

    fn content(state: &PathState) -> Option<Digest> {
        match state {
            PathState::File { digest, .. } => Some(digest.clone()),
            _ => None,
        }
    }

    fn brings(key: &str, state: &PathState, content: Option<&Content>) -> Vec<(ObjectId, State)> {
        match (state, content) {
            (PathState::Absent, _) => crate::unit::gone_with_file(key).into_iter().collect(),
            (PathState::File { .. }, Some(content)) => {
                crate::unit::brought_by_file(key, content).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn facets(state: &PathState) -> Facets {
        let (kind, rights) = match state {
            PathState::Absent => return Vec::new(),
            PathState::File { mode, owner, group, .. } => ("file", Some((mode, owner, group))),
            PathState::Dir { mode, owner, group } => ("directory", Some((mode, owner, group))),
            PathState::Link { target } => {
                return vec![("type", "link".to_owned()), ("target", target.clone())];
            }
            PathState::Other { what } => (what.as_str(), None),
        };
        let mut out = vec![("type", kind.to_owned())];
        if let Some((mode, owner, group)) = rights {
            out.extend([("mode", format!("{mode:04o}")), ("owner", owner.clone()), ("group", group.clone())]);
        }
        out
    }

    fn spoils(key: &str, state: &PathState) -> Vec<Spoil> {
        let path = quote(key);
        // Another mode that its owner can still work with.
        let mode = |mode: u32| {
            let other = mode ^ 0o001;
            Spoil::new("mode", format!("mode {other:04o}"), format!("chmod {other:04o} -- {path}"))
        };
        let owner = |owner: &str| {
            let other = if owner == "daemon" { "root" } else { "daemon" };
            Spoil::new("owner", format!("owner {other}"), format!("chown -h {other} -- {path}"))
        };
        let group = |group: &str| {
            let other = if group == "daemon" { "root" } else { "daemon" };
            Spoil::new("group", format!("group {other}"), format!("chgrp -h {other} -- {path}"))
        };
        match state {
            PathState::File { mode: m, owner: o, group: g, .. } => vec![
                Spoil::new("content", "another line in it", format!("echo spoiled >>{path}")),
                mode(*m),
                owner(o),
                group(g),
                Spoil::new("presence", "removed", format!("rm -f -- {path}")),
            ],
            PathState::Dir { mode: m, owner: o, group: g } => vec![
                mode(*m),
                owner(o),
                group(g),
                // What lies in it belongs to others.
                Spoil::new("presence", "removed", format!("rmdir -- {path} 2>/dev/null || exit 3")),
            ],
            PathState::Link { .. } => vec![
                Spoil::new("target", "another target", format!("ln -sfn -- /nowhere/spoiled {path}")),
                Spoil::new("presence", "removed", format!("rm -f -- {path}")),
            ],
            PathState::Absent => vec![Spoil::new(
                "presence",
                "made",
                format!(
                    "[ -d {0} ] || exit 3; : >{path}",
                    quote(key.rsplit_once('/').map_or("/", |(above, _)| above))
                ),
            )],
            PathState::Other { .. } => Vec::new(),
        }
    }
}

/// Content above this many bytes is not saved before it is replaced.
pub const SAVE_LIMIT: u64 = 100 << 20;

/// Seconds for a file that the host fetches.
const FETCH_SECONDS: u64 = 1800;

fn step(key: &str, from: &PathState, to: &PathState) -> Step {
    let line = State::from(to.clone());
    let title = Path::title(key, from, to);
    let apply = format!("cv_apply_path {} {}", quote(key), quote(line.line()));
    match (from, to) {
        // The content stays: only owner and mode are set, and the file keeps its inode.
        (PathState::File { digest: a, .. }, PathState::File { digest: b, mode, owner, group, .. })
            if a == b =>
        {
            let own = format!("cv_own_path {} {mode:o} {} {}", quote(key), quote(owner), quote(group));
            Step::new(title, own)
        }
        // Only what the host fetches itself has no size yet.
        (_, PathState::File { size: None, .. }) => Step::new(title, apply).within(FETCH_SECONDS),
        (_, PathState::File { digest, .. }) => Step::new(title, apply).reading(digest.clone()),
        _ => Step::new(title, apply),
    }
}

#[cfg(test)]
mod tests;
