use super::*;
use crate::testing::shells;
use converge_resource::quote;
use proptest::prelude::*;

fn command(guard: CommandGuard, run: &str, undo: Option<&str>) -> Command {
    Command {
        guard,
        run: run.to_owned(),
        undo: undo.map(str::to_owned),
        user: None,
        timeout: None,
        surroundings: Surroundings::default(),
    }
}

proptest! {
    #[test]
    fn keys_come_back(
        arg in "\\PC+", run in "\\PC+", undo in "\\PC*", timeout: Option<u16>,
        dir in "[/a ]*", input in "\\PC*", env in proptest::collection::btree_map("[A-Z_]{1,4}", "(?s).*", 0..3),
    ) {
        let optional = |text: String| Some(text).filter(|t| !t.is_empty());
        let whole = Command {
            guard: CommandGuard::Unless(arg),
            run,
            undo: optional(undo),
            user: Some("bob".to_owned()),
            timeout: timeout.map(u64::from),
            surroundings: Surroundings { chdir: optional(dir), env, stdin: optional(input) },
        };
        prop_assert_eq!(Command::from_key(&whole.key()), Some(whole));
    }
}

#[test]
fn keys_of_earlier_releases_are_read() {
    let old = |more: &str| Command::from_key(&format!("creates /x a \\ bob{more}"));
    let mut plain = command(CommandGuard::Creates("/x".to_owned()), "a", None);
    plain.user = Some("bob".to_owned());
    assert_eq!(old(""), Some(plain.clone()));
    assert_eq!((old(" 9").unwrap().timeout, plain.key().as_str()), (Some(9), "creates /x a \\ bob"));
    assert_eq!(old(" x"), None);
    assert_eq!(old(" 9 / \\ A"), None);
}

#[test]
fn a_command_runs_until_its_guard_holds_and_its_undo_takes_it_back() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mark = dir.path().join("it's done");
        let text = mark.to_str().unwrap();
        let quoted = quote(text);
        let (run, undo) = (format!("echo ran; : > {quoted}\n"), format!("rm {quoted}"));
        let guards =
            [CommandGuard::Creates(text.to_owned()), CommandGuard::Unless(format!("test -e {quoted}"))];
        for guard in guards {
            let key = command(guard, &run, Some(&undo)).key();
            let see = || CommandState::try_from(shell.see::<Command>(root.path(), &key).state).unwrap();
            assert_eq!(see(), CommandState::Pending, "{}", shell.name);
            let forward = Command::steps(&[(&key, CommandState::Pending, CommandState::Done)]);
            assert_eq!(shell.good(root.path(), &forward[0].script, &[], b""), "ran\n");
            assert_eq!(see(), CommandState::Done);
            assert_eq!(shell.good(root.path(), &forward[0].script, &[], b""), "", "it ran twice");
            shell.good(root.path(), "cv_restore_command \"$1\" pending", &[&key], b"");
            assert_eq!(see(), CommandState::Pending);
        }
        let useless = command(CommandGuard::Creates(text.to_owned()), "true", None);
        let steps = Command::steps(&[(&useless.key(), CommandState::Pending, CommandState::Done)]);
        let output = shell.run(root.path(), &steps[0].script, &[], b"");
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("still says that it is pending"));
        let mut slow = command(CommandGuard::Creates(text.to_owned()), "exec sleep 30", None);
        slow.timeout = Some(1);
        let steps = Command::steps(&[(&slow.key(), CommandState::Pending, CommandState::Done)]);
        let output = shell.run(root.path(), &steps[0].script, &[], b"");
        assert!(String::from_utf8_lossy(&output.stderr).contains("within 1 s"), "{}", shell.name);
        let failing = command(CommandGuard::Creates(text.to_owned()), "echo no; exit 7", None);
        let steps = Command::steps(&[(&failing.key(), CommandState::Pending, CommandState::Done)]);
        let output = shell.run(root.path(), &steps[0].script, &[], b"");
        assert!(String::from_utf8_lossy(&output.stderr).contains("status 7"), "{}", shell.name);
    }
}

