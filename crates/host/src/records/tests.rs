use super::*;
use converge_ledger::{
    OwnedRecords, Records, RunPurpose, RunRecord, SavedOutcome, parse_owned, parse_records,
};
use converge_objects::{Command as Cmd, CommandState, Guard, PathState, Surroundings, object};
use converge_resource::{Change, ObjectId, State, Step, WayBack};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

mod accounts;
mod attack;
mod cluster_note;
mod forged;
mod group;
mod large;
mod live;
mod not_recorded;
mod owned;
mod retained;
mod secret;
mod switch;
mod together;
mod watchdog;

/// A machine: a directory for its records, one for its files, and the shell that it has.
struct Host {
    dir: tempfile::TempDir,
    argv: Vec<PathBuf>,
    path: Option<PathBuf>,
}

/// `sh`, bash, busybox ash with the tools of this machine, and busybox alone.
fn hosts() -> Vec<Host> {
    ["sh", "bash", "ash", "busybox"]
        .into_iter()
        .map(|name| {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("files")).unwrap();
            std::fs::write(dir.path().join("library"), library()).unwrap();
            let applets = dir.path().join("applets");
            std::fs::create_dir(&applets).unwrap();
            let made = Command::new("busybox").arg("--install").arg("-s").arg(&applets).status();
            assert!(
                made.is_ok_and(|s| s.success()),
                "these tests need busybox: install the package `busybox`"
            );
            // Debian's busybox has no flock; every host needs one.
            let flock = ["/usr/bin/flock", "/bin/flock"].into_iter().find(|f| Path::new(f).exists());
            if !applets.join("flock").exists() {
                symlink(flock.expect("these tests need flock (util-linux)"), applets.join("flock")).unwrap();
            }
            let ash = applets.join("ash");
            match name {
                "ash" => Host { dir, argv: vec![ash], path: None },
                "busybox" => Host { dir, argv: vec![ash], path: Some(applets) },
                other => Host { dir, argv: vec![PathBuf::from(other)], path: None },
            }
        })
        .collect()
}

impl Host {
    fn root(&self) -> PathBuf {
        self.dir.path().join("records")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("files").join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.argv[0]);
        command
            .args(&self.argv[1..])
            .env("CV_ROOT", self.root())
            .env("CV_MIN_FREE", "0")
            .stdin(Stdio::null());
        command.env("CV_POLICY", self.dir.path().join("no-policy"));
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        command
    }

    fn sh(&self, script: &str) -> Output {
        let text = format!(". '{}'\n{script}", self.dir.path().join("library").display());
        self.command().arg("-c").arg(text).output().unwrap()
    }

    /// Opens a run, does this in the session's shell, closes it.
    fn run(&self, id: &str, rolls_back: &[&str], body: &str) -> Output {
        let meta = RunMeta {
            id: id.to_owned(),
            time: "2026-11-21T04:05:06Z".to_owned(),
            operator: "al ice@admin".to_owned(),
            rolls_back: rolls_back.iter().map(|s| (*s).to_owned()).collect(),
            ..RunMeta::default()
        };
        let (open, close) = (open_script(&meta), close_script(id, "finished"));
        self.sh(&format!("{open} || exit $?\n{}\n{body}\n{close}", self.base(id)))
    }

    /// The script that gives the host a new base in this run, as the controller does after a plan.
    fn base(&self, run: &str) -> String {
        let said = self.sh(&owned_script());
        let Some(base) = parse_owned(&String::from_utf8_lossy(&said.stdout)).base else {
            return String::new();
        };
        let (piece, content) = base_piece(run, &base);
        let file = self.dir.path().join("base");
        std::fs::write(&file, content.bytes()).unwrap();
        format!("(\n{}) <'{}'", piece.script, file.display())
    }

    /// The item as the session's loop would run it; `contents` are the bytes that it may read.
    fn item(&self, spec: &ItemSpec, contents: &[&[u8]]) -> String {
        let mut script = String::new();
        for piece in spec.pieces() {
            let input = match &piece.stdin {
                None => PathBuf::from("/dev/null"),
                Some(digest) => {
                    let file = self.dir.path().join(digest.as_str());
                    let bytes = contents.iter().find(|c| Digest::of(c) == *digest);
                    std::fs::write(&file, bytes.copied().unwrap_or_default()).unwrap();
                    file
                }
            };
            script.push_str(&format!("(\n{}) <'{}'\necho \"status $?\"\n", piece.script, input.display()));
        }
        script
    }

    /// One item in a run of its own.
    fn one(&self, id: &str, spec: &mut ItemSpec, contents: &[&[u8]]) -> ItemRun {
        spec.run = id.to_owned();
        let output = self.run(id, &[], &self.item(spec, contents));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let status = text.lines().filter_map(|l| l.strip_prefix("status ")).next_back().unwrap();
        spec.read(status.parse().unwrap(), &output.stdout)
    }

    fn records(&self) -> Vec<RunRecord> {
        let records = self.all_records();
        assert_eq!(records.broken, Vec::<String>::new());
        records.runs
    }

    fn all_records(&self) -> Records {
        let output = self.sh(&list_script());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        parse_records(&String::from_utf8_lossy(&output.stdout)).unwrap()
    }

    fn undo(&self, args: &[&str]) -> (Option<i32>, String) {
        let script = self.dir.path().join("undo.sh");
        std::fs::write(&script, undo_text()).unwrap();
        let output = self.command().arg(&script).args(args).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    fn line(&self, path: &Path) -> State {
        let output = self.sh(&format!("cv_line_path {}", quote(path.to_str().unwrap())));
        State::from_line(&String::from_utf8_lossy(&output.stdout))
    }

    /// The line of a file that is owned as this process makes it.
    fn file_line(&self, bytes: &[u8], mode: u32) -> State {
        let probe = self.dir.path().join("probe");
        std::fs::write(&probe, bytes).unwrap();
        std::fs::set_permissions(&probe, std::fs::Permissions::from_mode(mode)).unwrap();
        let line = self.line(&probe);
        std::fs::remove_file(&probe).unwrap();
        line
    }

    fn change(&self, path: &Path, to: State) -> Change {
        let object = ObjectId::new("path", path.to_str().unwrap());
        Change { object, from: self.line(path), to }
    }
}

