use super::*;
use converge_objects::k8s::{K8sState, from_text};
use converge_planner::PlannedChange;
use converge_resource::Reversibility;
use serde_json::{Value, json};

/// Node feature discovery takes its labels off the node when its release goes, before the role's own label goes.
#[test]
fn labels_that_a_release_took_along_do_not_come_back_with_the_node() {
    let node = |labels: Value| K8sState::of(&json!({"metadata": {"name": "n", "labels": labels}}));
    let planned = [node(json!({"own": "x", "feature": "y"})), node(json!({"feature": "y"}))];
    let present = node(json!({"own": "x"}));
    let object = ObjectId::new("k8s", "v1/Node/n");
    let [from, to] = planned.clone().map(|(state, _)| State::from(state));
    let change = PlannedChange {
        change: Change { object: object.clone(), from, to },
        reversibility: Reversibility::Reversible,
        opaque: false,
    };
    let item = Item { outcome: Outcome::Changed(vec![change]), ..Item::default() };
    let held = planned.map(|(_, content)| (content.digest().clone(), content)).into();
    let mut known = Knowledge::default();
    known.learn_content(present.1);
    let now = PresentStates { states: [(object, State::from(present.0))].into(), known };
    let (items, contents) = planned_on(&now, AccountChanges::default(), vec![item], &held);
    let text = |state: &State| {
        let digest = converge_objects::object("k8s")?.content(state)?;
        from_text(contents.get(&digest)?)
    };
    let changes: Vec<_> = items.iter().flat_map(Item::changes).map(|c| &c.change).collect();
    let labels = |state| text(state)?.pointer("/metadata/labels").cloned();
    assert_eq!(changes.len(), 1);
    assert_eq!(labels(&changes[0].from), Some(json!({"own": "x"})));
    assert_eq!(labels(&changes[0].to), Some(json!({})));
}

/// Planned anew in the middle of a run: the account gets its number after the look, and before the file goes.
#[test]
fn a_file_that_goes_shows_the_number_that_its_owner_has_lost() {
    let change = |kind: &str, key: &str, from: &str, to: &str| Change {
        object: ObjectId::new(kind, key),
        from: State::from_line(from),
        to: State::from_line(to),
    };
    let account =
        change("user", "u", "user 4201 u \\ /home/u /bin/sh locked", "user 4200 u \\ /home/u /bin/sh locked");
    let file = change("path", "/srv/a", "dir 755 u root", "absent");
    let item = |change: &Change| {
        let change =
            PlannedChange { change: change.clone(), reversibility: Reversibility::Reversible, opaque: false };
        Item { outcome: Outcome::Changed(vec![change]), ..Item::default() }
    };
    let states = [&account, &file].map(|change| (change.object.clone(), change.from.clone()));
    let now = PresentStates { states: states.into(), known: Knowledge::default() };
    let from = |before: AccountChanges, items: Vec<Item>| {
        let (items, _) = planned_on(&now, before, items, &BTreeMap::new());
        items.iter().flat_map(Item::changes).last().unwrap().change.from.line().to_owned()
    };
    let [account, file] = [item(&account), item(&file)];
    assert_eq!(from(AccountChanges::of([&account]), vec![file.clone()]), "dir 755 4201 root");
    assert_eq!(from(AccountChanges::default(), vec![account.clone(), file.clone()]), "dir 755 4201 root");
    assert_eq!(from(AccountChanges::default(), vec![file]), "dir 755 u root");
}

/// As a rollback does: the file gets back the number that it had while the account was gone, and then the account comes back.
#[test]
fn a_file_shows_the_name_of_the_account_that_comes_after_it() {
    let change = |kind: &str, key: &str, from: &str, to: &str| Change {
        object: ObjectId::new(kind, key),
        from: State::from_line(from),
        to: State::from_line(to),
    };
    let file = |key: &str| change("path", key, "dir 755 games games", "dir 755 4960 4960");
    let all = [
        file("/srv/a"),
        change("path", "/srv/b", "dir 755 games games", "dir 755 u root"),
        change("group", "gon", "absent", "group 4960"),
        change("user", "gon", "absent", "user 4960 gon \\ /home/gon /bin/sh locked"),
        change("user", "u", "user 7 u \\ /home/u /bin/sh locked", "absent"),
    ];
    let now = |states: &[(&str, &str)]| PresentStates {
        states: states
            .iter()
            .map(|(key, line)| (ObjectId::new("path", *key), State::from_line(line)))
            .collect(),
        known: Knowledge::default(),
    };
    let wrong = |states: &[(&str, &str)]| {
        elsewhere(&now(states), &all.iter().collect::<Vec<_>>(), &Routes::new(), &BTreeMap::new()).len()
    };
    assert_eq!(wrong(&[("/srv/a", "dir 755 gon gon"), ("/srv/b", "dir 755 7 root")]), 0);
    assert_eq!(wrong(&[("/srv/a", "dir 755 games gon"), ("/srv/b", "dir 755 u root")]), 2);
}

/// The directory below a mount is out of sight once the mount is back.
#[test]
fn the_root_of_what_is_mounted_is_not_the_directory_below_it() {
    let change = |kind: &str, from: &str, to: &str| Change {
        object: ObjectId::new(kind, "/srv/t"),
        from: State::from_line(from),
        to: State::from_line(to),
    };
    let directory = change("path", "absent", "dir 755 root root");
    let mount = change("mount", "absent", "mount tmpfs tmpfs size=1024k -");
    let found = State::from_line("dir 1777 root root");
    let now =
        PresentStates { states: [(directory.object.clone(), found)].into(), known: Knowledge::default() };
    let wrong = |changes: &[&Change]| elsewhere(&now, changes, &Routes::new(), &BTreeMap::new()).len();
    assert_eq!((wrong(&[&directory]), wrong(&[&directory, &mount]), wrong(&[&mount, &directory])), (1, 0, 1));
}
