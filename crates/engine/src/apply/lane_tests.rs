use super::*;
use crate::apply::work::{Work, WorkError};
use converge_planner::PlannedChange;
use converge_resource::{Change, Reversibility, Wait};

fn object(key: &str) -> ObjectId {
    ObjectId::new("path", key)
}

fn changed(key: &str, from: &str, to: &str) -> Outcome {
    Outcome::Changed(vec![PlannedChange {
        change: Change { object: object(key), from: State::from_line(from), to: State::from_line(to) },
        reversibility: Reversibility::Reversible,
        opaque: false,
    }])
}

fn deferred(key: &str) -> Outcome {
    Outcome::Deferred {
        wait: Wait { item: String::new(), reason: "why".to_owned() },
        objects: vec![object(key)],
    }
}

pub(crate) fn item(id: u32, role: &str, needs: &[u32], outcome: Outcome) -> Item {
    Item {
        id,
        address: format!("{role}/{id}"),
        name: id.to_string(),
        role: role.to_owned(),
        kind: "file".to_owned(),
        needs: needs.to_vec(),
        outcome,
        ..Item::default()
    }
}

fn lane(items: Vec<Item>) -> Lane {
    Lane::new(HostPlan { host: "h".to_owned(), items, ..HostPlan::default() })
}

fn open(_: &Item) -> Permit {
    Permit::Go
}

fn fresh(items: Vec<Item>) -> HostPlan {
    HostPlan { host: "h".to_owned(), items, ..HostPlan::default() }
}

fn results(lane: Lane) -> Vec<(u32, ItemResult)> {
    lane.into_finished().into_iter().map(|(i, r)| (i.id, r)).collect()
}

#[test]
fn what_another_host_must_say_first_is_sent_alone_after_the_others() {
    let mut asks = item(1, "r", &[], changed("/b", "absent", "x"));
    asks.fetch = Some(converge_resource::OtherHostQuestion {
        host: "cp1".to_owned(),
        script: "true".to_owned(),
        seconds: 9,
        give_up: None,
        what: "a join token".to_owned(),
    });
    let before = item(0, "r", &[], changed("/a", "absent", "x"));
    let after = item(2, "r", &[1], changed("/c", "absent", "x"));
    let mut lane = lane(vec![before, asks, after]);
    assert_eq!(lane.next(&open), Next::Send(vec![0]));
    lane.finish(0, ItemResult::Changed, &[]);
    assert_eq!(lane.next(&open), Next::Fetch(1));
    lane.finish(1, ItemResult::Changed, &[]);
    assert_eq!(lane.next(&open), Next::Send(vec![2]));
}

#[test]
fn an_item_that_other_hosts_still_make_known_is_planned_anew_without_an_error() {
    let reads = |waits: &[(&str, &str)]| Item {
        waits_for_others: waits.iter().map(|(host, item)| ((*host).to_owned(), (*item).to_owned())).collect(),
        ..item(0, "r", &[], deferred("/a"))
    };
    let waiting = reads(&[("h2", "name/it")]);
    let waits = || Permit::Wait("facts of h2".to_owned(), "facts".to_owned());
    let mut lane = lane(vec![waiting.clone(), item(1, "s", &[], changed("/b", "absent", "x"))]);
    assert_eq!(lane.next(&|i| if i.id == 0 { waits() } else { Permit::Go }), Next::Send(vec![1]));
    lane.rebind(fresh(vec![waiting, item(1, "s", &[], changed("/b", "absent", "x"))]));
    assert_eq!(lane.remaining().len(), 2, "something else had moved: it goes on waiting");
    assert_eq!(lane.next(&open), Next::Replan, "the other host has made it known");
    // Where nothing is left that makes it known, it has failed.
    lane.rebind(fresh(vec![reads(&[]), item(1, "s", &[], changed("/b", "absent", "x"))]));
    assert!(
        matches!(&lane.finished()[0].1, ItemResult::Failed { message, .. } if message.contains("still not known"))
    );
}

