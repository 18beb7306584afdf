//! The directories above a path: whether they are there, and whether users can change them.

use crate::look::{ancestors, may_be_made, parent, path, path_id};
use converge_objects::PathState;
use converge_objects::ancestors::{Ancestors, AncestorsEnd, EntryRefused, ancestors_of};
use converge_resource::{ObjectId, State, Stop, View};
use std::collections::{BTreeMap, BTreeSet};

/// Makes sure that the directory above `target` is there when the item's turn comes, or may be.
pub fn need_parent(view: &dyn View, pointer: &str, target: &str) -> Result<(), Stop> {
    need_directory(view, pointer, &parent(target))
}

/// Makes sure that this path leads to a directory when the item's turn comes, or may.
///
/// # Errors
/// `Stop::Deferred` if it may be there then; `Stop::Invalid` if it is not.
pub fn need_directory(view: &dyn View, pointer: &str, path_to: &str) -> Result<(), Stop> {
    let mut dir = path_to.to_owned();
    for _ in 0..8 {
        if dir == "/" {
            return Ok(());
        }
        match path(view, &dir)? {
            PathState::Dir { .. } => return Ok(()),
            PathState::Link { target, .. } => dir = follow(&dir, &target),
            PathState::Absent => {
                // Whether it comes decides whether this can be done at all.
                if let Some(wait) = view.may_appear(&path_id(&dir)).or_else(|| may_be_made(view)) {
                    return Err(Stop::Deferred(wait));
                }
                return Err(Stop::invalid_help(
                    pointer,
                    format!("the directory {dir} does not exist"),
                    format!("add a resource before this one: `directory: {{path: {dir}, parents: true}}`"),
                ));
            }
            PathState::File { .. } | PathState::Other { .. } => {
                return Err(Stop::invalid(pointer, format!("{dir} is not a directory")));
            }
        }
    }
    Err(Stop::invalid(pointer, format!("too many symbolic links lead on from {path_to}")))
}

/// Whether the state is that of a link with this target, whoever owns it.
pub fn leads_to(state: &PathState, to: &str) -> bool {
    matches!(state, PathState::Link { target, .. } if target == to)
}

