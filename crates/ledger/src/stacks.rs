//! The steps in force of the runs on one host or cluster: those that no rollback has taken back.
//!
//! Each object has a stack of steps; a path below a mount point of a run has one in each file system, and one
//! below a link that leads elsewhere has one in each place. An apply pushes one step per change; a rollback removes the steps of the runs that it reverts, and a
//! rollback of a rollback puts them on again. `docs/rollback.md` says what follows from it.

mod narrowed;
mod others;

use crate::layers::{MountLayer, MountLayers};
use crate::lead::led_elsewhere;
use crate::lines::{is_by_fields, is_by_lines};
use crate::{ProjectScope, RunPurpose, RunRecord, SavedChange, SavedOutcome, Undo, UnrecordedRuns};
use converge_resource::{ObjectId, State};
use std::collections::{BTreeMap, BTreeSet};

/// A change that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StepInForce {
    run: usize,
    change: usize,
    /// States in which a rollback that failed or was cut off may have left the object, each with that rollback.
    also: Vec<(usize, State)>,
}

impl StepInForce {
    fn is(&self, other: &Self) -> bool {
        (self.run, self.change) == (other.run, other.change)
    }
}

/// Drops the states in which that rollback may have left the object.
fn drop_also(stack: &mut [StepInForce], by: usize) {
    for step in stack {
        step.also.retain(|(run, _)| *run != by);
    }
}

/// The effect of a rollback on the stack of an object: other projects' steps may come and go besides.
#[derive(Clone, Debug, Default)]
struct Effect {
    /// Steps as they were, which it took off or changed.
    taken: Vec<StepInForce>,
    given: Vec<StepInForce>,
}

impl Effect {
    fn retain(&mut self, stays: &dyn Fn(&StepInForce) -> bool) {
        self.taken.retain(stays);
        self.given.retain(stays);
    }
}

/// An object in the file system in which it lies.
type Thing<'a> = (&'a ObjectId, MountLayer);

type Stacks<'a> = BTreeMap<Thing<'a>, Vec<StepInForce>>;

/// The runs of one host or cluster in their order, and what is in force of them.
#[derive(Clone, Debug)]
pub struct Ledger<'a> {
    runs: &'a [RunRecord],
    stacks: Stacks<'a>,
    /// The effect of each rollback on the stacks.
    effects: BTreeMap<usize, BTreeMap<Thing<'a>, Effect>>,
    /// The last rollback that took back something of each run, or all of it.
    taken_by: BTreeMap<usize, usize>,
    /// The layer of each change of each run.
    layers: Vec<Vec<MountLayer>>,
    /// The places at which runs mount something.
    places: MountLayers,
    /// The changes, by run and place, to objects that the project has forgotten since: in force no more, and no rollback's matter.
    forgotten: BTreeSet<(usize, usize)>,
    /// The roles whose changes a rollback takes back; all if there is none.
    roles: Vec<String>,
}

/// Whether a change reached its planned state.
fn is_done(change: &SavedChange) -> bool {
    matches!(change.outcome, SavedOutcome::Done | SavedOutcome::Moved)
}

/// Whether a rollback reverted all that it was to revert: changes that were refused, failed or were interrupted can still be reverted.
fn is_whole(run: &RunRecord) -> bool {
    let roles = matches!(&run.purpose, RunPurpose::Rollback(roles) if !roles.is_empty());
    let begun = |address: &String| run.changes.iter().any(|c| c.item == *address);
    !roles && run.finished && run.changes.iter().all(is_done) && run.planned.iter().all(begun)
}

