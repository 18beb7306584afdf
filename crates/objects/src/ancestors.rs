//! The way to a path: the directories that lead there, as `cv_go` of `walk.sh` enters them. Pure.

use crate::path::PathState;
use converge_resource::Stop;
use std::collections::VecDeque;

/// As many links as the kernel and `cv_go` follow.
const MOST_LINKS: usize = 40;

/// A directory on the way, under its real name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Its path, without links.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
    /// Its owner.
    pub owner: String,
    /// Its group.
    pub group: String,
}

impl Ancestor {
    /// Whether others than root may change what lies in it. An ACL is in no state: the host sees it.
    pub fn is_open(&self) -> bool {
        self.owner != "root" || self.mode & 0o002 != 0 || (self.mode & 0o020 != 0 && self.group != "root")
    }
}

/// The reason why a host enters a directory no further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryRefused {
    /// A directory of another owner lies in a user's.
    #[error(
        "{dir} will belong to {owner} and lies in a directory of {user}, who can put another one in its place: below it nothing is read or written"
    )]
    Crossed {
        /// The directory that is not entered.
        dir: String,
        /// Its owner.
        owner: String,
        /// The owner of the directory that holds it.
        user: String,
    },
    /// A link lies below a directory that others may write to.
    #[error("{link} is a link below {open}, to which others than root may write: no link is followed there")]
    Link {
        /// The link.
        link: String,
        /// The directory.
        open: String,
    },
    /// A link leads up from there.
    #[error("{dir}/..: a link leads up from a directory to which others than root may write")]
    Up {
        /// The directory.
        dir: String,
    },
    /// Links that lead to each other.
    #[error("too many symbolic links above {path}")]
    Links {
        /// The path.
        path: String,
    },
}

impl EntryRefused {
    /// The correction.
    pub fn help(&self) -> String {
        let place = "choose a place where only root may write";
        match self {
            Self::Crossed { dir, user, .. } => format!(
                "make it {user}'s: `directory: {{path: {dir}, owner: {user}}}` (one that is there, before the directory above it is {user}'s), or {place}"
            ),
            Self::Link { .. } | Self::Up { .. } => {
                format!("name the directory that the link leads to, or {place}")
            }
            Self::Links { .. } => "correct the links".to_owned(),
        }
    }
}

/// The end of a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AncestorsEnd {
    /// The directory is there.
    There,
    /// There is no directory at this path, and what lies below it is not there either.
    Missing,
    /// It is not entered.
    Refused(EntryRefused),
}

/// The way to a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestors {
    /// The directories that are entered, from the top down, without `/`.
    pub dirs: Vec<Ancestor>,
    /// Its end.
    pub end: AncestorsEnd,
}

/// A part of a path. One of the path that was asked for, not of a link's target, has the name by which that path calls it.
struct PathPart {
    name: String,
    called: Option<String>,
}

/// The way to the directory `dir`. `look` gets the real path of each directory and, where it differs, the name by which `dir` calls it.
///
/// # Errors
/// As `look`. Questions about all parts of `dir` are gathered in one `Stop::Ask`.
pub fn ancestors_of(
    dir: &str,
    look: &dyn Fn(&str, &str) -> Result<PathState, Stop>,
) -> Result<Ancestors, Stop> {
    let mut at = String::new();
    let mut dirs: Vec<Ancestor> = Vec::new();
    let mut links = 0;
    let mut called = String::new();
    let mut parts: VecDeque<PathPart> = names(dir)
        .map(|name| {
            called = format!("{called}/{name}");
            PathPart { name: name.to_owned(), called: Some(called.clone()) }
        })
        .collect();
    let refused =
        |dirs: Vec<Ancestor>, why: EntryRefused| Ok(Ancestors { dirs, end: AncestorsEnd::Refused(why) });
    while let Some(part) = parts.pop_front() {
        let open = dirs.iter().find(|d| d.is_open()).map(|d| d.path.clone());
        if part.name == ".." {
            if open.is_some() {
                return refused(dirs, EntryRefused::Up { dir: at });
            }
            at.truncate(at.rfind('/').unwrap_or(0));
            dirs.retain(|d| {
                at == d.path || at.strip_prefix(&d.path).is_some_and(|rest| rest.starts_with('/'))
            });
            continue;
        }
        let next = format!("{at}/{}", part.name);
        let state = match look(&next, part.called.as_deref().unwrap_or(&next)) {
            Err(Stop::Ask(mut probes)) => {
                for later in parts.iter().filter_map(|p| p.called.as_deref()) {
                    if let Err(Stop::Ask(more)) = look(later, later) {
                        probes.extend(more);
                    }
                }
                return Err(Stop::Ask(probes));
            }
            state => state?,
        };
        match state {
            PathState::Link { target, .. } => {
                if let Some(open) = open {
                    return refused(dirs, EntryRefused::Link { link: next, open });
                }
                links += 1;
                if links > MOST_LINKS {
                    return refused(dirs, EntryRefused::Links { path: dir.to_owned() });
                }
                if target.starts_with('/') {
                    at.clear();
                    dirs.clear();
                }
                for name in names(&target).rev() {
                    parts.push_front(PathPart { name: name.to_owned(), called: None });
                }
            }
            PathState::Dir { mode, owner, group } => {
                // From root's own directory, also one that all may write to, root enters any.
                let user = dirs.last().map(|d| d.owner.clone()).filter(|_| open.is_some());
                if let Some(user) = user.filter(|user| *user != owner && user != "root") {
                    return refused(dirs, EntryRefused::Crossed { dir: next, owner, user });
                }
                at.clone_from(&next);
                dirs.push(Ancestor { path: next, mode, owner, group });
            }
            PathState::Absent | PathState::File { .. } | PathState::Other { .. } => {
                return Ok(Ancestors { dirs, end: AncestorsEnd::Missing });
            }
        }
    }
    Ok(Ancestors { dirs, end: AncestorsEnd::There })
}

