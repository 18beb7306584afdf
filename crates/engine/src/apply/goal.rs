//! The goal of an apply: the declarations of the project, or a saved state. It decides how the remaining items are planned again.

use crate::apply::brought::{brought_by, is_brought};
use crate::apply::lane::{Lane, element_of};
use crate::apply::routes::routes;
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::event::InProgress;
use crate::plan::managed::{carry_over, lead_releases, pruned_fields};
use crate::revert::AccountChanges;
use crate::revert::flags::is_of_begun;
use crate::revert::undo::same;
use crate::verify::{SettlingItem, folded, settling};
use crate::{Activity, Event, ItemResult, Purpose, StopSwitch, TargetError};
use converge_ledger::turns_link;
use converge_planner::{HostPlan, Item, ItemOrigin, Knowledge, OtherTargetsByRole, Outcome};
use converge_resource::{Change, Content, Digest, ObjectId, Past, Place, Probe, State};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The time between two looks at what was set going.
const LOOK: Duration = Duration::from_secs(1);

/// The goal of one host.
pub(crate) enum Goal {
    /// The declarations of roles.
    Declared,
    /// These states.
    Saved(Vec<Change>),
}

impl Goal {
    pub fn new(purpose: &Purpose, plan: &HostPlan) -> Self {
        match purpose {
            Purpose::Converge => Self::Declared,
            Purpose::Rollback(_) | Purpose::RollbackOf { .. } => {
                Self::Saved(plan.items.iter().flat_map(|i| i.changes()).map(|c| c.change.clone()).collect())
            }
        }
    }

    /// Plans what is left on a fresh look.
    pub async fn replan(
        &self,
        context: &RunContext,
        target: &Target,
        lane: &Lane,
        other_targets: OtherTargetsByRole,
    ) -> Result<HostPlan, TargetError> {
        match self {
            Self::Declared => {
                let history = lane.history();
                let pruned = pruned_fields(lane.remaining(), lane.contents());
                let mut fresh =
                    crate::plan::look::plan_again(context, target, &history, other_targets, pruned)
                        .await?
                        .plan;
                let back: Vec<Item> =
                    lane.remaining().iter().filter(|i| i.origin == ItemOrigin::Prune).cloned().collect();
                if !back.is_empty() {
                    let (items, contents) =
                        observed_again(target, AccountChanges::of(&fresh.items), back, lane.contents())
                            .await?;
                    carry_over(&mut fresh, items, lane.addresses());
                    fresh.contents.extend(contents);
                    lead_releases(&mut fresh);
                }
                Ok(fresh)
            }
            Self::Saved(_) => {
                let (items, contents) = observed_again(
                    target,
                    AccountChanges::default(),
                    lane.remaining().to_vec(),
                    lane.contents(),
                )
                .await?;
                Ok(HostPlan { host: lane.host.clone(), items, contents, ..HostPlan::default() })
            }
        }
    }

