//! A local user of `/etc/passwd`. Its key is the login name.
//!
//! The home directory is no part of it: a kind that wants one claims it as a path of its own, after the user.

use converge_resource::{
    DriftScript, DynRelations, Erased, Facets, Object, ObjectId, Relations, quote, state_of_words,
};
use std::collections::BTreeSet;

/// The state of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserState {
    /// No such user (`absent`).
    Absent,
    /// A user (`user UID GROUP GECOS HOME SHELL locked|unlocked GROUPS…`).
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
        /// The supplementary groups, from `/etc/group`.
        groups: BTreeSet<String>,
    },
}

impl UserState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::User { uid, group, gecos, home, shell, locked, groups } => {
                let uid = uid.map_or_else(|| "~".to_owned(), |n| n.to_string());
                let lock = if *locked { "locked" } else { "unlocked" };
                let fixed = ["user", &uid, group, gecos, home, shell, lock];
                fixed.into_iter().map(str::to_owned).chain(groups.iter().cloned()).collect()
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["user", uid, group, gecos, home, shell, lock @ ("locked" | "unlocked"), groups @ ..] => {
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
                    locked: *lock == "locked",
                    groups: set,
                })
            }
            _ => None,
        }
    }
}

state_of_words!(UserState);

/// The object.
pub struct User;

impl Object for User {
    const KIND: &'static str = "user";
    const SHELL: &'static str = include_str!("user.sh");
    const RELATIONS: &'static dyn DynRelations = &Erased::<Self>::new();
    type State = UserState;

    fn title(key: &str, from: &UserState, to: &UserState) -> String {
        let verb = match (from, to) {
            (_, UserState::Absent) => "remove",
            (UserState::Absent, _) => "create",
            _ => "change",
        };
        format!("{verb} user {key}")
    }

    /// A uid that the plan leaves open is any.
    fn fulfils(now: &UserState, planned: &UserState) -> bool {
        let mut filled = planned.clone();
        if let (UserState::User { uid: open @ None, .. }, UserState::User { uid, .. }) = (&mut filled, now) {
            *open = *uid;
        }
        *now == filled
    }

    /// Made, and not in all its groups yet, or with its password still to be set or locked.
    fn amid(before: &UserState, after: &UserState, now: &UserState) -> bool {
        let own = |state: &UserState| match state {
            UserState::User { group, gecos, home, shell, .. } => {
                Some([group, gecos, home, shell].map(Clone::clone))
            }
            UserState::Absent => None,
        };
        let uid = |state: &UserState| match state {
            UserState::User { uid, .. } => *uid,
            UserState::Absent => None,
        };
        *before == UserState::Absent
            && own(now).is_some()
            && own(now) == own(after)
            && uid(after).is_none_or(|number| uid(now) == Some(number))
    }

    fn facets(state: &UserState) -> Facets {
        match state {
            UserState::Absent => Vec::new(),
            UserState::User { uid, group, gecos, home, shell, locked, groups } => vec![
                ("uid", uid.map_or_else(|| "(assigned by the host)".to_owned(), |n| n.to_string())),
                ("group", group.clone()),
                ("comment", gecos.clone()),
                ("home", home.clone()),
                ("shell", shell.clone()),
                ("password", if *locked { "locked" } else { "usable" }.to_owned()),
                ("groups", groups.iter().map(String::as_str).collect::<Vec<_>>().join(" ")),
            ],
        }
    }

