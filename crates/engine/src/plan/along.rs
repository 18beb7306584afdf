//! Objects of a cluster that would go along with what an apply takes away or leads to another revision of a chart, and that others have changed: the item is
//! refused.

use crate::TargetError;
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::plan::managed::Declares;
use crate::revert::releases::{RetainedChanges, dropped_with, goes_by, held_by, takes_others};
use converge_executor::Questions;
use converge_ledger::{OwnedObject, ProjectScope};
use converge_objects::{is_of_api, release_of, title_of};
use converge_planner::{HostPlan, Item, Knowledge, Outcome};
use converge_resource::{Change, ObjectId, Probe, Reversibility, State};
use std::collections::BTreeSet;

/// Kinds of resources that change an object which something else brings.
const PATCHES: [&str; 2] = ["k8s_patch", "k8s_transform"];

/// The changes of an item with which other objects may go; of one that is refused already what it would take away.
fn outer_changes(item: &Item, known: &Knowledge) -> Vec<Change> {
    if let Outcome::Refused(_) = item.outcome {
        let claims = item.claims.iter().filter(|object| takes_others(object) && is_of_api(object));
        let goes = claims.filter_map(|object| {
            let from = known.observed(object).ok()?.state;
            Some(Change { object: object.clone(), from, to: State::absent() })
        });
        return goes.collect();
    }
    let changes = item.changes().iter().map(|planned| &planned.change);
    changes.filter(|change| takes_others(&change.object)).cloned().collect()
}

/// Refuses what would take along an object that a run in force of another project has changed, or that a resource of this one still changes, and an upgrade
/// of a release that would take for good what its chart has no more. A release may go with it when the user allows that by its ID.
pub(crate) async fn refuse_what_takes_others_along(
    context: &RunContext,
    target: &Target,
    plan: &mut HostPlan,
    things: &[OwnedObject],
    declares: &Declares,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let scope = context.project_of(target.name());
    let of_others = RetainedChanges::of_others(things, &scope);
    for at in 0..plan.items.len() {
        let Some(item) = plan.items.get(at) else { continue };
        for change in outer_changes(item, known) {
            if let Some(content) = content_after(&change, plan) {
                known.learn_content(content);
            }
            let held = held_by(target, &change, &of_others, known).await?;
            let is_release = release_of(&change.object).is_some();
            let allowed = context.options.allow_destroy.contains(&change.object.to_string());
            let patched = match is_release && held.is_none() {
                true => still_patched(&change, plan, things, (&scope, declares), known),
                false => None,
            };
            let lost = LostObjects::with(context, target, &change, known).await?;
            let Some(item) = plan.items.get_mut(at) else { continue };
            match (held, patched, &mut item.outcome) {
                (Some(held), _, Outcome::Refused(why)) => *why = format!("{why}; {}", held.note()),
                (Some(held), ..) if is_release && !allowed => {
                    item.outcome = Outcome::Refused(held.refusal(&change.object));
                }
                (Some(held), ..) => item.notes.push(held.note()),
                (None, Some(why), _) => item.outcome = Outcome::Refused(why),
                (None, None, _) => {}
            }
            lost.report(item);
        }
    }
    Ok(())
}

/// The objects that an upgrade of a release takes for good, since its chart has them no more.
#[derive(Default)]
struct LostObjects {
    /// The reason why it is refused.
    refusal: Option<String>,
    /// The objects that the user lets go.
    notes: Vec<String>,
}

