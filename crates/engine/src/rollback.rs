//! Rolling back: an ordinary plan to the states that a run saved.

mod passed;
mod start;

use crate::connect::runs::{records, remarks};
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::revert::accounts::Accounts;
use crate::revert::gone::{ProjectRuns, name_takers, taken_away};
use crate::revert::holders::StayingObject;
use crate::revert::package_files::leave_those_that_others_need;
use crate::revert::releases::{RetainedChanges, leave_those_that_hold_others, name_what_goes_along};
use crate::revert::sight::Sight;
use crate::revert::undo::{
    Verdict, brought_along, changed_probes, goes_back, is_midway, owners_probe, without_gone_workloads,
};
use crate::revert::{self, JudgedUndo, RevertGroup, holders, layers, restarts};
use crate::tasks::{in_parallel, on_each};
use crate::{Activity, Event, FleetPlan, HostEntry, HostResult, Purpose, Return, TargetError};
use converge_ledger::{Ledger, ProjectScope, Records, RunRecord, Undo};
use converge_planner::{HostPlan, Item, Knowledge, Outcome};
use converge_resource::{ObjectId, Probe};
use converge_syntax::{Diagnostic, Diagnostics};
use passed::{FirstHalt, Halt, Halts, say_halt, say_idle, say_passed_over, say_taken_back, why_passed_over};
use start::{ReturnPoint, again};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Whether nothing of this can be done now, on hosts that were all looked at.
fn nothing_to_do(plan: &FleetPlan) -> bool {
    plan.hosts
        .iter()
        .all(|h| matches!(&h.result, HostResult::Planned(plan) if !plan.items.iter().any(Item::is_pending)))
}

fn is_left(item: &Item) -> bool {
    matches!(item.outcome, Outcome::Refused(_) | Outcome::Failed(_))
}

/// An object that is left because its state is not known, with its host: it could not be looked at.
fn unseen(plan: &FleetPlan) -> Option<(&str, String)> {
    plan.hosts.iter().find_map(|entry| {
        let HostResult::Planned(plan) = &entry.result else { return None };
        let observed = |object: &ObjectId| plan.base.iter().any(|(o, _)| o == object);
        let claims = plan.items.iter().filter(|i| is_left(i)).flat_map(|i| &i.claims);
        claims.filter(|o| !observed(o)).map(|o| (entry.host.as_str(), o.to_string())).next()
    })
}

/// The records that were read of a host.
type ReadRecords = Arc<Result<(Target, Records), TargetError>>;

/// The ID that begins so, of all runs on the hosts that were read.
fn resolve(read: &[ReadRecords], prefix: &str) -> Result<Option<String>, Diagnostics> {
    let runs =
        read.iter().filter_map(|read| read.as_ref().as_ref().ok()).flat_map(|(_, records)| &records.runs);
    let found: BTreeSet<&str> = runs.map(|r| r.id.as_str()).filter(|id| id.starts_with(prefix)).collect();
    if found.contains(prefix) {
        return Ok(Some(prefix.to_owned()));
    }
    let ids: Vec<&str> = found.into_iter().collect();
    match ids.as_slice() {
        [] => Ok(None),
        [id] => Ok(Some((*id).to_owned())),
        several => {
            let message =
                format!("`{prefix}` is the beginning of {} runs: {}", several.len(), several.join(", "));
            Err(Diagnostic::error("ambiguous-snapshot", message).help("write more of the ID").into())
        }
    }
}

/// Plans a rollback: to the state before the run `to` (its ID, or the beginning of it), or before the newest run of this project that is in force.
/// `roles` narrows it to items of these roles.
///
/// # Errors
/// A run that no host knows, that is not unique, or that is of another project.
pub(crate) async fn plan_rollback(
    context: &Arc<RunContext>,
    to: Option<&str>,
    roles: &[String],
) -> Result<FleetPlan, Diagnostics> {
    let _plans = context.begin_all(Activity::PlanAll);
    let hosts = context.targets();
    let read =
        on_each(context, hosts, |context, host| async move { Arc::new(records(&context, &host).await) });
    let read = read.await;
    let remarks: Vec<String> = hosts
        .iter()
        .zip(&read)
        .filter_map(|(host, read)| Some(remarks(host, &read.as_ref().as_ref().ok()?.1)))
        .flatten()
        .collect();
    let mut plan = match to {
        Some(prefix) => plan_to(context, hosts, &read, prefix, roles).await?,
        None => plan_newest(context, hosts, &read, roles).await,
    };
    plan.warnings.splice(0..0, remarks);
    Ok(plan)
}

