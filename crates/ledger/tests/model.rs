//! The ledger against a model of `docs/rollback.md`, and of what `docs/snapshots.md` says of managed objects, that shares no code with it: sequences of
//! operations on simulated hosts are drawn, the ledger decides what a rollback does and what is managed, and the model says what must come out.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

#[path = "reference/host.rs"]
mod host;
#[expect(dead_code, reason = "a test on a real host uses the rest")]
mod reference;
#[path = "reference/managed.rs"]
mod story;

use converge_ledger::{
    ManagedObjects, OwnedObject, ProjectName, RunPurpose, RunRecord, SavedChange, SavedOutcome, fold,
};
use host::Host;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use reference::Model;
use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _};

const KEYS: usize = 4;
/// The path of the last key is an object in each of two directories: a link leads to the one or the other.
const OBJECTS: usize = KEYS + 1;
type Values = [u8; OBJECTS];

/// The key of an object.
fn key(object: usize) -> usize {
    object.min(KEYS - 1)
}

/// Values for the keys, as those of the objects that are seen.
fn of_visible<V: Copy>(wanted: &[Option<V>; KEYS], is_led: bool) -> [Option<V>; OBJECTS] {
    let of = |object: usize| wanted[key(object)].filter(|_| object < KEYS - 1 || (object == KEYS) == is_led);
    std::array::from_fn(of)
}

type End = reference::End<u8>;

/// A run on the hosts `on`, a bit for each. Each host ends it in its own way.
#[derive(Clone, Debug)]
struct Op {
    on: usize,
    ends: [End; 2],
    id: u8,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// A run of a project to values for some of the objects: also a narrowed one, or a prune (0 is absent).
    Apply {
        project: usize,
        wanted: [Option<u8>; KEYS],
        /// It gives this object out of management.
        disown: Option<usize>,
    },
    Edit {
        object: usize,
        value: u8,
    },
    /// Somebody leads the link to the other directory.
    Lead,
    Rollback {
        project: usize,
        role: Option<usize>,
    },
    /// To the state before the run of this number, counted among all that some host has recorded.
    To {
        project: usize,
        run: usize,
        role: Option<usize>,
    },
}

/// Keys 0 and 1 are of role r0, 2 and 3 of r1.
fn role(object: usize) -> usize {
    key(object) / 2
}

/// Hosts, the model of each, and the runs that each has recorded: by their place among all.
struct Fleet {
    hosts: Vec<Host>,
    models: Vec<Model<u8>>,
    runs: Vec<Vec<usize>>,
    ids: Vec<String>,
}

impl Fleet {
    /// The clock of the second host is a day behind that of the first.
    fn new(number: usize) -> Self {
        let clocks = [0, -86_400];
        Self {
            hosts: clocks[..number].iter().map(|skew| Host::new(*skew)).collect(),
            models: vec![Model::new(vec![0; OBJECTS], (0..OBJECTS).map(role).collect()); number],
            runs: vec![Vec::new(); number],
            ids: Vec::new(),
        }
    }

    /// A run has an ID where some host has recorded it.
    fn note(&mut self, id: &str) {
        let new = self.ids.len();
        for (models, runs) in self.models.iter().zip(&mut self.runs) {
            if models.past.len() > runs.len() {
                runs.push(new);
                self.ids.truncate(new);
                self.ids.push(id.to_owned());
            }
        }
    }

    /// Whether this run is one of this project.
    fn is_of(&self, run: usize, project: usize) -> bool {
        let on = |(model, runs): (&Model<u8>, &Vec<usize>)| {
            runs.iter().position(|r| *r == run).is_some_and(|at| model.past[at].project == project)
        };
        self.models.iter().zip(&self.runs).any(on)
    }

