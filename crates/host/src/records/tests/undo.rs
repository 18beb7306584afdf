//! `undo.sh`, which takes a run back on the host itself.

use super::*;

#[test]
fn undo_leaves_alone_what_others_and_later_runs_changed() {
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b"));
        let to = |p: &PathBuf, bytes: &[u8]| host.change(p, host.file_line(bytes, 0o600));
        host.one("001", &mut spec(vec![to(&a, b"1"), to(&b, b"1")]), &[b"1"]);
        host.one("002", &mut spec(vec![to(&a, b"2")]), &[b"2"]);
        let (status, reply) = host.undo(&["001"]);
        assert_eq!(status, Some(1), "{reply}");
        assert!(reply.contains("the later run 002 changed it too"), "{reply}");
        assert!(!b.exists() && a.exists(), "{reply}");
        std::fs::write(&a, "mine").unwrap();
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(1), "{reply}");
        assert!(reply.contains("LEFT ALONE") && reply.contains("someone else"), "{reply}");
        assert_eq!(std::fs::read(&a).unwrap(), b"mine");
        assert!(host.undo(&["--list"]).1.contains("002  1 changes"));
        let (status, reply) = host.undo(&["--force", "002"]);
        assert_eq!(status, Some(0), "{reply}");
        assert_eq!(std::fs::read(&a).unwrap(), b"1");
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(0), "{reply}");
        assert!(!a.exists() && !b.exists(), "{reply}");
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
fn undo_passes_over_what_is_as_before_and_never_tries_one_for_ever() {
    for host in hosts() {
        let a = host.file("a");
        let to = |bytes: &[u8]| host.change(&a, host.file_line(bytes, 0o600));
        host.one("one", &mut spec(vec![to(b"1")]), &[b"1"]);
        host.one("two", &mut spec(vec![to(b"2")]), &[b"2"]);
        // A user reverts what was before `two`.
        std::fs::write(&a, "1").unwrap();
        let (status, reply) = host.undo(&["one"]);
        assert_eq!(status, Some(0), "{reply}");
        assert!(!a.exists(), "{reply}");
        std::fs::write(&a, "1").unwrap();
        std::fs::set_permissions(&a, std::fs::Permissions::from_mode(0o600)).unwrap();
        let (status, reply) = host.undo(&[]);
        assert!(status == Some(0) && reply.contains("no run to undo"), "{reply}");
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
        let (status, reply) = host.undo(&["001"]);
        assert_eq!(status, Some(1), "{reply}");
        assert!(reply.contains("the later run 002 made what belongs to it: undo that one first"), "{reply}");
    }
}

#[test]
fn undo_sh_is_installed_once_and_whole() {
    for host in hosts() {
        let (piece, content) = undo_piece();
        let text = host.dir.path().join("text");
        std::fs::write(&text, content.bytes()).unwrap();
        let install = format!("({}) <'{}'", piece.script, text.display());
        let ask = undo_question().script;
        let output = host.run("r1", &[], &format!("! {ask} && {install} && {ask}"));
        assert!(output.status.success());
        assert_eq!(std::fs::read(host.root().join("undo.sh")).unwrap(), content.bytes());
        std::fs::write(&text, b"cut off").unwrap();
        assert!(host.sh(&format!("rm \"$CV_ROOT/undo.sh\"; {install}")).status.code() != Some(0));
        assert!(!host.root().join("undo.sh").exists());
        std::fs::write(&text, content.bytes()).unwrap();
        let reply = host.sh(&format!("mkdir \"$CV_ROOT/undo.sh\"; {install}"));
        assert!(!reply.status.success());
        assert!(
            String::from_utf8_lossy(&reply.stderr).contains("something else is in its place"),
            "{reply:?}"
        );
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
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(0), "{reply}");
        assert!(!path.exists(), "{reply}");
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
        let text = format!(
            "{open} || exit $?\n{}\n{}",
            host.item(&back, &[]),
            close_script("002", RunEnd::Finished)
        );
        assert!(host.sh(&text).status.success());
        assert!(!a.exists() && b.exists());
        assert!(host.undo(&["--list"]).1.contains("001  2 changes"));
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(0), "{reply}");
        assert!(reply.contains("undoing run 001") && reply.contains("as before"), "{reply}");
        assert!(!a.exists() && !b.exists(), "{reply}");
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
