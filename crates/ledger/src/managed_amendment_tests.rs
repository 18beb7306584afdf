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
fn what_is_adopted_is_managed_from_the_state_that_it_had() {
    let a = ObjectId::new("path", "a");
    let adoption = Adoption {
        object: a.clone(),
        state: State::from_line("v 1"),
        item: "r/x".to_owned(),
        sensitive: false,
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
