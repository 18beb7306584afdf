//! The stacks of changes after rollbacks of rollbacks.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_ledger::{Ledger, ProjectName, ProjectScope, Records, RunRecord, UnrecordedRuns, parse_records};

/// The project of a run, lines of its meta, and from where to where it took the one object (nothing where that was as before already).
type Run<'a> = (&'a str, &'a str, Option<(&'a str, &'a str)>);

fn records(runs: &[Run<'_>]) -> Records {
    let mut text = "converge\t6\n".to_owned();
    for (at, (project, meta, change)) in runs.iter().enumerate() {
        text.push_str(&format!("run\tR{at}\nseq\t{}\nscope\t{project}\thosts.yaml\n{meta}\n", at + 1));
        if let Some((from, to)) = change {
            text.push_str(&format!("begin\t1\tpath\t/k\t{from}\t{to}\tr/i\t-\ndone\t1\t{to}\n"));
        }
        text.push_str("close\tfinished\t1\n");
    }
    let records = parse_records(&text).unwrap();
    assert_eq!(records.broken, Vec::<String>::new());
    records
}

fn project(name: &str) -> ProjectScope {
    ProjectScope(ProjectName { playbook: name.to_owned(), inventory: "hosts.yaml".to_owned() })
}

#[test]
fn what_a_rollback_of_a_rollback_put_on_again_goes_with_it() {
    let records = records(&[
        ("p", "purpose\tconverge", Some(("absent", "v 1"))),
        ("p", "purpose\tconverge", Some(("v 1", "v 2"))),
        ("p", "purpose\trollback\nundoes\tR1", Some(("v 2", "v 1"))),
        ("p", "purpose\trollback\nundoes\tR2", Some(("v 1", "v 2"))),
        ("p", "purpose\trollback\nundoes\tR3", Some(("v 2", "v 1"))),
    ]);
    let ledger = Ledger::of(&records.runs);
    assert_eq!(ledger.candidates(&project("p"), &|_| true), [0]);
}

#[test]
fn what_comes_back_stands_where_it_stood() {
    let records = records(&[
        ("own", "purpose\tconverge", Some(("absent", "v 1"))),
        ("theirs", "purpose\tconverge", Some(("v 1", "v 2"))),
        ("theirs", "purpose\trollback\nundoes\tR1", Some(("v 2", "v 1"))),
        ("theirs", "purpose\tconverge", Some(("v 1", "v 3"))),
        // With `--force`, below the later run.
        ("theirs", "purpose\tundo\nattempts\tR2\nundoes\tR2", Some(("v 3", "v 2"))),
    ]);
    let ledger = Ledger::of(&records.runs);
    assert_eq!(ledger.candidates(&project("theirs"), &|_| true), [1, 3]);
    let (undos, _) = ledger.revert_from(0, &project("own"), &|_| true);
    let why = undos[0].theirs.clone().unwrap();
    assert!(why.contains("the later run R3 of another project"), "the newest one is named: {why}");
}

/// A change that its project has brought back goes with the one below it, and stays away when that one comes back.
#[test]
fn what_another_project_has_brought_back_goes_for_good() {
    let mut runs = vec![
        ("own", "purpose\tconverge", Some(("absent", "v 1"))),
        ("theirs", "purpose\tconverge", Some(("v 1", "v 2"))),
        ("theirs", "purpose\tconverge", Some(("v 2", "v 1"))),
        ("own", "purpose\trollback\nundoes\tR0", Some(("v 1", "absent"))),
        ("own", "purpose\trollback\nundoes\tR3", Some(("absent", "v 1"))),
    ];
    for own in [vec![0], vec![]] {
        let records = records(&runs);
        let ledger = Ledger::of(&records.runs);
        assert_eq!(ledger.candidates(&project("theirs"), &|_| true), Vec::<usize>::new());
        assert_eq!(ledger.candidates(&project("own"), &|_| true), own);
        runs.truncate(4);
    }
}

/// A rollback whose end was not the one that it went for is no dead end for the next.
#[test]
fn what_a_rollback_left_otherwise_is_ours() {
    let runs = [
        ("p", "purpose\tconverge", Some(("absent", "v 1"))),
        ("p", "purpose\tconverge", Some(("v 1", "v 2"))),
        ("p", "purpose\trollback\nundoes\tR1", Some(("v 2", "v 3"))),
    ];
    let records = records(&runs);
    let ledger = Ledger::of(&records.runs);
    assert_eq!(ledger.candidates(&project("p"), &|_| true), [0]);
    let (undos, _) = ledger.revert_from(0, &project("p"), &|_| true);
    let known: Vec<&str> = undos[0].states.iter().map(|known| known.state.line()).collect();
    assert_eq!(known, ["absent", "v 3", "v 1"]);
}

/// The runs that a rollback set out for are not recorded any more: it takes no other run back.
#[test]
fn a_rollback_of_what_is_not_recorded_takes_nothing_back() {
    let runs = [
        ("p", "purpose\tconverge", Some(("v 1", "v 2"))),
        ("p", "purpose\tconverge", Some(("v 2", "v 1"))),
        ("p", "purpose\trollback\nundoes\tgone", Some(("v 3", "v 1"))),
    ];
    let records = records(&runs);
    let ledger = Ledger::of(&records.runs);
    assert_eq!(ledger.candidates(&project("p"), &|_| true), [0, 1]);
}

#[test]
fn runs_that_are_not_recorded_any_more_are_told_from_others() {
    let runs = [
        ("p", "purpose\tconverge", Some(("absent", "v 1"))),
        ("p", "purpose\tconverge", Some(("v 2", "v 3"))),
    ];
    let unrecorded = |seqs: [u64; 2], more: Option<u64>| {
        let mut runs = records(&runs).runs;
        runs.iter_mut().zip(seqs).for_each(|(run, seq)| run.seq = Some(seq));
        let last = runs[0].clone();
        runs.extend(more.map(|seq| RunRecord { seq: Some(seq), changes: Vec::new(), ..last }));
        let (undos, _) = Ledger::of(&runs).revert_from(0, &project("p"), &|_| true);
        let UnrecordedRuns { between, since } = undos[0].unrecorded;
        (between, since)
    };
    // Somebody else has changed it in between: no number is missing.
    assert_eq!(unrecorded([1, 2], None), (false, false));
    assert_eq!(unrecorded([1, 3], None), (true, false));
    assert_eq!(unrecorded([1, 2], Some(4)), (false, true));
}

#[test]
fn what_the_project_has_forgotten_goes_back_no_more() {
    let changed = [
        ("p", "purpose\tconverge", Some(("absent", "v 1"))),
        ("p", "purpose\trollback\nundoes\tR0", Some(("v 1", "absent"))),
        ("p", "purpose\tconverge", Some(("absent", "v 2"))),
    ];
    let forgets = |project| (project, "purpose\tconverge\nforget\tpath\t/k", None);
    let of = |last: &[Run<'_>]| records(&[&changed[..], last].concat());
    let (own, theirs) = (project("p"), project("q"));

    // Before it, the run of the object is the one to take back. Another project forgets nothing of it.
    for records in [of(&[]), of(&[forgets("q")])] {
        assert_eq!(Ledger::of(&records.runs).candidates(&own, &|_| true), [2]);
        assert_eq!(
            converge_ledger::fold(Default::default(), &records.runs).present().count(),
            0,
            "no role has it"
        );
    }
    let forgotten = of(&[forgets("p")]);
    let ledger = Ledger::of(&forgotten.runs);
    assert_eq!(ledger.candidates(&own, &|_| true), Vec::<usize>::new());
    for start in 0..=3 {
        assert_eq!(ledger.revert_to(start, &own, &|_| true).0, [], "to before run {start}");
    }
    // Neither does a rollback that goes to before it bring it back, nor one of a rollback.
    for undone in ["undoes\tR3", "undoes\tR1"] {
        let back = of(&[forgets("p"), ("p", &format!("purpose\trollback\n{undone}"), None)]);
        assert_eq!(Ledger::of(&back.runs).candidates(&own, &|_| true), Vec::<usize>::new(), "{undone}");
    }
    // Later changes count from there, those of the project and those of others.
    let again = of(&[
        forgets("p"),
        ("p", "purpose\tconverge", Some(("v 2", "v 3"))),
        ("q", "purpose\tconverge", Some(("v 3", "v 4"))),
    ]);
    let ledger = Ledger::of(&again.runs);
    assert_eq!(ledger.candidates(&own, &|_| true), [4]);
    assert_eq!(ledger.candidates(&theirs, &|_| true), [5]);
    let (undos, runs) = ledger.revert_to(0, &own, &|_| true);
    assert_eq!((undos[0].before.line(), runs), ("v 2", vec![0, 1, 2, 3, 4]));
}

/// With a command go the changes that its script made; a later one to the same object goes back to what the command left.
#[test]
fn what_a_forgotten_command_has_made_goes_back_no_more() {
    let head =
        |id: &str, seq: u8| format!("run\t{id}\nseq\t{seq}\nscope\tp\thosts.yaml\npurpose\tconverge\n");
    let changes = "begin\t1\tcommand\tc\tpending\tdone\tr/c\t-\ndone\t1\tdone\nmoved\t2\tpath\t/k\tabsent\tv 1\tr/c\t-\n\
                   begin\t3\tpath\t/k\tv 1\tv 2\tr/l\t-\ndone\t3\tv 2\nclose\tfinished\n";
    let before = |last: &str| {
        let records = parse_records(&format!("converge\t6\n{}{changes}{last}", head("R0", 1))).unwrap();
        let (undos, _) = Ledger::of(&records.runs).revert_from(0, &project("p"), &|_| true);
        undos.iter().map(|undo| format!("{} {}", undo.object, undo.before.line())).collect::<Vec<_>>()
    };
    assert_eq!(before(""), ["path:/k absent", "the command pending"]);
    assert_eq!(before(&format!("{}forget\tcommand\tc\nclose\tfinished\n", head("R1", 2))), ["path:/k v 1"]);
}

/// Two roles change one object: a rollback of the role that did so last goes back to what the other one has made of it, and leaves that in force.
#[test]
fn a_rollback_of_a_role_leaves_what_another_role_has_made_of_the_same_object() {
    let first = "run\tR0\nseq\t1\nscope\tp\thosts.yaml\npurpose\tconverge\n\
                 begin\t1\tunit\tu.service\tabsent\tunit enabled active -\ta/u\t-\nowns\t1\ta\ndone\t1\tunit enabled active -\n\
                 begin\t2\tunit\tu.service\tunit enabled active -\tunit enabled active d1\tb/u\t-\nowns\t2\tb\ndone\t2\tunit enabled active d1\n\
                 close\tfinished\t1\n";
    let back = "run\tR1\nseq\t2\nscope\tp\thosts.yaml\npurpose\trollback\tb\nundoes\tR0\n\
                begin\t1\tunit\tu.service\tunit enabled active d1\tunit enabled active -\tb/u\t-\ndone\t1\tunit enabled active -\n\
                close\tfinished\t1\n";
    let roles = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let reverts = |text: &str, of: &[&str]| {
        let records = parse_records(&format!("converge\t6\n{text}")).unwrap();
        assert_eq!(records.broken, Vec::<String>::new());
        let ledger = Ledger::of(&records.runs).of_roles(&roles(of));
        let (undos, _) = ledger.revert_from(0, &project("p"), &|_| true);
        undos.iter().map(|u| format!("{} → {}", u.left.line(), u.before.line())).collect::<Vec<_>>()
    };
    assert_eq!(reverts(first, &[]), ["unit enabled active d1 → absent"]);
    assert_eq!(reverts(first, &["b"]), ["unit enabled active d1 → unit enabled active -"]);
    assert_eq!(reverts(first, &["a"]), Vec::<String>::new(), "the other role has changed it since");
    let both = [first, back].concat();
    assert_eq!(reverts(&both, &[]), ["unit enabled active - → absent"]);
    assert_eq!(reverts(&both, &["b"]), Vec::<String>::new());
    let records = parse_records(&format!("converge\t6\n{both}")).unwrap();
    let managed = converge_ledger::fold(converge_ledger::ManagedObjects::default(), &records.runs);
    assert_eq!(managed.present().count(), 1);
}
