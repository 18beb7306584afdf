use super::*;
use proptest::prelude::*;

fn hosts(n: usize) -> Vec<String> {
    (1..=n).map(|n| format!("h{n}")).collect()
}

fn sizes(batches: &[Vec<String>]) -> Vec<usize> {
    batches.iter().map(Vec::len).collect()
}

fn rules() -> Rules {
    Rules {
        play: "p".to_owned(),
        serial: Vec::new(),
        max_fail_percentage: None,
        any_errors_fatal: false,
        min_available: MinAvailable::Share(Share::Percent(95.0)),
    }
}

fn members(n: usize) -> Vec<Member> {
    hosts(n)
        .into_iter()
        .map(|host| Member { host, work: true, disruptive: true, ..Member::default() })
        .collect()
}

/// The answers of `may` for hosts 1 to n.
fn all(turns: &mut Turns, n: usize) -> String {
    hosts(n)
        .iter()
        .map(|h| match turns.may(h, true) {
            Turn::Go => 'g',
            Turn::Wait(_) => 'w',
            Turn::Never(_) => 'n',
        })
        .collect()
}

fn never(turns: &mut Turns, host: &str) -> String {
    match turns.may(host, true) {
        Turn::Never(why) => why,
        other => panic!("{other:?}"),
    }
}

/// The sizes that ansible-core's `PlaybookExecutor._get_serialized_batches` makes.
#[test]
fn serial_is_read_as_ansible_reads_it() {
    use Share::{Hosts, Percent};
    for (n, serial, expected) in [
        (5, vec![Hosts(2)], vec![2, 2, 1]),
        (5, vec![Hosts(0)], vec![5]),
        (10, vec![Percent(25.0)], vec![2, 2, 2, 2, 2]),
        (3, vec![Percent(10.0)], vec![1, 1, 1]),
        (20, vec![Hosts(1), Hosts(5), Percent(30.0)], vec![1, 5, 6, 6, 2]),
        (4, vec![Hosts(9)], vec![4]),
        (10, vec![Percent(100.0)], vec![10]),
        (3, vec![Hosts(1), Hosts(0)], vec![1, 2]),
        (0, vec![Hosts(2)], vec![]),
    ] {
        assert_eq!(sizes(&serial_batches(&hosts(n), &serial)), expected, "{n} {serial:?}");
    }
}

#[test]
fn one_host_first_then_five_percent() {
    for (disruptive, all, expected) in [
        (1, 1, vec![1]),
        (3, 20, vec![1, 1, 1]),
        (20, 200, vec![1, 10, 9]),
        (4, 59, vec![1, 2, 1]),
        (0, 9, vec![]),
    ] {
        assert_eq!(sizes(&careful_batches(&hosts(disruptive), all)), expected, "{disruptive} of {all}");
    }
}

proptest! {
    #[test]
    fn every_host_has_one_batch_in_order(n in 0usize..60, sizes in proptest::collection::vec((0usize..9, any::<bool>()), 1..4)) {
        let serial: Vec<Share> =
            sizes.iter().map(|(n, percent)| if *percent { Share::Percent(*n as f64 * 9.0) } else { Share::Hosts(*n) }).collect();
        prop_assert_eq!(serial_batches(&hosts(n), &serial).concat(), hosts(n));
        prop_assert_eq!(careful_batches(&hosts(n), n).concat(), hosts(n));
    }

    /// With any failures and losses: hosts only ever begin in the order of the batches, and it ends.
    #[test]
    fn nobody_begins_before_the_batches_before_it_are_through(
        n in 1usize..30,
        serial in proptest::option::of(1usize..7),
        ends in proptest::collection::vec(0u8..12, 30),
    ) {
        let serial: Vec<Share> = serial.into_iter().map(Share::Hosts).collect();
        let mut turns = Turns::new(Rules { serial, ..rules() }, members(n));
        let batches = turns.order().batches;
        let mut running: BTreeSet<String> = BTreeSet::new();
        let mut done: BTreeSet<String> = BTreeSet::new();
        for _ in 0..=n {
            for host in hosts(n) {
                if done.contains(&host) || running.contains(&host) {
                    continue;
                }
                match turns.may(&host, true) {
                    Turn::Go => { running.insert(host); }
                    Turn::Never(_) => { turns.finish(&host); done.insert(host); }
                    Turn::Wait(for_hosts) => prop_assert!(for_hosts.iter().all(|h| !done.contains(h))),
                }
            }
            let at: BTreeSet<usize> =
                running.iter().filter_map(|h| batches.iter().position(|b| b.contains(h))).collect();
            prop_assert!(at.len() <= 1, "{running:?}");
            let Some(host) = running.pop_first() else { continue };
            let index: usize = host[1..].parse().unwrap();
            match ends[index - 1] {
                0 => {
                    turns.fail(&host, "no");
                }
                1 => turns.lose(&host),
                _ => {}
            }
            turns.finish(&host);
            done.insert(host);
        }
        prop_assert_eq!(done.len(), n);
    }
}

