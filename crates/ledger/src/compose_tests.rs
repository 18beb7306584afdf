use crate::{Ledger, MountLayer, ProjectScope, SavedChange, Undo, parse_records};
use converge_resource::{ObjectId, State};

fn state(line: &str) -> State {
    State::from_line(line)
}

/// In a planned `v ~ N` the host chooses the first word.
fn same(_: &ObjectId, now: &State, planned: &State) -> bool {
    let (now, planned) = (now.line(), planned.line());
    now == planned
        || planned.strip_prefix("v ~").is_some_and(|rest| now.starts_with("v ") && now.ends_with(rest))
}

/// The reverts of all these runs; the lines of each are its journal.
fn undos(runs: &[&str]) -> Vec<Undo> {
    let runs: Vec<String> = runs
        .iter()
        .zip(1..)
        .map(|(journal, n)| format!("run\tr{n}\nseq\t{n}\n{journal}close\tfinished\n"))
        .collect();
    let records = parse_records(&format!("converge\t6\n{}", runs.concat())).unwrap();
    assert_eq!(records.broken, Vec::<String>::new());
    Ledger::of(&records.runs).revert_from(0, &ProjectScope::default(), &|_| true).0
}

#[test]
fn a_rollback_knows_what_each_run_left_and_what_the_next_one_found() {
    let first = "begin\t1\tpath\t/a\tabsent\tv 1\tr/a\t-\ndone\t1\tv 1\n";
    let second = "begin\t1\tpath\t/a\tv theirs\tv 2\tr/a\t-\ndone\t1\tv 2\n";
    let [mut undo] = <[Undo; 1]>::try_from(undos(&[first, second])).unwrap();
    assert_eq!((&undo.before, &undo.left), (&state("absent"), &state("v 2")));
    assert_eq!(undo.between, [(state("v 1"), state("v theirs"))]);
    // Of somebody else's state nothing is known; where it is in one of the runs' own, what came later counts as reverted.
    undo.settle(&state("v other"), &same);
    assert_eq!((&undo.left, undo.between.len()), (&state("v 2"), 1));
    undo.settle(&state("v theirs"), &same);
    assert_eq!((&undo.left, undo.between.len()), (&state("v theirs"), 1));
    undo.settle(&state("v 1"), &same);
    assert_eq!((&undo.left, undo.between.len()), (&state("v 1"), 0));
}

#[test]
fn below_a_directory_that_was_absent_nothing_comes_back() {
    let run = "begin\t1\tpath\t/srv/d\tabsent\tdir\tr/d\t-\ndone\t1\tdir\n\
               begin\t2\tpath\t/srv/d/x/f\tv package\tv 2\tr/f\t-\ndone\t2\tv 2\n\
               begin\t3\tpath\t/srv/other\tv theirs\tv 3\tr/o\t-\ndone\t3\tv 3\n";
    let before: Vec<(String, State)> = undos(&[run]).into_iter().map(|u| (u.object.key, u.before)).collect();
    let wanted = [("/srv/other", "v theirs"), ("/srv/d/x/f", "absent"), ("/srv/d", "absent")];
    assert_eq!(before, wanted.map(|(key, line)| (key.to_owned(), state(line))));
}

#[test]
fn an_end_that_the_host_could_not_look_at_leaves_open_what_happened() {
    let [undo] =
        <[Undo; 1]>::try_from(undos(&["begin\t1\tpath\t/a\tabsent\tv 1\tr/a\t-\ndone\t1\t! no-answer\n"]))
            .unwrap();
    assert_eq!((undo.left, undo.open), (state("v 1"), Some(state("absent"))));
}

#[test]
fn a_step_that_was_cut_off_may_have_left_what_it_planned_with_what_the_host_chose() {
    let cut = "begin\t1\tpath\t/a\tv 0\tv ~ 1\tr/a\t-\n";
    let next = "begin\t1\tpath\t/a\tv 7 1\tv 2\tr/a\t-\ndone\t1\tv 2\n";
    let [mut undo] = <[Undo; 1]>::try_from(undos(&[cut])).unwrap();
    undo.settle(&state("v 7 2"), &same);
    assert_eq!(undo.left, state("v ~ 1"), "somebody else's");
    undo.settle(&state("v 7 1"), &same);
    assert_eq!((&undo.left, &undo.open), (&state("v 7 1"), &Some(state("v 0"))));
    // Behind a later run too, which found what the host had chosen. Another choice is the cut step's as well: nobody has recorded it.
    for (now, pairs) in [("v 7 1", 1), ("v 8 1", 0)] {
        let [mut undo] = <[Undo; 1]>::try_from(undos(&[cut, next])).unwrap();
        undo.settle(&state(now), &same);
        assert_eq!((&undo.left, undo.between.len()), (&state(now), pairs), "{now}");
    }
    // A step whose end is known has left that state alone.
    let whole = "begin\t1\tpath\t/a\tv 0\tv ~ 1\tr/a\t-\ndone\t1\tv 7 1\n";
    let [mut undo] = <[Undo; 1]>::try_from(undos(&[whole])).unwrap();
    undo.settle(&state("v 8 1"), &same);
    assert_eq!(undo.left, state("v 7 1"));
    undo.settle(&state("v 8 1"), &|_, _, _| true);
    assert_eq!(undo.left, state("v 7 1"), "only a planned state leaves anything open");
}

