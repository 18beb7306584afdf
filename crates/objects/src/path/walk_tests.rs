//! Paths that others than root may change, and what a safe one costs.

use super::Path as PathObject;
use super::attack_tests::field::{AttackField, SECRET, dir_of};
use crate::testing::{safe_tempdir, shells};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn key(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_way_that_leads_elsewhere_is_refused_and_named() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let field = AttackField::new(safe_tempdir());
        let root = tempfile::tempdir().unwrap();
        let [app, link] = field.linked_dir();
        let roots = field.home.join("root's");
        dir_of(&roots, 0o755);
        std::fs::hard_link(field.victim.join("f"), app.join("hard")).unwrap();
        let why = |path: &Path| {
            let answer = shell.good(root.path(), "cv_see_path \"$1\"", &[key(path)], b"");
            crate::testing::parse::<PathObject>(&[key(path)], &answer)
                .remove(key(path))
                .unwrap()
                .map(|observed| observed.state)
        };
        let linked = why(&link.join("x")).unwrap_err().0;
        assert!(linked.contains("app.other is a link (owner root)"), "{}: {linked}", shell.name);
        assert!(linked.contains("which nobody may write to"), "{}: {linked}", shell.name);
        let step = why(&roots.join("x")).unwrap_err().0;
        assert!(step.contains("belongs to root and lies in a directory of nobody"), "{}: {step}", shell.name);
        let hard = why(&app.join("hard")).unwrap_err().0;
        assert!(hard.contains("has 2 names"), "{}: {hard}", shell.name);
        assert_eq!(why(&roots).unwrap().line(), "dir 755 root root", "what lies there itself is shown");
        assert!(why(&app.join("no/such/thing")).unwrap().is_absent());
        let refused = |script: &str, path: &Path| {
            let output = shell.run(root.path(), script, &[key(path)], b"x");
            assert!(!output.status.success(), "{}: {script}", shell.name);
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        for script in [
            "cv_put_path \"$1\" 644 root root",
            "cv_mkdir_path \"$1\" 755 root root",
            "cv_link_path \"$1\" x",
            "cv_remove_path \"$1\"",
            "cv_restore_path \"$1\" 'dir 755 root root'",
            "cv_line_path \"$1\"",
            "cv_content \"$1\" 100",
            "cv_apply_mount \"$1\" 'mount tmpfs tmpfs defaults -'",
            "cv_line_swap \"$1\"",
            "cv_hold \"$1\"",
        ] {
            refused(script, &link.join("x"));
            refused(script, &roots.join("x"));
        }
        // A file of root in a user's directory is left unchanged.
        refused("cv_mkdir_path \"$1\" 700 nobody nogroup", &roots);
        std::fs::write(field.home.join("moved"), SECRET).unwrap();
        let keep = "CV_KEEP=yes; cv_own_path \"$1\" 644 nobody nogroup \"$(sha256sum <\"$1\" | cut -c1-64)\"";
        assert!(refused(keep, &field.home.join("moved")).contains("gets no other owner"), "{}", shell.name);
        // A checkout of root's in a home is a step to another owner.
        if shell.name != "busybox" {
            dir_of(&app.join("checkout"), 0o755);
            assert!(
                refused("cv_apply_git \"$1\" \"checkout x /srv/x clean\"", &app.join("new")).contains("user")
            );
        }
    }
}

/// The directories in which processes sleep for so many seconds.
fn sleepers(seconds: &str) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|e| Some(e.ok()?.path()));
    let line = format!("sleep\0{seconds}\0");
    let sleeps = |p: &PathBuf| std::fs::read(p.join("cmdline")).is_ok_and(|words| words == line.as_bytes());
    processes.filter(sleeps).filter_map(|p| std::fs::read_link(p.join("cwd")).ok()).collect()
}

