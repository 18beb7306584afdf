//! `user`

use crate::above::need_parent;
use crate::attrs::check_account;
use crate::kinds::group::system_setting;
use crate::look::{
    Account, Asks, account_name, account_probe, check_path, group, group_id, path, path_id, user, user_id,
};
use crate::presence::Presence;
use converge_objects::{GroupState, PathState, UserState, expiry_day};
use converge_resource::{
    Claim, Content, Digest, ObjectId, ParamError, Probe, Resource, State, Stop, View, WantedStates, quote,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;

/// A local user.
///
/// Attributes that are not given are kept. A new user has a group of the same name, a home directory below `/home` and no password,
/// so that only keys open it, unless `password_hash` gives it one. Without `uid` the host assigns the number of a new user: the plan shows it as open.
/// Nothing is copied from `/etc/skel`; an absent user's group and home directory stay: remove them with `group` and
/// `absent` resources.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The login name.
    name: String,
    /// The number.
    uid: Option<u32>,
    /// The primary group. A new user without it gets the group of its own name, which is made where it is missing.
    group: Option<String>,
    /// The other groups, all of them; with `append` those that must be among them.
    groups: Option<Vec<String>>,
    /// Keep other groups that the user belongs to.
    #[serde(default)]
    append: bool,
    /// The home directory. That of an existing user is not moved.
    home: Option<String>,
    /// The login shell. A new user has `/bin/sh` without it, one of the system `/usr/sbin/nologin`.
    shell: Option<String>,
    /// The full name, or what the user is for.
    comment: Option<String>,
    /// Make the home directory with mode 0700 where it is missing. Without it: yes, unless `system`.
    create_home: Option<bool>,
    /// Choose the number of a new user among those of the system.
    #[serde(default)]
    system: bool,
    /// Whether its password is locked. Keys still work. A user who gets a first password by `password_hash` is not locked without it.
    locked: Option<bool>,
    /// The hash of its password, as `/etc/shadow` holds it: yescrypt (`$y$`), SHA-512 (`$6$`), SHA-256 (`$5$`) or bcrypt (`$2b$`).
    /// `openssl passwd -6` and `mkpasswd` make one. It is a secret: give it by a sensitive input or from a vault. No plan, record, output or list of
    /// processes holds it; of another hash they say that it is hidden. A rollback gives back the hash that the user had.
    password_hash: Option<String>,
    /// The day from which the user cannot log in any more, neither by password nor by key: `2027-01-31`; or `never`.
    expires: Option<String>,
    /// Whether the user is there.
    #[serde(default)]
    state: Presence,
}

impl User {
    fn makes_home(&self) -> bool {
        self.state == Presence::Present && self.create_home.unwrap_or(!self.system)
    }

    fn usual_home(&self) -> String {
        self.home.clone().unwrap_or_else(|| format!("/home/{}", self.name))
    }

    fn fresh(&self) -> UserState {
        let shell = if self.system { "/usr/sbin/nologin" } else { "/bin/sh" };
        UserState::User {
            uid: None,
            group: self.name.clone(),
            gecos: String::new(),
            home: self.usual_home(),
            shell: shell.to_owned(),
            locked: true,
            password: None,
            expires: None,
            groups: BTreeSet::new(),
        }
    }

    fn hash(&self) -> Option<Content> {
        self.password_hash.as_ref().map(|hash| Content::new(hash.as_bytes()))
    }

    /// Whether the user is locked and the digest of the hash of its password, after the resource. A user of whom no run has set the password
    /// shows none: the host is asked, and is to compare the answer before it changes the password.
    fn login(&self, view: &dyn View, new: bool, now: (bool, Option<Digest>)) -> Result<UserLogin, Stop> {
        let (locked, digest) = now;
        let Some(hash) = self.hash() else {
            // Where no run has set the password, the host alone knows whether there is one to unlock.
            if self.locked == Some(false)
                && locked
                && digest.is_none()
                && view.run(&hash_probe(&self.name))?.stdout.trim() == NO_HASH
            {
                return Err(Stop::invalid_help(
                    "/locked",
                    format!("{} has no password, so it stays locked", self.name),
                    "give it a `password_hash`, or leave `locked` out; keys still work",
                ));
            }
            return Ok(UserLogin { locked: self.locked.unwrap_or(locked), password: digest, asked: None });
        };
        let (there, asked) = match &digest {
            Some(digest) => (digest.to_string(), None),
            None if new => (NO_HASH.to_owned(), None),
            None => {
                let answer = view.run(&hash_probe(&self.name))?.stdout.trim().to_owned();
                (answer.clone(), Some(answer))
            }
        };
        let locked = self.locked.unwrap_or(there != NO_HASH && locked);
        Ok(if there == hash.digest().as_str() {
            UserLogin { locked, password: digest, asked: None }
        } else {
            UserLogin { locked, password: Some(hash.digest().clone()), asked }
        })
    }

