use super::*;

/// The folder of these tests lies where others may write. Here only `open` does.
pub(super) const SAFE: &str = "cv_others_write() { case $3 in */open) return 0 ;; esac; return 1; }";

/// New files in the folder of a host, each an item of its own.
fn members(host: &FakeHost, files: &[(&str, &str)]) -> Vec<(ItemSpec, PlainFile)> {
    let one = |(seq, (name, text)): (u32, &(&str, &str))| {
        let change = host.change(&host.file(name), host.file_line(text.as_bytes(), 0o640));
        let mut spec = spec(vec![change]);
        spec.run = "r1".to_owned();
        spec.address = format!("role/{name}");
        spec.rows[0].seq = seq;
        spec.owns = vec![(seq, "role".to_owned())];
        let file = spec.plain_file(Some(text.as_bytes())).unwrap();
        (spec, file)
    };
    (1..).zip(files).map(one).collect()
}

/// The output of the group, between these scripts in its run.
pub(super) fn made(
    host: &FakeHost,
    members: &[(ItemSpec, PlainFile)],
    before: &str,
) -> (String, Vec<Option<ItemRun>>) {
    let refs: Vec<_> = members.iter().map(|(spec, file)| (spec, file)).collect();
    let piece = group_piece("t0k", &refs);
    let output = host.run(
        "r1",
        &[],
        &format!("{SAFE}\n{before}\n(\n{}) </dev/null\necho \"status $?\"", piece.script),
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = text.lines().filter_map(|l| l.strip_prefix("status ")).next_back();
    let status =
        status.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr))).to_owned();
    let mut reply = group_answers("t0k", &output.stdout);
    let mut read = |spec: &ItemSpec| match reply.remove(&spec.rows[0].seq) {
        Some(MemberAnswer::Ended(status, text)) => Some(spec.read(status, text.as_bytes())),
        Some(MemberAnswer::Alone) => None,
        None => panic!("nothing was said of {}: {text}", spec.address),
    };
    (status, members.iter().map(|(spec, _)| read(spec)).collect())
}

#[test]
fn files_that_are_made_together_are_made_and_recorded_as_each_by_itself() {
    for host in hosts() {
        let files = [("a b", "one\n"), ("it's", "two $HOME `id` \\n"), ("empty", ""), ("ü", "no newline")];
        let members = members(&host, &files);
        let (status, runs) = made(&host, &members, "");
        assert_eq!(status, "0", "{:?} {runs:?}", host.argv);
        for ((name, text), ((spec, _), run)) in files.iter().zip(members.iter().zip(&runs)) {
            let run = run.as_ref().unwrap();
            let change = &spec.rows[0].change;
            assert_eq!(run.reading, Reading::Done);
            assert_eq!(run.after, [(change.object.clone(), change.to.clone())]);
            assert_eq!(std::fs::read_to_string(host.file(name)).unwrap(), *text);
        }
        assert_eq!(
            std::fs::read_dir(host.file("")).unwrap().count(),
            files.len(),
            "nothing else is left there"
        );
        let records = host.records();
        assert!(records[0].finished);
        let saved: Vec<_> =
            records[0].changes.iter().map(|c| (c.item.as_str(), &c.before, &c.after, &c.outcome)).collect();
        let wanted: Vec<_> = members
            .iter()
            .map(|(spec, _)| {
                (
                    spec.address.as_str(),
                    &spec.rows[0].change.from,
                    &spec.rows[0].change.to,
                    &SavedOutcome::Done,
                )
            })
            .collect();
        assert_eq!(saved, wanted);
        assert_eq!(host.owned().things.len(), files.len());
        let (code, reply) = host.undo(&[]);
        assert_eq!(code, Some(0), "{reply}");
        assert_eq!(std::fs::read_dir(host.file("")).unwrap().count(), 0, "{reply}");
    }
}

