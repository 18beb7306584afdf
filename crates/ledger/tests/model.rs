//! The ledger against a model of `docs/rollback.md`, and of what `docs/snapshots.md` says of managed objects, that shares no code with it: sequences of
//! operations on a simulated host are drawn, the ledger decides what a rollback does and what is managed, and the model says what must come out.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

#[expect(dead_code, reason = "a test on a real host uses the rest")]
mod reference;
#[path = "reference/managed.rs"]
mod story;

use converge_ledger::{Ledger, Project, Scope, Undo, newest, parse_owned, parse_records};
use proptest::prelude::*;
use reference::Model;
use std::collections::BTreeSet;

const KEYS: usize = 4;
type Values = [u8; KEYS];

type End = reference::End<u8>;

#[derive(Clone, Debug)]
enum Op {
    /// A run of a project towards values for some of the objects: also a narrowed one, or a prune (0 is absent).
    Apply {
        project: usize,
        wanted: [Option<u8>; KEYS],
        /// It gives this object out of management.
        disown: Option<usize>,
        end: End,
        id: u8,
    },
    Edit {
        key: usize,
        value: u8,
    },
    Rollback {
        project: usize,
        role: Option<usize>,
        end: End,
        id: u8,
    },
    /// To the state before the run of this number, counted among all that are recorded.
    To {
        project: usize,
        run: usize,
        role: Option<usize>,
        end: End,
        id: u8,
    },
}

/// Objects 0 and 1 are of role r0, 2 and 3 of r1.
fn role(key: usize) -> usize {
    key / 2
}

// ---- the ledger at work, on a simulated host that keeps its records as text ----

#[derive(Clone, Default)]
struct Host {
    now: Values,
    runs: Vec<String>,
    /// What the runs did, for the model of what is managed.
    events: Vec<story::Event<u8>>,
    /// The file `owned`, and how many runs were folded into it.
    base: (String, usize),
    /// What the next run gives out of management.
    disown: Option<usize>,
}

fn state(value: u8) -> String {
    if value == 0 { "absent".to_owned() } else { format!("value {value}") }
}

fn value(state: &converge_resource::State) -> u8 {
    state.line().strip_prefix("value ").map_or(0, |v| v.parse().unwrap())
}

fn project(n: usize) -> Project {
    Project(Scope { playbook: format!("play{n}.yaml"), inventory: "hosts.yaml".to_owned() })
}

impl Host {
    /// Records a run that makes these changes, and makes them.
    fn run(
        &mut self,
        project: usize,
        id: u8,
        purpose: &str,
        planned: &[usize],
        changes: &[(usize, u8)],
        end: &End,
    ) {
        // What a plan before it had the host keep.
        if id.is_multiple_of(2) {
            let (said, closed) = (self.says(true), self.runs.len());
            if let Some(base) = parse_owned(&said).base {
                assert_eq!(base.runs.len(), closed - self.base.1);
                self.base = (base.text, closed);
            }
        }
        let takes = purpose.lines().filter_map(|l| l.strip_prefix("undoes\t"));
        let takes =
            takes.map(|id| self.runs.iter().position(|r| r.starts_with(&format!("run\t{id}\n"))).unwrap());
        let mut event = story::Event { takes: takes.collect(), changes: Vec::new(), disowned: None };
        let seq = self.runs.len() + 1;
        let mut text = format!(
            "run\t{id:03}-{seq}\nversion\t3\nseq\t{seq}\ntime\tt\npurpose\t{purpose}\nscope\tplay{project}.yaml\thosts.yaml\n"
        );
        for key in planned {
            text.push_str(&format!("planned\tr{}/{key}\n", role(*key)));
        }
        let mut closed = true;
        for (n, (key, to)) in changes.iter().enumerate() {
            let (from, item) = (self.now[*key], format!("r{}/{key}", role(*key)));
            text.push_str(&format!("begin\t{n}\tpath\t{key}\t{}\t{}\t{item}\t-\n", state(from), state(*to)));
            // What goes is declared so by a role, or pruned.
            let of_role = purpose == "converge" && (*to != 0 || id.is_multiple_of(3));
            if of_role {
                text.push_str(&format!("owns\t{n}\tr{}\n", role(*key)));
            }
            let mut tell = |left, done| {
                event.changes.push(story::Change { key: *key, found: from, left, done, of_role })
            };
            match end {
                End::Failed(at) if *at == n => {
                    text.push_str(&format!("failed\t{n}\t1\t{}\n", state(from)));
                    break;
                }
                End::Broke(at, left) if *at == n => {
                    text.push_str(&format!("failed\t{n}\t1\t{}\n", state(*left)));
                    self.now[*key] = *left;
                    tell(*left, false);
                    break;
                }
                End::Cut(at, made) if *at == n => {
                    tell(*to, false);
                    if *made {
                        self.now[*key] = *to;
                    }
                    closed = false;
                    break;
                }
                _ => {}
            }
            tell(*to, true);
            text.push_str(&format!("done\t{n}\t{}\n", state(*to)));
            self.now[*key] = *to;
        }
        if let Some(key) = self.disown.take().filter(|_| closed) {
            text.push_str(&format!("disown\tpath\t{key}\n"));
            event.disowned = Some(key);
        }
        self.events.push(event);
        if closed {
            text.push_str("close\tfinished\t1\n");
        } else if seq.is_multiple_of(2) {
            text.push_str("close\tcut-off\t1\n");
        }
        self.runs.push(text);
    }

