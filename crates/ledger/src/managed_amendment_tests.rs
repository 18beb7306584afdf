//! Objects that a run moved to another name, and objects that it adopted.

use super::*;

#[test]
fn what_is_renamed_belongs_to_the_new_role() {
    let renaming = |from: &str, to: &str| RunRecord {
        renamed: vec![Renaming { from: from.to_owned(), to: to.to_owned() }],
        ..run("r2", Vec::new())
    };
    let first = || run("r1", vec![change("a", "absent", "v 1", Some("r"))]);
    let item = first().changes[0].item.clone();
    let rest = item.split_once('/').unwrap().1.to_owned();
    for (from, to) in [("r".to_owned(), "s".to_owned()), (item, format!("s/{rest}"))] {
        let role = from.split('/').next().unwrap().to_owned();
        let managed = after(&[first(), renaming(&from, &to)]);
        let thing = &managed.entries[0].thing;
        assert_eq!(
            (thing.roles.as_slice(), thing.item.as_str()),
            (["s".to_owned()].as_slice(), format!("s/{rest}").as_str())
        );
        // As all runs of a target are read.
        let mut runs = [first(), renaming(&from, &to)];
        crate::in_order(&mut runs);
        assert_eq!(
            (runs[0].changes[0].owner.as_deref(), runs[0].changes[0].item.as_str()),
            (Some("s"), format!("s/{rest}").as_str()),
            "{role}"
        );
        assert_eq!(after(&runs).entries[0].thing.roles, ["s"]);
    }
    let other = after(&[first(), renaming("q", "s")]);
    assert_eq!(other.entries[0].thing.roles, ["r"]);
}

#[test]
fn what_was_given_back_and_made_anew_is_renamed_with_what_it_was_earlier() {
    let renamed = RunRecord {
        renamed: vec![Renaming { from: "r".to_owned(), to: "s".to_owned() }],
        ..run("r4", Vec::new())
    };
    let runs = [
        run("r1", vec![of_fields("absent", "object a", Some("r"))]),
        other("r2", vec![of_fields("object a", "object ab", Some("o"))]),
        run("r3", vec![of_fields("object ab", "object b", None)]),
        run("r4", vec![of_fields("object b", "object Ab", Some("r"))]),
        RunRecord { id: "r5".to_owned(), ..renamed },
    ];
    let managed = after(&runs);
    let own = managed.entries.iter().find(|entry| entry.earlier.is_some()).unwrap();
    let names: Vec<_> =
        own.all().map(|entry| (entry.thing.roles[0].as_str(), entry.thing.item.as_str())).collect();
    assert_eq!(names, [("s", "s/item"), ("s", "s/item")]);
}

#[test]
fn what_is_adopted_is_managed_from_the_state_that_it_had() {
    let a = ObjectId::new("path", "a");
    let adoption = Adoption {
        object: a.clone(),
        state: State::from_line("v 1"),
        item: "r/x".to_owned(),
        sensitive: false,
        real_dir: None,
    };
    let adopt = || RunRecord { adopted: vec![adoption.clone()], ..run("r1", Vec::new()) };
    let managed = after(&[adopt()]);
    let thing = managed.present().next().unwrap();
    assert_eq!((thing.before.line(), thing.left.line(), thing.run.as_str()), ("v 1", "v 1", "r1"));
    assert_eq!((thing.roles.as_slice(), thing.item.as_str()), (["r".to_owned()].as_slice(), "r/x"));
    // A change keeps that original state, and its run keeps what that only names.
    let changed = || run("r2", vec![change("a", "v 1", "v 2", Some("r"))]);
    let managed = after(&[adopt(), changed()]);
    let thing = managed.present().next().unwrap();
    assert_eq!((thing.before.line(), thing.left.line(), thing.run.as_str()), ("v 1", "v 2", "r2"));
    // An object that is managed already keeps its own.
    let first = || run("r0", vec![change("a", "absent", "v 1", Some("q"))]);
    let managed = after(&[first(), adopt()]);
    assert_eq!(managed.present().next().unwrap().before.line(), "absent");
    let disown = RunRecord { disowned: vec![(0, a)], ..run("r3", Vec::new()) };
    assert_eq!(after(&[adopt(), disown]).entries, []);
}

/// The directory in which it was adopted stays known, also where a change has brought it back to the state of that time.
#[test]
fn an_adopted_path_says_the_directory_to_which_a_link_led() {
    let lines =
        "run\tr1\ntime\tt\nscope\tp\ti\nadopt\tpath\t/srv/l/x\tv 1\tr/a\t-\t/srv/A\nclose\tfinished\t1\n";
    let change = |id: &str, from: &str, to: &str| {
        let change =
            SavedChange { real_dir: Some("/srv/B".to_owned()), ..change("/srv/l/x", from, to, Some("r")) };
        run(id, vec![change])
    };
    let parsed = crate::parse_owned(&format!("converge-managed\t1\nrecorded\tr1\nbase\t-\n{lines}"));
    let base = &parsed.base.as_ref().unwrap().text;
    let again = crate::parse_owned(&format!("converge-managed\t1\nrecorded\tr1\nbase\tabc\n{base}"));
    for owned in [&parsed, &again] {
        assert_eq!(owned.things[0].made_in.iter().collect::<Vec<_>>(), ["/srv/A"]);
    }
    let adopted = || {
        let mut record = adopting("r1", "/srv/l/x", "v 1");
        record.adopted[0].real_dir = Some("/srv/A".to_owned());
        record
    };
    for runs in [vec![adopted(), change("r2", "v 1", "v 2")], vec![adopted(), change("r2", "v 2", "v 1")]] {
        let managed = after(&runs);
        let thing = managed.present().next().unwrap();
        assert_eq!(thing.made_in.iter().collect::<Vec<_>>(), ["/srv/A", "/srv/B"]);
    }
}