    /// Looks again after the apply: what is not as planned, leaving out what is known to have failed.
    pub async fn differences(
        &self,
        context: &RunContext,
        target: &Target,
        lane: &Lane,
        stop: &StopSwitch,
    ) -> Result<Vec<String>, TargetError> {
        let mut bad = BTreeSet::new();
        let mut rolled_back = BTreeSet::new();
        for (item, result) in lane.finished() {
            if result.is_bad() {
                bad.insert(item.address.clone());
            }
            if *result == ItemResult::Changed {
                rolled_back.extend(item.changes().iter().map(|c| c.change.object.clone()));
            }
        }
        match self {
            Self::Declared => {
                // The plan has already reported these: the next run reads another value.
                let expected =
                    &bad | &read_before(lane.finished().iter().map(|(item, result)| (item, result)));
                let known =
                    |address: &str| expected.contains(address) || expected.contains(element_of(address));
                let over = &bad | &lane.passed();
                let fresh = settled(context, target, &lane.host, &over, stop).await?;
                let done = lane.finished().iter().filter(|(_, result)| *result == ItemResult::Changed);
                let given_back: BTreeSet<ObjectId> = done
                    .clone()
                    .filter(|(item, _)| item.origin == ItemOrigin::Prune)
                    .flat_map(|(item, _)| item.changes())
                    .map(|c| c.change.object.clone())
                    .collect();
                let mut found = folded(&fresh, known);
                if !given_back.is_empty() {
                    let done: Vec<&Change> = done
                        .flat_map(|(item, _)| item.changes())
                        .map(|c| &c.change)
                        .chain(lane.moved_last())
                        .collect();
                    let now = look(target, given_back.into_iter().collect()).await?;
                    let routes = routes_past(target, &now, &done).await?;
                    found.extend(elsewhere(&now, &done, &routes, lane.contents()));
                }
                Ok(found)
            }
            Self::Saved(changes) => {
                let now = look(target, rolled_back.iter().cloned().collect()).await?;
                let done = changes.iter().filter(|change| rolled_back.contains(&change.object));
                let done: Vec<&Change> = done.chain(lane.moved_last()).collect();
                let routes = routes_past(target, &now, &done).await?;
                Ok(elsewhere(&now, &done, &routes, lane.contents()))
            }
        }
    }
}

/// A look that is taken when what the run has set going has come to its end: a wait of the plan that is open yet is no difference before its own
/// deadline. Where something else differs, no wait helps.
async fn settled(
    context: &RunContext,
    target: &Target,
    host: &str,
    bad: &BTreeSet<String>,
    stop: &StopSwitch,
) -> Result<HostPlan, TargetError> {
    let begun = Instant::now();
    let known = |address: &str| bad.contains(address) || bad.contains(element_of(address));
    let mut reported = Vec::new();
    let mut waiting: Option<InProgress> = None;
    loop {
        let plan = crate::plan::look::plan_after(context, target, bad).await?;
        let mut open = settling(&plan, known);
        open.retain(|wait| begun.elapsed() < wait.limit);
        let Some(longest) = open.iter().map(|wait| wait.limit).max().filter(|_| !stop.is_stopped()) else {
            return Ok(plan);
        };
        let on: Vec<String> = open.iter().map(|wait| wait.shown.clone()).collect();
        if on != reported {
            let seconds = longest.saturating_sub(begun.elapsed()).as_secs();
            context.events.send(Event::Settling { host: host.to_owned(), on: on.clone(), seconds });
            drop(waiting.take());
            waiting = Some(context.begin(host, Activity::Settle { on: on.clone() }));
            reported = on;
        }
        // All of it is looked at anew when one of these holds, or has had its time.
        let mut ended = false;
        while !ended && !stop.is_stopped() {
            tokio::select! {
                () = sleep(LOOK) => {}
                () = stop.stopped() => {}
            }
            let now = look(target, open.iter().map(|wait| wait.object.clone()).collect()).await?;
            let is_over = |wait: &SettlingItem| {
                begun.elapsed() >= wait.limit
                    || now.states.get(&wait.object).is_some_and(|s| *s != wait.state)
            };
            ended = open.iter().any(is_over);
        }
    }
}

/// The paths over which the host comes to each object, where the run may have led some of them elsewhere.
type Routes = BTreeMap<ObjectId, BTreeSet<String>>;

/// The routes to the objects that were looked at, if these changes turn any links.
async fn routes_past(
    target: &Target,
    now: &PresentStates,
    changes: &[&Change],
) -> Result<Routes, TargetError> {
    let is_turned = |c: &&Change| turns_link(&c.object, &c.from, &c.to);
    if !changes.iter().any(is_turned) {
        return Ok(Routes::new());
    }
    let at_path = now.states.keys().filter(|id| converge_objects::traits_of(id).at_path);
    routes(target, &at_path.cloned().collect::<Vec<_>>()).await
}

