use super::*;
use converge_ledger::{
    OwnedRecords, Records, RunPurpose, RunRecord, SavedOutcome, parse_owned, parse_records,
};
use converge_objects::{Command as Cmd, CommandGuard, CommandState, PathState, Surroundings, object};
use converge_resource::{Change, NodeRemoval, ObjectId, State, Step};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

mod accounts;
mod attack;
mod begun;
mod cluster_note;
mod foreign;
mod forged;
mod group;
mod group_changes;
mod large;
mod live;
mod not_recorded;
mod order;
mod owned;
mod places;
mod reading;
mod retained;
mod round_trip;
mod secret;
mod switch;
mod together;
mod undo;
mod watchdog;

/// A machine: a directory for its records, one for its files, and the shell that it has.
struct FakeHost {
    dir: tempfile::TempDir,
    argv: Vec<PathBuf>,
    path: Option<PathBuf>,
}

/// The shells of a test: `sh`, and bash or busybox alone by turns, since each takes minutes; or those that `CONVERGE_SHELLS` names. `ash` is busybox's
/// shell with the tools of this machine.
fn hosts() -> Vec<FakeHost> {
    let wanted = std::env::var("CONVERGE_SHELLS").unwrap_or_else(|_| {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        if name.len().is_multiple_of(2) { "sh,bash" } else { "sh,busybox" }.to_owned()
    });
    let is_wanted = |name: &&str| wanted.split(',').any(|wanted| wanted == *name);
    let names: Vec<&str> = ["sh", "bash", "ash", "busybox"].into_iter().filter(is_wanted).collect();
    assert!(!names.is_empty(), "CONVERGE_SHELLS names none of: sh, bash, ash, busybox");
    names
        .into_iter()
        .map(|name| {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("files")).unwrap();
            std::fs::write(dir.path().join("library"), library(true)).unwrap();
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
                "ash" => FakeHost { dir, argv: vec![ash], path: None },
                "busybox" => FakeHost { dir, argv: vec![ash], path: Some(applets) },
                other => FakeHost { dir, argv: vec![PathBuf::from(other)], path: None },
            }
        })
        .collect()
}

impl FakeHost {
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
        let (open, close) = (open_script(&meta), close_script(id, RunEnd::Finished));
        self.sh(&format!("{open} || exit $?\n{}\n{body}\n{close}", self.base(id)))
    }

    /// The script that gives the host a new base in this run, as the controller does after a plan.
    fn base(&self, run: &str) -> String {
        let reply = self.sh(&owned_script());
        let Some(base) = parse_owned(&String::from_utf8_lossy(&reply.stdout)).base else {
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
fn a_full_disk_is_reported_in_words_of_its_own() {
    for host in hosts() {
        let root = host.root();
        std::fs::create_dir(&root).unwrap();
        symlink("/dev/full", root.join("journal")).unwrap();
        symlink("/dev/full", root.join("record.new")).unwrap();
        let reply =
            host.sh("CV_DIR=$CV_ROOT; cv_journal text; echo $?; cv_write_record $CV_ROOT/record x; echo $?");
        assert_eq!(String::from_utf8_lossy(&reply.stdout), "1\n1\n", "{:?}", host.argv);
        let wanted = format!("cannot write {}: is the disk full?\n", root.join("record").display());
        assert_eq!(String::from_utf8_lossy(&reply.stderr), wanted, "{:?}", host.argv);
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
fn what_a_rollback_needs_is_saved_with_the_run_and_with_what_is_managed() {
    for host in hosts() {
        let path = host.file("f");
        let change = host.change(&path, host.file_line(b"new", 0o640));
        let way = NodeRemoval { host: "cp\t1".to_owned(), name: "it's h2".to_owned() };
        let owns = vec![(1, "role".to_owned())];
        let mut item = ItemSpec { node_removal: Some(way.clone()), owns, ..spec(vec![change]) };
        assert_eq!(host.one("r1", &mut item, &[b"new"]).reading, Reading::Done);
        assert_eq!(host.records()[0].changes[0].node_removal.as_ref(), Some(&way));
        assert_eq!(host.owned().things[0].node_removal.as_ref(), Some(&way));
        assert!(host.run("r2", &[], "true").status.success());
        assert_eq!(host.folded(), ["r1"]);
        assert_eq!(host.owned().things[0].node_removal.as_ref(), Some(&way), "from the base");
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
fn several_contents_arrive_at_their_own_steps() {
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
        assert_eq!(run.no_snapshot.len(), 1);
        assert!(host.records()[0].changes[0].no_snapshot.as_ref().unwrap().contains("above the limit"));
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(1), "{reply}");
        assert!(reply.contains("cannot be undone"), "{reply}");
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
        let mut reply = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut reply)
            .unwrap();
        assert_eq!(reply, "ready\n");
        let second = host.sh(&open_script(&meta("r2")));
        assert_eq!(second.status.code(), Some(LOCKED));
        let reply = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(reply.contains("locked by run r1 of bob b"), "{reply}");
        let by = format!("; held by process {} (", child.id());
        assert!(
            reply.contains(&by) && reply.matches("process ").count() == 1,
            "only what stays is named: {reply}"
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
