//! Whether others than the user may write a settings file, as git's `safe.directory` and ssh's `StrictModes` ask.

use camino::{Utf8Path, Utf8PathBuf};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Owner and permissions of a file or a folder.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl From<&Metadata> for Owner {
    fn from(of: &Metadata) -> Self {
        Self { uid: of.uid(), gid: of.gid(), mode: of.mode() }
    }
}

/// The user who runs converge.
#[derive(Clone, Debug)]
pub struct RunningUser {
    uid: u32,
    /// The user who called sudo.
    caller: Option<u32>,
    /// The groups that have the user as their only member.
    private_groups: Vec<u32>,
}

impl RunningUser {
    /// The user of this process.
    pub fn current() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let caller = std::env::var("SUDO_UID").ok().and_then(|text| text.parse().ok());
        let read = |path: &str| fs_err::read_to_string(path).unwrap_or_default();
        Self {
            uid,
            // Whoever is not root has no use for the word of a variable.
            caller: caller.filter(|_| uid == 0),
            private_groups: private_groups(&read("/etc/passwd"), &read("/etc/group"), uid),
        }
    }
}

/// The primary group of a user, where nobody else is in it: with it a umask of 002 lets nobody else in.
fn private_groups(passwd: &str, group: &str, uid: u32) -> Vec<u32> {
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let users: Vec<Vec<String>> = passwd.lines().map(fields).collect();
    let field = |line: &[String], at: usize| line.get(at).cloned().unwrap_or_default();
    let Some(me) = users.iter().find(|user| field(user, 2) == uid.to_string()) else { return Vec::new() };
    let (name, gid) = (field(me, 0), field(me, 3));
    let shared = users.iter().any(|user| field(user, 3) == gid && field(user, 2) != uid.to_string());
    let entry = group.lines().map(fields).find(|group| field(group, 2) == gid);
    let alone = entry
        .is_some_and(|group| field(&group, 3).split(',').all(|member| member.is_empty() || member == name));
    if shared || !alone { Vec::new() } else { gid.parse().into_iter().collect() }
}

/// A reason not to trust a path, and its correction.
#[derive(Debug, PartialEq, Eq)]
pub struct Distrust {
    /// The reason.
    pub why: String,
    /// The command that corrects it.
    pub fix: String,
}

/// Whether somebody else may change the content of this path.
pub fn distrust(path: &Utf8Path, owner: Owner, user: &RunningUser) -> Option<Distrust> {
    let path = converge_resource::quote(path.as_str());
    let known = [Some(0), Some(user.uid), user.caller].contains(&Some(owner.uid));
    if !known {
        return Some(Distrust {
            why: format!("{path} belongs to another user (uid {})", owner.uid),
            fix: format!("chown {} {path}", user.uid),
        });
    }
    if owner.mode & 0o002 != 0 {
        let why = format!("every user of this machine may write {path}");
        return Some(Distrust { why, fix: format!("chmod o-w {path}") });
    }
    if owner.mode & 0o020 != 0 && !user.private_groups.contains(&owner.gid) {
        let why = format!("the group of {path} (gid {}) may write it", owner.gid);
        return Some(Distrust { why, fix: format!("chmod g-w {path}") });
    }
    None
}

/// The first reason not to trust an opened settings file: itself, the folder in which it was found, and that in which it lies where it is a link.
pub fn of_file(path: &Utf8Path, opened: &Metadata) -> Option<Distrust> {
    let user = RunningUser::current();
    let folder_of = |path: &Utf8Path| match path.parent() {
        Some(folder) if !folder.as_str().is_empty() => folder.to_owned(),
        _ => Utf8PathBuf::from("."),
    };
    let real = path.canonicalize_utf8().unwrap_or_else(|_| path.to_owned());
    let folders = [folder_of(path), folder_of(&real)];
    distrust(&real, Owner::from(opened), &user).or_else(|| {
        folders.iter().find_map(|folder| {
            let named = folder.canonicalize_utf8().unwrap_or_else(|_| folder.clone());
            match fs_err::metadata(folder) {
                Ok(found) => distrust(&named, Owner::from(&found), &user),
                Err(error) => {
                    Some(Distrust { why: error.to_string(), fix: "make the folder readable".to_owned() })
                }
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u32 = 1000;

    fn me() -> RunningUser {
        RunningUser { uid: ME, caller: None, private_groups: vec![ME] }
    }

    fn why(uid: u32, gid: u32, mode: u32, user: &RunningUser) -> Option<String> {
        distrust("/p".into(), Owner { uid, gid, mode }, user).map(|found| found.why)
    }

    #[test]
    fn only_the_user_and_root_may_write() {
        for (uid, gid, mode) in
            [(ME, ME, 0o100_644), (0, 0, 0o100_644), (ME, ME, 0o40_775), (ME, 5, 0o40_755)]
        {
            assert_eq!(why(uid, gid, mode, &me()), None, "{uid} {gid} {mode:o}");
        }
        for (uid, gid, mode, word) in [
            (1001, 1001, 0o100_600, "another user (uid 1001)"),
            (ME, ME, 0o100_666, "every user"),
            // A sticky folder keeps others from removing files, not from adding what the settings name.
            (0, 0, 0o41_777, "every user"),
            (ME, 50, 0o100_664, "the group of /p (gid 50)"),
            (0, 0, 0o40_775, "the group of /p (gid 0)"),
        ] {
            let why = why(uid, gid, mode, &me()).unwrap_or_default();
            assert!(why.contains(word), "{uid} {gid} {mode:o}: {why}");
        }
    }

    #[test]
    fn root_trusts_the_caller_of_sudo_and_no_other_user() {
        let root = |caller| RunningUser { uid: 0, caller, private_groups: vec![0] };
        assert_eq!(why(ME, ME, 0o100_644, &root(Some(ME))), None);
        assert!(why(ME, ME, 0o100_644, &root(None)).is_some());
        assert!(why(1001, ME, 0o100_644, &root(Some(ME))).is_some());
    }

    #[test]
    fn a_group_is_private_without_other_members() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n";
        assert_eq!(private_groups(passwd, "root:x:0:\nme:x:1000:\n", ME), [ME]);
        assert_eq!(private_groups(passwd, "me:x:1000:me\n", ME), [ME]);
        assert!(private_groups(passwd, "me:x:1000:me,you\n", ME).is_empty());
        assert!(private_groups(passwd, "", ME).is_empty(), "a group of another database");
        let shared = format!("{passwd}you:x:1001:1000::/:/bin/sh\n");
        assert!(private_groups(&shared, "me:x:1000:\n", ME).is_empty());
        assert!(private_groups(passwd, "me:x:1000:\n", 7).is_empty());
    }
}