    /// The user's own group, when it is the primary one.
    fn own_group(&self, view: &dyn View, primary: &str) -> Result<Vec<(ObjectId, State)>, Stop> {
        if self.group.is_some() || primary != self.name {
            return Ok(Vec::new());
        }
        let to = match group(view, &self.name)? {
            GroupState::Absent => GroupState::Group { gid: None },
            there => there,
        };
        Ok(vec![(group_id(&self.name), to.into())])
    }

    /// The home directory, if the resource creates it.
    fn home(&self, view: &dyn View, home: &str, primary: &str) -> Result<Vec<(ObjectId, State)>, Stop> {
        if !self.makes_home() || home != self.usual_home() {
            return Ok(Vec::new());
        }
        let to = match path(view, home)? {
            PathState::Absent => {
                need_parent(view, "/home", home)?;
                PathState::Dir { mode: 0o700, owner: self.name.clone(), group: primary.to_owned() }
            }
            there => there,
        };
        Ok(vec![(path_id(home), to.into())])
    }
}

/// The part of a user's state that says how one logs in.
struct UserLogin {
    locked: bool,
    password: Option<Digest>,
    /// The digest that the host must still find, if its state does not say it.
    asked: Option<String>,
}

/// The answer of a host where a user has no password.
const NO_HASH: &str = "-";

/// The read-only question for the digest of the hash of a user's password.
fn hash_probe(name: &str) -> Probe {
    Probe::run(format!("cv_user_digest {}; printf '%s\\n' \"${{CV_HASHED:-{NO_HASH}}}\"", quote(name)))
}

/// Whether a text is a hash of one of the methods whose salts make its digest tell nothing.
fn is_hash(text: &str) -> bool {
    let method = ["$y$", "$gy$", "$7$", "$6$", "$5$", "$2b$", "$2y$"].iter().find(|m| text.starts_with(**m));
    let sign = |b: u8| b.is_ascii_alphanumeric() || b"./$=,-".contains(&b);
    method.is_some() && text.bytes().all(sign) && text.matches('$').count() >= 3
}

