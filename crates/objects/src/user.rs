//! A local user of `/etc/passwd`. Its key is the login name.
//!
//! The home directory is no part of it: a kind that wants one claims it as a path of its own, after the user.

use converge_resource::{
    AttributeChange, Digest, DriftScript, DynRelations, ErasedObject, Facets, Footprint, Object, ObjectId,
    Relations, State, Step, Traits, differing, quote, state_of_words,
};
use jiff::civil::{Date, date};
use std::collections::BTreeSet;
use std::ops::Range;

/// The first day of the field of `/etc/shadow` that says when an account expires.
const EPOCH: Date = date(1970, 1, 1);

/// The day on which an account is disabled, from its date (`2027-01-31`); `None` for anything else, and for days that `/etc/shadow` does not
/// tell from `never`.
pub fn expiry_day(text: &str) -> Option<u32> {
    let day: Date = text.parse().ok().filter(|_| text.len() == 10)?;
    u32::try_from(EPOCH.until(day).ok()?.get_days()).ok().filter(|days| *days > 0)
}

/// The date of such a day.
fn expiry_date(day: u32) -> String {
    let span = jiff::Span::new().try_days(day).ok();
    span.and_then(|span| EPOCH.checked_add(span).ok()).map_or_else(|| format!("day {day}"), |d| d.to_string())
}

/// The state of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserState {
    /// No such user (`absent`).
    Absent,
    /// A user (`user UID GROUP GECOS HOME SHELL LOGIN GROUPS…`, where `LOGIN` is `locked` or `unlocked`, with `,password=SHA256` and
    /// `,expires=DAY` where these are known).
    User {
        /// The number. `None` only in a planned state (`~` in the line): the host chooses when it makes the user.
        uid: Option<u32>,
        /// The primary group by name; by number where the host has no name.
        group: String,
        /// The comment field.
        gecos: String,
        /// The home directory.
        home: String,
        /// The login shell.
        shell: String,
        /// True when no password opens it (the shadow field begins with `!` or `*`).
        locked: bool,
        /// The digest of the hash of its password, of users to whom a run has given one.
        password: Option<Digest>,
        /// The day on which it is disabled, counted from 1970-01-01.
        expires: Option<u32>,
        /// The supplementary groups, from `/etc/group`.
        groups: BTreeSet<String>,
    },
}

impl UserState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::User { uid, group, gecos, home, shell, locked, password, expires, groups } => {
                let uid = uid.map_or_else(|| "~".to_owned(), |n| n.to_string());
                let mut login = if *locked { "locked" } else { "unlocked" }.to_owned();
                if let Some(digest) = password {
                    login.push_str(&format!(",password={digest}"));
                }
                if let Some(day) = expires {
                    login.push_str(&format!(",expires={day}"));
                }
                let fixed = ["user", &uid, group, gecos, home, shell, &login];
                fixed.into_iter().map(str::to_owned).chain(groups.iter().cloned()).collect()
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["user", uid, group, gecos, home, shell, login, groups @ ..] => {
                let (locked, password, expires) = read_login(login)?;
                let set: BTreeSet<String> = groups.iter().map(|g| (*g).to_owned()).collect();
                if !set.iter().map(String::as_str).eq(groups.iter().copied()) {
                    return None;
                }
                Some(Self::User {
                    uid: if *uid == "~" { None } else { Some(uid.parse().ok()?) },
                    group: (*group).to_owned(),
                    gecos: (*gecos).to_owned(),
                    home: (*home).to_owned(),
                    shell: (*shell).to_owned(),
                    locked,
                    password,
                    expires,
                    groups: set,
                })
            }
            _ => None,
        }
    }
}

