//! Plain files that are changed and removed together.

use super::group::{SAFE, made};
use super::*;

/// Files that are there (with mode 644), and what becomes of each: `None` is absent. The same text twice: only its mode changes, to 640.
fn changes(host: &FakeHost, files: &[(&str, Option<&str>, Option<&str>)]) -> Vec<(ItemSpec, PlainFile)> {
    let one = |(seq, (name, before, after)): (u32, &(&str, Option<&str>, Option<&str>))| {
        let path = host.file(name);
        if let Some(text) = before {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let to = after.map_or_else(State::absent, |text| host.file_line(text.as_bytes(), 0o640));
        let mut spec = spec(vec![host.change(&path, to)]);
        spec.run = "r1".to_owned();
        spec.address = format!("role/{name}");
        spec.rows[0].seq = seq;
        let file = spec.plain_file(after.map(str::as_bytes)).unwrap();
        (spec, file)
    };
    (1..).zip(files).map(one).collect()
}

/// Every file of the host with its mode and content.
fn tree(host: &FakeHost) -> BTreeMap<String, (u32, String)> {
    let entries = std::fs::read_dir(host.file("")).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let mode = entry.metadata().unwrap().mode() & 0o7777;
            let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
            (entry.file_name().to_string_lossy().into_owned(), (mode, text))
        })
        .collect()
}

const MIXED: &[(&str, Option<&str>, Option<&str>)] = &[
    ("changed", Some("old\n"), Some("new\n")),
    ("no newline", Some("old\nolder"), Some("n\newer")),
    ("gone", Some("away \\ $HOME\n\n"), None),
    ("mode only", Some("kept\n"), Some("kept\n")),
    ("made", None, Some("fresh\n")),
    ("empty", Some(""), Some("no more\n")),
    ("binary", Some("a\0b\u{1}\n"), Some("text\n")),
    ("twin", Some("old\n"), Some("new\n")),
];

#[test]
fn files_are_changed_and_removed_together_and_undo_gives_back_every_byte() {
    for host in hosts() {
        let members = changes(&host, MIXED);
        let before = tree(&host);
        let (status, runs) = made(&host, &members, "");
        assert_eq!(status, "0", "{:?} {runs:?}", host.argv);
        assert!(
            runs.iter().all(|run| run.as_ref().is_some_and(|run| run.reading == Reading::Done)),
            "{runs:?}"
        );
        let wanted = MIXED
            .iter()
            .filter_map(|(name, _, after)| Some(((*name).to_owned(), (0o640, (*after)?.to_owned()))));
        assert_eq!(tree(&host), wanted.collect());
        let outcomes: Vec<_> = host.records()[0].changes.iter().map(|c| c.outcome).collect();
        assert_eq!(outcomes, [SavedOutcome::Done; 8]);
        for (_, before, _) in MIXED {
            let Some(text) = before else { continue };
            let blob = host.root().join("blobs").join(Digest::of(text.as_bytes()).as_str());
            assert_eq!(std::fs::read(&blob).unwrap(), text.as_bytes(), "{:?}", host.argv);
            assert_eq!(std::fs::metadata(&blob).unwrap().mode() & 0o777, 0o600);
        }
        // The rollback, together too: the host has the contents.
        let back: Vec<_> = (1..)
            .zip(&members)
            .map(|(seq, (there, _))| {
                let Change { object, from, to } = there.rows[0].change.clone();
                let mut back = spec(vec![Change { object, from: to, to: from }]);
                back.run = "r2".to_owned();
                back.rows[0].seq = seq;
                back.settings = vec![("CV_FROM_RUN".to_owned(), "r1".to_owned())];
                let file = back.plain_file(None).unwrap();
                (back, file)
            })
            .collect();
        let refs: Vec<_> = back.iter().map(|(spec, file)| (spec, file)).collect();
        let piece = group_piece("t0k", &refs);
        let reply =
            host.run("r2", &["r1"], &format!("{SAFE}\n(\n{}) </dev/null\necho \"status $?\"", piece.script));
        let reply = String::from_utf8_lossy(&reply.stdout).into_owned();
        assert!(reply.contains("status 0"), "{:?} {reply}", host.argv);
        assert_eq!(tree(&host), before, "{:?}", host.argv);
        let (code, reply) = host.undo(&["r2"]);
        assert_eq!(code, Some(0), "{reply}");
        let (code, reply) = host.undo(&["r1"]);
        assert_eq!(code, Some(0), "{reply}");
        assert_eq!(tree(&host), before, "{:?} {reply}", host.argv);
    }
}

