//! Objects that a prune gives back short of the state before.

use super::*;

#[test]
fn a_prune_gives_back_what_goes_with_its_maker_and_a_unit_that_it_can_only_stop() {
    let moved = |change| SavedChange { outcome: SavedOutcome::Moved, ..change };
    let by = |item: &str, change| SavedChange { item: item.to_owned(), ..change };
    let edit = by("r/edit", change("made", "a", "b", Some("r")));
    let made = vec![
        change("command", "pending", "done", Some("r")),
        moved(change("made", "absent", "a", None)),
        edit,
    ];
    let taken = vec![
        by("r/orphaned: item", change("command", "done", "pending", None)),
        by("r/orphaned: item", moved(change("made", "b", "absent", None))),
    ];
    let mut runs = vec![run("r1", made), run("r2", taken.clone())];
    assert_eq!(keys(&after(&runs)), Vec::<&str>::new());
    let back = vec![moved(change("made", "absent", "a", None)), change("made", "a", "b", None)];
    runs.push(rollback("r3", "r2", back));
    assert_eq!(keys(&after(&runs)), ["made"], "its prune was rolled back");
    // Taken away by other foreign code it is still managed: its role makes it again.
    let elsewhere = run("r2", taken[1..].to_vec());
    assert_eq!(keys(&after(&[runs[0].clone(), elsewhere])), ["command", "made"]);
    // A unit cannot be absent while its file is there.
    let stopped = SavedChange { goal: State::absent(), ..change("unit", "on", "off", None) };
    let on = || run("r1", vec![change("unit", "absent", "on", Some("r"))]);
    assert_eq!(keys(&after(&[on(), run("r2", vec![stopped.clone()])])), Vec::<&str>::new());
    let failed = SavedChange { outcome: SavedOutcome::Off, ..stopped };
    assert_eq!(keys(&after(&[on(), run("r2", vec![failed])])), ["unit"]);
}