/// Follows a link's target from the directory that holds the link.
fn follow(link: &str, target: &str) -> String {
    let base = if target.starts_with('/') { String::new() } else { parent(link) };
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

/// A file whose content the role does not declare gets no other owner or mode where a user may have moved it: only his own files do. Of more
/// directories than users' own the host says so itself.
pub fn may_give(view: &dyn View, pointer: &str, target: &str, owner: &str) -> Result<(), Stop> {
    match entered(view, &parent(target))? {
        Some((mode, user)) if is_crossed(owner, &user) && mode & 0o1000 == 0 => Err(Stop::invalid_help(
            pointer,
            format!(
                "{target} belongs to {owner} and lies in a directory of {user}, who may have moved it there: its content gets no other owner or mode"
            ),
            "give the whole content, or set them by hand",
        )),
        _ => Ok(()),
    }
}

/// A directory of another owner in a user's directory gets no other owner or mode: the user may have put it there. The host says so too when the
/// item's turn comes.
pub fn may_set(view: &dyn View, pointer: &str, dir: &str, owner: &str) -> Result<(), Stop> {
    match entered(view, &parent(dir))? {
        Some((_, user)) if is_crossed(owner, &user) => Err(Stop::invalid_help(
            pointer,
            format!(
                "{dir} belongs to {owner} and lies in a directory of {user}, who can put another one in its place: it gets no other owner or mode"
            ),
            format!(
                "give it to {user} by hand (`chown -h {user} {dir}`), or keep it where only root may write"
            ),
        )),
        _ => Ok(()),
    }
}

/// Mode and owner of the directory at `dir`, or of the one that a link there leads to.
fn entered(view: &dyn View, dir: &str) -> Result<Option<(u32, String)>, Stop> {
    let mut dir = dir.to_owned();
    for _ in 0..8 {
        match path(view, &dir)? {
            PathState::Dir { mode, owner, .. } => return Ok(Some((mode, owner))),
            PathState::Link { target, .. } => dir = follow(&dir, &target),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// The host never steps from a user's directory into another owner's. The view says so of those that are there; this is the same for the
/// directories that one item makes and fills.
pub fn may_fill(view: &dyn View, pointer: &str, targets: &[(ObjectId, State)]) -> Result<(), Stop> {
    let made: BTreeMap<&str, PathState> = targets
        .iter()
        .filter_map(|(id, state)| Some((id.key.as_str(), PathState::try_from(state.clone()).ok()?)))
        .collect();
    let filled: BTreeSet<String> = targets.iter().map(|(id, _)| parent(&id.key)).collect();
    for dir in filled.iter().filter(|dir| made.contains_key(dir.as_str())) {
        let look = |real: &str, called: &str| match made.get(called).or_else(|| made.get(real)) {
            Some(made) => Ok(made.clone()),
            None => path(view, real),
        };
        if let Ancestors { end: AncestorsEnd::Refused(why), .. } = ancestors_of(dir, &look)? {
            let help = match &why {
                EntryRefused::Crossed { user, .. } => {
                    format!("say `owner: {user}`, or choose a place where only root may write")
                }
                _ => why.help(),
            };
            return Err(Stop::invalid_help(pointer, &why, help));
        }
    }
    Ok(())
}

/// The same for what cannot be done from inside a directory: all above `target` must be such that only root can change it, links resolved.
pub fn need_root_only(
    view: &dyn View,
    pointer: &str,
    target: &str,
    what: &str,
    remedy: &str,
) -> Result<(), Stop> {
    let Ancestors { dirs, end } = ancestors_of(&parent(target), &|real, _| path(view, real))?;
    if let Some(open) = dirs.iter().find(|dir| dir.is_open()) {
        let message =
            format!("{target}: others than root may write to {}, where {what} is not done", open.path);
        return Err(Stop::invalid_help(pointer, message, remedy));
    }
    match end {
        AncestorsEnd::Refused(why) => Err(Stop::invalid_help(pointer, &why, why.help())),
        AncestorsEnd::There | AncestorsEnd::Missing => Ok(()),
    }
}

/// Whether an earlier item of this run changes a directory or a link above a path.
pub fn is_changed_above(view: &dyn View, target: &str) -> bool {
    ancestors(target).iter().any(|dir| view.changed(&path_id(dir)).is_some())
}

/// Whether the way into a directory of `owner` leads through one of another user's.
fn is_crossed(owner: &str, user: &str) -> bool {
    user != "root" && user != owner
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeView;

    #[test]
    fn a_link_is_followed_from_its_directory() {
        assert_eq!(follow("/var/run", "../run"), "/run");
        assert_eq!(follow("/lib", "usr/lib"), "/usr/lib");
    }

    #[test]
    fn a_linked_parent_is_followed() {
        let view = FakeView::new().link("/var/run", "../run").dir("/run");
        assert_eq!(need_parent(&view, "/path", "/var/run/x"), Ok(()));
        let gone = FakeView::new().link("/var/run", "/run");
        let stop = need_parent(&gone, "/path", "/var/run/x").unwrap_err();
        assert!(
            matches!(&stop, Stop::Invalid { message, .. } if message.contains("/run does not exist")),
            "{stop:?}"
        );
    }

    #[test]
    fn a_link_to_a_users_directory_is_that_directory() {
        let dir = |owner: &str| PathState::Dir { mode: 0o755, owner: owner.into(), group: "root".into() };
        let view = FakeView::new().dir("/srv").dir("/home").has(path_id("/home/a"), dir("a"));
        let view = view.link("/srv/lnk", "/home/a");
        let made = |owner| {
            [
                (path_id("/srv/lnk/bin"), dir(owner).into()),
                (path_id("/srv/lnk/bin/x"), PathState::Absent.into()),
            ]
        };
        assert_eq!(may_fill(&view, "/path", &made("a")), Ok(()));
        assert!(matches!(may_fill(&view, "/path", &made("root")), Err(Stop::Invalid { .. })));
        assert!(matches!(may_set(&view, "/path", "/srv/lnk/bin", "root"), Err(Stop::Invalid { .. })));
        let safe = FakeView::new().dir("/srv").link("/srv/lnk", "/opt").dir("/opt");
        assert_eq!(may_fill(&safe, "/path", &made("root")), Ok(()));
    }

    /// A link of the host and one of this run are one to the plan.
    #[test]
    fn a_link_into_a_users_directory_is_no_place_for_root() {
        let home = PathState::Dir { mode: 0o755, owner: "a".into(), group: "root".into() };
        let view = FakeView::new().dir("/srv").dir("/home").has(path_id("/home/a"), home);
        let view = view.link("/srv/lnk", "../home/a/x").link("/srv/safe", "/etc");
        let need = |target: &str| need_root_only(&view, "/path", target, "mounting", "elsewhere");
        for target in ["/home/a/m", "/srv/lnk/m"] {
            let Err(Stop::Invalid { message, .. }) = need(target) else { panic!("{target}") };
            assert!(
                message.ends_with("others than root may write to /home/a, where mounting is not done"),
                "{message}"
            );
        }
        assert_eq!(need("/srv/safe/m"), Ok(()));
        // In one round.
        let strict = FakeView::strict();
        let Err(Stop::Ask(probes)) = need_root_only(&strict, "/path", "/srv/a/m", "mounting", "") else {
            panic!()
        };
        assert_eq!(probes.len(), 2, "{probes:?}");
    }
}
