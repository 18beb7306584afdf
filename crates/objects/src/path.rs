//! A path: absent, a regular file, a directory, a symbolic link, or something else (a device, a socket).

use crate::group::GroupState;
use crate::programs::{not_known, of_path};
use crate::user::UserState;
use converge_resource::{
    AlteredFact, Change, Content, Digest, DriftScript, DynEffects, DynLinks, DynNeeds, DynRelations, Effects,
    ErasedObject, Facets, Footprint, Links, Naming, Needs, Object, ObjectId, Relations, Reversibility, State,
    Step, Traits, quote, state_of_words,
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
        /// Size in bytes. `None` only in a planned state (`~` in the line): not known before the host has fetched the file.
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
    /// A symbolic link (`link TARGET`, and `link TARGET OWNER GROUP` where these are not root's).
    Link {
        /// The target as the link holds it, unresolved.
        target: String,
        /// As for a file.
        owner: String,
        /// As for a file.
        group: String,
    },
    /// Neither of these (`other WHAT`): never touched.
    Other {
        /// `fifo`, `socket`, `char`, `block`, or `unknown`.
        what: String,
    },
}

impl PathState {
    /// A link of root's, as converge makes them.
    pub fn link(target: impl Into<String>) -> Self {
        Self::Link { target: target.into(), owner: "root".to_owned(), group: "root".to_owned() }
    }

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
            Self::Link { target, owner, group } if (owner.as_str(), group.as_str()) == ("root", "root") => {
                ("link", vec![target.clone()])
            }
            Self::Link { target, owner, group } => {
                ("link", vec![target.clone(), owner.clone(), group.clone()])
            }
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
            // Records have always said so of a link of root's; of others they did not say the owner once.
            ["link", target] => Some(Self::link(*target)),
            ["link", target, owner, group] => Some(Self::Link {
                target: (*target).to_owned(),
                owner: (*owner).to_owned(),
                group: (*group).to_owned(),
            }),
            ["other", what] => Some(Self::Other { what: (*what).to_owned() }),
            _ => None,
        }
    }
}

state_of_words!(PathState);

/// The number of an account, a user or a group, in this state; none where it is not known or there is no such account.
pub fn account_number(account: &ObjectId, state: &State) -> Option<u32> {
    match account.kind.as_str() {
        "user" => uid_of(state),
        "group" => gid_of(state),
        _ => None,
    }
}

/// The number of a group that exists.
fn gid_of(group: &State) -> Option<u32> {
    match GroupState::try_from(group.clone()) {
        Ok(GroupState::Group { gid }) => gid,
        _ => None,
    }
}

/// The number of a user that exists.
fn uid_of(user: &State) -> Option<u32> {
    match UserState::try_from(user.clone()) {
        Ok(UserState::User { uid, .. }) => uid,
        _ => None,
    }
}

/// The object.
pub struct Path;

