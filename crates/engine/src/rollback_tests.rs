use super::*;
use converge_ledger::parse_records;
use converge_resource::State;

/// Of two runs, a host that lies says that the older one came last, and just now.
#[test]
fn a_host_that_lies_of_the_order_of_runs_makes_no_other_host_take_back_more() {
    let run = |id: &str, seq: u64, opened: i64| {
        let begin = "begin\t1\tpath\t/a\tabsent\tdir\tr/a\t-\ndone\t1\tdir\n";
        format!("run\t{id}\nseq\t{seq}\nopened\t{opened}\n{begin}close\tfinished\n")
    };
    let records =
        |runs: [String; 2]| parse_records(&format!("converge\t6\nnow\t1000\n{}", runs.concat())).unwrap();
    let honest = records([run("old", 1, 100), run("new", 2, 900)]);
    let liar = records([run("new", 1, 100), run("old", 2, 999)]);
    let candidates =
        |records: &Records| Ledger::of(&records.runs).candidates(&ProjectScope::default(), &|_| true);
    let named = |records: &Records| -> Vec<(String, i64)> {
        candidates(records)
            .iter()
            .map(|at| (records.runs[*at].id.clone(), records.age(&records.runs[*at])))
            .collect()
    };
    let (of_honest, of_liar) = (named(&honest), named(&liar));
    let all: Vec<Vec<(&str, i64)>> =
        [&of_honest, &of_liar].map(|runs| runs.iter().map(|(id, age)| (id.as_str(), *age)).collect()).into();
    assert_eq!(converge_ledger::newest(&all), Some("old"), "it is believed");
    let start = |records: &Records| own_newest(&Ledger::of(&records.runs), &candidates(records), "old");
    assert_eq!((start(&honest), start(&liar)), (None, Some(1)), "by the host that says so alone");
}

#[test]
fn a_run_whose_objects_cannot_be_looked_at_is_not_passed_over() {
    let object = ObjectId::new("path", "/home/mallory/x");
    let left = Item {
        outcome: Outcome::Refused("it cannot be read: a link of mallory's".to_owned()),
        claims: vec![object.clone()],
        ..Item::default()
    };
    let plan = |base: Vec<(ObjectId, State)>| {
        let plan = HostPlan { items: vec![left.clone()], base, ..HostPlan::default() };
        let entry = HostEntry {
            host: "h1".to_owned(),
            result: HostResult::Planned(plan),
            took: std::time::Duration::ZERO,
        };
        FleetPlan { hosts: vec![entry], ..FleetPlan::default() }
    };
    assert!(nothing_to_do(&plan(Vec::new())));
    assert_eq!(unseen(&plan(Vec::new())), Some(("h1", "path:/home/mallory/x".to_owned())));
    // Changed by another user: that is known, and the run is passed over.
    assert_eq!(unseen(&plan(vec![(object, State::absent())])), None);
}

#[test]
fn a_run_that_changed_nothing_is_named_where_it_is_passed_over() {
    let run = |id: &str, seq: u64, after: &str| {
        let change = format!("begin\t1\tpath\t/a\tabsent\tdir\tr/a\t-\nfailed\t1\t1\t{after}\n");
        format!("run\t{id}\nseq\t{seq}\nplanned\tr/a\n{change}close\tfinished\n")
    };
    let text = format!("converge\t6\n{}{}", run("one", 1, "dir"), run("two", 2, "absent"));
    let records = parse_records(&text).unwrap();
    let recorded = ProjectRecords {
        ledger: Ledger::of(&records.runs),
        project: ProjectScope::default(),
        records: &records,
    };
    let hosts = [Some(recorded)];
    let over = |starts: &[Option<ReturnPoint>]| {
        let mut over = Vec::new();
        say_idle(&mut over, &hosts, starts);
        over
    };
    assert_eq!(over(&[Some(ReturnPoint::From(0))]), ["run two, which changed nothing"]);
    assert!(over(&[None]).is_empty());
}