/// An item over these changes of one kind.
fn spec(changes: Vec<Change>) -> ItemSpec {
    let kind = object(&changes[0].object.kind).unwrap();
    ItemSpec {
        token: "t0k".to_owned(),
        address: "role/an item".to_owned(),
        steps: kind.steps(&changes.iter().collect::<Vec<_>>()).unwrap(),
        rows: changes.into_iter().zip(1..).map(|(change, seq)| Row { seq, change }).collect(),
        ..ItemSpec::default()
    }
}

#[test]
fn a_full_disk_is_told_in_words_of_its_own() {
    for host in hosts() {
        let root = host.root();
        std::fs::create_dir(&root).unwrap();
        symlink("/dev/full", root.join("journal")).unwrap();
        symlink("/dev/full", root.join("record.new")).unwrap();
        let said =
            host.sh("CV_DIR=$CV_ROOT; cv_journal text; echo $?; cv_write_record $CV_ROOT/record x; echo $?");
        assert_eq!(String::from_utf8_lossy(&said.stdout), "1\n1\n", "{:?}", host.argv);
        let wanted = format!("cannot write {}: is the disk full?\n", root.join("record").display());
        assert_eq!(String::from_utf8_lossy(&said.stderr), wanted, "{:?}", host.argv);
    }
}

#[test]
fn an_item_saves_changes_looks_and_is_recorded() {
    for host in hosts() {
        let path = host.file("it's a file");
        std::fs::write(&path, "old").unwrap();
        let change = host.change(&path, host.file_line(b"new", 0o640));
        let mut item = ItemSpec { sensitive: true, ..spec(vec![change.clone()]) };
        let run = host.one("r1", &mut item, &[b"new"]);
        assert_eq!(run.reading, Reading::Done);
        assert_eq!(run.after, [(change.object.clone(), change.to.clone())]);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let blob = host.root().join("blobs").join(Digest::of(b"old").as_str());
        assert_eq!(std::fs::read(blob).unwrap(), b"old");
        assert_eq!(std::fs::metadata(host.root()).unwrap().mode() & 0o777, 0o700);
        let records = host.records();
        assert_eq!(records.len(), 1);
        assert!(records[0].finished);
        assert_eq!(records[0].operator, "al ice@admin");
        let saved = &records[0].changes[0];
        assert_eq!((&saved.object, &saved.before, &saved.after), (&change.object, &change.from, &change.to));
        assert_eq!((saved.item.as_str(), saved.sensitive), ("role/an item", true));
        assert_eq!(saved.outcome, SavedOutcome::Done);
    }
}

#[test]
fn what_a_way_back_needs_is_kept_with_the_run_and_with_what_is_managed() {
    for host in hosts() {
        let path = host.file("f");
        let change = host.change(&path, host.file_line(b"new", 0o640));
        let way = WayBack { host: "cp\t1".to_owned(), name: "it's h2".to_owned() };
        let owns = vec![(1, "role".to_owned())];
        let mut item = ItemSpec { way_back: Some(way.clone()), owns, ..spec(vec![change]) };
        assert_eq!(host.one("r1", &mut item, &[b"new"]).reading, Reading::Done);
        assert_eq!(host.records()[0].changes[0].way_back.as_ref(), Some(&way));
        assert_eq!(host.owned().things[0].way_back.as_ref(), Some(&way));
        assert!(host.run("r2", &[], "true").status.success());
        assert_eq!(host.folded(), ["r1"]);
        assert_eq!(host.owned().things[0].way_back.as_ref(), Some(&way), "from the base");
    }
}

