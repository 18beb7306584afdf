use super::*;
use crate::{ForeignChange, ProjectName, Renaming, RunRecord, SavedChange, SavedOutcome};
use converge_resource::State;

/// A change: the object's key, its states before and after, the role whose own it becomes.
fn change(key: &str, before: &str, after: &str, owner: Option<&str>) -> SavedChange {
    SavedChange {
        seq: 1,
        object: ObjectId::new("path", key),
        before: State::from_line(before),
        after: State::from_line(after),
        goal: State::from_line(after),
        real_dir: None,
        item: "r/item".to_owned(),
        owner: owner.map(str::to_owned),
        uid: None,
        sensitive: false,
        no_snapshot: None,
        node_removal: None,
        guard: None,
        parts: Vec::new(),
        owners: None,
        outcome: SavedOutcome::Done,
        arrived: false,
    }
}

fn run(id: &str, changes: Vec<SavedChange>) -> RunRecord {
    let scope = ProjectName { playbook: "p".to_owned(), inventory: "i".to_owned() };
    RunRecord { id: id.to_owned(), time: format!("time of {id}"), scope, changes, ..RunRecord::default() }
}

fn rollback(id: &str, of: &str, changes: Vec<SavedChange>) -> RunRecord {
    let purpose = RunPurpose::Rollback(Vec::new());
    RunRecord { purpose, rolls_back: vec![of.to_owned()], ..run(id, changes) }
}

/// The managed objects after these runs. However they are divided into a base and runs that come after it, the result is the same.
fn after(runs: &[RunRecord]) -> ManagedObjects {
    let whole = fold(ManagedObjects::default(), runs);
    for at in 0..=runs.len() {
        let base = fold(ManagedObjects::default(), &runs[..at]);
        assert_eq!(fold(base.clone(), &runs[at..]), whole, "in two steps");
        assert_eq!(fold(base, runs), whole, "a run that the base holds counts once");
    }
    whole
}

fn keys(managed: &ManagedObjects) -> Vec<&str> {
    managed.present().map(|t| t.object.key.as_str()).collect()
}

#[test]
fn what_a_role_makes_is_managed_until_it_is_given_back() {
    let mut runs = vec![
        run("r1", vec![change("a", "absent", "v 1", Some("first"))]),
        run("r2", vec![change("b", "theirs", "ours", Some("first"))]),
        run("r3", vec![change("a", "v 1", "v 2", Some("second")), change("c", "absent", "v 1", None)]),
    ];
    // An item of the role changed `c` too, and it was not managed.
    runs[2].changes[1].item = "r/other".to_owned();
    let managed = after(&runs);
    let reported: Vec<_> = managed.present().map(|t| (t.object.key.as_str(), t.roles.join(","))).collect();
    assert_eq!(reported, [("a", "second,first".to_owned()), ("b", "first".to_owned())]);
    let thing = &managed.entries[0].thing;
    assert_eq!((thing.before.line(), thing.left.line()), ("absent", "v 2"));
    assert_eq!((thing.run.as_str(), thing.since.as_str()), ("r1", "time of r1"));
    // The role that changed it last comes first, also when it was among them.
    let mut again = runs.clone();
    again.push(run("r4", vec![change("a", "v 2", "v 3", Some("first"))]));
    assert_eq!(after(&again).entries[0].thing.roles, ["first", "second"]);
    // Back in the state before, by whatever run: it is given back, and managed again when that is taken back.
    runs.push(run("r4", vec![change("a", "v 2", "absent", None)]));
    assert_eq!(keys(&after(&runs)), ["b"]);
    let mut back = runs.clone();
    back.push(run("r5", vec![change("a", "absent", "v 2", None)]));
    assert_eq!(keys(&after(&back)), ["a", "b"]);
    assert_eq!(after(&back).entries[0].thing.roles, ["second", "first"], "as it was");
    // An object that a role makes anew begins anew.
    runs.push(run("r5", vec![change("a", "absent", "v 3", Some("third"))]));
    let managed = after(&runs);
    assert_eq!(keys(&managed), ["b", "a"]);
    assert_eq!((managed.entries[1].thing.run.as_str(), managed.entries[1].thing.roles.len()), ("r5", 1));
}

