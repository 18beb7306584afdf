//! Who owns the fields of an object that two projects share, after any sequence of applies, prunes, rollbacks and edits by hand.

use crate::Lab;
use converge_tests::Ran;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Values of an object by their keys.
type Data = BTreeMap<&'static str, u8>;

const KEYS: [&str; 4] = ["a", "b", "x", "f"];

/// Numbers from a seed (xorshift64*).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

/// A run of a project.
#[derive(Clone)]
struct Run {
    project: usize,
    found: Data,
    left: Data,
    /// The keys that the project owned before it.
    own: BTreeSet<&'static str>,
    /// Those that others owned, of the ones that it changed.
    theirs: BTreeMap<&'static str, BTreeSet<usize>>,
    /// The keys that it gave up, each with the others that own it since.
    lost: BTreeMap<&'static str, BTreeSet<usize>>,
    /// A prune or a rollback: the run since which the object had been managed.
    managed: Option<usize>,
    /// A rollback: the run that it took back.
    took_back: Option<usize>,
}

impl Run {
    fn changed(&self) -> BTreeSet<&'static str> {
        KEYS.into_iter().filter(|key| self.found.get(key) != self.left.get(key)).collect()
    }
}

/// The rule of docs/clusters.md in small. The projects are 0 and 1.
#[derive(Default)]
struct Model {
    live: Data,
    owners: BTreeMap<&'static str, BTreeSet<usize>>,
    /// All runs, and which of them are in force.
    runs: Vec<Run>,
    in_force: Vec<usize>,
    /// Since which run each project manages the object.
    managed: [Option<usize>; 2],
}

