//! The plan of one target: it is begun, may wait for the plans of others, and ends.

use crate::connect::target::Target;
use crate::context::RunContext;
use crate::plan::along::refuse_what_takes_others_along;
use crate::plan::look::{LookResult, LookScope, LookStart, look_and_plan, look_from};
use crate::plan::managed;
use crate::plan::other_targets::OtherRoles;
use crate::{Activity, Event, HostEntry, HostResult, TargetError};
use converge_model::FactNames;
use converge_planner::{Alteration, HostPlan, OtherFacts, OtherTargetsByRole};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds in which plans go on with those of others. Each makes what comes next in the order of the run exact, so they end by themselves,
/// after two as a rule.
const ROUNDS: usize = 100;

/// The plan of one target.
pub(crate) enum PlanProgress {
    /// It is made, or the target is lost.
    Ended(Box<HostEntry>),
    /// The plans of other targets decide whether some of its resources may be asked.
    Held(Box<HeldPlan>),
}

/// A target whose plan waits for those of others.
pub(crate) struct HeldPlan {
    target: Target,
    looked: LookResult,
    took: Duration,
}

impl HeldPlan {
    /// A target with its plan so far, and the time that this took.
    pub fn new(target: Target, looked: LookResult, took: Duration) -> Self {
        Self { target, looked, took }
    }

    /// The target's name.
    pub fn name(&self) -> &str {
        self.target.name()
    }

    /// The plan so far.
    pub fn plan(&self) -> &HostPlan {
        &self.looked.folded.plan
    }

    /// The roles on other targets that come before its own, as far as this plan knows them.
    pub fn other_targets(&self) -> &OtherTargetsByRole {
        self.looked.known.all_other_targets()
    }

    /// Goes on with the plan, with what is known of other targets now.
    pub async fn resume(self, context: &RunContext, other_targets: OtherTargetsByRole) -> PlanProgress {
        let _permit = context.permit(self.name()).await;
        let _plans = context.begin(self.name(), Activity::Plan);
        let begun = Instant::now();
        let (mut known, records) = (self.looked.known, self.looked.records);
        known.set_other_targets(other_targets);
        known.set_pruned_fields(Vec::new());
        let from = LookStart { known, records };
        let looked = look_from(context, &self.target, &LookScope::plan(context), from).await;
        end_or_hold(context, self.target, looked, self.took + begun.elapsed()).await
    }

    /// Ends the plan as it is.
    pub async fn end(self, context: &RunContext) -> HostEntry {
        let begun = Instant::now();
        let name = self.name().to_owned();
        let result = with_records(context, &self.target, self.looked).await;
        entry(context, name, result, self.took + begun.elapsed())
    }
}

/// Plans one target, as far as it goes with what is known of others.
pub(crate) async fn plan_one(
    context: &RunContext,
    host: &str,
    other_targets: OtherTargetsByRole,
) -> PlanProgress {
    let _permit = context.permit(host).await;
    let _plans = context.begin(host, Activity::Plan);
    let begun = Instant::now();
    let target = match crate::connect::target::connect(context, host).await {
        Err(lost) => {
            context.pool.lost().insert(host.to_owned(), lost.clone());
            return PlanProgress::Ended(Box::new(entry(
                context,
                host.to_owned(),
                Err(lost),
                begun.elapsed(),
            )));
        }
        Ok(target) => target,
    };
    let looked = look_and_plan(context, &target, &LookScope::plan(context), other_targets).await;
    end_or_hold(context, target, looked, begun.elapsed()).await
}

/// Ends the plan, unless a resource of it waits for the plan of another target.
async fn end_or_hold(
    context: &RunContext,
    target: Target,
    looked: Result<LookResult, TargetError>,
    took: Duration,
) -> PlanProgress {
    let looked = match looked {
        Ok(looked) if looked.waits_for_plans() => {
            return PlanProgress::Held(Box::new(HeldPlan::new(target, looked, took)));
        }
        looked => looked,
    };
    let begun = Instant::now();
    let result = match looked {
        Ok(looked) => with_records(context, &target, looked).await,
        Err(lost) => Err(lost),
    };
    PlanProgress::Ended(Box::new(entry(context, target.name().to_owned(), result, took + begun.elapsed())))
}

/// The end of a target's plan, which listeners hear of.
fn entry(
    context: &RunContext,
    host: String,
    result: Result<HostPlan, TargetError>,
    took: Duration,
) -> HostEntry {
    let result = match result {
        Ok(plan) => {
            context.events.send(Event::Planned { host: host.clone(), summary: plan.summary() });
            HostResult::Planned(plan)
        }
        Err(lost) => {
            context.events.send(Event::Lost { host: host.clone(), message: lost.to_string() });
            HostResult::Lost(lost)
        }
    };
    HostEntry { host, result, took }
}

