//! A path below one that runs lead elsewhere is another object in each place, and goes back there.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_ledger::{
    Lead, Ledger, OwnedRecords, ProjectName, ProjectScope, Records, Undo, parse_owned, parse_records,
};
use converge_resource::State;

const A: &str = "link /a root root";
const B: &str = "link /b root root";
const C: &str = "link /c root root";

/// Runs: lines of their meta, and their changes `HOW KEY|BEFORE|AFTER`, where HOW is `begin`, `moved`, or `failed`, which left it was.
fn records(runs: &[(&str, &[String])]) -> Records {
    let mut text = "converge\t6\n".to_owned();
    for (at, (meta, changes)) in runs.iter().enumerate() {
        text.push_str(&format!("run\tR{at}\nseq\t{}\nscope\tp\thosts.yaml\npurpose\t{meta}\n", at + 1));
        for (n, change) in changes.iter().enumerate() {
            let [object, before, after] = change.split('|').collect::<Vec<_>>().try_into().unwrap();
            let (how, key) = object.split_once(' ').unwrap();
            let word = if how == "moved" { "moved" } else { "begin" };
            text.push_str(&format!("{word}\t{n}\tpath\t{key}\t{before}\t{after}\tr/i\t-\n"));
            match how {
                "begin" => text.push_str(&format!("done\t{n}\t{after}\n")),
                "failed" => text.push_str(&format!("failed\t{n}\t1\t{before}\n")),
                _ => {}
            }
        }
        text.push_str("close\tfinished\t1\n");
    }
    let records = parse_records(&text).unwrap();
    assert_eq!(records.broken, Vec::<String>::new());
    records
}

fn led(how: &str, from: &str, to: &str) -> String {
    format!("{how} /l|{from}|{to}")
}

fn file(from: &str, to: &str) -> String {
    format!("begin /l/x|{from}|{to}")
}

fn project() -> ProjectScope {
    ProjectScope(ProjectName { playbook: "p".to_owned(), inventory: "hosts.yaml".to_owned() })
}

fn reported(undos: &[Undo]) -> Vec<String> {
    let one = |u: &Undo| {
        let places: Vec<&str> = (u.led_in.iter())
            .map(|led| match &led.lies_in {
                Lead::Here => "here",
                Lead::To(target) => target,
            })
            .collect();
        format!("{} {} -> {} {}", u.object.key, u.left, u.before, places.join(" "))
    };
    undos.iter().map(|undo| one(undo).trim_end().to_owned()).collect()
}

#[test]
fn each_file_of_one_name_goes_back_where_the_link_led() {
    for how in ["moved", "begin"] {
        let run = [file("v a", "v 1"), led(how, A, B), file("v b", "v 2")];
        let back = [file("v 2", "v b"), led("moved", B, A), file("v 1", "v a")];
        let runs: [(&str, &[String]); 2] = [("converge", &run), ("rollback\nundoes\tR0", &back)];
        let records = records(&runs[..1]);
        let (undos, _) = Ledger::of(&records.runs).revert_from(0, &project(), &|_| true);
        let link = format!("/l {B} -> {A}");
        assert_eq!(reported(&undos), ["/l/x v 2 -> v b /b", &link, "/l/x v 1 -> v a /a"], "{how}");
        // All of it is back.
        let records = self::records(&runs);
        let ledger = Ledger::of(&records.runs);
        assert_eq!(ledger.candidates(&project(), &|_| true), Vec::<usize>::new());
        let (undos, _) = ledger.revert_to(0, &project(), &|_| true);
        assert!(undos.iter().all(|undo| undo.left == undo.before), "{:?}", reported(&undos));
        assert_eq!(undos.iter().filter(|undo| undo.object.key == "/l").count(), 1);
    }
}

/// A link that a run has made from nothing leads to what was there before it; a directory that it has made held nothing.
#[test]
fn what_a_new_link_leads_to_comes_back() {
    for (made, before) in [(A, "v"), ("dir 755 root root", "absent")] {
        let runs = [("converge", vec![led("begin", "absent", made)]), ("converge", vec![file("v", "1")])];
        let runs: Vec<_> = runs.iter().map(|(meta, changes)| (*meta, changes.as_slice())).collect();
        let records = records(&runs);
        let (undos, _) = Ledger::of(&records.runs).revert_from(0, &project(), &|_| true);
        assert_eq!(reported(&undos).first(), Some(&format!("/l/x 1 -> {before}")), "{made}");
    }
}

