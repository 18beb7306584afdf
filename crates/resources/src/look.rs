//! Looking at the virtual host: states, parents, owners, several questions at once.

use converge_objects::path::within;
use converge_objects::{
    GroupState, PackageState, PathState, SysctlState, UnitState, UserState, account_number,
};
use converge_resource::{BadState, ObjectId, ParamError, Probe, State, Stop, View, Wait, quote};

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

/// Everything below a path: a slash at its end.
pub fn path_id_below(path: &str) -> ObjectId {
    ObjectId::new("path", format!("{}/", normal(path).trim_end_matches('/')))
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
pub fn state<S: TryFrom<State, Error = BadState>>(view: &dyn View, id: &ObjectId) -> Result<S, Stop> {
    S::try_from(view.raw(id)?).map_err(|e| Stop::Failed(format!("{id}: {e}")))
}

pub fn path(view: &dyn View, path: &str) -> Result<PathState, Stop> {
    state(view, &path_id(path))
}

pub fn package(view: &dyn View, name: &str) -> Result<PackageState, Stop> {
    state(view, &package_id(name))
}

pub fn unit(view: &dyn View, name: &str) -> Result<UnitState, Stop> {
    state(view, &unit_id(name))
}

pub fn user(view: &dyn View, name: &str) -> Result<UserState, Stop> {
    state(view, &user_id(name))
}

pub fn group(view: &dyn View, name: &str) -> Result<GroupState, Stop> {
    state(view, &group_id(name))
}

pub fn sysctl(view: &dyn View, name: &str) -> Result<SysctlState, Stop> {
    state(view, &sysctl_id(name))
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

/// Refuses a text that is no exact absolute path.
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

/// The earlier item of this run after which the kernel may have what it has not now: a module, or foreign code, which may load
/// one. A file or a user brings nothing of the kernel's.
pub fn kernel_may_change(view: &dyn View) -> Option<Wait> {
    view.pending_act(&|object, foreign| {
        foreign || ["module", "boot", "package"].contains(&object.kind.as_str())
    })
}

/// The earlier item of this run after which this host may have one of these programs: a package, foreign code, or a file of that
/// name. A text file brings none.
pub fn program_may_come(view: &dyn View, programs: &[&str]) -> Option<Wait> {
    view.pending_act(&|object, foreign| {
        let named = || object.key.rsplit('/').next().is_some_and(|name| programs.contains(&name));
        foreign || object.kind == "package" || (object.kind == "path" && named())
    })
}

/// The earlier item of this run after which a missing path may exist: the effects of a command or a service are not known.
pub fn may_be_made(view: &dyn View) -> Option<Wait> {
    view.pending_act(&|object, foreign| foreign && ["command", "unit"].contains(&object.kind.as_str()))
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

    /// The number in a state of an account; `None` where it is not known, or there is no such account.
    fn number(self, state: &State) -> Option<u32> {
        account_number(&ObjectId::new(self.word(), ""), state)
    }

    /// The account that has this number among those that earlier items of this run determine.
    fn of_number(self, determined: &[(ObjectId, State)], number: &str) -> Option<String> {
        let has = |state: &State| self.number(state).is_some_and(|n| n.to_string() == number);
        determined.iter().find(|(_, state)| has(state)).map(|(id, _)| id.key.clone())
    }

    /// The number that an earlier item of this run gives to this account: empty when it takes the account away, `None` when none
    /// says anything of it.
    fn number_now(self, view: &dyn View, name: &str) -> Result<Option<String>, Stop> {
        let determined = view.determined(self.word());
        let own = determined.iter().find(|(id, _)| id.key == name);
        Ok(own.map(|(_, state)| self.number(state).map(|n| n.to_string()).unwrap_or_default()))
    }

    /// Refuses another number for an account to which an earlier item of this run gives a path: that one would keep the number that it
    /// has now. What lies in `home` goes along.
    pub fn check_owned(self, view: &dyn View, name: &str, was: u32, home: Option<&str>) -> Result<(), Stop> {
        let its_own = |state: &State| match PathState::try_from(state.clone()) {
            Ok(PathState::File { owner, group, .. } | PathState::Dir { owner, group, .. }) => {
                name == if self == Self::User { owner } else { group }
            }
            _ => false,
        };
        let facet = if self == Self::User { "owner" } else { "group" };
        let goes_along = |path: &str| home.is_some_and(|home| within(path, home));
        let mut paths = view.determined("path").into_iter();
        let Some((path, _)) =
            paths.find(|(id, state)| its_own(state) && view.gives(id, facet) && !goes_along(&id.key))
        else {
            return Ok(());
        };
        let word = self.word();
        Err(Stop::invalid_help(
            if self == Self::User { "/uid" } else { "/gid" },
            format!(
                "a resource before this one gives {} to the {word} {name}, and would leave it with the number {was}",
                path.key
            ),
            format!("put the {word} before the resources that give something to it"),
        ))
    }

    /// Refuses a number that another account has, now or by an earlier item of this run.
    pub fn check_number(self, view: &dyn View, pointer: &str, name: &str, number: u32) -> Result<(), Stop> {
        let text = number.to_string();
        let word = self.word();
        let kind = if self == Self::User { "uid" } else { "gid" };
        let taken = |by: &str| {
            Stop::invalid_help(
                pointer,
                format!("the {kind} {number} belongs to the {word} {by}"),
                format!(
                    "choose another number (`getent {} {number}` shows who has it), or give {by} another one in a resource before this one",
                    self.database()
                ),
            )
        };
        let determined = view.determined(word);
        let others: Vec<(ObjectId, State)> =
            determined.into_iter().filter(|(id, _)| id.key != name).collect();
        if let Some(by) = self.of_number(&others, &text) {
            return Err(taken(&by));
        }
        let answer = view.run(&account_probe(self, &text))?;
        let by = answer.stdout.split(':').next().unwrap_or("").trim();
        if answer.status != 0 || by.is_empty() || by == name {
            return Ok(());
        }
        // It is free by then when an earlier item takes the account away or gives it another number.
        match self.number_now(view, by)? {
            Some(now) if now != text => Ok(()),
            _ => Err(taken(by)),
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
/// Local accounts are read through the view (an earlier item may make them); others through the name service.
pub fn account_name(view: &dyn View, account: Account, pointer: &str, name: &str) -> Result<String, Stop> {
    if name == "root" {
        return Ok(name.to_owned());
    }
    if name.bytes().all(|b| b.is_ascii_digit()) {
        // The host will show the name that an earlier item of this run gives the number to.
        if let Some(owner) = account.of_number(&view.determined(account.word()), name) {
            return Ok(owner);
        }
        let answer = view.run(&account_probe(account, name))?;
        let known = answer.stdout.split(':').next().unwrap_or("").trim();
        let other = account.number_now(view, known)?.is_some_and(|number| number != name);
        let shown = answer.status == 0 && !known.is_empty() && !other;
        return Ok(if shown { known.to_owned() } else { name.to_owned() });
    }
    let id = ObjectId::new(account.word(), name);
    match view.raw(&id) {
        Ok(state) if state.is_absent() => {}
        // An account of another source than the local files cannot be observed as an object.
        Err(Stop::Failed(_)) => {}
        Ok(_) => return Ok(name.to_owned()),
        Err(stop) => return Err(stop),
    }
    // Whether it comes decides whether this can be done at all.
    if let Some(wait) = view.may_appear(&id) {
        return Err(Stop::Deferred(wait));
    }
    let answer = view.run(&account_probe(account, name))?;
    // An account that an earlier item of this run takes away is no answer any more.
    let gone = view.determined(account.word()).iter().any(|(other, state)| *other == id && state.is_absent());
    if answer.status == 0 && !gone {
        return Ok(name.to_owned());
    }
    let word = account.word();
    Err(Stop::invalid_help(
        pointer,
        format!("the {word} {name} does not exist on this host"),
        format!("correct the name, or add a resource before this one: `{word}: {{name: {name}}}`"),
    ))
}

#[cfg(test)]
#[path = "look_tests.rs"]
mod tests;