/// Each project has the state that its own first change found, and gives no more back.
#[test]
fn an_object_that_two_projects_change_is_managed_for_each() {
    let of = |project: &str, run: RunRecord| RunRecord {
        scope: ProjectName { playbook: project.to_owned(), inventory: "i".to_owned() },
        ..run
    };
    let mut runs = vec![
        of("b", run("r1", vec![change("f", "orig", "orig b", Some("r"))])),
        of("a", run("r2", vec![change("f", "orig b", "orig b a", Some("r"))])),
    ];
    let reported = |runs: &[RunRecord]| -> Vec<String> {
        let managed = after(runs);
        let line = |t: &OwnedObject| format!("{}: {}, {}", t.scope.playbook, t.before.line(), t.left.line());
        managed.present().map(line).collect()
    };
    assert_eq!(reported(&runs), ["b: orig, orig b", "a: orig b, orig b a"]);
    // The first one's next change finds what the second left.
    let again = of("b", run("r3", vec![change("f", "orig b a", "orig c a", Some("r"))]));
    let both = [&runs[..], &[again]].concat();
    assert_eq!(reported(&both), ["b: orig, orig c a", "a: orig b, orig b a"]);
    // A prune of the second gives back what that found; `undo.sh` wrote no project once.
    for last in [
        of("a", run("r3", vec![change("f", "orig b a", "orig b", None)])),
        RunRecord {
            purpose: RunPurpose::Undo,
            attempts: Some("r2".to_owned()),
            scope: ProjectName::default(),
            ..run("r3", vec![change("f", "orig b a", "orig b", None)])
        },
    ] {
        assert_eq!(reported(&[&runs[..], &[last]].concat()), ["b: orig, orig b"]);
    }
    // Back to before both, by whatever run: neither manages it, until that is taken back.
    runs.push(of("a", run("r3", vec![change("f", "orig b a", "orig", Some("r"))])));
    assert_eq!(reported(&runs), ["a: orig b, orig"]);
    runs.push(of("a", rollback("r4", "r3", vec![change("f", "orig", "orig b a", None)])));
    assert_eq!(reported(&runs), ["b: orig, orig b", "a: orig b, orig b a"]);
}

#[test]
fn what_was_given_back_is_forgotten_with_the_run_that_did_it() {
    let runs = [
        run("r1", vec![change("a", "absent", "v 1", Some("r"))]),
        run("r2", vec![change("a", "v 1", "absent", None)]),
    ];
    let mut managed = after(&runs);
    managed.forget_gone(&|id| id == "r2");
    assert_eq!(managed.entries.len(), 1);
    managed.forget_gone(&|id| id == "r1");
    assert_eq!(managed.entries, []);
}

#[test]
fn a_rollback_gives_back_what_its_run_first_changed_where_that_run_found_it() {
    // Foreign code of the run brings the file, which an item of the same run edits.
    let mut runs = vec![run(
        "r1",
        vec![
            SavedChange { outcome: SavedOutcome::Moved, ..change("conf", "absent", "shipped", None) },
            change("conf", "shipped", "edited", Some("r")),
        ],
    )];
    assert_eq!(keys(&after(&runs)), ["conf"]);
    let to_absent = || vec![change("conf", "edited", "absent", None)];
    let mut other = runs.clone();
    other.push(run("r2", to_absent()));
    assert_eq!(keys(&after(&other)), Vec::<&str>::new(), "a prune gave it back with what had brought it");
    let mut failed = rollback("r2", "r1", to_absent());
    failed.changes[0].outcome = SavedOutcome::Off;
    assert_eq!(keys(&after(&[runs.clone(), vec![failed]].concat())), ["conf"], "it is not as planned");
    runs.push(rollback("r2", "r1", to_absent()));
    assert_eq!(keys(&after(&runs)), Vec::<&str>::new());
    // It is managed again when that rollback is reverted, from wherever.
    runs.push(rollback("r3", "r2", vec![change("conf", "absent", "edited", None)]));
    assert_eq!(keys(&after(&runs)), ["conf"]);
}

#[test]
fn what_the_undo_of_a_command_removed_is_given_back_and_begins_anew() {
    let moved = |change| SavedChange { outcome: SavedOutcome::Moved, ..change };
    let made = |id: &str| {
        let edit = change("made", "a", "b", Some("r"));
        run(
            id,
            vec![
                change("command", "pending", "done", Some("r")),
                moved(change("made", "absent", "a", None)),
                edit,
            ],
        )
    };
    let undone = |more: Vec<SavedChange>| {
        let first =
            vec![change("command", "done", "pending", None), moved(change("made", "b", "absent", None))];
        rollback("r2", "r1", [first, more].concat())
    };
    let runs = vec![made("r1"), undone(Vec::new())];
    assert_eq!(keys(&after(&runs)), Vec::<&str>::new());
    let again = after(&[runs, vec![made("r3")]].concat());
    assert_eq!(keys(&again), ["command", "made"], "the command comes first, as in the first run");
    assert_eq!(again.entries.last().map(|e| e.thing.run.as_str()), Some("r3"));
    // An object that the rollback then failed to restore is still managed.
    let failed = SavedChange { outcome: SavedOutcome::Off, ..change("made", "absent", "c", None) };
    assert_eq!(keys(&after(&[made("r1"), undone(vec![failed])])), ["made"]);
}