/// To the state before a run.
async fn plan_to(
    context: &Arc<RunContext>,
    hosts: &[String],
    read: &[ReadRecords],
    prefix: &str,
    roles: &[String],
) -> Result<FleetPlan, Diagnostics> {
    let Some(id) = resolve(read, prefix)? else {
        if read.iter().any(|read| read.is_err()) {
            // It may be on a host that does not answer.
            return Ok(plan_starts(context, hosts, read, &vec![None; hosts.len()], roles).await.0);
        }
        let message = format!("no host has a snapshot `{prefix}`");
        let help = "`converge snapshots` lists what can be rolled back to";
        return Err(Diagnostic::error("unknown-snapshot", message).help(help).into());
    };
    let mut starts = Vec::new();
    let mut warnings = Vec::new();
    for (host, read) in hosts.iter().zip(read) {
        let Ok((_, records)) = &**read else {
            starts.push(None);
            continue;
        };
        let ledger = Ledger::of(&records.runs);
        let place = ledger.place(&id);
        if let Some(run) = place.and_then(|at| records.runs.get(at))
            && !place.is_some_and(|at| ledger.is_of(at, &context.project_of(host)))
        {
            let message = format!("run {id} is of another project: {}", run.named_project());
            let help = "name that playbook and inventory: a rollback stays within one project";
            return Err(Diagnostic::error("other-project", message).help(help).into());
        }
        let names = crate::amend::names_since(place, &records.runs, &ledger, &context.project_of(host));
        if !names.is_empty() {
            warnings.push(format!(
                "{host}: {}: no longer managed (`converge state forget`): no rollback restores this",
                names.join(", ")
            ));
        }
        if place.is_none() {
            let why = if records.runs.is_empty() { "it has no records" } else { "it has no record of run" };
            let id = if records.runs.is_empty() { "" } else { id.as_str() };
            warnings.push(format!("{host} is left as it is: {why} {id}").trim_end().to_owned());
        }
        starts.push(place.map(ReturnPoint::To));
    }
    let (mut plan, _) = plan_starts(context, hosts, read, &starts, roles).await;
    plan.warnings.extend(warnings);
    Ok(plan)
}

/// The records of a host that was read, as a project sees them.
struct ProjectRecords<'a> {
    ledger: Ledger<'a>,
    project: ProjectScope,
    records: &'a Records,
}

impl<'a> ProjectRecords<'a> {
    /// The project's runs that can be taken back, oldest first, but for these.
    fn candidates(&self, passed: &BTreeSet<String>) -> Vec<usize> {
        let mut runs = self.ledger.candidates(&self.project, &goes_back);
        runs.retain(|at| self.records.runs.get(*at).is_some_and(|r| !passed.contains(&r.id)));
        runs
    }

    /// The ID and the age of each of these runs.
    fn named(&self, runs: &[usize]) -> Vec<(&'a str, i64)> {
        let runs = runs.iter().filter_map(|at| self.records.runs.get(*at));
        runs.map(|run| (run.id.as_str(), self.records.age(run))).collect()
    }
}