#[test]
fn a_moved_object_is_refused_and_nothing_of_the_item_is_done() {
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b"));
        let changes =
            vec![host.change(&a, host.file_line(b"1", 0o600)), host.change(&b, host.file_line(b"2", 0o600))];
        std::fs::write(&b, "someone else").unwrap();
        let run = host.one("r1", &mut spec(changes.clone()), &[b"1", b"2"]);
        assert_eq!(run.reading, Reading::Refused(vec![(changes[1].object.clone(), host.line(&b))]));
        assert!(!a.exists());
        assert_eq!(host.records(), []);
    }
}

#[test]
fn several_contents_reach_their_own_steps() {
    for host in hosts() {
        let (a, b, c) = (host.file("a"), host.file("b"), host.file("c"));
        let line = |bytes: &[u8]| host.file_line(bytes, 0o600);
        let changes =
            vec![host.change(&a, line(b"1")), host.change(&b, line(b"2")), host.change(&c, line(b"1"))];
        let run = host.one("r1", &mut spec(changes), &[b"1", b"2"]);
        assert_eq!(run.reading, Reading::Done, "{}", run.output);
        assert_eq!([a, b, c].map(|p| std::fs::read(p).unwrap()), [b"1", b"2", b"1"]);
        assert!(!host.root().join("runs/r1/stage").exists());
    }
}

#[test]
fn what_cannot_be_saved_is_not_changed() {
    for host in hosts() {
        let path = host.file("a");
        std::fs::write(&path, "old").unwrap();
        let change = host.change(&path, host.file_line(b"new", 0o600));
        let full = ("CV_MIN_FREE".to_owned(), "101".to_owned());
        let mut item = ItemSpec { settings: vec![full], ..spec(vec![change.clone()]) };
        let run = host.one("r1", &mut item, &[b"new"]);
        assert!(matches!(&run.reading, Reading::NotSaved(why) if why.contains("101 %")), "{run:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        let large = ("CV_SAVE_LIMIT".to_owned(), "2".to_owned());
        let mut item = ItemSpec { settings: vec![large], ..spec(vec![change]) };
        let run = host.one("r2", &mut item, &[b"new"]);
        assert_eq!(run.reading, Reading::Done);
        assert_eq!(run.unsaved.len(), 1);
        assert!(host.records()[0].changes[0].unsaved.as_ref().unwrap().contains("above the limit"));
        let (status, said) = host.undo(&[]);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("cannot be undone"), "{said}");
    }
}

#[test]
fn failures_say_which_step_and_what_is_left() {
    for host in hosts() {
        let path = host.file("a");
        let change = host.change(&path, host.file_line(b"new", 0o600));
        let failing =
            Step::new("fail", format!("echo half >{}; echo oh no; exit 3", quote(path.to_str().unwrap())));
        let mut item = ItemSpec { steps: vec![failing], ..spec(vec![change.clone()]) };
        let run = host.one("r1", &mut item, &[]);
        assert_eq!((&run.reading, run.step), (&Reading::Failed, Some(1)));
        assert!(run.output.contains("oh no"));
        assert_eq!(run.after, [(change.object.clone(), host.line(&path))]);
        let other = Step::new("off", format!("printf other >{}", quote(path.to_str().unwrap())));
        let change = host.change(&path, host.file_line(b"new", 0o600));
        let run = host.one("r2", &mut ItemSpec { steps: vec![other], ..spec(vec![change.clone()]) }, &[]);
        assert_eq!(run.reading, Reading::Off(vec![(change.object.clone(), host.line(&path))]));
        let forged = Step::new("lie", "printf 'cv:other\\tnow\\t1\\tabsent\\n'; exit 70");
        let change = host.change(&path, host.file_line(b"new", 0o600));
        let run = host.one("r3", &mut ItemSpec { steps: vec![forged], ..spec(vec![change]) }, &[]);
        assert_eq!(run.reading, Reading::Refused(Vec::new()));
        assert!(run.output.contains("cv:other"));
        let outcomes: Vec<_> = host.records().iter().map(|r| r.changes[0].outcome).collect();
        assert_eq!(outcomes, [SavedOutcome::Failed, SavedOutcome::Off, SavedOutcome::Failed]);
        assert!(!host.records()[2].changes[0].may_have_happened());
    }
}

