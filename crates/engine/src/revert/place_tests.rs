//! Objects below places that the same reverts change: file systems, and links that lead elsewhere.

use super::tests::{plan, undo};
use super::*;
use converge_ledger::{KnownState, Lead, LedPath};
use converge_resource::{Answer, Observation, Probe};

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
            let observed = Observation::new(undo.left.clone(), None);
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

fn led(undo: Undo, lies_in: &str, now: &str) -> Undo {
    let lead = |target: &str| match target {
        "" => Lead::Here,
        target => Lead::To(target.to_owned()),
    };
    let led = LedPath { path: "/srv/l".to_owned(), lies_in: lead(lies_in), now: lead(now) };
    Undo { led_in: vec![led], ..undo }
}

/// The state that each object comes to, or why it stays; the path `/srv/l` and those below it as the host shows them.
fn comes_to(undos: &[Undo], now: &[(&str, &str)]) -> Vec<String> {
    let mut known = Knowledge::default();
    let observed = |line: &str| Answer::Object(Observation::new(State::from_line(line), None));
    for undo in undos {
        let (_, line) = now.iter().find(|(key, _)| *key == undo.object.key).unwrap();
        known.learn(Probe::Object(undo.object.clone()), observed(line));
    }
    let link = now.iter().find(|(key, _)| *key == "/srv/l").unwrap();
    known.learn(Probe::Object(ObjectId::new("path", link.0)), observed(link.1));
    let mut undos = undos.to_vec();
    layers::settle_observed_layers(&mut undos, &known);
    let members = arrange(undos, &mut known, &[]).into_iter().flat_map(|group| group.members);
    let one = |judged: JudgedUndo| match judged.verdict {
        Verdict::Same | Verdict::With(_) => "same".to_owned(),
        Verdict::Back(change) => format!("{} -> {}", change.from, change.to),
        Verdict::Stays(why) | Verdict::NotAllowed(why) | Verdict::Lost(why) => {
            why.split(": ").next().unwrap_or_default().to_owned()
        }
    };
    members.map(one).collect()
}

/// One path is edited before and after a link is led elsewhere, twice.
#[test]
fn a_path_that_is_edited_in_several_places_goes_back_in_each() {
    let file = |content: &str| format!("file 644 root root 1 {}", content.repeat(64));
    let went = |from: &str, to: &str| format!("{} -> {}", file(from), file(to));
    let state = State::from_line("link /A");
    let found = KnownState { state, pairs: 0, is_planned: false, undone: None };
    let undos = [
        led(undo("path", "/srv/l/x", &file("3"), &file("c")), "/C", "/C"),
        undo("path", "/srv/l", "link /C", "link /B"),
        led(undo("path", "/srv/l/x", &file("2"), &file("b")), "/B", "/C"),
        Undo { states: vec![found], ..undo("path", "/srv/l", "link /B", "link /A") },
        led(undo("path", "/srv/l/x", &file("1"), &file("a")), "/A", "/C"),
    ];
    let all = [&went("3", "c"), "link /C -> link /B", &went("2", "b"), "link /B -> link /A", &went("1", "a")];
    assert_eq!(comes_to(&undos, &[("/srv/l", "link /C"), ("/srv/l/x", &file("3"))]), all);
    // Somebody has led it back by one step, or to the start.
    let out = |to: &str| format!("it lies where /srv/l led to {to}, and the link leads elsewhere now");
    let back = comes_to(&undos, &[("/srv/l", "link /B"), ("/srv/l/x", &file("2"))]);
    assert_eq!(back[1..], ["same", all[2], all[3], all[4]]);
    assert_eq!(back[0], out("/C"), "{back:?}");
    let back = comes_to(&undos, &[("/srv/l", "link /A"), ("/srv/l/x", &file("1"))]);
    assert_eq!(back, [&*out("/C"), "same", &*out("/B"), "same", all[4]]);
    // By the records nothing is left there: it is not asked about what is there now.
    let undone = [led(undo("path", "/srv/l/x", &file("b"), &file("b")), "/B", "/A"), undos[4].clone()];
    let back = comes_to(&undone, &[("/srv/l", "link /A"), ("/srv/l/x", &file("1"))]);
    assert_eq!(back, ["same", all[4]]);
}

/// Another run, which is not reverted, has led the path elsewhere since; or somebody has, and nobody knows what was changed where.
#[test]
fn a_path_behind_a_link_that_others_have_led_elsewhere_is_not_touched() {
    let of = |now: &str| led(undo("path", "/srv/l/x", "link 1", "link a"), "/A", now);
    let there = [("/srv/l", "link /B"), ("/srv/l/x", "link 1")];
    assert!(comes_to(&[of("/B")], &there)[0].starts_with("it lies where /srv/l led to /A"));
    assert_eq!(comes_to(&[of("/A")], &there), ["link 1 -> link a"]);
}

/// A command without `undo` has put a link in the place of a directory that the run had declared.
#[test]
fn a_declared_directory_in_whose_place_a_command_put_a_link_is_left_until_it_is_back() {
    let (found, made) = ("dir 700 root root", "dir 755 root root");
    let put = Undo { moved_by: Some("r/c".to_owned()), ..undo("path", "/srv/l", "link /e", made) };
    let inside = led(undo("path", "/srv/l/x", "link 1", "link a"), "", "/e");
    let undos = [put, inside, undo("path", "/srv/l", made, found)];
    let link = [("/srv/l", "link /e"), ("/srv/l/x", "link 1")];
    let reply = "a command put a link in the place of this directory";
    assert_eq!(comes_to(&undos, &link), [reply, "it lies in the directory that was at /srv/l", reply]);
    let back = [("/srv/l", made), ("/srv/l/x", "link 1")];
    assert_eq!(comes_to(&undos, &back), ["same", "link 1 -> link a", &format!("{made} -> {found}")]);
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

/// A rollback removed a file and then put a link in the place of its directory: the rollback of that brings both back. Where the file was removed behind the
/// link, somebody has put another one there.
#[test]
fn a_file_comes_back_in_the_directory_that_takes_the_place_of_a_link() {
    let file = Undo { item: "r/f".to_owned(), ..undo("path", "/srv/l/f", "absent", "link old") };
    let dir = Undo { item: "r/d".to_owned(), ..undo("path", "/srv/l", "link A", "dir 755 root root") };
    let now = [("/srv/l", "link A"), ("/srv/l/f", "link theirs")];
    let both = ["link A -> dir 755 root root", "absent -> link old"];
    assert_eq!(comes_to(&[dir.clone(), file.clone()], &now), both);
    assert!(!comes_to(&[file, dir], &now).contains(&both[1].to_owned()));
}

/// The same the other way round: a file behind a link goes back once that has taken the place of the directory.
#[test]
fn a_file_behind_a_link_goes_back_after_it_took_the_place_of_a_directory() {
    let made_in = vec![(0, "/srv/A".to_owned())];
    let file = Undo { item: "r/f".to_owned(), made_in, ..undo("path", "/srv/l/f", "link o", "link three") };
    let dir = Undo { item: "r/d".to_owned(), ..undo("path", "/srv/l", "dir 755 root root", "link A") };
    let now = [("/srv/l", "dir 755 root root"), ("/srv/l/f", "absent")];
    let both = ["dir 755 root root -> link A", "link o -> link three"];
    assert_eq!(comes_to(&[file, dir], &now), both);
}
