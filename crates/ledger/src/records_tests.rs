use super::*;
use crate::SavedOutcome;

#[test]
fn records_of_other_programs_are_refused() {
    assert!(parse_records("converge\t7\n").unwrap_err().0.contains("format 7"));
    assert!(parse_records("converge\t6\nbegin\t1\n").is_err());
    let broken = |text: &str| parse_records(&format!("converge\t6\nrun\tx\n{text}")).unwrap().broken.len();
    assert_eq!(broken("begin\tone\tpath\t/a\tabsent\tabsent\ti\t-\n"), 1);
    assert_eq!(broken("begin\t1\tpath\ta/b\tabsent\tabsent\ti\t-\n"), 1, "a path of nothing");
    assert_eq!(broken("begin\t1\tpackage\ta/b\tabsent\tabsent\ti\t-\n"), 0);
    assert_eq!(broken("done\t7\tabsent\n"), 1);
    assert_eq!(broken("begin\t1\tpath\ta/b\tabsent\tabsent\ti\t-\n"), 1, "no path of a host");
    assert_eq!(broken("begin\t1\tuser\ta\tabsent\tabsent\ti\t-\n"), 0);
    assert_eq!(broken("time\tt\nlater-word\twhat\n"), 0);
    assert_eq!(parse_records("converge\t6\n").unwrap().runs, []);
}

#[test]
fn a_rollback_that_was_rolled_back_counts_no_more() {
    let run = |id: &str, undoes: &str| format!("run\t{id}\nundoes\t{undoes}\nclose\tfinished\n");
    let text = format!("converge\t6\nrun\ta\n{}{}", run("b", "a"), run("c", "b"));
    let records = parse_records(&text).unwrap().runs;
    let by: Vec<_> = records.iter().map(|r| r.rolled_back_by.as_deref()).collect();
    assert_eq!(by, [None, Some("c"), None]);
}

#[test]
fn a_rollback_that_left_something_alone_has_not_undone_its_run() {
    let marks = |rest: &str| {
        let text = format!("converge\t6\nrun\ta\nclose\tfinished\nrun\tb\nundoes\ta\nplanned\tr/one\n{rest}");
        let records = parse_records(&text).unwrap().runs;
        (records[0].rolled_back_by.is_some(), records[0].rolled_back_in_part)
    };
    let begin = "begin\t1\tpath\t/a\tabsent\tabsent\tr/one\t-\n";
    assert_eq!(marks(&format!("{begin}done\t1\tabsent\nclose\tfinished\n")), (true, false));
    assert_eq!(marks("close\tfinished\n"), (false, true), "refused");
    assert_eq!(marks(&format!("{begin}failed\t1\t1\tabsent\nclose\tfinished\n")), (false, true));
    assert_eq!(marks(&format!("{begin}done\t1\tabsent\n")), (false, true), "cut off");
    // A second one has done the rest.
    let rest = format!(
        "close\tfinished\nrun\tc\nundoes\ta\nplanned\tr/one\n{begin}done\t1\tabsent\nclose\tfinished\n"
    );
    assert_eq!(marks(&rest), (true, false));
}

#[test]
fn a_rollback_in_part_is_gone_on_with() {
    let marks = |flags: &str| {
        let text = format!(
            "converge\t6\nrun\ta\nbegin\t1\tunit\td\tactive D1\tactive D2\tr/svc\t-\ndone\t1\tactive D2\nclose\tfinished\n\
             run\tb\nundoes\ta\nplanned\tr/svc\nbegin\t1\tunit\td\tactive D2\tactive -\tr/svc\t{flags}\n\
             done\t1\tactive -\nclose\tfinished\n"
        );
        let records = parse_records(&text).unwrap().runs;
        (records[0].rolled_back_by.is_some(), records[0].rolled_back_in_part)
    };
    assert_eq!(marks("-"), (true, false));
    assert_eq!(marks("in-part"), (false, true));
    assert_eq!(marks("sensitive,in-part"), (false, true));
}

fn only_run(journal: &str) -> RunRecord {
    parse_records(&format!("converge\t6\nrun\tr1\n{journal}")).unwrap().runs.remove(0)
}

/// The word with which a change ends in a journal.
fn word(outcome: SavedOutcome) -> &'static str {
    match outcome {
        SavedOutcome::Done => "done",
        SavedOutcome::Off => "off",
        SavedOutcome::Failed => "failed",
        SavedOutcome::Moved => "moved",
        SavedOutcome::PutBack => "putback",
        SavedOutcome::Unknown => "none",
    }
}

#[test]
fn the_page_of_snapshots_names_every_outcome() {
    let page = include_str!("../../../docs/snapshots.md");
    let begin = "begin\t1\tpath\t/x\tabsent\tlink y\tr/x\t-\n";
    for (journal, expected) in [
        (format!("{begin}done\t1\tlink y\n"), SavedOutcome::Done),
        (format!("{begin}off\t1\tlink z\n"), SavedOutcome::Off),
        (format!("{begin}failed\t1\t1\tabsent\n"), SavedOutcome::Failed),
        (format!("{begin}putback\t1\tabsent\n"), SavedOutcome::PutBack),
        (begin.replace("begin", "moved"), SavedOutcome::Moved),
        (begin.to_owned(), SavedOutcome::Unknown),
    ] {
        let read = only_run(&journal);
        assert_eq!(read.changes.first().map(|change| change.outcome), Some(expected), "{journal}");
        let word = word(expected);
        let row = [format!("| `{word}` |"), format!("| {word} |")];
        assert!(row.iter().any(|row| page.contains(row)), "docs/snapshots.md has no row of `{word}`");
    }
    for (close, finished, closed) in [
        ("close\tfinished\t1\n", true, true),
        ("close\trefused\t1\n", true, true),
        ("close\tcut-off\t1\n", false, true),
        ("", false, false),
    ] {
        let read = only_run(&format!("{begin}done\t1\tlink y\n{close}"));
        assert_eq!((read.finished, read.closed), (finished, closed), "{close}");
        let words = close
            .split('\t')
            .nth(1)
            .map_or("| no `close` |".to_owned(), |word| format!("| `close {word}` |"));
        assert!(page.contains(&words), "docs/snapshots.md has no row of {words}");
    }
}
