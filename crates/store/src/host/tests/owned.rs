//! What is ours on a host, in four shells.

use super::*;

impl Host {
    pub(super) fn owned(&self) -> OwnedRecords {
        let output = self.sh(&owned_script());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        parse_owned(&String::from_utf8_lossy(&output.stdout))
    }

    /// Writes the file in a run of its own; `role` answers for it, if there is one.
    fn put(&self, run: &str, path: &Path, bytes: &[u8], role: Option<&str>) {
        let change = self.change(path, self.file_line(bytes, 0o600));
        let mut item = spec(vec![change]);
        item.owns = role.map(|r| (1, r.to_owned())).into_iter().collect();
        assert_eq!(self.one(run, &mut item, &[bytes]).reading, Reading::Done);
    }

    fn remove(&self, run: &str, path: &Path) {
        let mut item = spec(vec![self.change(path, State::absent())]);
        assert_eq!(self.one(run, &mut item, &[]).reading, Reading::Done);
    }
}

#[test]
fn what_a_role_makes_is_its_own_until_it_is_given_back() {
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b c"));
        std::fs::write(&b, "theirs").unwrap();
        let theirs = host.line(&b);
        host.put("r01", &a, b"1", Some("first"));
        host.put("r02", &b, b"ours", Some("first"));
        host.put("r03", &a, b"2", Some("second"));
        let things = host.owned().things;
        let told: Vec<_> = things.iter().map(|t| (t.object.key.as_str(), t.roles.join(","))).collect();
        assert_eq!(
            told,
            [(a.to_str().unwrap(), "second,first".to_owned()), (b.to_str().unwrap(), "first".to_owned())]
        );
        assert_eq!((&things[0].before, &things[0].left), (&State::absent(), &host.line(&a)));
        assert_eq!((&things[1].before, things[1].run.as_str()), (&theirs, "r02"));
        assert_eq!(
            (things[0].since.as_str(), things[0].item.as_str()),
            ("2026-11-21T04:05:06Z", "role/an item")
        );
        // Back to the state before us, by whatever way: it is ours no longer; and again, when that is taken back.
        host.remove("r04", &a);
        assert_eq!(host.owned().things.len(), 1);
        host.put("r05", &a, b"2", None);
        assert_eq!(host.owned().things.len(), 2, "the way back is taken back");
        // What no role answers for is not ours.
        host.put("r06", &host.file("d"), b"x", None);
        assert_eq!(host.owned().things.len(), 2);
        let (status, said) = host.undo(&["r02"]);
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(host.owned().things.len(), 1, "undo.sh gives back too");
        let run = host.run("r07", &[], &disown_script(&things[0].object));
        assert!(run.status.success());
        assert_eq!(host.owned().things, []);
    }
}

#[test]
fn what_a_rollback_took_from_before_its_package_is_given_back() {
    for host in hosts() {
        // A package of the run brings the file, which an item of the same run edits.
        let file = host.file("conf");
        std::fs::write(&file, "shipped").unwrap();
        let shipped = host.line(&file);
        host.put("r01", &file, b"edited", Some("first"));
        let record = |run: &str, name: &str| host.root().join("runs").join(run).join(name);
        let journal = std::fs::read_to_string(record("r01", "journal")).unwrap();
        let key = encode_field(file.to_str().unwrap());
        // The runs are folded anew, with what is written into their records here.
        let rewrite = |run: &str, name: &str, text: String| {
            std::fs::write(record(run, name), text).unwrap();
            let _none_yet = std::fs::remove_file(host.root().join("owned"));
        };
        let moved = format!("moved\t9\tpath\t{key}\tabsent\t{shipped}\tfirst/package\t-\n");
        rewrite("r01", "journal", moved + &journal);
        assert_eq!(host.owned().things.len(), 1);
        // The rollback goes to where the run found it, in one step.
        host.remove("r02", &file);
        assert_eq!(host.owned().things.len(), 1, "nothing says that it was a rollback");
        let meta = std::fs::read_to_string(record("r02", "meta")).unwrap();
        rewrite("r02", "meta", format!("{meta}purpose\trollback\nundoes\tr01\n"));
        assert_eq!(host.owned().things, []);
        // It is ours again when that rollback is reverted.
        host.put("r03", &file, b"edited", None);
        rewrite("r03", "meta", format!("{meta}purpose\trollback\nundoes\tr02\n"));
        assert_eq!(host.owned().things.len(), 1);
    }
}