impl<'a> Ledger<'a> {
    /// Of all runs, in the order of [`crate::in_order`].
    pub fn of(runs: &'a [RunRecord]) -> Self {
        let mut places = MountLayers::default();
        let layers_of = |run: &RunRecord| {
            places.begin(run);
            let layer_of = |change: &SavedChange| {
                let layer = places.of_change(change);
                places.follow(change);
                layer
            };
            run.changes.iter().map(layer_of).collect()
        };
        let layers = runs.iter().map(layers_of).collect();
        let mut ledger = Self {
            runs,
            stacks: Stacks::new(),
            effects: BTreeMap::new(),
            taken_by: BTreeMap::new(),
            layers,
            places,
            forgotten: BTreeSet::new(),
            roles: Vec::new(),
        };
        for (at, run) in runs.iter().enumerate() {
            if !run.forgotten.is_empty() {
                ledger.forget(at, run);
            }
            if run.is_rollback() { ledger.take_back(at, run) } else { ledger.push(at, run) }
        }
        ledger
    }

    /// Takes all earlier changes of the project to the objects that this run forgets off their stacks, and with a command those that its script has made:
    /// no rollback puts them on again.
    fn forget(&mut self, by: usize, run: &RunRecord) {
        let project = ProjectScope(run.scope.clone());
        for (at, of) in self.runs.iter().enumerate().take(by).filter(|(_, of)| project.has(&of.scope)) {
            let named = |change: &SavedChange| run.forgotten.contains(&change.object);
            let commands = of.changes.iter().filter(|c| converge_objects::is_action(&c.object) && named(c));
            let commands: BTreeSet<&str> = commands.map(|c| c.item.as_str()).collect();
            let made =
                |c: &SavedChange| c.outcome == SavedOutcome::Moved && commands.contains(c.item.as_str());
            let changes = of.changes.iter().enumerate().filter(|(_, c)| named(c) || made(c));
            self.forgotten.extend(changes.map(|(change, _)| (at, change)));
        }
        let forgotten = &self.forgotten;
        let stays = |step: &StepInForce| !forgotten.contains(&(step.run, step.change));
        self.stacks.values_mut().for_each(|stack| stack.retain(stays));
        let effects = self.effects.values_mut().flat_map(BTreeMap::values_mut);
        effects.for_each(|effect| effect.retain(&stays));
    }

    fn push(&mut self, at: usize, run: &'a RunRecord) {
        for (n, change) in run.changes.iter().enumerate().filter(|(_, c)| c.may_have_happened()) {
            let stack = self.stacks.entry(self.thing(at, n, change)).or_default();
            stack.push(StepInForce { run: at, change: n, also: Vec::new() });
        }
    }

    fn take_back(&mut self, at: usize, run: &'a RunRecord) {
        let targets = self.targets(at, run);
        // If every field that the project set has another owner too, no value changes.
        let only_owners =
            |c: &SavedChange| is_by_fields(&c.object) && c.outcome == SavedOutcome::Done && c.owner.is_none();
        let changes = run.changes.iter().enumerate();
        // A command that was begun only shows its state before, and goes back by its undo alone.
        let only_undone =
            |c: &SavedChange| converge_objects::is_action(&c.object) && c.outcome == SavedOutcome::Done;
        for (n, change) in changes.filter(|(_, c)| c.may_have_happened() || only_owners(c) || only_undone(c))
        {
            let thing = &self.thing(at, n, change);
            let to = self.before_of(thing, &targets);
            let arrived = change.outcome == SavedOutcome::Done
                || (change.outcome != SavedOutcome::Unknown && to.as_ref() == Some(&change.after));
            if targets.is_empty() {
                // Runs that are not recorded any more have no step to take off. An interrupted step may not have reached that state.
                let is_named = !run.rolls_back.is_empty() || run.attempts.is_some();
                if !is_named && change.outcome != SavedOutcome::Unknown {
                    self.take_back_to(at, thing, &change.after);
                }
            } else if to.as_ref() != Some(&change.after)
                && (self.is_led_back(thing, change) || self.is_back_to_other_role(run, thing, change))
            {
                self.take_back_to(at, thing, &change.after);
            } else if arrived {
                self.revert(at, thing, &targets);
                // An object that it left otherwise than it was recorded is managed nevertheless, for the steps below. Of a file that goes back line by
                // line, a step has its own lines in any state, and no others.
                if to.as_ref() != Some(&change.after)
                    && !is_by_lines(&change.object)
                    && let Some(step) = self.stacks.get_mut(thing).and_then(|stack| stack.last_mut())
                {
                    step.also.push((at, change.after.clone()));
                }
            } else if !is_by_lines(&change.object) {
                let steps = self.stacks.get_mut(thing).into_iter().flatten();
                if let Some(step) = steps.rev().find(|s| targets.contains(&s.run)) {
                    step.also.extend([(at, change.before.clone()), (at, change.after.clone())]);
                }
            }
        }
        if is_whole(run) {
            // `undo.sh` names its target there only when nothing of it was left alone.
            let named = |at: &usize| self.runs.get(*at).is_some_and(|r| run.rolls_back.contains(&r.id));
            let targets: Vec<usize> = targets.into_iter().filter(named).collect();
            let things: Vec<Thing<'a>> = self.stacks.keys().cloned().collect();
            for thing in things {
                // A hidden change goes back when the run that hides it has gone.
                if !self.is_hidden(&thing, &targets) {
                    self.revert(at, &thing, &targets);
                }
            }
        }
    }