#[test]
fn the_state_that_foreign_code_of_the_first_run_found_is_remembered() {
    let moved = |change| SavedChange { outcome: SavedOutcome::Moved, ..change };
    let package = SavedChange {
        item: "r/cron, with: a comma".to_owned(),
        ..change("package", "absent", "1", Some("r"))
    };
    let brought = SavedChange { item: package.item.clone(), ..moved(change("conf", "absent", "a", None)) };
    let managed = after(&[run("r1", vec![package, brought, change("conf", "a", "b", Some("r"))])]);
    let thing = |managed: &ManagedObjects| {
        let conf = managed.present().find(|t| t.object.key == "conf").unwrap();
        (conf.before.line().to_owned(), conf.moved.clone())
    };
    let wanted = ForeignChange { by: "r/cron, with: a comma".to_owned(), before: State::absent() };
    assert_eq!(thing(&managed), ("a".to_owned(), Some(wanted)));
    // The base on the host keeps it.
    let runs = "run\tr1\ntime\tt\nscope\tp\ti\nbegin\t1\tpackage\tcron\tabsent\tv 1\tr/a\t-\nowns\t1\tr\ndone\t1\tv 1\n\
        moved\t2\tpath\t/c\tabsent\tv a\tr/a\t-\nbegin\t3\tpath\t/c\tv a\tv b\tr/edit\t-\nowns\t3\tr\ndone\t3\tv b\nclose\tfinished\t1\n";
    let first = crate::parse_owned(&format!("converge-managed\t1\nrecorded\tr1\nbase\t-\n{runs}"));
    assert_eq!(first.broken, Vec::<String>::new());
    let moved = first.things[1].moved.as_ref().map(|m| m.before.line());
    assert_eq!(moved, Some("absent"), "{:?}", first.things);
    let base = first.base.expect("r1 is closed").text;
    let again = crate::parse_owned(&format!("converge-managed\t1\nrecorded\tr1\nbase\tabc\n{base}"));
    assert_eq!(again.things, first.things);
}

#[test]
fn what_undo_sh_attempts_is_a_rollback() {
    let undo = RunRecord {
        purpose: RunPurpose::Undo,
        attempts: Some("r1".to_owned()),
        ..run("r2", vec![change("a", "v 1", "v 0", None)])
    };
    let runs = [run("r1", vec![change("a", "absent", "v 1", Some("r"))]), undo];
    assert_eq!(keys(&after(&runs)), Vec::<&str>::new());
}

#[test]
fn what_changes_with_an_item_is_a_by_product_unless_it_was_managed() {
    let with = |before: &str, after: &str| {
        vec![change("p", before, after, None), change("q", "absent", "v 1", Some("r"))]
    };
    let runs = [run("r1", with("absent", "v 1"))];
    let flags: Vec<_> = after(&runs).present().map(|t| t.by_product).collect();
    assert_eq!(flags, [true, false]);
    // Declared itself, it is one no more, and does not become one again.
    let runs = [
        run("r1", with("absent", "v 1")),
        run("r2", vec![change("p", "v 1", "v 2", Some("s"))]),
        run("r3", with("v 2", "v 3")),
    ];
    assert_eq!(after(&runs).entries[0].thing.roles, ["s", "r"]);
    assert!(!after(&runs).entries[0].thing.by_product);
    // A rollback makes no by-products.
    assert_eq!(after(&[rollback("r1", "r0", with("absent", "v 1"))]).present().count(), 1);
    // An object that was given back is no by-product: it begins anew only with a role of its own.
    let runs = [
        run("r1", with("absent", "v 1")),
        run("r2", vec![change("p", "v 1", "absent", None)]),
        run("r3", with("v 7", "v 8")),
    ];
    assert_eq!(keys(&after(&runs)), ["q"]);
}