/// `run` twice: with the session's own privilege, and as the text of a question.
#[test]
fn a_script_has_its_surroundings_and_no_process_list_shows_them() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let (root, dir) = (tempfile::tempdir().unwrap(), crate::testing::safe_tempdir());
        let place = dir.path().to_str().unwrap();
        let value = "a 'zq-hidden-7e1c'\n\\0101 $HOME ";
        let surroundings = Surroundings {
            chdir: Some(place.to_owned()),
            env: BTreeMap::from([("A".to_owned(), value.to_owned()), ("PLAIN".to_owned(), "x=y".to_owned())]),
            stdin: Some("an \"input\"\n%s 'zq-hidden-7e1c'".to_owned()),
        };
        // The arguments of all processes.
        let run = "cat >input; printf %s \"$A\" >value; printf %s \"$PLAIN\" >plain; pwd -P >place\n\
             cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' >list; exit \"$END\"";
        let mut whole = command(
            CommandGuard::Unless("test -e done && test \"$PLAIN\" = x=y".to_owned()),
            run,
            Some("rm done; cat"),
        );
        whole.surroundings = surroundings.clone();
        whole.surroundings.env.insert("END".to_owned(), "0".to_owned());
        whole.run = run.to_string().replace("exit", ": >done; exit");
        let key = whole.key();
        assert_eq!(Command::from_key(&key), Some(whole.clone()));
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        let found = || {
            assert_eq!(read("input"), "an \"input\"\n%s 'zq-hidden-7e1c'", "{}", shell.name);
            assert_eq!((read("value").as_str(), read("plain").as_str()), (value, "x=y"));
            assert_eq!(read("place").trim(), dir.path().canonicalize().unwrap().to_str().unwrap());
            assert!(!read("list").contains("zq-hidden-7e1c"), "{}: {}", shell.name, read("list"));
            for name in ["input", "value", "plain", "place", "list"] {
                std::fs::remove_file(dir.path().join(name)).unwrap();
            }
        };
        let file = root.path().join("step.sh");
        let from_file = |script: &str| {
            std::fs::write(&file, script).unwrap();
            shell.run(root.path(), &format!(". {}", quote(file.to_str().unwrap())), &[], b"")
        };
        for timeout in [None, Some(20)] {
            whole.timeout = timeout;
            let key = whole.key();
            let see = || CommandState::try_from(shell.see::<Command>(root.path(), &key).state).unwrap();
            assert_eq!(see(), CommandState::Pending, "{}", shell.name);
            let steps = Command::steps(&[(&key, CommandState::Pending, CommandState::Done)]);
            let output = from_file(&steps[0].script);
            assert!(output.status.success(), "{}: {output:?}", shell.name);
            assert_eq!(see(), CommandState::Done, "{}", shell.name);
            found();
            // Its undo has no input.
            let reply = shell.good(root.path(), "cv_restore_command \"$1\" pending", &[&key], b"");
            assert_eq!((reply.as_str(), see()), ("", CommandState::Pending));
        }
        let mut asked = surroundings;
        asked.env.insert("END".to_owned(), "7".to_owned());
        for user in [None, Some("u")] {
            assert_eq!(from_file(&asked.around(run, user)).status.code(), Some(7), "{}", shell.name);
            found();
        }
        // A command that does not read its input ends as it does without one.
        whole.surroundings.stdin = Some("x".repeat(64 << 10));
        whole.run = ": >done; exit 0".to_owned();
        let steps = Command::steps(&[(&whole.key(), CommandState::Pending, CommandState::Done)]);
        assert_eq!(from_file(&steps[0].script).stderr, b"", "{}", shell.name);
    }
}

#[test]
fn a_directory_that_cannot_be_entered_is_named() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // Below /tmp, where others may write, no link is followed.
        std::os::unix::fs::symlink("/etc", dir.path().join("link")).unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        for (name, why) in [("none", "the directory is not there"), ("link", "no link is followed there")] {
            let mut whole = command(CommandGuard::Creates("/none/x".to_owned()), "echo ran", None);
            whole.surroundings.chdir = Some(dir.path().join(name).to_str().unwrap().to_owned());
            let steps = Command::steps(&[(&whole.key(), CommandState::Pending, CommandState::Done)]);
            let output = shell.run(root.path(), &steps[0].script, &[], b"");
            let reply = String::from_utf8_lossy(&output.stderr);
            assert!(
                !output.status.success() && output.stdout.is_empty() && reply.contains(why),
                "{}: {reply}",
                shell.name
            );
            let asked = shell.run(root.path(), &whole.surroundings.around("echo ran", None), &[], b"");
            assert_eq!((asked.status.code(), asked.stdout), (Some(126), Vec::new()), "{}", shell.name);
            let as_user = shell.run(
                root.path(),
                &Surroundings { chdir: Some("/none".into()), ..Surroundings::default() }
                    .around("echo ran", Some("u")),
                &[],
                b"",
            );
            assert_eq!(as_user.status.code(), Some(126), "{}", shell.name);
            assert!(
                String::from_utf8_lossy(&as_user.stderr).contains("/none: the directory cannot be entered")
            );
        }
    }
}