    /// A rollback of these hosts as the page says. What it leaves alone on each.
    fn rollback(
        &mut self,
        on: &[usize],
        project: usize,
        to: Option<usize>,
        narrowed: Option<usize>,
        ends: &[End],
    ) -> Vec<BTreeSet<usize>> {
        let mut passed = BTreeSet::new();
        let mut left = vec![BTreeSet::new(); on.len()];
        let mut alone = None;
        loop {
            // Of each host the newest run that is in force there; of these the one that began last.
            let newest = |host: &usize| {
                let runs = &self.runs[*host];
                let passed = (0..runs.len()).filter(|at| passed.contains(&runs[*at])).collect();
                self.models[*host].newest(project, &passed).map(|at| runs[at])
            };
            let of_each: Vec<Option<usize>> = on.iter().map(newest).collect();
            let Some(chosen) = to.or_else(|| of_each.iter().flatten().max().copied()) else { return left };
            let plan = |(host, newest): (&usize, &Option<usize>)| {
                let at = self.runs[*host].iter().position(|run| *run == chosen)?;
                let is_alone = alone == Some(chosen);
                (to.is_some() || *newest == Some(chosen))
                    .then(|| self.models[*host].plan(project, to.map(|_| at), at, narrowed, is_alone))
            };
            let plans: Vec<_> = on.iter().zip(&of_each).map(plan).collect();
            let named: Vec<_> =
                plans.iter().map(|p| p.as_ref().map(|p| p.named.clone()).unwrap_or_default()).collect();
            let is_idle = plans.iter().flatten().all(|plan| plan.changes.is_empty());
            // Of an object in the other directory it cannot be said how it is: no older run is taken in the place of this one.
            let halts =
                |(host, named): (&usize, &BTreeSet<usize>)| !named.is_disjoint(&self.models[*host].unseen);
            if is_idle && on.iter().zip(&named).any(halts) {
                return named;
            }
            if is_idle && to.is_none() {
                if named.iter().any(|named| !named.is_empty()) {
                    left = named;
                }
                let takes = |(host, plan): (&usize, &Option<reference::ModelPlan<u8>>)| {
                    let takes = plan.iter().flat_map(|p| &p.takes);
                    takes.map(|at| self.runs[*host][*at]).collect::<Vec<_>>()
                };
                let takes: Vec<usize> = on.iter().zip(&plans).flat_map(takes).collect();
                if alone.replace(chosen) != Some(chosen) && takes.iter().any(|run| *run < chosen) {
                    continue;
                }
                passed.insert(chosen);
                passed.extend(takes);
                continue;
            }
            for ((host, end), plan) in on.iter().zip(ends).zip(plans) {
                let Some(plan) = plan.filter(|plan| !plan.changes.is_empty()) else { continue };
                let to = to.and_then(|to| self.runs[*host].iter().position(|run| *run == to));
                self.models[*host].carry_out(project, to, narrowed, plan, end);
            }
            return named;
        }
    }

