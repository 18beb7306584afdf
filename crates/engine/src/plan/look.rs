//! Looks at a target and plans it, asking as often as it takes.

use crate::connect::target::Target;
use crate::context::RunContext;
use crate::plan::facts::ask_others;
use crate::plan::managed::{self, Declares};
use crate::plan::other_hosts::OtherHosts;
use crate::plan::source::{HostSource, ItemSelection, shown};
use crate::revert::shared::belongs_to_others;
use crate::revert::undo::{destroys, owners_probe};
use crate::{Activity, Event, TargetError};
use converge_executor::{Answers, Questions};
use converge_ledger::OwnedRecords;
use converge_model::Facts;
use converge_objects::release_of;
use converge_planner::{
    FoldResult, History, HostPlan, Item, Knowledge, OtherTargets, OtherTargetsByRole, Outcome, Outputs, fold,
};
use converge_resource::{ObjectId, PreservedField, Probe};
use std::collections::BTreeSet;

/// Rounds of questions to one host for one plan. Each answers what was not known before, and what an item asks for follows from
/// the answers, so they end by themselves, after three as a rule; this many are a fault of the program.
const ROUNDS: usize = 100;

/// The result of a look at a host.
pub(crate) struct LookResult {
    pub folded: FoldResult,
    pub known: Knowledge,
    /// The host's records of earlier runs, or the reason why they cannot be read.
    pub records: Option<Result<OwnedRecords, TargetError>>,
    pub declares: Declares,
    /// It reads, or may read, facts of other hosts, which these may alter in the run.
    pub reads_others: bool,
}

impl LookResult {
    /// Whether the plans of other targets, when they are made, may change this one.
    pub fn waits_for_plans(&self) -> bool {
        let waits = |role: &str| self.known.other_targets(role) == Some(&OtherTargets::NotPlanned);
        let deferred = |item: &Item| matches!(item.outcome, Outcome::Deferred { .. });
        self.reads_others || self.folded.plan.items.iter().any(|item| deferred(item) && waits(&item.role))
    }
}

/// Plans a part of the project on one host, asking it as often as it takes.
pub(crate) async fn plan_part(
    context: &RunContext,
    target: &Target,
    part: ItemSelection<'_>,
    history: &History,
    diffs: bool,
) -> Result<FoldResult, TargetError> {
    let look = LookScope { part, history, diffs, records: false };
    Ok(look_and_plan(context, target, &look, OtherTargetsByRole::new()).await?.folded)
}

/// The scope of a look.
pub(crate) struct LookScope<'a> {
    pub part: ItemSelection<'a>,
    /// The results of earlier items of the same run.
    pub history: &'a History,
    /// Read old contents that only a diff needs.
    pub diffs: bool,
    /// The target's records of earlier runs travel in the first batch.
    pub records: bool,
}

impl LookScope<'_> {
    /// The look of a plan.
    pub fn plan(context: &RunContext) -> LookScope<'static> {
        static NOTHING_DONE: History = History { changed: BTreeSet::new(), over: BTreeSet::new() };
        LookScope {
            part: ItemSelection::Converge,
            history: &NOTHING_DONE,
            diffs: context.options.diffs,
            records: true,
        }
    }
}

/// Answers from which a look goes on.
pub(crate) struct LookStart {
    pub known: Knowledge,
    pub records: Option<Result<OwnedRecords, TargetError>>,
}

/// Looks at a target and plans a part of the project there. `other_targets`: the roles on other targets that come before its own.
pub(crate) async fn look_and_plan(
    context: &RunContext,
    target: &Target,
    look: &LookScope<'_>,
    other_targets: OtherTargetsByRole,
) -> Result<LookResult, TargetError> {
    let mut known = crate::connect::target::first_knowledge(context, target).await?;
    known.set_other_targets(other_targets);
    look_from(context, target, look, LookStart { known, records: None }).await
}

/// Asks a target one round of questions. One that is lost is left.
async fn answers(
    context: &RunContext,
    target: &Target,
    round: usize,
    questions: Questions<'_>,
    known: &mut Knowledge,
) -> Result<Answers, TargetError> {
    let asks_now = context.begin(target.name(), Activity::Round { round, questions: questions.probes.len() });
    let answered = target.observe(questions, known).await;
    if answered.is_err() {
        // Its further output is not read.
        crate::connect::target::leave(context, target).await;
    } else {
        drop(asks_now);
        context.tell_traffic(target.name(), target.traffic());
    }
    answered
}

