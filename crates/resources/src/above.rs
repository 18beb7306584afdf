//! The directories above a path: whether they are there, and whether users can change them.

use crate::look::{Asks, ancestors, may_be_made, parent, path, path_id};
use converge_objects::PathState;
use converge_resource::{ObjectId, State, Stop, View};
use std::collections::{BTreeMap, BTreeSet};

/// Makes sure that the directory above `target` is there when the item's turn comes, or may be.
pub fn need_parent(view: &dyn View, pointer: &str, target: &str) -> Result<(), Stop> {
    let (dir, owner) = leads_to(view, pointer, &parent(target))?;
    may_enter(view, pointer, &dir, &owner)
}

/// The directory that this path leads to when the item's turn comes, and its owner.
///
/// # Errors
/// `Stop::Deferred` if it may be there then; `Stop::Invalid` if it is not.
pub fn leads_to(view: &dyn View, pointer: &str, path_to: &str) -> Result<(String, String), Stop> {
    let mut dir = path_to.to_owned();
    for _ in 0..8 {
        if dir == "/" {
            return Ok((dir, "root".to_owned()));
        }
        match path(view, &dir)? {
            PathState::Dir { owner, .. } => return Ok((dir, owner)),
            PathState::Link { target } => dir = follow(&dir, &target),
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
            PathState::Link { target } => dir = follow(&dir, &target),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// The host never steps from a user's directory into another owner's. It checks this for existing directories itself; the
/// plan checks it for those that this run makes first.
pub fn may_enter(view: &dyn View, pointer: &str, dir: &str, owner: &str) -> Result<(), Stop> {
    if view.changed(&path_id(dir)).is_none() {
        return Ok(());
    }
    let Some((_, user)) = entered(view, &parent(dir))? else { return Ok(()) };
    let remedy = || format!("make it {user}'s: `directory: {{path: {dir}, owner: {user}}}`");
    if is_crossed(owner, &user) { Err(no_way_into(pointer, dir, owner, &user, &remedy())) } else { Ok(()) }
}

/// The same rule for the directories that one item makes and fills.
pub fn may_fill(view: &dyn View, pointer: &str, targets: &[(ObjectId, State)]) -> Result<(), Stop> {
    let made: BTreeMap<&str, String> = targets
        .iter()
        .filter_map(|(id, state)| match PathState::try_from(state.clone()) {
            Ok(PathState::Dir { owner, .. }) => Some((id.key.as_str(), owner)),
            _ => None,
        })
        .collect();
    let filled: BTreeSet<String> = targets.iter().map(|(id, _)| parent(&id.key)).collect();
    for dir in &filled {
        let Some(owner) = made.get(dir.as_str()) else {
            // An earlier item of this run may have made it.
            if let PathState::Dir { owner, .. } = path(view, dir)? {
                may_enter(view, pointer, dir, &owner)?;
            }
            continue;
        };
        let above = parent(dir);
        let user = match made.get(above.as_str()) {
            Some(user) => user.clone(),
            None => match entered(view, &above)? {
                Some((_, user)) => user,
                None => continue,
            },
        };
        if is_crossed(owner, &user) {
            let remedy = format!("say `owner: {user}`");
            return Err(no_way_into(pointer, dir, owner, &user, &remedy));
        }
    }
    Ok(())
}

/// The same for what cannot be done from inside a directory: all above `target` must be such that only root can change it. The host checks
/// existing directories itself when it looks, where it knows by then what is to be done: with `made` only those that this run changes count.
pub fn need_root_only(
    view: &dyn View,
    pointer: &str,
    target: &str,
    what: &str,
    made: bool,
    remedy: &str,
) -> Result<(), Stop> {
    let mut asks = Asks::default();
    for dir in ancestors(target) {
        if made && view.changed(&path_id(&dir)).is_none() {
            continue;
        }
        let Some(PathState::Dir { mode, owner, group }) = asks.take(path(view, &dir))? else { continue };
        if owner != "root" || mode & 0o002 != 0 || (mode & 0o020 != 0 && group != "root") {
            return Err(Stop::invalid_help(
                pointer,
                format!("{target}: others than root may write to {dir}, where {what} is not done"),
                remedy,
            ));
        }
    }
    asks.finish()
}

/// Whether the way into a directory of `owner` leads through one of another user's.
fn is_crossed(owner: &str, user: &str) -> bool {
    user != "root" && user != owner
}

fn no_way_into(pointer: &str, dir: &str, owner: &str, user: &str, remedy: &str) -> Stop {
    Stop::invalid_help(
        pointer,
        format!(
            "{dir} will belong to {owner} and lies in a directory of {user}, who can put another one in its place: below it nothing is read or written"
        ),
        format!("{remedy}, or choose a place where only root may write"),
    )
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
        let view = FakeView::new().link("/srv/lnk", "/home/a").has(path_id("/home/a"), dir("a"));
        let made = |owner| {
            [
                (path_id("/srv/lnk/bin"), dir(owner).into()),
                (path_id("/srv/lnk/bin/x"), PathState::Absent.into()),
            ]
        };
        assert_eq!(may_fill(&view, "/path", &made("a")), Ok(()));
        assert!(matches!(may_fill(&view, "/path", &made("root")), Err(Stop::Invalid { .. })));
        assert!(matches!(may_set(&view, "/path", "/srv/lnk/bin", "root"), Err(Stop::Invalid { .. })));
        let safe = FakeView::new().link("/srv/lnk", "/opt").dir("/opt");
        assert_eq!(may_fill(&safe, "/path", &made("root")), Ok(()));
    }

    #[test]
    fn a_directory_of_roots_in_a_home_is_no_way() {
        let dir = |owner: &str| PathState::Dir { mode: 0o755, owner: owner.into(), group: "root".into() };
        let home = path_id("/home/a");
        let view =
            |owner| FakeView::new().has(home.clone(), dir("a")).has(path_id("/home/a/app"), dir(owner));
        let made = |owner| view(owner).changes(path_id("/home/a/app"));
        assert_eq!(need_parent(&made("a"), "/path", "/home/a/app/x"), Ok(()));
        let stop = need_parent(&made("root"), "/path", "/home/a/app/x").unwrap_err();
        assert!(
            matches!(&stop, Stop::Invalid { help: Some(help), .. } if help.contains("owner: a}")),
            "{stop:?}"
        );
        assert_eq!(need_parent(&view("root"), "/path", "/home/a/app/x"), Ok(()), "the host says so itself");
    }
}