#[test]
fn what_is_not_as_plain_as_planned_is_left_to_an_item_of_its_own_with_all_after_it() {
    for host in hosts() {
        std::fs::create_dir(host.file("open")).unwrap();
        for odd in ["there", "open/far", "nodir/x"] {
            let members = members(&host, &[("good", "1"), (odd, "2"), ("after", "3")]);
            std::fs::write(host.file("there"), "somebody's").unwrap();
            let (status, runs) = made(&host, &members, "");
            assert_eq!(status, "73", "{odd}");
            let done: Vec<bool> = runs.iter().map(Option::is_some).collect();
            assert_eq!(done, [true, false, false], "{odd}");
            let items: Vec<String> = host.records()[0].changes.iter().map(|c| c.item.clone()).collect();
            assert_eq!(items, ["role/good"], "{odd}");
            assert!(!host.file("after").exists() && !host.file("open/far").exists());
            assert_eq!(std::fs::read_to_string(host.file("there")).unwrap(), "somebody's");
            std::fs::remove_file(host.file("good")).unwrap();
            std::fs::remove_file(host.file("there")).unwrap();
            std::fs::remove_dir_all(host.root().join("runs/r1")).unwrap();
        }
    }
}

#[test]
fn after_a_member_that_fails_none_is_made_and_no_temporary_file_is_left() {
    for host in hosts() {
        // It comes through damaged; its owner cannot be set.
        for (meddle, says, nth) in [
            (
                "eval \"$(echo 'sync() { :; }')\"\nsha256sum() { command sha256sum \"$@\" | sed 's/^d4735e3a/00000000/'; }",
                "damaged",
                1,
            ),
            (
                "chmod() { case $1 in 0000*) echo not so; return 1 ;; *) command chmod \"$@\" ;; esac; }",
                "not so",
                0,
            ),
        ] {
            let members = members(&host, &[("a", "1"), ("b", "2"), ("c", "3")]);
            let (status, runs) = made(&host, &members, meddle);
            assert_eq!(status, "73", "{runs:?}");
            for (n, run) in runs.iter().enumerate() {
                let reading = run.as_ref().map(|run| run.reading.clone());
                let wanted = if n < nth {
                    Some(Reading::Done)
                } else if n == nth {
                    Some(Reading::Failed)
                } else {
                    None
                };
                assert_eq!(reading, wanted, "{says}: {runs:?}");
            }
            assert!(runs[nth].as_ref().unwrap().output.contains(says), "{runs:?}");
            let hidden = std::fs::read_dir(host.file(""))
                .unwrap()
                .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
            assert_eq!(hidden.count(), 0, "{says}");
            assert!(!host.file("c").exists());
            let (_, reply) = host.undo(&[]);
            assert!(!host.file("a").exists(), "{reply}");
            std::fs::remove_dir_all(host.root().join("runs/r1")).unwrap();
        }
    }
}

/// A directory, one in it, and a file in that.
fn tree(host: &FakeHost) -> Vec<(ItemSpec, PlainFile)> {
    let change = |name: &str, to: &str| Change {
        object: ObjectId::new("path", host.file(name).to_str().unwrap()),
        from: State::absent(),
        to: State::from_line(to),
    };
    let mut changes = vec![change("d", "dir 755 root root"), change("d/e", "dir 700 root root")];
    changes.push(Change { to: host.file_line(b"x", 0o640), ..change("d/e/f", "absent") });
    let one = |(seq, change): (u32, Change)| {
        let mut spec = spec(vec![change]);
        spec.run = "r1".to_owned();
        spec.address = format!("role/{seq}");
        spec.rows[0].seq = seq;
        let file = spec.plain_file(Some(b"x")).unwrap();
        (spec, file)
    };
    (1..).zip(changes).map(one).collect()
}

#[test]
fn directories_are_made_with_what_lies_in_them_up_to_the_first_that_somebody_else_makes() {
    for host in hosts() {
        let members = tree(&host);
        let (status, runs) = made(&host, &members, "");
        assert_eq!(status, "0", "{:?} {runs:?}", host.argv);
        assert_eq!(std::fs::read_to_string(host.file("d/e/f")).unwrap(), "x");
        let mode = |name: &str| std::fs::metadata(host.file(name)).unwrap().mode() & 0o7777;
        assert_eq!(["d", "d/e", "d/e/f"].map(mode), [0o755, 0o700, 0o640]);
        host.undo(&["r1"]);
        assert!(!host.file("d").exists(), "undo.sh takes all of it");
    }
    for host in hosts() {
        let members = tree(&host);
        let other = quote(host.file("d/e").to_str().unwrap()).to_string();
        let quick = format!("cv_journal() {{ mkdir -p {other}; printf %s \"$1\" >>\"$CV_DIR/journal\"; }}");
        let (status, runs) = made(&host, &members, &quick);
        assert_eq!((status.as_str(), runs.iter().flatten().count()), ("73", 0), "{runs:?}");
        assert!(!host.file("d/e/f").exists());
        let ends: Vec<_> = host.records()[0].changes.iter().map(|c| c.outcome).collect();
        assert!(ends.iter().all(|end| *end == SavedOutcome::PutBack), "{ends:?}");
    }
}