    /// What the host says to a plan; `settled`, once a run has begun that ends what was cut off.
    fn says(&self, settled: bool) -> String {
        let mut text = "converge-managed\t1\n".to_owned();
        for run in &self.runs {
            text.push_str(&format!(
                "recorded\t{}\n",
                run.lines().next().unwrap().split_once('\t').unwrap().1
            ));
        }
        text.push_str(&format!("base\tdigest\n{}", self.base.0));
        for (at, run) in self.runs.iter().enumerate().skip(self.base.1) {
            text.push_str(run);
            if !run.contains("\nclose\t") && (settled || at + 1 < self.runs.len()) {
                text.push_str("close\tcut-off\t1\n");
            }
        }
        text
    }

    /// What is managed: of each object what was there before and what runs left.
    fn managed(&self) -> Vec<Option<(u8, u8)>> {
        let records = parse_owned(&self.says(false));
        assert_eq!(records.broken, Vec::<String>::new());
        let mut found = vec![None; KEYS];
        for thing in &records.things {
            let at = thing.object.key.parse::<usize>().unwrap();
            assert_eq!(found[at].replace((value(&thing.before), value(&thing.left))), None);
        }
        found
    }

    /// Plans a rollback with the ledger and carries it out. What it leaves alone.
    fn rollback(
        &mut self,
        of: usize,
        to: Option<usize>,
        narrowed: Option<usize>,
        end: &End,
        id: u8,
    ) -> BTreeSet<usize> {
        // In the order of a folder that knows no order.
        let mut texts = self.runs.clone();
        texts.sort();
        let records = parse_records(&format!("converge\t4\nnow\t100\n{}", texts.concat())).unwrap();
        assert_eq!(records.broken, Vec::<String>::new());
        let ledger = Ledger::of(&records.runs);
        let project = project(of);
        let mut passed: BTreeSet<String> = BTreeSet::new();
        let mut left = BTreeSet::new();
        loop {
            let (undos, targets) = match to {
                Some(at) => {
                    let id = self.runs.get(at).and_then(|r| r.lines().next()?.strip_prefix("run\t")).unwrap();
                    ledger.revert_to(ledger.place(id).unwrap(), &project, &|_| true)
                }
                None => {
                    let runs = ledger.candidates(&project, &|_| true).into_iter().map(|at| &records.runs[at]);
                    let runs: Vec<(&str, i64)> = runs
                        .filter(|r| !passed.contains(&r.id))
                        .map(|r| (r.id.as_str(), records.age(r)))
                        .collect();
                    let Some(id) = newest(&[runs]) else { return left };
                    let start = ledger.start_of(ledger.place(id).unwrap(), &project);
                    passed.insert(id.to_owned());
                    ledger.revert_from(start, &project, &|_| true)
                }
            };
            let (mut planned, mut changes) = (Vec::new(), Vec::new());
            let mut named = BTreeSet::new();
            for mut undo in undos {
                let key: usize = undo.object.key.parse().unwrap();
                if narrowed.is_some_and(|r| undo.item.split('/').next() != Some(&format!("r{r}"))) {
                    continue;
                }
                match self.decide(&mut undo) {
                    None => {}
                    Some(true) => {
                        planned.push(key);
                        changes.push((key, value(&undo.before)));
                    }
                    Some(false) => {
                        planned.push(key);
                        named.insert(key);
                    }
                }
            }
            if changes.is_empty() {
                if to.is_some() {
                    return named;
                }
                passed.extend(targets.iter().map(|at| records.runs[*at].id.clone()));
                if !named.is_empty() {
                    left = named;
                }
                continue;
            }
            let roles = narrowed.map_or(String::new(), |r| format!("\tr{r}"));
            let undoes: String =
                targets.iter().map(|at| format!("\nundoes\t{}", records.runs[*at].id)).collect();
            self.run(of, id, &format!("rollback{roles}{undoes}"), &planned, &changes, end);
            return named;
        }
    }