#[test]
fn what_somebody_else_touches_between_the_look_and_its_turn_is_left_to_an_item_of_its_own() {
    for host in hosts() {
        // It is written to, replaced, touched, removed, or made.
        for (name, touch) in [
            ("old", "echo theirs >"),
            ("old", "rm -f B; printf old >"),
            ("old", "touch "),
            ("old", "rm -f "),
            ("new", "echo theirs >"),
        ] {
            let file = quote(host.file("b").to_str().unwrap());
            let goes = touch == "rm -f ";
            let touch = format!("sync() {{ {}{file}; }}", touch.replace('B', &file));
            let b = if name == "old" { Some("old") } else { None };
            let members =
                changes(&host, &[("a", Some("1"), Some("2")), ("b", b, Some("new")), ("c", Some("3"), None)]);
            let (status, runs) = made(&host, &members, &touch);
            assert_eq!(status, "73", "{touch} {runs:?}");
            let done: Vec<bool> = runs.iter().map(Option::is_some).collect();
            assert_eq!(done, [true, false, false], "{touch}");
            let theirs = tree(&host).remove("b");
            assert_eq!(theirs.is_none(), goes, "{touch}");
            assert_ne!(theirs.as_ref().map(|(_, text)| text.as_str()), Some("new"), "{touch}");
            assert_eq!(tree(&host).len(), if theirs.is_some() { 3 } else { 2 }, "{touch}: {:?}", tree(&host));
            let did: Vec<bool> = host.records()[0]
                .changes
                .iter()
                .map(converge_ledger::SavedChange::may_have_happened)
                .collect();
            assert_eq!(did, [true, false, false], "{touch}");
            let (code, reply) = host.undo(&[]);
            assert_eq!(code, Some(0), "{touch} {reply}");
            assert_eq!(tree(&host).remove("b"), theirs, "{reply}");
            assert_eq!(tree(&host)["a"].1, "1", "{reply}");
            let _ = std::fs::remove_file(host.file("b"));
            std::fs::remove_dir_all(host.root()).unwrap();
        }
    }
}

#[test]
fn a_full_disk_leaves_what_is_after_it_and_what_cannot_be_saved_is_not_begun() {
    for host in hosts() {
        let three = [("a", Some("1"), Some("2")), ("b", Some("3"), Some("4")), ("c", Some("5"), Some("6"))];
        let members = changes(&host, &three);
        let before = tree(&host);
        let (status, runs) = made(&host, &members, "cv_blob_room() { return 1; }");
        assert_eq!((status.as_str(), runs.iter().flatten().count()), ("73", 0), "{runs:?}");
        assert_eq!(tree(&host), before);
        assert_eq!(host.records(), [], "nothing was begun");
        // Its temporary file is on a full disk.
        let full = format!(
            "ln -s /dev/full {}/.b.cv-$$",
            quote(host.file("").to_str().unwrap().trim_end_matches('/'))
        );
        let (status, runs) = made(&host, &members, &full);
        assert_eq!(status, "73", "{runs:?}");
        let readings: Vec<_> = runs.iter().map(|run| run.as_ref().map(|run| run.reading.clone())).collect();
        assert_eq!(readings, [Some(Reading::Done), Some(Reading::Failed), None], "{:?} {runs:?}", host.argv);
        assert!(runs[1].as_ref().unwrap().output.contains("is the disk full?"), "{runs:?}");
        let texts = ["a", "b", "c"].map(|name| std::fs::read_to_string(host.file(name)).unwrap());
        assert_eq!(texts, ["2", "3", "5"]);
        let (code, reply) = host.undo(&[]);
        assert_eq!(code, Some(0), "{reply}");
        assert_eq!(std::fs::read_to_string(host.file("a")).unwrap(), "1", "{reply}");
    }
}

