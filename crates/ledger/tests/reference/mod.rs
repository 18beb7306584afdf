//! A model of `docs/rollback.md` that shares no code with the ledger. Objects are numbers, their states are values; roles and projects are numbers.

use std::collections::{BTreeMap, BTreeSet};

/// The early end of a run: at the change of this number.
#[derive(Clone, Debug)]
pub enum End<V> {
    Whole,
    /// It failed and changed nothing.
    Failed(usize),
    /// It failed and left something else.
    Broke(usize, V),
    /// The connection was cut, before the change or behind it.
    Cut(usize, bool),
    /// An observed cut: the objects whose changes had begun, how they are now, and whether their change is known to have ended.
    Observed(BTreeMap<usize, (V, bool)>),
}

/// A change as the model remembers it: found this, left that (or may have, or something on the way).
#[derive(Clone, Debug)]
pub struct Did<V> {
    found: V,
    left: V,
    amid: Option<V>,
    in_doubt: bool,
}

/// A run or a rollback.
#[derive(Clone, Debug)]
pub struct Past<V> {
    pub project: usize,
    /// Of a rollback: the runs that it set out to take back, and whether it was narrowed.
    takes: Option<(BTreeSet<usize>, bool)>,
    did: BTreeMap<usize, Did<V>>,
    /// Its objects in the order in which it changed them.
    order: Vec<usize>,
    complete: bool,
    /// The changes that counted before it began.
    counted: CountedChanges<V>,
}

/// Which changes count (run, object), and in which other states failed rollbacks may have left their objects.
#[derive(Clone, Debug)]
struct CountedChanges<V>(BTreeMap<(usize, usize), BTreeSet<V>>);

/// The plan of a rollback on a host.
#[derive(Clone, Debug)]
pub struct ModelPlan<V> {
    /// Objects with the state before, in the order in which they are reverted.
    pub changes: Vec<(usize, V)>,
    /// The objects that it leaves alone.
    pub named: BTreeSet<usize>,
    /// The objects that are as before already, since another project has changed them after the runs that go back.
    hidden: BTreeSet<usize>,
    /// The runs that it sets out to take back.
    pub takes: BTreeSet<usize>,
}

/// The verdict of `undo.sh` on a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undo {
    Same,
    Restore,
    Left,
}

#[derive(Clone, Debug)]
pub struct Model<V> {
    pub now: Vec<V>,
    /// The role of each object.
    roles: Vec<usize>,
    pub past: Vec<Past<V>>,
    /// The objects whose path leads to another directory now.
    pub unseen: BTreeSet<usize>,
    counted: CountedChanges<V>,
}

impl<V: Clone + Ord> Model<V> {
    pub fn new(now: Vec<V>, roles: Vec<usize>) -> Self {
        let counted = CountedChanges(BTreeMap::new());
        Self { now, roles, past: Vec::new(), unseen: BTreeSet::new(), counted }
    }

    /// Makes changes one after the other; which were made, which arrived, and whether all were gone through.
    fn make(
        &mut self,
        changes: &[(usize, V)],
        end: &End<V>,
    ) -> (BTreeMap<usize, Did<V>>, BTreeSet<usize>, bool) {
        let (mut did, mut arrived) = (BTreeMap::new(), BTreeSet::new());
        for (n, (key, to)) in changes.iter().enumerate() {
            let found = self.now[*key].clone();
            let to = to.clone();
            let (left, real, stop, in_doubt) = match end {
                End::Failed(at) if *at == n => (found.clone(), found.clone(), true, false),
                End::Broke(at, left) if *at == n => (left.clone(), left.clone(), true, false),
                End::Cut(at, made) if *at == n => {
                    (to.clone(), if *made { to.clone() } else { found.clone() }, true, true)
                }
                End::Observed(begun) => match begun.get(key) {
                    Some((real, true)) => (real.clone(), real.clone(), false, false),
                    Some((real, false)) => (to.clone(), real.clone(), false, true),
                    None => continue,
                },
                _ => (to.clone(), to.clone(), false, false),
            };
            let amid = Some(real.clone()).filter(|r| *r != found && *r != left);
            self.now[*key] = real;
            if !in_doubt && left == to {
                arrived.insert(*key);
            }
            if left != found || in_doubt {
                did.insert(*key, Did { found, left, amid, in_doubt });
            }
            if stop {
                return (did, arrived, false);
            }
        }
        (did, arrived, !matches!(end, End::Observed(_)))
    }

