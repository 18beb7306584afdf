mod attributes;
mod round_trip;

use super::*;
use crate::testing::{TestShell, shells};
use proptest::prelude::*;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path as FsPath;

fn who(path: &FsPath) -> (String, String) {
    // The names as `stat` prints them: by another tool than the one under test.
    let ask = |flag: &str, id: u32| {
        let out = std::process::Command::new("getent").args([flag, &id.to_string()]).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        text.split(':').next().filter(|n| !n.is_empty()).map_or_else(|| id.to_string(), str::to_owned)
    };
    let meta = std::fs::symlink_metadata(path).unwrap();
    (ask("passwd", meta.uid()), ask("group", meta.gid()))
}

/// The state as Rust sees it, to be compared with the host's line.
fn state_of(path: &FsPath) -> PathState {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return PathState::Absent };
    let (owner, group) = who(path);
    let mode = meta.permissions().mode() & 0o7777;
    if meta.is_symlink() {
        let target = std::fs::read_link(path).unwrap().to_string_lossy().into_owned();
        PathState::Link { target, owner, group }
    } else if meta.is_dir() {
        PathState::Dir { mode, owner, group }
    } else {
        let bytes = std::fs::read(path).unwrap();
        PathState::File { digest: Digest::of(&bytes), size: Some(bytes.len() as u64), mode, owner, group }
    }
}

fn each(test: impl Fn(&TestShell, &FsPath, &FsPath)) {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // Others may write to /tmp: there every path is walked.
        test(&shell, root.path(), dir.path());
        if matches!(shell.name, "sh" | "busybox") {
            let (root, dir) = (tempfile::tempdir().unwrap(), crate::testing::safe_tempdir());
            test(&shell, root.path(), dir.path());
        }
    }
}

fn key(path: &FsPath) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_hosts_line_is_the_controllers_line_whatever_the_name() {
    each(|shell, root, dir| {
        let names = [
            "plain",
            "with space",
            "it's",
            "dou\"ble",
            "a$b`c`",
            "ünïcode ☃",
            "-dash",
            "back\\slash",
            "a:b:/c",
            "*",
        ];
        let mut keys = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let path = dir.join(name.replace('/', "_"));
            std::fs::write(&path, vec![b'x'; i]).unwrap();
            keys.push(path);
        }
        std::fs::set_permissions(&keys[0], std::fs::Permissions::from_mode(0o4751)).unwrap();
        for (name, target) in [("l1", "gone"), ("l2", "with space\nand line"), ("l3", "/")] {
            symlink(target, dir.join(name)).unwrap();
            keys.push(dir.join(name));
        }
        std::fs::create_dir(dir.join("sub dir")).unwrap();
        keys.push(dir.join("sub dir"));
        keys.extend([dir.join("nothing"), dir.join("plain/below a file"), dir.join("no/such/dir")]);
        let args: Vec<&str> = keys.iter().map(|p| key(p)).collect();
        let found = crate::testing::parse::<Path>(&args, &shell.good(root, "cv_see_path \"$@\"", &args, b""));
        for path in &keys {
            let observed = found[key(path)].clone().unwrap();
            assert_eq!(observed.state, State::from(state_of(path)), "{}: {path:?}", shell.name);
            assert_eq!(shell.see::<Path>(root, key(path)), observed, "{}", shell.name);
            let mtime = std::fs::symlink_metadata(path).ok().map(|m| m.mtime());
            assert_eq!(observed.moment, mtime, "{}: {path:?}", shell.name);
        }
    });
}

#[test]
fn hundreds_of_paths_travel_as_one_question() {
    each(|shell, root, dir| {
        let keys: Vec<String> =
            (0..450).map(|i| format!("{}/{}{i}", dir.display(), "long-name-".repeat(15))).collect();
        for path in keys.iter().step_by(3) {
            std::fs::write(path, path).unwrap();
        }
        let args: Vec<&str> = keys.iter().map(String::as_str).collect();
        let found = crate::testing::parse::<Path>(&args, &shell.good(root, "cv_see_path \"$@\"", &args, b""));
        for path in &args {
            assert_eq!(found[*path].as_ref().unwrap().state, State::from(state_of(FsPath::new(path))));
        }
    });
}