/// It hears no SIGTERM, nor does what it has started, which its end would leave behind.
#[test]
fn what_goes_on_past_its_time_is_killed_with_all_that_it_has_started() {
    let tools = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for shell in shells(tools.path()) {
            scope.spawn(move || {
                let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
                let deaf = |mark: &str| {
                    let mark = quote(dir.path().join(mark).to_str().unwrap());
                    format!("trap '' TERM; while :; do echo >>{mark}; sleep 0.1; done")
                };
                let alone = (deaf("alone"), "alone");
                let behind = (format!("({}) & wait", deaf("behind")), "behind");
                for (run, mark) in [alone, behind] {
                    let mut endless = command(CommandGuard::Creates("/none".to_owned()), &run, None);
                    endless.timeout = Some(1);
                    let steps =
                        Command::steps(&[(&endless.key(), CommandState::Pending, CommandState::Done)]);
                    let begun = std::time::Instant::now();
                    let output = shell.run(root.path(), &steps[0].script, &[], b"");
                    let reply = String::from_utf8_lossy(&output.stderr);
                    assert!(reply.contains("did not end within 1 s"), "{}: {reply}", shell.name);
                    assert!(begun.elapsed().as_secs() < 30, "{}: {mark}", shell.name);
                    let size = || std::fs::metadata(dir.path().join(mark)).unwrap().len();
                    let left = size();
                    std::thread::sleep(std::time::Duration::from_secs(1));
                    assert_eq!(size(), left, "{}: {mark} goes on", shell.name);
                }
                // A script that ends by itself may leave processes.
                let daemon = format!(
                    "({}) >/dev/null 2>&1 & echo $! >{}",
                    deaf("daemon"),
                    quote(dir.path().join("pid").to_str().unwrap())
                );
                let mut leaves = command(CommandGuard::OnChange("r/i".to_owned()), &daemon, None);
                leaves.timeout = Some(60);
                let ran = CommandState::Ran { digest: Some("a".to_owned()) };
                let steps = Command::steps(&[(&leaves.key(), CommandState::Ran { digest: None }, ran)]);
                shell.good(root.path(), &steps[0].script, &[], b"");
                let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
                shell.good(root.path(), "kill -KILL \"$1\"", &[pid.trim()], b"");
            });
        }
    });
}

#[test]
fn on_change_remembers_what_it_ran_for() {
    let tools = tempfile::tempdir().unwrap();
    for shell in shells(tools.path()) {
        let root = tempfile::tempdir().unwrap();
        let key =
            command(CommandGuard::OnChange("role/item".to_owned()), "echo ran", Some("echo back")).key();
        let never = CommandState::Ran { digest: None };
        let ran = |d: &str| CommandState::Ran { digest: Some(d.to_owned()) };
        let see = || CommandState::try_from(shell.see::<Command>(root.path(), &key).state).unwrap();
        let step = |from: &CommandState, to: &CommandState| {
            Command::steps(&[(&key, from.clone(), to.clone())]).remove(0).script
        };
        assert_eq!(see(), never);
        assert_eq!(shell.good(root.path(), &step(&never, &ran("a")), &[], b""), "ran\n");
        assert_eq!(see(), ran("a"));
        assert_eq!(shell.good(root.path(), &step(&ran("a"), &ran("b")), &[], b""), "ran\n");
        shell.good(root.path(), "cv_adopt_command \"$1\" 'ran c'", &[&key], b"");
        assert_eq!(see(), ran("c"));
        assert_eq!(shell.good(root.path(), &step(&ran("c"), &never), &[], b""), "back\n");
        assert_eq!(see(), never);
    }
}

#[test]
fn without_an_undo_it_is_irreversible() {
    let guard = || CommandGuard::Creates("/x".to_owned());
    let judge = |c: Command| Command::reversibility(&c.key(), &CommandState::Pending, &CommandState::Done);
    assert_eq!(judge(command(guard(), "x", Some("y"))), Reversibility::Reversible);
    assert!(matches!(judge(command(guard(), "x", None)), Reversibility::Irreversible(_)));
    let long = format!("first\n{}", "x".repeat(100));
    assert_eq!(title(&command(guard(), &long, None).key(), &CommandState::Done), "run: first …");
}