/// Goes on with a look.
pub(crate) async fn look_from(
    context: &RunContext,
    target: &Target,
    look: &LookScope<'_>,
    start: LookStart,
) -> Result<LookResult, TargetError> {
    let LookScope { part, history, diffs, records: want_records } = *look;
    let LookStart { mut known, mut records } = start;
    known.set_secrets(secrets_of(context, target));
    let not_there = known.absent().is_some();
    let mut asked_for_diffs = !diffs;
    let host = target.name();
    let needs = context.project.needs(host);
    let groups = crate::plan::facts::groups_of(context, host, &needs);
    let mut others = OtherHosts { facts: context.pool.other_facts().clone(), ..OtherHosts::default() };
    ask_others(context, &needs, needs.facts_of.clone(), &mut others).await;
    for round in 1..=ROUNDS {
        // Only of hosts that this look has asked: what another target has asked of one is a matter of chance.
        let facts = crate::plan::facts::facts(context, |of| of == host || others.asked.contains(of)).await;
        let made = |facts: &Facts, outputs: &Outputs| {
            let source = HostSource::new(&context.project, &context.graph, host, facts, part, outputs);
            source.beside(others.clone())
        };
        let mut source = made(&facts, &Outputs::new());
        let mut folded = fold(host, &source, &known, history);
        // A list may be made of what a query has answered. Each pass answers one more, so this ends.
        let mut outputs = Outputs::new();
        while source.has_open_lists() && folded.outputs.len() > outputs.len() {
            outputs.clone_from(&folded.outputs);
            source = made(&facts, &outputs);
            folded = fold(host, &source, &known, history);
        }
        let read = source.hosts_read();
        let mut unread: BTreeSet<String> = read.difference(&others.asked).cloned().collect();
        unread.retain(|of| of != host || !needs.facts);
        if !unread.is_empty() {
            // A template that goes over hosts stops at the first that was not asked. With facts like those of a known one it shows the others.
            if let Some(like) = facts.hosts().next() {
                let hosts = context.project.inventory().hosts().map(|of| of.name());
                let assumed = made(&facts.assumed(like, hosts), &outputs);
                fold(host, &assumed, &known, history);
                unread.extend(assumed.hosts_read());
            }
            ask_others(context, &needs, unread, &mut others).await;
            continue;
        }
        let want_facts = if needs.facts { target.unknown_facts(&groups) } else { None };
        let mut asks = std::mem::take(&mut folded.asks);
        asks.extend(owners_asked(&folded.plan, &known, &context.options.allow_destroy));
        let owned = want_records && records.is_none() && !not_there;
        if asks.is_empty() && want_facts.is_none() && !owned {
            if asked_for_diffs || folded.diff_asks.is_empty() {
                complete(context, &source, &mut folded, &known);
                let narrowed = context.project.is_narrowed();
                let declares = records.as_ref().map(|_| Declares::of(&source, &folded.outputs, narrowed));
                let declares = declares.unwrap_or_default();
                let records_read = records.as_ref().and_then(|read| read.as_ref().ok());
                if gives_back(context, target, &folded.plan, (records_read, &declares), &mut known).await? {
                    continue;
                }
                let reads_others = needs.facts_of_others || read.iter().any(|of| of != host);
                return Ok(LookResult { folded, known, records, declares, reads_others });
            }
            asked_for_diffs = true;
            asks = std::mem::take(&mut folded.diff_asks);
        }
        // A question that all items share is asked once it is known which items there are.
        if want_facts.is_some() {
            asks.retain(|probe| !converge_resources::asked_together(probe));
        }
        let questions = Questions { probes: &asks, facts: want_facts.as_ref(), managed: owned };
        let answered = answers(context, target, round, questions, &mut known).await?;
        // Each round brings something: an answer, facts, or the records.
        let new = want_facts.is_some() || owned || asks.iter().any(|probe| known.knows(probe));
        if let Some(open) = asks.iter().next().filter(|_| !new || round == ROUNDS) {
            return Err(stuck(round, open));
        }
        if let Some(Ok(read)) = &answered.managed {
            context.pool.secrets().insert(host.to_owned(), read.secrets());
            known.set_secrets(read.secrets());
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

/// Whether it turns out that this run prunes fields of objects that it declares. A release leaves none of these to the patch that goes: it is planned anew.
async fn gives_back(
    context: &RunContext,
    target: &Target,
    plan: &HostPlan,
    (records, declares): (Option<&OwnedRecords>, &Declares),
    known: &mut Knowledge,
) -> Result<bool, TargetError> {
    let of_release = |item: &Item| item.claims.iter().any(|object| release_of(object).is_some());
    let may = context.options.prune && known.pruned_fields().is_empty() && plan.items.iter().any(of_release);
    let Some(records) = records.filter(|_| may) else { return Ok(false) };
    let mut with_prune = plan.clone();
    managed::add_parts(context, target, &mut with_prune, &records.things, declares, known).await?;
    managed::own(context, target, &mut with_prune, records.clone(), declares, known).await?;
    known.set_pruned_fields(managed::pruned_fields(&with_prune.items, &with_prune.contents));
    Ok(!known.pruned_fields().is_empty())
}

/// The objects with secrets, by the records that were read of a target in this run.
fn secrets_of(context: &RunContext, target: &Target) -> BTreeSet<ObjectId> {
    context.pool.secrets().get(target.name()).cloned().unwrap_or_default()
}

/// Completes a plan without open questions by what only the whole of it tells.
fn complete(context: &RunContext, source: &HostSource<'_>, folded: &mut FoldResult, known: &Knowledge) {
    let FoldResult { plan, outputs, .. } = folded;
    source.refuse_open_lists(plan);
    refuse_what_is_lost(plan, known, &context.options.allow_destroy);
    crate::backup_notes::note_backups(plan);
    source.locate(plan, outputs);
    source.bind(plan, outputs);
}

/// The error of a look that asks without end.
fn stuck(round: usize, open: &Probe) -> TargetError {
    let open = shown(open);
    let message = format!(
        "internal error: after {round} rounds of questions this is still open: {open}. Please report it"
    );
    TargetError::Refused(message)
}

/// Plans anew in the middle of an apply that still prunes these fields.
pub(crate) async fn plan_again(
    context: &RunContext,
    target: &Target,
    history: &History,
    other_targets: OtherTargetsByRole,
    pruned: Vec<PreservedField>,
) -> Result<FoldResult, TargetError> {
    target.facts_are_stale();
    let look =
        LookScope { part: ItemSelection::Converge, history, diffs: context.options.diffs, records: false };
    let mut known = crate::connect::target::first_knowledge(context, target).await?;
    known.set_other_targets(other_targets);
    known.set_pruned_fields(pruned);
    let start = LookStart { known, records: None };
    let LookResult { mut folded, mut known, .. } = look_from(context, target, &look, start).await?;
    crate::plan::along::refuse_again(context, target, &mut folded.plan, &mut known).await?;
    Ok(folded)
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
    Ok(plan_part(context, target, ItemSelection::Whole, &history, false).await?.plan)
}

/// The questions whose the objects of a cluster are that go.
fn owners_asked(plan: &HostPlan, known: &Knowledge, allowed: &[String]) -> BTreeSet<Probe> {
    let changes = plan.items.iter().flat_map(Item::changes).map(|planned| &planned.change);
    let gone =
        changes.filter(|change| change.to.is_absent() && !allowed.contains(&change.object.to_string()));
    gone.filter_map(|change| owners_probe(&change.object)).filter(|probe| !known.knows(probe)).collect()
}

/// Refuses changes that destroy something that is kept nowhere, or an object of a cluster that is others' too, unless the user has allowed them by ID.
fn refuse_what_is_lost(plan: &mut HostPlan, known: &Knowledge, allowed: &[String]) {
    for item in &mut plan.items {
        let changes = item.changes().iter().map(|planned| &planned.change);
        let why = changes.filter(|change| goes(change)).find_map(|change| {
            let lost = destroys(change, allowed).filter(|_| takes_along(change));
            lost.or_else(|| belongs_to_others(change, known, allowed))
        });
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
/// ([`converge_resource::NodePart::STAYS_UNLESS_ALLOWED`]), data ([`converge_resource::Traits::holds_data`]), or what stands on an object of a cluster.
fn takes_along(change: &converge_resource::Change) -> bool {
    converge_objects::object(&change.object.kind)
        .is_some_and(|o| o.traits().holds_data || o.node().stays_unless_allowed() || o.cluster().of_api())
}