impl Model {
    fn own(&self, project: usize) -> BTreeSet<&'static str> {
        self.owners.iter().filter(|(_, by)| by.contains(&project)).map(|(key, _)| *key).collect()
    }

    fn has_other(&self, key: &str, project: usize) -> bool {
        self.owners.get(key).is_some_and(|by| by.iter().any(|by| *by != project))
    }

    /// Writes down a run that found this, and has left what is there now.
    fn record(
        &mut self,
        project: usize,
        before: (Data, BTreeMap<&'static str, BTreeSet<usize>>),
        managed: Option<usize>,
    ) -> &mut Run {
        let (found, owners) = before;
        let own: BTreeSet<&str> =
            owners.iter().filter(|(_, by)| by.contains(&project)).map(|(key, _)| *key).collect();
        let others = |owners: &BTreeMap<&str, BTreeSet<usize>>, key: &str| -> BTreeSet<usize> {
            owners.get(key).into_iter().flatten().copied().filter(|by| *by != project).collect()
        };
        let now = self.own(project);
        let lost = own.iter().filter(|key| !now.contains(*key)).map(|key| (*key, others(&self.owners, key)));
        let lost = lost.collect();
        let mut run = Run {
            project,
            found,
            left: self.live.clone(),
            own,
            theirs: BTreeMap::new(),
            lost,
            managed,
            took_back: None,
        };
        for key in run.changed() {
            run.theirs.insert(key, others(&owners, key));
        }
        self.runs.push(run);
        self.runs.last_mut().unwrap()
    }

    fn put(
        &mut self,
        project: usize,
        before: (Data, BTreeMap<&'static str, BTreeSet<usize>>),
        managed: Option<usize>,
    ) {
        self.in_force.push(self.runs.len());
        self.record(project, before, managed);
    }

    /// Whether the server would take the declaration.
    fn conflicts(&self, project: usize, wanted: &Data) -> bool {
        wanted.iter().any(|(key, value)| {
            self.live.get(key).is_some_and(|now| now != value) && self.has_other(key, project)
        })
    }

    fn apply(&mut self, project: usize, wanted: &Data) {
        let (mut live, mut owners) = (self.live.clone(), self.owners.clone());
        for key in self.own(project).into_iter().filter(|key| !wanted.contains_key(key)) {
            let by = owners.entry(key).or_default();
            by.remove(&project);
            if by.is_empty() {
                live.remove(key);
            }
        }
        for (key, value) in wanted {
            let by = owners.entry(key).or_default();
            if live.insert(key, *value) != Some(*value) {
                by.clear();
            }
            by.insert(project);
        }
        let drops = self.own(project).into_iter().any(|key| !wanted.contains_key(key));
        if live == self.live && !drops {
            // Nothing is to be changed, so nothing is applied.
            return;
        }
        let before = (std::mem::replace(&mut self.live, live), std::mem::replace(&mut self.owners, owners));
        if self.live != before.0 {
            self.managed[project].get_or_insert(self.runs.len());
        }
        self.put(project, before, None);
    }

    /// The runs in force of a project, the last one first.
    fn in_force_of(&self, project: usize) -> impl Iterator<Item = usize> + '_ {
        self.in_force.iter().rev().copied().filter(move |at| self.runs[*at].project == project)
    }

    /// Whether the other project has changed, since this run, what it had changed and is not as before already.
    fn is_covered(&self, at: usize) -> bool {
        let run = &self.runs[at];
        let others = self.in_force.iter().map(|at| (*at, &self.runs[*at]));
        let mut later = others.filter(|(other, r)| *other > at && r.project != run.project);
        let goes_back = |key: &&&str| self.live.get(**key) != run.found.get(**key);
        later.any(|(_, r)| r.changed().intersection(&run.changed()).any(|key| goes_back(&key)))
    }

    /// Whether a run changed nothing but owners, and none of what it gave up can be taken up again.
    fn is_past(&self, at: usize) -> bool {
        let run = &self.runs[at];
        let own = self.own(run.project);
        let comes = |key: &&str| !own.contains(*key) && self.live.get(*key) == run.found.get(*key);
        run.found == run.left && !run.lost.keys().any(comes)
    }

    /// Takes runs of a project back: these keys have the values and owners of before the first one. What a rollback finds where its run has left it with
    /// others, it takes again.
    fn back(&mut self, project: usize, runs: &[usize], is_rollback: bool) {
        let first = self.runs[runs[0]].clone();
        let touched: BTreeSet<&str> = runs.iter().flat_map(|at| self.runs[*at].changed()).collect();
        for key in KEYS {
            let then = first.found.get(key);
            let owned = first.own.contains(key);
            let others = self.owners.get(key).into_iter().flatten().copied().filter(|by| *by != project);
            let others: BTreeSet<usize> = others.collect();
            let is_given = is_rollback && first.lost.get(key) == Some(&others);
            let is_free = others.is_empty() || is_given;
            let is_back = touched.contains(key) && self.live.get(key) != then && is_free;
            if is_back {
                let mut by: BTreeSet<usize> = owned.then_some(project).into_iter().collect();
                let taken = runs.iter().find_map(|at| self.runs[*at].theirs.get(key).filter(|_| !owned));
                by.extend(taken.into_iter().flatten());
                match then {
                    Some(value) => drop((self.live.insert(key, *value), self.owners.insert(key, by))),
                    None => drop((self.live.remove(key), self.owners.remove(key))),
                }
            } else if !owned {
                self.owners.entry(key).or_default().remove(&project);
            } else if self.live.get(key) == then {
                self.owners.entry(key).or_default().insert(project);
            }
        }
    }

    fn roll_back(&mut self, project: usize, at: usize) {
        let before = (self.live.clone(), self.owners.clone());
        self.back(project, &[at], true);
        let managed = self.managed[project];
        self.record(project, before, managed).took_back = Some(at);
        self.in_force.retain(|run| *run != at);
        let run = &self.runs[at];
        if run.managed.is_some() {
            self.managed[project] = run.managed;
        } else if managed == Some(at) {
            self.managed[project] = None;
        }
    }

    /// The newest run of a project, if it is a rollback that can be undone.
    fn undoable(&self, project: usize) -> Option<usize> {
        let at = self.runs.iter().rposition(|run| run.project == project)?;
        let run = &self.runs[at];
        (run.took_back.is_some() && run.found != run.left && !self.is_covered(at)).then_some(at)
    }

    /// The project goes to the state before a rollback.
    fn undo(&mut self, project: usize, at: usize) {
        let before = (self.live.clone(), self.owners.clone());
        self.back(project, &[at], true);
        let managed = self.runs[at].managed;
        let taken = self.runs[at].took_back.unwrap();
        self.record(project, before, None);
        self.in_force.push(taken);
        self.in_force.sort_unstable();
        self.managed[project] = managed;
    }

    fn prune(&mut self, project: usize) {
        let since = self.managed[project].unwrap();
        let of = |at: &usize| self.runs[*at].project == project;
        let runs: Vec<usize> = (since..self.runs.len()).filter(of).collect();
        let before = (self.live.clone(), self.owners.clone());
        self.back(project, &runs, false);
        self.managed[project] = None;
        if self.live != before.0 {
            self.put(project, before, Some(since));
        }
    }

    /// Whether the object shows all that the runs of a project have set and a prune takes back.
    fn shows(&self, project: usize) -> bool {
        let since = self.managed[project].unwrap();
        let runs: Vec<&Run> = self.runs[since..].iter().filter(|r| r.project == project).collect();
        let touched: BTreeSet<&str> = runs.iter().flat_map(|r| r.changed()).collect();
        let (first, last) = (&runs[0].found, &self.runs[self.in_force_of(project).next().unwrap()].left);
        touched.into_iter().filter(|k| last.get(k) != first.get(k)).all(|k| self.live.get(k) == last.get(k))
    }
}

