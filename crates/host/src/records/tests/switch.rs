//! The switch behind guarded items, with a systemd of straw: `tests/tests/guard.rs` has real ones.

use super::*;

/// Takes every order and runs nothing.
const SYSTEMD: &str = "systemctl() { [ \"$1\" != is-active ]; }\n";

impl FakeHost {
    fn guarded(&self) -> ItemSpec {
        let mut item = spec(vec![self.change(&self.file("conf"), self.file_line(b"new", 0o600))]);
        item.run = "r1".to_owned();
        let units = vec!["ssh.service".to_owned()];
        item.switch = Some(Switch { guard: "ssh".to_owned(), window: 60, units });
        item
    }

    fn with_systemd(&self) -> Command {
        let mut command = self.command();
        std::fs::create_dir_all(self.dir.path().join("units")).unwrap();
        std::fs::write(self.dir.path().join("boot"), "this-boot\n").unwrap();
        command
            .env("CV_SYSTEMD", self.dir.path())
            .env("CV_SWITCH_UNITS", self.dir.path().join("units"))
            .env("CV_SWITCH_TRIED", self.dir.path().join("tried"))
            // A revert that cannot succeed is not tried for an hour.
            .env("CV_REVERT_SECONDS", "5")
            .env("CV_BOOT_ID", self.dir.path().join("boot"));
        command
    }