#[test]
fn what_was_cut_off_counts_and_what_came_to_nothing_does_not() {
    let cut = |before: &str, after: &str| SavedChange {
        outcome: SavedOutcome::Unknown,
        ..change("a", before, after, Some("r"))
    };
    assert_eq!(keys(&after(&[run("r1", vec![cut("absent", "v 1")])])), ["a"]);
    // A prune that was cut off may not have come to it: the next one does.
    let made = run("r1", vec![change("a", "absent", "v 1", Some("r"))]);
    let pruned = run("r2", vec![SavedChange { owner: None, ..cut("v 1", "absent") }]);
    let managed = after(&[made.clone(), pruned.clone()]);
    assert_eq!(managed.entries[0].thing.open.as_ref().map(State::line), Some("v 1"));
    // It has, where a plan has found the object in that state since. A rollback of the prune brings it back.
    let mut found = pruned;
    found.changes[0].arrived = true;
    assert_eq!(keys(&after(&[made.clone(), found.clone()])), Vec::<&str>::new());
    let back = RunRecord {
        purpose: RunPurpose::Rollback(Vec::new()),
        rolls_back: vec!["r2".to_owned()],
        ..run("r3", vec![change("a", "absent", "v 1", None)])
    };
    assert_eq!(keys(&after(&[made, found, back])), ["a"]);
    let failed = SavedChange { outcome: SavedOutcome::Failed, ..cut("absent", "absent") };
    assert_eq!(keys(&after(&[run("r1", vec![failed])])), Vec::<&str>::new());
}

#[test]
fn what_is_disowned_is_managed_no_more_until_a_role_changes_it() {
    let disown = |before: usize, changes: Vec<SavedChange>| RunRecord {
        disowned: vec![(before, ObjectId::new("path", "a"))],
        ..run("r2", changes)
    };
    let first = run("r1", vec![change("a", "absent", "v 1", Some("r"))]);
    assert_eq!(after(&[first.clone(), disown(0, Vec::new())]).entries, []);
    // In the order of the journal.
    let again = || vec![change("a", "v 1", "v 2", Some("s"))];
    assert_eq!(after(&[first.clone(), disown(1, again())]).entries, []);
    let managed = after(&[first, disown(0, again())]);
    assert_eq!(managed.entries[0].thing.before.line(), "v 1", "it begins anew");
}

#[test]
fn what_somebody_else_did_between_runs_is_noted() {
    let uid = |change: SavedChange, uid: &str| SavedChange { uid: Some(uid.to_owned()), ..change };
    let runs = [
        run("r1", vec![uid(change("a", "absent", "v 1", Some("r")), "one")]),
        run("r2", vec![uid(change("a", "v 3", "v 4", Some("r")), "two")]),
        run(
            "r3",
            vec![SavedChange { outcome: SavedOutcome::Unknown, ..change("a", "v 4", "v 5", Some("r")) }],
        ),
    ];
    let thing = &after(&runs).entries[0].thing;
    assert_eq!(thing.between, [(State::from_line("v 1"), State::from_line("v 3"))]);
    assert_eq!(thing.uid.as_deref(), Some("two"), "a change that was cut off tells no identity");
}

#[test]
fn a_run_with_a_line_of_its_journal_damaged_counts_with_the_others() {
    let reply = "converge-managed\t1\nrecorded\tr1\nbase\t-\nrun\tr1\nscope\tp\ti\nbegin\tone\tpath\t/x\n\
                begin\t1\tpath\t/a\tabsent\tv 1\tr/i\t-\nowns\t1\tr\ndone\t1\tv 1\n";
    let records = crate::parse_owned(reply);
    assert_eq!(records.things.len(), 1);
    assert!(records.broken[0].contains("run r1 is damaged"), "{:?}", records.broken);
    assert_eq!(records.cut_off.map(|r| r.id).as_deref(), Some("r1"));
    assert_eq!(records.base, None, "it may still be at work");
}