#[test]
fn what_a_rollback_did_behind_the_link_takes_nothing_off_in_the_other_place() {
    let run = [file("v a", "v 1"), led("moved", A, B), file("v b", "v 2")];
    let back = [file("v 2", "v b"), led("moved", B, A), "failed /l/x|v 1|v a".to_owned()];
    let records = records(&[("converge", &run), ("rollback\nundoes\tR0", &back)]);
    let ledger = Ledger::of(&records.runs);
    assert_eq!(ledger.candidates(&project(), &|_| true), [0]);
    let (undos, _) = ledger.revert_from(0, &project(), &|_| true);
    assert_eq!(reported(&undos), ["/l/x v 1 -> v a /a"]);
}

#[test]
fn a_link_that_is_led_on_goes_back_by_the_places_where_something_was_changed() {
    let [to_b, to_c] = [led("begin", A, B), led("begin", B, C)];
    let first = [to_b.clone(), file("v b", "v 2")];
    let records = records(&[("converge", &first), ("converge", &[to_c.clone(), file("v c", "v 3")])]);
    let (undos, _) = Ledger::of(&records.runs).revert_from(0, &project(), &|_| true);
    let (back, more) = (format!("/l {C} -> {B}"), format!("/l {B} -> {A}"));
    assert_eq!(reported(&undos), ["/l/x v 3 -> v c /c", &back, "/l/x v 2 -> v b /b", &more]);
    // A rollback that came halfway, and failed behind the second link.
    let half: [String; 3] = [file("v 3", "v c"), led("begin", C, B), "failed /l/x|v 2|v b".to_owned()];
    let runs: [(&str, &[String]); 3] = [
        ("converge", &first),
        ("converge", &[to_c.clone(), file("v c", "v 3")]),
        ("rollback\nundoes\tR0\nundoes\tR1\nplanned\tr/link", &half),
    ];
    let records = self::records(&runs);
    let (undos, _) = Ledger::of(&records.runs).revert_from(0, &project(), &|_| true);
    assert_eq!(reported(&undos), ["/l/x v 2 -> v b /b", &more]);
    // With nothing between, it goes back at once.
    let records = self::records(&[("converge", &[to_b]), ("converge", &[to_c])]);
    let (undos, _) = Ledger::of(&records.runs).revert_from(0, &project(), &|_| true);
    assert_eq!(reported(&undos), [format!("/l {C} -> {A}")]);
}

#[test]
fn a_link_in_the_place_of_a_declared_directory_is_a_step_of_its_own() {
    let (found, made) = ("dir 700 root root", "dir 755 root root");
    let run = [led("begin", found, made), file("absent", "v 1"), led("moved", made, B)];
    let records = records(&[("converge", &run)]);
    let (undos, _) = Ledger::of(&records.runs).revert_from(0, &project(), &|_| true);
    let (put, mode) = (format!("/l {B} -> {made}"), format!("/l {made} -> {found}"));
    assert_eq!(reported(&undos), [&*put, "/l/x v 1 -> absent here", &*mode]);
    // Its undo has put it back: there and back again is no step.
    let back = [led("moved", B, made), file("v 1", "absent"), led("begin", made, found)];
    let records = self::records(&[("converge", &run), ("rollback\nundoes\tR0", &back)]);
    let ledger = Ledger::of(&records.runs);
    assert_eq!(ledger.candidates(&project(), &|_| true), Vec::<usize>::new());
    let (undos, _) = ledger.revert_to(0, &project(), &|_| true);
    assert!(undos.iter().all(|undo| undo.left == undo.before), "{:?}", reported(&undos));
}

/// Before paths had a place each, a rollback took all steps of one path back at once, and wrote where the link led then.
#[test]
fn records_of_a_rollback_that_knew_no_places_are_read() {
    let run = [file("v a", "v 1"), led("moved", A, B), file("v b", "v 2")];
    let back = [file("v 2", "v a"), led("moved", B, A)];
    let records = records(&[("converge", &run), ("rollback\nundoes\tR0", &back)]);
    let ledger = Ledger::of(&records.runs);
    // It has done all that it set out to: nothing is in force.
    assert_eq!(ledger.candidates(&project(), &|_| true), Vec::<usize>::new());
    // Both files are still known by what was done to them. The rollback has left the file in /b otherwise than it was: the link leads there once more.
    let (undos, _) = ledger.revert_to(0, &project(), &|_| true);
    let (there, back) = (format!("/l {A} -> {B}"), format!("/l {B} -> {A}"));
    assert_eq!(reported(&undos), [&*there, "/l/x v a -> v b /b", &*back, "/l/x v 1 -> v a /a"]);
    // One that failed at the file takes nothing off but the link.
    let back = ["failed /l/x|v 2|v a".to_owned(), led("moved", B, A)];
    let records = self::records(&[("converge", &run), ("rollback\nundoes\tR0", &back)]);
    let ledger = Ledger::of(&records.runs);
    assert_eq!(ledger.candidates(&project(), &|_| true), [0]);
    let (undos, _) = ledger.revert_from(0, &project(), &|_| true);
    assert_eq!(reported(&undos), ["/l/x v 2 -> v b /b", "/l/x v 1 -> v a /a"]);
}