/// Before the newest run that is in force; one of which nothing can be done is passed over.
async fn plan_newest(
    context: &Arc<RunContext>,
    hosts: &[String],
    read: &[ReadRecords],
    roles: &[String],
) -> FleetPlan {
    let hosts_recorded = hosts.iter().zip(read).map(|(host, read)| {
        let (_, records) = read.as_ref().as_ref().ok()?;
        Some(ProjectRecords { ledger: Ledger::of(&records.runs), project: context.project_of(host), records })
    });
    let hosts_recorded: Vec<Option<ProjectRecords<'_>>> = hosts_recorded.collect();
    let mut passed: BTreeSet<String> = BTreeSet::new();
    let mut over: Vec<String> = Vec::new();
    let mut left = None;
    // The run of which something may be done alone: together with all that an earlier rollback left, nothing can.
    let mut alone: Option<String> = None;
    loop {
        let candidates = hosts_recorded.iter().map(|of| of.as_ref().map(|of| of.candidates(&passed)));
        let candidates: Vec<Vec<usize>> = candidates.map(Option::unwrap_or_default).collect();
        let named = hosts_recorded.iter().zip(&candidates);
        let named: Vec<Vec<(&str, i64)>> =
            named.map(|(of, runs)| of.as_ref().map(|of| of.named(runs)).unwrap_or_default()).collect();
        let Some(newest) = converge_ledger::newest(&named) else {
            let none = vec![None; hosts.len()];
            let mut plan = match left {
                Some(plan) => plan,
                None => plan_starts(context, hosts, read, &none, roles).await.0,
            };
            say_idle(&mut over, &hosts_recorded, &vec![Some(ReturnPoint::From(0)); hosts.len()]);
            say_passed_over(&mut plan, &over);
            return plan;
        };
        let start = |(of, runs): (&Option<ProjectRecords<'_>>, &Vec<usize>)| {
            let of = of.as_ref()?;
            let at = own_newest(&of.ledger, runs, newest)?;
            let is_alone = alone.as_deref() == Some(newest);
            Some((at, if is_alone { at } else { of.ledger.start_of(at, &of.project) }))
        };
        let starts: Vec<Option<(usize, usize)>> = hosts_recorded.iter().zip(&candidates).map(start).collect();
        let goes_on = starts.iter().flatten().any(|(at, start)| start < at);
        let starts: Vec<Option<ReturnPoint>> =
            starts.into_iter().map(|start| start.map(|(_, start)| ReturnPoint::From(start))).collect();
        let (mut plan, halt) = plan_starts(context, hosts, read, &starts, roles).await;
        if !nothing_to_do(&plan) {
            say_idle(&mut over, &hosts_recorded, &starts);
            say_taken_back(&mut over, &hosts_recorded, &starts);
            say_passed_over(&mut plan, &over);
            return plan;
        }
        if let Some((host, object)) = unseen(&plan) {
            // Of an older run something could be done; whether that is the newest one is not known.
            let why = format!(
                "{host}: what {object} is now cannot be said, so no older run is taken in the place of {newest}: \
                 correct what stands below the item, or name a run with `--to`"
            );
            plan.warnings.push(why);
            return plan;
        }
        if let Some(halt) = halt {
            say_halt(&mut plan, newest, halt);
            return plan;
        }
        let says = |h: &HostEntry| matches!(&h.result, HostResult::Planned(p) if p.items.iter().any(is_left));
        let is_left = plan.hosts.iter().any(says);
        if goes_on {
            alone = Some(newest.to_owned());
            left = Some(plan).filter(|_| is_left).or(left);
            continue;
        }
        passed.insert(newest.to_owned());
        over.push(format!("run {newest}, {}", why_passed_over(&plan)));
        if let Purpose::Rollback(runs) | Purpose::RollbackOf { before: runs, .. } = &plan.purpose {
            passed.extend(runs.iter().map(|(_, id)| id.clone()));
        }
        if is_left {
            left = Some(plan);
        }
    }
}

/// Where the chosen run stands on a host of which these runs can be taken back, oldest first, if it is its own newest one. Another host that lies of
/// its runs makes it take back none that it would not have taken back by itself.
fn own_newest(ledger: &Ledger<'_>, runs: &[usize], chosen: &str) -> Option<usize> {
    runs.last().copied().filter(|at| ledger.place(chosen) == Some(*at))
}

/// Before these runs, host by host; with an object, and its host, for which no older run is taken.
async fn plan_starts(
    context: &Arc<RunContext>,
    hosts: &[String],
    read: &[ReadRecords],
    starts: &[Option<ReturnPoint>],
    roles: &[String],
) -> (FleetPlan, FirstHalt) {
    let planning = hosts.iter().zip(read).zip(starts).map(|((host, read), start)| {
        let (context, host, read) = (Arc::clone(context), host.clone(), Arc::clone(read));
        let (start, roles) = (*start, roles.to_vec());
        async move { plan_back(&context, &host, &read, start, &roles).await }
    });
    let outcomes = in_parallel(planning).await;
    let mut returns: Vec<Return> = Vec::new();
    for (host, run) in hosts.iter().zip(read).zip(starts).filter_map(|((host, read), start)| {
        let (ReturnPoint::To(at) | ReturnPoint::From(at)) = (*start)?;
        Some((host, read.as_ref().as_ref().ok()?.1.runs.get(at)?))
    }) {
        match returns.iter_mut().find(|r| r.run == run.id) {
            Some(to) => to.hosts.push(host.clone()),
            None => returns.push(Return {
                run: run.id.clone(),
                time: run.time.clone(),
                operator: run.operator.clone(),
                playbook: run.playbook_of_project(),
                inventory: run.inventory.clone(),
                roles: run.roles().into_iter().map(str::to_owned).collect(),
                hosts: vec![host.clone()],
            }),
        }
    }
    let undone = outcomes
        .iter()
        .flat_map(|back| back.runs.iter().map(|run| (back.entry.host.clone(), run.clone())))
        .collect();
    let halts = outcomes.iter().flat_map(|back| back.halts.iter().map(|halt| (&back.entry.host, halt)));
    let halt = halts.map(|(host, (object, halt))| (host.clone(), object.clone(), *halt)).next();
    let hidden = outcomes
        .iter()
        .flat_map(|back| back.hidden.iter().map(|why| format!("{}: {why}", back.entry.host)))
        .collect();
    let purpose = if roles.is_empty() {
        Purpose::Rollback(undone)
    } else {
        Purpose::RollbackOf { roles: roles.to_vec(), before: undone }
    };
    let mut plan =
        crate::batches::new_plan(context, purpose, outcomes.into_iter().map(|back| back.entry).collect());
    plan.returns = returns;
    plan.warnings = hidden;
    crate::plan::node_removal::ask_hosts(&mut plan);
    plan.order = crate::batches::order(context, &plan);
    (plan, halt)
}