#[test]
fn a_rollback_whose_target_is_kept_no_more_hides_no_later_run() {
    for host in hosts() {
        let file = host.file("a");
        host.put("r01", &file, b"1", Some("first"));
        host.remove("r02", &file);
        let runs = host.root().join("runs");
        let meta = std::fs::read_to_string(runs.join("r02/meta")).unwrap();
        std::fs::write(runs.join("r02/meta"), format!("{meta}purpose\trollback\nundoes\tr01\n")).unwrap();
        std::fs::remove_dir_all(runs.join("r01")).unwrap();
        host.put("r03", &file, b"3", Some("first"));
        let (status, said) = host.undo(&[]);
        assert_eq!(status, Some(0), "{said}");
        assert!(!file.exists(), "{said}");
    }
}

#[test]
fn the_content_before_us_is_kept_as_long_as_it_is_ours() {
    for host in hosts() {
        let (a, other) = (host.file("a"), host.file("other"));
        std::fs::write(&a, "theirs").unwrap();
        host.put("r00", &a, b"ours", Some("first"));
        for n in 1..14 {
            host.put(&format!("r{n:02}"), &other, format!("{n}").as_bytes(), Some("first"));
        }
        assert!(host.records().iter().all(|r| r.id != "r00"));
        let blob = host.root().join("blobs").join(Digest::of(b"theirs").as_str());
        assert!(blob.exists());
        let things = host.owned().things;
        assert_eq!(things.len(), 2);
        let mut back = spec(vec![host.change(&a, things[0].before.clone())]);
        assert_eq!(host.one("r20", &mut back, &[]).reading, Reading::Done);
        assert_eq!(std::fs::read(&a).unwrap(), b"theirs");
        assert_eq!(host.owned().things.len(), 1);
    }
}

#[test]
fn what_a_cut_off_run_made_is_ours_and_the_next_run_ends_it() {
    for host in hosts() {
        let path = host.file("a");
        let meta = RunMeta {
            id: "r1".to_owned(),
            planned: vec!["role/an item".to_owned(), "role/not begun".to_owned()],
            ..RunMeta::default()
        };
        let mut item = spec(vec![host.change(&path, host.file_line(b"new", 0o600))]);
        item.run = "r1".to_owned();
        item.owns = vec![(1, "role".to_owned())];
        // The session ends without a word, as after a power cut.
        host.sh(&format!("{}\n{}", open_script(&meta), host.item(&item, &[b"new"])));
        let seen = host.owned();
        assert_eq!(seen.things.len(), 1);
        let cut_off = seen.cut_off.unwrap();
        assert_eq!((cut_off.id.as_str(), cut_off.planned.len(), cut_off.changes.len()), ("r1", 2, 1));
        assert!(!cut_off.finished && !seen.busy);
        assert!(host.run("r2", &[], "true").status.success());
        assert_eq!((host.owned().cut_off, host.owned().things.len()), (None, 1));
        let records = host.records();
        assert!(records.len() == 1 && !records[0].finished);
    }
}

#[test]
fn records_of_format_1_are_read_and_brought_to_format_3() {
    for host in hosts() {
        host.put("r1", &host.file("a"), b"1", None);
        std::fs::write(host.root().join("version"), "1\n").unwrap();
        assert_eq!(host.records().len(), 1);
        assert_eq!(host.owned().things, []);
        host.put("r2", &host.file("a"), b"2", Some("first"));
        assert_eq!(std::fs::read_to_string(host.root().join("version")).unwrap(), "3\n");
        assert_eq!(host.owned().things.len(), 1);
    }
}

#[test]
fn a_lock_without_a_record_names_the_process_that_holds_it() {
    let host = &hosts()[0];
    host.put("r1", &host.file("a"), b"1", None);
    let lock = host.root().join("lock");
    let held =
        format!("exec 9>>'{}'; flock 9; : > '{}'; echo ready; read -r _", lock.display(), lock.display());
    let mut holder = Command::new("sh");
    holder.arg("-c").arg(held).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = holder.spawn().unwrap();
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut said)
        .unwrap();
    let second = host.sh(&open_script(&RunMeta { id: "r2".to_owned(), ..RunMeta::default() }));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(LOCKED));
    assert!(said.contains("with no record of a run") && said.contains(&child.id().to_string()), "{said}");
    assert!(host.owned().things.is_empty());
    drop(child.stdin.take());
    child.wait().unwrap();
}
