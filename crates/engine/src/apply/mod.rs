//! Applying a plan: one lane a host, side by side, each sending stretch after stretch.

mod backup;
mod cluster;
mod facts;
mod fetch;
mod goal;
mod group;
mod guard;
pub(crate) mod lane;
mod outside_plan;
mod progress;
mod restart;
mod work;

use crate::apply::goal::Goal;
use crate::apply::lane::{Lane, Next};
use crate::apply::work::Work;
use crate::barriers::{Gates, RoleState, STEP};
use crate::batches::has_work_on;
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::event::InProgress;
use crate::{
    Activity, ApplyReport, Event, FleetPlan, HostApply, HostResult, ItemResult, Purpose, Question, RoleWork,
    StepAnswer, StopSwitch, TargetError, TimedItem,
};
use converge_executor::RunMeta;
use converge_host::Link;
use converge_host::records as host;
use converge_planner::{HostPlan, Item, Outcome};
use converge_ssh::{Batch, Because, ShellError, Status};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Items that are sent at once. The shell on the host holds them all in memory, and each fork of it costs the more the more there are.
const STRETCH: usize = 100;

/// So many items are named where all that had begun would be too many.
const SHOWN: usize = 3;

/// One host in an apply.
struct HostRun {
    context: Arc<RunContext>,
    target: Target,
    lane: Lane,
    gates: Gates,
    /// The record that opens the run on the host, and opens it again after a restart.
    meta: RunMeta,
    run: String,
    stop: StopSwitch,
    goal: Goal,
    /// All roles of the host with their plays.
    roles: BTreeMap<String, usize>,
    /// Plays that the host is through with.
    through: BTreeSet<usize>,
    /// Waits that were told.
    waits: BTreeSet<String>,
    /// Roles with work here that were not said to be over yet.
    untold: BTreeSet<String>,
    /// The duration of each item, by address.
    times: BTreeMap<String, Duration>,
    /// When the apply began, and since when this host has done nothing but wait.
    epoch: Instant,
    idle_since: Option<Duration>,
    sequence: u32,
    /// When the switch behind the guarded items was armed last.
    armed: Option<Instant>,
    /// Switches of this run that are over.
    switches: u32,
    /// The item for which another host is asked: its address, and until when.
    asking: Option<(String, Instant)>,
    /// Items, by address, that are not to be done together with others.
    alone: BTreeSet<String>,
    /// The present wait for others, by the key of what it waits for.
    wait: Option<(String, InProgress)>,
    /// Items that the host does together now.
    together: Option<InProgress>,
    /// The host waits for a word before it goes on: something moved, and the rest was planned anew.
    resume: bool,
}