/// From where to where these changes, in their order, bring each object. A file shows the name of an account that comes after it.
fn ends<'a>(changes: &[&'a Change], routes: &Routes) -> BTreeMap<&'a ObjectId, (&'a State, State)> {
    let is_on_way = |id: &ObjectId, place: &ObjectId| {
        let mut route = routes.get(id).into_iter().flatten();
        route.any(|at| place.covers(&ObjectId::new("path", format!("{at}/-"))))
    };
    let mut ends: BTreeMap<&ObjectId, (&State, State)> = BTreeMap::new();
    for change in changes {
        // These are out of sight now.
        if let Some(place) = hidden_by(change) {
            let is_mounted_on = |id: &ObjectId| {
                converge_objects::covered(change).is_some_and(|at| at == converge_objects::below(&id.key))
            };
            ends.retain(|id, _| !place.covers(id) && !is_on_way(id, &place) && !is_mounted_on(id));
        }
        if converge_objects::is_followed(change) {
            for (id, (_, to)) in ends.iter_mut().filter(|(id, _)| **id != &change.object) {
                if let Some(after) = converge_objects::follows(id, to, change) {
                    *to = after;
                }
            }
        }
        let end = || (&change.from, change.to.clone());
        ends.entry(&change.object).and_modify(|(_, to)| to.clone_from(&change.to)).or_insert_with(end);
    }
    ends
}

/// The addresses of items that read a fact which an item after them has given another value.
fn read_before<'a>(
    finished: impl DoubleEndedIterator<Item = (&'a Item, &'a ItemResult)>,
) -> BTreeSet<String> {
    let (mut altered, mut read) = (BTreeSet::new(), BTreeSet::new());
    for (item, result) in finished.rev() {
        if item.facts.iter().any(|fact| altered.contains(fact.as_str())) {
            read.insert(item.address.clone());
        }
        let made = item.changes().iter().map(|planned| &planned.change).filter(|c| c.from != c.to);
        for change in made.filter(|_| *result == ItemResult::Changed) {
            let Some(object) = converge_objects::object(&change.object.kind) else { continue };
            let alters = object.effects().alters(change);
            altered.extend(alters.into_iter().filter(|(_, value)| value.is_some()).map(|(fact, _)| fact));
        }
    }
    read
}

/// The paths, as one object that covers them, at which another object is visible after this change: it mounts or unmounts something above them, makes,
/// removes or turns a link above them, or runs what makes or removes the path above them.
fn hidden_by(change: &Change) -> Option<ObjectId> {
    let is_turned = turns_link(&change.object, &change.from, &change.to);
    let turned = is_turned.then(|| change.object.key.clone());
    let made = || converge_objects::action_of(&change.object).creates(&change.object.key);
    converge_objects::covered(change)
        .or_else(|| turned.or_else(made).map(|path| converge_objects::below(&path)))
}

/// The objects that are not in the state that the last of these changes should have left. Of an object that others change too, their fields do not count.
fn elsewhere(
    now: &PresentStates,
    changes: &[&Change],
    routes: &Routes,
    held: &BTreeMap<Digest, Content>,
) -> Vec<String> {
    let wanted = ends(changes, routes);
    // An object that went with the release that brought it is where it should be.
    let object = |id: &ObjectId| converge_objects::object(&id.kind).filter(|o| o.place() == Place::Cluster);
    let gone = changes.iter().filter(|c| c.to.is_absent());
    let with: BTreeSet<&str> =
        gone.filter_map(|c| object(&c.object)).flat_map(|o| o.traits().offers).copied().collect();
    let content = |digest: &Digest| now.known.content(digest).or_else(|| held.get(digest)).cloned();
    now.states
        .iter()
        .filter_map(|(id, state)| {
            let (from, to) = wanted.get(id)?;
            if state.is_absent() && with.contains(id.kind.as_str()) {
                return None;
            }
            let there = match object(id) {
                Some(object) if !from.is_absent() => {
                    object.shared().shows(state, &Past { before: from, left: to, between: &[] }, &content)
                }
                _ => same(id, to, state),
            };
            (!there).then(|| format!("{id} is `{state}`, not `{to}`"))
        })
        .collect()
}