#[test]
fn what_foreign_code_moves_is_told_saved_and_stops_the_stretch() {
    for host in hosts() {
        let (mark, conf) = (host.file("mark"), host.file("conf"));
        std::fs::write(&conf, "before").unwrap();
        let command = Cmd {
            guard: Guard::Creates(mark.to_str().unwrap().to_owned()),
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
        let (status, said) = host.undo(&[]);
        assert_eq!(status, Some(0), "{said}");
        assert_eq!((host.line(&conf), mark.exists()), (before, false), "{said}");
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
                guard: Guard::Unless(test),
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
        let said = std::fs::read_to_string(&looks).unwrap();
        let times = |name: &str| said.lines().filter(|l| *l == name).count();
        // d: before and after the first, after the second, and before and after the third, which found nothing new enough.
        assert_eq!(times("d"), 5, "{said}");
        // b: twice while it is watched, twice around its own change, and what applies it looks too.
        assert_eq!((times("b"), times("c")), (2 + times("a"), 3 + times("a")), "{said}");
    }
}

#[test]
fn one_run_at_a_time_and_the_lock_says_whose() {
    for host in hosts() {
        let meta =
            |id: &str| RunMeta { id: id.to_owned(), operator: "bob b".to_owned(), ..RunMeta::default() };
        // The holder says `ready`; each program that it starts from then on is there for a moment.
        let (library, end) = (host.dir.path().join("library"), host.file("end"));
        let (dir, file) = (host.dir.path().display(), end.display());
        let wait = format!("while [ -d '{dir}' ] && [ ! -e '{file}' ]; do sleep 0.9; done");
        let holder = format!(". '{}'\n{}\necho ready\n{wait}", library.display(), open_script(&meta("r1")));
        let mut holder_shell = host.command();
        holder_shell.arg("-c").arg(holder).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = holder_shell.spawn().unwrap();
        let mut said = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut said)
            .unwrap();
        assert_eq!(said, "ready\n");
        let second = host.sh(&open_script(&meta("r2")));
        assert_eq!(second.status.code(), Some(LOCKED));
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(said.contains("locked by run r1 of bob b"), "{said}");
        let by = format!("; held by process {} (", child.id());
        assert!(
            said.contains(&by) && said.matches("process ").count() == 1,
            "only what stays is named: {said}"
        );
        std::fs::write(end, "").unwrap();
        child.wait().unwrap();
        assert!(host.sh(&open_script(&meta("r2"))).status.success());
        std::fs::write(host.root().join("version"), "99\n").unwrap();
        let newer = host.sh(&open_script(&meta("r3")));
        assert_eq!(newer.status.code(), Some(UNFIT));
        assert!(String::from_utf8_lossy(&newer.stderr).contains("format '99'"));
        assert_eq!(host.sh(&list_script()).status.code(), Some(1));
    }
}

#[test]
fn undo_leaves_alone_what_others_and_later_runs_changed() {
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b"));
        let to = |p: &PathBuf, bytes: &[u8]| host.change(p, host.file_line(bytes, 0o600));
        host.one("001", &mut spec(vec![to(&a, b"1"), to(&b, b"1")]), &[b"1"]);
        host.one("002", &mut spec(vec![to(&a, b"2")]), &[b"2"]);
        let (status, said) = host.undo(&["001"]);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("the later run 002 changed it too"), "{said}");
        assert!(!b.exists() && a.exists(), "{said}");
        std::fs::write(&a, "mine").unwrap();
        let (status, said) = host.undo(&[]);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("LEFT ALONE") && said.contains("someone else"), "{said}");
        assert_eq!(std::fs::read(&a).unwrap(), b"mine");
        assert!(host.undo(&["--list"]).1.contains("002  1 changes"));
        let (status, said) = host.undo(&["--force", "002"]);
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(std::fs::read(&a).unwrap(), b"1");
        let (status, said) = host.undo(&[]);
        assert_eq!(status, Some(0), "{said}");
        assert!(!a.exists() && !b.exists(), "{said}");
        assert!(host.undo(&[]).1.contains("no run to undo"));
        let records = host.records();
        assert!(records.iter().filter(|r| r.id.len() == 3).all(|r| r.rolled_back_by.is_some()));
        assert!(records.iter().filter(|r| !r.id.len() == 3).all(|r| r.attempts.is_some()));
        // In the order in which they were made.
        let attempts: Vec<_> = records.iter().filter_map(|r| r.attempts.as_deref()).collect();
        assert_eq!(attempts, ["001", "002", "001"]);
        assert_eq!(host.undo(&["nothing"]).0, Some(64));
        assert_eq!(host.undo(&["--bogus"]).0, Some(64));
    }
}