/// The word of a state that says how one logs in, taken apart.
fn read_login(word: &str) -> Option<(bool, Option<Digest>, Option<u32>)> {
    let mut parts = word.split(',').peekable();
    let locked = match parts.next()? {
        "locked" => true,
        "unlocked" => false,
        _ => return None,
    };
    let mut value =
        |name: &str| parts.next_if(|part| part.starts_with(name)).map(|part| part.split_at(name.len()).1);
    let password = value("password=").map(|hex| Digest::from_hex(hex).ok_or(())).transpose().ok()?;
    let expires = value("expires=").map(str::parse).transpose().ok()?;
    parts.next().is_none().then_some((locked, password, expires))
}

state_of_words!(UserState);

/// Stands for a hash.
const HIDDEN: &str = "(hidden)";

/// The parts of a user's state that say how one logs in: whether it is locked, the digest of its hash, and its expiry.
fn login(state: &UserState) -> Option<(bool, Option<&Digest>, Option<u32>)> {
    match state {
        UserState::User { locked, password, expires, .. } => Some((*locked, password.as_ref(), *expires)),
        UserState::Absent => None,
    }
}

/// The digest of the hash of its password, if that is known.
fn password(state: &UserState) -> Option<&Digest> {
    login(state).and_then(|(_, password, _)| password)
}

/// The object.
pub struct User;

impl Object for User {
    const KIND: &'static str = "user";
    const SHELL: &'static str = include_str!("user.sh");
    const TRAITS: Traits = Traits { footprint: Footprint::Named, runs_no_code: true, ..Traits::NONE };
    const RELATIONS: &'static dyn DynRelations = &ErasedObject::<Self>::new();
    type State = UserState;

    fn title(key: &str, from: &UserState, to: &UserState) -> String {
        let verb = match (from, to) {
            (_, UserState::Absent) => "remove",
            (UserState::Absent, _) => "create",
            _ => "change",
        };
        format!("{verb} user {key}")
    }

    /// The hash of a password goes to the host by the step's input alone. In a rollback the host has kept it.
    fn steps(changes: &[(&str, UserState, UserState)]) -> Vec<Step> {
        let step = |(key, from, to): &(&str, UserState, UserState)| {
            let line = State::from(to.clone());
            let script = format!("cv_apply_user {} {}", quote(key), quote(line.line()));
            let step = Step::new(Self::title(key, from, to), script);
            match (password(from), password(to)) {
                (was, Some(digest)) if was != Some(digest) => step.reading(digest.clone()),
                _ => step,
            }
        };
        changes.iter().map(step).collect()
    }

    /// A uid that the plan leaves open is any.
    fn fulfils(now: &UserState, planned: &UserState) -> bool {
        let mut filled = planned.clone();
        if let (UserState::User { uid: open @ None, .. }, UserState::User { uid, .. }) = (&mut filled, now) {
            *open = *uid;
        }
        *now == filled
    }

    /// Made, and not in all its groups yet, or with its password still to be set or locked. Of a user that was there, on the way to another
    /// password or expiry: while one of the two is not known, the other one may be any.
    fn amid(before: &UserState, after: &UserState, now: &UserState) -> bool {
        let UserState::User { uid, locked, password: hash, expires, .. } = now else { return false };
        let (old, new, found) = (before.words(), after.words(), now.words());
        if *before == UserState::Absent {
            let open = matches!(after, UserState::User { uid: None, .. });
            return found.get(2..6) == new.get(2..6)
                && (open || matches!(after, UserState::User { uid: number, .. } if number == uid));
        }
        let ends: Vec<_> = [before, after].into_iter().filter_map(login).collect();
        let either =
            |at: Range<usize>| [&old, &new].iter().any(|end| end.get(at.clone()) == found.get(at.clone()));
        (1..6).all(|at| either(at..at + 1))
            && [&old, &new].iter().any(|end| end.get(7..) == found.get(7..))
            && ends.iter().any(|end| end.0 == *locked)
            && ends.iter().any(|end| end.1.is_none() || end.1 == hash.as_ref())
            && ends.iter().any(|end| end.2 == *expires)
    }