/// Items that revert changes, planned on what the host shows now, with the contents that they name since.
async fn observed_again(
    target: &Target,
    accounts: AccountChanges,
    items: Vec<Item>,
    held: &BTreeMap<Digest, Content>,
) -> Result<(Vec<Item>, BTreeMap<Digest, Content>), TargetError> {
    let objects = items.iter().flat_map(Item::changes).map(|c| c.change.object.clone());
    Ok(planned_on(&look(target, objects.collect()).await?, accounts, items, held))
}

/// These items on the present states, behind changes of accounts that are still to be made.
fn planned_on(
    now: &PresentStates,
    mut accounts: AccountChanges,
    items: Vec<Item>,
    held: &BTreeMap<Digest, Content>,
) -> (Vec<Item>, BTreeMap<Digest, Content>) {
    let (mut fresh, mut contents) = (Vec::new(), BTreeMap::new());
    // Of these another state, and below these another object, is visible once the changes before have been made.
    let (mut changed, mut hidden): (BTreeSet<ObjectId>, Vec<ObjectId>) = Default::default();
    // These will be there once the changes before have been made.
    let mut brought = BTreeSet::new();
    for mut item in items {
        let is_of_begun = is_of_begun(&item);
        if let Outcome::Changed(changes) = &mut item.outcome {
            for change in changes.iter_mut().map(|planned| &mut planned.change) {
                let is_observed = !changed.contains(&change.object)
                    && !hidden.iter().any(|at| at.covers(&change.object))
                    && !is_brought(change, &brought);
                // A command that was begun does not show what it has done.
                let shows = |state: &&State| is_observed && (!is_of_begun || **state != change.to);
                if let Some(state) = now.states.get(&change.object).filter(shows) {
                    let mut state = state.clone();
                    accounts.follow(&change.object, &mut state);
                    let named = start_from(change, &state, now, held);
                    contents.extend(named.into_iter().map(|c| (c.digest().clone(), c)));
                }
                accounts.take(change);
                brought.extend(brought_by(change));
                hidden.extend(hidden_by(change));
                changed.insert(change.object.clone());
            }
            changes.retain(|c| c.change.from != c.change.to);
            if changes.is_empty() {
                item.outcome = Outcome::Unchanged;
            }
        }
        fresh.push(item);
    }
    (fresh, contents)
}

/// Lets a change begin with the present state. Of an object of a cluster only the planned fields go back: what others have set or taken away since, as a
/// release that went did, stays so.
fn start_from(
    change: &mut Change,
    state: &State,
    now: &PresentStates,
    held: &BTreeMap<Digest, Content>,
) -> Vec<Content> {
    let mut named = Vec::new();
    if change.from == *state {
        return named;
    }
    if let Some(object) = converge_objects::object(&change.object.kind) {
        let content = |digest: &Digest| now.known.content(digest).or_else(|| held.get(digest)).cloned();
        let past = Past { before: &change.to, left: &change.from, between: &[] };
        let (to, new) = object.shared().back(state, &past, &content);
        named.extend(object.content(state).and_then(|digest| content(&digest)));
        named.extend(new);
        change.to = to;
    }
    change.from.clone_from(state);
    named
}

/// The present states of some objects, and the contents that they name.
struct PresentStates {
    states: BTreeMap<ObjectId, State>,
    known: Knowledge,
}

async fn look(target: &Target, objects: Vec<ObjectId>) -> Result<PresentStates, TargetError> {
    let probes: BTreeSet<Probe> = objects.iter().cloned().map(Probe::Object).collect();
    let mut known = Knowledge::default();
    target.look(&probes, &mut known).await?;
    let states = objects
        .into_iter()
        .filter_map(|o| known.observed(&o).ok().map(|present| (o, present.state)))
        .collect();
    Ok(PresentStates { states, known })
}

#[cfg(test)]
#[path = "goal_tests.rs"]
mod tests;