#[test]
fn a_base_that_the_fold_on_the_host_wrote_means_the_same() {
    // Written by the last version that folded on the host.
    let old = "converge-owned\t1\nfolded\tr1\nfolded\tr2\nfolded\tdropped\n\
        own\tpath\t\\0057\\0141\\0040\\0142\tsite.yaml\thosts.yaml\ttwo,one\ttwo/item\t2026-11-21T04:05:06Z\tr1\tabsent\tfile 644 root root\tsensitive,by\tfull\t-\tcp\th2\n\
        gone\tpath\t/etc/b\tsite.yaml\thosts.yaml\tone\tone/item\t2026-11-21T04:05:06Z\tr1\tabsent\tabsent\t-\t-\tr2\t-\t-\n\
        gone\tpath\t/etc/c\tsite.yaml\thosts.yaml\tone\tone/item\t2026-11-21T04:05:06Z\tr1\tabsent\tabsent\t-\t-\tdropped\t-\t-\n\
        own\tbad\n";
    let reply = |runs: &str| {
        format!("converge-managed\t1\nrecorded\tr1\nrecorded\tr2\nrecorded\tr3\nbase\tabc\n{old}{runs}")
    };
    let records = crate::parse_owned(&reply(""));
    assert_eq!(records.broken.len(), 1, "{:?}", records.broken);
    assert_eq!(records.base, None, "there is nothing to fold");
    let [thing] = records.things.as_slice() else { panic!("{:?}", records.things) };
    assert_eq!((thing.object.key.as_str(), thing.roles.join(",")), ("/a b", "two,one".to_owned()));
    assert_eq!((thing.sensitive, thing.by_product, thing.no_snapshot.as_deref()), (true, true, Some("full")));
    assert_eq!(thing.node_removal.as_ref().map(|w| (w.host.as_str(), w.name.as_str())), Some(("cp", "h2")));
    // A run brings back what r2 gave back; the new base has the form of the old one.
    let runs = "run\tr3\npurpose\trollback\nundoes\tr2\nbegin\t1\tpath\t/etc/b\tabsent\tv 1\tone/item\t-\ndone\t1\tv 1\nclose\tfinished\t1\n";
    let records = crate::parse_owned(&reply(runs));
    assert_eq!(records.things.len(), 2);
    let base = records.base.expect("r3 is closed");
    assert_eq!((base.of.as_str(), base.runs.as_slice()), ("abc", ["r3".to_owned()].as_slice()));
    let lines: Vec<&str> = old.lines().collect();
    let text = [
        "converge-owned\t1",
        "folded\tr1",
        "folded\tr2",
        "folded\tr3",
        lines[4],
        "own\tpath\t/etc/b\tsite.yaml\thosts.yaml\tone\tone/item\t2026-11-21T04:05:06Z\tr1\tabsent\tv 1\t-\t-\t-\t-\t-",
    ];
    assert_eq!(base.text.lines().collect::<Vec<_>>(), text);
    // Read again it is what it was.
    let again = crate::parse_owned(&format!("converge-managed\t1\nrecorded\tr3\nbase\tdef\n{}", base.text));
    assert_eq!((again.things, again.broken), (records.things, Vec::new()));
}

#[test]
fn a_change_that_was_cut_off_and_how_it_was_guarded_stay_in_the_base() {
    let runs = "run\tr1\ntime\tt\nscope\tp\ti\nbegin\t1\tpath\t/a\tv 1\tv 2\tr/a\t-\nowns\t1\tr\nguard\t1\tnetwork\t12\n\
        close\tcut-off\t1\n";
    let first = crate::parse_owned(&format!("converge-managed\t1\nrecorded\tr1\nbase\t-\n{runs}"));
    let [thing] = first.things.as_slice() else { panic!("{first:?}") };
    assert_eq!((thing.left.line(), thing.open.as_ref().map(State::line)), ("v 2", Some("v 1")));
    let guard = crate::SavedGuard { by: "network".to_owned(), seconds: 12 };
    assert_eq!(thing.guard, Some(guard));
    let base = first.base.expect("r1 is closed").text;
    let again = crate::parse_owned(&format!("converge-managed\t1\nrecorded\tr1\nbase\tabc\n{base}"));
    assert_eq!(again.things, first.things);
}

/// The same of an object that others share by its fields.
fn of_fields(before: &str, after: &str, owner: Option<&str>) -> SavedChange {
    SavedChange { object: ObjectId::new("k8s", "v1/ConfigMap/n/x"), ..change("", before, after, owner) }
}

/// A run of another project.
fn other(id: &str, changes: Vec<SavedChange>) -> RunRecord {
    let scope = ProjectName { playbook: "other".to_owned(), inventory: "i".to_owned() };
    RunRecord { scope, ..run(id, changes) }
}