fn adopting(id: &str, key: &str, state: &str) -> RunRecord {
    let adoption = Adoption {
        object: ObjectId::new("path", key),
        state: State::from_line(state),
        item: "r/x".to_owned(),
        sensitive: false,
        real_dir: None,
    };
    RunRecord { adopted: vec![adoption], ..run(id, Vec::new()) }
}

#[test]
fn what_is_adopted_stays_managed_until_a_rollback_goes_past_that() {
    let before = || run("r0", vec![change("b", "absent", "v 1", Some("r"))]);
    let adopted = || adopting("r1", "a", "v 1");
    let changed = || run("r2", vec![change("a", "v 1", "v 2", Some("r"))]);
    let changes_back = || vec![change("a", "v 2", "v 1", None)];
    // The role itself, or a rollback of its change, leads it back.
    let by_role = run("r3", vec![change("a", "v 2", "v 1", Some("r"))]);
    assert_eq!(keys(&after(&[adopted(), changed(), by_role])), ["a"]);
    let by_rollback = rollback("r3", "r2", changes_back());
    let managed = after(&[adopted(), changed(), by_rollback.clone()]);
    assert_eq!(keys(&managed), ["a"]);
    assert_eq!(managed.present().next().unwrap().before.line(), "v 1");
    // So does another project.
    let others = |id: &str, from: &str, to: &str, owner| other(id, vec![change("a", from, to, owner)]);
    let by_others = [others("r2", "v 1", "v 2", Some("o")), others("r3", "v 2", "v 1", None)];
    assert_eq!(keys(&after(&[vec![adopted()], by_others.to_vec()].concat())), ["a"]);
    // A prune gives it back, and so does a rollback past the adoption, with a change of it or without one; the rollback of that takes it again.
    let pruned = run("r3", changes_back());
    assert_eq!(keys(&after(&[adopted(), changed(), pruned])), [""; 0]);
    let past = |id: &str, of: &[&str], changes| {
        let rolls_back = of.iter().map(|id| (*id).to_owned()).collect();
        RunRecord { rolls_back, ..rollback(id, "r1", changes) }
    };
    let gone = [before(), adopted(), changed(), past("r3", &["r0", "r1", "r2"], changes_back())];
    assert_eq!(keys(&after(&gone)), ["b"]);
    let unchanged = [before(), adopted(), past("r3", &["r0", "r1"], Vec::new())];
    assert_eq!(keys(&after(&unchanged)), ["b"]);
    let again = past("r4", &["r3"], Vec::new());
    assert_eq!(keys(&after(&[unchanged.to_vec(), vec![again]].concat())), ["b", "a"]);
    // One that a rollback could not lead back stays.
    let left = [adopted(), changed(), past("r3", &["r1", "r2"], Vec::new())];
    assert_eq!(keys(&after(&left)), ["a"]);
}

#[test]
fn fields_that_a_role_declares_are_managed_in_the_state_before_too() {
    let first = || run("r1", vec![of_fields("v 1", "v 2", Some("r"))]);
    let second = || run("r2", vec![of_fields("v 2", "v 1", Some("r"))]);
    assert_eq!(keys(&after(&[first(), second()])).len(), 1);
    let back = || rollback("r3", "r2", vec![of_fields("v 1", "v 2", None)]);
    assert_eq!(keys(&after(&[first(), second(), back()])).len(), 1);
    let both = RunRecord {
        rolls_back: vec!["r1".to_owned(), "r2".to_owned()],
        ..rollback("r3", "r1", vec![of_fields("v 1", "v 1", None)])
    };
    assert_eq!(keys(&after(&[first(), second(), both])).len(), 0);
    let disown =
        RunRecord { disowned: vec![(0, of_fields("v 1", "v 1", None).object)], ..run("r3", Vec::new()) };
    assert_eq!(after(&[first(), second(), disown]).entries, []);
}

/// A base of a version that did not know the flag has none of it, and means what it meant.
#[test]
fn the_base_says_which_run_has_adopted_an_object() {
    let run = "run\tr1\ntime\tt\nscope\tp\ti\nadopt\tpath\t/a\tv 1\tr/a\t-\nclose\tfinished\t1\n";
    let first = crate::parse_owned(&format!("converge-managed\t1\nrecorded\tr1\nbase\t-\n{run}"));
    let [thing] = first.things.as_slice() else { panic!("{first:?}") };
    assert_eq!(thing.adopted_by.as_deref(), Some("r1"));
    let base = first.base.expect("r1 is closed").text;
    let read =
        |base: &str| crate::parse_owned(&format!("converge-managed\t1\nrecorded\tr1\nbase\tabc\n{base}"));
    assert_eq!(read(&base).things, first.things);
    let old = read(&base.replace(",adopted=r1", ""));
    assert_eq!((old.things[0].adopted_by.as_deref(), old.things[0].before.line()), (None, "v 1"));
}