#[test]
fn what_must_be_here_first_is_brought_before_its_item_and_once() {
    let mut resets = item(1, "r", &[], changed("/b", "x", "absent"));
    resets.backup = Some(converge_resource::Backup {
        host: None,
        script: "true".to_owned(),
        seconds: 9,
        what: "snapshot of x".to_owned(),
        of: "x".to_owned(),
        reason: "before".to_owned(),
        extension: "db".to_owned(),
        unless_allowed: None,
    });
    let before = item(0, "r", &[], changed("/a", "absent", "x"));
    let mut lane = lane(vec![before, resets.clone()]);
    assert_eq!(lane.next(&open), Next::Send(vec![0]));
    lane.finish(0, ItemResult::Changed, &[]);
    assert_eq!(lane.next(&open), Next::Fetch(1));
    let refused = |lane: &Lane| matches!(Work::new(&resets, lane, "r", &mut 0), Err(WorkError::NoBackup(what)) if what == "snapshot of x");
    assert!(refused(&lane));
    lane.brought(1, "snapshot of x: /here".to_owned());
    assert!(!refused(&lane));
    // It is planned anew meanwhile, and is still brought.
    lane.rebind(fresh(vec![item(0, "r", &[], Outcome::Unchanged), resets.clone()]));
    assert!(!refused(&lane));
}

#[test]
fn guarded_items_go_together_and_stay_open_until_they_are_confirmed() {
    let guard = Some(converge_planner::ItemGuard { guard: converge_planner::Guard::Ssh, seconds: 9 });
    let items = || {
        vec![
            item(1, "a", &[], changed("/1", "x", "y")),
            Item { guard, ..item(2, "b", &[], changed("/2", "x", "y")) },
            Item { guard, ..item(3, "b", &[2], changed("/3", "x", "y")) },
            item(4, "b", &[3], changed("/4", "x", "y")),
        ]
    };
    let mut l = lane(items());
    assert_eq!(l.next(&open), Next::Send(vec![1]));
    l.finish(1, ItemResult::Changed, &[]);
    // When one must wait, none begins: the switch waits for nobody.
    let third_waits = |item: &Item| {
        if item.id == 3 { Permit::Wait("x".to_owned(), "x".to_owned()) } else { Permit::Go }
    };
    assert!(matches!(l.next(&third_waits), Next::Wait { .. }));
    assert_eq!(l.next(&open), Next::Guarded(vec![2, 3]));
    l.finish(2, ItemResult::Changed, &[]);
    assert!(l.more_behind(&l.unconfirmed()[0].0));
    l.finish(3, ItemResult::Changed, &[]);
    assert!(!l.more_behind(&l.unconfirmed()[0].0));
    assert_eq!(l.role_state("b"), (true, false));
    assert_eq!(l.confirm().len(), 2);
    assert_eq!(l.next(&open), Next::Send(vec![4]));
    // Nothing else begins while the window runs, and nothing is waited for in it.
    let mut l = lane(items());
    l.finish(2, ItemResult::Changed, &[]);
    assert_eq!(l.next(&open), Next::Guarded(vec![3]));
    assert_eq!(l.next(&third_waits), Next::Confirm);
    l.finish(3, ItemResult::Changed, &[]);
    assert_eq!(l.next(&open), Next::Confirm);
    // A reverted item is bad, and so is each that depends on it.
    let mut l = lane(items());
    l.finish(2, ItemResult::Changed, &[]);
    l.finish(3, ItemResult::Failed { message: "no".to_owned(), output: String::new() }, &[]);
    assert_eq!(l.role_state("b"), (true, false));
    l.settle(|_, _| ItemResult::PutBack { message: "no".to_owned(), output: String::new() });
    assert_eq!(l.next(&open), Next::Send(vec![1]));
    assert_eq!(l.role_state("b"), (false, true));
    let got = results(l);
    assert!(matches!(got[2].1, ItemResult::Skipped { .. }), "{got:?}");
}