    /// The runs that a rollback set out to revert, the last one first. None in old records of a rollback of some roles.
    fn targets(&self, at: usize, run: &RunRecord) -> Vec<usize> {
        let named = |r: &RunRecord| run.rolls_back.contains(&r.id) || run.attempts.as_ref() == Some(&r.id);
        let earlier = self.runs.iter().enumerate().take(at);
        earlier.filter(|(_, r)| named(r)).map(|(n, _)| n).rev().collect()
    }

    /// The object of a change, in its file system.
    fn thing(&self, run: usize, change: usize, saved: &'a SavedChange) -> Thing<'a> {
        (&saved.object, self.layer(run, change))
    }

    fn layer(&self, run: usize, change: usize) -> MountLayer {
        self.layers.get(run).and_then(|run| run.get(change)).cloned().unwrap_or_default()
    }

    /// The changes of a run that are not forgotten, each with its object in its file system.
    fn things(&self, run: usize) -> impl Iterator<Item = (Thing<'a>, &'a SavedChange)> + Clone {
        let changes = self.runs.get(run).map(|r| r.changes.as_slice()).unwrap_or_default();
        let remembered = move |(n, _): &(usize, &SavedChange)| !self.forgotten.contains(&(run, *n));
        changes.iter().enumerate().filter(remembered).map(move |(n, c)| (self.thing(run, n, c), c))
    }

    /// The state before the first of these runs that touched the object.
    fn before_of(&self, object: &Thing<'a>, targets: &[usize]) -> Option<State> {
        let changes = targets.iter().rev().flat_map(|at| self.things(*at));
        let mut changes = changes.filter(|(thing, c)| thing == object && c.may_have_happened());
        changes.next().map(|(_, c)| c.before.clone())
    }

    /// Takes the steps of these runs off the stack of an object; where one of them is a rollback, what it had taken off comes back.
    fn revert(&mut self, by: usize, object: &Thing<'a>, targets: &[usize]) {
        self.drop_what_came_back(by, object, targets);
        let Some(old) = self.stacks.get(object).cloned() else { return };
        let mut stack = old.clone();
        for target in targets {
            stack.retain(|s| s.run != *target);
            drop_also(&mut stack, *target);
            let Some(effect) = self.effects.get(target).and_then(|effects| effects.get(object)) else {
                continue;
            };
            stack.retain(|s| !effect.given.iter().any(|g| g.is(s)));
            stack.retain(|s| !effect.taken.iter().any(|t| t.is(s)));
            stack.extend(effect.taken.iter().cloned());
            stack.sort_by_key(|s| (s.run, s.change));
            drop_also(&mut stack, *target);
        }
        self.replace(by, object, old, stack);
    }

    /// The same where it is not recorded which runs were meant: back to the last step that began in this state.
    fn take_back_to(&mut self, by: usize, object: &Thing<'a>, state: &State) {
        let Some(old) = self.stacks.get(object).cloned() else { return };
        let began = old.iter().rposition(|s| self.change(s).is_some_and(|c| c.before == *state));
        let stack = old.iter().take(began.unwrap_or(old.len())).cloned().collect();
        self.replace(by, object, old, stack);
    }

    /// Whether a rollback has led a path back by one of several steps.
    fn is_led_back(&self, object: &Thing<'a>, change: &SavedChange) -> bool {
        let is_led = || led_elsewhere(&change.object, &change.before, &change.after, true).is_some();
        let mut steps = self.stacks.get(object).into_iter().flatten().filter_map(|step| self.change(step));
        is_done(change) && is_led() && steps.any(|step| step.before == change.after)
    }

    fn replace(&mut self, by: usize, object: &Thing<'a>, old: Vec<StepInForce>, stack: Vec<StepInForce>) {
        if old == stack {
            return;
        }
        let without = |all: &[StepInForce], others: &[StepInForce]| -> Vec<StepInForce> {
            all.iter().filter(|s| !others.iter().any(|o| o.is(s))).cloned().collect()
        };
        for step in without(&old, &stack) {
            self.taken_by.insert(step.run, by);
        }
        let given = without(&stack, &old);
        let effect = self.effects.entry(by).or_default().entry(object.clone()).or_default();
        // A step that the run has given itself was not there before it.
        let is_own = |step: &StepInForce| effect.given.iter().any(|given| given.is(step));
        let taken: Vec<StepInForce> =
            old.iter().filter(|s| !stack.contains(s) && !is_own(s)).cloned().collect();
        effect.taken.extend(taken);
        effect.given.extend(given);
        self.stacks.insert(object.clone(), stack);
    }

    fn change(&self, step: &StepInForce) -> Option<&'a SavedChange> {
        self.runs.get(step.run)?.changes.get(step.change)
    }

