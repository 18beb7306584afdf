//! Commands between packages, units and what lies in what they make: reverts in an order in which each step can be made.

use super::super::arrange;
use super::super::tests::{DIR, FakeHost, RecordedRow, file, recorded};
use converge_objects::{Command, CommandGuard, Surroundings};
use proptest::prelude::*;

/// A command that makes a link, or whatever else, at /srv/p/l.
fn makes() -> String {
    Command {
        guard: CommandGuard::Creates("/srv/p/l".to_owned()),
        run: "make".to_owned(),
        undo: Some("unmake".to_owned()),
        user: None,
        timeout: None,
        surroundings: Surroundings::default(),
    }
    .key()
}

/// The objects that a role has made in this order: what comes before the command and after it is each in any order.
fn made(order: &[usize], known_before: bool) -> Vec<RecordedRow> {
    let unit = ("unit enabled active d1", "absent");
    let ends = |key: &str| match key {
        "pkg" => ("package", "present 1 auto -", "absent"),
        "a.service" | "b.service" => ("unit", unit.0, unit.1),
        "/srv/p" | "/srv/p/r" => ("path", DIR, "absent"),
        _ => ("path", "", "absent"),
    };
    let (content, older) = (file(2), file(1));
    let one = |key: &str| {
        let (kind, from, to) = ends(key);
        let from = if from.is_empty() { &content } else { from };
        // A file that was there already, behind the link.
        let to = if key == "/srv/p/l/x" && known_before { &older } else { to };
        recorded(kind, key, from, to, &format!("r/{}", key.replace('/', "-")))
    };
    let keys = ["pkg", "a.service", "/srv/p", "command", "/srv/p/l/x", "b.service", "/etc/f"];
    let key = makes();
    order
        .iter()
        .map(|at| match keys[*at] {
            "command" => recorded("command", &key, "done", "pending", "r/command"),
            other => one(other),
        })
        .collect()
}

/// Orders in which a role can have made them: the directory before the command, and what lies in its link after it.
fn orders() -> impl Strategy<Value = Vec<usize>> {
    Just((0..7).collect::<Vec<usize>>()).prop_shuffle().prop_map(|mut order| {
        let mut places: Vec<usize> = (0..order.len()).filter(|at| (2..5).contains(&order[*at])).collect();
        places.sort_unstable();
        places.into_iter().zip(2..5).for_each(|(place, what)| order[place] = what);
        order
    })
}

proptest! {
    /// Wherever the package and the units stand: what was put behind the link goes before the command is undone, and the directory after it; what was there
    /// when the command ran is there when it is undone.
    #[test]
    fn a_command_is_undone_between_what_it_stood_on_and_what_stands_on_it(order in orders(), known in any::<bool>()) {
        let mut recorded = made(&order, known);
        recorded.reverse();
        let flat = FakeHost::new(recorded).flat();
        let at = |key: &str| flat.iter().position(|k| k == key).expect("all are in it");
        let command = at(&makes());
        prop_assert!(at("/srv/p/l/x") < command && command < at("/srv/p"), "{:?}", flat);
        let place = |what: usize| order.iter().position(|o| *o == what).expect("all are in it");
        for (what, key) in [(0, "pkg"), (1, "a.service"), (5, "b.service")] {
            let is_later = if place(what) < place(3) { command < at(key) } else { key == "pkg" || at(key) < command };
            prop_assert!(is_later, "{}: {:?}", key, flat);
        }
    }

    /// The same where a prune has taken all away, and all of it comes back.
    #[test]
    fn a_command_runs_again_between_what_it_stands_on_and_what_stands_on_it(order in orders(), known in any::<bool>()) {
        let back = |(kind, key, from, to, item, moved): RecordedRow| (kind, key, to, from, item, moved);
        let more = recorded("path", "/srv/o", &file(1), "absent", "r/more");
        for at in 0..=order.len() {
            let mut recorded: Vec<RecordedRow> = made(&order, known).into_iter().map(back).collect();
            recorded.insert(at, more.clone());
            let host = FakeHost::new(recorded);
            let flat = host.flat();
            let at = |key: &str| flat.iter().position(|k| k == key).expect("all are in it");
            let command = at(&makes());
            prop_assert!(at("/srv/p") < command && command < at("/srv/p/l/x"), "{:?}", flat);
            let place = |what: usize| order.iter().position(|o| *o == what).expect("all are in it");
            for (what, key) in [(0, "pkg"), (1, "a.service"), (5, "b.service")] {
                prop_assert!(place(what) > place(3) || at(key) < command, "{}: {:?}", key, flat);
            }
            prop_assert_eq!(arrange(&host.reverts()).concat().len(), order.len() + 1);
        }
    }
}
