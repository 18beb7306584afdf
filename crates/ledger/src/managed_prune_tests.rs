//! Objects that a prune gives back short of the state before, and objects that stay managed in it.

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

/// A file keeps the number of its owner: what is recorded of it goes by the word that the host shows.
#[test]
fn a_file_is_recorded_with_the_number_that_its_owner_has_lost() {
    let account = |kind: &str, key: &str, before: &str, after: &str| SavedChange {
        object: ObjectId::new(kind, key),
        ..change(key, before, after, Some("r"))
    };
    let user = |uid: u32| format!("user {uid} u \\ /home/u /bin/sh locked");
    let group = |gid: u32| format!("group {gid}");
    let made = vec![
        account("user", "u", "absent", &user(4201)),
        account("group", "g", "absent", &group(4301)),
        change("/srv/f", "dir 700 u g", "dir 755 u g", Some("r")),
        change("/home/u/f", "absent", "dir 755 u g", Some("r")),
    ];
    // Somebody else has given the user another number in between.
    let renumbered = vec![
        account("user", "u", &user(4202), &user(4200)),
        account("group", "g", &group(4301), &group(4300)),
    ];
    let mut runs = vec![run("r1", made), run("r2", renumbered.clone())];
    let paths = |runs: &[RunRecord]| -> Vec<String> {
        let managed = after(runs);
        let paths = managed.present().filter(|t| t.object.kind == "path");
        paths.map(|t| format!("{}, {}", t.before.line(), t.left.line())).collect()
    };
    assert_eq!(paths(&runs), ["dir 700 4201 4301, dir 755 4201 4301", "absent, dir 755 u 4301"]);
    // A change that was cut off may not have happened.
    let cut = renumbered.into_iter().map(|c| SavedChange { outcome: SavedOutcome::Unknown, ..c }).collect();
    assert_eq!(paths(&[runs[0].clone(), run("r2", cut)])[0], "dir 700 u g, dir 755 u g");
    let back = vec![
        account("group", "g", &group(4300), &group(4301)),
        account("user", "u", &user(4200), &user(4201)),
    ];
    runs.push(rollback("r3", "r2", back));
    assert_eq!(paths(&runs), ["dir 700 u g, dir 755 u g", "absent, dir 755 u g"]);
}

/// A role declares of an object what was there before: the fields are the project's until its first run goes back, or a prune gives them back.
#[test]
fn what_a_role_declares_as_it_was_before_stays_managed_when_a_later_run_goes_back() {
    let role = Some("role");
    let mut runs = vec![
        run("r1", vec![of_fields("object b2c3", "object b2c1", role)]),
        run("r2", vec![of_fields("object b2c1", "object b2c3", role)]),
    ];
    let is_managed = |runs: &[RunRecord]| after(runs).present().any(|thing| thing.scope.playbook == "p");
    assert!(is_managed(&runs));
    // Another project changes a field of its own, and that back.
    runs.push(other("o1", vec![of_fields("object b2c3", "object b5c3", role)]));
    runs.push(other("o2", vec![of_fields("object b5c3", "object b2c3", role)]));
    assert!(is_managed(&runs));
    runs.push(run("r3", vec![of_fields("object b2c3", "object b1c3", role)]));
    runs.push(rollback("r4", "r3", vec![of_fields("object b1c3", "object b2c3", None)]));
    assert!(is_managed(&runs));
    // A prune changes the owners alone; its rollback too.
    runs.push(run("r5", vec![of_fields("object b2c3", "object b2c3", None)]));
    assert!(!is_managed(&runs));
    runs.push(rollback("r6", "r5", vec![of_fields("object b2c3", "object b2c3", None)]));
    assert!(is_managed(&runs));
    runs.push(rollback("r7", "r1", vec![of_fields("object b2c3", "object b2c3", None)]));
    assert!(!is_managed(&runs));
    // Somebody had put it back, and no role has declared that.
    let edited = [
        run("r1", vec![of_fields("object b2c3", "object b2c1", role)]),
        run("r2", vec![of_fields("object b2c3", "object b2c4", role)]),
        rollback("r3", "r2", vec![of_fields("object b2c4", "object b2c3", None)]),
    ];
    assert!(!is_managed(&edited));
}

#[test]
fn foreign_code_moves_what_is_managed_and_makes_nothing_managed() {
    let moved = |key: &str, before: &str, after: &str| SavedChange {
        outcome: SavedOutcome::Moved,
        ..change(key, before, after, None)
    };
    let runs = [
        run("r1", vec![change("a", "absent", "v 1", Some("r"))]),
        run("r2", vec![moved("a", "v 1", "v 2"), moved("b", "absent", "v 1")]),
    ];
    let managed = after(&runs);
    assert_eq!(keys(&managed), ["a"]);
    assert_eq!(managed.entries[0].thing.left.line(), "v 2");
}