#[test]
fn runs_are_ordered_by_the_count_of_the_host_and_one_wrong_clock_drops_none() {
    // 2026-02-10, a year before, a year after, 2026-02-11.
    let ids = [
        "019c44d8-8400-7000-8000-000000000001",
        "01957d18-0400-7000-8000-000000000002",
        "01a40a28-1000-7000-8000-000000000003",
        "019c49fe-e000-7000-8000-000000000004",
    ];
    for host in hosts() {
        let path = host.file("a");
        for id in ids {
            let change = host.change(&path, host.file_line(id.as_bytes(), 0o600));
            host.one(id, &mut spec(vec![change]), &[id.as_bytes()]);
        }
        let kept: Vec<(String, Option<u64>)> = host.records().into_iter().map(|r| (r.id, r.seq)).collect();
        let wanted: Vec<(String, Option<u64>)> =
            ids.iter().zip(1..).map(|(id, seq)| ((*id).to_owned(), Some(seq))).collect();
        assert_eq!(kept, wanted);
        // The newest one goes back first, whatever its ID says.
        let (status, said) = host.undo(&[]);
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), ids[2], "{said}");
        // Both clocks say that it is too old.
        let meta = host.root().join("runs").join(ids[1]).join("meta");
        let text = std::fs::read_to_string(&meta).unwrap();
        let opened = text.lines().find_map(|l| l.strip_prefix("opened\t")).unwrap();
        let old: i64 = opened.parse::<i64>().unwrap() - 31 * 86400;
        std::fs::write(&meta, text.replace(&format!("opened\t{opened}"), &format!("opened\t{old}"))).unwrap();
        let change = host.change(&path, host.file_line(b"last", 0o600));
        host.one("019c4f25-3c00-7000-8000-000000000005", &mut spec(vec![change]), &[b"last"]);
        let left: Vec<String> =
            host.records().into_iter().map(|r| r.id).filter(|id| ids.contains(&id.as_str())).collect();
        assert_eq!(left, [ids[0], ids[2], ids[3]]);
    }
}

#[test]
fn records_of_older_formats_come_before_all_that_are_numbered() {
    for host in hosts() {
        let path = host.file("a");
        for id in ["b-old", "a-old"] {
            let change = host.change(&path, host.file_line(id.as_bytes(), 0o600));
            host.one(id, &mut spec(vec![change]), &[id.as_bytes()]);
        }
        // As format 2 has written them: by their IDs.
        for id in ["a-old", "b-old"] {
            let meta = host.root().join("runs").join(id).join("meta");
            let text = std::fs::read_to_string(&meta).unwrap();
            let old: Vec<&str> = text.lines().filter(|l| !l.starts_with("seq\t")).collect();
            std::fs::write(&meta, format!("{}\n", old.join("\n")).replace("version\t3", "version\t2"))
                .unwrap();
        }
        std::fs::write(host.root().join("version"), "2\n").unwrap();
        assert_eq!(host.records().len(), 2);
        let change = host.change(&path, host.file_line(b"new", 0o600));
        host.one("0-new", &mut spec(vec![change]), &[b"new"]);
        let order: Vec<String> = host.records().into_iter().map(|r| r.id).collect();
        assert_eq!(order, ["a-old", "b-old", "0-new"]);
        assert_eq!(std::fs::read_to_string(host.root().join("version")).unwrap(), "4\n");
    }
}

#[test]
fn damage_to_one_run_hides_no_other() {
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b"));
        let to = |p: &PathBuf, bytes: &[u8]| host.change(p, host.file_line(bytes, 0o600));
        host.one("001", &mut spec(vec![to(&a, b"1")]), &[b"1"]);
        host.one("002", &mut spec(vec![to(&b, b"2")]), &[b"2"]);
        let garble = |file: &str, with: &str| {
            let file = host.root().join("runs/001").join(file);
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, format!("{with}{text}")).unwrap();
        };
        garble("meta", "\u{1}\u{2}garbage\n");
        garble("journal", "run\tevil\nown\tx\nbegin\t7\nrubbish\n");
        let _old = std::fs::remove_file(host.root().join("owned"));
        let fifo = Command::new("mkfifo").arg(host.root().join("owned")).status().unwrap();
        assert!(fifo.success());
        std::fs::remove_file(host.root().join("version")).unwrap();
        assert!(Command::new("mkfifo").arg(host.root().join("version")).status().unwrap().success());
        let read = host.all_records();
        let ids: Vec<&str> = read.runs.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(ids, ["001", "002"]);
        assert_eq!(read.runs[0].changes.len(), 1, "what is whole is read");
        assert!(
            read.broken.iter().any(|b| b.contains("run 001 is damaged: 5 of its lines")),
            "{:?}",
            read.broken
        );
        assert!(read.broken.iter().any(|b| b.contains("/owned is no regular file")), "{:?}", read.broken);
        let owned = parse_owned(&String::from_utf8_lossy(&host.sh(&owned_script()).stdout));
        assert!(owned.broken.iter().any(|b| b.contains("/version is no regular file")), "{:?}", owned.broken);
        // Work goes on, and both go back.
        host.one("003", &mut spec(vec![to(&b, b"3")]), &[b"3"]);
        for (run, left) in [("003", "2"), ("002", "")] {
            let (status, said) = host.undo(&[]);
            assert!(status == Some(0) && said.contains(&format!("undoing run {run}")), "{said}");
            assert_eq!(std::fs::read_to_string(&b).unwrap_or_default(), left);
        }
        let (status, said) = host.undo(&[]);
        assert_eq!(status, Some(0), "{said}");
        assert!(!a.exists(), "{said}");
    }
}

