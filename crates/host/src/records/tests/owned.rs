//! The base of managed objects that a host keeps, in four shells. The rules are the ledger's.

use super::*;

impl FakeHost {
    pub(super) fn owned(&self) -> OwnedRecords {
        let output = self.sh(&owned_script());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        parse_owned(&String::from_utf8_lossy(&output.stdout))
    }

    /// The runs that the base holds.
    pub(super) fn folded(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.root().join("owned")).unwrap_or_default();
        text.lines().filter_map(|l| l.strip_prefix("folded\t")).map(str::to_owned).collect()
    }

    /// Writes the file in a run of its own; `role` manages it, if there is one.
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
fn a_plan_shows_what_the_base_holds_and_what_came_after_it() {
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b c"));
        std::fs::write(&b, "theirs").unwrap();
        let theirs = host.line(&b);
        host.put("r01", &a, b"1", Some("first"));
        assert_eq!(host.folded(), Vec::<String>::new(), "what it is at work on is never in it");
        host.put("r02", &b, b"ours", Some("first"));
        assert_eq!(host.folded(), ["r01"]);
        host.put("r03", &a, b"2", Some("second"));
        let things = host.owned().things;
        let reported: Vec<_> = things.iter().map(|t| (t.object.key.as_str(), t.roles.join(","))).collect();
        assert_eq!(
            reported,
            [(a.to_str().unwrap(), "second,first".to_owned()), (b.to_str().unwrap(), "first".to_owned())]
        );
        assert_eq!((&things[0].before, &things[0].left), (&State::absent(), &host.line(&a)));
        assert_eq!((&things[1].before, things[1].run.as_str()), (&theirs, "r02"));
        assert_eq!(
            (things[0].since.as_str(), things[0].item.as_str()),
            ("2026-11-21T04:05:06Z", "role/an item")
        );
        host.remove("r04", &a);
        assert_eq!(host.owned().things.len(), 1);
        let (status, reply) = host.undo(&["r02"]);
        assert_eq!(status, Some(0), "{reply}");
        assert_eq!(host.owned().things, [], "undo.sh gives back too, and folds nothing");
        assert_eq!(host.folded(), ["r01", "r02", "r03"]);
    }
}

#[test]
fn what_is_disowned_stands_in_the_journal_until_the_base_has_it() {
    for host in hosts() {
        let (a, other) = (host.file("a"), host.file("other"));
        host.put("r01", &a, b"1", Some("first"));
        let thing = host.owned().things.remove(0).object;
        assert!(host.run("r02", &[], &disown_script(&thing)).status.success());
        assert_eq!(host.owned().things, []);
        let records = host.records();
        assert_eq!(records[1].disowned, [(0, thing)]);
        assert_eq!(records.len(), 2, "it changed nothing, and is kept all the same");
        let (status, reply) = host.undo(&["--list"]);
        assert!(status == Some(0) && reply.contains("r01") && !reply.contains("r02"), "{reply}");
        host.put("r03", &other, b"1", None);
        assert_eq!(host.folded(), ["r01", "r02"]);
        assert_eq!(host.owned().things, []);
        assert_eq!(host.records().iter().map(|r| r.id.as_str()).collect::<Vec<_>>(), ["r01", "r03"]);
    }
}

#[test]
fn what_is_forgotten_stays_so_while_a_run_before_it_is_retained() {
    for host in hosts() {
        let (a, other) = (host.file("a"), host.file("other"));
        host.put("r01", &a, b"1", Some("first"));
        host.put("r02", &other, b"1", Some("first"));
        let thing = host.owned().things.remove(0).object;
        assert!(host.run("r03", &[], &forget_script(&thing)).status.success());
        let managed: Vec<ObjectId> = host.owned().things.into_iter().map(|t| t.object).collect();
        assert!(managed.len() == 1 && managed[0] != thing, "{managed:?}");
        let (status, reply) = host.undo(&["--list"]);
        assert!(status == Some(0) && reply.contains("r02") && !reply.contains("r01"), "{reply}");
        // Folded into the base, the record stays: rollbacks read it.
        host.put("r04", &other, b"2", Some("first"));
        let records = host.records();
        assert_eq!(records.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(), ["r01", "r02", "r03", "r04"]);
        assert_eq!(records[2].forgotten.iter().collect::<Vec<_>>(), [&thing]);
        let (status, reply) = host.undo(&["r01"]);
        assert_eq!((status, std::fs::read(&a).unwrap()), (Some(0), b"1".to_vec()), "{reply}");
        assert!(!reply.contains("removed"), "{reply}");
    }
}

