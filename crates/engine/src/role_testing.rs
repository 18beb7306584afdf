//! The needs of role tests beyond the commands: scripts of their own on hosts, states of objects, and the claims of items.

use crate::connect::target::Target;
use crate::context::RunContext;
use crate::plan::look::{LookResult, LookScope};
use crate::plan::other_targets::OtherRoles;
use crate::plan::source::{HostSource, ItemSelection};
use crate::plan::target::{HeldPlan, PlanProgress};
use crate::recorded::{HostRecording, learn};
use crate::{FleetPlan, HostEntry, HostResult, Purpose, TargetError};
use converge_executor::FactGroups as Groups;
use converge_model::Facts;
use converge_planner::{
    FoldResult, History, ItemSource, Knowledge, OtherTargetsByRole, Outputs, ResolvedParameters, fold,
};
use converge_resource::{Answer, Claim, ObjectId, Probe, RunAnswer, State};
use converge_ssh::{Batch, ShellItem, ShellOutcome, Status, Stderr};
use converge_syntax::Diagnostics;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds of questions that a recording is asked for one plan.
const ROUNDS: usize = 8;

/// The claims of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemClaims {
    /// Its address.
    pub address: String,
    /// The role that declares it.
    pub role: String,
    /// Its claims, with their facets.
    pub claims: Vec<Claim>,
    /// True when a sensitive value was in reach.
    pub sensitive: bool,
    /// The resources of its role, by name, that it is restarted on.
    pub restart_on: Vec<String>,
}