    /// The changes of a run to these values.
    pub fn changes(&self, wanted: &[Option<V>]) -> Vec<(usize, V)> {
        let wanted = wanted.iter().enumerate().filter_map(|(k, w)| Some((k, w.clone()?)));
        wanted.filter(|(k, w)| *w != self.now[*k]).collect()
    }

    pub fn apply(&mut self, project: usize, wanted: &[Option<V>], end: &End<V>) {
        let changes = self.changes(wanted);
        if changes.is_empty() {
            return;
        }
        let counted = self.counted.clone();
        let (did, _, _) = self.make(&changes, end);
        let run = self.past.len();
        for key in did.keys() {
            self.counted.0.insert((run, *key), BTreeSet::new());
        }
        let order = changes.iter().map(|(k, _)| *k).collect();
        self.past.push(Past { project, takes: None, did, order, complete: true, counted });
    }

    /// The first run from which the newest one is taken back: where an earlier rollback set out from, as far as that still counts.
    fn begin_of(&self, run: usize, project: usize) -> usize {
        let earlier = self.past.iter().enumerate().skip(run + 1).rev().filter(|(at, p)| {
            p.project == project
                && p.takes.as_ref().is_some_and(|(takes, narrowed)| takes.contains(&run) && !narrowed)
                && !self.is_taken_back(*at)
        });
        earlier
            .filter_map(|(_, p)| {
                let counts = |r: &&usize| self.counted.0.keys().any(|(run, _)| run == *r);
                p.takes.as_ref()?.0.iter().find(counts).copied()
            })
            .next()
            .map_or(run, |first| first.min(run))
    }

    /// Whether a complete rollback that was itself not taken back took this one back.
    fn is_taken_back(&self, run: usize) -> bool {
        self.past.iter().enumerate().skip(run + 1).any(|(at, p)| {
            p.complete
                && p.takes.as_ref().is_some_and(|(t, narrowed)| t.contains(&run) && !narrowed)
                && !self.is_taken_back(at)
        })
    }