    /// Does this to the hosts, and compares them with what the model says.
    fn step(&mut self, n: usize, op: &Op) -> Result<(), TestCaseError> {
        let on: Vec<usize> = (0..self.hosts.len()).filter(|host| (op.on >> host) & 1 == 1).collect();
        let ends: Vec<End> = on.iter().map(|host| op.ends[*host].clone()).collect();
        let (id, time) = (format!("{:03}-{n}", op.id), 100 + i64::try_from(n).unwrap());
        let run = (id.as_str(), time);
        match &op.what {
            What::Edit { object, value } => {
                for host in on {
                    self.hosts[host].now[*object] = *value;
                    self.models[host].now[*object] = *value;
                }
            }
            What::Lead => {
                for host in on {
                    let is_led = &mut self.hosts[host].is_led;
                    *is_led = !*is_led;
                    self.models[host].unseen = BTreeSet::from([if *is_led { KEYS - 1 } else { KEYS }]);
                }
            }
            What::Apply { project, wanted, disown } => {
                for (at, end) in on.into_iter().zip(&ends) {
                    let host = &mut self.hosts[at];
                    let wanted = of_visible(wanted, host.is_led);
                    let changes: Vec<(usize, u8)> = (0..OBJECTS)
                        .filter_map(|k| wanted[k].filter(|w| *w != host.now[k]).map(|w| (k, w)))
                        .collect();
                    let planned: Vec<usize> = changes.iter().map(|(k, _)| *k).collect();
                    if !changes.is_empty() {
                        host.disown = *disown;
                        host.run(*project, run, "converge", &planned, &changes, end);
                    }
                    self.models[at].apply(*project, &wanted, end);
                }
            }
            What::Rollback { project, role } => {
                let left = self.by_the_ledger(&on, *project, None, *role, &ends, run);
                prop_assert_eq!(
                    left,
                    self.rollback(&on, *project, None, *role, &ends),
                    "left by {}: {:?}",
                    n,
                    op
                );
            }
            // A run of another project, and one that no host has, is refused before anything is planned.
            What::To { project, run: to, role } => {
                let known = on.iter().any(|host| self.runs[*host].contains(to));
                if known && self.is_of(*to, *project) {
                    let left = self.by_the_ledger(&on, *project, Some(*to), *role, &ends, run);
                    let wanted = self.rollback(&on, *project, Some(*to), *role, &ends);
                    prop_assert_eq!(left, wanted, "left by {}: {:?}", n, op);
                }
            }
        }
        self.note(&id);
        for (host, model) in self.hosts.iter().zip(&self.models) {
            prop_assert_eq!(&host.now[..], &model.now[..], "after {}: {:?}", n, op);
            prop_assert_eq!(host.runs.len(), model.past.len(), "runs after {}: {:?}", n, op);
            let of = |project| (0..KEYS).map(move |key| story::managed(&host.events, project, key)).collect();
            let managed: Vec<Vec<_>> = (0..2).map(of).collect();
            prop_assert_eq!(host.managed(), managed, "managed after {}: {:?}", n, op);
        }
        Ok(())
    }

    fn by_the_ledger(
        &mut self,
        on: &[usize],
        project: usize,
        to: Option<usize>,
        narrowed: Option<usize>,
        ends: &[End],
        run: (&str, i64),
    ) -> Vec<BTreeSet<usize>> {
        let hosts = self.hosts.iter_mut().enumerate().filter(|(at, _)| on.contains(at));
        let mut hosts: Vec<&mut Host> = hosts.map(|(_, host)| host).collect();
        Host::rollback(&mut hosts, project, to.map(|to| self.ids[to].as_str()), narrowed, ends, run)
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

fn op(on: impl Strategy<Value = usize>) -> impl Strategy<Value = Op> {
    let wanted = prop::array::uniform4(prop::option::weighted(0.6, 0..4_u8));
    // Mostly one project; the other one comes in between.
    let project = || prop_oneof![4 => Just(0_usize), 1 => Just(1_usize)];
    let role = || prop::option::weighted(0.2, 0..2_usize);
    let what = prop_oneof![
        6 => (project(), wanted, prop::option::weighted(0.1, 0..KEYS))
            .prop_map(|(project, wanted, disown)| What::Apply { project, wanted, disown }),
        2 => (0..OBJECTS, 0..6_u8).prop_map(|(object, value)| What::Edit { object, value }),
        1 => Just(What::Lead),
        4 => (project(), role()).prop_map(|(project, role)| What::Rollback { project, role }),
        3 => (project(), 0..8_usize, role())
            .prop_map(|(project, run, role)| What::To { project, run, role }),
    ];
    (on, [end(), end()], any::<u8>(), what).prop_map(|(on, ends, id, what)| Op { on, ends, id, what })
}

/// One host, or both.
fn some_of_two() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(3_usize), 1 => Just(1_usize), 1 => Just(2_usize)]
}

/// Draws sequences of operations on so many hosts, which the ledger and the model must judge alike.
fn draw(hosts: usize, on: impl Strategy<Value = usize>) {
    draw_of(prop::collection::vec(op(on), 1..14), |ops| {
        let mut fleet = Fleet::new(hosts);
        ops.iter().enumerate().try_for_each(|(n, op)| fleet.step(n, op))
    });
}