    /// Whether an object is restored (`true`), left alone, or as before already (`None`): as the engine does.
    fn decide(&self, undo: &mut Undo) -> Option<bool> {
        let key: usize = undo.object.key.parse().unwrap();
        let now = converge_resource::State::from_line(&state(self.now[key]));
        undo.settle(&now);
        if now == undo.before {
            return None;
        }
        Some(undo.theirs.is_none() && now == undo.left)
    }
}

// ---- what is drawn ----

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Whole),
        1 => (0..3_usize).prop_map(End::Failed),
        1 => (0..3_usize, 1..7_u8).prop_map(|(at, left)| End::Broke(at, left)),
        1 => (0..3_usize, any::<bool>()).prop_map(|(at, made)| End::Cut(at, made)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let wanted = prop::array::uniform4(prop::option::weighted(0.6, 0..4_u8));
    // Mostly one project; the other one comes in between.
    let project = || prop_oneof![4 => Just(0_usize), 1 => Just(1_usize)];
    let role = || prop::option::weighted(0.2, 0..2_usize);
    prop_oneof![
        6 => (project(), wanted, prop::option::weighted(0.1, 0..KEYS), end(), any::<u8>())
            .prop_map(|(project, wanted, disown, end, id)| Op::Apply { project, wanted, disown, end, id }),
        2 => (0..KEYS, 0..6_u8).prop_map(|(key, value)| Op::Edit { key, value }),
        4 => (project(), role(), end(), any::<u8>())
            .prop_map(|(project, role, end, id)| Op::Rollback { project, role, end, id }),
        3 => (project(), 0..8_usize, role(), end(), any::<u8>())
            .prop_map(|(project, run, role, end, id)| Op::To { project, run, role, end, id }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_does_what_the_model_says(ops in prop::collection::vec(op(), 1..14)) {
        let (mut host, mut model) = (Host::default(), Model::new(vec![0; KEYS], (0..KEYS).map(role).collect()));
        for (n, op) in ops.iter().enumerate() {
            match op {
                Op::Edit { key, value } => {
                    host.now[*key] = *value;
                    model.now[*key] = *value;
                }
                Op::Apply { project, wanted, disown, end, id } => {
                    let changes: Vec<(usize, u8)> = (0..KEYS)
                        .filter_map(|k| wanted[k].filter(|w| *w != host.now[k]).map(|w| (k, w)))
                        .collect();
                    let planned: Vec<usize> = changes.iter().map(|(k, _)| *k).collect();
                    if !changes.is_empty() {
                        host.disown = *disown;
                        host.run(*project, *id, "converge", &planned, &changes, end);
                    }
                    model.apply(*project, wanted, end);
                }
                Op::Rollback { project, role, end, id } => {
                    let left = host.rollback(*project, None, *role, end, *id);
                    prop_assert_eq!(left, model.rollback(*project, None, *role, end), "left by {}: {:?}", n, op);
                }
                Op::To { project, run, role, end, id } => {
                    // A run of another project is refused before anything is planned.
                    if model.past.get(*run).is_some_and(|p| p.project == *project) {
                        let left = host.rollback(*project, Some(*run), *role, end, *id);
                        let wanted = model.rollback(*project, Some(*run), *role, end);
                        prop_assert_eq!(left, wanted, "left by {}: {:?}", n, op);
                    }
                }
            }
            prop_assert_eq!(&host.now[..], &model.now[..], "after {}: {:?}", n, op);
            prop_assert_eq!(host.runs.len(), model.past.len(), "runs after {}: {:?}", n, op);
            let managed: Vec<_> = (0..KEYS).map(|key| story::managed(&host.events, key)).collect();
            prop_assert_eq!(host.managed(), managed, "managed after {}: {:?}", n, op);
        }
    }
}
