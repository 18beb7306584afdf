//! The one rule for files of this machine that decide something: whether others than the user may write them, as git's `safe.directory` and ssh's
//! `StrictModes` ask. Who asks, and about what:
//!
//! * settings: the file, its folder and what that folder really is ([`of_file`]);
//! * the key of saved plans: its folder; the file is the user's alone besides;
//! * the programs and files of a kubeconfig: they and every folder above them;
//! * the project: only whether everybody may write a file or its folder. A project may belong to a group.

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
        // Nobody writes a link: the directory that holds it decides.
        let mode = if of.is_symlink() { 0 } else { of.mode() };
        Self { uid: of.uid(), gid: of.gid(), mode }
    }
}

impl Owner {
    /// Whether every user of this machine may write it.
    pub fn is_open_to_all(self) -> bool {
        self.mode & 0o002 != 0
    }

    /// Whether it is a folder in which only their owners exchange files.
    fn is_sticky(self) -> bool {
        self.mode & 0o1000 != 0
    }
}

/// The user who runs converge.
#[derive(Clone, Debug)]
pub struct RunningUser {
    uid: u32,
    /// The user who called sudo.
    caller: Option<u32>,
    /// The groups of this user, the caller and root in which there is nobody else.
    own_groups: Vec<u32>,
    /// The groups in which there is nobody.
    empty_groups: Vec<u32>,
}

impl RunningUser {
    /// The user of this process.
    pub fn current() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let caller = std::env::var("SUDO_UID").ok().and_then(|text| text.parse().ok());
        // Whoever is not root has no use for the word of a variable.
        Self::of(uid, caller.filter(|_| uid == 0))
    }

    /// This user, whom the caller has made root, if there is one.
    pub fn of(uid: u32, caller: Option<u32>) -> Self {
        let read = |path: &str| fs_err::read_to_string(path).unwrap_or_default();
        let PrivateGroups { own, empty } =
            groups(&read("/etc/passwd"), &read("/etc/group"), &known(uid, caller));
        Self { uid, caller, own_groups: own, empty_groups: empty }
    }

    fn knows(&self, uid: u32) -> bool {
        known(self.uid, self.caller).contains(&uid)
    }
}

/// The users who may write what decides something: root, the user, and who called sudo.
fn known(uid: u32, caller: Option<u32>) -> Vec<u32> {
    [Some(0), Some(uid), caller].into_iter().flatten().collect()
}

/// Groups of this machine that let nobody else in, by number.
#[derive(Debug, Default, PartialEq, Eq)]
struct PrivateGroups {
    /// The primary groups of some users, with no other member: with these a umask of 002 lets nobody else in.
    own: Vec<u32>,
    /// Those without any member, as `staff` is that may write `/usr/local` of a Debian. A program that takes on such a group may write what it may.
    empty: Vec<u32>,
}

/// The groups in which there is nobody but these users.
fn groups(passwd: &str, group: &str, known: &[u32]) -> PrivateGroups {
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let field = |line: &[String], at: usize| line.get(at).cloned().unwrap_or_default();
    let users: Vec<Vec<String>> = passwd.lines().map(fields).collect();
    let is_known = |user: &&Vec<String>| field(user, 2).parse().is_ok_and(|uid| known.contains(&uid));
    let mut groups = PrivateGroups::default();
    for entry in group.lines().map(fields) {
        let Ok(gid) = field(&entry, 2).parse() else { continue };
        let primary: Vec<&Vec<String>> =
            users.iter().filter(|user| field(user, 3) == field(&entry, 2)).collect();
        let names = field(&entry, 3);
        let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
        let is_own = |name: &&str| users.iter().filter(is_known).any(|user| field(user, 0) == **name);
        if primary.is_empty() && names.is_empty() {
            groups.empty.push(gid);
        } else if !primary.is_empty() && primary.iter().all(is_known) && names.iter().all(is_own) {
            groups.own.push(gid);
        }
    }
    groups
}

/// A reason not to trust a path, and its correction.
#[derive(Debug, PartialEq, Eq)]
pub struct Distrust {
    /// The reason.
    pub why: String,
    /// The command that corrects it.
    pub fix: String,
}

/// Somebody else who may write a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherWriter {
    /// Its owner, by number.
    Owner(u32),
    /// Every user of this machine.
    Everyone,
    /// Its group, by number.
    Group(u32),
}