/// Draws such cases, 5,000 or as many as `CONVERGE_CASES` says, and shrinks the first one that fails. `CONVERGE_SEED` draws those of a failure again.
fn draw_of<T: std::fmt::Debug>(
    cases: impl Strategy<Value = T>,
    judge: impl Fn(&T) -> Result<(), TestCaseError>,
) {
    let chance = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    let seed = std::env::var("CONVERGE_SEED").map_or_else(|_| chance(), |seed| seed.parse().unwrap());
    let number = std::env::var("CONVERGE_CASES").map_or(5_000, |number| number.parse().unwrap());
    let config = ProptestConfig {
        cases: number,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    };
    let drawn = TestRunner::new(config).run(&cases, |case| judge(&case));
    let reply = drawn.map_err(|error| format!("{error}\nCONVERGE_SEED={seed} draws it again"));
    assert!(reply.is_ok(), "{}", reply.unwrap_err());
}

/// An operation of two projects with the same objects.
#[derive(Clone, Debug)]
enum Turn {
    Apply(usize, [Option<u8>; KEYS]),
    Rollback(usize),
    /// To the state before the run of this number among those of the project since the last rollback: before an earlier one it may lead forward.
    To(usize, usize),
}

/// Two projects write the same objects in turn, and roll some of that back. When both go on until nothing changes any more, all is as it was at the start,
/// and nothing is left alone: in whichever order they do it.
#[test]
fn two_projects_with_the_same_objects_find_a_way_out() {
    let wanted = || prop::array::uniform4(prop::option::weighted(0.5, 0..4_u8));
    let turn = prop_oneof![
        5 => (0..2_usize, wanted()).prop_map(|(project, wanted)| Turn::Apply(project, wanted)),
        2 => (0..2_usize).prop_map(Turn::Rollback),
        1 => (0..2_usize, 0..3_usize).prop_map(|(project, run)| Turn::To(project, run)),
    ];
    draw_of((prop::collection::vec(turn, 1..12), 0..2_usize), |(turns, first)| {
        let mut host = Host::new(0);
        let mut since: [Vec<String>; 2] = Default::default();
        let whole = [End::Whole];
        let mut number = 0;
        let mut back = |host: &mut Host, project: usize, to: Option<&str>| {
            number += 1;
            let id = format!("back-{number}");
            Host::rollback(&mut [host], project, to, None, &whole, (&id, number))
        };
        for (n, turn) in turns.iter().enumerate() {
            match turn {
                Turn::Apply(project, wanted) => {
                    let changes: Vec<(usize, u8)> = (0..KEYS)
                        .filter_map(|k| wanted[k].filter(|w| *w != host.now[k]).map(|w| (k, w)))
                        .collect();
                    let planned: Vec<usize> = changes.iter().map(|(k, _)| *k).collect();
                    if !changes.is_empty() {
                        let id = format!("{n:03}");
                        host.run(*project, (&id, 0), "converge", &planned, &changes, &End::Whole);
                        since[*project].push(id);
                    }
                }
                Turn::Rollback(project) => {
                    since = Default::default();
                    back(&mut host, *project, None);
                }
                Turn::To(project, run) => {
                    if let Some(id) = since[*project].get(*run).cloned() {
                        since = Default::default();
                        back(&mut host, *project, Some(&id));
                    }
                }
            }
        }
        let mut left = Vec::new();
        for _ in 0..4 * turns.len() + 4 {
            let known = host.runs.len();
            left = [*first, 1 - *first].map(|project| back(&mut host, project, None)).to_vec();
            if host.runs.len() == known {
                break;
            }
        }
        let reply = format!("left alone: {left:?}; the runs:\n{}", host.runs.join("\n"));
        prop_assert_eq!(host.now, Values::default(), "{}", reply);
        prop_assert!(left.iter().flatten().all(BTreeSet::is_empty), "{}", reply);
        Ok(())
    });
}

#[test]
fn the_ledger_does_what_the_model_says() {
    draw(1, Just(1));
}

#[test]
fn the_ledger_chooses_the_run_of_several_hosts_that_the_model_says() {
    draw(2, some_of_two());
}