/// Runs a shell script on a host with the privilege of the run. For tests of roles: a plan never does.
///
/// # Errors
/// The host is lost, or the script took longer than `limit`.
pub(crate) async fn script(
    context: &RunContext,
    host: &str,
    script: &str,
    limit: Duration,
) -> Result<RunAnswer, TargetError> {
    let link = crate::connect::sessions::link(context, host).await?;
    let item = ShellItem { stderr: Stderr::Separate, timeout: Some(limit), ..ShellItem::new(1, script) };
    let (results, error) = link.run_to_end(&Batch::of(vec![item])).await.map_err(|e| link.lost(&e))?;
    if let Some(error) = error {
        return Err(link.lost(&error));
    }
    let lost = TargetError::Refused;
    let result = results.into_iter().next().ok_or_else(|| lost(format!("{host}: gave no answer")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match result.outcome {
        ShellOutcome::Finished { status: Status::Exited(status), .. } => {
            Ok(RunAnswer { status, stdout: text(&result.output), stderr: text(&result.stderr) })
        }
        _ => Err(lost(format!("{host}: a script did not end within {} s", limit.as_secs()))),
    }
}

/// Lets a host keep the records of all runs of this session, instead of the newest few: a test makes many, and rolls back to
/// before the first.
///
/// # Errors
/// The host is lost.
pub(crate) async fn keep_all_runs(context: &RunContext, host: &str) -> Result<(), TargetError> {
    let link = crate::connect::sessions::link(context, host).await?;
    let prelude = Some("CV_KEEP_RUNS=100000 CV_KEEP_KB=1000000000".to_owned());
    let batch = Batch { prelude, ..Batch::default() };
    let (_, error) = link.run_to_end(&batch).await.map_err(|e| link.lost(&e))?;
    error.map_or(Ok(()), |error| Err(link.lost(&error)))
}

/// The present states of objects on a host; those that cannot be read are left out.
///
/// # Errors
/// The host is lost.
pub(crate) async fn states(
    context: &RunContext,
    host: &str,
    objects: &BTreeSet<ObjectId>,
) -> Result<BTreeMap<ObjectId, State>, TargetError> {
    let target = crate::connect::target::connect(context, host).await?;
    let probes: BTreeSet<Probe> = objects.iter().cloned().map(Probe::Object).collect();
    let mut known = Knowledge::default();
    target.look(&probes, &mut known).await?;
    let state = |o: &ObjectId| Some((o.clone(), known.observed(o).ok()?.state));
    Ok(objects.iter().filter_map(state).collect())
}

/// The claims of every item of a host, as a fresh look resolves it. Items that cannot be resolved are left out.
///
/// # Errors
/// The host is lost.
pub(crate) async fn claims(context: &RunContext, host: &str) -> Result<Vec<ItemClaims>, TargetError> {
    let target = crate::connect::target::connect(context, host).await?;
    let folded =
        crate::plan::look::plan_part(context, &target, ItemSelection::Converge, &History::default(), false)
            .await?;
    let facts = crate::plan::facts::facts(context, |_| true).await;
    let source = HostSource::new(
        &context.project,
        &context.graph,
        host,
        &facts,
        ItemSelection::Converge,
        &folded.outputs,
    );
    let claimed = source.items().iter().enumerate().filter_map(|(index, item)| {
        let ResolvedParameters::Ready { resource, sensitive, .. } =
            source.resolve(index, &folded.outputs, &converge_planner::AlteredFacts::default())
        else {
            return None;
        };
        Some(ItemClaims {
            address: item.address.clone(),
            role: item.role.clone(),
            claims: resource.claims(),
            sensitive,
            restart_on: resource.names(),
        })
    });
    Ok(claimed.collect())
}

/// Plans like [`crate::Engine::plan`], and keeps what every host answered; what clusters answer is not kept. Contents and answers that belong to sensitive items are
/// left out.
///
/// # Errors
/// The errors of the project.
pub(crate) async fn plan_and_record(
    context: &RunContext,
) -> Result<(FleetPlan, BTreeMap<String, HostRecording>), Diagnostics> {
    crate::plan::check::check_without_hosts(context)?;
    context.pool.begin().await;
    let mut recordings = BTreeMap::new();
    let mut roles = OtherRoles::new(context);
    let mut begun = Vec::new();
    for host in context.machines() {
        let start = Instant::now();
        let result = match record_one(context, &host).await {
            Ok((target, looked, recording)) => {
                recordings.insert(host.clone(), recording);
                if looked.reads_others {
                    begun.push(PlanProgress::Held(Box::new(HeldPlan::new(target, looked, start.elapsed()))));
                    continue;
                }
                HostResult::Planned(looked.folded.plan)
            }
            Err(lost) => HostResult::Lost(lost),
        };
        let entry = HostEntry { host, result, took: start.elapsed() };
        roles.take(&entry);
        begun.push(PlanProgress::Ended(Box::new(entry)));
    }
    for name in context.targets().iter().filter(|name| context.project.entry_hosts(name).is_some()) {
        begun.push(crate::plan::target::plan_one(context, name, roles.before(name)).await);
    }
    let entries = crate::plan::target::complete(context, roles, begun).await;
    let mut plan = crate::batches::new_plan(context, Purpose::Converge, entries);
    plan.order = crate::batches::order(context, &plan);
    Ok((plan, recordings))
}

async fn record_one(
    context: &RunContext,
    host: &str,
) -> Result<(Target, LookResult, HostRecording), TargetError> {
    let link = crate::connect::sessions::link(context, host).await?;
    let look =
        LookScope { part: ItemSelection::Converge, history: &History::default(), diffs: true, records: true };
    let target = crate::connect::target::host(context, Arc::clone(&link));
    let looked = crate::plan::look::look_and_plan(context, &target, &look, OtherTargetsByRole::new()).await?;
    let (folded, known) = (&looked.folded, &looked.known);
    // Items that do not read facts today may do so tomorrow.
    crate::plan::facts::facts_of(context, host, &Groups::new()).await?;
    let secret: BTreeSet<&ObjectId> =
        folded.plan.items.iter().filter(|i| i.sensitive).flat_map(|i| &i.claims).collect();
    let any_secret = folded.plan.items.iter().any(|i| i.sensitive);
    let recording = HostRecording::of(link.known_facts(), known, |probe| match probe {
        Probe::Content(path) => !secret.iter().any(|o| o.kind == "path" && o.key == *path),
        Probe::Object(object) => !converge_objects::traits_of(object).key_is_text || !secret.contains(object),
        // A script's text or answer may hold a secret, and nothing says whose it is.
        Probe::Run { .. } => !any_secret,
        Probe::Api(_) | Probe::Local(_) => false,
    });
    Ok((target, looked, recording))
}

/// Plans against recorded answers; no host is contacted. Objects that the recording does not know are taken for absent;
/// they come back by host. Scripts that it does not know make the items that ask them fail.
///
/// # Errors
/// The errors of the project.
pub(crate) fn plan_recorded(
    context: &RunContext,
    recordings: &BTreeMap<String, HostRecording>,
) -> Result<(FleetPlan, BTreeMap<String, Vec<ObjectId>>), Diagnostics> {
    crate::plan::check::check_without_hosts(context)?;
    let facts: Vec<(String, serde_json::Value)> =
        recordings.iter().filter_map(|(host, r)| Some((host.clone(), r.facts.clone()?))).collect();
    let facts = Facts::new(facts);
    let mut assumed = BTreeMap::new();
    let entries = context.machines().into_iter().map(|host| {
        let begun = Instant::now();
        let mut known = Knowledge::default();
        if let Some(recording) = recordings.get(&host) {
            learn(recording, &mut known);
        }
        let mut guessed = Vec::new();
        let folded = fold_recorded(context, &host, &facts, &mut known, &mut guessed);
        if !guessed.is_empty() {
            assumed.insert(host.clone(), guessed);
        }
        HostEntry { host, result: HostResult::Planned(folded.plan), took: begun.elapsed() }
    });
    let entries = entries.collect();
    Ok((crate::batches::new_plan(context, Purpose::Converge, entries), assumed))
}

fn fold_recorded(
    context: &RunContext,
    host: &str,
    facts: &Facts,
    known: &mut Knowledge,
    guessed: &mut Vec<ObjectId>,
) -> FoldResult {
    let source = |outputs: &Outputs| {
        HostSource::new(&context.project, &context.graph, host, facts, ItemSelection::Converge, outputs)
    };
    let mut round = 1;
    loop {
        let mut outputs = Outputs::new();
        let mut source_now = source(&outputs);
        let mut folded = fold(host, &source_now, known, &History::default());
        // As in a plan on a host: each pass answers one more.
        while source_now.has_open_lists() && folded.outputs.len() > outputs.len() {
            outputs.clone_from(&folded.outputs);
            source_now = source(&outputs);
            folded = fold(host, &source_now, known, &History::default());
        }
        if folded.asks.is_empty() || round == ROUNDS {
            source_now.locate(&mut folded.plan, &folded.outputs);
            return folded;
        }
        round += 1;
        for probe in folded.asks {
            let answer = match &probe {
                Probe::Object(object) => {
                    guessed.push(object.clone());
                    Answer::Object(converge_resource::Observation::new(State::absent(), None))
                }
                Probe::Content(_) => Answer::Content(None),
                Probe::Run { .. } | Probe::Api(_) | Probe::Local(_) => Answer::Failed(
                    "no host was asked this when the answers were recorded: record them again".to_owned(),
                ),
            };
            known.learn(probe, answer);
        }
    }
}