#[test]
fn undo_passes_over_what_is_as_before_and_never_tries_one_for_ever() {
    for host in hosts() {
        let a = host.file("a");
        let to = |bytes: &[u8]| host.change(&a, host.file_line(bytes, 0o600));
        host.one("one", &mut spec(vec![to(b"1")]), &[b"1"]);
        host.one("two", &mut spec(vec![to(b"2")]), &[b"2"]);
        // A user reverts what was before `two`.
        std::fs::write(&a, "1").unwrap();
        let (status, said) = host.undo(&["one"]);
        assert_eq!(status, Some(0), "{said}");
        assert!(!a.exists(), "{said}");
        std::fs::write(&a, "1").unwrap();
        std::fs::set_permissions(&a, std::fs::Permissions::from_mode(0o600)).unwrap();
        let (status, said) = host.undo(&[]);
        assert!(status == Some(0) && said.contains("no run to undo"), "{said}");
    }
}

#[test]
fn an_account_stays_while_a_later_run_has_files_that_belong_to_it() {
    for host in hosts() {
        let me = host.file_line(b"x", 0o600).words().unwrap();
        let (user, path) = (me[2].clone(), host.file("a"));
        // A run that made the account of whoever runs this test, as its record says.
        let user_now =
            String::from_utf8_lossy(&host.sh(&format!("cv_see_user {user} | cut -d ' ' -f 2-")).stdout)
                .trim()
                .to_owned();
        let journal = format!(
            "begin\t1\tuser\t{user}\tabsent\t{user_now}\tr/user\t-\ndone\t1\t{user_now}\nclose\tfinished\t1\n"
        );
        host.one("002", &mut spec(vec![host.change(&path, host.file_line(b"x", 0o600))]), &[b"x"]);
        let run = host.root().join("runs/001");
        std::fs::create_dir(&run).unwrap();
        std::fs::write(run.join("meta"), "version\t3\nid\t001\nseq\t0\n").unwrap();
        std::fs::write(run.join("journal"), journal).unwrap();
        let (status, said) = host.undo(&["001"]);
        assert_eq!(status, Some(1), "{said}");
        assert!(said.contains("the later run 002 made what belongs to it: undo that one first"), "{said}");
    }
}

#[test]
fn undo_sh_is_installed_once_and_whole() {
    for host in hosts() {
        let (piece, content) = undo_piece();
        let text = host.dir.path().join("text");
        std::fs::write(&text, content.bytes()).unwrap();
        let install = format!("({}) <'{}'", piece.script, text.display());
        let output = host.run("r1", &[], &format!("{install}\n{install}"));
        assert!(output.status.success());
        assert_eq!(std::fs::read(host.root().join("undo.sh")).unwrap(), content.bytes());
        std::fs::write(&text, b"cut off").unwrap();
        assert!(host.sh(&format!("rm \"$CV_ROOT/undo.sh\"; {install}")).status.code() != Some(0));
        assert!(!host.root().join("undo.sh").exists());
    }
}

#[test]
fn a_run_that_was_cut_off_is_unknown_and_can_be_undone() {
    for host in hosts() {
        let path = host.file("a");
        let mut item = spec(vec![host.change(&path, host.file_line(b"new", 0o600))]);
        item.run = "r1".to_owned();
        item.steps[0].script.push_str("\nkill -9 $$");
        let meta = RunMeta { id: "r1".to_owned(), ..RunMeta::default() };
        let output = host.sh(&format!("{}\n{}", open_script(&meta), host.item(&item, &[b"new"])));
        assert!(!output.status.success());
        let journal = host.root().join("runs/r1/journal");
        let mut text = std::fs::read_to_string(&journal).unwrap();
        // Give the orphaned rest of the item's shell no say: only what was on disk at the kill counts.
        text.truncate(text.find('\n').unwrap() + 1);
        std::fs::write(&journal, format!("{text}done\t1\tfile 6")).unwrap();
        let records = host.records();
        assert!(!records[0].finished);
        assert_eq!(records[0].changes[0].outcome, SavedOutcome::Unknown);
        assert!(path.exists());
        let (status, said) = host.undo(&[]);
        assert_eq!(status, Some(0), "{said}");
        assert!(!path.exists(), "{said}");
    }
}