#[test]
fn a_kill_at_any_step_leaves_before_or_after_of_each_file() {
    let die = "kill -9 $$; sleep 5;";
    let placed = "mv() { command mv \"$@\"; case $3 in */files/*) kill -9 $$; sleep 5 ;; esac; }".to_owned();
    let mut boundaries: Vec<String> =
        ["cv_many_save", "cv_journal", "cv_many_write", "cv_many_finish", "cv_many_put", "cv_many_end"]
            .map(|step| format!("{step}() {{ {die} }}"))
            .into();
    boundaries.push(placed);
    boundaries.push(format!("rm() {{ command rm \"$@\"; case $2 in */files/gone) {die} ;; esac; }}"));
    for host in hosts() {
        for kill in &boundaries {
            let members = changes(&host, MIXED);
            let _ = std::fs::remove_file(host.file("made"));
            let before = tree(&host);
            let refs: Vec<_> = members.iter().map(|(spec, file)| (spec, file)).collect();
            let meta = RunMeta { id: "r1".to_owned(), ..RunMeta::default() };
            let piece = group_piece("t0k", &refs);
            host.sh(&format!("{SAFE}\n{} || exit $?\n{kill}\n{}", open_script(&meta), piece.script));
            host.run("r2", &[], "");
            for (name, was, wanted) in MIXED {
                let now = tree(&host).remove(*name).map(|(_, text)| text);
                let (was, wanted) = (was.map(str::to_owned), wanted.map(str::to_owned));
                assert!(now == was || now == wanted, "{kill} {name}: {now:?}");
            }
            let names: Vec<String> = tree(&host).into_keys().filter(|name| name.starts_with('.')).collect();
            assert_eq!(names, [""; 0], "{kill}");
            assert!(!host.root().join("runs/r1/stage").exists(), "{kill}");
            let (_, reply) = host.undo(&[]);
            assert_eq!(tree(&host), before, "{:?} {kill}: {reply}", host.argv);
            let _ = std::fs::remove_dir_all(host.root());
        }
    }
}

#[test]
fn attributes_are_preserved_and_come_back_as_with_one_file() {
    for host in hosts() {
        if host.path.is_some() {
            // Its cp carries nothing over.
            continue;
        }
        let set = |name: &str| {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(host.file(name), "user.note", name.as_bytes(), flags).unwrap();
        };
        let note = |name: &str| {
            let mut value = vec![0; 64];
            let size = rustix::fs::getxattr(host.file(name), "user.note", value.as_mut_slice()).ok()?;
            value.truncate(size);
            String::from_utf8(value).ok()
        };
        // A tar that cannot see them, and says so.
        let blind = "tar() { echo 'tar: XATTR support is not available' >&2; }";
        for tar in ["", blind, "tar() { return 127; }"] {
            let members = changes(
                &host,
                &[("a", Some("1"), Some("2")), ("b", Some("3"), None), ("c", Some("4"), Some("5"))],
            );
            set("a");
            set("b");
            let (status, runs) = made(&host, &members, tar);
            assert_eq!(status, "0", "{:?} {runs:?}", host.argv);
            assert_eq!((note("a").as_deref(), note("c")), (Some("a"), None), "{tar}");
            let (code, reply) = host.undo(&[]);
            assert_eq!(code, Some(0), "{reply}");
            assert_eq!(
                (note("a").as_deref(), note("b").as_deref(), note("c")),
                (Some("a"), Some("b"), None),
                "{tar} {reply}"
            );
            std::fs::remove_dir_all(host.root()).unwrap();
        }
    }
}

