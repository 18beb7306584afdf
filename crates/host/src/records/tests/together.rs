use super::*;

/// Packages that are files of `$S`, and an apt that does what it is asked for: all in one line of `$S/.asked`.
const APT: &str = r#"
cv_see_package() { for p; do if [ -e "$S/$p" ]; then printf -- '- %s\n' "$(cat "$S/$p")"; else echo '- absent'; fi; done; }
cv_save_package() { [ ! -e "$S/.unsaveable" ]; }
cv_simulate_package() {
  for w; do case $w in *=*) echo "inst ${w%%=*} ${w#*=}" ;; -*) ;; *-) echo "remv ${w%-}" ;; esac; done
}
cv_apt_transaction() {
  if [ -e "$S/.differs" ]; then
    echo 'inst other 1' >"$CV_ASK/apt"
    return 100
  fi
  echo "$*" >>"$S/.asked"
  [ ! -e "$S/.moves" ] || echo moved >"$(cat "$S/.moves")"
  broke=0
  for w; do
    case $w in
    *=*)
      n=${w%%=*}
      if [ -e "$S/.breaks-$n" ]; then broke=100; cat "$S/.breaks-$n" >"$S/$n"; else echo "present ${w#*=} manual -" >"$S/$n"; fi
      ;;
    -*) ;;
    *-) rm "$S/${w%-}" ;;
    esac
  done
  [ $broke -eq 0 ] || echo 'E: it broke'
  return $broke
}
cv_packages_mark() {
  [ $# -gt 1 ] || return 0
  word=$1
  shift
  for n; do
    read -r s v m h <"$S/$n"
    case $word in hold) h=hold ;; unhold) h=- ;; *) m=$word ;; esac
    echo "$s $v $m $h" >"$S/$n"
  done
}
"#;

/// An item `role/name` over these packages: name, before, after. Rows are numbered from `seq`.
fn packages(address: &str, seq: u32, changes: &[(&str, &str, &str)]) -> ItemSpec {
    let change = |(name, from, to): &(&str, &str, &str)| Change {
        object: ObjectId::new("package", *name),
        from: State::from_line(from),
        to: State::from_line(to),
    };
    let mut spec = spec(changes.iter().map(change).collect());
    spec.run = "r1".to_owned();
    spec.address = address.to_owned();
    for (row, seq) in spec.rows.iter_mut().zip(seq..) {
        row.seq = seq;
    }
    spec.owns = vec![(seq, address.split('/').next().unwrap().to_owned())];
    spec
}

/// The host's answer for each, and the status; `None`: it must come as an item of its own.
fn done(host: &FakeHost, members: &[ItemSpec], before: &str) -> (String, Vec<Option<ItemRun>>) {
    let piece = together_piece("t0k", &members.iter().collect::<Vec<_>>());
    let packages = host.file("");
    let body = format!(
        "{APT}\nS={}\n{before}\n(\n{}) </dev/null\necho \"status $?\"",
        quote(packages.to_str().unwrap()),
        piece.script
    );
    let output = host.run("r1", &[], &body);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = text.lines().filter_map(|l| l.strip_prefix("status ")).next_back();
    let status =
        status.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr))).to_owned();
    let mut reply = group_answers("t0k", &output.stdout);
    let read = |spec: &ItemSpec| match reply.remove(&spec.rows[0].seq) {
        Some(MemberAnswer::Ended(status, text)) => Some(spec.read(status, text.as_bytes())),
        Some(MemberAnswer::Alone) => None,
        None => {
            panic!("nothing was said of {}: {text}{}", spec.address, String::from_utf8_lossy(&output.stderr))
        }
    };
    (status, members.iter().map(read).collect())
}

/// Three items: one brings a library along, one needs it and is held, one is there already and gets its mark.
fn three() -> Vec<ItemSpec> {
    vec![
        packages("one/a", 1, &[("a", "absent", "present 1 manual -"), ("lib", "absent", "present 2 auto -")]),
        packages("one/b[x]", 3, &[("b", "absent", "present 1:1 manual hold")]),
        packages("two/c", 4, &[("c", "present 3 auto -", "present 3 manual -")]),
    ]
}