#[test]
fn undo_goes_on_with_what_a_rollback_has_left() {
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b"));
        let to = |p: &PathBuf| host.change(p, host.file_line(b"1", 0o600));
        host.one("001", &mut spec(vec![to(&a), to(&b)]), &[b"1"]);
        // `converge rollback` reverts the one, and says that it has set out for the other too.
        let mut back = ItemSpec {
            run: "002".to_owned(),
            ..spec(vec![Change {
                object: ObjectId::new("path", a.to_str().unwrap()),
                from: host.line(&a),
                to: State::absent(),
            }])
        };
        back.address = "r/a".to_owned();
        let planned = |items: &[&str]| RunMeta {
            id: "002".to_owned(),
            rolls_back: vec!["001".to_owned()],
            purpose: RunPurpose::Rollback(Vec::new()),
            planned: items.iter().map(|i| (*i).to_owned()).collect(),
            ..RunMeta::default()
        };
        let open = open_script(&planned(&["r/a", "r/b"]));
        let text =
            format!("{open} || exit $?\n{}\n{}", host.item(&back, &[]), close_script("002", "finished"));
        assert!(host.sh(&text).status.success());
        assert!(!a.exists() && b.exists());
        assert!(host.undo(&["--list"]).1.contains("001  2 changes"));
        let (status, said) = host.undo(&[]);
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains("undoing run 001") && said.contains("as before"), "{said}");
        assert!(!a.exists() && !b.exists(), "{said}");
        assert!(host.undo(&[]).1.contains("no run to undo"));
        let records = host.records();
        assert!(records[0].rolled_back_by.is_some() && !records[0].rolled_back_in_part, "{records:?}");
        // The run that has undone it is undone by name: then it counts as made again.
        let undoer = records[2].id.clone();
        assert_eq!(host.undo(&[&undoer]).0, Some(0));
        assert!(!a.exists() && b.exists());
        assert!(host.undo(&["--list"]).1.contains("001  2 changes"));
    }
}

#[derive(Clone, Debug)]
enum Shape {
    Absent,
    File(Vec<u8>, u32),
    Dir(u32),
    Link(String),
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Absent),
        (proptest::collection::vec(any::<u8>(), 0..40), prop_oneof![Just(0o600), Just(0o4755)])
            .prop_map(|(bytes, mode)| Shape::File(bytes, mode)),
        Just(Shape::Dir(0o1777)),
        // Some lead to another path of the tree, or to themselves.
        prop_oneof!["[ -~☃]{1,9}", "[ab./]{1,3}"].prop_map(Shape::Link),
    ]
}