#[test]
fn an_owner_that_is_not_known_fails_its_own_file_and_not_one_before_it() {
    for host in hosts() {
        let one = |(seq, (name, owner)): (u32, (&str, Option<&str>))| {
            let line = host.file_line(b"new", 0o640);
            let mut words: Vec<&str> = line.line().split(' ').collect();
            words[2] = owner.unwrap_or(words[2]);
            let mut spec = spec(vec![host.change(&host.file(name), State::from_line(&words.join(" ")))]);
            spec.run = "r1".to_owned();
            spec.rows[0].seq = seq;
            let file = spec.plain_file(Some(b"new")).unwrap();
            (spec, file)
        };
        let members: Vec<_> =
            (1..).zip([("a", None), ("b", Some("nobody-knows")), ("c", None)]).map(one).collect();
        let (status, runs) = made(&host, &members, "");
        assert_eq!(status, "73", "{runs:?}");
        let readings: Vec<_> = runs.iter().map(|run| run.as_ref().map(|run| run.reading.clone())).collect();
        assert_eq!(readings, [Some(Reading::Done), Some(Reading::Failed), None], "{:?} {runs:?}", host.argv);
        assert!(runs[1].as_ref().unwrap().output.contains("nobody-knows"), "{runs:?}");
        assert_eq!(tree(&host).into_keys().collect::<Vec<_>>(), ["a"]);
    }
}

/// Four times as many files take four times the work, not sixteen: the programs are counted, and, where the shell can say it, its commands. Each
/// file is put into its place by a program of its own, and ten are compared by one just before.
#[test]
fn the_work_grows_with_the_number_of_files_and_no_faster() {
    for host in hosts() {
        let is_bash = host.argv[0].ends_with("bash");
        let work = |number: usize, folder: &str, before: Option<&str>, after: Option<&str>| {
            std::fs::create_dir(host.file(folder)).unwrap();
            let names: Vec<String> = (0..number).map(|n| format!("{folder}/{n:04}")).collect();
            let files: Vec<_> = names.iter().map(|name| (name.as_str(), before, after)).collect();
            let members = changes(&host, &files);
            let log = |name: &str| host.dir.path().join(format!("{folder}-{name}"));
            let lines = |name: &str| std::fs::read_to_string(log(name)).unwrap_or_default().lines().count();
            // Each program says that it was started, and bash each of its commands.
            let programs = [
                "stat",
                "sha256sum",
                "xargs",
                "sync",
                "chmod",
                "chown",
                "awk",
                "sed",
                "find",
                "mv",
                "rm",
                "cp",
                "cat",
                "dd",
                "df",
                "tar",
                "mkdir",
            ];
            let place = format!("*/files/{folder}/*");
            let reply = |name: &str| {
                let (log, moved) = (log("started"), log("moved"));
                format!(
                    "{name}() {{ case {name}:$2 in mv:{place} | rm:{place}) echo x >>'{}' ;; *) echo {name} >>'{}' ;; esac; command {name} \"$@\"; }}\n",
                    moved.display(),
                    log.display()
                )
            };
            let mut before: String = programs.iter().map(|name| reply(name)).collect();
            if is_bash {
                let log = log("commands");
                before.push_str(&format!("exec 19>>'{}'; set -T; trap 'echo x >&19' DEBUG\n", log.display()));
            }
            let (status, _) = made(&host, &members, &before);
            assert_eq!(status, "0", "{:?}", host.argv);
            assert_eq!(lines("moved"), number, "{:?}: each is put in its place by itself", host.argv);
            std::fs::remove_dir_all(host.root()).unwrap();
            (lines("started"), lines("commands"))
        };
        for (what, before, after) in [
            ("made", None, Some("text\n")),
            ("changed", Some("old\n"), Some("text\n")),
            ("gone", Some("old\n"), None),
        ] {
            let (few, many) = (
                work(20, &format!("few-{what}"), before, after),
                work(80, &format!("many-{what}"), before, after),
            );
            let compared = if before.is_some() { 6 } else { 0 };
            assert!(
                few.0 > 3 && few.0 + compared == many.0,
                "{:?} {what}: programs for few and for many: {few:?} {many:?}",
                host.argv
            );
            assert!(!is_bash || few.1 > 1000, "nothing was counted: {few:?}");
            assert!(
                many.1 <= 4 * few.1,
                "{:?} {what}: commands for few and for many: {few:?} {many:?}",
                host.argv
            );
        }
    }
}