    fn drifts(key: &str, state: &UserState) -> Vec<DriftScript> {
        let UserState::User { shell, gecos, locked, groups, .. } = state else { return Vec::new() };
        let user = quote(key);
        let other = if shell == "/bin/false" { "/bin/sh" } else { "/bin/false" };
        let lock = if *locked { "-U" } else { "-L" };
        let mut drifts = vec![
            DriftScript::new("shell", format!("shell {other}"), format!("usermod -s {other} -- {user}")),
            DriftScript::new(
                "comment",
                "another comment",
                format!("usermod -c {} -- {user}", quote(&format!("{gecos} spoiled"))),
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
        if !groups.is_empty() {
            drifts.push(DriftScript::new("groups", "in no other group", format!("usermod -G '' -- {user}")));
        }
        drifts
    }
}

impl Relations for User {
    /// Files keep the number, except in the home directory, and show the name of the user who gets it.
    fn is_followed(from: &UserState, to: &UserState) -> bool {
        let kept = |state: &UserState| match state {
            UserState::User { uid, group, .. } => Some((*uid, group.clone())),
            UserState::Absent => None,
        };
        let numbered = |state: &UserState| matches!(state, UserState::User { uid: Some(_), .. });
        (numbered(from) || numbered(to)) && kept(from) != kept(to)
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
mod tests {
    use super::*;
    use crate::testing::shells;
    use converge_resource::State;

    fn bob() -> UserState {
        UserState::User {
            uid: Some(1000),
            group: "crew".to_owned(),
            gecos: "Bob B".to_owned(),
            home: "/home/bob".to_owned(),
            shell: "/bin/sh".to_owned(),
            locked: false,
            groups: ["adm", "sudo"].into_iter().map(str::to_owned).collect(),
        }
    }

    #[test]
    fn a_user_that_is_being_made_is_known() {
        let state = |line: &str| UserState::try_from(State::from_line(line)).unwrap();
        let after = state("user ~ users \\ /srv /bin/sh locked adm");
        let amid = |before: &str, now: &str| User::amid(&state(before), &after, &state(now));
        assert!(amid("absent", "user 1001 users \\ /srv /bin/sh unlocked"));
        assert!(!amid("absent", "user 1001 users \\ /srv /bin/bash locked adm"), "another shell");
        assert!(!amid("absent", "absent"));
        assert!(!amid(
            "user 1001 users \\ /srv /bin/bash locked",
            "user 1001 users \\ /srv /bin/sh unlocked"
        ));
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        let line = State::from(bob());
        assert_eq!(UserState::try_from(line.clone()), Ok(bob()));
        assert!(line.line().starts_with("user 1000 crew \\0102"));
        for bad in
            ["user 1 g c h s locked b a", "user x g c h s locked", "user 1 g c h s maybe", "user 1 g c h s"]
        {
            assert!(UserState::try_from(State::from_line(bad)).is_err(), "{bad}");
        }
        let open = UserState::try_from(State::from_line("user ~ g \\ /h /s locked")).unwrap();
        assert!(matches!(open, UserState::User { uid: None, .. }));
    }

    #[test]
    fn accounts_are_read_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write(
            "passwd",
            "root:x:0:0:root:/root:/bin/bash\nbob:x:1000:50:Bob B:/home/bob:/bin/sh\n\
             odd:!:7:99:::\nnoshadow:x:8:0::/:/bin/sh\nopen::9:0::/:/bin/sh\n",
        );
        write("group", "root:x:0:\ncrew:x:50:\nsudo:x:27:bob,root\nadm:x:4:bob\n");
        write("shadow", "root:*:1:::::\nbob:$6$x:1:::::\n");
        let keys = ["bob", "root", "odd", "noshadow", "open", "gone"];
        for shell in shells(dir.path()) {
            let script = format!("CV_ETC='{}'; cv_see_user \"$@\"", dir.path().display());
            let seen = crate::testing::parse::<User>(&keys, &shell.good(dir.path(), &script, &keys, b""));
            let line = |key: &str| seen[key].clone().unwrap().state;
            assert_eq!(line("bob"), State::from(bob()), "{}", shell.name);
            assert_eq!(line("root").line(), "user 0 root root /root /bin/bash locked sudo");
            assert_eq!(line("odd").line(), "user 7 99 \\ \\ \\ locked");
            assert_eq!(line("noshadow").line(), "user 8 root \\ / /bin/sh locked");
            assert_eq!(line("open").line(), "user 9 root \\ / /bin/sh unlocked");
            assert!(line("gone").is_absent());
            let script = format!("CV_ETC='{}'; cv_see_group crew none", dir.path().display());
            assert_eq!(shell.good(dir.path(), &script, &[], b""), "- group 50\n- absent\n");
        }
    }

    #[test]
    fn a_lock_whose_process_is_gone_is_taken_and_none_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for shell in shells(dir.path()) {
            for lock in [None, Some("999999999"), Some("999999999\n")] {
                std::fs::write(at("gshadow"), "a:!::\nb:!::\n").unwrap();
                std::fs::write(at("kept"), "b:x::c\n").unwrap();
                if let Some(lock) = lock {
                    std::fs::write(at("gshadow.lock"), lock).unwrap();
                }
                let script = format!(
                    "put() {{ cv_shadow_put b '{0}/gshadow' '{0}/kept'; }}; put other words",
                    dir.path().display()
                );
                shell.good(dir.path(), &script, &[], b"");
                assert_eq!(
                    std::fs::read_to_string(at("gshadow")).unwrap(),
                    "a:!::\nb:x::c\n",
                    "{}",
                    shell.name
                );
                assert!(!at("gshadow.lock").exists(), "{}: the lock stays", shell.name);
            }
        }
    }

    #[test]
    fn a_uid_left_open_is_the_hosts_choice_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        for shell in shells(dir.path()) {
            for (found, wanted, same) in [
                ("user 1001 g \\ /h /s locked a", "user ~ g \\ /h /s locked a", true),
                ("user 1001 g \\ /h /s locked", "user ~ g \\ /h /s locked a", false),
                ("absent", "user ~ g \\ /h /s locked", false),
            ] {
                let output = shell.run(dir.path(), "cv_same_user x \"$1\" \"$2\"", &[found, wanted], b"");
                assert_eq!(output.status.success(), same, "{}: {found}", shell.name);
            }
        }
    }
}