#[test]
fn the_first_batch_that_fails_stops_the_later_ones() {
    let mut turns = Turns::new(rules(), members(4));
    assert_eq!(all(&mut turns, 4), "gwww");
    assert_eq!(turns.may("h2", false), Turn::Go, "what disturbs nobody goes on");
    assert_eq!(turns.may("h3", true), Turn::Wait(vec!["h1".to_owned()]));
    turns.finish("h1");
    assert_eq!(all(&mut turns, 4), "ggww");
    turns.fail("h2", "`web/serves` does not hold");
    turns.finish("h2");
    assert_eq!(all(&mut turns, 4), "ggnn");
    assert_eq!(never(&mut turns, "h3"), "batch 2 of the play `p` failed (h2: `web/serves` does not hold)");
    assert_eq!(turns.may("h3", false), Turn::Go);
}

#[test]
fn serial_goes_on_until_a_whole_batch_has_failed() {
    let mut turns = Turns::new(Rules { serial: vec![Share::Hosts(2)], ..rules() }, members(6));
    assert_eq!(turns.may("h3", false), Turn::Wait(vec!["h1".to_owned(), "h2".to_owned()]), "all of it waits");
    turns.fail("h1", "no");
    turns.finish("h1");
    turns.finish("h2");
    assert_eq!(all(&mut turns, 6), "ggggww");
    turns.fail("h3", "no");
    turns.fail("h4", "no");
    turns.finish("h3");
    assert_eq!(all(&mut turns, 6), "ggggnn", "no later batch begins, however long h4 takes");
}

#[test]
fn more_failures_than_allowed_stop_the_play_at_once() {
    let limit = |limit, serial: &[Share]| Rules {
        serial: serial.to_vec(),
        max_fail_percentage: Some(limit),
        ..rules()
    };
    let mut turns = Turns::new(limit(25.0, &[Share::Hosts(4)]), members(8));
    turns.fail("h1", "no");
    assert_eq!(all(&mut turns, 5), "ggggw", "25 % are not more than 25 %");
    turns.fail("h2", "no");
    assert_eq!(all(&mut turns, 8), "nnnnnnnn");
    assert_eq!(
        never(&mut turns, "h3"),
        "2 of 4 hosts failed (h1, h2), and `max_fail_percentage` of the play `p` is 25"
    );
    // Without `serial` all hosts are one batch.
    let mut turns = Turns::new(limit(25.0, &[]), members(8));
    turns.fail("h1", "no");
    turns.fail("h2", "no");
    assert_eq!(turns.may("h8", false), Turn::Go);
    turns.fail("h3", "no");
    assert!(matches!(turns.may("h8", false), Turn::Never(_)));
}

#[test]
fn any_error_may_be_fatal() {
    let mut turns = Turns::new(Rules { any_errors_fatal: true, ..rules() }, members(3));
    assert_eq!(turns.may("h3", false), Turn::Go);
    turns.fail("h2", "`a/b` failed");
    assert_eq!(never(&mut turns, "h3"), "h2: `a/b` failed (`any_errors_fatal` of the play `p`)");
}

#[test]
fn hosts_that_are_not_there_count_for_min_available_alone() {
    let mut some = members(20);
    some[1].lost = true;
    some[2].lost = true;
    let mut turns = Turns::new(rules(), some.clone());
    assert_eq!(turns.order().batches.concat().len(), 18);
    turns.finish("h1");
    assert_eq!(
        never(&mut turns, "h4"),
        "only 18 of 20 hosts of the play `p` are there, and `min_available` is 95 %"
    );
    let enough = Rules { min_available: MinAvailable::Share(Share::Percent(90.0)), ..rules() };
    let mut turns = Turns::new(enough, some);
    turns.finish("h1");
    assert_eq!(turns.may("h4", true), Turn::Go);
    turns.lose("h4");
    assert!(never(&mut turns, "h5").contains("h4: it was lost in its turn"));
    assert!(MinAvailable::Majority.holds(2, 3) && !MinAvailable::Majority.holds(1, 2));
}

#[test]
fn the_first_host_is_one_that_says_something() {
    let mut some = members(4);
    some[0].disruptive = false;
    some[0].perhaps = true;
    some[1].failed = true;
    some[3].disruptive = false;
    let mut turns = Turns::new(rules(), some);
    assert_eq!(turns.order().batches, [["h3"], ["h1"], ["h2"]]);
    assert!(turns.is_awaited("h3") && !turns.is_awaited("h2"));
    // A host whose change turns out to be disruptive late comes last.
    assert_eq!(turns.may("h4", true), Turn::Wait(vec!["h3".to_owned()]));
    assert_eq!(turns.order().batches.len(), 4);
    // All remaining hosts wait for each other: the first one is released.
    let waiting = BTreeSet::from(["h1".to_owned(), "h4".to_owned()]);
    assert!(turns.release(&waiting));
    assert_eq!(turns.may("h1", true), Turn::Go);
}

#[test]
fn hosts_without_work_hold_up_nobody() {
    let mut some = members(3);
    some[0].work = false;
    some[0].disruptive = false;
    let mut turns = Turns::new(Rules { serial: vec![Share::Hosts(1)], ..rules() }, some);
    assert_eq!(turns.order().batches.len(), 3);
    assert_eq!(all(&mut turns, 3), "ggw");
}
