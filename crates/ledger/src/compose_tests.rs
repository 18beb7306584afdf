use crate::{Ledger, Project, Undo, parse_records};
use converge_resource::State;

fn state(line: &str) -> State {
    State::from_line(line)
}

/// The reverts of all these runs; the lines of each are its journal.
fn undos(runs: &[&str]) -> Vec<Undo> {
    let runs: Vec<String> = runs
        .iter()
        .zip(1..)
        .map(|(journal, n)| format!("run\tr{n}\nseq\t{n}\n{journal}close\tfinished\n"))
        .collect();
    let records = parse_records(&format!("converge\t4\n{}", runs.concat())).unwrap();
    assert_eq!(records.broken, Vec::<String>::new());
    Ledger::of(&records.runs).revert_from(0, &Project::default(), &|_| true).0
}

#[test]
fn a_rollback_knows_what_each_run_left_and_what_the_next_one_found() {
    let first = "begin\t1\tpath\t/a\tabsent\tv 1\tr/a\t-\ndone\t1\tv 1\n";
    let second = "begin\t1\tpath\t/a\tv theirs\tv 2\tr/a\t-\ndone\t1\tv 2\n";
    let [mut undo] = <[Undo; 1]>::try_from(undos(&[first, second])).unwrap();
    assert_eq!((&undo.before, &undo.left), (&state("absent"), &state("v 2")));
    assert_eq!(undo.between, [(state("v 1"), state("v theirs"))]);
    // Of somebody else's state nothing is known; where it is in one of the runs' own, what came later counts as reverted.
    undo.settle(&state("v other"));
    assert_eq!((&undo.left, undo.between.len()), (&state("v 2"), 1));
    undo.settle(&state("v theirs"));
    assert_eq!((&undo.left, undo.between.len()), (&state("v theirs"), 1));
    undo.settle(&state("v 1"));
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