/// A line `at` says the real directory of a change. A version that does not know it passes over it, as this one over the words of later ones.
#[test]
fn the_directories_in_which_changes_were_made_go_with_what_is_reverted() {
    let run = |seq: u32, lines: &str| {
        format!(
            "run\tR{seq}\nseq\t{seq}\nscope\tp\thosts.yaml\npurpose\tconverge\n{lines}close\tfinished\t1\n"
        )
    };
    let step = |from: &str, to: &str, at: &str| {
        format!("begin\t1\tpath\t/l/x\t{from}\t{to}\tr/i\t-\n{at}later-word\t1\tx\ndone\t1\t{to}\n")
    };
    let made_in = |first: &str, then: &str| -> Vec<Vec<(usize, String)>> {
        let runs = [run(1, &step("v a", "v 1", first)), run(2, &step("v b", "v 2", then))];
        let records = parse_records(&format!("converge\t6\n{}", runs.concat())).unwrap();
        assert_eq!(records.broken, Vec::<String>::new());
        let (undos, _) = Ledger::of(&records.runs).revert_to(0, &project(), &|_| true);
        for mut settled in undos.clone() {
            settled.settle(&State::from_line("v 1"), &|_, _, _| false);
            assert!(settled.made_in.iter().all(|(pairs, _)| *pairs == 0), "{settled:?}");
        }
        undos.iter().map(|undo| undo.made_in.clone()).collect()
    };
    let (a, b) = ("at\t1\t/a\n", "at\t1\t\\0057\\0142\\0040\n");
    assert_eq!(made_in("", ""), [[]]);
    assert_eq!(made_in(a, ""), [[(0, "/a".to_owned())]]);
    assert_eq!(made_in("", b), [[(1, "/b ".to_owned())]]);
    assert_eq!(made_in(a, a), [[(0, "/a".to_owned()), (1, "/a".to_owned())]]);
    // In two directories it is two objects.
    assert_eq!(made_in(a, b), [[(0, "/b ".to_owned())], [(0, "/a".to_owned())]]);
    // One that was cut short is named and not considered.
    let damaged = run(1, &step("v a", "v 1", "at\t1\n"));
    let records = parse_records(&format!("converge\t6\n{damaged}")).unwrap();
    assert_eq!((records.broken.len(), records.runs[0].changes.len()), (1, 1), "{records:?}");
}

/// Runs with the steps `AT BEFORE AFTER` of one path, where AT is the letter of its directory or `-`, of whose record nothing is said; and the ones
/// that they revert.
fn placed(runs: &[(&str, &[&str])]) -> Records {
    let mut text = "converge\t6\n".to_owned();
    for (seq, (undoes, steps)) in (1..).zip(runs) {
        let purpose = if undoes.is_empty() { "converge" } else { "rollback" };
        text.push_str(&format!("run\tR{seq}\nseq\t{seq}\nscope\tp\thosts.yaml\npurpose\t{purpose}\n"));
        undoes.split_terminator(' ').for_each(|run| text.push_str(&format!("undoes\t{run}\n")));
        for (n, step) in steps.iter().enumerate() {
            let [at, before, after] = step.split(' ').collect::<Vec<_>>().try_into().unwrap();
            text.push_str(&format!("begin\t{n}\tpath\t/l/x\tv {before}\tv {after}\tr/i\t-\n"));
            if at != "-" {
                text.push_str(&format!("at\t{n}\t/{at}\n"));
            }
            text.push_str(&format!("done\t{n}\tv {after}\n"));
        }
        text.push_str("close\tfinished\t1\n");
    }
    let records = parse_records(&text).unwrap();
    assert_eq!(records.broken, Vec::<String>::new());
    records
}

/// The changes in force of these runs, newest first.
fn in_force(runs: &[(&str, &[&str])]) -> Vec<String> {
    let records = placed(runs);
    let (undos, _) = Ledger::of(&records.runs).revert_from(0, &project(), &|_| true);
    undos.iter().map(|u| format!("{} {} -> {}", u.dir().unwrap_or("-"), u.left, u.before)).collect()
}