#[test]
fn a_prune_gives_an_object_back_in_which_others_have_fields() {
    let change = of_fields;
    let mut runs = vec![
        run("r1", vec![change("object f", "object fa", Some("role"))]),
        other("r2", vec![change("object fa", "object fab", Some("role"))]),
        run("r3", vec![change("object fab", "object fb", None)]),
    ];
    let projects = |runs: &[RunRecord]| -> Vec<String> {
        after(runs).present().map(|t| t.scope.playbook.clone()).collect()
    };
    assert_eq!(projects(&runs), ["other"]);
    // With the prune rolled back it is managed again, and with the first run too it is given back, though another project's field is left in it.
    runs.push(rollback("r4", "r3", vec![change("object fb", "object fab", None)]));
    assert_eq!(projects(&runs), ["p", "other"]);
    runs.push(rollback("r5", "r1", vec![change("object fab", "object fb", None)]));
    assert_eq!(projects(&runs), ["other"]);
    // All that it set belongs to others too: only the owners change.
    runs.truncate(2);
    runs.push(rollback("r3", "r1", vec![change("object fab", "object fab", None)]));
    assert_eq!(projects(&runs), ["other"]);
    // One that failed gives nothing back.
    runs.truncate(2);
    let failed = SavedChange { outcome: SavedOutcome::Failed, ..change("object fab", "object fb", None) };
    runs.push(run("r3", vec![failed]));
    assert_eq!(projects(&runs), ["p", "other"]);
}

/// A part that was pruned and declared anew is, after the rollback of both, as it was before the prune.
#[test]
fn a_part_that_is_made_anew_hides_what_it_was_earlier() {
    let mut runs = vec![
        run("r1", vec![of_fields("absent", "object a", Some("role"))]),
        other("r2", vec![of_fields("object a", "object ab", Some("role"))]),
        run("r3", vec![of_fields("object ab", "object b", None)]),
        run("r4", vec![of_fields("object b", "object Ab", Some("role"))]),
        rollback("r5", "r4", vec![of_fields("object Ab", "object b", None)]),
        other("r6", vec![of_fields("object b", "object B", Some("role"))]),
    ];
    let own = |managed: &ManagedObjects| {
        let own = managed.present().find(|t| t.scope.playbook == "p");
        own.map(|t| format!("{} {} {}", t.run, t.before.line(), t.left.line()))
    };
    assert_eq!(own(&after(&runs)), None);
    // The records of both that count no more go first.
    let mut managed = after(&runs);
    managed.forget_gone(&|id| !["r4", "r5"].contains(&id));
    let back = rollback("r7", "r3", vec![of_fields("object B", "object aB", None)]);
    let first = Some("r1 absent object aB".to_owned());
    assert_eq!(own(&fold(managed, std::slice::from_ref(&back))), first);
    runs.push(back);
    assert_eq!(own(&after(&runs)), first);
    // Both in one, and all of it.
    runs.truncate(4);
    let both = |first: &str, left: &str| {
        let back = rollback("r5", first, vec![of_fields("object Ab", left, None)]);
        RunRecord {
            rolls_back: ["r1", "r3", "r4"]
                .iter()
                .skip_while(|r| **r != first)
                .map(|r| (*r).to_owned())
                .collect(),
            ..back
        }
    };
    let of = |last: RunRecord| own(&after(&[&runs[..], &[last]].concat()));
    assert_eq!(of(both("r3", "object ab")), Some("r1 absent object ab".to_owned()));
    assert_eq!(of(both("r1", "object b")), None);
}

/// The project that made an object leaves it to the others in it with its prune, until that is rolled back.
#[test]
fn an_object_is_left_to_those_who_have_fields_in_it() {
    let mut runs = vec![
        run("r1", vec![of_fields("absent", "object a", Some("role"))]),
        other("r2", vec![of_fields("object a", "object ab", Some("role"))]),
        run("r3", vec![of_fields("object ab", "object b", None)]),
    ];
    let heirs = |runs: &[RunRecord]| -> Vec<Option<String>> {
        after(runs).present().map(|t| t.heir_by.clone()).collect()
    };
    assert_eq!(heirs(&runs), [Some("r3".to_owned())]);
    // Who comes later has found it is.
    let late = RunRecord {
        scope: ProjectName { playbook: "late".to_owned(), inventory: "i".to_owned() },
        ..run("r4", vec![of_fields("object b", "object bc", Some("role"))])
    };
    assert_eq!(heirs(&[&runs[..], &[late]].concat()), [Some("r3".to_owned()), None]);
    runs.push(rollback("r4", "r3", vec![of_fields("object b", "object ab", None)]));
    assert_eq!(heirs(&runs), [None, None]);
}

#[path = "managed_amendment_tests.rs"]
mod amendments;

#[path = "managed_prune_tests.rs"]
mod prunes;

#[path = "managed_secret_tests.rs"]
mod secrets;