/// Applies a plan: what it shows is what happens, or it is refused by name.
pub(crate) async fn apply(context: &Arc<RunContext>, plan: FleetPlan, stop: StopSwitch) -> ApplyReport {
    let begun = Instant::now();
    let _applies = context.begin_all(Activity::ApplyAll);
    let purpose = plan.purpose.clone();
    let gates = crate::batches::gates(context, &plan);
    let mut report =
        ApplyReport { run: plan.id.clone(), clusters: plan.clusters.clone(), ..ApplyReport::default() };
    let mut plans = Vec::new();
    for entry in plan.hosts {
        match entry.result {
            HostResult::Lost(lost) => report.hosts.push(out_of_it(entry.host, lost)),
            HostResult::Planned(host_plan) => plans.push(host_plan),
        }
    }
    let (working, idle): (Vec<HostPlan>, Vec<HostPlan>) = plans.into_iter().partition(has_work_on);
    if matches!(purpose, Purpose::Converge) {
        let facts = context.pool.other_facts().clone();
        for plan in working.iter().chain(&idle) {
            gates.alters(&plan.host, facts.items_of(&plan.host));
        }
    }
    for host in idle {
        // Its plan is not the one that alters facts: a saved plan refuses that.
        for item in gates.altering(&host.host) {
            gates.altered(&host.host, &item, Some("is not run"));
        }
        report.hosts.push(untouched(host, &gates));
    }
    if let Some(steps) = &context.options.steps {
        let pending = |plan: &HostPlan| {
            let items = plan.items.iter().filter(|i| i.is_pending()).cloned();
            items.map(|item| (plan.host.clone(), item)).collect::<Vec<_>>()
        };
        gates.ask_before(steps.by_role, working.iter().flat_map(pending));
    }
    let metas = working
        .iter()
        .map(|plan| crate::connect::runs::run_meta(context, plan, &report.run, &purpose))
        .collect::<Vec<_>>();
    let opened = crate::connect::runs::open_runs(context, &working, &metas).await;
    // A host that went away since the plan is taken out; a host that refuses stops all before the first change.
    let refused = opened.iter().any(|(_, r)| r.as_ref().is_err_and(|lost| !lost.is_unreachable()));
    let whole = Whole { context, run: &report.run, stop: &stop, epoch: begun };
    let mut runs = Vec::new();
    for ((host_plan, meta), (name, target)) in working.into_iter().zip(metas).zip(opened) {
        match target {
            Err(lost) => {
                gates.lose(&name);
                report.hosts.push(out_of_it(name, lost));
            }
            // All locks are taken before the first change, or none.
            Ok(target) if refused => {
                crate::connect::runs::close_run(&target, &report.run, "refused").await;
                let message = "nothing was changed here: the run could not begin on another host";
                let lost = TargetError::Refused(message.to_owned());
                report.hosts.push(out_of_it(name, lost));
            }
            Ok(target) => {
                let goal = Goal::new(&purpose, &host_plan);
                runs.push(HostRun::new(&whole, target, host_plan, meta, gates.clone(), goal));
            }
        }
    }
    context.events.send(Event::RunStarted { run: report.run.clone(), roles: work_of(context, &runs) });
    runs.iter_mut().for_each(HostRun::report);
    let work = crate::tasks::in_parallel(runs.into_iter().map(HostRun::complete).collect::<Vec<_>>());
    let finished = telling_of_a_stop(context, &stop, work).await;
    report.hosts.extend(finished);
    let order: BTreeMap<String, usize> =
        context.targets().iter().enumerate().map(|(n, h)| (h.clone(), n)).collect();
    report.hosts.sort_by_key(|h| order.get(&h.host).copied());
    report.critical_path = crate::critical_path(&gates.take_timeline());
    report.took = begun.elapsed();
    report
}

/// Says once that a stop was asked for, while the work goes on to its end.
async fn telling_of_a_stop<T>(context: &RunContext, stop: &StopSwitch, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    tokio::select! {
        biased;
        () = stop.stopped() => context.events.send(Event::Stopping),
        done = &mut work => return done,
    }
    work.await
}

/// The work of each role on each host, in the order of the graph.
fn work_of(context: &RunContext, runs: &[HostRun]) -> Vec<RoleWork> {
    let graph = &context.graph;
    let requires = |role: &str| graph.requires(role).into_iter().map(str::to_owned).collect();
    let mut all: Vec<RoleWork> = graph
        .order()
        .iter()
        .map(|role| RoleWork { role: role.clone(), requires: requires(role), items: BTreeMap::new() })
        .collect();
    for run in runs {
        for item in run.lane.remaining().iter().filter(|i| i.is_pending()) {
            // A role that is gone from the playbook may still be rolled back.
            let at = all.iter().position(|w| w.role == item.role).unwrap_or_else(|| {
                all.push(RoleWork { role: item.role.clone(), ..RoleWork::default() });
                all.len() - 1
            });
            if let Some(work) = all.get_mut(at) {
                *work.items.entry(run.lane.host.clone()).or_default() += 1;
            }
        }
    }
    all.retain(|work| !work.items.is_empty());
    all
}