    /// Whether a revertible change of the run is in force.
    fn in_force(&self, at: usize, goes_back: &dyn Fn(&SavedChange) -> bool) -> bool {
        let steps = self.stacks.values().flatten().filter(|s| s.run == at);
        steps.filter_map(|s| self.change(s)).any(goes_back)
    }

    /// The run that reverted this run, if nothing of it is in force any more.
    fn reverted_by(&self, at: usize) -> Option<usize> {
        let run = self.runs.get(at)?;
        if !run.is_rollback() {
            let by = self.taken_by.get(&at).copied().or_else(|| self.whole_rollback_of(at));
            return by.filter(|_| !self.in_force(at, &|_| true));
        }
        self.whole_rollback_of(at)
    }

    /// The first rollback that names this run, did all that it set out to, and was not taken back itself. Only later runs can, so this ends.
    fn whole_rollback_of(&self, at: usize) -> Option<usize> {
        let id = &self.runs.get(at)?.id;
        let later = self.runs.iter().enumerate().skip(at + 1);
        let whole = later.filter(|(_, r)| r.rolls_back.contains(id) && is_whole(r));
        whole.map(|(n, _)| n).find(|n| self.whole_rollback_of(*n).is_none())
    }

    /// Whether a rollback that counts was to revert this run.
    fn is_tried(&self, at: usize) -> bool {
        let Some(id) = self.runs.get(at).map(|r| &r.id) else { return false };
        let mut later = self.runs.iter().enumerate().skip(at + 1);
        later.any(|(n, r)| r.rolls_back.contains(id) && self.whole_rollback_of(n).is_none())
    }

    /// For each run the ID of the rollback that reverted it, and whether it was reverted in part only.
    pub(crate) fn marks(&self) -> Vec<(Option<String>, bool)> {
        let id = |at: usize| self.runs.get(at).map(|r| r.id.clone());
        let mark = |at: usize| {
            let by = self.reverted_by(at).and_then(id);
            let in_part = by.is_none() && self.is_tried(at);
            (by, in_part)
        };
        (0..self.runs.len()).map(mark).collect()
    }

