//! Looking at the virtual host: states, parents, owners, several questions at once.

use crate::body::file_state;
use converge_objects::{GroupState, PackageState, PathState, SysctlState, UnitState, UserState};
use converge_resource::{BadState, Content, ObjectId, ParamError, Probe, State, Stop, View, Wanted, quote};

/// Gathers questions, so that one round asks all of them.
#[derive(Default)]
pub struct Asks(Vec<Probe>);

impl Asks {
    /// The value, or `None` when it must be asked first; any other stop ends the plan.
    pub fn take<T>(&mut self, result: Result<T, Stop>) -> Result<Option<T>, Stop> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Ask(probes)) => {
                for probe in probes {
                    if !self.0.contains(&probe) {
                        self.0.push(probe);
                    }
                }
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// Stops when there is something to ask.
    pub fn finish(self) -> Result<(), Stop> {
        if self.0.is_empty() { Ok(()) } else { Err(Stop::Ask(self.0)) }
    }
}

pub fn path_id(path: &str) -> ObjectId {
    ObjectId::new("path", normal(path))
}

pub fn unit_id(name: &str) -> ObjectId {
    ObjectId::new("unit", name)
}

pub fn package_id(name: &str) -> ObjectId {
    ObjectId::new("package", name)
}

pub fn user_id(name: &str) -> ObjectId {
    ObjectId::new("user", name)
}

pub fn group_id(name: &str) -> ObjectId {
    ObjectId::new("group", name)
}

pub fn sysctl_id(name: &str) -> ObjectId {
    ObjectId::new("sysctl", name)
}

/// The typed state of an object.
pub fn state<S: TryFrom<State, Error = BadState>>(seen: &dyn View, id: &ObjectId) -> Result<S, Stop> {
    S::try_from(seen.raw(id)?).map_err(|e| Stop::Failed(format!("{id}: {e}")))
}

pub fn path(seen: &dyn View, path: &str) -> Result<PathState, Stop> {
    state(seen, &path_id(path))
}

pub fn package(seen: &dyn View, name: &str) -> Result<PackageState, Stop> {
    state(seen, &package_id(name))
}

pub fn unit(seen: &dyn View, name: &str) -> Result<UnitState, Stop> {
    state(seen, &unit_id(name))
}

pub fn user(seen: &dyn View, name: &str) -> Result<UserState, Stop> {
    state(seen, &user_id(name))
}

pub fn group(seen: &dyn View, name: &str) -> Result<GroupState, Stop> {
    state(seen, &group_id(name))
}

pub fn sysctl(seen: &dyn View, name: &str) -> Result<SysctlState, Stop> {
    state(seen, &sysctl_id(name))
}

/// A file of our own with exactly this text. Owner and mode of one that is there stay; a new one is root's, 0644.
pub fn own_file(seen: &dyn View, pointer: &str, file: &str, text: &str) -> Result<Wanted, Stop> {
    let attrs = match path(seen, file)? {
        PathState::File { mode, owner, group, .. } => (mode, owner, group),
        PathState::Absent | PathState::Link { .. } => {
            need_parent(seen, pointer, file)?;
            (0o644, "root".to_owned(), "root".to_owned())
        }
        PathState::Dir { .. } | PathState::Other { .. } => {
            return Err(Stop::invalid(pointer, format!("{file} is there and is not a file")));
        }
    };
    let content = Content::new(text.as_bytes());
    Ok(Wanted::one(path_id(file), file_state(&content, attrs)).with(content))
}

/// The same file, not there.
pub fn own_file_gone(seen: &dyn View, file: &str) -> Result<Wanted, Stop> {
    match path(seen, file)? {
        PathState::Dir { .. } => Err(Stop::invalid("", format!("{file} is a directory"))),
        _ => Ok(Wanted::one(path_id(file), PathState::Absent)),
    }
}

/// The path without doubled and trailing slashes, so that one place has one key.
pub fn normal(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

/// The directory that holds this path; `/` for `/` itself.
pub fn parent(path: &str) -> String {
    let path = normal(path);
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/".to_owned(),
        Some((dir, _)) => dir.to_owned(),
    }
}

/// Every directory above this path from the top down, without `/`.
pub fn ancestors(path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = parent(path);
    while at != "/" {
        let next = parent(&at);
        found.push(at);
        at = next;
    }
    found.reverse();
    found
}

/// Complains about a deadline that is not 1 to `most` seconds.
pub fn check_deadline(pointer: &str, seconds: u64, most: u64, errors: &mut Vec<ParamError>) {
    if !(1..=most).contains(&seconds) {
        let help = format!("write 1 to {most} seconds");
        errors.push(ParamError::new(pointer, "the deadline is out of range", help));
    }
}

