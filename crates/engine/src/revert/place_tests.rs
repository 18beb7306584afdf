//! Objects below places that the same reverts change: file systems, and links that lead elsewhere.

use super::tests::{plan, undo};
use super::*;
use converge_resource::{Answer, Observed, Probe};

/// An unmount tells nothing of a directory elsewhere; and what is in memory goes with the file system.
#[test]
fn a_file_system_in_memory_stays_with_what_others_have_in_it_and_hides_no_other_directory() {
    let undos = [
        undo("path", "/srv/a", "dir 755 root root", "absent"),
        undo("mount", "/mnt/a", "mount tmpfs tmpfs rw -", "absent"),
        undo("mount", "/mnt/disk", "mount /dev/sdb ext4 rw -", "absent"),
    ];
    let stays = |held: &str| {
        let mut known = Knowledge::default();
        for undo in &undos {
            let observed = Observed::new(undo.left.clone(), None);
            known.learn(Probe::Object(undo.object.clone()), Answer::Object(observed));
        }
        let answer =
            converge_resource::RunAnswer { status: 0, stdout: held.to_owned(), stderr: String::new() };
        known.learn(directories::probe(&undos).unwrap(), Answer::Run(answer));
        let groups = arrange(undos.to_vec(), &mut known, &[]);
        let all = groups.into_iter().flat_map(|group| group.members);
        all.filter(|one| one.verdict.stays()).map(|one| one.undo.object.key).collect::<Vec<_>>()
    };
    assert!(stays("").is_empty());
    assert_eq!(stays("/srv/a/theirs\n"), ["/srv/a"]);
    assert_eq!(stays("/mnt/a/theirs\n"), ["/mnt/a"]);
    assert!(stays("/mnt/disk/theirs\n").is_empty(), "a disk keeps what is on it");
}

/// A command of the run has led a link elsewhere: what was changed before lies where it led then.
#[test]
fn what_lies_behind_a_link_is_reverted_where_the_link_led_when_it_was_changed() {
    let undos = [
        undo("path", "/srv/l/new", "link n", "absent"),
        undo("path", "/srv/l", "link /srv/B", "link /srv/A"),
        undo("path", "/srv/l/edited", "link e", "link a0"),
        undo("path", "/srv/l/old", "link o", "absent"),
    ];
    let now = [("/srv/l/edited", "link b0"), ("/srv/l/old", "absent")];
    let changes = |now: &[(&str, &str)]| -> Vec<String> {
        let items = plan(&undos, now, &[]);
        let changes = items.iter().flat_map(Item::changes).map(|planned| &planned.change);
        changes.map(|c| format!("{} {} -> {}", c.object.key, c.from, c.to)).collect()
    };
    assert_eq!(
        changes(&now),
        [
            "/srv/l/new link n -> absent",
            "/srv/l link /srv/B -> link /srv/A",
            "/srv/l/edited link e -> link a0",
            "/srv/l/old link o -> absent",
        ]
    );
    // Somebody has led it back already: what the run made where it led then is out of sight.
    assert_eq!(
        changes(&[("/srv/l", "link /srv/A"), ("/srv/l/new", "absent")]),
        ["/srv/l/edited link e -> link a0", "/srv/l/old link o -> absent"]
    );
    // It leads to a third place: nothing below it is touched.
    let third = changes(&[("/srv/l", "link /srv/C")]);
    assert!(third.is_empty(), "{third:?}");
}

/// A unit that stays keeps its file while it is used, and goes with it else.
#[test]
fn a_unit_that_stays_keeps_its_file_while_it_is_used() {
    let file = undo("path", "/etc/systemd/system/u.service", "link f", "absent");
    let stays = |now: &str| {
        let unit = Undo {
            theirs: Some("another project".to_owned()),
            ..undo("unit", "u.service", "unit disabled active d1", "absent")
        };
        let items = plan(&[unit, file.clone()], &[("u.service", now)], &[]);
        !items.iter().flat_map(Item::changes).any(|planned| planned.change.object.kind == "path")
    };
    assert!(stays("unit disabled active d2"));
    assert!(stays("unit enabled inactive d2"));
    assert!(!stays("unit disabled inactive d2"));
}

/// A unit whose input stays is not recorded as started with it, once.
#[test]
fn a_unit_whose_input_stays_is_started_without_a_record() {
    let unit = |before: &str| Undo {
        inputs_stay: true,
        ..undo("unit", "u.service", "unit disabled active d2", before)
    };
    let items = |before: &str, now: &str| plan(&[unit(before)], &[("u.service", now)], &[]).remove(0);
    let started = items("unit disabled active d1", "unit disabled active d2");
    assert_eq!(started.changes()[0].change.to.line(), "unit disabled active -");
    assert!(started.settings.iter().any(|(_, value)| value == "in-part"));
    assert!(started.notes[0].contains("it goes back with that run"), "{:?}", started.notes);
    assert_eq!(items("unit disabled active d1", "unit disabled active -").outcome, Outcome::Unchanged);
    let left = items("unit disabled active -", "unit disabled active d2").outcome;
    assert!(matches!(left, Outcome::Refused(_)), "{left:?}");
    assert!(items("unit disabled inactive -", "unit disabled active d2").is_pending());
}