fn there(host: &FakeHost, files: &[(&str, &str)]) {
    for (name, text) in files {
        std::fs::write(host.file(name), format!("{text}\n")).unwrap();
    }
}

fn text(host: &FakeHost, name: &str) -> String {
    std::fs::read_to_string(host.file(name)).unwrap_or_default().trim().to_owned()
}

#[test]
fn items_that_go_together_are_one_transaction_and_each_is_recorded_as_by_itself() {
    for host in hosts() {
        there(&host, &[("c", "present 3 auto -")]);
        let members = three();
        let (status, runs) = done(&host, &members, "");
        assert_eq!(status, "0", "{:?} {runs:?}", host.argv);
        let asked = text(&host, ".asked");
        assert!(asked.ends_with("a=1 lib=2 b=1:1"), "one transaction: {asked}");
        for (spec, run) in members.iter().zip(&runs) {
            let run = run.as_ref().unwrap();
            assert_eq!(run.reading, Reading::Done, "{}", spec.address);
            let wanted: Vec<_> =
                spec.rows.iter().map(|r| (r.change.object.clone(), r.change.to.clone())).collect();
            assert_eq!(run.after, wanted);
        }
        let marks = ["lib", "b", "c"].map(|name| text(&host, name));
        assert_eq!(marks, ["present 2 auto -", "present 1:1 manual hold", "present 3 manual -"]);
        let record = &host.records()[0];
        let saved: Vec<_> = record.changes.iter().map(|c| (c.seq, c.item.as_str(), c.outcome)).collect();
        let of = |seq, item| (seq, item, SavedOutcome::Done);
        assert_eq!(saved, [of(1, "one/a"), of(2, "one/a"), of(3, "one/b[x]"), of(4, "two/c")]);
        assert_eq!(host.owned().things.len(), 4, "with what came along");
    }
}

#[test]
fn where_anything_is_not_as_planned_each_comes_alone_and_nothing_is_done() {
    for host in hosts() {
        for (odd, reply) in [("b", "present 9 manual -"), (".differs", ""), (".unsaveable", "")] {
            there(&host, &[("c", "present 3 auto -"), (odd, reply)]);
            let (status, runs) = done(&host, &three(), "");
            assert_eq!((status.as_str(), runs), ("73", vec![None, None, None]), "{odd}");
            assert_eq!((text(&host, ".asked"), text(&host, "a")), (String::new(), String::new()), "{odd}");
            // That apt would do something else it says when all is recorded already.
            let ends = host.records().into_iter().flat_map(|run| run.changes).map(|change| change.outcome);
            let ends: Vec<_> = ends.collect();
            assert!(ends.iter().all(|end| *end == SavedOutcome::PutBack), "{odd}: {ends:?}");
            assert_eq!(ends.len(), if odd == ".differs" { 4 } else { 0 }, "{odd}");
            let _ = std::fs::remove_dir_all(host.root());
            std::fs::remove_file(host.file(odd)).unwrap();
        }
    }
}

#[test]
fn after_a_failed_transaction_each_item_is_reported_by_what_is_there_and_the_cause_once() {
    for host in hosts() {
        there(
            &host,
            &[
                ("c", "present 3 auto -"),
                (".breaks-b", "broken half-configured"),
                (".breaks-a", "broken unpacked"),
            ],
        );
        let mut members = three();
        members.push(packages("two/d", 5, &[("d", "absent", "present 4 manual hold")]));
        let (status, runs) = done(&host, &members, "");
        assert_eq!(status, "73");
        let runs: Vec<ItemRun> = runs.into_iter().map(Option::unwrap).collect();
        let readings: Vec<_> = runs.iter().map(|run| run.reading.clone()).collect();
        assert_eq!(
            readings,
            [Reading::Failed, Reading::Failed, Reading::Done, Reading::Done],
            "{:?}",
            host.argv
        );
        let causes: Vec<bool> = runs.iter().map(|run| run.output.contains("E: it broke")).collect();
        assert_eq!(causes, [false, true, false, false], "at what is half done, not at what waits for it");
        assert!(
            runs[0].output.contains("its transaction failed at one/b[x], which says why"),
            "{}",
            runs[0].output
        );
        assert_eq!(text(&host, "d"), "present 4 manual hold", "what arrived has its marks");
        let record = &host.records()[0];
        let failed = |c: &&converge_ledger::SavedChange| matches!(c.outcome, SavedOutcome::Failed);
        let items: Vec<_> = record.changes.iter().filter(failed).map(|c| c.item.as_str()).collect();
        assert_eq!(items, ["one/a", "one/a", "one/b[x]"]);
    }
}