/// A host without work still reports what was wrong or refused at plan time.
fn untouched(plan: HostPlan, gates: &Gates) -> HostApply {
    let host = plan.host.clone();
    let contents = plan.contents.clone();
    let lane = Lane::new(plan);
    gates.report(&host, role_states(&lane, &gates.declared(&host)));
    HostApply {
        host,
        items: lane.into_finished(),
        lost: None,
        differences: Vec::new(),
        times: BTreeMap::new(),
        contents,
        took: Duration::ZERO,
    }
}

/// The progress of each of these roles.
fn role_states(lane: &Lane, roles: &BTreeMap<String, usize>) -> BTreeMap<String, RoleState> {
    let state = |role: &String| {
        let (open, failed) = lane.role_state(role);
        (role.clone(), RoleState { open, failed })
    };
    roles.keys().map(state).collect()
}

fn out_of_it(host: String, lost: TargetError) -> HostApply {
    HostApply {
        host,
        items: Vec::new(),
        lost: Some(lost),
        differences: Vec::new(),
        times: BTreeMap::new(),
        contents: BTreeMap::new(),
        took: Duration::ZERO,
    }
}

/// The data that all hosts of an apply share.
struct Whole<'a> {
    context: &'a Arc<RunContext>,
    run: &'a str,
    stop: &'a StopSwitch,
    epoch: Instant,
}

impl HostRun {
    fn new(
        whole: &Whole<'_>,
        target: Target,
        plan: HostPlan,
        meta: RunMeta,
        gates: Gates,
        goal: Goal,
    ) -> Self {
        let mut lane = Lane::new(plan);
        if matches!(goal, Goal::Saved(_)) {
            // The way back needs the whole order of the way there.
            lane.keep_order();
        }
        let roles = gates.declared(&lane.host);
        gates.enter(&lane.host);
        let untold = lane.remaining().iter().map(|i| i.role.clone()).collect();
        Self {
            context: Arc::clone(whole.context),
            target,
            lane,
            gates,
            run: whole.run.to_owned(),
            meta,
            stop: whole.stop.clone(),
            goal,
            roles,
            through: BTreeSet::new(),
            waits: BTreeSet::new(),
            untold,
            times: BTreeMap::new(),
            epoch: whole.epoch,
            idle_since: None,
            sequence: 0,
            armed: None,
            switches: 0,
            asking: None,
            alone: BTreeSet::new(),
            wait: None,
            together: None,
            resume: false,
        }
    }

    /// Tells the other hosts how far this one is.
    fn report(&mut self) {
        for (item, result) in self.lane.finished() {
            let bad = matches!(
                result,
                ItemResult::Failed { .. }
                    | ItemResult::Refused { .. }
                    | ItemResult::PutBack { .. }
                    | ItemResult::Unknown { .. }
            );
            // Errors of the plan were counted when the batches were made.
            let planned = matches!(item.outcome, Outcome::Failed(_) | Outcome::Refused(_));
            if bad
                && !planned
                && let Some(play) = self.roles.get(&item.role)
            {
                self.gates.fail(&self.lane.host, *play, &format!("`{}` failed", item.address));
            }
        }
        for role in self.untold.clone() {
            let (open, failed) = self.lane.role_state(&role);
            if !open && self.untold.remove(&role) {
                let host = self.lane.host.clone();
                self.context.events.send(Event::RoleFinished { host, role, failed });
            }
        }
        self.gates.report(&self.lane.host, role_states(&self.lane, &self.roles));
    }

