//! Looks at a target and plans it, asking as often as it takes.

use crate::connect::target::Target;
use crate::context::RunContext;
use crate::plan::managed::Declares;
use crate::plan::source::{HostSource, Part, shown};
use crate::{Event, HostEntry, HostResult, TargetError};
use converge_executor::Questions;
use converge_ledger::OwnedRecords;
use converge_planner::{Folded, History, HostPlan, Knowledge, Outcome, Outputs, fold};
use std::collections::BTreeSet;
use std::time::Instant;

/// Rounds of questions to one host for one plan. Each answers what was not known before, and what an item asks for follows from
/// what it was told, so they end by themselves, after three as a rule; this many are a fault of the program.
const ROUNDS: usize = 100;

/// The result of a look at a host.
pub(crate) struct Looked {
    pub folded: Folded,
    pub known: Knowledge,
    /// The host's records of earlier runs, or the reason why they cannot be read.
    pub records: Option<Result<OwnedRecords, String>>,
    declares: Declares,
}

/// Plans one target.
pub(crate) async fn plan_one(context: &RunContext, host: &str) -> HostEntry {
    let _permit = context.permit().await;
    let begun = Instant::now();
    let result = match crate::connect::target::connect(context, host).await {
        Err(lost) => Err(lost),
        Ok(target) => {
            target.begin();
            plan_with_records(context, &target).await
        }
    };
    let result = match result {
        Ok(plan) => {
            context.events.send(Event::Planned { host: host.to_owned(), summary: plan.summary() });
            HostResult::Planned(plan)
        }
        Err(lost) => {
            context.events.send(Event::Lost { host: host.to_owned(), message: lost.to_string() });
            HostResult::Lost(lost)
        }
    };
    HostEntry { host: host.to_owned(), result, took: begun.elapsed() }
}

/// Plans what is declared, and what is to become of what no longer is.
pub(crate) async fn plan_with_records(
    context: &RunContext,
    target: &Target,
) -> Result<HostPlan, TargetError> {
    let looked =
        look_and_plan(context, target, Part::Converge, &History::default(), context.options.diffs, true)
            .await?;
    let (mut plan, mut known) = (looked.folded.plan, looked.known);
    match looked.records {
        Some(Ok(records)) => {
            crate::plan::managed::own(context, target, &mut plan, records, &looked.declares, &mut known)
                .await?
        }
        Some(Err(message)) => {
            let message = format!("{}: {message}", target.name());
            return Err(TargetError::Refused(message));
        }
        None => {}
    }
    crate::plan::irreversible::mark(target, &mut plan, &known).await;
    Ok(plan)
}

/// Plans a part of the project on one host, asking it as often as it takes.
pub(crate) async fn plan_part(
    context: &RunContext,
    target: &Target,
    part: Part,
    history: &History,
    diffs: bool,
) -> Result<Folded, TargetError> {
    Ok(look_and_plan(context, target, part, history, diffs, false).await?.folded)
}