const NAMES: [&str; 2] = ["a", "b"];

/// Runs a command of a project, whose role declares these values; `None`: the item is not there.
fn of(lab: &Lab, project: usize, wanted: Option<&Data>, force: bool, args: &[&str]) -> Ran {
    let data = |wanted: &Data| -> BTreeMap<String, String> {
        wanted.iter().map(|(key, value)| ((*key).to_owned(), value.to_string())).collect()
    };
    let item = match wanted {
        None => json!({"name": "it is there", "k8s_query": {"kind": "Node"}}),
        Some(wanted) => json!({"name": "cm", "k8s_object": {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "owned", "namespace": "default"}, "data": data(wanted), "force_conflicts": force}}),
    };
    lab.role("owned", &json!({"scope": "cluster", "resources": [item]}).to_string());
    let inventory = lab.world.inventory(&format!("converge_project: {}", NAMES[project]));
    lab.world.write("project.yaml", &inventory).unwrap();
    lab.converge(&[args, &["project.yaml"]].concat())
}

/// The values of the object, and the projects that own them.
fn look(lab: &Lab) -> (Data, BTreeMap<&'static str, BTreeSet<usize>>) {
    let reply =
        lab.api.kubectl(&["get", "configmap", "owned", "-o", "json", "--show-managed-fields"]).unwrap();
    let object: Value = serde_json::from_str(&reply.stdout).unwrap();
    let value = |key: &&'static str| Some((*key, object["data"][*key].as_str()?.parse().unwrap()));
    let mut owners: BTreeMap<&'static str, BTreeSet<usize>> = BTreeMap::new();
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let Some(project) = NAMES.iter().position(|name| entry["manager"] == format!("converge-{name}"))
        else {
            continue;
        };
        assert_eq!(entry["operation"], "Apply", "{entry}");
        for key in KEYS.iter().filter(|key| entry["fieldsV1"]["f:data"].get(format!("f:{key}")).is_some()) {
            owners.entry(*key).or_default().insert(project);
        }
    }
    (KEYS.iter().filter_map(value).collect(), owners)
}