    /// Ends the plays of which nothing is left here. Where others wait for it, the roles' checks must hold first.
    async fn end_plays(&mut self) -> Result<(), TargetError> {
        let open: BTreeSet<usize> =
            self.lane.remaining().iter().filter_map(|i| self.roles.get(&i.role)).copied().collect();
        let plays: BTreeSet<usize> = self.roles.values().copied().collect();
        let host = self.lane.host.clone();
        for play in plays.difference(&open).copied().collect::<Vec<_>>() {
            if !self.through.insert(play) {
                continue;
            }
            if self.gates.is_awaited(&host, play) {
                let _verifies = self.context.begin(&host, Activity::Verify);
                let found =
                    self.goal.differences(&self.context, &self.target, &self.lane, &self.stop).await?;
                let mine = |address: &str| {
                    let role = address.split_once('/').map_or(address, |(role, _)| role);
                    self.roles.get(role) == Some(&play)
                };
                let own = found.iter().find(|said| match self.goal {
                    Goal::Declared => mine(said),
                    Goal::Saved(_) => true,
                });
                if let Some(difference) = own {
                    self.gates.fail(&host, play, difference);
                }
            }
            self.gates.finish(&host, play);
        }
        Ok(())
    }

    async fn complete(mut self) -> HostApply {
        let begun = Instant::now();
        let host = self.lane.host.clone();
        let items = self.lane.remaining().iter().filter(|i| i.is_pending()).count();
        self.context.events.send(Event::ApplyStarted { host: host.clone(), items });
        let lost = self.work().await.err();
        if let Some(lost) = &lost {
            let message = lost.to_string();
            self.context.events.send(Event::Lost { host: host.clone(), message });
            self.lane.end_all(&ItemResult::Skipped { because: "the host was lost".to_owned() });
            self.gates.lose(&host);
        }
        self.gates.leave(&host);
        let mut differences = Vec::new();
        let mut lost = lost;
        if lost.is_none() {
            let verifies = self.context.begin(&host, Activity::Verify);
            match self.goal.differences(&self.context, &self.target, &self.lane, &self.stop).await {
                Ok(found) => differences = found,
                Err(error) => lost = Some(error),
            }
            self.context
                .events
                .send(Event::Verified { host: host.clone(), differences: differences.clone() });
            drop(verifies);
            let _closes = self.context.begin(&host, Activity::Close);
            crate::connect::runs::close_run(&self.target, &self.run, "finished").await;
        }
        let contents = self.lane.contents().clone();
        HostApply {
            host,
            items: self.lane.into_finished(),
            lost,
            differences,
            times: self.times,
            contents,
            took: begun.elapsed(),
        }
    }

    async fn work(&mut self) -> Result<(), TargetError> {
        loop {
            self.settle().await?;
            self.report();
            if self.stop.is_stopped() {
                self.lane.end_all(&ItemResult::Stopped);
                return Ok(());
            }
            let gates = self.gates.clone();
            let report = gates.next_report();
            tokio::pin!(report);
            report.as_mut().enable();
            self.tell_facts().await?;
            self.end_plays().await?;
            let host = self.lane.host.clone();
            let no_deferred = self.context.options.no_deferred;
            let news = gates.news();
            let next = self.lane.next(no_deferred, &|item| gates.permit(&host, item));
            for begun in gates.take_begun() {
                let crate::barriers::Begun { play, number, of, hosts } = begun;
                self.context.events.send(Event::BatchStarted { play, number, of, hosts });
            }
            self.wait.take_if(|_| !matches!(next, Next::Wait { .. } | Next::Fetch(_)));
            match next {
                Next::Done => {
                    self.report();
                    return self.end_plays().await;
                }
                Next::Wait { role, on, key } => {
                    // Items may have been skipped for good on the way here.
                    self.report();
                    if let Some((what, hosts)) = gates.take_question() {
                        self.ask(what, hosts).await;
                        continue;
                    }
                    if key != STEP {
                        self.waits_for(&key, Activity::Wait { role: role.clone(), on: on.clone() });
                    }
                    if key != STEP && self.waits.insert(key) {
                        self.context.events.send(Event::Waiting { host: host.clone(), role, on });
                    }
                    self.idle_since.get_or_insert_with(|| self.epoch.elapsed());
                    gates.wait(&host, news);
                    tokio::select! {
                        () = report => {}
                        () = self.stop.stopped() => {}
                    }
                }
                Next::Replan => self.replan().await?,
                Next::Send(mut ids) => match self.target.clone() {
                    Target::Host(link) => {
                        ids.truncate(STRETCH);
                        self.send(&link, &ids, None).await?;
                    }
                    Target::Cluster(cluster) => self.send_to_cluster(&cluster, &ids).await?,
                },
                Next::Guarded(ids) => self.guarded(&ids).await,
                Next::Confirm => self.settle_now().await?,
                Next::Restart(id) => self.restart(id).await?,
                Next::Fetch(id) => {
                    let link = Arc::clone(self.target.host()?);
                    let item = self.lane.remaining().iter().find(|i| i.id == id).cloned();
                    let Some(item) = item else { continue };
                    self.wait.take_if(|_| item.fetch.is_none());
                    if !self.bring(&item).await {
                        continue;
                    }
                    if item.fetch.is_none() {
                        self.send(&link, &[id], None).await?;
                        continue;
                    }
                    self.waits_for(&item.address, Activity::AskOther { address: item.address.clone() });
                    if let Some(said) = self.fetch(id).await {
                        self.wait = None;
                        self.send(&link, &[id], Some(said)).await?;
                    } else if self.asking.is_some() {
                        self.idle_since.get_or_insert_with(|| self.epoch.elapsed());
                        gates.wait(&host, news);
                        tokio::select! {
                            () = report => {}
                            () = tokio::time::sleep(fetch::PAUSE) => {}
                            () = self.stop.stopped() => {}
                        }
                    }
                }
            }
        }
    }