#[test]
fn a_failure_stops_only_what_depends_on_it() {
    let mut l = lane(vec![
        item(1, "a", &[], changed("/1", "x", "y")),
        item(2, "a", &[1], changed("/2", "x", "y")),
        item(3, "b", &[], changed("/3", "x", "y")),
    ]);
    assert_eq!(l.next(&open), Next::Send(vec![1, 2, 3]));
    l.finish(1, ItemResult::Failed { message: "no".to_owned(), output: String::new() }, &[]);
    assert_eq!(l.next(&open), Next::Send(vec![3]));
    l.finish(3, ItemResult::Changed, &[]);
    assert_eq!(l.next(&open), Next::Done);
    let got = results(l);
    assert_eq!(got[1], (2, ItemResult::Skipped { because: "`a/1`".to_owned() }));
    assert_eq!(got[2], (3, ItemResult::Changed));
}

#[test]
fn a_stretch_ends_before_a_deferred_item_and_before_a_closed_gate() {
    let mut l = lane(vec![
        item(1, "a", &[], changed("/1", "x", "y")),
        item(2, "a", &[1], deferred("/2")),
        item(3, "b", &[], changed("/3", "x", "y")),
    ]);
    assert_eq!(l.next(&open), Next::Send(vec![1]));
    l.finish(1, ItemResult::Changed, &[]);
    assert_eq!(l.next(&open), Next::Replan);
    let known = l.rebind(fresh(vec![
        item(1, "a", &[], Outcome::Unchanged),
        item(2, "a", &[], changed("/2", "absent", "y")),
        item(3, "b", &[], changed("/3", "x", "y")),
    ]));
    assert_eq!(known.len(), 1);
    let wait = |on: &str| Permit::Wait(on.to_owned(), on.to_owned());
    let closed_b = |item: &Item| if item.role == "b" { wait("x") } else { Permit::Go };
    assert_eq!(l.next(&closed_b), Next::Send(vec![2]));
    l.finish(2, ItemResult::Changed, &[]);
    assert_eq!(
        l.next(&closed_b),
        Next::Wait { role: "b".to_owned(), on: "x".to_owned(), key: "x".to_owned() }
    );
    let never = |item: &Item| {
        if item.role == "b" { Permit::Never("role c failed on h2".to_owned()) } else { Permit::Go }
    };
    assert_eq!(l.next(&never), Next::Done);
}

#[test]
fn others_go_past_an_item_that_waits_unless_they_stand_on_it() {
    let items = || {
        vec![
            item(1, "a", &[], changed("/1", "x", "y")),
            item(2, "a", &[1], changed("/2", "x", "y")),
            item(3, "b", &[], changed("/3", "x", "y")),
            item(4, "c", &[2], changed("/4", "x", "y")),
            item(5, "d", &[], deferred("/5")),
            item(6, "e", &[], changed("/6", "x", "y")),
        ]
    };
    let second_waits = |item: &Item| {
        if item.id == 2 { Permit::Wait("x".to_owned(), "x".to_owned()) } else { Permit::Go }
    };
    let mut l = lane(items());
    assert_eq!(l.next(&second_waits), Next::Send(vec![1, 3]));
    l.finish(1, ItemResult::Changed, &[]);
    l.finish(3, ItemResult::Changed, &[]);
    assert!(matches!(l.next(&second_waits), Next::Wait { .. }), "a deferred item ends a stretch");
    let mut l = lane(items());
    l.keep_order();
    assert_eq!(l.next(&second_waits), Next::Send(vec![1]));
}