#[test]
fn a_slash_at_the_end_is_the_directory_itself() {
    each(|shell, root, dir| {
        std::fs::create_dir(dir.join("sub")).unwrap();
        std::fs::write(dir.join("sub/x"), "x").unwrap();
        std::fs::write(dir.join("z"), "z").unwrap();
        let keys = ["gone/", "gone/x", "sub", "sub/", "sub/x", "z"].map(|k| format!("{}/{k}", dir.display()));
        let args: Vec<&str> = keys.iter().map(String::as_str).collect();
        let found = crate::testing::parse::<Path>(&args, &shell.good(root, "cv_see_path \"$@\"", &args, b""));
        for path in &args {
            let observed = found[*path].as_ref().unwrap_or_else(|e| panic!("{}: {path}: {e}", shell.name));
            assert_eq!(observed.state, State::from(state_of(FsPath::new(path))), "{}: {path}", shell.name);
        }
    });
}

#[test]
fn what_cannot_be_read_is_not_taken_for_absent() {
    each(|shell, root, dir| {
        std::fs::write(dir.join("there"), "x").unwrap();
        let long = dir.join("n".repeat(300));
        let round = dir.join("round");
        symlink("round", &round).unwrap();
        let looped = round.join("x");
        let keys = [dir.join("there"), long, dir.join("gone"), looped];
        let args: Vec<&str> = keys.iter().map(|p| key(p)).collect();
        let found = crate::testing::parse::<Path>(&args, &shell.good(root, "cv_see_path \"$@\"", &args, b""));
        assert_eq!(found[args[0]].as_ref().unwrap().state, State::from(state_of(&keys[0])), "{}", shell.name);
        assert!(found[args[1]].as_ref().unwrap_err().0.contains("File name too long"), "{}", shell.name);
        assert!(found[args[2]].as_ref().unwrap().state.is_absent(), "{}", shell.name);
        let reason = &found[args[3]].as_ref().unwrap_err().0;
        let walked = reason.contains("round is a link") && reason.contains("no link is followed there");
        assert!(walked || reason.contains("levels of symbolic links"), "{}: {reason}", shell.name);
    });
}

#[test]
fn a_new_file_is_checked_before_it_replaces_the_old_one() {
    each(|shell, root, dir| {
        let path = dir.join("it's a file");
        std::fs::write(&path, "old").unwrap();
        let put = "cv_put_path \"$1\" 640 \"$2\" \"$3\" \"$4\"";
        let (owner, group) = who(dir);
        let digest = Digest::of(b"new");
        let args = [key(&path), &owner, &group, digest.as_str()];
        let refused = shell.run(root, &format!("CV_VALIDATE='grep -q other %s'; {put}"), &args, b"new");
        assert!(!refused.status.success());
        assert!(String::from_utf8_lossy(&refused.stderr).contains("refused by: grep -q other %s"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        let damaged = shell.run(root, put, &args, b"ne");
        assert!(!damaged.status.success());
        assert!(String::from_utf8_lossy(&damaged.stderr).contains("damaged"), "{}", shell.name);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1, "a temporary file was left behind");
        shell.good(root, &format!("CV_VALIDATE='grep -q new %s && test -f %s'; {put}"), &args, b"new");
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1);
    });
}

#[test]
fn links_are_replaced_and_full_directories_refused() {
    each(|shell, root, dir| {
        let (owner, group) = who(dir);
        let target = dir.join("target");
        std::fs::create_dir(&target).unwrap();
        let link = dir.join("link");
        symlink("target", &link).unwrap();
        let put = "cv_put_path \"$1\" 600 \"$2\" \"$3\"";
        shell.good(root, put, &[key(&link), &owner, &group], b"x");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_file(), "{}", shell.name);
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
        std::fs::write(target.join("inside"), "").unwrap();
        for script in [put, "cv_remove_path \"$1\"", "cv_link_path \"$1\" x"] {
            let refused = shell.run(root, script, &[key(&target), &owner, &group], b"x");
            assert!(!refused.status.success(), "{}: {script}", shell.name);
        }
        let orphan = dir.join("no/dir");
        let refused = shell.run(root, put, &[key(&orphan), &owner, &group], b"x");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("is not there"));
        assert!(target.join("inside").exists());
    });
}