/// Who waits for a pipe in a user's directory does not keep the mount busy in which it lies, and ends with the wait.
#[test]
fn a_wait_for_a_pipe_holds_no_directory_and_leaves_no_process() {
    let tools = tempfile::tempdir().unwrap();
    for (n, shell) in shells(tools.path()).into_iter().enumerate() {
        let root = tempfile::tempdir().unwrap();
        let field = AttackField::new(safe_tempdir());
        let at = field.home.display().to_string();
        std::fs::write(field.home.join("plain"), "x").unwrap();
        let pipe = field.home.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let seconds = format!("1.{}{n}", std::process::id());
        // The pipe takes the place of the file between the look and the open.
        let script = "cd \"$1\"; sh -c \"$CV_OPEN\" sh \"$2\" ./pipe - cat; echo $?";
        let observed = std::thread::scope(|scope| {
            let waits = scope.spawn(|| shell.run(root.path(), script, &[&at, &seconds], b""));
            let mut observed = Vec::new();
            while !waits.is_finished() {
                observed.extend(sleepers(&seconds));
                std::thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(String::from_utf8_lossy(&waits.join().unwrap().stdout), "137\n", "{}", shell.name);
            observed
        });
        assert!(
            !observed.is_empty() && observed.iter().all(|d| d == Path::new("/")),
            "{}: {observed:?}",
            shell.name
        );
        let seconds = format!("30.{}{n}", std::process::id());
        let many = "cd \"$1\"; CV_OPEN_SECONDS=$2 n=0; while [ $n -lt 40 ]; do cv_open ./plain cat || exit; n=$((n + 1)); done";
        assert_eq!(shell.good(root.path(), many, &[&at, &seconds], b""), "x".repeat(40), "{}", shell.name);
        // A signal takes its time.
        let mut left = usize::MAX;
        for _ in 0..100 {
            left = sleepers(&seconds).len();
            if left == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(left, 0, "{}", shell.name);
    }
}

#[test]
fn a_trusted_path_costs_no_process_more_however_many_there_are() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()).into_iter().filter(|s| s.name != "busybox") {
        let root = tempfile::tempdir().unwrap();
        let dir = safe_tempdir();
        let names: Vec<String> = (0..40)
            .map(|n| {
                let path = dir.path().join(format!("f{n}"));
                std::fs::write(&path, "x").unwrap();
                key(&path).to_owned()
            })
            .collect();
        let log = root.path().join("log");
        let counted = crate::testing::fake_tool(
            root.path(),
            "stat",
            &format!("#!/bin/sh\necho stat >>'{}'\nexec /usr/bin/stat \"$@\"\n", log.display()),
        );
        let count = |script: &str, args: &[&str]| {
            std::fs::write(&log, "").unwrap();
            shell.good(root.path(), &format!("PATH='{counted}':$PATH; {script}"), args, b"");
            std::fs::read_to_string(&log).unwrap().lines().count()
        };
        let args: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(count("cv_see_path \"$@\"", &args), 1, "{}", shell.name);
        // One look at what is above, then none.
        let many = "cv_is_safe \"${1%/*}\"; for f; do cv_own_path \"$f\" 600 root root x; cv_content \"$f\" 9 >/dev/null; \
                    cv_remove_path \"$f\"; done";
        assert_eq!(count(many, &args), 1, "{}", shell.name);
    }
}

/// Whatever may never end, or acts when it is opened, stands where a managed file was: it is named by its type, and read by nobody.
#[test]
fn a_device_a_pipe_or_a_socket_in_place_of_a_file_is_named_and_not_read() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let root = tempfile::tempdir().unwrap();
        let home = safe_tempdir();
        let place = |name: &str| home.path().join(name);
        let node = |name: &str, words: &[&str]| {
            std::process::Command::new("mknod").arg(place(name)).args(words).status().unwrap().success()
        };
        let _socket = std::os::unix::net::UnixListener::bind(place("socket")).unwrap();
        assert!(node("pipe", &["p"]));
        let mut there = vec![("socket", "socket"), ("pipe", "fifo")];
        // /dev/zero, which never ends, and a disk that is not there. Only root makes devices, and not in every container.
        if node("char", &["c", "1", "5"]) && node("block", &["b", "7", "255"]) {
            there.extend([("char", "char"), ("block", "block")]);
        }
        for (name, what) in there {
            let path = place(name);
            let reply = shell.good(root.path(), "cv_see_path \"$1\"", &[key(&path)], b"");
            let observed =
                crate::testing::parse::<PathObject>(&[key(&path)], &reply).remove(key(&path)).unwrap();
            assert_eq!(
                observed.unwrap().state,
                super::PathState::Other { what: what.to_owned() }.into(),
                "{}",
                shell.name
            );
            let content = shell.run(root.path(), "cv_content \"$1\" 100", &[key(&path)], b"");
            assert!(!content.status.success() && content.stdout.is_empty(), "{}: {content:?}", shell.name);
        }
    }
}