impl Object for Path {
    const KIND: &'static str = "path";
    const SHELL: &'static str = concat!(
        include_str!("path.sh"),
        "\n",
        include_str!("path/saved.sh"),
        "\n",
        include_str!("path/put.sh"),
        "\n",
        include_str!("path/fetch.sh"),
        "\n",
        include_str!("path/steps.sh")
    );
    /// Through links above it. What was declared stays what plans and records show.
    const TRAITS: Traits = Traits {
        at_path: true,
        holds_data: true,
        naming: Naming::First,
        footprint: Footprint::Named,
        runs_no_code: true,
        from_inside: true,
        ..Traits::NONE
    };
    const LINKS: &'static dyn DynLinks = &ErasedObject::<Self>::new();
    const RELATIONS: &'static dyn DynRelations = &ErasedObject::<Self>::new();
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
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

    fn reversibility(_: &str, from: &PathState, to: &PathState) -> Reversibility {
        match from {
            // Only owner and mode change.
            PathState::File { digest: a, .. } if matches!(to, PathState::File { digest: b, .. } if a == b) => {
                Reversibility::Reversible
            }
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

    /// A size that the plan leaves open is any: the digest says it all.
    fn fulfils(now: &PathState, planned: &PathState) -> bool {
        let mut filled = planned.clone();
        if let (PathState::File { size: open @ None, .. }, PathState::File { size, .. }) = (&mut filled, now)
        {
            *open = *size;
        }
        *now == filled
    }

    /// A directory that is made, and has not its owner and mode yet.
    fn amid(_: &PathState, after: &PathState, now: &PathState) -> bool {
        let new = |owner: &str, group: &str| owner == "root" && group == "root";
        matches!(after, PathState::Dir { .. })
            && matches!(now, PathState::Dir { mode: 0o700, owner, group } if new(owner, group))
    }

    fn facets(state: &PathState) -> Facets {
        let (kind, rights) = match state {
            PathState::Absent => return Vec::new(),
            PathState::File { mode, owner, group, .. } => ("file", Some((mode, owner, group))),
            PathState::Dir { mode, owner, group } => ("directory", Some((mode, owner, group))),
            PathState::Link { target, owner, group } => {
                let mut out = vec![("type", "link".to_owned()), ("target", target.clone())];
                if *state != PathState::link(target) {
                    out.extend([("owner", owner.clone()), ("group", group.clone())]);
                }
                return out;
            }
            PathState::Other { what } => (what.as_str(), None),
        };
        let mut out = vec![("type", kind.to_owned())];
        if let Some((mode, owner, group)) = rights {
            out.extend([("mode", format!("{mode:04o}")), ("owner", owner.clone()), ("group", group.clone())]);
        }
        out
    }

    fn drifts(key: &str, state: &PathState) -> Vec<DriftScript> {
        let path = quote(key);
        let above =
            quote(key.rsplit_once('/').map_or("/", |(above, _)| if above.is_empty() { "/" } else { above }));
        // Another mode that its owner can still work with.
        let mode = |mode: u32| {
            let other = mode ^ 0o001;
            DriftScript::new("mode", format!("mode {other:04o}"), format!("chmod {other:04o} -- {path}"))
        };
        let owner = |owner: &str| {
            let other = if owner == "daemon" { "root" } else { "daemon" };
            DriftScript::new("owner", format!("owner {other}"), format!("chown -h {other} -- {path}"))
        };
        let group = |group: &str| {
            let other = if group == "daemon" { "root" } else { "daemon" };
            DriftScript::new("group", format!("group {other}"), format!("chgrp -h {other} -- {path}"))
        };
        match state {
            PathState::File { mode: m, owner: o, group: g, .. } => vec![
                DriftScript::new("content", "another line in it", format!("echo drifted >>{path}")),
                mode(*m),
                owner(o),
                group(g),
                DriftScript::new("presence", "removed", format!("rm -f -- {path}")),
            ],
            PathState::Dir { mode: m, owner: o, group: g } => vec![
                mode(*m),
                // In a user's directory a directory of another owner is left as it is, with an error.
                DriftScript {
                    script: format!("[ \"$(stat -c %u -- {above})\" = 0 ] || exit 3; {}", owner(o).script),
                    ..owner(o)
                },
                group(g),
                // The contents belong to others.
                DriftScript::new("presence", "removed", format!("rmdir -- {path} 2>/dev/null || exit 3")),
            ],
            PathState::Link { .. } => vec![
                DriftScript::new("target", "another target", format!("ln -sfn -- /nowhere/drifted {path}")),
                DriftScript::new("presence", "removed", format!("rm -f -- {path}")),
            ],
            PathState::Absent => {
                vec![DriftScript::new("presence", "made", format!("[ -d {above} ] || exit 3; : >{path}"))]
            }
            PathState::Other { .. } => Vec::new(),
        }
    }
}

impl Links for Path {
    fn brings(key: &str, state: &PathState, content: Option<&Content>) -> Vec<(ObjectId, State)> {
        match (state, content) {
            (PathState::Absent, _) => crate::unit::gone_with_file(key).into_iter().collect(),
            (PathState::File { .. }, Some(content)) => {
                crate::unit::brought_by_file(key, content).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn names(key: &str, state: &PathState, content: Option<&Content>) -> Vec<(ObjectId, ObjectId)> {
        match (state, content) {
            (PathState::File { .. }, Some(content)) => crate::unit::names_by_file(key, content),
            (PathState::Link { target, .. }, _) => {
                let id = |path: String| ObjectId::new(Self::KIND, path);
                let below = led_to(key, target).map(|to| (id(key.to_owned()), id(to)));
                below.into_iter().chain(crate::unit::name_by_link(key, target)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn may_name(key: &str) -> Option<&'static str> {
        crate::unit::named_at(key)
    }

    /// A new file takes the place of the old one.
    fn severs(before: &PathState, after: &PathState) -> bool {
        match (before, after) {
            (PathState::File { digest: a, .. }, PathState::File { digest: b, .. }) => a != b,
            _ => false,
        }
    }
}

impl Relations for Path {
    fn accounts(_: &str, state: &PathState) -> Vec<ObjectId> {
        match state {
            PathState::File { owner, group, .. }
            | PathState::Dir { owner, group, .. }
            | PathState::Link { owner, group, .. } => {
                vec![ObjectId::new("user", owner), ObjectId::new("group", group)]
            }
            _ => Vec::new(),
        }
    }

    /// An account that gets another number, or goes, leaves its old number on files.
    fn follows(key: &str, state: &PathState, other: &Change) -> Option<PathState> {
        let mut state = state.clone();
        let (PathState::File { owner, group, .. }
        | PathState::Dir { owner, group, .. }
        | PathState::Link { owner, group, .. }) = &mut state
        else {
            return None;
        };
        // A number is shown as the name of the account that gets it.
        let shows = |shown: &str, number: Option<u32>| number.is_some_and(|n| n.to_string() == shown);
        match other.object.kind.as_str() {
            "group" if *group == other.object.key => {
                *group = gid_of(&other.from)?.to_string();
            }
            "group" if shows(group, gid_of(&other.to)) => group.clone_from(&other.object.key),
            "user" if shows(owner, uid_of(&other.to)) => owner.clone_from(&other.object.key),
            "user" if *owner == other.object.key => {
                let (from, to) = (
                    UserState::try_from(other.from.clone()).ok()?,
                    UserState::try_from(other.to.clone()).ok()?,
                );
                let UserState::User { uid: Some(uid), group: was, .. } = from else { return None };
                match to {
                    // usermod takes the user's files in the home directory along.
                    UserState::User { group: is, home, .. } if within(key, &home) => {
                        if *group == was {
                            *group = is;
                        }
                    }
                    UserState::User { uid: same, .. } if same == Some(uid) => {}
                    _ => *owner = uid.to_string(),
                }
            }
            _ => return None,
        }
        Some(state)
    }
}

impl Effects for Path {
    fn alters(key: &str, _: &PathState, _: &PathState) -> Vec<AlteredFact> {
        not_known(of_path(key))
    }

    fn may_alter(key: &str) -> Vec<&'static str> {
        of_path(key)
    }
}

/// The target of a state that is a link.
pub fn link_target(state: &State) -> Option<String> {
    match PathState::try_from(state.clone()) {
        Ok(PathState::Link { target, .. }) => Some(target),
        _ => None,
    }
}

/// Where a link at this path leads. `None` where that is not plain without the host: a step up may leave another directory than its path says.
pub fn led_to(link: &str, target: &str) -> Option<String> {
    let above = if target.starts_with('/') { "" } else { link.rsplit_once('/')?.0 };
    let parts: Vec<&str> = target.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    (!parts.is_empty() && !parts.contains(&"..")).then(|| format!("{above}/{}", parts.join("/")))
}

/// Whether a path is this directory or lies below it.
pub fn within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether the host comes to this path over a link to `place`: its real path lies there, and its name does not say so.
pub fn is_led(path: &str, real: &str, place: &str) -> bool {
    within(real, place) && !within(path, place)
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
            let own = format!("cv_own_path {} {mode:o} {} {} {b}", quote(key), quote(owner), quote(group));
            Step::new(title, own)
        }
        // Only what the host fetches itself has no size yet.
        (_, PathState::File { size: None, .. }) => Step::new(title, apply).within(FETCH_SECONDS),
        (_, PathState::File { digest, .. }) => Step::new(title, apply).reading(digest.clone()),
        _ => Step::new(title, apply),
    }
}

/// The tables of cron, and the directories of further ones, and the programs that do.
const CRON_READS: [&str; 3] = ["/etc/crontab", "/etc/cron.d/", "/var/spool/cron/"];
const CRON_PROGRAMS: [&str; 2] = ["cron", "crond"];

impl Needs for Path {
    /// A link needs what it leads to, as that of the time zone does; a table of cron the program that runs its jobs.
    fn stands_on(key: &str, state: &PathState) -> Vec<String> {
        match state {
            PathState::Absent => Vec::new(),
            PathState::Link { target, .. } => {
                Some(target).filter(|target| target.starts_with('/')).cloned().into_iter().collect()
            }
            _ if CRON_READS.iter().any(|dir| key.starts_with(dir)) => {
                CRON_PROGRAMS.map(str::to_owned).to_vec()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod attack_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk_tests;