#[test]
fn a_base_made_of_something_else_is_not_retained() {
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b"));
        host.put("r01", &a, b"1", Some("first"));
        let early = host.base("r03");
        // Another run folds and closes meanwhile.
        host.put("r02", &b, b"1", Some("first"));
        let before = std::fs::read(host.root().join("owned")).unwrap();
        let open = |id: &str| open_script(&RunMeta { id: id.to_owned(), ..RunMeta::default() });
        let with = |id: &str, base: &str| {
            host.sh(&format!("{} || exit $?\n{base}\n{}", open(id), close_script(id, RunEnd::Finished)))
        };
        let skipped = with("r03", &early);
        assert!(skipped.status.success() && skipped.stderr.is_empty(), "{skipped:?}");
        assert_eq!(std::fs::read(host.root().join("owned")).unwrap(), before);
        assert!(!host.root().join("owned.new").exists());
        // The base is the same, but one of the runs is not there any more, or is one that goes on.
        let made = host.base("r03").replace("r02", "r99");
        assert!(with("r03", &made).status.success());
        let own = host.base("r02");
        assert!(with("r02", &own).status.success());
        assert_eq!(std::fs::read(host.root().join("owned")).unwrap(), before);
        assert!(with("r03", &host.base("r03")).status.success());
        assert_eq!(host.folded(), ["r01", "r02"]);
        // A run of the base that goes on is not in it any more.
        assert!(host.sh(&open("r02")).status.success());
        assert_eq!(host.folded(), ["r01"]);
        assert_eq!(host.owned().things.len(), 2);
        assert_eq!(host.owned().cut_off.map(|r| r.id).as_deref(), Some("r02"));
    }
}

#[test]
fn no_run_is_dropped_that_the_base_does_not_hold() {
    for host in hosts() {
        let file = host.file("a");
        std::fs::write(&file, "theirs").unwrap();
        for n in 0..3 {
            host.put(&format!("r{n}"), &file, format!("{n}").as_bytes(), Some("first"));
        }
        // Runs of which no controller has heard: as those of undo.sh.
        let run = |id: &str, keep: &str| {
            let meta = RunMeta { id: id.to_owned(), ..RunMeta::default() };
            let mut item = spec(vec![host.change(&file, host.file_line(id.as_bytes(), 0o600))]);
            item.run = id.to_owned();
            let item = host.item(&item, &[id.as_bytes()]);
            let keep = format!("export CV_KEEP_RUNS={keep}");
            host.sh(&format!(
                "{keep}\n{}\n{item}\n{}",
                open_script(&meta),
                close_script(id, RunEnd::Finished)
            ))
        };
        for id in ["r3", "r4", "r5"] {
            assert!(run(id, "1").status.success());
        }
        // The base held r0 and r1: these are gone.
        let ids = || host.records().into_iter().map(|r| r.id).collect::<Vec<_>>();
        assert_eq!(ids(), ["r2", "r3", "r4", "r5"]);
        let [thing] = host.owned().things.try_into().unwrap();
        assert_eq!((thing.run.as_str(), &thing.left), ("r0", &host.line(&file)));
        assert!(host.root().join("blobs").join(Digest::of(b"theirs").as_str()).exists());
    }
}

#[test]
fn what_a_rollback_set_out_for_stays_until_other_runs_come() {
    for host in hosts() {
        let file = host.file("a");
        let runs = ["r1", "r2", "r3"];
        for id in runs {
            host.put(id, &file, id.as_bytes(), Some("first"));
        }
        let closed_with_two_retained = |id: &str, rolls_back: &[&str], bytes: &[u8]| {
            let mut item = spec(vec![host.change(&file, host.file_line(bytes, 0o600))]);
            item.run = id.to_owned();
            let body = format!("export CV_KEEP_RUNS=2\n{}", host.item(&item, &[bytes]));
            assert!(host.run(id, rolls_back, &body).status.success());
            host.records().into_iter().map(|r| r.id).collect::<Vec<_>>()
        };
        assert_eq!(closed_with_two_retained("r4", &runs, b"before"), ["r1", "r2", "r3", "r4"]);
        // Repeated, it names the first rollback too.
        let all = ["r1", "r2", "r3", "r4"];
        assert_eq!(closed_with_two_retained("r5", &all, b"again"), ["r1", "r2", "r3", "r4", "r5"]);
        // Runs and their rollbacks go together, when two newer runs stay.
        assert_eq!(closed_with_two_retained("r6", &[], b"new"), ["r1", "r2", "r3", "r4", "r5", "r6"]);
        assert_eq!(closed_with_two_retained("r7", &[], b"newer"), ["r6", "r7"]);
    }
}

#[test]
fn accounts_are_retained_while_a_later_run_may_bring_them_back() {
    let host = &hosts()[0];
    host.put("r1", &host.file("a"), b"1", None);
    let saved = host.root().join("runs/r1/saved");
    std::fs::create_dir_all(&saved).unwrap();
    let row = |word: &str, by: &str| {
        format!("{word}\tuser\tadm1\tp\ti\tr\tr/i\tt\tr1\tuser 1\tuser 1\t-\t-\t{by}\t-\t-\n")
    };
    let base = format!("converge-owned\t1\nfolded\tr1\n{}", row("gone", "r1"));
    std::fs::write(host.root().join("owned"), base).unwrap();
    assert!(host.sh("CV_RUN=r2; CV_KEEP_RUNS=0; good=; cv_run_drop r1; cv_drop_unnamed").status.success());
    assert!(host.root().join("kept/r1").is_dir());
    std::fs::write(host.root().join("owned"), "converge-owned\t1\n").unwrap();
    assert!(host.sh("cv_drop_unnamed").status.success());
    assert!(!host.root().join("kept/r1").exists());
}