/// The plan of one host.
#[derive(Default)]
struct RollbackPlan {
    plan: HostPlan,
    halts: Halts,
    /// Sentences about the objects whose changes stay in force although they are as before.
    hidden: Vec<String>,
}

/// The plan of one host, with the runs that it undoes.
struct HostReturn {
    entry: HostEntry,
    runs: Vec<String>,
    halts: Halts,
    hidden: Vec<String>,
}

/// Plans one host back to where it was before a run.
async fn plan_back(
    context: &RunContext,
    host: &str,
    read: &ReadRecords,
    start: Option<ReturnPoint>,
    roles: &[String],
) -> HostReturn {
    let begun = Instant::now();
    let _plans = context.begin(host, Activity::Plan);
    let planned = match &**read {
        Err(lost) => Err(lost.clone()),
        Ok((target, records)) => {
            let ledger = Ledger::of(&records.runs).of_roles(roles);
            let project = context.project_of(host);
            let (undos, runs) = match start {
                Some(ReturnPoint::To(at)) => ledger.revert_to(at, &project, &goes_back),
                Some(ReturnPoint::From(at)) => ledger.revert_from(at, &project, &goes_back),
                None => (Vec::new(), Vec::new()),
            };
            let mut undos = brought_along(undos);
            hide_secrets(&mut undos, &records.runs);
            holders::leave_those_of_others(&mut undos, &ledger, &runs, &project);
            restarts::mark_inputs_that_stay(&mut undos, &ledger, &records.runs, &runs);
            let retained = RetainedChanges::by(&undos, &ledger, &runs, &project);
            let ids = runs.iter().filter_map(|at| records.runs.get(*at)).map(|r| r.id.clone()).collect();
            let changes = records.runs.iter().flat_map(|run| &run.changes);
            let states = changes.flat_map(|c| [(&c.object, &c.before), (&c.object, &c.after)]);
            let accounts = Accounts::of(states);
            let holders = holders::others_in_force(&undos, &ledger, &runs, &project);
            let again = again(start.and_then(|start| records.runs.get(start.place())), roles);
            let all = ProjectRuns { runs: &records.runs, ledger: &ledger, project: &project };
            plan_undos(context, target, undos, &accounts, (&retained, all, &holders), &again)
                .await
                .map(|planned| (planned, ids))
        }
    };
    let (result, runs, halts, hidden) = match planned {
        Ok((RollbackPlan { plan, halts, hidden }, ids)) => {
            context.events.send(Event::Planned { host: host.to_owned(), summary: plan.summary() });
            (HostResult::Planned(plan), ids, halts, hidden)
        }
        Err(lost) => {
            context.events.send(Event::Lost { host: host.to_owned(), message: lost.to_string() });
            (HostResult::Lost(lost), Vec::new(), Halts::new(), Vec::new())
        }
    };
    HostReturn {
        entry: HostEntry { host: host.to_owned(), result, took: begun.elapsed() },
        runs,
        halts,
        hidden,
    }
}

/// Hides the objects that a sensitive item of any recorded run changed: their contents may be shown by no revert of another change, either.
fn hide_secrets(undos: &mut [Undo], runs: &[RunRecord]) {
    let changes = runs.iter().flat_map(|run| &run.changes);
    let secrets: BTreeSet<&ObjectId> = changes.filter(|c| c.sensitive).map(|c| &c.object).collect();
    undos.iter_mut().for_each(|undo| undo.sensitive |= secrets.contains(&undo.object));
}