/// Plans what is declared, and what is to become of what no longer is.
pub(crate) async fn plan_with_records(
    context: &RunContext,
    target: &Target,
    other_targets: OtherTargetsByRole,
) -> Result<HostPlan, TargetError> {
    let looked = look_and_plan(context, target, &LookScope::plan(context), other_targets).await?;
    with_records(context, target, looked).await
}

/// Adds what is to become of what is no longer declared.
async fn with_records(
    context: &RunContext,
    target: &Target,
    looked: LookResult,
) -> Result<HostPlan, TargetError> {
    let (mut plan, mut known) = (looked.folded.plan, looked.known);
    match looked.records {
        Some(Ok(records)) => {
            let (things, declares) = (&records.things, &looked.declares);
            refuse_what_takes_others_along(context, target, &mut plan, things, declares, &mut known).await?;
            crate::plan::missing::name_takers(context, target, &mut plan, things, &mut known).await?;
            // Before whole objects: what refers to one of these goes first.
            let parts = managed::add_parts(context, target, &mut plan, things, declares, &mut known).await?;
            managed::own(context, target, &mut plan, records, &looked.declares, &mut known).await?;
            plan.earlier_runs.undeclared.extend(parts);
            managed::lead_releases(&mut plan);
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

/// The facts that hosts alter by these plans, those that a target reads of another one among them.
async fn other_facts(context: &RunContext, ended: &[HostEntry], held: &[HeldPlan]) -> OtherFacts {
    let mut read = FactNames::default();
    for target in held.iter().filter(|target| target.looked.reads_others) {
        read.extend(&context.project.needs(target.name()).fact_names);
    }
    let ended = ended.iter().filter_map(|entry| match &entry.result {
        HostResult::Planned(plan) => Some(plan),
        HostResult::Lost(_) => None,
    });
    let mut altered: BTreeMap<&str, Vec<Alteration>> = BTreeMap::new();
    for plan in ended.chain(held.iter().map(HeldPlan::plan)) {
        let own = plan.alterations.iter().filter(|alteration| read.has(&alteration.fact));
        altered.insert(&plan.host, own.cloned().collect());
    }
    let links = context.pool.links.lock().await;
    let before = |host: &str, fact: &str| {
        let facts_of_run = links.get(host).and_then(|link| link.facts_of_run());
        facts_of_run.and_then(|(_, before)| before.get(fact).cloned())
    };
    OtherFacts::new(altered.iter().map(|(host, all)| (*host, all.as_slice())), before)
}

/// Completes the plans of targets that wait for those of others, in the order in which these end.
pub(crate) async fn complete(
    context: &RunContext,
    mut roles: OtherRoles,
    begun: Vec<PlanProgress>,
) -> Vec<HostEntry> {
    let shared = Arc::new(context.clone());
    let mut ended: Vec<HostEntry> = Vec::new();
    let mut waiting = begun;
    let mut rounds = 0;
    loop {
        let mut held = Vec::new();
        for planned in waiting {
            match planned {
                PlanProgress::Ended(entry) => {
                    roles.take(&entry);
                    ended.push(*entry);
                }
                PlanProgress::Held(target) => {
                    roles.take_plan(target.plan(), target.other_targets());
                    held.push(*target);
                }
            }
        }
        if held.is_empty() {
            break;
        }
        rounds += 1;
        let facts = other_facts(context, &ended, &held).await;
        let altered = **context.pool.other_facts() != facts;
        *context.pool.other_facts() = Arc::new(facts);
        let before: Vec<OtherTargetsByRole> = held.iter().map(|target| roles.before(target.name())).collect();
        // Roles that wait for each other across targets stay deferred: an apply asks them when their turn comes.
        let progress = held.iter().zip(&before).any(|(target, before)| {
            target.other_targets() != before || altered && target.looked.reads_others
        });
        let progress = progress && rounds < ROUNDS;
        let tasks = held.into_iter().zip(before).map(|(target, before)| {
            let context = Arc::clone(&shared);
            async move {
                match progress {
                    true => target.resume(&context, before).await,
                    false => PlanProgress::Ended(Box::new(target.end(&context).await)),
                }
            }
        });
        waiting = crate::tasks::in_parallel(tasks.collect::<Vec<_>>()).await;
    }
    let place = |entry: &HostEntry| context.targets().iter().position(|name| *name == entry.host);
    ended.sort_by_key(place);
    ended
}