#[test]
fn changes_of_one_path_in_two_directories_have_a_stack_each() {
    let two: [(&str, &[&str]); 2] = [("", &["a o 1"]), ("", &["b p 2"])];
    assert_eq!(in_force(&two), ["/b v 2 -> v p", "/a v 1 -> v o"]);
    // A rollback takes the change off in whose directory it was, and no other, whatever runs it names.
    let back = |step: &'static [&str]| in_force(&[two[0], two[1], ("R1 R2", step)]);
    assert_eq!(back(&["a 1 o", "b 2 p"]), Vec::<String>::new());
    let left = |step: &'static str| {
        let runs: Vec<(&str, Vec<&str>)> =
            vec![("", vec!["a o 1"]), ("", vec!["b p 2"]), ("R1 R2", vec![step])];
        let mut records = placed(&runs.iter().map(|(u, s)| (*u, s.as_slice())).collect::<Vec<_>>());
        // The other one was refused.
        records.runs[2].planned = vec!["r/i".to_owned(), "r/i (2)".to_owned()];
        let ledger = Ledger::of(&records.runs);
        let (undos, _) = ledger.revert_from(0, &project(), &|_| true);
        (ledger.candidates(&project(), &|_| true), undos[0].dir().unwrap().to_owned(), undos.len())
    };
    assert_eq!(left("a 1 o"), (vec![1], "/b".to_owned(), 1));
    assert_eq!(left("b 2 p"), (vec![0], "/a".to_owned(), 1));
    // The rollback of that one puts it on again.
    assert_eq!(in_force(&[two[0], ("R1", &["a 1 o"]), ("R2", &["a o 1"])]), ["/a v 1 -> v o"]);
}

/// Records of older versions do not say the directory: such a change is one of the object as it was changed before, or else next.
#[test]
fn a_change_of_which_no_directory_is_known_goes_with_the_one_before_it() {
    let old: [(&str, &[&str]); 2] = [("", &["- o 1"]), ("", &["- p 2"])];
    assert_eq!(in_force(&old), ["- v 2 -> v o"]);
    assert_eq!(in_force(&[old[0], ("", &["a 1 2"])]), ["/a v 2 -> v o"]);
    assert_eq!(in_force(&[("", &["a o 1"]), old[1]]), ["/a v 2 -> v o"]);
    let both: [(&str, &[&str]); 3] = [("", &["a o 1"]), ("", &["b p 2"]), ("", &["- 2 3"])];
    assert_eq!(in_force(&both), ["/b v 3 -> v p", "/a v 1 -> v o"]);
    assert_eq!(
        in_force(&[both[0], both[1], both[2], ("R3", &["- 3 2"])]),
        ["/b v 2 -> v p", "/a v 1 -> v o"]
    );
}

/// A file below a path that was absent goes with it, in its own place.
#[test]
fn what_was_below_nothing_goes_with_it_in_its_own_directory_alone() {
    let text = |dir: &str, at: &str| {
        format!(
            "converge\t6\nrun\tR1\nseq\t1\nscope\tp\thosts.yaml\npurpose\tconverge\nbegin\t1\tpath\t/l/d\tabsent\tdir 755 root root\tr/i\t-\n{dir}\
             done\t1\tdir 755 root root\nbegin\t2\tpath\t/l/d/x\tv a\tv 1\tr/j\t-\n{at}done\t2\tv 1\nclose\tfinished\n"
        )
    };
    let before = |dir: &str, at: &str| {
        let records = parse_records(&text(dir, at)).unwrap();
        let (undos, _) = Ledger::of(&records.runs).revert_from(0, &project(), &|_| true);
        undos.iter().find(|undo| undo.object.key == "/l/d/x").unwrap().before.line().to_owned()
    };
    assert_eq!(before("", ""), "absent");
    assert_eq!(before("at\t1\t/a\n", "at\t2\t/a/d\n"), "absent");
    assert_eq!(before("at\t1\t/a\n", ""), "absent");
    assert_eq!(before("at\t1\t/a\n", "at\t2\t/b/d\n"), "v a");
}

/// The managed objects keep them, also in the base that a host gets.
#[test]
fn what_is_managed_keeps_the_directories_of_its_changes() {
    let lines = "converge-managed\t1\nrun\tR1\nseq\t1\nscope\tp\thosts.yaml\npurpose\tconverge\n\
        begin\t1\tpath\t/l/x\tabsent\tv 1\tr/i\t-\nat\t1\t/a,b\nowns\t1\tr\ndone\t1\tv 1\nclose\tfinished\n";
    let records = parse_owned(&format!("recorded\tR1\n{lines}"));
    let dirs = |records: &OwnedRecords| records.things[0].made_in.iter().cloned().collect::<Vec<_>>();
    assert_eq!(dirs(&records), ["/a,b"], "{records:?}");
    let base = records.base.unwrap().text;
    assert_eq!(dirs(&parse_owned(&format!("recorded\tR1\n{base}"))), ["/a,b"], "{base}");
}