/// Looks at the objects and plans them back.
async fn plan_undos(
    context: &RunContext,
    target: &Target,
    mut undos: Vec<Undo>,
    accounts: &Accounts,
    (retained, runs, holders): (&RetainedChanges, ProjectRuns<'_, '_>, &[StayingObject]),
    again: &str,
) -> Result<RollbackPlan, TargetError> {
    let mut known = Knowledge::default();
    let mut objects: BTreeSet<Probe> = undos.iter().map(|u| Probe::Object(u.object.clone())).collect();
    objects.extend(undos.iter().flat_map(|u| layers::probes(&u.lies_in)));
    objects.extend(undos.iter().flat_map(layers::probes_of_links));
    objects.extend(revert::made_in::probes(&undos));
    objects.extend(undos.iter().filter_map(|u| owners_probe(&u.object)));
    objects.extend(revert::probes(&undos));
    let saved = matches!(target, Target::Host(..)).then(|| revert::saved::probe(&undos)).flatten();
    objects.extend(saved.clone());
    target.look(&objects, &mut known).await?;
    revert::shared::go_with_the_last_part(&mut undos, &known);
    without_gone_workloads(&mut undos);
    revert::translate_accounts(target, accounts, &mut undos, &mut known).await?;
    layers::settle_observed_layers(&mut undos, &known);
    if let Some(probe) = saved {
        revert::saved::mark_missing(&mut undos, &probe, &known);
    }
    revert::saved::learn_contents(target, &mut undos, None, &mut known).await?;
    undos.iter_mut().for_each(|undo| revert::shared::part_from_later_runs(undo, &mut known));
    revert::releases::follow_upgrades(&mut undos, &mut known);
    let mut asked = changed_probes(&undos, &known);
    asked.extend(revert::shared::own_part_probes(&undos, &known));
    target.look(&asked, &mut known).await?;
    revert::shared::bring_own_part_back(&mut undos, &mut known);
    let allowed = &context.options.allow_destroy;
    let mut along = leave_those_that_hold_others(target, &mut undos, retained, allowed, &mut known).await?;
    let ledger = Some(runs.ledger);
    along.extend(
        leave_those_that_others_need(target, &mut undos, holders, ledger, allowed, &mut known).await?,
    );
    let mut plan = HostPlan { host: target.name().to_owned(), ..HostPlan::default() };
    let sights = layers::sights(&undos, &known);
    let halts = undos.iter().zip(&sights);
    let halts =
        halts.filter_map(|(undo, sight)| Some((undo.object.clone(), halt(undo, sight, &known)?))).collect();
    let mut groups = revert::arrange(undos, &mut known, allowed);
    name_what_goes_along(&mut groups, &along);
    let takers = runs.takers(target, &taken_away(&groups, &known), &mut known).await?;
    name_takers(&mut groups, &takers);
    let hidden = groups.iter().flat_map(|group| &group.members).filter_map(hidden).collect();
    revert::leave_what_cannot_go(target, &mut groups, &[], again, &mut known).await?;
    for RevertGroup { address, members, after } in groups {
        let id = u32::try_from(plan.items.len()).unwrap_or(u32::MAX);
        let notes = revert::shared::notes(&members, &mut known);
        let mut item = revert::item(id, &address, members);
        item.notes.extend(notes);
        item.needs = revert::needs(&plan.items, &item, &after);
        plan.items.push(item);
    }
    revert::complete(context, target, &mut plan, retained, &mut known).await?;
    Ok(RollbackPlan { plan, halts, hidden })
}

/// The reason why no older run is taken in the place of one that changed this object.
fn halt(undo: &Undo, sight: &Sight, known: &Knowledge) -> Option<Halt> {
    if matches!(sight, Sight::Elsewhere(_)) {
        return Some(Halt::Elsewhere);
    }
    let midway = || known.observed(&undo.object).is_ok_and(|found| is_midway(undo, &found.state));
    if undo.sealed { Some(Halt::Sealed) } else { midway().then_some(Halt::Midway) }
}

/// Says that an object is as before already and not undone.
fn hidden(judged: &JudgedUndo) -> Option<String> {
    let why = judged.undo.hidden().filter(|_| matches!(judged.verdict, Verdict::Same))?;
    Some(format!(
        "{} has its previous state already and is not reverted: {why}. After a rollback of that run, roll this one back again",
        judged.undo.object
    ))
}

#[cfg(test)]
#[path = "rollback_tests.rs"]
mod tests;