/// Whoever else may change the content of a file, or what lies in a folder.
pub fn other_writer(owner: Owner, user: &RunningUser) -> Option<OtherWriter> {
    if !user.knows(owner.uid) {
        return Some(OtherWriter::Owner(owner.uid));
    }
    if owner.is_open_to_all() {
        return Some(OtherWriter::Everyone);
    }
    let is_shared = owner.mode & 0o020 != 0 && !user.own_groups.contains(&owner.gid);
    is_shared.then_some(OtherWriter::Group(owner.gid))
}

/// Whoever else may put something in the place of a file that is there, of a folder above it. A group without members is nobody there.
pub fn other_exchanger(folder: Owner, user: &RunningUser) -> Option<OtherWriter> {
    other_writer(folder, user).filter(|who| match who {
        OtherWriter::Owner(_) => true,
        OtherWriter::Everyone => !folder.is_sticky(),
        OtherWriter::Group(gid) => !folder.is_sticky() && !user.empty_groups.contains(gid),
    })
}

/// Whether somebody else may change the content of this path.
pub fn distrust(path: &Utf8Path, owner: Owner, user: &RunningUser) -> Option<Distrust> {
    let path = converge_resource::quote(path.as_str());
    Some(match other_writer(owner, user)? {
        OtherWriter::Owner(uid) => Distrust {
            why: format!("{path} belongs to another user (uid {uid})"),
            fix: format!("chown {} {path}", user.uid),
        },
        OtherWriter::Everyone => Distrust {
            why: format!("every user of this machine may write {path}"),
            fix: format!("chmod o-w {path}"),
        },
        OtherWriter::Group(gid) => Distrust {
            why: format!("the group of {path} (gid {gid}) may write it"),
            fix: format!("chmod g-w {path}"),
        },
    })
}

/// The first reason not to trust an opened file: itself, the folder in which it was found, and that in which it lies where it is a link.
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
        RunningUser { uid: ME, caller: None, own_groups: vec![ME], empty_groups: vec![60] }
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
        let root = |caller| RunningUser { uid: 0, caller, own_groups: vec![0], empty_groups: Vec::new() };
        assert_eq!(why(ME, ME, 0o100_644, &root(Some(ME))), None);
        assert!(why(ME, ME, 0o100_644, &root(None)).is_some());
        assert!(why(1001, ME, 0o100_644, &root(Some(ME))).is_some());
    }

    #[test]
    fn a_group_is_the_users_own_without_other_members() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n";
        let own = |passwd: &str, group: &str| groups(passwd, group, &[0, ME]).own;
        assert_eq!(own(passwd, "root:x:0:\nme:x:1000:\n"), [0, ME]);
        assert_eq!(own(passwd, "me:x:1000:me,root\n"), [ME]);
        let empty = groups(passwd, "staff:x:50:\nme:x:1000:\n", &[0, ME]);
        assert_eq!(empty, PrivateGroups { own: vec![ME], empty: vec![50] });
        assert!(own(passwd, "me:x:1000:me,you\n").is_empty());
        assert!(own(passwd, "staff:x:50:you\n").is_empty());
        assert!(own(passwd, "").is_empty(), "a group of another database");
        let shared = format!("{passwd}you:x:1001:1000::/:/bin/sh\n");
        assert!(own(&shared, "me:x:1000:\n").is_empty());
        assert!(groups(passwd, "me:x:1000:\n", &[0, 7]).own.is_empty());
    }

    #[test]
    fn in_a_sticky_folder_only_owners_exchange_files() {
        let who = |uid, mode| other_exchanger(Owner { uid, gid: 50, mode }, &me());
        for (uid, mode) in [(0, 0o41_777), (ME, 0o41_775), (0, 0o40_755)] {
            assert_eq!(who(uid, mode), None, "{uid} {mode:o}");
        }
        assert_eq!(who(1001, 0o41_777), Some(OtherWriter::Owner(1001)));
        assert_eq!(who(0, 0o40_777), Some(OtherWriter::Everyone));
        assert_eq!(who(ME, 0o40_775), Some(OtherWriter::Group(50)));
        // An empty group is nobody in a folder above, and may be a program's elsewhere.
        let folder = Owner { uid: 0, gid: 60, mode: 0o40_775 };
        assert_eq!(other_exchanger(folder, &me()), None);
        assert_eq!(other_writer(folder, &me()), Some(OtherWriter::Group(60)));
    }
}