    /// The runs whose changes of an object count and came behind the run `first`, and that are not among `own`: those that stand there, and those
    /// of projects that have brought it back to where their first one found it.
    fn others(
        &self,
        key: usize,
        first: usize,
        own: &dyn Fn(usize) -> bool,
    ) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let mut of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (run, _) in self.counted.0.keys().filter(|(r, k)| *k == key && *r > first && !own(*r)) {
            of.entry(self.past[*run].project).or_default().push(*run);
        }
        let (mut stand, mut back) = (BTreeSet::new(), BTreeSet::new());
        for runs in of.into_values() {
            let (start, end) = (&self.past[runs[0]].did[&key], &self.past[runs[runs.len() - 1]].did[&key]);
            let sure = !end.in_doubt && runs.iter().all(|r| self.counted.0[&(*r, key)].is_empty());
            if sure && start.found == end.left { &mut back } else { &mut stand }.extend(runs);
        }
        (stand, back)
    }

    /// The verdict on an object: restored to the state before, or left alone.
    fn judge(
        &self,
        key: usize,
        first: usize,
        before: &V,
        known: &BTreeSet<V>,
        project: usize,
    ) -> Option<bool> {
        if self.now[key] == *before {
            return None;
        }
        if self.unseen.contains(&key) {
            return Some(false);
        }
        let (stand, _) = self.others(key, first, &|r| self.past[r].project == project);
        Some(stand.is_empty() && known.contains(&self.now[key]))
    }

    /// The newest run of a project of which something counts, but for these.
    pub fn newest(&self, project: usize, passed: &BTreeSet<usize>) -> Option<usize> {
        let runs = self.counted.0.keys().map(|(r, _)| *r);
        runs.filter(|r| self.past[*r].project == project && !passed.contains(r)).max()
    }

    /// The plan of a rollback: to the state before the run `to`, or before `newest` and the runs that an earlier rollback set out to take back with it,
    /// or before `newest` alone.
    pub fn plan(
        &self,
        project: usize,
        to: Option<usize>,
        newest: usize,
        narrowed: Option<usize>,
        alone: bool,
    ) -> ModelPlan<V> {
        let own = |r: usize| self.past[r].project == project;
        let scope: Vec<(usize, usize)> = if let Some(to) = to {
            let runs = (to..self.past.len()).filter(|r| own(*r));
            runs.flat_map(|r| {
                let past = &self.past[r];
                past.order.iter().filter(|k| past.did.contains_key(k)).map(move |k| (r, *k))
            })
            .collect()
        } else {
            let begin = if alone { newest } else { self.begin_of(newest, project) };
            self.counted.0.keys().copied().filter(|(r, _)| *r >= begin && own(*r)).collect()
        };
        let mut takes: BTreeSet<usize> = scope.iter().map(|(r, _)| *r).collect();
        if let Some(to) = to {
            takes.extend((to..self.past.len()).filter(|r| own(*r)));
        }
        // The order in which the ledger reverses: objects touched first go last.
        let mut order: Vec<usize> = Vec::new();
        for (_, key) in &scope {
            if !order.contains(key) {
                order.push(*key);
            }
        }
        order.reverse();
        let (mut changes, mut named, mut hidden) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for key in order.into_iter().filter(|k| narrowed.is_none_or(|r| self.roles[*k] == r)) {
            let steps: Vec<usize> = scope.iter().filter(|(_, k)| *k == key).map(|(r, _)| *r).collect();
            let before = self.past[steps[0]].did[&key].found.clone();
            let mut known = BTreeSet::new();
            for r in &steps {
                let did = &self.past[*r].did[&key];
                known.extend([did.found.clone(), did.left.clone()]);
                known.extend(did.amid.clone());
                if to.is_none() {
                    known.extend(self.counted.0[&(*r, key)].iter().cloned());
                }
            }
            match self.judge(key, steps[0], &before, &known, project) {
                None => drop(hidden.insert(key)),
                Some(true) => changes.push((key, before)),
                Some(false) => drop(named.insert(key)),
            }
        }
        // An object that none of these runs changed may have been counted otherwise by one of them, a rollback.
        hidden.extend((0..self.now.len()).filter(|key| !scope.iter().any(|(_, k)| k == key)));
        hidden.retain(|key| {
            let first =
                takes.iter().find(|r| self.past[**r].did.contains_key(key) || self.recounts(**r, *key));
            first.is_some_and(|first| !self.others(*key, *first, &own).0.is_empty())
        });
        ModelPlan { changes, named, hidden, takes }
    }

    /// Whether a run, a rollback, made other changes of an object count.
    fn recounts(&self, run: usize, key: usize) -> bool {
        let own = |counted: &CountedChanges<V>| -> Vec<usize> {
            let runs = counted.0.keys().filter(|(_, k)| *k == key).map(|(r, _)| *r);
            runs.filter(|r| self.past[*r].project == self.past[run].project).collect()
        };
        let after = self.past.get(run + 1).map_or(&self.counted, |next| &next.counted);
        self.past[run].takes.is_some() && own(&self.past[run].counted) != own(after)
    }

    /// Carries out what was planned, of which something is to be changed.
    pub fn carry_out(
        &mut self,
        project: usize,
        to: Option<usize>,
        narrowed: Option<usize>,
        planned: ModelPlan<V>,
        end: &End<V>,
    ) {
        let ModelPlan { changes, named, hidden, takes } = planned;
        let counted = self.counted.clone();
        let (did, arrived, ended) = self.make(&changes, end);
        let all_arrived = ended && named.is_empty();
        let complete = all_arrived && narrowed.is_none();
        for key in 0..self.now.len() {
            if arrived.contains(&key) || (complete && !hidden.contains(&key)) {
                self.count_as_before(key, to, &takes);
            } else if let Some(Did { found, left, amid, .. }) = did.get(&key) {
                let newest = self.counted.0.iter_mut().rfind(|((r, k), _)| *k == key && takes.contains(r));
                if let Some((_, also)) = newest {
                    also.extend([found.clone(), left.clone()]);
                    also.extend(amid.clone());
                }
            }
        }
        let order = changes.iter().map(|(k, _)| *k).collect();
        let takes = Some((takes, narrowed.is_some()));
        self.past.push(Past { project, takes, did, order, complete: all_arrived, counted });
    }

    /// A rollback on one host; what it leaves alone.
    pub fn rollback(
        &mut self,
        project: usize,
        to: Option<usize>,
        narrowed: Option<usize>,
        end: &End<V>,
    ) -> BTreeSet<usize> {
        let mut passed = BTreeSet::new();
        let mut left = BTreeSet::new();
        let mut alone = None;
        loop {
            let Some(newest) = to.or_else(|| self.newest(project, &passed)) else { return left };
            let planned = self.plan(project, to, newest, narrowed, alone == Some(newest));
            let named = planned.named.clone();
            if !planned.changes.is_empty() {
                self.carry_out(project, to, narrowed, planned, end);
                return named;
            }
            if to.is_some() {
                return named;
            }
            if !named.is_empty() {
                left = named;
            }
            // Of all that an earlier rollback left nothing can be done together: of the newest run alone something may.
            if alone.replace(newest) != Some(newest) && planned.takes.first() < Some(&newest) {
                continue;
            }
            passed.insert(newest);
            passed.extend(planned.takes);
        }
    }

    /// Updates the changes that count of an object, once it is as it was before the runs that were taken back.
    fn count_as_before(&mut self, key: usize, to: Option<usize>, takes: &BTreeSet<usize>) {
        let is_first = |r: &&usize| match to {
            Some(_) => self.past[**r].did.contains_key(&key),
            None => self.counted.0.contains_key(&(**r, key)),
        };
        let back =
            takes.iter().find(is_first).map(|first| self.others(key, *first, &|r| takes.contains(&r)).1);
        // For good: no rollback makes them count again.
        for run in back.into_iter().flatten() {
            let all = self.past.iter_mut().map(|past| &mut past.counted).chain([&mut self.counted]);
            all.for_each(|counted| drop(counted.0.remove(&(run, key))));
        }
        self.counted.0.retain(|(r, k), _| *k != key || !takes.contains(r));
        let Some(to) = to else { return };
        // Runs of the other project come and go by themselves.
        let own = |r: usize| self.past[r].project == self.past[to].project;
        let then = self.past[to].counted.0.iter().filter(|((r, k), _)| *k == key && own(*r));
        let then: Vec<_> = then.map(|(step, also)| (*step, also.clone())).collect();
        self.counted.0.retain(|(r, k), _| *k != key || *r > to || !own(*r));
        self.counted.0.extend(then);
    }

    /// The objects that the last run changed, or may have changed, each with what it left there, or meant to.
    pub fn last(&self) -> Vec<(usize, V)> {
        let did = self.past.last().into_iter().flat_map(|p| &p.did);
        did.map(|(key, did)| (*key, did.left.clone())).collect()
    }

    /// The verdict of `undo.sh` on the changes of a run to an object.
    fn judge_alone(&self, run: usize, key: usize) -> Undo {
        let (did, now) = (&self.past[run].did[&key], &self.now[key]);
        if *now == did.found || !self.counted.0.contains_key(&(run, key)) {
            return Undo::Same;
        }
        let (later, _) = self.others(key, run, &|r| r == run);
        let in_the_way = |r: &usize| {
            let d = &self.past[*r].did[&key];
            *now != d.found || (!d.in_doubt && *now == d.left)
        };
        let managed_here = *now == did.left || did.amid.as_ref() == Some(now);
        if managed_here && !later.iter().any(in_the_way) { Undo::Restore } else { Undo::Left }
    }

    /// `undo.sh` without an argument: what it left alone; `None` when there is no run to undo.
    pub fn undo(&mut self) -> Option<BTreeSet<usize>> {
        let mut runs: Vec<usize> = self.counted.0.keys().map(|(r, _)| *r).collect();
        runs.dedup();
        let with = |run: usize, what: Undo| -> BTreeSet<usize> {
            let keys = self.past[run].did.keys().copied();
            keys.filter(|k| self.judge_alone(run, *k) == what).collect()
        };
        let newest = |what: Undo| runs.iter().rev().copied().find(|r| !with(*r, what).is_empty());
        let target = newest(Undo::Restore).or_else(|| newest(Undo::Left))?;
        let (restored, left) = (with(target, Undo::Restore), with(target, Undo::Left));
        if restored.is_empty() {
            // A run that changed nothing is not kept.
            return Some(left);
        }
        let counted = self.counted.clone();
        let mut did = BTreeMap::new();
        for key in &restored {
            let before = self.past[target].did[key].found.clone();
            let found = std::mem::replace(&mut self.now[*key], before.clone());
            did.insert(*key, Did { found, left: before, amid: None, in_doubt: false });
        }
        let takes = BTreeSet::from([target]);
        for key in 0..self.now.len() {
            let is_hidden = !self.others(key, target, &|r| r == target).0.is_empty();
            if restored.contains(&key) || (left.is_empty() && !is_hidden) {
                self.count_as_before(key, None, &takes);
            }
        }
        let past = Past {
            project: self.past[target].project,
            takes: Some((takes, false)),
            did,
            order: restored.into_iter().collect(),
            complete: left.is_empty(),
            counted,
        };
        self.past.push(past);
        Some(left)
    }
}