/// The same; with `want_records`, what the host says of former runs travels in the first batch.
pub(crate) async fn look_and_plan(
    context: &RunContext,
    target: &Target,
    part: Part,
    history: &History,
    diffs: bool,
    want_records: bool,
) -> Result<Looked, TargetError> {
    let mut records = None;
    let mut known = crate::connect::target::first_knowledge(context, target).await?;
    let not_there = known.absent().is_some();
    let mut asked_for_diffs = !diffs;
    let host = target.name();
    let needs = context.project.needs(host);
    let groups = crate::plan::facts::groups_of(context, host, &needs);
    for other in &needs.facts_of {
        crate::plan::facts::facts_of(context, other, &crate::plan::facts::groups_of(context, other, &needs))
            .await?;
    }
    for round in 1..=ROUNDS {
        let facts = crate::plan::facts::facts(context).await;
        let mut source =
            HostSource::new(&context.project, &context.graph, host, &facts, part, &Outputs::new());
        let mut folded = fold(host, &source, &known, history);
        // A list may be made of what a query has answered. Each pass answers one more, so this ends.
        let mut outputs = Outputs::new();
        while source.has_open_lists() && folded.outputs.len() > outputs.len() {
            outputs.clone_from(&folded.outputs);
            source = HostSource::new(&context.project, &context.graph, host, &facts, part, &outputs);
            folded = fold(host, &source, &known, history);
        }
        let want_facts = if needs.facts { target.unknown_facts(&groups) } else { None };
        let mut asks = std::mem::take(&mut folded.asks);
        let owned = want_records && records.is_none() && !not_there;
        if asks.is_empty() && want_facts.is_none() && !owned {
            if asked_for_diffs || folded.diff_asks.is_empty() {
                source.refuse_open_lists(&mut folded.plan);
                refuse_what_is_lost(&mut folded.plan, &context.options.allow_destroy);
                crate::plan::backup_notes::note_backups(&mut folded.plan);
                source.locate(&mut folded.plan, &folded.outputs);
                source.bind(&mut folded.plan, &folded.outputs);
                let narrowed = context.project.is_narrowed();
                let declares = match records {
                    Some(_) => Declares::of(&source, &folded.outputs, narrowed),
                    None => Declares::default(),
                };
                return Ok(Looked { folded, known, records, declares });
            }
            asked_for_diffs = true;
            asks = std::mem::take(&mut folded.diff_asks);
        }
        // A question that all items share is asked once it is known which items there are.
        if want_facts.is_some() {
            asks.retain(|probe| !converge_resources::asked_together(probe));
        }
        let questions = Questions { probes: &asks, facts: want_facts.as_ref(), managed: owned };
        let answered = match target.observe(questions, &mut known).await {
            Ok(answered) => answered,
            Err(lost) => {
                // Its further output is not read.
                crate::connect::target::leave(context, target).await;
                return Err(lost);
            }
        };
        // Each round brings something: an answer, facts, or the records.
        let stuck = asks.iter().find(|_| round == ROUNDS).or_else(|| {
            let new = want_facts.is_some() || owned || asks.iter().any(|probe| known.knows(probe));
            asks.iter().next().filter(|_| !new)
        });
        if let Some(stuck) = stuck {
            let message = format!(
                "internal error: after {round} rounds of questions this is still open: {}. Please report it",
                shown(stuck)
            );
            return Err(TargetError::Refused(message));
        }
        records = answered.managed.or(records);
        if let (Some(facts), Some(groups)) = (answered.facts, &want_facts) {
            target.learn_facts(facts, groups);
        }
        let host = host.to_owned();
        context.events.send(Event::Observed { host, round, probes: asks.len() });
    }
    Err(TargetError::Refused("no plan".to_owned()))
}

/// Plans anew in the middle of an apply.
pub(crate) async fn plan_again(
    context: &RunContext,
    target: &Target,
    history: &History,
) -> Result<Folded, TargetError> {
    target.facts_are_stale();
    plan_part(context, target, Part::Converge, history, context.options.diffs).await
}

/// A new plan after an apply. Leaves out `known` failures.
pub(crate) async fn plan_after(
    context: &RunContext,
    target: &Target,
    known: &BTreeSet<String>,
) -> Result<HostPlan, TargetError> {
    // A failed item is known to differ; it must not make others wait for it.
    let history = History { over: known.clone(), ..History::default() };
    target.facts_are_stale();
    Ok(plan_part(context, target, Part::Whole, &history, false).await?.plan)
}

/// Refuses changes that destroy something that is kept nowhere, unless the user has allowed them by ID.
fn refuse_what_is_lost(plan: &mut HostPlan, allowed: &[String]) {
    for item in &mut plan.items {
        let changes = item.changes().iter().map(|planned| &planned.change);
        let lost = changes.filter(|change| goes(change) && takes_along(change));
        let why = lost.filter_map(|change| crate::revert::undo::destroys(change, allowed)).next();
        if let Some(why) = why {
            item.outcome = Outcome::Refused(why);
        }
    }
}

/// Whether what is there goes: nothing, or something of another type, takes its place.
fn goes(change: &converge_resource::Change) -> bool {
    let attributes = converge_objects::object(&change.object.kind).map(|o| o.attributes(change));
    change.to.is_absent()
        || attributes.unwrap_or_default().iter().any(|a| a.name == "type" && a.before.is_some())
}

/// Whether what goes takes something along that nobody can make anew: a host's part in its cluster
/// ([`converge_resource::Object::STAYS_UNLESS_ALLOWED`]), or data ([`converge_resource::Object::HOLDS_DATA`]).
fn takes_along(change: &converge_resource::Change) -> bool {
    converge_objects::object(&change.object.kind).is_some_and(|o| o.holds_data() || o.stays_unless_allowed())
}