    /// Whether a run belongs to this project; a record without a project does. What `undo.sh` reverts, it reverts for that run's project.
    pub fn is_of(&self, at: usize, project: &ProjectScope) -> bool {
        let Some(run) = self.runs.get(at) else { return false };
        match run.attempts.as_ref().and_then(|id| self.place(id)) {
            Some(target) if target < at => self.is_of(target, project),
            _ => project.has(&run.scope),
        }
    }

    /// A run that a rollback of this project leaves in force, for people: which, and whose.
    pub fn run_in_force(&self, at: usize, project: &ProjectScope) -> Option<String> {
        let run = self.runs.get(at)?;
        let whose = if self.is_of(at, project) {
            "which is not reverted".to_owned()
        } else {
            format!("of another project ({})", run.named_project())
        };
        Some(format!("run {}, {whose}", run.id))
    }

    /// The index of a run.
    pub fn place(&self, id: &str) -> Option<usize> {
        self.runs.iter().position(|r| r.id == id)
    }

    /// The runs of a project that a rollback can take back, oldest first: those that converged and of which something is in force.
    pub fn candidates(&self, project: &ProjectScope, goes_back: &dyn Fn(&SavedChange) -> bool) -> Vec<usize> {
        let runs = self.runs.iter().enumerate().filter(|(_, r)| !r.is_rollback());
        runs.map(|(at, _)| at)
            .filter(|at| self.is_of(*at, project) && self.in_force(*at, goes_back))
            .collect()
    }

    /// Where a rollback of this candidate begins: an earlier rollback that set out for it and others is gone on with.
    pub fn start_of(&self, candidate: usize, project: &ProjectScope) -> usize {
        let Some(id) = self.runs.get(candidate).map(|r| &r.id) else { return candidate };
        let later = self.runs.iter().enumerate().skip(candidate + 1).rev();
        let tried = later.filter(|(n, r)| {
            let of_all = !matches!(&r.purpose, RunPurpose::Rollback(roles) if !roles.is_empty());
            of_all
                && r.rolls_back.contains(id)
                && self.is_of(*n, project)
                && self.whole_rollback_of(*n).is_none()
        });
        let candidates = self.candidates(project, &|_| true);
        let first = |r: &RunRecord| {
            let named = |at: &usize| self.runs.get(*at).is_some_and(|c| r.rolls_back.contains(&c.id));
            candidates.iter().copied().find(named)
        };
        tried.map(|(_, r)| r).find_map(first).map_or(candidate, |first| first.min(candidate))
    }

    /// The changes in force, each with the place of its run.
    pub fn changes_in_force(&self) -> impl Iterator<Item = (usize, &'a SavedChange)> {
        let steps = self.stacks.values().flatten();
        steps.filter_map(|step| Some((step.run, self.change(step)?)))
    }

    /// The reverts that take back the steps in force of this project's runs from this one on, newest first; with them the runs.
    pub fn revert_from(
        &self,
        start: usize,
        project: &ProjectScope,
        goes_back: &dyn Fn(&SavedChange) -> bool,
    ) -> (Vec<Undo>, Vec<usize>) {
        let mut steps: Vec<&StepInForce> = self.stacks.values().flatten().collect();
        steps.sort_by_key(|s| (s.run, s.change));
        steps.retain(|s| s.run >= start && self.is_of(s.run, project));
        let runs: BTreeSet<usize> = steps.iter().map(|s| s.run).collect();
        let steps = steps.into_iter().filter_map(|s| {
            let also = s.also.iter().map(|(_, state)| state.clone()).collect();
            Some((s.run, self.layer(s.run, s.change), self.change(s)?, also))
        });
        (self.compose(steps, project, goes_back), runs.into_iter().collect())
    }