#[test]
fn a_group_that_is_killed_leaves_before_or_after_of_each_file_and_the_next_run_sweeps_what_is_left() {
    for host in hosts() {
        let members = members(&host, &[("a", "1"), ("b", "2"), ("c", "3")]);
        let refs: Vec<_> = members.iter().map(|(spec, file)| (spec, file)).collect();
        // Killed with the first in its place, and the others beside theirs.
        let kill = "mv() { command mv \"$@\"; kill -9 $$; sleep 5; }";
        let meta = RunMeta { id: "r1".to_owned(), ..RunMeta::default() };
        let piece = group_piece("t0k", &refs);
        host.sh(&format!(
            "{SAFE}\n{} || exit $?\n{kill}\ntrap '' EXIT\ncv_many_clean() {{ :; }}\n{}",
            open_script(&meta),
            piece.script
        ));
        let run = &host.records()[0];
        assert!(!run.finished);
        assert_eq!(run.changes.len(), 3, "all that may have happened is in the journal");
        assert!(host.file("a").exists() && !host.file("b").exists() && !host.file("c").exists());
        host.run("r2", &[], "");
        let names =
            std::fs::read_dir(host.file("")).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
        assert_eq!(names, ["a"]);
        let (code, reply) = host.undo(&[]);
        assert_eq!(code, Some(0), "{reply}");
        assert!(!host.file("a").exists(), "{reply}");
    }
}

#[test]
fn only_what_is_plain_goes_with_others() {
    for host in hosts().into_iter().take(1) {
        let change = host.change(&host.file("a"), host.file_line(b"1", 0o640));
        let plain = spec(vec![change.clone()]);
        assert!(plain.plain_file(Some(b"1")).is_some());
        assert_eq!(plain.plain_file(None), None);
        assert_eq!(plain.plain_file(Some(b"a\0b")), None);
        assert_eq!(plain.plain_file(Some(&[0xff])), None);
        assert_eq!(plain.plain_file(Some(&[b'x'; 5000])), None);
        for odd in
            ["/dev/shm/a", "/a\tb", &format!("/{}/a", "x".repeat(1000)), &format!("/{}", "x".repeat(201))]
        {
            let mut odd_name = plain.clone();
            odd_name.rows[0].change.object.key = odd.to_owned();
            assert_eq!(odd_name.plain_file(Some(b"1")), None, "{odd}");
        }
        let validated =
            ItemSpec { settings: vec![("CV_VALIDATE".to_owned(), "true %s".to_owned())], ..plain.clone() };
        assert_eq!(validated.plain_file(Some(b"1")), None);
        let switched = ItemSpec { switch: Some(Switch::default()), ..plain };
        assert_eq!(switched.plain_file(Some(b"1")), None);
        std::fs::write(host.file("a"), "old").unwrap();
        let replaced = spec(vec![host.change(&host.file("a"), change.to.clone())]);
        assert_eq!(replaced.plain_file(Some(b"1")).unwrap().text.as_deref(), Some("1"));
        let back = ItemSpec { settings: vec![("CV_FROM_RUN".to_owned(), "r0".to_owned())], ..replaced };
        let wanted = PlainFile { text: None, from_run: "r0".to_owned(), is_directory: false };
        assert_eq!(back.plain_file(None), Some(wanted.clone()), "the host has its content");
        let removed = spec(vec![host.change(&host.file("a"), State::absent())]);
        assert_eq!(removed.plain_file(None), Some(PlainFile { from_run: String::new(), ..wanted }));
        for (state, goes) in
            [("dir 755 root root", true), ("dir 775 root root", false), ("dir 755 games root", false)]
        {
            let made = spec(vec![host.change(&host.file("new"), State::from_line(state))]);
            assert_eq!(made.plain_file(None).is_some_and(|made| made.is_directory), goes, "{state}");
        }
        std::fs::write(host.file("a"), vec![b'x'; 70_000]).unwrap();
        let long = spec(vec![host.change(&host.file("a"), change.to)]);
        assert_eq!(long.plain_file(Some(b"1")), None);
    }
}
