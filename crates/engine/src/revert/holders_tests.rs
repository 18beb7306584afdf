use super::*;
use converge_ledger::{ProjectName, parse_owned, parse_records};
use converge_objects::{Command, CommandGuard, Surroundings};
use converge_planner::{Outcome, PlannedChange};
use converge_resource::{Answer, Change, Observation, Probe, Reversibility, encode_field};

const USER: &str = "user 5999 nine \\ /home/nine /bin/sh locked";
const FILE: &str = "file 644 nine nine 2 87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7";
const ROOTS: &str = "file 644 root root 2 87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7";

/// A change of a run that arrived: the role of its item, the kind and key of its object, and both ends.
type BackupColumns<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

const ACCOUNTS: [BackupColumns<'static>; 2] =
    [("a", "group", "nine", "absent", "group 5999"), ("a", "user", "nine", "absent", USER)];

/// The record of a run of a project. `more`: further lines of it.
fn run(id: &str, project: &str, more: &str, changes: &[BackupColumns<'_>]) -> String {
    let begin = |(n, (role, kind, key, before, after)): (usize, &BackupColumns<'_>)| {
        let key = encode_field(key);
        let owns = if more.is_empty() { format!("owns\t{n}\t{role}\n") } else { String::new() };
        format!("begin\t{n}\t{kind}\t{key}\t{before}\t{after}\t{role}/{n}\t-\n{owns}done\t{n}\t{after}\n")
    };
    let changes: String = changes.iter().enumerate().map(begin).collect();
    let seq = id.trim_start_matches('r');
    format!(
        "run\t{id}\nversion\t3\nseq\t{seq}\nplaybook\t{project}.yaml\ninventory\thosts.yaml\nscope\t{project}.yaml\thosts.yaml\n{more}{changes}close\tfinished\t1\n"
    )
}

fn project(name: &str) -> ProjectScope {
    ProjectScope(ProjectName { playbook: format!("{name}.yaml"), inventory: "hosts.yaml".to_owned() })
}

/// The accounts that stay in a rollback of the newest run of project `a` from the first one on, with the reasons; `role` narrows it.
fn stay(runs: &[String], role: Option<&str>) -> Vec<(String, String)> {
    let records = parse_records(&format!("converge\t6\n{}", runs.concat())).unwrap();
    assert_eq!(records.broken, Vec::<String>::new());
    let (ledger, project) = (Ledger::of(&records.runs), project("a"));
    let (mut undos, reverted) = ledger.revert_from(0, &project, &|_| true);
    undos.retain(|u| role.is_none_or(|role| u.item.starts_with(&format!("{role}/"))));
    leave_those_of_others(&mut undos, &ledger, &reverted, &project);
    let stay = undos.into_iter().filter_map(|u| Some((u.object.to_string(), u.theirs?)));
    stay.filter(|(object, _)| !object.starts_with("path")).collect()
}

fn names(stay: &[(String, String)]) -> Vec<&str> {
    stay.iter().map(|(object, _)| object.as_str()).collect()
}

#[test]
fn an_account_stays_to_which_a_file_of_another_project_belongs() {
    let accounts = run("r1", "a", "", &ACCOUNTS);
    let file = run("r2", "b", "", &[("b", "path", "/srv/x", "absent", FILE)]);
    let found = stay(&[accounts.clone(), file.clone()], None);
    assert_eq!(names(&found), ["user:nine", "group:nine"]);
    let why = "path:/srv/x of run r2, of another project (playbook b.yaml, inventory hosts.yaml), belongs to it: it is left as it is";
    assert_eq!(found[0].1, why);
    // The other project gave it away: its rollback needs the account again.
    let given = run("r2", "b", "", &[("b", "path", "/srv/x", FILE, ROOTS)]);
    assert_eq!(stay(&[accounts.clone(), given], None).len(), 2);
    let others = run("r2", "b", "", &[("b", "path", "/srv/x", "absent", ROOTS)]);
    assert!(stay(&[accounts.clone(), others], None).is_empty());
    // The other project took it back.
    let back = run("r3", "b", "purpose\trollback\nundoes\tr2\n", &[("b", "path", "/srv/x", FILE, "absent")]);
    assert!(stay(&[accounts.clone(), file.clone(), back], None).is_empty());
    // Its file was there before the account.
    let (file, accounts) =
        (run("r1", "b", "", &[("b", "path", "/srv/x", "absent", FILE)]), run("r2", "a", "", &ACCOUNTS));
    assert!(stay(&[file, accounts], None).is_empty());
}

#[test]
fn an_account_stays_to_which_a_file_belongs_that_the_rollback_leaves() {
    let file: BackupColumns<'_> = ("b", "path", "/srv/x", "absent", FILE);
    let apart = [run("r1", "a", "", &ACCOUNTS), run("r2", "a", "", &[file])];
    let at_once = [run("r1", "a", "", &[ACCOUNTS[0], ACCOUNTS[1], file])];
    for runs in [&apart[..], &at_once[..]] {
        let found = stay(runs, Some("a"));
        assert_eq!(names(&found), ["user:nine", "group:nine"]);
        assert!(found[0].1.contains(", which is not reverted, belongs to it"), "{found:?}");
        assert!(stay(runs, None).is_empty(), "it goes too");
    }
    // The file of both: this project's step goes, the other one's remains.
    let both = [
        run("r1", "a", "", &ACCOUNTS),
        run("r2", "b", "", &[("b", "path", "/srv/x", "absent", FILE)]),
        run("r3", "a", "", &[("a", "path", "/srv/x", FILE, ROOTS)]),
    ];
    assert_eq!(names(&stay(&both, None)), ["user:nine", "group:nine"]);
}

#[test]
fn users_and_commands_need_accounts_too() {
    let others = |change: BackupColumns<'_>| {
        let runs = [run("r1", "a", "", &ACCOUNTS), run("r2", "b", "", &[change])];
        names(&stay(&runs, None)).join(" ")
    };
    for user in ["user 6000 nine \\ /h /bin/sh locked", "user 6000 users \\ /h /bin/sh locked adm nine"] {
        assert_eq!(others(("b", "user", "ten", "absent", user)), "group:nine", "{user}");
    }
    assert_eq!(others(("b", "user", "ten", "absent", "user 6000 users nine /h /bin/sh locked")), "");
    let command = |user: &str, undo: Option<&str>| {
        let (guard, undo) = (CommandGuard::Creates("/srv/c".to_owned()), undo.map(str::to_owned));
        Command {
            guard,
            run: "make".to_owned(),
            undo,
            user: Some(user.to_owned()),
            timeout: None,
            surroundings: Surroundings::default(),
        }
        .key()
    };
    let wanted = [("nine", Some("rm"), "user:nine"), ("ten", Some("rm"), ""), ("nine", None, "")];
    for (user, undo, stays) in wanted {
        let key = command(user, undo);
        assert_eq!(others(("b", "command", &key, "pending", "done")), stays, "{user} {undo:?}");
    }
}

/// The accounts of project `a` that `--prune` leaves, where these other objects are managed and the plan holds this item.
fn pruned(
    others: &[BackupColumns<'_>],
    present: Option<(&str, &str)>,
    planned: Option<(&str, &str)>,
) -> usize {
    let runs = [run("r1", "a", "", &ACCOUNTS), run("r2", "b", "", others)];
    let records = parse_owned(&format!("converge-managed\t1\n{}", runs.concat()));
    assert_eq!(records.broken, Vec::<String>::new());
    let parsed = parse_records(&format!("converge\t6\n{}", runs[0])).unwrap();
    let (mut undos, _) = Ledger::of(&parsed.runs).revert_from(0, &project("a"), &|_| true);
    let mut known = Knowledge::default();
    let mut plan = HostPlan::default();
    let id = |path: &str| ObjectId::new("path", path);
    if let Some((path, state)) = present {
        let observed = Observation::new(State::from_line(state), None);
        known.learn(Probe::Object(id(path)), Answer::Object(observed));
        plan.items.push(Item { claims: vec![id(path)], ..Item::default() });
    }
    if let Some((path, to)) = planned {
        let change = Change { object: id(path), from: State::absent(), to: State::from_line(to) };
        let planned = PlannedChange { change, reversibility: Reversibility::Reversible, opaque: false };
        plan.items.push(Item { outcome: Outcome::Changed(vec![planned]), ..Item::default() });
    }
    leave_those_that_remain_needed(&mut undos, &plan, &records.things, &known);
    undos.iter().filter(|u| u.theirs.is_some()).count()
}

#[test]
fn prune_leaves_an_account_to_which_something_belongs_that_remains() {
    let file: BackupColumns<'_> = ("b", "path", "/srv/x", "absent", FILE);
    assert_eq!(pruned(&[file], None, None), 2, "managed");
    assert_eq!(pruned(&[("b", "path", "/srv/x", FILE, ROOTS)], None, None), 2, "its rollback needs it");
    assert_eq!(pruned(&[("b", "path", "/srv/x", "absent", ROOTS)], None, None), 0);
    assert_eq!(pruned(&[], Some(("/srv/x", FILE)), None), 2, "declared, and so already");
    assert_eq!(pruned(&[], None, Some(("/srv/x", FILE))), 2, "this run makes it");
    // This run gives it away, or somebody has.
    assert_eq!(pruned(&[file], None, Some(("/srv/x", ROOTS))), 0);
    assert_eq!(pruned(&[file], Some(("/srv/x", ROOTS)), None), 0);
    assert_eq!(pruned(&[file], Some(("/srv/x", FILE)), Some(("/srv/x", ROOTS))), 0);
}