/// A run of one of two projects on an object that they share by its fields.
#[derive(Clone, Debug)]
enum Part {
    /// A role brings it to this value: of its own fields, and of nobody else's.
    Declare(usize, u8),
    /// A rollback of this many runs of the project.
    Back(usize, usize),
}

/// The runs as the ledger reads them. The fields of both projects stand in one state: each writes its own.
fn shared(parts: &[Part]) -> (Vec<RunRecord>, Vec<story::Event<(u8, u8)>>) {
    let object = converge_resource::ObjectId::new("k8s", "v1/ConfigMap/n/x");
    let line = |(a, b): (u8, u8)| converge_resource::State::from_line(&format!("object {a}-{b}"));
    let (mut now, mut runs, mut events) =
        ((9, 9), Vec::<RunRecord>::new(), Vec::<story::Event<(u8, u8)>>::new());
    // The runs of each that are in force, with what each found of the project's own.
    let mut stand: [Vec<(usize, u8)>; 2] = Default::default();
    for part in parts {
        let (Part::Declare(project, _) | Part::Back(project, _)) = *part;
        let of = |(a, b): (u8, u8)| if project == 0 { a } else { b };
        let (value, takes) = match part {
            Part::Declare(_, value) => {
                stand[project].push((runs.len(), of(now)));
                (*value, Vec::new())
            }
            Part::Back(_, number) => {
                let from = stand[project].len().saturating_sub(*number);
                let gone: Vec<_> = stand[project].drain(from..).collect();
                let Some((_, value)) = gone.first() else { continue };
                (*value, gone.iter().map(|(run, _)| *run).collect())
            }
        };
        let found = now;
        now = if project == 0 { (value, now.1) } else { (now.0, value) };
        if found == now {
            stand[project].retain(|(run, _)| *run != runs.len());
            continue;
        }
        let of_role = takes.is_empty();
        let id = |run: usize| format!("r{run}");
        let (before, after) = (line(found), line(now));
        let change = SavedChange {
            seq: 1,
            object: object.clone(),
            before,
            goal: after.clone(),
            after,
            real_dir: None,
            item: "role/item".to_owned(),
            owner: of_role.then(|| "role".to_owned()),
            uid: None,
            sensitive: false,
            no_snapshot: None,
            node_removal: None,
            guard: None,
            parts: Vec::new(),
            owners: None,
            outcome: SavedOutcome::Done,
            arrived: false,
        };
        runs.push(RunRecord {
            id: id(runs.len()),
            scope: ProjectName { playbook: format!("p{project}"), inventory: "i".to_owned() },
            purpose: if of_role { RunPurpose::Converge } else { RunPurpose::Rollback(Vec::new()) },
            rolls_back: takes.iter().map(|run| id(*run)).collect(),
            changes: vec![change],
            ..RunRecord::default()
        });
        let change = story::Change { key: 0, found, left: now, done: true, cut: false, of_role };
        events.push(story::Event { project, takes, changes: vec![change], disowned: None });
    }
    (runs, events)
}

/// Of an object that two projects share by its fields, each manages its own until its first run goes back, also where they are as they were.
#[test]
fn fields_stay_managed_as_the_model_says() {
    let part = prop_oneof![
        // 9 is what was there before.
        3 => (0..2_usize, prop_oneof![0..2_u8, Just(9)]).prop_map(|(project, value)| Part::Declare(project, value)),
        1 => (0..2_usize, 1..3_usize).prop_map(|(project, number)| Part::Back(project, number)),
    ];
    draw_of(prop::collection::vec(part, 1..12), |parts| {
        let (runs, events) = shared(parts);
        let managed = fold(ManagedObjects::default(), &runs);
        for project in 0..2 {
            let is_of = |thing: &&OwnedObject| thing.scope.playbook == format!("p{project}");
            let found = managed.present().find(is_of).map(|thing| thing.before.line().to_owned());
            let wanted = story::managed_in(&events, project, 0, &|_| true);
            let wanted = wanted.map(|((a, b), _)| format!("object {a}-{b}"));
            prop_assert_eq!(found, wanted, "project {}: {:?}", project, events);
        }
        Ok(())
    });
}