    /// As the session's shell does it; the run is not closed.
    pub(super) fn in_session(&self, script: &str) -> String {
        let meta = RunMeta { id: "r1".to_owned(), ..RunMeta::default() };
        let library = self.dir.path().join("library");
        let open = open_script(&meta);
        let text = format!(". '{}'\n{SYSTEMD}{open} || exit $?\n{script}", library.display());
        let output = self.with_systemd().arg("-c").arg(text).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    pub(super) fn act(&self) -> String {
        self.act_with(&undo_text())
    }

    fn act_with(&self, text: &str) -> String {
        let script = self.dir.path().join("undo.sh");
        std::fs::write(&script, text).unwrap();
        let output = self.with_systemd().arg(script).arg("--switch").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn switch_is_there(&self) -> bool {
        let unit = self.dir.path().join("units/converge-switch.service");
        assert_eq!(unit.exists(), self.root().join("switch").exists());
        unit.exists()
    }
}

#[test]
fn what_is_confirmed_stays_and_nothing_is_left() {
    for host in hosts() {
        std::fs::write(host.file("conf"), "old").unwrap();
        let reply = host.in_session(&host.item(&host.guarded(), &[b"new"]));
        assert!(reply.contains("status 0"), "{reply}");
        assert!(host.switch_is_there());
        let reply = host.in_session(&format!("({}); echo \"confirmed $?\"", confirm_script("r1")));
        assert!(reply.contains("confirmed 0"), "{reply}");
        assert!(!host.switch_is_there());
        assert_eq!(host.act(), "");
        assert_eq!(std::fs::read(host.file("conf")).unwrap(), b"new");
        // Once is enough.
        let reply = host.in_session(&format!("({}); echo \"confirmed $?\"", confirm_script("r1")));
        assert!(reply.contains("confirmed 1") && reply.contains("not confirmed in time"), "{reply}");
    }
}

#[test]
fn what_is_not_confirmed_is_put_back_and_the_records_say_so() {
    for host in hosts() {
        std::fs::write(host.file("conf"), "old").unwrap();
        let before = host.line(&host.file("conf"));
        host.in_session(&host.item(&host.guarded(), &[b"new"]));
        // Another run waits its turn, even when nobody holds the lock.
        let other = host.sh(&open_script(&RunMeta { id: "r2".to_owned(), ..RunMeta::default() }));
        assert_eq!(other.status.code(), Some(LOCKED));
        assert!(String::from_utf8_lossy(&other.stderr).contains("the guarded change of run r1"));
        std::fs::write(host.root().join("switch/asked"), "").unwrap();
        let reply = host.act();
        assert!(reply.contains("restored       path:"), "{reply}");
        assert!(!host.switch_is_there());
        assert_eq!(host.line(&host.file("conf")), before);
        let records = host.records();
        assert_eq!(records[0].put_back.as_deref(), Some("it is not good"));
        let change = &records[0].changes[0];
        assert_eq!((change.outcome, &change.after), (SavedOutcome::PutBack, &before));
        assert!(!change.may_have_happened());
        let reply = host.in_session(&format!("({}); echo \"waited $?\"", put_back_script("r1", 1, 0)));
        assert!(reply.contains("waited 0"), "{reply}");
        assert!(
            host.sh(&open_script(&RunMeta { id: "r2".to_owned(), ..RunMeta::default() })).status.success()
        );
    }
}

/// Records that are not where they were do not confirm anything, and no new folder takes their place.
#[test]
fn records_that_are_gone_are_no_confirmation() {
    for host in hosts() {
        std::fs::write(host.file("conf"), "old").unwrap();
        host.in_session(&host.item(&host.guarded(), &[b"new"]));
        let away = host.dir.path().join("away");
        std::fs::rename(host.root(), &away).unwrap();
        let gone =
            "the guarded change of run r1 is neither confirmed nor reverted, and its records are gone from";
        for (script, status) in [(confirm_script("r1"), 1), (put_back_script("r1", 1, 0), 5)] {
            let text = format!(". '{}'\n{SYSTEMD}{script}", host.dir.path().join("library").display());
            let output = host.with_systemd().arg("-c").arg(text).output().unwrap();
            let reply = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(status), "{reply}");
            assert!(reply.contains(gone), "{reply}");
        }
        assert!(host.in_session("").contains(gone));
        assert!(!host.root().exists());
        std::fs::rename(&away, host.root()).unwrap();
        std::fs::write(host.root().join("switch/asked"), "").unwrap();
        assert!(host.act().contains("restored       path:"));
        assert!(!host.switch_is_there());
    }
}

/// A step that failed once is tried again.
#[test]
fn a_revert_that_failed_is_tried_again() {
    for host in hosts() {
        std::fs::write(host.file("conf"), "old").unwrap();
        let before = host.line(&host.file("conf"));
        host.in_session(&host.item(&host.guarded(), &[b"new"]));
        std::fs::write(host.root().join("switch/asked"), "").unwrap();
        let broken = "cv_restore_path() { [ -e \"$CV_ROOT/../again\" ] || { : >\"$CV_ROOT/../again\"; echo 'no space' >&2; return 1; }; cv_apply_path \"$@\"; }\n";
        let reply =
            host.act_with(&undo_text().replace("cv_act_main() {", &format!("{broken}cv_act_main() {{")));
        assert!(reply.contains("FAILED         path:") && reply.contains(": no space"), "{reply}");
        assert!(
            reply.contains("not all is reverted: path:") && reply.contains("restored       path:"),
            "{reply}"
        );
        assert_eq!(host.line(&host.file("conf")), before);
        assert!(!host.switch_is_there() && !host.dir.path().join("tried").exists());
        assert_eq!(host.records()[0].not_put_back, None);
    }
}

#[test]
fn another_boot_is_no_confirmation_and_what_others_changed_is_left_alone() {
    for host in hosts() {
        std::fs::write(host.file("conf"), "old").unwrap();
        host.in_session(&host.item(&host.guarded(), &[b"new"]));
        let armed = host.root().join("switch/armed");
        let text = std::fs::read_to_string(&armed).unwrap().replace("this-boot", "former-boot");
        std::fs::write(&armed, text).unwrap();
        std::fs::write(host.file("conf"), "theirs").unwrap();
        let reply = host.act();
        assert!(
            reply.contains("restarted before it was confirmed") && reply.contains("LEFT ALONE"),
            "{reply}"
        );
        assert_eq!(std::fs::read(host.file("conf")).unwrap(), b"theirs");
        let reply = host.in_session(&format!("({}); echo \"waited $?\"", put_back_script("r1", 1, 0)));
        assert!(reply.contains("waited 1"), "not all was reverted: {reply}");
    }
}

#[test]
fn without_systemd_nothing_is_changed() {
    for host in hosts() {
        std::fs::write(host.file("conf"), "old").unwrap();
        let item = host.guarded();
        let none = format!("CV_SYSTEMD=/nonexistent\n{}", host.item(&item, &[b"new"]));
        let reply = host.in_session(&none);
        assert!(reply.contains("status 72") && reply.contains("does not run systemd"), "{reply}");
        assert!(!host.switch_is_there());
        assert_eq!(std::fs::read(host.file("conf")).unwrap(), b"old");
        let reply = host.in_session(&format!("({}); echo \"asked $?\"", put_back_now_script("r1", 1, 0)));
        assert!(reply.contains("asked 3"), "none was armed: {reply}");
    }
}

#[test]
fn a_step_that_fails_before_it_changes_anything_is_nothing_to_put_back() {
    for host in hosts() {
        std::fs::write(host.file("conf"), "old").unwrap();
        let mut item = host.guarded();
        item.steps = vec![Step::new("validate", "echo 'it does not parse' >&2; exit 1")];
        let reply = host.in_session(&host.item(&item, &[]));
        assert!(reply.contains("status 72"), "{reply}");
        assert!(host.switch_is_there());
        std::fs::write(host.root().join("switch/asked"), "").unwrap();
        let reply = host.act();
        assert!(reply.contains("as before      path:") && !reply.contains("restarted"), "{reply}");
        assert!(!host.switch_is_there());
        let reply = host.in_session(&format!("({}); echo \"waited $?\"", put_back_script("r1", 1, 0)));
        assert!(reply.contains("waited 4"), "{reply}");
        let reply = host.in_session(&format!("({}); echo \"waited $?\"", put_back_script("r1", 1, 1)));
        assert!(reply.contains("waited 3"), "that one is known: {reply}");
    }
}

#[test]
fn what_is_left_of_a_run_does_not_hold_the_switch_up() {
    use std::os::unix::process::CommandExt;
    std::thread::scope(|scope| {
        for host in hosts() {
            scope.spawn(move || {
                std::fs::write(host.file("conf"), "old").unwrap();
                let before = host.line(&host.file("conf"));
                host.in_session(&host.item(&host.guarded(), &[b"new"]));
                // The window is over, and processes of the run hold the lock: they take no hint, and start others when they get one.
                let armed = host.root().join("switch/armed");
                let text = std::fs::read_to_string(&armed).unwrap();
                let fields: Vec<&str> = text.split('\t').collect();
                std::fs::write(&armed, [&fields[..3], &["0"], &fields[4..]].concat().join("\t")).unwrap();
                let held = host.dir.path().join("held");
                let text = format!(
                    "exec 9>>'{}'; flock -n 9 || exit 1; : >'{}'; trap '(trap \"\" TERM; sleep 600) & ' TERM; while :; do sleep 600; done",
                    host.root().join("lock").display(),
                    held.display()
                );
                let mut holder = host.command().arg("-c").arg(text).process_group(0).spawn().unwrap();
                while !held.exists() {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                let begun = std::time::Instant::now();
                let reply = host.act();
                let took = begun.elapsed();
                assert!(holder.wait().is_ok());
                assert!(reply.contains("restored       path:"), "{reply}");
                assert!(!reply.contains("cannot be ended"), "{:?}: {reply}", host.argv);
                assert!(took.as_secs() < 10, "{:?}: it began after {took:?}", host.argv);
                assert_eq!(host.line(&host.file("conf")), before);
            });
        }
    });
}

/// A step does not hold the lock. It may hear no SIGTERM, and run in a group of its own, as another user's or one within a limit does.
#[test]
fn a_step_that_hears_nothing_is_ended_before_the_switch_restores() {
    use std::os::unix::process::CommandExt;
    std::thread::scope(|scope| {
        for host in hosts() {
            scope.spawn(move || {
                std::fs::write(host.file("conf"), "old").unwrap();
                host.in_session(&host.item(&host.guarded(), &[b"new"]));
                let armed = host.root().join("switch/armed");
                let text = std::fs::read_to_string(&armed).unwrap();
                let fields: Vec<&str> = text.split('\t').collect();
                std::fs::write(&armed, [&fields[..3], &["0"], &fields[4..]].concat().join("\t")).unwrap();
                let names = ["same", "own", "limited"];
                let marks = names.map(|name| host.file(name));
                let deaf = |mark: &Path| format!("trap '' TERM; while :; do echo >>{}; sleep 0.1; done", mark.display());
                let text = format!(
                    ". '{}'\nexec 9>>'{}'; flock -n 9 || exit 1\n(sh -c {} 9>&-) & (setsid sh -c {} 9>&-) & (cv_as '' {} 600) & wait",
                    host.dir.path().join("library").display(),
                    host.root().join("lock").display(),
                    quote(&deaf(&marks[0])),
                    quote(&deaf(&marks[1])),
                    quote(&deaf(&marks[2])),
                );
                let mut holder = host.command().arg("-c").arg(text).process_group(0).spawn().unwrap();
                while !marks.iter().all(|mark| mark.exists()) {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                let reply = host.act();
                let sizes = || marks.each_ref().map(|mark| std::fs::metadata(mark).unwrap().len());
                let left = sizes();
                assert!(holder.wait().is_ok());
                assert!(reply.contains("restored       path:"), "{reply}");
                assert!(!reply.contains("cannot be ended"), "{:?}: {reply}", host.argv);
                std::thread::sleep(std::time::Duration::from_secs(1));
                assert_eq!(sizes(), left, "{:?}: {names:?}, one goes on", host.argv);
            });
        }
    });
}

/// A store that is full takes no line more, and one that is read-only takes no other name either: the revert begins nevertheless.
#[test]
fn a_store_that_takes_no_writes_does_not_hold_the_switch_up() {
    let no_lines = "cv_write_record() { return 1; }\ncv_journal() { return 1; }\ntrue() { return 1; }\n";
    let no_names = "mv() { case $* in */switch/*) return 1 ;; esac; command mv \"$@\"; }\nrm() { case $* in */switch) return 1 ;; esac; command rm \"$@\"; }\n";
    for host in hosts() {
        for broken in [no_lines.to_owned(), format!("{no_lines}{no_names}")] {
            std::fs::write(host.file("conf"), "old").unwrap();
            let before = host.line(&host.file("conf"));
            let reply = host.in_session(&host.item(&host.guarded(), &[b"new"]));
            assert!(reply.contains("status 0"), "{reply}");
            let armed = host.root().join("switch/armed");
            let text = std::fs::read_to_string(&armed).unwrap();
            let fields: Vec<&str> = text.split('\t').collect();
            std::fs::write(&armed, [&fields[..3], &["0"], &fields[4..]].concat().join("\t")).unwrap();
            let text = undo_text().replace("cv_act_main() {", &format!("{broken}cv_act_main() {{"));
            assert_ne!(text, undo_text());
            let reply = host.act_with(&text);
            assert!(reply.contains("restored       path:"), "{:?}: {reply}", host.argv);
            assert!(reply.contains("nobody confirmed it within 60 s"), "{reply}");
            assert_eq!(host.line(&host.file("conf")), before);
            // With room again the next switch is an ordinary one.
            std::fs::remove_dir_all(host.root().join("switch")).ok();
            std::fs::remove_file(host.dir.path().join("units/converge-switch.service")).ok();
        }
    }
}

/// Where the processes cannot be listed, nobody knows that none is left: those that were found before stay known.
#[test]
fn processes_that_cannot_be_listed_do_not_count_as_ended() {
    for host in hosts() {
        let ask = "cv_a_groups='7 '; cv_act_groups; echo \"$? <$cv_a_groups>\"";
        let answer = |before: &str| {
            let output = host.sh(&format!("{}\n{before}{ask}", include_str!("../../../sh/act.sh")));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert_eq!(answer(""), "0 <>\n", "no process is of group 7");
        for broken in ["return 1", "cat >/dev/null", "command awk \"$@\" </dev/null"] {
            assert_eq!(answer(&format!("awk() {{ {broken}; }}\n")), "1 <7 >\n", "{broken}");
        }
    }
}
