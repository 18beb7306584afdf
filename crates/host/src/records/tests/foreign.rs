//! Changes by foreign code, and the objects that are watched for them.

use super::*;

#[test]
fn what_foreign_code_moves_is_reported_saved_and_stops_the_stretch() {
    for host in hosts() {
        let (mark, conf) = (host.file("mark"), host.file("conf"));
        std::fs::write(&conf, "before").unwrap();
        let command = Cmd {
            guard: CommandGuard::Creates(mark.to_str().unwrap().to_owned()),
            run: format!("echo after >'{}'; : >'{}'", conf.display(), mark.display()),
            undo: Some(format!("rm '{}'", mark.display())),
            user: None,
            timeout: None,
            surroundings: Surroundings::default(),
        };
        let object = ObjectId::new("command", command.key());
        let change = Change { object, from: CommandState::Pending.into(), to: CommandState::Done.into() };
        let watched = ObjectId::new("path", conf.to_str().unwrap());
        let before = host.line(&conf);
        let window = vec![WindowRow {
            seq: 9,
            object: watched.clone(),
            expected: before.clone(),
            role: "r".to_owned(),
        }];
        let mut first = ItemSpec { run: "r1".to_owned(), window, ..spec(vec![change]) };
        first.token = "first".to_owned();
        let second_change = host.change(&host.file("x"), host.file_line(b"x", 0o600));
        let mut second = ItemSpec { run: "r1".to_owned(), ..spec(vec![second_change]) };
        second.rows[0].seq = 10;
        let body = format!(
            "{}{}{}\n{}",
            host.item(&first, &[]),
            host.item(&second, &[b"x"]),
            resume_script("r1"),
            host.item(&second, &[b"x"])
        );
        let output = host.run("r1", &[], &body);
        let text = String::from_utf8_lossy(&output.stdout);
        let ends: Vec<&str> = text.lines().filter(|l| l.starts_with("status ")).collect();
        assert_eq!(ends, ["status 0", "status 74", "status 0"], "{text}");
        let run = first.read(0, &output.stdout);
        assert_eq!(run.window[&watched], (before.clone(), host.line(&conf)));
        let record = &host.records()[0];
        assert_eq!(record.changes[1].outcome, SavedOutcome::Moved);
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(0), "{reply}");
        assert_eq!((host.line(&conf), mark.exists()), (before, false), "{reply}");
    }
}

/// The guards of commands are dear: what one item saw last is what the next one finds, unless it is too long ago.
#[test]
fn what_is_watched_is_looked_at_once_between_two_items() {
    for host in hosts() {
        let (looks, file) = (host.file("looks"), |name: &str| host.file(name).display().to_string());
        let command = |name: &str| {
            let test = format!("echo {name} >>'{}'; [ -e '{}' ]", looks.display(), file(name));
            let run = format!(": >'{}'", file(name));
            Cmd {
                guard: CommandGuard::Unless(test),
                run,
                undo: None,
                user: None,
                timeout: None,
                surroundings: Surroundings::default(),
            }
        };
        let object = |name: &str| ObjectId::new("command", command(name).key());
        let item = |token: &str, name: &str, watched: &[&str]| {
            let (from, to) = (CommandState::Pending.into(), CommandState::Done.into());
            let window = watched.iter().zip(20..).map(|(name, seq)| WindowRow {
                seq,
                object: object(name),
                expected: CommandState::Pending.into(),
                role: "r".to_owned(),
            });
            let mut spec = ItemSpec {
                run: "r1".to_owned(),
                window: window.collect(),
                ..spec(vec![Change { object: object(name), from, to }])
            };
            spec.token = token.to_owned();
            host.item(&spec, &[])
        };
        let late = "sed -i 's/\t.*/\t-9/;q' \"$CV_ROOT/runs/r1/watched\"";
        let body = format!(
            "{}{}{late}\n{}",
            item("first", "a", &["b", "c", "d"]),
            item("second", "b", &["c", "d"]),
            item("third", "c", &["d"])
        );
        let output = host.run("r1", &[], &body);
        let text = String::from_utf8_lossy(&output.stdout);
        let ends: Vec<&str> = text.lines().filter(|l| l.starts_with("status ")).collect();
        assert_eq!(ends, ["status 0", "status 0", "status 0"], "{text}");
        let reply = std::fs::read_to_string(&looks).unwrap();
        let times = |name: &str| reply.lines().filter(|l| *l == name).count();
        // d: before and after the first, after the second, and before and after the third, which found nothing new enough.
        assert_eq!(times("d"), 5, "{reply}");
        // b: twice while it is watched, twice around its own change, and what applies it looks too.
        assert_eq!((times("b"), times("c")), (2 + times("a"), 3 + times("a")), "{reply}");
    }
}