fn build(shape: &Shape, path: &Path) {
    let set = |mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    match shape {
        Shape::Absent => {}
        Shape::File(bytes, mode) => {
            std::fs::write(path, bytes).unwrap();
            set(*mode);
        }
        Shape::Dir(mode) => {
            std::fs::create_dir(path).unwrap();
            set(*mode);
        }
        Shape::Link(target) => symlink(target, path).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn forward_then_undo_restores_every_path(
        tree in proptest::collection::btree_map(
            prop_oneof!["[a-z '\"é]{1,6}", "[ab]"],
            proptest::collection::vec(shape(), 2..4), 1..4)
    ) {
        for host in hosts() {
            let rounds = tree.values().map(Vec::len).max().unwrap_or(0);
            let mut lines: BTreeMap<&String, Vec<State>> = BTreeMap::new();
            for (name, shapes) in &tree {
                for shape in shapes {
                    // Each wanted line is taken from a real path beside the tree.
                    let model = host.dir.path().join("model");
                    build(shape, &model);
                    lines.entry(name).or_default().push(host.line(&model));
                    if model.is_symlink() || model.is_file() { std::fs::remove_file(&model).unwrap(); }
                    if model.is_dir() { std::fs::remove_dir(&model).unwrap(); }
                }
                build(&shapes[0], &host.file(name));
            }
            let contents: Vec<&[u8]> = tree.values().flatten().filter_map(|s| match s {
                Shape::File(bytes, _) => Some(bytes.as_slice()),
                _ => None,
            }).collect();
            // One run of several items, each over all paths; the second edit of a path sees the first one's result.
            let mut body = String::new();
            let mut seq = 0;
            for round in 1..rounds {
                let changes: Vec<Change> = lines.iter().filter_map(|(name, lines)| {
                    let (from, to) = (lines.get(round - 1)?, lines.get(round)?);
                    let object = ObjectId::new("path", host.file(name).to_str().unwrap());
                    (from != to).then(|| Change { object, from: from.clone(), to: to.clone() })
                }).collect();
                if changes.is_empty() { continue; }
                let mut item = ItemSpec { run: "r1".to_owned(), ..spec(changes) };
                for row in &mut item.rows { seq += 1; row.seq = seq; }
                body.push_str(&host.item(&item, &contents));
            }
            let output = host.run("r1", &[], &body);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            prop_assert!(said.lines().filter(|l| l.starts_with("status")).all(|l| l == "status 0"), "{said}");
            for (name, lines) in &lines {
                prop_assert_eq!(&host.line(&host.file(name)), lines.last().unwrap());
            }
            let (status, said) = host.undo(&[]);
            prop_assert_eq!(status, Some(0), "{}", said);
            for (name, lines) in &lines {
                prop_assert_eq!(&host.line(&host.file(name)), &lines[0], "{}", said);
                prop_assert!(PathState::try_from(lines[0].clone()).is_ok());
            }
        }
    }
}

#[test]
fn what_is_no_file_where_a_record_should_be_is_refused_and_never_waited_for() {
    for host in hosts() {
        let open = |id: &str| host.sh(&open_script(&RunMeta { id: id.to_owned(), ..RunMeta::default() }));
        assert!(open("r1").status.success());
        let fifo = |path: &str| {
            let path = host.root().join(path);
            drop(std::fs::remove_file(&path));
            let made = Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(made.success());
        };
        fifo("lock");
        let refused = open("r2");
        assert_eq!(refused.status.code(), Some(UNFIT));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("lock is no regular file"), "{:?}: {said}", host.argv);
        std::fs::remove_file(host.root().join("lock")).unwrap();
        // The number and the project of such a run are not known: it is none.
        std::fs::create_dir_all(host.root().join("runs/r3")).unwrap();
        std::fs::write(host.root().join("runs/r3/journal"), "begin\t1\tpath\t/x\tabsent\tdir\tr/x\t-\n")
            .unwrap();
        fifo("runs/r3/meta");
        // Zeros are no journal.
        std::fs::create_dir_all(host.root().join("runs/r0")).unwrap();
        std::fs::write(host.root().join("runs/r0/journal"), [0; 5000]).unwrap();
        let said = String::from_utf8(host.sh("cv_broken").stdout).unwrap();
        let broken: Vec<String> =
            said.lines().filter_map(|l| converge_resource::decode_field(l.split_once('\t')?.1)).collect();
        let [meta, journal] = broken.as_slice() else { panic!("{:?}: {broken:?}", host.argv) };
        assert!(meta.ends_with("runs/r3/meta is no regular file: it is not considered"), "{meta}");
        assert!(journal.contains("runs/r0/journal holds no text: it is damaged"), "{journal}");
        let order = host.sh("cv_order");
        assert!(!String::from_utf8_lossy(&order.stdout).contains("r3"), "{:?}", host.argv);
        assert!(open("r4").status.success());
    }
}

/// A saved content that is not what its name says: a content that comes again is saved anew, and is never taken from there.
#[test]
fn a_damaged_content_is_saved_anew_and_never_brought_back() {
    for host in hosts() {
        let path = host.file("a");
        std::fs::write(&path, "old").unwrap();
        let garbage = |bytes: &[u8], with: &str| {
            let blobs = host.root().join("blobs");
            std::fs::create_dir_all(&blobs).unwrap();
            std::fs::write(blobs.join(Digest::of(bytes).as_str()), with).unwrap();
        };
        // A damaged blob is no copy of the old content, nor of the new one.
        garbage(b"old", "");
        garbage(b"new", "garbage");
        let change = host.change(&path, host.file_line(b"new", 0o600));
        let run = host.one("r1", &mut spec(vec![change]), &[b"new"]);
        assert_eq!(run.reading, Reading::Done, "{:?}: {}", host.argv, run.output);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let (status, said) = host.undo(&[]);
        assert_eq!((status, std::fs::read(&path).unwrap().as_slice()), (Some(0), &b"old"[..]), "{said}");
        // Damaged after it was saved: the file stays as it is, and what is wrong is named.
        let change = host.change(&path, host.file_line(b"new", 0o600));
        assert_eq!(host.one("r2", &mut spec(vec![change]), &[b"new"]).reading, Reading::Done);
        garbage(b"old", "garbage");
        let (status, said) = host.undo(&[]);
        assert_eq!((status, std::fs::read(&path).unwrap().as_slice()), (Some(1), &b"new"[..]), "{said}");
        assert!(said.contains("is damaged: it is not used"), "{:?}: {said}", host.argv);
    }
}