impl LostObjects {
    async fn with(
        context: &RunContext,
        target: &Target,
        change: &Change,
        known: &mut Knowledge,
    ) -> Result<Self, TargetError> {
        let mut lost = Self::default();
        let allows = |object: &ObjectId| context.options.allow_destroy.contains(&object.to_string());
        for id in dropped_with(change, known).into_iter().flatten() {
            let Some(object) = converge_objects::object(&id.kind) else { continue };
            let removal = Change { object: id.clone(), from: State::absent(), to: State::absent() };
            let Reversibility::Irreversible(why) = object.reversibility(&removal) else { continue };
            target.look(&BTreeSet::from([Probe::Object(id.clone())]), known).await?;
            if known.observed(&id).map_or(true, |now| now.state.is_absent()) {
                continue;
            }
            let (shown, release) = (title_of(&id), &change.object);
            let goes =
                format!("{shown} goes, since the chart has it no more ({why}): `--allow-destroy {id}`");
            if allows(&id) || allows(release) {
                lost.notes.push(format!("{goes} allows it"));
            } else if lost.refusal.is_none() {
                lost.refusal = Some(format!(
                    "{goes} or `--allow-destroy {release}` allows it, and the annotation `helm.sh/resource-policy: keep` in the chart keeps it"
                ));
            }
        }
        Ok(lost)
    }

    fn report(self, item: &mut Item) {
        item.notes.extend(self.notes);
        match (self.refusal, &mut item.outcome) {
            (Some(lost), Outcome::Refused(why)) => *why = format!("{why}; {lost}"),
            (Some(lost), outcome) => *outcome = Outcome::Refused(lost),
            (None, _) => {}
        }
    }
}

/// The same of a plan that was made in the middle of an apply, for which the records are read if something may go.
pub(crate) async fn refuse_again(
    context: &RunContext,
    target: &Target,
    plan: &mut HostPlan,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    if plan.items.iter().all(|item| outer_changes(item, known).iter().all(|change| change.from.is_absent())) {
        return Ok(());
    }
    let questions = Questions { probes: &BTreeSet::new(), facts: None, managed: true };
    let Some(Ok(records)) = target.observe(questions, known).await?.managed else { return Ok(()) };
    let declares = Declares::default();
    refuse_what_takes_others_along(context, target, plan, &records.things, &declares, known).await
}

/// The text of a release after a change.
fn content_after(change: &Change, plan: &HostPlan) -> Option<converge_resource::Content> {
    let digest = converge_objects::object(&change.object.kind)?.content(&change.to)?;
    plan.contents.get(&digest).cloned()
}

/// The reason why a release does not lose an object that a resource of the project changes and does not bring: one of the plan, or one of a role to which
/// the run is not narrowed.
fn still_patched(
    change: &Change,
    plan: &HostPlan,
    things: &[OwnedObject],
    (scope, declares): (&ProjectScope, &Declares),
    known: &Knowledge,
) -> Option<String> {
    let claims = |item: &Item, object: &ObjectId| {
        let counts = matches!(
            item.outcome,
            Outcome::Unchanged | Outcome::Changed(_) | Outcome::Deferred { .. } | Outcome::Adopt(_)
        );
        counts && item.claims.contains(object)
    };
    let is_brought = |object: &ObjectId| {
        let mut items = plan.items.iter().filter(|item| !PATCHES.contains(&item.kind.as_str()));
        items.any(|item| claims(item, object))
    };
    let is_there = |object: &ObjectId| known.observed(object).is_ok_and(|now| !now.state.is_absent());
    let goes = |object: &ObjectId| goes_by(change, object, known) && is_there(object) && !is_brought(object);
    let patches = plan.items.iter().filter(|item| PATCHES.contains(&item.kind.as_str()));
    let of_plan = patches.flat_map(|item| {
        let claimed = item.claims.iter().filter(|object| claims(item, object));
        claimed.map(|object| (object, item.address.as_str()))
    });
    let is_planned = |object: &ObjectId| plan.items.iter().any(|item| item.claims.contains(object));
    let of_other_roles = things.iter().filter(|thing| {
        let stands = scope.is(&thing.scope) && !thing.by_product && is_of_api(&thing.object);
        stands && declares.objects.contains(&thing.object) && !is_planned(&thing.object)
    });
    let mut all = of_plan.chain(of_other_roles.map(|thing| (&thing.object, thing.item.as_str())));
    let (object, item) = all.find(|(object, _)| goes(object))?;
    let shown = title_of(object);
    Some(format!(
        "{shown} would be removed with it, and {item}, which is declared, changes it: take that out of its role too"
    ))
}