/// The parts of a path.
fn names(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_resource::{ObjectId, Probe};
    use std::collections::BTreeMap;

    /// A host: `PATH OWNER MODE` for a directory, `PATH > TARGET` for a link.
    fn walked(host: &[&str], dir: &str) -> Ancestors {
        let states: BTreeMap<String, PathState> = host
            .iter()
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let state = match words[1] {
                    ">" => PathState::link(words[2]),
                    owner => PathState::Dir {
                        mode: u32::from_str_radix(words[2], 8).unwrap(),
                        owner: owner.to_owned(),
                        group: owner.to_owned(),
                    },
                };
                (words[0].to_owned(), state)
            })
            .collect();
        ancestors_of(dir, &|path, _| Ok(states.get(path).cloned().unwrap_or(PathState::Absent))).unwrap()
    }

    fn refused(host: &[&str], dir: &str) -> String {
        match walked(host, dir).end {
            AncestorsEnd::Refused(why) => why.to_string(),
            end => format!("{end:?}"),
        }
    }

    const HOST: &[&str] = &[
        "/srv root 755",
        "/srv/lnk > ../home/./bob/app",
        "/srv/round > round",
        "/srv/up > /home/bob/app/..",
        "/home root 755",
        "/home/bob bob 700",
        "/home/bob/app bob 755",
        "/home/bob/app/roots root 755",
        "/home/bob/lnk > /srv",
        "/tmp root 1777",
        "/tmp/bob bob 755",
        "/tmp/lnk > /srv",
    ];

    #[test]
    fn links_are_followed_where_only_root_can_make_them() {
        let ancestors_of = walked(HOST, "/srv/lnk");
        assert_eq!(ancestors_of.end, AncestorsEnd::There);
        let passed: Vec<(&str, bool)> =
            ancestors_of.dirs.iter().map(|d| (d.path.as_str(), d.is_open())).collect();
        assert_eq!(passed, [("/home", false), ("/home/bob", true), ("/home/bob/app", true)]);
        assert_eq!(walked(HOST, "/srv/lnk/none/x").end, AncestorsEnd::Missing);
        assert_eq!(walked(HOST, "/tmp/bob").end, AncestorsEnd::There);
        assert!(refused(HOST, "/tmp/lnk/x").starts_with("/tmp/lnk is a link below /tmp"));
        assert!(refused(HOST, "/home/bob/lnk").starts_with("/home/bob/lnk is a link below /home/bob"));
        assert!(refused(HOST, "/srv/up").starts_with("/home/bob/app/..: a link leads up"));
        assert!(refused(HOST, "/srv/round/x").starts_with("too many symbolic links"));
    }

    #[test]
    fn nothing_is_entered_that_a_user_can_exchange() {
        for dir in ["/home/bob/app/roots", "/srv/lnk/roots"] {
            let why = refused(HOST, dir);
            assert!(
                why.starts_with("/home/bob/app/roots will belong to root and lies in a directory of bob")
            );
        }
    }

    #[test]
    fn all_parts_are_asked_for_at_once() {
        let ask = |path: &str, _: &str| -> Result<PathState, Stop> {
            match path {
                "/srv" => Ok(PathState::Dir { mode: 0o755, owner: "root".into(), group: "root".into() }),
                _ => Err(Stop::Ask(vec![Probe::Object(ObjectId::new("path", path))])),
            }
        };
        let probes = |paths: &[&str]| -> Vec<Probe> {
            paths.iter().map(|p| Probe::Object(ObjectId::new("path", *p))).collect()
        };
        assert_eq!(
            ancestors_of("/srv/a//b/c", &ask),
            Err(Stop::Ask(probes(&["/srv/a", "/srv/a/b", "/srv/a/b/c"])))
        );
    }
}