/// A record that does not say the owner of a link is one of a link of root's.
#[test]
fn a_link_comes_back_with_its_owner() {
    let old = PathState::try_from(State::from_line("link /etc/x")).unwrap();
    assert_eq!(old, PathState::link("/etc/x"));
    assert_eq!(State::from(old).line(), "link /etc/x");
    each(|shell, root, dir| {
        let link = dir.join("a link");
        symlink("gone", &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(2), Some(12345)).unwrap();
        let before = shell.see::<Path>(root, key(&link)).state;
        assert_eq!(before.line(), "link gone bin 12345", "{}", shell.name);
        assert_eq!(before, State::from(state_of(&link)));
        for now in ["link /other", "absent", "link gone", "link gone daemon daemon"] {
            shell.good(root, "cv_restore_path \"$1\" \"$2\"", &[key(&link), now], b"");
            assert_eq!(shell.see::<Path>(root, key(&link)).state.line(), now, "{}", shell.name);
            shell.good(root, "cv_restore_path \"$1\" \"$2\"", &[key(&link), before.line()], b"");
            assert_eq!(shell.see::<Path>(root, key(&link)).state, before, "{}: {now}", shell.name);
        }
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 1, "a temporary file was left behind");
    });
}

#[test]
fn a_link_replaces_the_file_that_it_leads_to_and_one_that_leads_to_itself_is_replaced() {
    each(|shell, root, dir| {
        let (owner, group) = who(dir);
        let (path, other) = (dir.join("a"), dir.join("b"));
        std::fs::write(&other, "x").unwrap();
        std::fs::hard_link(&other, &path).unwrap();
        for target in ["b", "a", "b"] {
            shell.good(root, "cv_link_path \"$1\" \"$2\"", &[key(&path), target], b"");
            assert_eq!(std::fs::read_link(&path).unwrap(), std::path::Path::new(target), "{}", shell.name);
        }
        assert_eq!(std::fs::read(&other).unwrap(), b"x");
        let put = "cv_put_path \"$1\" 600 \"$2\" \"$3\"";
        for script in ["cv_link_path \"$1\" a", put, "cv_link_path \"$1\" a"] {
            shell.good(root, script, &[key(&path), &owner, &group], b"y");
        }
        assert_eq!(std::fs::read_link(&path).unwrap(), std::path::Path::new("a"), "{}", shell.name);
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 2, "a temporary file was left behind");
    });
}

#[test]
fn what_a_killed_run_left_beside_the_file_goes_with_the_next_write() {
    each(|shell, root, dir| {
        let (owner, group) = who(dir);
        std::fs::write(dir.join(".f.cv-4242"), "half").unwrap();
        std::fs::write(dir.join(".f.cv-notes"), "someone's own").unwrap();
        shell.good(
            root,
            "cv_put_path \"$1\" 600 \"$2\" \"$3\"",
            &[key(&dir.join("f")), &owner, &group],
            b"x",
        );
        assert!(!dir.join(".f.cv-4242").exists());
        assert!(dir.join(".f.cv-notes").exists());
    });
}

