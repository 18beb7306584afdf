//! Applying a plan: one lane a host, side by side, each sending stretch after stretch. `fleet` begins with all of them; this file follows one.

mod backup;
mod brought;
mod cluster;
mod facts;
mod fetch;
pub(crate) mod fleet;
mod goal;
mod group;
mod guard;
pub(crate) mod lane;
mod outside_plan;
mod progress;
mod restart;
mod routes;
mod running;
mod send;
mod work;

use crate::apply::fleet::Whole;
use crate::apply::goal::Goal;
use crate::apply::guard::SwitchState;
use crate::apply::lane::{Lane, Next};
use crate::apply::progress::LaneProgress;
use crate::apply::send::SendState;
use crate::barriers::{Gates, RoleState, STEP};
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::{Activity, Event, HostApply, ItemResult, Question, StepAnswer, StopSwitch, TargetError};
use converge_executor::{RunEnd, RunMeta};
use converge_planner::{HostPlan, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// Items that are sent at once. The shell on the host holds them all in memory, and each fork of it costs the more the more there are.
const STRETCH: usize = 100;

/// One target in an apply.
struct TargetRun {
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
    progress: LaneProgress,
    switch: SwitchState,
    sending: SendState,
}

/// The progress of each of these roles.
fn role_states(lane: &Lane, roles: &BTreeMap<String, usize>) -> BTreeMap<String, RoleState> {
    let state = |role: &String| {
        let (open, failed) = lane.role_state(role);
        (role.clone(), RoleState { open, failed })
    };
    roles.keys().map(state).collect()
}

impl TargetRun {
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
            // A rollback needs the whole order of the apply.
            lane.keep_order();
        }
        if whole.context.options.no_deferred {
            lane.stop_at_deferred();
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
            progress: LaneProgress::new(whole.epoch, untold),
            switch: SwitchState::default(),
            sending: SendState::default(),
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
        for role in self.progress.untold.clone() {
            let (open, failed) = self.lane.role_state(&role);
            if !open && self.progress.untold.remove(&role) {
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
                let mine = |address: &str| self.roles.get(converge_resource::role_of(address)) == Some(&play);
                let own = found.iter().find(|reply| match self.goal {
                    Goal::Declared => mine(reply),
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
            self.lane
                .end_all(&ItemResult::Skipped { because: "the connection to the host was lost".to_owned() });
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
            self.target.close(&self.run, RunEnd::Finished).await;
        }
        let contents = self.lane.contents().clone();
        HostApply {
            host,
            items: self.lane.into_finished(),
            lost,
            differences,
            times: self.progress.times,
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
            let news = gates.news();
            let next = self.lane.next(&|item| gates.permit(&host, item));
            for begun in gates.take_begun() {
                let crate::barriers::Begun { play, number, of, hosts } = begun;
                self.context.events.send(Event::BatchStarted { play, number, of, hosts });
            }
            self.progress.wait.take_if(|_| !matches!(next, Next::Wait { .. } | Next::Fetch(_)));
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
                    if key != STEP && self.progress.waits.insert(key) {
                        self.context.events.send(Event::Waiting { host: host.clone(), role, on });
                    }
                    self.progress.idle_since.get_or_insert_with(|| self.progress.epoch.elapsed());
                    gates.wait(&host, news);
                    tokio::select! {
                        () = report => {}
                        () = self.stop.stopped() => {}
                        lost = self.target.gone() => return Err(lost),
                    }
                }
                Next::Replan => self.replan().await?,
                Next::Send(mut ids) => match self.target.clone() {
                    Target::Host(link, _) => {
                        ids.truncate(STRETCH);
                        self.send(&link, &ids, None).await?;
                    }
                    Target::Cluster(cluster) => self.send_to_cluster(&cluster, &ids).await?,
                },
                Next::Guarded(ids) => self.guarded(&ids).await,
                Next::Confirm => self.settle_now().await?,
                Next::Restart(id) => self.restart(id).await?,
                Next::Fetch(id) => {
                    if self.fetch_and_send(id).await? {
                        self.progress.idle_since.get_or_insert_with(|| self.progress.epoch.elapsed());
                        gates.wait(&host, news);
                        tokio::select! {
                            () = report => {}
                            () = tokio::time::sleep(fetch::PAUSE) => {}
                            () = self.stop.stopped() => {}
                            lost = self.target.gone() => return Err(lost),
                        }
                    }
                }
            }
        }
    }

    /// Sends an item when what it needs of this machine or of another host is there; true while the other host's answer is open.
    async fn fetch_and_send(&mut self, id: u32) -> Result<bool, TargetError> {
        let link = Arc::clone(self.target.host()?);
        let item = self.lane.remaining().iter().find(|i| i.id == id).cloned();
        let Some(item) = item else { return Ok(false) };
        self.progress.wait.take_if(|_| item.fetch.is_none());
        if !self.bring(&item).await {
            return Ok(false);
        }
        if item.fetch.is_none() {
            self.send(&link, &[id], None).await?;
            return Ok(false);
        }
        self.waits_for(&item.address, Activity::AskOther { address: item.address.clone() });
        let Some(reply) = self.fetch(id).await else { return Ok(self.sending.asking.is_some()) };
        self.progress.wait = None;
        self.send(&link, &[id], Some(reply)).await?;
        Ok(false)
    }

    /// Asks a person whether an item or a role may begin.
    async fn ask(&self, what: String, hosts: Vec<String>) {
        let Some(steps) = &self.context.options.steps else { return };
        let _asks = self.context.begin(&self.lane.host, Activity::Question);
        let (answer, answered) = tokio::sync::oneshot::channel();
        let question = Question { what: what.clone(), hosts, answer };
        let reply = match steps.ask.send(question) {
            Ok(()) => tokio::select! {
                reply = answered => reply.unwrap_or(StepAnswer::Quit),
                () = self.stop.stopped() => StepAnswer::Quit,
            },
            Err(_) => StepAnswer::Quit,
        };
        if reply == StepAnswer::Quit {
            self.stop.stop();
        }
        self.gates.answer(&what, reply);
    }

    async fn replan(&mut self) -> Result<(), TargetError> {
        self.sending.resume = true;
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
}
