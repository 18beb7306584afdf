//! Owners, modes, ACLs, marks and other attributes.

use super::*;

#[test]
fn the_setgid_bit_of_a_directory_goes_when_it_is_not_wanted() {
    each(|shell, root, dir| {
        let (owner, group) = who(dir);
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o2755)).unwrap();
        shell.good(root, "cv_mkdir_path \"$1\" 0 \"$2\" \"$3\"", &[key(&dir.join("d")), &owner, &group], b"");
        assert_eq!(
            std::fs::metadata(dir.join("d")).unwrap().permissions().mode() & 0o7777,
            0,
            "{}",
            shell.name
        );
    });
}

#[test]
fn only_owner_and_mode_change_without_content() {
    let file = |mode, owner: &str| PathState::File {
        digest: Digest::of(b"x"),
        size: Some(1),
        mode,
        owner: owner.to_owned(),
        group: "root".to_owned(),
    };
    let steps = Path::steps(&[("/etc/it's", file(0o600, "root"), file(0o644, "bob"))]);
    let digest = Digest::of(b"x");
    assert_eq!(steps[0].script, format!("cv_own_path '/etc/it'\\''s' 644 bob root {digest}"));
    assert_eq!(steps[0].stdin, None);
    let shown = Path::attributes(&file(0o600, "root"), &file(0o644, "bob"));
    assert_eq!(shown.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["mode", "owner"]);
}

#[test]
fn owner_and_mode_of_a_file_that_is_too_large_to_be_saved_come_back() {
    let large = |digest: &[u8], mode| PathState::File {
        digest: Digest::of(digest),
        size: Some(SAVE_LIMIT + 1),
        mode,
        owner: "root".to_owned(),
        group: "root".to_owned(),
    };
    let way = |to: &PathState| Path::reversibility("/f", &large(b"x", 0o600), to);
    assert_eq!(way(&large(b"x", 0o644)), Reversibility::Reversible);
    assert!(matches!(way(&large(b"y", 0o600)), Reversibility::Irreversible(_)));
    assert!(matches!(way(&PathState::Absent), Reversibility::Irreversible(_)));
    each(|shell, root, dir| {
        let file = dir.join("f");
        std::fs::write(&file, "four").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let before = State::from(state_of(&file));
        let after = before.line().replacen("600", "644", 1);
        let args = [key(&file), before.line(), &after];
        let save = "CV_SAVE_LIMIT=3 CV_AFTER=$3; cv_save_path \"$1\" \"$2\"";
        shell.good(root, save, &args, b"");
        assert!(!root.join("blobs").join(Digest::of(b"four").to_string()).exists(), "{}", shell.name);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        shell.good(root, "cv_restore_path \"$1\" \"$2\"", &args, b"");
        assert_eq!(
            (State::from(state_of(&file)), std::fs::read(&file).unwrap()),
            (before.clone(), b"four".to_vec())
        );
        // Another content cannot be had.
        std::fs::write(&file, "five").unwrap();
        assert!(!shell.run(root, "cv_restore_path \"$1\" \"$2\"", &args, b"").status.success());
        assert_eq!(std::fs::read(&file).unwrap(), b"five", "{}", shell.name);
    });
}

#[test]
fn a_mark_under_which_nobody_may_change_a_file_is_named_with_its_remedy() {
    each(|shell, root, dir| {
        let file = dir.join("f");
        std::fs::write(&file, "old").unwrap();
        let mark = |how: &str, path: &FsPath| {
            let done = std::process::Command::new("chattr").arg(how).arg("--").arg(path).status();
            assert!(done.is_ok_and(|s| s.success()), "chattr {how} {}", path.display());
        };
        let (owner, group) = who(&file);
        let digest = Digest::of(b"old");
        for (marked, how, word) in [
            (file.as_path(), "+i", "immutable"),
            (dir, "+i", "immutable"),
            (file.as_path(), "+a", "append-only"),
        ] {
            mark(how, marked);
            let put = format!("cv_put_path \"$1\" 600 {owner} {group}");
            let own = format!("cv_own_path \"$1\" 640 {owner} {group} {digest}");
            let scripts = [put.as_str(), "cv_remove_path \"$1\"", "cv_link_path \"$1\" /x", own.as_str()];
            let reply = scripts.map(|script| shell.run(root, script, &[key(&file)], b"new"));
            mark(&how.replace('+', "-"), marked);
            for (script, reply) in scripts.iter().zip(reply) {
                // In a marked directory the mode of a file may be changed.
                if script.starts_with("cv_own_path") && marked == dir {
                    continue;
                }
                let text = String::from_utf8_lossy(&reply.stderr).into_owned();
                if shell.name == "busybox" {
                    // It has no lsattr.
                    assert!(!reply.status.success(), "{script}");
                    continue;
                }
                let remedy = format!("chattr {} -- '{}'", how.replace('+', "-"), marked.display());
                assert!(!reply.status.success(), "{}: {script} in {word}", shell.name);
                assert!(text.contains(word) && text.contains(&remedy), "{}: {script}: {text}", shell.name);
            }
            assert_eq!(std::fs::read(&file).unwrap(), b"old", "{}", shell.name);
        }
    });
}

/// `user::rw- user:1:r-- group::--- mask::r-- other::---`, as the kernel keeps it: an edit must neither drop it nor turn its mask into a right of the
/// group.
const ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\x01\0\0\0\x04\0\0\0\xff\xff\xff\xff\
\x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";

fn attribute(path: &FsPath, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let size = rustix::fs::getxattr(path, name, value.as_mut_slice()).ok()?;
    value.truncate(size);
    Some(value)
}

