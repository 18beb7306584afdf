//! Steps of others above those that a rollback takes off.

use super::{Effect, Ledger, StepInForce, Thing};
use crate::lines::{is_by_fields, is_by_lines};
use crate::{ProjectName, ProjectScope, RunRecord, SavedOutcome, Undo};

/// The steps of an object that others made after some run.
#[derive(Default)]
pub(super) struct Others<'s> {
    /// Those that hide what was there before them.
    pub(super) standing: Vec<&'s StepInForce>,
    /// Those of projects that have brought the object back to where their first one found it.
    pub(super) came_back: Vec<&'s StepInForce>,
}

impl<'a> Ledger<'a> {
    /// The steps of an object that came after this run, and that are not `own`.
    pub(super) fn others(&self, thing: &Thing<'a>, after: usize, own: &dyn Fn(usize) -> bool) -> Others<'_> {
        let stack = self.stacks.get(thing).map(Vec::as_slice).unwrap_or_default();
        let mut projects: Vec<(&ProjectName, Vec<&StepInForce>)> = Vec::new();
        for step in stack.iter().filter(|s| s.run > after && !own(s.run) && self.writes(s)) {
            let Some(scope) = self.runs.get(step.run).map(|run| &run.scope) else { continue };
            match projects.iter_mut().find(|(of, _)| scope.is_same_project(of)) {
                Some((_, steps)) => steps.push(step),
                None => projects.push((scope, vec![step])),
            }
        }
        // A project owns lines or fields of these whatever else changes in them.
        let is_shared = is_by_lines(thing.0) || is_by_fields(thing.0);
        let mut others = Others::default();
        for (_, steps) in projects {
            let is_back = !is_shared && self.comes_back(&steps);
            if is_back { &mut others.came_back } else { &mut others.standing }.extend(steps);
        }
        others.standing.sort_by_key(|s| (s.run, s.change));
        others
    }

    /// Whether another project made the object and has pruned its part of it after this run, the first of the project's, and no further one has any.
    pub(super) fn is_heir(&self, undo: &Undo, first: usize, project: &ProjectScope) -> bool {
        let thing = (&undo.object, undo.layer.clone());
        let stack = self.stacks.get(&thing).map(Vec::as_slice).unwrap_or_default();
        let (own, others): (Vec<&StepInForce>, Vec<&StepInForce>) =
            stack.iter().partition(|s| self.is_of(s.run, project));
        let made = others.first().and_then(|step| self.change(step)).is_some_and(|c| c.before.is_absent());
        let has_pruned = |step: &&&StepInForce| {
            let scope = |step: &StepInForce| self.runs.get(step.run).map(|run| &run.scope);
            let is_same =
                |s: &&&StepInForce| scope(s).zip(scope(step)).is_some_and(|(a, b)| a.is_same_project(b));
            let last = others.iter().rev().find(is_same).filter(|last| last.run > first);
            // One that was cut off may have happened: whether the project has fields in it now, the server tells.
            let ended = |outcome| matches!(outcome, SavedOutcome::Done | SavedOutcome::Unknown);
            let change = last.and_then(|last| self.change(last));
            change.is_some_and(|c| c.owner.is_none() && ended(c.outcome) && !c.after.is_absent())
        };
        is_by_fields(&undo.object)
            && !undo.before.is_absent()
            && made
            && own.iter().all(|step| step.run >= first)
            && others.iter().filter(has_pruned).count() == others.len()
    }

    /// Whether a step changed the object: one that only gives fields up has not.
    fn writes(&self, step: &StepInForce) -> bool {
        self.change(step).is_some_and(|c| c.before != c.after || c.outcome == SavedOutcome::Unknown)
    }

    /// Whether these steps are known to have led back to where the first one began.
    fn comes_back(&self, steps: &[&StepInForce]) -> bool {
        let first = steps.first().and_then(|step| self.change(step));
        let last = steps.last().and_then(|step| self.change(step));
        let ends = first.zip(last).filter(|(_, last)| last.outcome != SavedOutcome::Unknown);
        ends.is_some_and(|(first, last)| first.before == last.after)
            && steps.iter().all(|s| s.also.is_empty())
    }

    /// Takes the steps of others above these runs that have come back to where they began off the stack: they lose what they stand on. No rollback puts
    /// them on again.
    pub(super) fn drop_what_came_back(&mut self, by: usize, thing: &Thing<'a>, targets: &[usize]) {
        let Some(first) = self.first_on(thing, targets) else { return };
        let gone = self.others(thing, first, &|run| targets.contains(&run)).came_back;
        let gone: Vec<StepInForce> = gone.into_iter().cloned().collect();
        let stays = |step: &StepInForce| !gone.iter().any(|g| g.is(step));
        self.taken_by.extend(gone.iter().map(|step| (step.run, by)));
        self.stacks.entry(thing.clone()).or_default().retain(stays);
        let effects = self.effects.values_mut().filter_map(|of| of.get_mut(thing));
        effects.for_each(|effect| effect.retain(&stays));
    }

    /// The first of these runs of which something counts on an object: a step in force, or what it did, took off or put on as a rollback.
    pub(super) fn first_on(&self, thing: &Thing<'a>, targets: &[usize]) -> Option<usize> {
        let steps = self.stacks.get(thing).into_iter().flatten().map(|step| step.run);
        let moves = |e: &Effect| !e.taken.is_empty() || !e.given.is_empty();
        let moved =
            self.effects.iter().filter(|(_, of)| of.get(thing).is_some_and(moves)).map(|(run, _)| *run);
        let rollbacks =
            targets.iter().copied().filter(|at| self.runs.get(*at).is_some_and(RunRecord::is_rollback));
        let changed = |at: &usize| {
            // The layer is looked up of the object alone: a rollback may have changed thousands.
            let changes = self.runs.get(*at).map(|run| run.changes.iter().enumerate());
            let mut own =
                changes.into_iter().flatten().filter(|(_, c)| c.object == *thing.0 && c.may_have_happened());
            own.any(|(n, _)| !self.forgotten.contains(&(*at, n)) && self.layer(*at, n) == thing.1)
        };
        steps.chain(moved).filter(|run| targets.contains(run)).chain(rollbacks.filter(changed)).min()
    }

    /// Whether a step that stays stands on those of these runs: they are out of sight, and nobody has undone them.
    pub(super) fn is_hidden(&self, thing: &Thing<'a>, targets: &[usize]) -> bool {
        let first = self.first_on(thing, targets).filter(|_| !is_by_lines(thing.0) && !is_by_fields(thing.0));
        first.is_some_and(|first| {
            !self.others(thing, first, &|run| targets.contains(&run)).standing.is_empty()
        })
    }
}