    /// Asks a person whether an item or a role may begin.
    async fn ask(&self, what: String, hosts: Vec<String>) {
        let Some(steps) = &self.context.options.steps else { return };
        let _asks = self.context.begin(&self.lane.host, Activity::Question);
        let (answer, answered) = tokio::sync::oneshot::channel();
        let question = Question { what: what.clone(), hosts, answer };
        let said = match steps.ask.send(question) {
            Ok(()) => tokio::select! {
                said = answered => said.unwrap_or(StepAnswer::Quit),
                () = self.stop.stopped() => StepAnswer::Quit,
            },
            Err(_) => StepAnswer::Quit,
        };
        if said == StepAnswer::Quit {
            self.stop.stop();
        }
        self.gates.answer(&what, said);
    }

    async fn replan(&mut self) -> Result<(), TargetError> {
        self.resume = true;
        let _replans = self.context.begin(&self.lane.host, Activity::Replan);
        let before = self.gates.before(&self.lane.host);
        let mut fresh = self.goal.replan(&self.context, &self.target, &self.lane, before).await?;
        for item in &mut fresh.items {
            item.waits_for_others.retain(|(other, address)| self.gates.is_to_alter(other, address));
        }
        for item in self.lane.rebind(fresh) {
            let host = self.lane.host.clone();
            let contents = self.lane.contents().clone();
            self.context.events.send(Event::Resolved { host, item: Box::new(item), contents });
        }
        Ok(())
    }