#[test]
fn a_file_keeps_its_acl_and_attributes_and_a_rollback_gives_them_back() {
    each(|shell, root, dir| {
        let file = dir.join("f");
        std::fs::write(&file, "old").unwrap();
        let set = |name, value: &[u8]| {
            rustix::fs::setxattr(&file, name, value, rustix::fs::XattrFlags::empty()).unwrap();
        };
        set("user.note", b"kept");
        set("system.posix_acl_access", ACL);
        let capability = b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        set("security.capability", capability);
        // An ACL for new files of the directory is not the ACL of the directory.
        let given: Vec<u8> = ACL.iter().enumerate().map(|(n, b)| if n == 16 { 2 } else { *b }).collect();
        rustix::fs::setxattr(dir, "system.posix_acl_default", &given, rustix::fs::XattrFlags::empty())
            .unwrap();
        let (owner, group) = who(&file);
        let put = format!("cv_put_path \"$1\" 640 {owner} {group}");
        shell.good(root, &put, &[key(&file)], b"new");
        if shell.name == "busybox" {
            // Its cp carries nothing over; the file is written nevertheless.
            assert_eq!(std::fs::read(&file).unwrap(), b"new");
            return;
        }
        let as_before = || {
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640);
            assert_eq!(attribute(&file, "system.posix_acl_access").as_deref(), Some(ACL), "{}", shell.name);
            assert_eq!(attribute(&file, "user.note").as_deref(), Some(b"kept".as_slice()), "{}", shell.name);
            assert_eq!(attribute(&file, "security.capability").as_deref(), Some(capability.as_slice()));
        };
        as_before();
        // A change of owner and group removes a file's capabilities, unless they are set again.
        let digest = Digest::of(b"new");
        for group in ["daemon", &group] {
            shell.good(root, &format!("cv_own_path \"$1\" 640 {owner} {group} {digest}"), &[key(&file)], b"");
            assert_eq!(who(&file), (owner.clone(), group.to_owned()));
            as_before();
        }
        let line = State::from(state_of(&file));
        let save = "CV_SAVED=$CV_ROOT/runs/one/saved CV_AFTER=absent; cv_save_path \"$1\" \"$2\" && cv_remove_path \"$1\"";
        shell.good(root, save, &[key(&file), line.line()], b"");
        assert!(!file.exists());
        shell.good(root, "CV_FROM_RUN=one; cv_restore_path \"$1\" \"$2\"", &[key(&file), line.line()], b"");
        as_before();
    });
}

#[test]
fn files_keep_the_number_of_an_account_that_gets_another_one() {
    let state = |line: &str| State::from_line(line);
    let change = |kind: &str, from: &str, to: &str| Change {
        object: ObjectId::new(kind, "u"),
        from: state(from),
        to: state(to),
    };
    let user = |uid: &str, group: &str| format!("user {uid} {group} \\ /home/u /bin/sh locked");
    let renumbered = change("user", &user("7", "u"), &user("8", "u"));
    let regrouped = change("user", &user("7", "u"), &user("7", "crew"));
    let gone = change("user", &user("7", "u"), "absent");
    let group = change("group", "group 7", "group 8");
    for (path, change, after) in [
        ("/srv/x", &renumbered, Some("dir 755 7 u")),
        ("/home/u", &renumbered, Some("dir 755 u u")),
        ("/home/u/x", &renumbered, Some("dir 755 u u")),
        ("/home/us", &renumbered, Some("dir 755 7 u")),
        ("/home/u/x", &regrouped, Some("dir 755 u crew")),
        ("/srv/x", &regrouped, Some("dir 755 u u")),
        ("/home/u/x", &gone, Some("dir 755 7 u")),
        ("/home/u/x", &group, Some("dir 755 u 7")),
    ] {
        let observed = PathState::try_from(state("dir 755 u u")).unwrap();
        let line = Path::follows(path, &observed, change).map(|state| State::from(state).line().to_owned());
        assert_eq!(line.as_deref(), after, "{path} {change:?}");
    }
    let other = PathState::try_from(state("dir 755 root root")).unwrap();
    assert_eq!(Path::follows("/srv/x", &other, &renumbered), None);
    // An account that comes, or gets the number, gives its name to the files that have it.
    for (observed, change, after) in [
        ("dir 755 7 7", change("user", "absent", &user("7", "u")), Some("dir 755 u 7")),
        ("dir 755 7 7", change("group", "absent", "group 7"), Some("dir 755 7 u")),
        ("dir 755 8 u", change("user", &user("7", "u"), &user("8", "u")), Some("dir 755 u u")),
        ("dir 755 8 8", change("group", "group 7", "group 8"), Some("dir 755 8 u")),
        ("dir 755 8 8", change("group", "absent", "group 7"), None),
        ("dir 755 8 8", change("user", "absent", &user("~", "u")), None),
    ] {
        let of = PathState::try_from(state(observed)).unwrap();
        let line = Path::follows("/srv/x", &of, &change).map(|state| State::from(state).line().to_owned());
        assert_eq!(line.as_deref(), after, "{observed} {change:?}");
    }
    let come = |line: &str| UserState::try_from(state(line)).unwrap();
    assert!(crate::user::User::is_followed(&UserState::Absent, &come(&user("7", "u"))));
    assert!(!crate::user::User::is_followed(&UserState::Absent, &come(&user("~", "u"))));
    assert!(crate::user::User::is_followed(
        &UserState::try_from(renumbered.from.clone()).unwrap(),
        &UserState::try_from(renumbered.to.clone()).unwrap()
    ));
}