#[test]
fn a_rollback_that_failed_may_have_left_either_of_its_states() {
    let run = "begin\t1\tpath\t/a\tabsent\tv 1\tr/a\t-\ndone\t1\tv 1\n";
    let tried = "purpose\trollback\nundoes\tr1\nplanned\tr/a\n\
                 begin\t1\tpath\t/a\tv merged\tabsent\tr/a\t-\nfailed\t1\t1\tv broken\n";
    for now in ["v merged", "v broken"] {
        let [mut undo] = <[Undo; 1]>::try_from(undos(&[run, tried])).unwrap();
        undo.settle(&state(now), &same);
        assert_eq!((undo.left, undo.before), (state(now), state("absent")), "{now}");
    }
}

/// A second rollback must tell what others changed before the first one from what the runs changed.
#[test]
fn a_rollback_beside_changes_of_others_has_left_them_and_not_made_them() {
    let runs = [
        "begin\t1\tk8s\ta\tv 0\tv 1\tr/a\t-\ndone\t1\tv 1\n",
        "begin\t1\tk8s\ta\tv 1\tv 2\tr/a\t-\ndone\t1\tv 2\n",
        "begin\t1\tk8s\ta\tv 2\tv 3\tr/a\t-\ndone\t1\tv 3\n",
        "purpose\trollback\nundoes\tr3\nplanned\tr/a\nbegin\t1\tk8s\ta\tv 3+theirs\tv 2+theirs\tr/a\t-\ndone\t1\tv 2+theirs\n",
        "purpose\trollback\nundoes\tr2\nplanned\tr/a\nbegin\t1\tk8s\ta\tv 2+theirs\tv 1+theirs\tr/a\t-\ndone\t1\tv 1+theirs\n",
    ];
    let beside = |n: u8| (state(&format!("v {n}")), state(&format!("v {n}+theirs")));
    for (rollbacks, now, between) in
        [(1, "v 2+theirs", vec![(state("v 1"), state("v 1")), beside(2)]), (2, "v 1+theirs", vec![beside(1)])]
    {
        let [mut undo] = <[Undo; 1]>::try_from(undos(&runs[..3 + rollbacks])).unwrap();
        undo.settle(&state(now), &same);
        assert_eq!((undo.before, undo.left), (state("v 0"), state(now)));
        assert_eq!(undo.between, between, "{rollbacks}");
    }
}

/// Composes by the rule itself: object after object, each by its changes alone, in the reverse of the order in which they were first touched.
fn composed_by_object(steps: &[(String, SavedChange)]) -> Vec<Undo> {
    let mut objects: Vec<&ObjectId> = Vec::new();
    for (_, change) in steps {
        if !objects.contains(&&change.object) {
            objects.push(&change.object);
        }
    }
    let own = |object: &&ObjectId| {
        let own = steps.iter().filter(|(_, change)| change.object == **object);
        super::compose(own.map(|(run, c)| (run.as_str(), MountLayer::default(), c, Vec::new())), &|_| true)
    };
    objects.iter().rev().flat_map(own).collect()
}

#[test]
fn many_changes_are_composed_object_by_object_in_the_order_of_their_first_touch() {
    let runs: String = (0..10)
        .map(|run| {
            // 500 changes a run, of objects that earlier runs touched in another order, some of them twice.
            let changes = (0..500).map(|seq| {
                let key = (seq * 7 + run * 13) % 411 + run * 20;
                format!("begin\t{seq}\tsysctl\tk{key}\tv {run}\tv {run}.{seq}\tr/{key}\t-\ndone\t{seq}\tv {run}.{seq}\n")
            });
            format!("run\tr{run}\nseq\t{run}\n{}close\tfinished\n", changes.collect::<String>())
        })
        .collect();
    let records = parse_records(&format!("converge\t6\n{runs}")).unwrap();
    let steps = records.runs.iter().flat_map(|run| run.changes.iter().map(|c| (run.id.clone(), c.clone())));
    let steps: Vec<(String, SavedChange)> = steps.collect();
    assert_eq!(steps.len(), 5000);
    let whole = super::compose(
        steps.iter().map(|(run, c)| (run.as_str(), MountLayer::default(), c, Vec::new())),
        &|_| true,
    );
    let by_object = composed_by_object(&steps);
    assert!(whole.len() > 500 && whole.iter().any(|undo| undo.between.len() > 5), "{}", whole.len());
    assert!(whole == by_object, "the reverts of {} objects differ", whole.len());
}