#[test]
fn a_rollback_whose_target_is_retained_no_more_hides_no_later_run() {
    for host in hosts() {
        let file = host.file("a");
        host.put("r01", &file, b"1", Some("first"));
        host.remove("r02", &file);
        let runs = host.root().join("runs");
        let meta = std::fs::read_to_string(runs.join("r02/meta")).unwrap();
        std::fs::write(runs.join("r02/meta"), format!("{meta}purpose\trollback\nundoes\tr01\n")).unwrap();
        std::fs::remove_dir_all(runs.join("r01")).unwrap();
        host.put("r03", &file, b"3", Some("first"));
        let (status, reply) = host.undo(&[]);
        assert_eq!(status, Some(0), "{reply}");
        assert!(!file.exists(), "{reply}");
    }
}

#[test]
fn the_original_content_is_retained_as_long_as_the_object_is_managed() {
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
fn what_a_cut_off_run_made_is_managed_and_the_next_run_ends_it() {
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
        let observed = host.owned();
        assert_eq!(observed.things.len(), 1);
        let cut_off = observed.cut_off.unwrap();
        assert_eq!((cut_off.id.as_str(), cut_off.planned.len(), cut_off.changes.len()), ("r1", 2, 1));
        assert!(!cut_off.finished && !observed.busy);
        assert!(host.run("r2", &[], "true").status.success());
        assert_eq!((host.owned().cut_off, host.owned().things.len()), (None, 1));
        let records = host.records();
        assert!(records.len() == 1 && !records[0].finished);
    }
}

/// The newest run is the one with the highest number, not the one with the latest ID: a controller's clock was a day ahead.
#[test]
fn a_run_that_was_cut_off_behind_one_of_a_clock_ahead_is_reported() {
    // Of 2026-02-11, and of 2026-02-10.
    let (ahead, cut) = ("019c49fe-e000-7000-8000-000000000001", "019c44d8-8400-7000-8000-000000000002");
    for host in hosts() {
        let (a, b) = (host.file("a"), host.file("b"));
        host.put(ahead, &a, b"1", Some("role"));
        let meta =
            RunMeta { id: cut.to_owned(), planned: vec!["role/an item".to_owned()], ..RunMeta::default() };
        let mut item = spec(vec![host.change(&b, host.file_line(b"new", 0o600))]);
        item.run = cut.to_owned();
        host.sh(&format!("{}\n{}", open_script(&meta), host.item(&item, &[b"new"])));
        let reported = host.owned().cut_off.map(|run| (run.id, run.changes.len()));
        assert_eq!(reported, Some((cut.to_owned(), 1)), "{:?}", host.argv);
    }
}

#[test]
fn records_of_format_1_are_read_and_brought_to_format_5() {
    for host in hosts() {
        host.put("r1", &host.file("a"), b"1", None);
        std::fs::write(host.root().join("version"), "1\n").unwrap();
        assert_eq!(host.records().len(), 1);
        assert_eq!(host.owned().things, []);
        host.put("r2", &host.file("a"), b"2", Some("first"));
        assert_eq!(std::fs::read_to_string(host.root().join("version")).unwrap(), "6\n");
        assert_eq!(host.owned().things.len(), 1);
    }
}

#[test]
fn a_base_that_the_host_folded_itself_is_gone_on_with() {
    for host in hosts() {
        host.put("r1", &host.file("a"), b"1", Some("first"));
        // As the last version left it that folded on the host: the same form, in format 3.
        let row = "path\t/srv/old\tp\ti\tfirst\tfirst/x\t2026-11-21T04:05:06Z\tr0\tabsent\tdir 755 root root\t-\t-\t-\t-\t-\n";
        let old = format!("converge-owned\t1\nfolded\tr1\nown\t{row}");
        std::fs::write(host.root().join("owned"), &old).unwrap();
        std::fs::write(host.root().join("version"), "3\n").unwrap();
        let observed = host.owned();
        assert_eq!((observed.things.len(), observed.base), (1, None), "r1 is in it, whatever it did");
        host.put("r2", &host.file("b"), b"2", Some("first"));
        assert_eq!(std::fs::read_to_string(host.root().join("version")).unwrap(), "6\n");
        assert_eq!(
            std::fs::read_to_string(host.root().join("owned")).unwrap(),
            old,
            "nothing was to be folded"
        );
        host.put("r3", &host.file("b"), b"3", Some("first"));
        assert_eq!(host.folded(), ["r1", "r2"]);
        assert_eq!(host.owned().things.len(), 2);
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
    let mut reply = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut reply)
        .unwrap();
    let second = host.sh(&open_script(&RunMeta { id: "r2".to_owned(), ..RunMeta::default() }));
    let reply = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(LOCKED));
    assert!(reply.contains("with no record of a run") && reply.contains(&child.id().to_string()), "{reply}");
    assert!(host.owned().things.is_empty());
    drop(child.stdin.take());
    child.wait().unwrap();
}