    /// Sends one stretch whole and takes its answers as they come. `said` is what another host said for its one item.
    async fn send(
        &mut self,
        link: &Link,
        ids: &[u32],
        said: Option<bytes::Bytes>,
    ) -> Result<(), TargetError> {
        let stop_file = host::stop_file(&self.run);
        let mut sent = group::Stretch::default();
        let stretch: Vec<Item> =
            self.lane.remaining().iter().filter(|i| ids.contains(&i.id)).cloned().collect();
        let _sends = self.context.begin(&self.lane.host, Activity::Stretch { items: stretch.len() });
        self.together = None;
        let mut before = None;
        for item in &stretch {
            let work = match Work::given(item, &self.lane, &self.run, &mut self.sequence, said.clone()) {
                Ok(work) => work,
                Err(error) => {
                    let failed = ItemResult::Failed { message: error.to_string(), output: String::new() };
                    self.finish(item, failed, &[], Duration::ZERO);
                    continue;
                }
            };
            let alone = self.alone.contains(&item.address);
            let beside = before.replace(item).is_some_and(|before| self.lane.are_beside(before, item));
            sent.push(work, alone, beside);
        }
        sent.close();
        let mut unanswered = sent.unanswered();
        let group::Stretch { items, works, groups, last_piece, .. } = sent;
        if items.is_empty() {
            return Ok(());
        }
        let phases = self.context.options.phases;
        let mut prelude = if phases { host::TELL_PHASES.to_owned() } else { String::new() };
        if works.values().any(Work::watches_facts) && link.must_learn_to_watch() {
            prelude.push_str(&converge_host::facts::watch_script());
        }
        if std::mem::take(&mut self.resume) {
            prelude.push_str(&host::resume_script(&self.run));
        }
        let prelude = (!prelude.is_empty()).then_some(prelude);
        let batch = Batch { prelude, stop_file: Some(stop_file.clone()), items };
        let mut events = match link.shell.run(&batch) {
            Ok(events) => events,
            Err(error) => return Err(link.lost(&error)),
        };
        let mut stopping = false;
        let mut running: BTreeMap<u32, Running> = BTreeMap::new();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.stop.stopped(), if !stopping => {
                    stopping = true;
                    link.raise_stop(&stop_file).await;
                    continue;
                }
            };
            let event = match event {
                None => {
                    self.context.tell_traffic(&link.host, Some(link.shell.traffic()));
                    return Ok(());
                }
                Some(Ok(event)) => event,
                Some(Err(error)) => return Err(self.broken(link, &error, &unanswered, &running)),
            };
            if let converge_ssh::Event::Finished { id, .. } | converge_ssh::Event::Skipped { id, .. } = &event
                && let Some(work) = works.get(id)
                && last_piece.get(&work.item.id) == Some(id)
            {
                unanswered.remove(&work.item.id);
            }
            let (converge_ssh::Event::Started(id)
            | converge_ssh::Event::Output { id, .. }
            | converge_ssh::Event::Finished { id, .. }
            | converge_ssh::Event::Skipped { id, .. }) = &event;
            match groups.get(id) {
                Some(group) => {
                    if matches!(
                        event,
                        converge_ssh::Event::Finished { .. } | converge_ssh::Event::Skipped { .. }
                    ) {
                        group.members.iter().for_each(|work| _ = unanswered.remove(&work.item.id));
                    }
                    self.take_group(event, group, &mut running);
                }
                None => self.take(event, &works, &last_piece, &mut running),
            }
        }
    }

    fn take(
        &mut self,
        event: converge_ssh::Event,
        works: &BTreeMap<u32, Work>,
        last_piece: &BTreeMap<u32, u32>,
        running: &mut BTreeMap<u32, Running>,
    ) {
        use converge_ssh::Event as Said;
        let (Said::Started(piece)
        | Said::Output { id: piece, .. }
        | Said::Finished { id: piece, .. }
        | Said::Skipped { id: piece, .. }) = event;
        let Some(work) = works.get(&piece) else { return };
        let item = &work.item;
        let host = self.lane.host.clone();
        match event {
            Said::Started(_) => {
                if item.guard.is_some() {
                    self.armed = Some(Instant::now());
                }
                if let Entry::Vacant(first) = running.entry(item.id) {
                    first.insert(Running { begun: self.epoch.elapsed(), ..Running::default() });
                    let address = item.address.clone();
                    self.context.events.send(Event::ItemStarted { host, id: item.id, address });
                }
            }
            Said::Output { bytes, .. } => {
                let said = running.entry(item.id).or_default();
                let lines = said.complete_lines(&bytes);
                self.tell_phases(item.id, &work.spec().token, lines);
                let text = work.shown(lines);
                if !item.sensitive && !text.is_empty() {
                    self.context.events.send(Event::ItemOutput { host, id: item.id, text });
                }
            }
            Said::Finished { status, duration, .. } => {
                let mut said = running.remove(&item.id).unwrap_or_default();
                said.took += duration;
                let is_last = last_piece.get(&item.id) == Some(&piece);
                if status.success() && !is_last {
                    running.insert(item.id, said);
                } else {
                    self.gates.record(TimedItem {
                        host,
                        address: item.address.clone(),
                        begun: said.begun,
                        ended: self.epoch.elapsed(),
                        waited: self.idle_since.take(),
                    });
                    self.conclude(work, status, &said);
                }
            }
            Said::Skipped { because, .. } => {
                if self.lane.remaining().iter().any(|i| i.id == item.id) && because == Because::Stopped {
                    self.finish(item, ItemResult::Stopped, &[], Duration::ZERO);
                }
                // A need that failed is the lane's own knowledge: it says so when it decides what comes next.
            }
        }
    }

    /// The last piece of an item is over, or one failed.
    fn conclude(&mut self, work: &Work, status: Status, said: &Running) {
        let reading = work.read(status, &said.output);
        if let Some((before, after)) = &reading.window {
            self.lane.window(&work.item, before, after);
        }
        match reading.result {
            None => self.begin_again(&work.item),
            Some(result) => {
                let result = work.hide(result);
                self.finish(&work.item, result, &reading.after, said.took);
            }
        }
        self.report();
    }

    fn finish(
        &mut self,
        item: &Item,
        result: ItemResult,
        after: &[(converge_resource::ObjectId, converge_resource::State)],
        took: Duration,
    ) {
        self.lane.finish(item.id, result.clone(), after);
        if !took.is_zero() {
            self.times.insert(item.address.clone(), took);
        }
        // The result of a guarded item is reported when the guard has ended.
        let held = self.lane.unconfirmed().iter().any(|(i, _)| i.address == item.address);
        if !held && (!matches!(item.outcome, Outcome::Adopt(_)) || result.is_bad()) {
            self.context.events.send(Event::ItemFinished {
                host: self.lane.host.clone(),
                id: item.id,
                address: item.address.clone(),
                result,
                took,
            });
        }
    }

    /// The link broke in the middle. The host has all that was sent and goes on with it for a while: what it did not answer is unknown.
    fn broken(
        &mut self,
        link: &Link,
        error: &ShellError,
        unanswered: &BTreeSet<u32>,
        running: &BTreeMap<u32, Running>,
    ) -> TargetError {
        let mut lost = link.lost(error);
        let open = self.lane.remaining().iter().filter(|i| unanswered.contains(&i.id));
        let open: Vec<Item> = open.cloned().collect();
        let begun: Vec<&str> =
            open.iter().filter(|i| running.contains_key(&i.id)).map(|i| i.address.as_str()).collect();
        if !begun.is_empty() {
            // The items of one group begin together.
            let named = begun.get(..SHOWN).unwrap_or(&begun);
            let more = match begun.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            lost = lost.map_message(|why| format!("{why}; in the middle of: {}{more}", named.join(", ")));
        }
        for item in &open {
            let message = match running.contains_key(&item.id) {
                true => lost.to_string(),
                false => "it was sent to the host, and no answer came".to_owned(),
            };
            self.finish(item, ItemResult::Unknown { message }, &[], Duration::ZERO);
        }
        lost
    }
}

#[derive(Debug, Default)]
struct Running {
    output: Vec<u8>,
    /// The part of it that was shown.
    told: usize,
    took: Duration,
    /// When it began, since the apply did.
    begun: Duration,
}

impl Running {
    /// Takes more output; gives back the lines that are whole now. A line of ours may come in parts.
    fn complete_lines(&mut self, more: &[u8]) -> &[u8] {
        self.output.extend_from_slice(more);
        let new = self.output.get(self.told..).unwrap_or_default();
        let whole = new.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let from = self.told;
        self.told += whole;
        self.output.get(from..self.told).unwrap_or_default()
    }
}