#[test]
fn a_restart_comes_alone_and_what_it_moves_is_accepted() {
    let restart = || {
        Outcome::Changed(vec![PlannedChange {
            change: Change {
                object: ObjectId::new("boot", "required"),
                from: State::from_line("required"),
                to: State::from_line("settled"),
            },
            reversibility: Reversibility::Reversible,
            opaque: false,
        }])
    };
    let with_claim = |id: u32, key: &str, outcome: Outcome| Item {
        claims: vec![object(key)],
        ..item(id, "a", &[], outcome)
    };
    let mut l = lane(vec![
        with_claim(1, "/1", changed("/1", "x", "y")),
        item(2, "a", &[], restart()),
        with_claim(3, "/3", changed("/3", "x", "y")),
        with_claim(4, "/4", Outcome::Unchanged),
    ]);
    let first_waits = |item: &Item| {
        if item.id == 1 { Permit::Wait("x".to_owned(), "x".to_owned()) } else { Permit::Go }
    };
    assert_eq!(l.next(&first_waits), Next::Send(vec![3]), "a restart does not overtake what waits");
    assert_eq!(l.next(&open), Next::Send(vec![1]));
    l.finish(1, ItemResult::Changed, &[]);
    assert_eq!(l.next(&open), Next::Restart(2));
    l.finish(2, ItemResult::Changed, &[]);
    l.restarted("a/2");
    assert_eq!(l.next(&open), Next::Replan);
    // The one has another state since, the other one is no longer as declared.
    let again = l.rebind(fresh(vec![
        with_claim(1, "/1", Outcome::Unchanged),
        item(2, "a", &[], Outcome::Unchanged),
        with_claim(3, "/3", changed("/3", "moved", "y")),
        with_claim(4, "/4", changed("/4", "moved", "y")),
    ]));
    assert_eq!(again.iter().map(|i| i.id).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(l.next(&open), Next::Send(vec![3, 4]));
}

#[test]
fn what_moved_outside_a_window_is_refused_and_inside_is_accepted() {
    for (base, planned_before, accepted) in [("x", "x", true), ("x", "other", false)] {
        let mut l = Lane::new(HostPlan {
            host: "h".to_owned(),
            items: vec![
                item(1, "a", &[], changed("/pkg", "absent", "y")),
                item(2, "a", &[1], changed("/2", "x", "y")),
            ],
            base: vec![(object("/2"), State::from_line(base))],
            ..HostPlan::default()
        });
        let observed = |s: &str| BTreeMap::from([(object("/2"), State::from_line(s))]);
        let package = l.remaining()[0].clone();
        l.window(&package, &observed(planned_before), &observed("moved"));
        l.finish(1, ItemResult::Changed, &[]);
        assert_eq!(l.next(&open), Next::Replan);
        l.rebind(fresh(vec![item(2, "a", &[1], changed("/2", "moved", "y2"))]));
        if accepted {
            assert_eq!(l.next(&open), Next::Send(vec![2]));
        } else {
            assert_eq!(l.next(&open), Next::Done);
            assert!(matches!(results(l)[1].1, ItemResult::Refused { .. }));
        }
    }
}

fn with_claim(id: u32, key: &str, outcome: Outcome) -> Item {
    Item { claims: vec![object(key)], ..item(id, "a", &[], outcome) }
}

#[test]
fn a_fact_that_foreign_code_moves_gives_work_to_items_behind_it_that_read_it() {
    let reads = |id: u32, outcome: Outcome| {
        let facts = BTreeSet::from(["hostname".to_owned()]);
        Item { facts, ..with_claim(id, &format!("/{id}"), outcome) }
    };
    let plan = || {
        vec![
            reads(1, Outcome::Skipped("when".to_owned())),
            item(2, "a", &[], changed("/2", "x", "y")),
            reads(3, Outcome::Skipped("when".to_owned())),
            reads(4, changed("/4", "x", "y")),
            with_claim(5, "/5", Outcome::Unchanged),
        ]
    };
    let mut l = lane(plan());
    assert_eq!(l.facts_read_after(2), BTreeSet::from(["hostname".to_owned()]));
    assert_eq!(l.facts_read_after(4), BTreeSet::new());
    let foreign = l.remaining()[0].clone();
    let fact = ObjectId::new(FACT, "hostname");
    let observed = |s: &str| BTreeMap::from([(fact.clone(), State::from_line(s))]);
    l.window(&foreign, &observed("old"), &observed("old"));
    assert_eq!(l.next(&open), Next::Send(vec![2, 4]), "nothing has moved: no look");
    l.window(&foreign, &observed("old"), &observed("new"));
    l.finish(2, ItemResult::Changed, &[]);
    assert_eq!(l.next(&open), Next::Replan);
    let again = l.rebind(fresh(vec![
        reads(1, changed("/1", "x", "y")),
        item(2, "a", &[], Outcome::Unchanged),
        reads(3, changed("/3", "x", "y")),
        reads(4, Outcome::Unchanged),
        with_claim(5, "/5", changed("/5", "x", "y")),
    ]));
    assert_eq!(again.iter().map(|i| i.id).collect::<Vec<_>>(), [3], "1 came before, 5 reads no fact");
    assert_eq!(l.next(&open), Next::Send(vec![3]), "4 is as it is to be with the new value");
}

/// Pods that get ready while other items are worked on are nobody's doing.
#[test]
fn what_comes_by_itself_meanwhile_is_no_reason_to_refuse() {
    let pods = |id: u32, from: &str, to: &str| {
        let change = Change {
            object: ObjectId::new("workload", "apps/v1/DaemonSet/n/d"),
            from: State::from_line(from),
            to: State::from_line(to),
        };
        let planned = PlannedChange { change, reversibility: Reversibility::Reversible, opaque: false };
        item(id, "a", &[], Outcome::Changed(vec![planned]))
    };
    let mut l = lane(vec![
        pods(1, "running - incomplete", "running - complete"),
        pods(2, "running - incomplete", "running new complete"),
        pods(3, "running - incomplete", "running - complete"),
    ]);
    l.rebind(fresh(vec![
        item(1, "a", &[], Outcome::Unchanged),
        pods(2, "running - complete", "running new complete"),
        pods(3, "running other complete", "running - complete"),
    ]));
    assert_eq!(l.next(&open), Next::Send(vec![2]));
    l.finish(2, ItemResult::Changed, &[]);
    let got = results(l);
    assert_eq!(got[0].1, ItemResult::Unchanged);
    assert!(matches!(got[2].1, ItemResult::Refused { .. }), "somebody else has restarted it");
}

/// A kubelet writes in its node at any time; what this run sets there is compared field by field.
#[test]
fn other_fields_of_an_object_may_move_between_two_looks() {
    let mut l = lane(Vec::new());
    let mut state = |manifest: &str| {
        let content = Content::new(manifest.as_bytes());
        let state = State::from_line(&format!("object {}", content.digest()));
        l.learn(vec![content]);
        state
    };
    let mut change = |from: &str, to: &str| Change {
        object: ObjectId::new("k8s", "v1/Node/h2"),
        from: state(from),
        to: state(to),
    };
    let old = change("{kind: Node, a: 1}", "{kind: Node, a: 1, gpu: yes}");
    let moved = change("{kind: Node, a: 2}", "{kind: Node, a: 2, gpu: yes}");
    let taken = change("{kind: Node, a: 1, gpu: no}", "{kind: Node, a: 1, gpu: yes}");
    let unknown = Change { from: State::from_line("absent"), ..old.clone() };
    assert!(l.same_fields(&old, &moved));
    assert!(!l.same_fields(&old, &taken) && !l.same_fields(&old, &unknown));
}

#[test]
fn a_deferred_item_keeps_to_its_objects_and_does_not_wait_for_ever() {
    let mut l = lane(vec![item(1, "a", &[], deferred("/1"))]);
    assert_eq!(l.next(&open), Next::Replan);
    l.rebind(fresh(vec![item(1, "a", &[], changed("/other", "absent", "y"))]));
    assert!(matches!(results(l)[0].1, ItemResult::Refused { .. }));
    let mut l = lane(vec![item(1, "a", &[], deferred("/1"))]);
    l.rebind(fresh(vec![item(1, "a", &[], deferred("/1"))]));
    assert!(matches!(results(l)[0].1, ItemResult::Failed { .. }));
    let mut l = lane(vec![item(1, "a", &[], deferred("/1"))]);
    l.stop_at_deferred();
    assert_eq!(l.next(&open), Next::Done);
    assert!(matches!(results(l)[0].1, ItemResult::Skipped { .. }));
}

/// An item of a package that is to come.
fn package(id: u32, needs: &[u32]) -> Item {
    let change = Change {
        object: ObjectId::new("package", format!("p{id}")),
        from: State::from_line("absent"),
        to: State::from_line("present 1 manual -"),
    };
    let planned = PlannedChange { change, reversibility: Reversibility::Reversible, opaque: true };
    Item { kind: "package".to_owned(), ..item(id, "r", needs, Outcome::Changed(vec![planned])) }
}

#[test]
fn packages_are_beside_each_other_where_only_packages_stand_between() {
    let beside = |middle: Option<Item>, last: Item| {
        let items = [Some(package(0, &[])), middle, Some(last)];
        let items: Vec<Item> = items.into_iter().flatten().collect();
        let ends = (items.first().cloned().unwrap(), items.last().cloned().unwrap());
        lane(items).are_beside(&ends.0, &ends.1)
    };
    assert!(beside(None, package(9, &[])));
    assert!(beside(Some(package(3, &[])), package(9, &[])));
    let there = Item { kind: "package".to_owned(), ..item(3, "r", &[], Outcome::Unchanged) };
    assert!(beside(Some(there), package(9, &[])), "one that is as declared");
    assert!(
        !beside(Some(item(3, "r", &[], Outcome::Unchanged)), package(9, &[])),
        "a file, though it is as declared"
    );
    assert!(!beside(Some(item(3, "r", &[], changed("/a", "absent", "x"))), package(9, &[])));
    let skipped = |fact: &str| {
        let facts = [fact.to_owned()].into();
        Item { facts, ..item(3, "r", &[], Outcome::Skipped("when".to_owned())) }
    };
    assert!(beside(Some(skipped("os")), package(9, &[])), "no package makes it apply");
    assert!(!beside(Some(skipped("kernel")), package(9, &[])));
    let reads = |fact: &str| Item { facts: [fact.to_owned()].into(), ..package(9, &[]) };
    assert!(beside(None, reads("os")));
    assert!(!beside(None, reads("nvidia")), "what it is depends on what comes before it");
    assert!(!beside(None, item(9, "r", &[], changed("/a", "absent", "x"))));
    // The item that must be done first for the last one stands between, wherever it is in the list.
    let mut index = item((1 << 31) | 9, "r", &[], changed("index", "absent", "current"));
    index.kind = "package".to_owned();
    assert!(place(index.id) < place(9));
    assert!(!beside(Some(index), package(9, &[])));
}

#[test]
fn nothing_begins_that_stands_on_one_that_failed_though_its_neighbour_in_the_transaction_is_done() {
    let file = item(4, "r", &[3], changed("/a", "absent", "x"));
    let other = item(5, "s", &[], changed("/b", "absent", "x"));
    let items = vec![package(1, &[]), package(2, &[1]), package(3, &[2]), file, other];
    let mut lane = lane(items.clone());
    assert_eq!(lane.next(&open), Next::Send(vec![1, 2, 3, 4, 5]));
    let failed = || ItemResult::Failed { message: "apt".to_owned(), output: String::new() };
    for (id, result) in [(1, ItemResult::Changed), (2, failed()), (3, ItemResult::Changed)] {
        lane.finish(id, result, &[]);
        let done = items.iter().find(|i| i.id == id).unwrap();
        if id != 2 {
            lane.stands_on_what_failed(done);
        }
    }
    assert_eq!(lane.next(&open), Next::Send(vec![5]));
    lane.finish(5, ItemResult::Changed, &[]);
    let because = "`r/2`".to_owned();
    let ends = results(lane);
    assert_eq!(ends[2], (3, ItemResult::Changed), "it is told as what it is");
    assert_eq!(ends[3], (4, ItemResult::Skipped { because }));
}