#[test]
fn the_directory_in_which_a_killed_run_made_a_link_goes_and_no_other() {
    each(|shell, root, dir| {
        let make = |name: &str, mode: u32| {
            let made = dir.join(name);
            std::fs::create_dir(&made).unwrap();
            std::fs::set_permissions(&made, std::fs::Permissions::from_mode(mode)).unwrap();
            made
        };
        for (far, at) in [("", key(&dir.join("l"))), ("yes", "./l")] {
            let left = make(".l.cv-1", 0o700);
            symlink(dir, left.join("77")).unwrap();
            make(".l.cv-2", 0o700);
            let (open, file, named, deep) = (
                make(".l.cv-3", 0o755),
                make(".l.cv-4", 0o700),
                make(".l.cv-5", 0o700),
                make(".l.cv-6", 0o700),
            );
            std::fs::write(file.join("7"), "").unwrap();
            symlink("x", named.join("a")).unwrap();
            std::fs::create_dir(deep.join("8")).unwrap();
            let elsewhere = make("elsewhere", 0o700);
            symlink("x", elsewhere.join("1")).unwrap();
            symlink(&elsewhere, dir.join(".l.cv-9")).unwrap();
            let script = "cd \"$1\"; CV_FAR=$2; cv_path_sweep \"$3\"";
            shell.good(root, script, &[key(dir), far, at], b"");
            let mut names: Vec<_> = std::fs::read_dir(dir)
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, [".l.cv-3", ".l.cv-4", ".l.cv-5", ".l.cv-6", "elsewhere"], "{}", shell.name);
            assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1, "no link is followed");
            for retained in [open, file, named, deep, elsewhere] {
                std::fs::remove_dir_all(retained).unwrap();
            }
        }
    });
}

#[test]
fn a_mode_that_comes_back_comes_back_for_all_names_of_the_file() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let (root, dir) = (tempfile::tempdir().unwrap(), crate::testing::safe_tempdir());
        let (root, dir) = (root.path(), dir.path());
        let (path, other) = (dir.join("f"), dir.join("g"));
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        let line = shell.see::<Path>(root, key(&path)).state;
        let (owner, group) = who(dir);
        let script = "cv_save_path \"$1\" \"$2\" && cv_own_path \"$1\" 600 \"$3\" \"$4\"";
        shell.good(root, script, &[key(&path), line.line(), &owner, &group], b"");
        let mode = || std::fs::metadata(&other).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600, "{}", shell.name);
        shell.good(root, "cv_restore_path \"$1\" \"$2\"", &[key(&path), line.line()], b"");
        assert_eq!(mode(), 0o640, "{}", shell.name);
        assert_eq!(shell.see::<Path>(root, key(&path)).state, line);
    }
}

#[test]
fn a_file_that_changes_while_it_is_saved_is_not_saved_under_the_wrong_name() {
    each(|shell, root, dir| {
        let path = dir.join("f");
        std::fs::write(&path, "now").unwrap();
        let line = format!("file 644 root root 3 {}", Digest::of(b"before"));
        let output = shell.run(root, "cv_save_path \"$1\" \"$2\"", &[key(&path), &line], b"");
        assert_eq!(output.status.code(), Some(1));
        let line = format!("file 644 root root 3 {}", Digest::of(b"now"));
        let large = "CV_SAVE_LIMIT=2; cv_save_path \"$1\" \"$2\"";
        assert_eq!(shell.run(root, large, &[key(&path), &line], b"").status.code(), Some(3));
        let full = "CV_MIN_FREE=101; cv_save_path \"$1\" \"$2\"";
        let output = shell.run(root, full, &[key(&path), &line], b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("less than 101 %"));
        shell.good(root, "cv_save_path \"$1\" \"$2\"", &[key(&path), &line], b"");
        assert_eq!(std::fs::read(root.join("blobs").join(Digest::of(b"now").as_str())).unwrap(), b"now");
        let mode = std::fs::metadata(root.join("blobs")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    });
}

#[test]
fn lines_that_are_no_states_are_refused() {
    for line in ["", "file", "file 999 a b 1 x", "dir 17777 a b", "file 644 a b 1 abc", "other", "absent x"] {
        assert!(PathState::try_from(State::from_line(line)).is_err(), "{line}");
    }
}

#[test]
fn several_names_of_a_file_are_reported() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        // Where others may write, such a file is not looked at.
        let (root, dir) = (tempfile::tempdir().unwrap(), crate::testing::safe_tempdir());
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        let names = |path: &FsPath| shell.see::<Path>(root.path(), key(path)).names;
        std::fs::write(&one, "x").unwrap();
        assert_eq!(names(&one), None);
        std::fs::hard_link(&one, &other).unwrap();
        assert_eq!(names(&one), Some(2), "{}", shell.name);
        assert_eq!(names(dir.path()), None, "a directory has as many as others in it");
    }
}

