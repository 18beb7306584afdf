//! Records that are well formed and lie: whoever is root on a host can write them. They remove nothing that is not theirs.

use super::*;
use converge_ledger::{Ledger, ProjectScope};

/// The lines that stand in the meta of the second of three runs, which made file b, in the place of its own.
const LIES: &[&str] = &[
    // Numbers: none, the same, the last one of all, too large to be one.
    "seq\t0\n",
    "seq\t1\n",
    "seq\t999999999999999\n",
    "seq\t18446744073709551615\n",
    "seq\t184467440737095516150000\n",
    "seq\t-1\n",
    // It takes back the first run, itself, a later one, what takes it back, none that there is.
    "purpose\trollback\nundoes\t001\n",
    "purpose\trollback\nundoes\t002\nundoes\t002\n",
    "purpose\trollback\nundoes\t003\n",
    "purpose\trollback\nundoes\t001\nundoes\t002\nundoes\t003\nattempts\t002\n",
    "purpose\tundo\nattempts\t002\n",
    "purpose\tundo\nattempts\tno such run\n",
    "undoes\t../../files\n",
    // Roles and scopes of others, and none.
    "purpose\trollback\trole\trole\tother\n",
    "purpose\tconverge\trole\nscope\t/\t/\n",
    "scope\t../../etc\thosts\nplanned\tno-slash\nplanned\t/\nplanned\tr/\nplanned\t/x\n",
    "opened\t9223372036854775807\n",
    "opened\t-9223372036854775808\ntime\tnever\n",
    "id\t001\n",
];

#[test]
fn meta_that_lies_panics_nobody_and_removes_nothing_of_others() {
    for host in hosts().into_iter().take(1) {
        let ([a, b, c], theirs) = (["a", "b", "c"].map(|name| host.file(name)), host.file("theirs"));
        let to = |p: &PathBuf, bytes: &[u8]| host.change(p, host.file_line(bytes, 0o600));
        std::fs::write(&theirs, "not of converge").unwrap();
        std::fs::write(&c, "before").unwrap();
        host.one("001", &mut spec(vec![to(&a, b"1")]), &[b"1"]);
        host.one("002", &mut spec(vec![to(&b, b"2")]), &[b"2"]);
        host.one("003", &mut spec(vec![to(&c, b"3")]), &[b"3"]);
        let retained = host.dir.path().join("as it was");
        let copy = |from: &Path, to: &Path| {
            assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
        };
        std::fs::create_dir(&retained).unwrap();
        copy(&host.root(), &retained.join("records"));
        copy(&host.dir.path().join("files"), &retained.join("files"));
        for lie in LIES {
            for folder in ["records", "files"] {
                std::fs::remove_dir_all(host.dir.path().join(folder)).unwrap();
                copy(&retained.join(folder), &host.dir.path().join(folder));
            }
            let meta = host.root().join("runs/002/meta");
            let words: Vec<&str> = lie.lines().filter_map(|l| l.split('\t').next()).collect();
            let text = std::fs::read_to_string(&meta).unwrap();
            let own = text.lines().filter(|l| !words.contains(&l.split('\t').next().unwrap()));
            std::fs::write(&meta, own.map(|l| format!("{l}\n")).collect::<String>() + lie).unwrap();
            // All three are read, each with what its journal says.
            let records = host.all_records();
            let mut ids: Vec<(&str, usize)> =
                records.runs.iter().map(|r| (r.id.as_str(), r.changes.len())).collect();
            ids.sort_unstable();
            assert_eq!(ids, [("001", 1), ("002", 1), ("003", 1)], "{lie:?}");
            // Every rollback that may be planned names these files alone, and only states that were there.
            let (ledger, project) = (Ledger::of(&records.runs), ProjectScope::default());
            for at in 0..3 {
                let start = ledger.start_of(at, &project);
                for (undos, _) in [
                    ledger.revert_to(at, &project, &|_| true),
                    ledger.revert_from(start, &project, &|_| true),
                ] {
                    for undo in undos {
                        let name = Path::new(&undo.object.key);
                        let left = host.line(&retained.join("files").join(name.file_name().unwrap()));
                        assert!([&a, &b, &c].iter().any(|own| *own == name), "{lie:?}: {name:?}");
                        assert_eq!(undo.left, left, "{lie:?}");
                    }
                }
            }
            host.owned();
            // Somebody changes the file of the lying run: it stays, whatever else goes back.
            std::fs::write(&b, "of somebody else").unwrap();
            assert!(host.run("004", &[], "true").status.success(), "{lie:?}");
            for _ in 0..2 {
                let (status, reply) = host.undo(&[]);
                assert!(matches!(status, Some(0 | 1)), "{lie:?}: {reply}");
            }
            assert_eq!(std::fs::read(&b).unwrap(), b"of somebody else", "{lie:?}");
            assert_eq!(std::fs::read(&theirs).unwrap(), b"not of converge", "{lie:?}");
            let left = std::fs::read(&c).unwrap();
            assert!(left == b"before" || left == b"3", "{lie:?}: {left:?}");
        }
    }
}

#[test]
fn a_path_of_nothing_in_a_journal_is_no_change_and_holds_nobody_up() {
    for host in hosts() {
        let file = host.file("a");
        host.one("001", &mut spec(vec![host.change(&file, host.file_line(b"1", 0o600))]), &[b"1"]);
        let journal = host.root().join("runs/001/journal");
        let begin = "begin\t9\tpath\tetc/a\tabsent\tfile 600 0 0 1 aa\tr/i\t-\n";
        std::fs::write(&journal, std::fs::read_to_string(&journal).unwrap() + begin).unwrap();
        let records = host.all_records();
        assert_eq!(records.runs[0].changes.len(), 1);
        assert!(records.runs[0].broken.is_some(), "it is named");
        let looked = host.sh("cv_above etc/a a; printf %s \"$CV_ABOVE\"");
        assert!(looked.status.success(), "{:?}", host.argv);
        let undo = host.undo(&["001"]);
        assert!(!file.exists(), "{:?} {undo:?}", host.argv);
    }
}

#[test]
fn a_last_line_of_meta_that_was_cut_off_takes_no_change_with_it() {
    for host in hosts() {
        let file = host.file("a");
        host.one("001", &mut spec(vec![host.change(&file, host.file_line(b"1", 0o600))]), &[b"1"]);
        let meta = host.root().join("runs/001/meta");
        std::fs::write(&meta, std::fs::read_to_string(&meta).unwrap() + "zzz").unwrap();
        let records = host.all_records();
        assert_eq!(records.runs[0].changes.len(), 1, "{:?}", host.argv);
        let broken = records.runs[0].broken.as_ref().unwrap();
        assert!(broken.contains("one of its lines") || broken.contains("its line"), "{broken}");
    }
}