/// A sequence that begins with an object of somebody else.
fn sequence(lab: &Lab, seed: u64, steps: usize) {
    lab.forget_records();
    lab.kubectl(&["delete", "configmap", "owned", "--ignore-not-found"]);
    lab.kubectl(&["create", "configmap", "owned", "--from-literal=f=0"]);
    let (mut draw, mut model) = (Draw(seed), Model::default());
    model.live.insert("f", 0);
    let mut reply = Vec::new();
    let mut rollbacks = [String::new(), String::new()];
    for step in 0..steps {
        let project = usize::from(draw.below(2) == 1);
        let other = 1 - project;
        let what = match draw.below(12) {
            0..5 => {
                let mut wanted = Data::from([(NAMES[project], u8::try_from(1 + draw.below(3)).unwrap())]);
                if draw.below(3) > 0 {
                    wanted.insert("x", u8::try_from(1 + draw.below(2)).unwrap());
                }
                let force = draw.below(3) == 0;
                let refused = model.conflicts(project, &wanted) && !force;
                let ran = of(lab, project, Some(&wanted), force, &["apply", "--yes"]);
                ran.expect(i32::from(refused));
                if !refused {
                    model.apply(project, &wanted);
                    // A field that it declares and a later role leaves out is no endless change.
                    of(lab, project, Some(&wanted), force, &["plan"]).expect(0);
                }
                format!("{} applies {wanted:?}, force {force}: refused {refused}", NAMES[project])
            }
            5..8 => {
                let Some(at) = model.in_force_of(project).next() else { continue };
                // A later run of the other project comes first.
                if model.is_covered(at) || model.is_past(at) {
                    continue;
                }
                let ran = of(lab, project, None, false, &["rollback", "--yes"]).expect(0);
                assert!(!ran.all().contains("is as it was before"), "seed {seed}: {reply:#?}\n{}", ran.all());
                let all = ran.all();
                let id = all.rsplit("· run ").next().and_then(|rest| rest.split_whitespace().next());
                rollbacks[project] = id.unwrap().to_owned();
                model.roll_back(project, at);
                format!("{} rolls back", NAMES[project])
            }
            8 => {
                if model.managed[project].is_none() || !model.shows(project) {
                    continue;
                }
                of(lab, project, None, false, &["apply", "--yes", "--prune=1"]).expect(0);
                model.prune(project);
                let plan = of(lab, project, None, false, &["plan", "--prune"]).expect(0);
                assert!(!plan.all().contains("orphaned"), "{}", plan.all());
                format!("{} prunes", NAMES[project])
            }
            9 | 10 => {
                let Some(at) = model.undoable(project) else { continue };
                of(lab, project, None, false, &["rollback", "--yes", "--to", &rollbacks[project]]).expect(0);
                model.undo(project, at);
                format!("{} undoes its rollback", NAMES[project])
            }
            _ => {
                let value = u8::try_from(step % 200).unwrap();
                let patch = json!({"data": {"f": value.to_string()}}).to_string();
                lab.kubectl(&["patch", "configmap", "owned", "--type=merge", "-p", &patch]);
                model.live.insert("f", value);
                "somebody edits f".to_owned()
            }
        };
        reply.push(what);
        model.owners.retain(|_, by| !by.is_empty());
        let (live, owners) = look(lab);
        assert_eq!((&live, &owners), (&model.live, &model.owners), "seed {seed}: {reply:#?}");
        let idle = model.in_force_of(other).next().is_none() && model.managed[other].is_none();
        assert!(!idle || model.own(other).is_empty(), "seed {seed}: {reply:#?}");
    }
}

#[test]
fn two_projects_own_what_the_model_says() {
    let lab = Lab::get();
    let seeds = std::env::var("CONVERGE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for seed in 1..=seeds {
        sequence(&lab, seed, 25);
    }
    lab.kubectl(&["delete", "configmap", "owned"]);
}