    /// The reverts that lead to the state before this run: it, and all later ones of this project, rollbacks too, are undone.
    pub fn revert_to(
        &self,
        target: usize,
        project: &ProjectScope,
        goes_back: &dyn Fn(&SavedChange) -> bool,
    ) -> (Vec<Undo>, Vec<usize>) {
        let runs: Vec<usize> = (target..self.runs.len()).filter(|at| self.is_of(*at, project)).collect();
        let steps =
            runs.iter().flat_map(|at| self.things(*at).map(|((_, layer), c)| (*at, layer, c, Vec::new())));
        (self.compose(steps, project, goes_back), runs)
    }

    fn compose(
        &self,
        steps: impl Iterator<Item = (usize, MountLayer, &'a SavedChange, Vec<State>)> + Clone,
        project: &ProjectScope,
        goes_back: &dyn Fn(&SavedChange) -> bool,
    ) -> Vec<Undo> {
        let steps = narrowed::last_of(&self.roles, steps);
        let steps = steps.iter().cloned();
        let run = |at: usize| self.runs.get(at).map_or("", |r| r.id.as_str());
        let named = steps.clone().map(|(at, layer, c, also)| (run(at), layer, c, also));
        let mut undos = crate::compose::compose(named, goes_back);
        for undo in &mut undos {
            let thing = (&undo.object, &undo.layer);
            let first = steps.clone().find(|(_, l, c, _)| (&c.object, l) == thing && c.may_have_happened());
            if let Some((at, ..)) = first {
                (undo.theirs, undo.since) = self.theirs(undo, at, project);
                undo.is_heir = self.is_heir(undo, at, project);
            }
            undo.unrecorded = self.unrecorded(steps.clone().filter(|(_, l, c, _)| (&c.object, l) == thing));
            undo.lies_in = self.places.needed(&undo.object, &undo.layer);
            undo.led_in = self.places.led(&undo.object, &undo.layer);
        }
        undos
    }

    /// The runs that are missing beside these changes of one object, oldest first.
    fn unrecorded(
        &self,
        steps: impl Iterator<Item = (usize, MountLayer, &'a SavedChange, Vec<State>)>,
    ) -> UnrecordedRuns {
        let mut missing = UnrecordedRuns::default();
        let mut last: Option<(usize, &SavedChange)> = None;
        for (at, _, change, _) in steps.filter(|(_, _, c, _)| c.may_have_happened()) {
            let is_other =
                |left: &SavedChange| left.outcome != SavedOutcome::Unknown && left.after != change.before;
            missing.between |= last.is_some_and(|(from, left)| is_other(left) && self.is_gap(from, at));
            last = Some((at, change));
        }
        missing.since = last.is_some_and(|(from, _)| self.is_gap(from, self.runs.len().saturating_sub(1)));
        missing
    }

    /// Whether runs between these two are not recorded any more, of whatever project: the numbers are given without gaps.
    fn is_gap(&self, from: usize, to: usize) -> bool {
        let seq = |at: usize| self.runs.get(at).and_then(|r| r.seq);
        let (Some(first), Some(last)) = (seq(from), seq(to)) else { return false };
        let recorded = u64::try_from(to.saturating_sub(from)).unwrap_or(u64::MAX);
        last.saturating_sub(first) > recorded
    }

    /// The reason why an object is left: a later run of another project changed it. With it, what such runs changed.
    fn theirs(
        &self,
        undo: &Undo,
        after: usize,
        project: &ProjectScope,
    ) -> (Option<String>, Vec<(State, State)>) {
        let thing = (&undo.object, undo.layer.clone());
        let Some((thing, _)) = self.stacks.get_key_value(&thing) else { return (None, Vec::new()) };
        let theirs = self.others(thing, after, &|run| self.is_of(run, project)).standing;
        let last = theirs.last().and_then(|step| self.runs.get(step.run));
        let why = last.map(|run| {
            format!(
                "the later run {} of another project changed it too ({}): it is left as it is",
                run.id,
                run.named_project()
            )
        });
        let changes = theirs.into_iter().filter_map(|step| self.change(step));
        (why, changes.map(|c| (c.before.clone(), c.after.clone())).collect())
    }
}