#[test]
fn a_unit_comes_and_goes_with_its_file() {
    let content = Content::new(*b"[Service]\nExecStart=/bin/a\n");
    let file = PathState::File {
        digest: content.digest().clone(),
        size: Some(27),
        mode: 0o644,
        owner: "root".into(),
        group: "root".into(),
    };
    let unit = ObjectId::new("unit", "a.service");
    let came = Path::brings("/etc/systemd/system/a.service", &file, Some(&content));
    assert_eq!(came, [(unit.clone(), State::from_line("unit static inactive -"))]);
    let bare = |line| crate::unit::Unit::bare(&State::from_line(line).try_into().unwrap());
    assert!(
        bare("unit static inactive -") && !bare("unit enabled active -") && !bare("unit static inactive d")
    );
    let gone = Path::brings("/etc/systemd/system/a.service", &PathState::Absent, None);
    assert_eq!(gone, [(unit, State::absent())]);
    assert_eq!(Path::brings("/etc/systemd/system/a.service.d/x.conf", &PathState::Absent, None), []);
    let scripts = |key| Path::steps(&[(key, PathState::Absent, file.clone())]).len();
    assert_eq!((scripts("/etc/systemd/system/a.service.d/x.conf"), scripts("/etc/x")), (2, 1));
}

#[test]
fn a_path_through_a_link_is_reported_with_its_real_name() {
    let dir = crate::testing::safe_tempdir();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("real")).unwrap();
    std::fs::write(root.join("real/z"), "x").unwrap();
    symlink("real", root.join("link")).unwrap();
    let key = |name: &str| root.join(name).display().to_string();
    for shell in shells(&root) {
        for (asked, real) in [
            ("link/z", Some("real/z")),
            ("link/none", Some("real/none")),
            ("real/z", None),
            ("link", None),
            ("none/z", None),
        ] {
            let found = shell.see::<Path>(&root, &key(asked));
            assert_eq!(found.real, real.map(key), "{}: {asked}", shell.name);
        }
        let both = [key("link/none"), key("link/z"), key("real/z")];
        let keys: Vec<&str> = both.iter().map(String::as_str).collect();
        let found =
            crate::testing::parse::<Path>(&keys, &shell.good(&root, "cv_see_path \"$@\"", &keys, b""));
        assert_eq!(found[keys[1]].clone().unwrap().state, found[keys[2]].clone().unwrap().state);
        let line = shell.good(&root, "cv_line_path \"$1\"", &[keys[1]], b"");
        assert_eq!(line.trim_end(), found[keys[2]].clone().unwrap().state.line());
    }
}

/// The programs print their arguments and their input.
#[test]
fn an_address_is_input_and_stands_on_no_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let url = r#"https://u:p"\x@h/'a b'"#;
    for shell in shells(dir.path()) {
        let at = tempfile::tempdir().unwrap();
        let reported = "printf '%s\\n' \"$*\"; cat";
        crate::testing::fake_tool(at.path(), "curl", &format!("#!/bin/sh\n{reported}\n"));
        let gnu = format!("#!/bin/sh\n[ \"$1\" != --version ] || exit 0\n{reported}\n");
        let tools = crate::testing::fake_tool(at.path(), "wget", &gnu);
        let reply = |what: &str| {
            let script = format!("PATH={}:$PATH; {what}", quote(&tools));
            shell.good(at.path(), &script, &[], b"")
        };
        let address = quote(url);
        assert_eq!(
            reply(&format!("cv_curl {address} -sS -w '\\n%{{http_code}}'")),
            "-sS -w \\n%{http_code} -K -\nurl = \"https://u:p\\\"\\\\x@h/'a b'\"\n",
            "{}",
            shell.name
        );
        let wget = format!("cv_wget {address} -q -O -");
        assert_eq!(reply(&wget), format!("-q -O - -i -\n{url}\n"), "{}", shell.name);
        // That of busybox reads no list of addresses.
        crate::testing::fake_tool(at.path(), "wget", &gnu.replace("exit 0", "exit 1"));
        assert_eq!(reply(&wget), format!("-q -O - -- {url}\n"), "{}", shell.name);
    }
}