    fn facets(state: &UserState) -> Facets {
        match state {
            UserState::Absent => Vec::new(),
            UserState::User { uid, group, gecos, home, shell, locked, password, expires, groups } => vec![
                ("uid", uid.map_or_else(|| "(assigned by the host)".to_owned(), |n| n.to_string())),
                ("group", group.clone()),
                ("comment", gecos.clone()),
                ("home", home.clone()),
                ("shell", shell.clone()),
                ("password", if *locked { "locked" } else { "usable" }.to_owned()),
                ("groups", groups.iter().map(String::as_str).collect::<Vec<_>>().join(" ")),
            ]
            .into_iter()
            .chain(password.as_ref().map(|_| ("password hash", HIDDEN.to_owned())))
            .chain(expires.map(|day| ("expires", expiry_date(day))))
            .collect(),
        }
    }

    /// Neither a hash nor its digest is shown.
    fn attributes(from: &UserState, to: &UserState) -> Vec<AttributeChange> {
        let mut all = differing(&Self::facets(from), &Self::facets(to));
        // A user without a day has no facet of it, so that a new one does not say it. Where the day comes or goes, both sides are named.
        if !matches!(from, UserState::Absent) && !matches!(to, UserState::Absent) {
            for day in all.iter_mut().filter(|change| change.name == "expires") {
                for side in [&mut day.before, &mut day.after] {
                    side.get_or_insert_with(|| "never".to_owned());
                }
            }
        }
        if let (Some(was), Some(is)) = (password(from), password(to))
            && was != is
        {
            all.push(AttributeChange {
                name: "password hash".to_owned(),
                before: Some(HIDDEN.to_owned()),
                after: Some("(hidden, another)".to_owned()),
            });
        }
        all
    }

    fn drifts(key: &str, state: &UserState) -> Vec<DriftScript> {
        let UserState::User { shell, gecos, locked, password, groups, .. } = state else { return Vec::new() };
        let user = quote(key);
        let other = if shell == "/bin/false" { "/bin/sh" } else { "/bin/false" };
        let lock = if *locked { "-U" } else { "-L" };
        let mut drifts = vec![
            DriftScript::new("shell", format!("shell {other}"), format!("usermod -s {other} -- {user}")),
            DriftScript::new(
                "comment",
                "another comment",
                format!("usermod -c {} -- {user}", quote(&format!("{gecos} drifted"))),
            ),
            // Without a password there is nothing to unlock.
            DriftScript::new(
                "locked",
                if *locked { "unlocked" } else { "locked" },
                format!("usermod {lock} -- {user} || exit 3"),
            ),
            // A user who is logged in cannot be removed.
            DriftScript::new("presence", "removed", format!("userdel -- {user} || exit 3")),
        ];
        drifts.push(DriftScript::new("expires", "expired", format!("chage -E 1 -- {user}")));
        if password.is_some() {
            let other = quote(&format!("{key}:$6$drifted$drifted"));
            let script = format!("printf '%s\\n' {other} | chpasswd -e");
            drifts.push(DriftScript::new("password_hash", "another password", script));
        }
        if !groups.is_empty() {
            drifts.push(DriftScript::new("groups", "in no other group", format!("usermod -G '' -- {user}")));
        }
        drifts
    }
}

impl Relations for User {
    /// Files keep the number, except in the home directory, and show the name of the user who gets it.
    fn is_followed(from: &UserState, to: &UserState) -> bool {
        let retained = |state: &UserState| match state {
            UserState::User { uid, group, .. } => Some((*uid, group.clone())),
            UserState::Absent => None,
        };
        let numbered = |state: &UserState| matches!(state, UserState::User { uid: Some(_), .. });
        (numbered(from) || numbered(to)) && retained(from) != retained(to)
    }

    fn accounts(_: &str, state: &UserState) -> Vec<ObjectId> {
        match state {
            UserState::User { group, groups, .. } => {
                groups.iter().chain([group]).map(|name| ObjectId::new("group", name)).collect()
            }
            UserState::Absent => Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "user_tests.rs"]
mod tests;