impl Resource for User {
    const KIND: &'static str = "user";
    const EXAMPLE: &'static str = "\
- name: the operator
  user: {name: ops, uid: 4100, groups: [adm, sudo], append: true, shell: /bin/bash}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_account("/name", &self.name, &mut errors);
        if let Some(group) = &self.group {
            check_account("/group", group, &mut errors);
        }
        for (i, group) in self.groups.iter().flatten().enumerate() {
            check_account(&format!("/groups/{i}"), group, &mut errors);
        }
        if let Some(home) = &self.home {
            check_path("/home", home, &mut errors);
        }
        if let Some(shell) = &self.shell {
            check_path("/shell", shell, &mut errors);
        }
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        for (pointer, text) in [("/comment", &self.comment), ("/home", &self.home), ("/shell", &self.shell)] {
            if text.as_ref().is_some_and(|t| t.contains([':', '\n'])) {
                wrong(
                    pointer,
                    "a colon or a line break stands in it",
                    "take it out: /etc/passwd cannot hold it",
                );
            }
        }
        if self.password_hash.as_ref().is_some_and(|hash| !is_hash(hash)) {
            errors.push(ParamError::fixed(
                "/password_hash",
                "this is no hash of a password, or one of a weak method",
                "write what `openssl passwd -6` prints, between single quotes",
            ));
        }
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        if self.expires.as_ref().is_some_and(|day| day != "never" && expiry_day(day).is_none()) {
            wrong("/expires", "this is no date", "write a day after 1970-01-01 as YYYY-MM-DD, or `never`");
        }
        if self.append && self.groups.is_none() {
            wrong("/append", "`append` needs `groups`", "name the groups, or leave `append` out");
        }
        if self.state == Presence::Absent && self.name == "root" {
            wrong("/name", "root is a part of every system", "name another user");
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = user_id(&self.name);
        if self.state == Presence::Absent {
            return vec![Claim::shared(id, "presence", "absent")];
        }
        let mut claims = vec![Claim::shared(id.clone(), "presence", "present")];
        let facets = [
            ("uid", self.uid.map(|n| n.to_string())),
            ("group", self.group.clone()),
            ("home", self.home.clone()),
            ("shell", self.shell.clone()),
            ("comment", self.comment.clone()),
            ("locked", self.locked.map(|l| l.to_string())),
            ("password_hash", self.hash().map(|hash| hash.digest().to_string())),
            ("expires", self.expires.clone()),
        ];
        for (facet, value) in facets {
            claims.extend(value.map(|v| Claim::shared(id.clone(), facet, v)));
        }
        if let Some(groups) = &self.groups {
            let mut all = groups.clone();
            all.sort();
            let whole = Claim::shared(id.clone(), "groups", all.join(","));
            claims.push(if self.append { Claim::edit(id, "groups") } else { whole });
        }
        if self.group.is_none() {
            claims.push(Claim::shared(group_id(&self.name), "presence", "present"));
        }
        if self.makes_home() {
            claims.push(Claim::shared(path_id(&self.usual_home()), "presence", "directory"));
        }
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let id = user_id(&self.name);
        let mut asks = Asks::default();
        if let (Presence::Present, Some(uid)) = (self.state, self.uid) {
            // Asked in the same round.
            asks.take(view.run(&account_probe(Account::User, &uid.to_string())))?;
        }
        asks.take(user(view, &self.name))?;
        asks.finish()?;
        let now = user(view, &self.name)?;
        if self.state == Presence::Absent {
            if let (UserState::Absent, Some(wait)) = (&now, view.may_appear(&id)) {
                return Err(Stop::Deferred(wait));
            }
            return Ok(WantedStates::one(id, UserState::Absent));
        }
        let new = now == UserState::Absent;
        let UserState::User { uid, group: primary, gecos, home, shell, locked, password, expires, groups } =
            (if new { self.fresh() } else { now })
        else {
            return Err(Stop::Failed(format!("{id}: no state of a user")));
        };
        if new && self.locked == Some(false) && self.password_hash.is_none() {
            return Err(Stop::invalid_help(
                "/locked",
                format!("{} is new and has no password, so it is locked", self.name),
                "give it a `password_hash`, or leave `locked` out; keys still work",
            ));
        }
        let mut asks = Asks::default();
        if let Some(number) = self.uid.filter(|number| uid != Some(*number)) {
            asks.take(Account::User.check_number(view, "/uid", &self.name, number))?;
        }
        // A group that the user belongs to already needs no look.
        if let Some(wanted) = self.group.as_ref().filter(|g| new || **g != primary) {
            asks.take(account_name(view, Account::Group, "/group", wanted))?;
        }
        for (i, wanted) in self.groups.iter().flatten().enumerate() {
            if !groups.contains(wanted) {
                asks.take(account_name(view, Account::Group, &format!("/groups/{i}"), wanted))?;
            }
        }
        let primary = self.group.clone().unwrap_or(primary);
        let home = self.home.clone().unwrap_or(home);
        let own = asks.take(self.own_group(view, &primary))?;
        let directory = asks.take(self.home(view, &home, &primary))?;
        let login = asks.take(self.login(view, new, (locked, password)))?;
        asks.finish()?;
        if let (Some(to), Some(was)) = (self.uid, uid)
            && to != was
        {
            Account::User.check_owned(view, &self.name, was, Some(&home))?;
        }
        let listed: BTreeSet<String> = self.groups.iter().flatten().cloned().collect();
        let groups = match (&self.groups, self.append) {
            (None, _) => groups,
            (Some(_), false) => listed,
            (Some(_), true) => groups.union(&listed).cloned().collect(),
        };
        let UserLogin { locked, password, asked } =
            login.unwrap_or(UserLogin { locked, password: None, asked: None });
        let to = UserState::User {
            uid: self.uid.or(uid),
            group: primary,
            gecos: self.comment.clone().unwrap_or(gecos),
            home,
            shell: self.shell.clone().unwrap_or(shell),
            locked,
            password,
            expires: self.expires.as_ref().map_or(expires, |day| expiry_day(day)),
            groups,
        };
        let mut targets = own.unwrap_or_default();
        targets.push((id, to.into()));
        targets.extend(directory.unwrap_or_default());
        let mut settings = system_setting(self.system);
        settings.extend(asked.map(|digest| ("CV_USER_HAD".to_owned(), digest)));
        let contents = self.hash().into_iter().collect();
        Ok(WantedStates { targets, contents, settings, ..WantedStates::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    fn line(view: &FakeView) -> String {
        view.line(&user_id("ops"))
    }

    #[test]
    fn a_new_user_with_its_group_and_home() {
        let kind = read::<User>(json!({"name": "ops"}));
        let view = FakeView::new().dir("/home");
        let order: Vec<String> =
            kind.plan(&view).unwrap().targets.iter().map(|(id, _)| id.to_string()).collect();
        assert_eq!(order, ["group:ops", "user:ops", "path:/home/ops"]);
        let after = settle(&kind, view);
        assert_eq!(line(&after), r"user ~ ops \ /home/ops /bin/sh locked");
        assert_eq!(after.line(&group_id("ops")), "group ~");
        assert_eq!(after.line(&path_id("/home/ops")), "dir 700 ops ops");
    }

    #[test]
    fn a_system_user_has_no_home() {
        let kind = read::<User>(
            json!({"name": "ops", "system": true, "uid": 42, "group": "adm", "home": "/var/lib/ops"}),
        );
        let view = FakeView::new().group("adm", 4);
        assert_eq!(kind.plan(&view).unwrap().settings, [("CV_USER_SYSTEM".to_owned(), "yes".to_owned())]);
        let after = settle(&kind, view);
        assert_eq!(line(&after), r"user 42 adm \ /var/lib/ops /usr/sbin/nologin locked");
    }

    #[test]
    fn attributes_that_are_not_declared_are_preserved() {
        let view = FakeView::strict().user("ops", 7).group("ops", 7).dir("/home/ops").group("adm", 4);
        let kind =
            read::<User>(json!({"name": "ops", "shell": "/bin/bash", "groups": ["adm"], "append": true}));
        let after = settle(&kind, view);
        assert_eq!(line(&after), r"user 7 ops \ /home/ops /bin/bash locked adm");
        let whole = read::<User>(json!({"name": "ops", "groups": []}));
        assert_eq!(line(&settle(&whole, after)), r"user 7 ops \ /home/ops /bin/bash locked");
    }

    #[test]
    fn an_unknown_group_is_pointed_at() {
        let kind = read::<User>(json!({"name": "ops", "groups": ["adm", "nix"], "create_home": false}));
        let question = account_probe(Account::Group, "nix");
        let view = FakeView::new().group("adm", 4).complains(&question, 2, "");
        assert!(matches!(kind.plan(&view), Err(Stop::Invalid { pointer, .. }) if pointer == "/groups/1"));
        let Err(Stop::Deferred(_)) = kind.plan(&view.may(group_id("nix"))) else { panic!() };
    }

    #[test]
    fn a_new_number_comes_before_what_is_given_to_the_user() {
        let kind = read::<User>(json!({"name": "ops", "uid": 8}));
        let view = FakeView::new().user("ops", 7).group("ops", 7).dir("/home/ops");
        let given = |path: &str| view.clone().determines(path_id(path), State::from_line("dir 755 ops root"));
        assert!(
            matches!(kind.plan(&given("/srv/x")), Err(Stop::Invalid { pointer, .. }) if pointer == "/uid")
        );
        settle(&kind, given("/home/ops/x"));
    }

    #[test]
    fn an_absent_user() {
        let kind = read::<User>(json!({"name": "ops", "state": "absent"}));
        assert_eq!(line(&settle(&kind, FakeView::new().user("ops", 7))), "absent");
        assert!(matches!(kind.plan(&FakeView::new().may(user_id("ops"))), Err(Stop::Deferred(_))));
    }

    #[test]
    fn a_new_user_cannot_be_unlocked() {
        let kind = read::<User>(json!({"name": "ops", "locked": false}));
        assert!(
            matches!(kind.plan(&FakeView::new()), Err(Stop::Invalid { pointer, .. }) if pointer == "/locked")
        );
    }

    #[test]
    fn a_user_without_a_password_cannot_be_unlocked() {
        let kind = read::<User>(json!({"name": "ops", "locked": false}));
        let host = |found: &str| {
            let view = FakeView::new().user("ops", 7).group("ops", 7).dir("/home/ops");
            view.answer(&hash_probe("ops"), 0, found)
        };
        let Err(Stop::Invalid { pointer, message, help, .. }) = kind.plan(&host("-")).map(|_| ()) else {
            panic!()
        };
        assert_eq!(
            (pointer.as_str(), message.as_str()),
            ("/locked", "ops has no password, so it stays locked")
        );
        assert!(help.unwrap().contains("password_hash"));
        let digest = Content::new(HASH.as_bytes()).digest().to_string();
        assert_eq!(line(&settle(&kind, host(&digest))), r"user 7 ops \ /home/ops /bin/sh unlocked");
    }

    const HASH: &str = "$6$saltsalt$hash";

    #[test]
    fn a_first_password_opens_a_user() {
        let digest = Content::new(HASH.as_bytes()).digest().clone();
        let with = json!({"name": "ops", "password_hash": HASH, "expires": "2027-01-31"});
        let kind = read::<User>(with);
        let after = settle(&kind, FakeView::new().dir("/home"));
        let login = format!(",password={digest},expires=20849");
        assert_eq!(line(&after), format!(r"user ~ ops \ /home/ops /bin/sh unlocked{login}"));
        let locked = read::<User>(json!({"name": "ops", "password_hash": HASH, "locked": true}));
        assert!(line(&settle(&locked, after)).ends_with(&format!(" locked{login}")));
    }

    #[test]
    fn a_password_that_no_run_has_set_is_asked_for() {
        let digest = Content::new(HASH.as_bytes()).digest().to_string();
        let kind = read::<User>(json!({"name": "ops", "password_hash": HASH}));
        let host = |found: &str| {
            let view = FakeView::new().user("ops", 7).group("ops", 7).dir("/home/ops");
            settle(&kind, view.answer(&hash_probe("ops"), 0, found))
        };
        assert_eq!(line(&host(&digest)), r"user 7 ops \ /home/ops /bin/sh locked", "it has the password");
        let other = Content::new("other".as_bytes()).digest().to_string();
        assert!(
            line(&host(&other)).ends_with(&format!(" locked,password={digest}")),
            "an admin has locked it"
        );
        assert!(line(&host("-")).ends_with(&format!(" unlocked,password={digest}")), "it has never had one");
    }

    #[test]
    fn a_wrong_hash_is_not_repeated() {
        for bad in ["hunter2", "$1$x$hunter2", "$6$x", "$6$a$b:c", "$6$a$b c"] {
            let kind: User = serde_json::from_value(json!({"name": "ops", "password_hash": bad})).unwrap();
            let errors = kind.validate();
            assert_eq!(errors.len(), 1, "{bad}");
            assert!(errors[0].holds_no_value && !errors[0].message.contains("hunter2"));
        }
        assert_eq!(wrong::<User>(json!({"name": "ops", "expires": "soon"})), ["/expires"]);
    }

    #[test]
    fn wrong_parameters_are_named() {
        let bad = json!({"name": "a b", "home": "x", "comment": "a:b", "append": true});
        assert_eq!(wrong::<User>(bad), ["/name", "/home", "/comment", "/append"]);
        assert_eq!(wrong::<User>(json!({"name": "root", "state": "absent"})), ["/name"]);
    }
}