/// Refuses what is no exact absolute path.
pub fn check_path(pointer: &str, path: &str, errors: &mut Vec<ParamError>) {
    let mut wrong = |message: String, help: String| errors.push(ParamError::new(pointer, message, help));
    if !path.starts_with('/') {
        wrong(format!("`{path}` is not an absolute path"), format!("write the whole path: `/{path}`"));
    } else if path.split('/').any(|p| p == "." || p == "..") {
        wrong(format!("`{path}` has a `.` or `..` in it"), "write the path without them".to_owned());
    } else if path.chars().any(char::is_control) {
        wrong("the path has a control character in it".to_owned(), "write one path on one line".to_owned());
    }
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

/// Makes sure that the directory above `target` is there when the item's turn comes, or may be.
pub fn need_parent(seen: &dyn View, pointer: &str, target: &str) -> Result<(), Stop> {
    let mut dir = parent(target);
    for _ in 0..8 {
        if dir == "/" {
            return Ok(());
        }
        match path(seen, &dir)? {
            PathState::Dir { .. } => return Ok(()),
            PathState::Link { target } => dir = follow(&dir, &target),
            PathState::Absent if seen.may_appear(&path_id(&dir)).is_some() => return Ok(()),
            PathState::Absent => {
                return Err(Stop::invalid_help(
                    pointer,
                    format!("the directory {dir} does not exist"),
                    format!("add an item before this one: `directory: {{path: {dir}, parents: true}}`"),
                ));
            }
            PathState::File { .. } | PathState::Other { .. } => {
                return Err(Stop::invalid(pointer, format!("{dir} is not a directory")));
            }
        }
    }
    Err(Stop::invalid(pointer, format!("too many symbolic links above {target}")))
}

/// Which database a name is looked up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    User,
    Group,
}

impl Account {
    fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
        }
    }

    fn database(self) -> &'static str {
        match self {
            Self::User => "passwd",
            Self::Group => "group",
        }
    }
}

/// The read-only question whether the name service knows an account.
pub fn account_probe(account: Account, name: &str) -> Probe {
    Probe::run(format!("getent {} {}", account.database(), quote(name)))
}

/// The name by which the host will show this owner, once it is sure that there is one.
///
/// Local accounts are seen through the view (an earlier item may make them); others through the name service.
pub fn account_name(seen: &dyn View, account: Account, pointer: &str, name: &str) -> Result<String, Stop> {
    if name == "root" {
        return Ok(name.to_owned());
    }
    if name.bytes().all(|b| b.is_ascii_digit()) {
        let answer = seen.run(&account_probe(account, name))?;
        let known = answer.stdout.split(':').next().unwrap_or("").trim();
        return Ok(if answer.status == 0 && !known.is_empty() { known.to_owned() } else { name.to_owned() });
    }
    let id = ObjectId::new(account.word(), name);
    match seen.raw(&id) {
        Ok(state) if state.is_absent() && seen.may_appear(&id).is_none() => {}
        // An account of another source than the local files cannot be seen as an object.
        Err(Stop::Failed(_)) => {}
        Ok(_) => return Ok(name.to_owned()),
        Err(stop) => return Err(stop),
    }
    let answer = seen.run(&account_probe(account, name))?;
    if answer.status == 0 {
        return Ok(name.to_owned());
    }
    let word = account.word();
    Err(Stop::invalid_help(
        pointer,
        format!("the {word} {name} does not exist on this host"),
        format!("correct the name, or add an item before this one: `{word}: {{name: {name}}}`"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeView;

    #[test]
    fn paths_have_one_spelling() {
        assert_eq!(normal("//etc//x/"), "/etc/x");
        assert_eq!(normal("/"), "/");
        assert_eq!(parent("/etc/x/"), "/etc");
        assert_eq!(parent("/etc"), "/");
        assert_eq!(ancestors("/a/b/c"), ["/a", "/a/b"]);
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
    fn accounts_are_found_locally_or_by_the_name_service() {
        let view = FakeView::new().user("alice", 1000).answer(
            &account_probe(Account::User, "ldap"),
            0,
            "ldap:x:9:9::/:/bin/sh\n",
        );
        assert_eq!(account_name(&view, Account::User, "/owner", "alice"), Ok("alice".into()));
        assert_eq!(account_name(&view, Account::User, "/owner", "ldap"), Ok("ldap".into()));
        let view = view.answer(&account_probe(Account::User, "nobdy"), 2, "").answer(
            &account_probe(Account::User, "1000"),
            0,
            "alice:x:1000:",
        );
        assert_eq!(account_name(&view, Account::User, "/owner", "1000"), Ok("alice".into()));
        let stop = account_name(&view, Account::User, "/owner", "nobdy").unwrap_err();
        assert!(matches!(&stop, Stop::Invalid { pointer, .. } if pointer == "/owner"), "{stop:?}");
    }

    #[test]
    fn wrong_paths_are_named() {
        for bad in ["etc/x", "/etc/../x", "/etc/a\nb"] {
            let mut errors = Vec::new();
            check_path("/path", bad, &mut errors);
            assert_eq!(errors.len(), 1, "{bad:?}");
        }
    }
}