#[test]
fn what_the_transaction_moves_is_recorded_for_the_item_of_the_role_that_claims_it() {
    for host in hosts() {
        for (role, item) in [("one", "one/b[x]"), ("two", "two/c"), ("three", "two/c")] {
            let conf = host.file("conf");
            there(&host, &[("c", "present 3 auto -"), (".moves", conf.to_str().unwrap()), ("conf", "old")]);
            let watched = ObjectId::new("path", conf.to_str().unwrap());
            let mut members = three();
            let row =
                |object: ObjectId, seq, expected| WindowRow { seq, object, expected, role: role.to_owned() };
            members[0].window = vec![
                row(ObjectId::new("package", "b"), 20, State::from_line("absent")),
                row(watched.clone(), 21, host.line(&conf)),
            ];
            let (status, runs) = done(&host, &members, "");
            assert_eq!(status, "0", "{:?}", host.argv);
            let windows: Vec<_> = runs.iter().flatten().flat_map(|run| run.window.keys()).collect();
            assert_eq!(windows, [&watched], "told once, and not of their own packages");
            let record = &host.records()[0];
            let moved = record.changes.iter().find(|c| c.outcome == SavedOutcome::Moved).unwrap();
            assert_eq!((&moved.object, moved.item.as_str()), (&watched, item));
            for file in ["a", "b", "lib", ".asked"] {
                std::fs::remove_file(host.file(file)).unwrap();
            }
            std::fs::remove_dir_all(host.root()).unwrap();
        }
    }
}

#[test]
fn only_items_of_packages_join_and_no_package_is_in_two() {
    let new = |name: &str| packages("r/x", 1, &[(name, "absent", "present 1 manual -")]);
    let goes = |name: &str, to: &str| packages("r/x", 1, &[(name, "present 1 manual -", to)]);
    assert!(joins(&[], &new("a")));
    assert!(joins(&[&new("a")], &new("b")));
    assert!(joins(&[&new("a")], &goes("b", "absent")), "what comes and what goes");
    assert!(joins(&[&goes("a", "config 1")], &goes("b", "config 1")));
    assert!(!joins(&[&goes("a", "config 1")], &goes("b", "absent")), "purge is for all of a transaction");
    assert!(!joins(&[&goes("a", "absent")], &goes("b", "config 1")));
    assert!(!joins(&[&new("a"), &new("b")], &goes("a", "present 1 manual hold")), "a package in two items");
    let file = Change {
        object: ObjectId::new("path", "/etc/x"),
        from: State::from_line("absent"),
        to: State::from_line("absent"),
    };
    let mut bound = new("b");
    bound.settings = [("CV_APT_CHOICE", "abc"), ("CV_APT_STAGES", "present - index b")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    assert!(joins(&[&bound], &new("c")));
    let mut beside = bound.clone();
    beside.settings[1].1 = "absent - index c".to_owned();
    let script = together_piece("t", &[&bound, &beside]).script;
    assert!(
        script.contains("CV_APT_CHOICE=abc\nCV_APT_STAGES='present - index b\nabsent - index c'\n"),
        "{script}"
    );
    let mut mixed = new("b");
    mixed.rows.push(Row { seq: 9, change: file });
    assert!(!joins(&[&new("a")], &mixed));
    for damage in [
        |spec: &mut ItemSpec| spec.settings.push(("CV_IRREVERSIBLE".to_owned(), "yes".to_owned())),
        |spec: &mut ItemSpec| spec.sensitive = true,
        |spec: &mut ItemSpec| spec.from_run = Some("r0".to_owned()),
        |spec: &mut ItemSpec| spec.switch = Some(Switch::default()),
        |spec: &mut ItemSpec| spec.steps.clear(),
    ] {
        let mut other = new("b");
        damage(&mut other);
        assert!(!joins(&[&new("a")], &other) && !joins(&[], &other), "{other:?}");
    }
}
