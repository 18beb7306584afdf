//! Records that cannot be written any more behind an item that was done.

use super::*;

/// From the session's shell on no file may grow above a few KiB, as on a full disk: what is written beyond is an error, and no signal.
const SMALL: &str = "trap '' XFSZ; ulimit -f 8";

/// A step that leaves no room in the journal of its run: the last line is one that was cut off.
const FULL: &str = "while printf 'note\\t.\\n' >>\"$CV_DIR/journal\"; do :; done 2>/dev/null; true";

#[test]
fn an_item_that_was_done_and_cannot_be_recorded_is_reported_and_goes_back() {
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b"));
        std::fs::write(&a, "old").unwrap();
        let change = host.change(&a, host.file_line(b"new", 0o600));
        let mut first = spec(vec![change.clone()]);
        first.run = "r1".to_owned();
        first.steps.push(Step::new("the disk is full", FULL));
        let mut second = ItemSpec {
            run: "r1".to_owned(),
            token: "second".to_owned(),
            ..spec(vec![host.change(&b, host.file_line(b"x", 0o600))])
        };
        second.rows[0].seq = 2;
        let body = format!("{}{}", host.item(&first, &[b"new"]), host.item(&second, &[b"x"]));
        let open = open_script(&RunMeta { id: "r1".to_owned(), ..RunMeta::default() });
        let close = close_script("r1", RunEnd::Finished);
        let output = host.sh(&format!("{open} || exit $?\n{SMALL}\n{body}\n{close}\necho \"closed $?\""));
        let text = String::from_utf8_lossy(&output.stdout);
        let ends: Vec<&str> = text.lines().filter(|l| l.starts_with("status ")).collect();
        assert_eq!(ends, ["status 75", "status 71"], "{:?}: {text}", host.argv);
        let run = first.read(75, &output.stdout);
        assert_eq!(run.reading, Reading::NotRecorded);
        assert_eq!(run.after, [(change.object.clone(), change.to.clone())], "how it is is told all the same");
        let why = second.read(71, &output.stdout).reading;
        assert!(matches!(&why, Reading::NotSaved(why) if why.contains("is the disk full?")), "{why:?}");
        assert!(std::fs::read(&a).unwrap() == b"new" && !b.exists(), "nothing is begun that is not recorded");
        assert!(!text.contains("closed 0"), "{text}");
        let records = host.records();
        assert_eq!(records[0].changes.len(), 1);
        assert_eq!(records[0].changes[0].outcome, SavedOutcome::Unknown);
        let (status, reply) = host.undo(&[]);
        assert_eq!((status, std::fs::read(&a).unwrap().as_slice()), (Some(0), &b"old"[..]), "{reply}");
    }
}

/// A line that a full disk has cut off is no line, also where there is room again for the next one.
#[test]
fn a_line_that_was_cut_off_is_not_joined_with_the_next_one() {
    // The room that is left takes a part of a line, of another length each time.
    for room in [35, 41, 53] {
        for host in hosts() {
            let a = host.file("a");
            std::fs::write(&a, "old").unwrap();
            let change = host.change(&a, host.file_line(b"new", 0o600));
            let mut item = spec(vec![change.clone()]);
            item.run = "r1".to_owned();
            let fill = format!(
                "while printf 'note\\t%0{room}d\\n' 0 >>\"$CV_DIR/journal\"; do :; done 2>/dev/null; cv_journal_whole \"$CV_DIR/journal\"; true"
            );
            item.steps.push(Step::new("the disk is full", fill));
            let body = host.item(&item, &[b"new"]);
            let open = open_script(&RunMeta { id: "r1".to_owned(), ..RunMeta::default() });
            let close = close_script("r1", RunEnd::Finished);
            let output = host.sh(&format!(
                "{open} || exit $?\ntrap '' XFSZ; ulimit -S -f 8\n{body}\nulimit -S -f unlimited\n{close}\necho \"closed $?\""
            ));
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("status 75") && text.contains("closed 0"), "{:?}: {text}", host.argv);
            let records = host.all_records();
            assert_eq!(records.broken, Vec::<String>::new(), "{:?}", host.argv);
            let [run] = records.runs.as_slice() else { panic!("{:?}: {:?}", host.argv, records.runs) };
            assert_eq!(run.changes[0].outcome, SavedOutcome::Unknown, "{:?}", host.argv);
            assert!(run.finished, "{:?}", host.argv);
            let (status, reply) = host.undo(&[]);
            assert_eq!((status, std::fs::read(&a).unwrap().as_slice()), (Some(0), &b"old"[..]), "{reply}");
        }
    }
}

/// The same in a rollback: what it has restored counts as restored, though its record does not say so.
#[test]
fn a_rollback_that_cannot_be_recorded_is_gone_on_with() {
    for host in hosts() {
        let a = host.file("a");
        std::fs::write(&a, "old").unwrap();
        let before = host.line(&a);
        let mut made = spec(vec![host.change(&a, host.file_line(b"new", 0o600))]);
        made.owns = vec![(1, "role".to_owned())];
        assert_eq!(host.one("r1", &mut made, &[b"new"]).reading, Reading::Done);
        let mut back = spec(vec![host.change(&a, before.clone())]);
        back.run = "r2".to_owned();
        back.steps.push(Step::new("the disk is full", FULL));
        let meta = RunMeta {
            id: "r2".to_owned(),
            rolls_back: vec!["r1".to_owned()],
            purpose: RunPurpose::Rollback(Vec::new()),
            planned: vec![back.address.clone()],
            ..RunMeta::default()
        };
        let output =
            host.sh(&format!("{} || exit $?\n{SMALL}\n{}", open_script(&meta), host.item(&back, &[])));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("status 75"), "{:?}: {text}", host.argv);
        assert_eq!(host.line(&a), before);
        let records = host.records();
        assert_eq!(records[1].changes[0].outcome, SavedOutcome::Unknown);
        assert!(records[0].rolled_back_by.is_none(), "nobody knows it");
        // Either state is one of converge: as before already, and nothing is left alone.
        let ledger = converge_ledger::Ledger::of(&records);
        let project = converge_ledger::ProjectScope::default();
        let (mut undos, _) = ledger.revert_from(ledger.start_of(0, &project), &project, &|_| true);
        undos[0].settle(&before, &|_, now, planned| now == planned);
        assert_eq!((undos.len(), &undos[0].left, &undos[0].before), (1, &before, &before));
        assert!(host.run("r3", &[], "true").status.success());
        assert!(host.owned().cut_off.is_none(), "the next run has ended it");
        let (status, reply) = host.undo(&[]);
        assert_eq!((status, host.line(&a)), (Some(0), before), "{reply}");
    }
}
