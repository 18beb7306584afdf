//! Applying a plan: one lane a host, side by side, each sending stretch after stretch.

use crate::engine::{Engine, Link};
use crate::gate::{Gates, RoleState};
use crate::lane::{Lane, Next};
use crate::towards::Towards;
use crate::work::Work;
use crate::{
    ApplyReport, Event, FleetPlan, HostApply, HostResult, ItemResult, LostHost, RoleWork, StopSwitch,
};
use converge_planner::{HostPlan, Item, Outcome};
use converge_ssh::{Batch, Because, ShellError, Status};
use converge_store::host;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One host in an apply.
struct HostRun<'a> {
    engine: &'a Engine,
    link: Arc<Link>,
    lane: Lane,
    gates: Gates,
    run: String,
    stop: StopSwitch,
    towards: Towards,
    /// All roles that the lane has at its start.
    roles: BTreeSet<String>,
    /// Those that were said to be over.
    told: BTreeSet<String>,
    /// How long each item took, by address.
    times: BTreeMap<String, Duration>,
    sequence: u32,
    /// The host waits for a word before it goes on: something moved, and the rest was planned anew.
    resume: bool,
}

impl Engine {
    /// Applies a plan: what it shows is what happens, or it is refused by name.
    pub async fn apply(&self, plan: FleetPlan, stop: StopSwitch) -> ApplyReport {
        let begun = Instant::now();
        let purpose = plan.purpose.clone();
        let mut report = ApplyReport { run: plan.id.clone(), ..ApplyReport::default() };
        let mut plans = Vec::new();
        for entry in plan.hosts {
            match entry.result {
                HostResult::Lost(lost) => report.hosts.push(out_of_it(entry.host, lost)),
                HostResult::Planned(host_plan) => plans.push(host_plan),
            }
        }
        let (working, idle): (Vec<HostPlan>, Vec<HostPlan>) = plans.into_iter().partition(has_work);
        let gates = Gates::new(self.requires());
        for host in idle {
            report.hosts.push(self.untouched(host));
        }
        let opened = self.open_runs(&working, &report.run, &purpose).await;
        let refused = opened.iter().any(|(_, result)| result.is_err());
        let mut runs = Vec::new();
        for (host_plan, (name, link)) in working.into_iter().zip(opened) {
            match link {
                Err(lost) => report.hosts.push(out_of_it(name, lost)),
                // All locks are taken before the first change, or none.
                Ok(link) if refused => {
                    self.close_run(&link, &report.run, "refused").await;
                    let message = "nothing was changed here: the run could not begin on another host";
                    let lost = LostHost::refused(message.to_owned());
                    report.hosts.push(out_of_it(name, lost));
                }
                Ok(link) => {
                    let towards = Towards::new(&purpose, &host_plan);
                    runs.push(HostRun::new(
                        self,
                        link,
                        host_plan,
                        gates.clone(),
                        &report.run,
                        &stop,
                        towards,
                    ));
                }
            }
        }
        self.events().send(Event::RunStarted { run: report.run.clone(), roles: self.work_of(&runs) });
        runs.iter_mut().for_each(HostRun::report);
        let work = crate::engine::side_by_side(runs.into_iter().map(HostRun::complete).collect());
        let finished = self.telling_of_a_stop(&stop, work).await;
        report.hosts.extend(finished);
        let order: BTreeMap<String, usize> =
            self.hosts().iter().enumerate().map(|(n, h)| (h.clone(), n)).collect();
        report.hosts.sort_by_key(|h| order.get(&h.host).copied());
        report.took = begun.elapsed();
        report
    }

    /// Says once that a stop was asked for, while the work goes on to its end.
    async fn telling_of_a_stop<T>(&self, stop: &StopSwitch, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            biased;
            () = stop.stopped() => self.events().send(Event::Stopping),
            done = &mut work => return done,
        }
        work.await
    }

    /// What each role has to do on which host, in the order of the graph.
    fn work_of(&self, runs: &[HostRun<'_>]) -> Vec<RoleWork> {
        let graph = self.graph();
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
    fn untouched(&self, plan: HostPlan) -> HostApply {
        let host = plan.host.clone();
        let contents = plan.contents.clone();
        HostApply {
            host,
            items: Lane::new(plan).into_finished(),
            lost: None,
            differences: Vec::new(),
            times: BTreeMap::new(),
            contents,
            took: Duration::ZERO,
        }
    }
}

fn has_work(plan: &HostPlan) -> bool {
    let cut_off = plan.ours.cut_off.as_ref().is_some_and(|c| !c.busy);
    // A run that was cut off is ended by the next one, even if that finds nothing to do.
    cut_off || plan.items.iter().any(|i| i.is_pending() || matches!(i.outcome, Outcome::Adopt(_)))
}

fn out_of_it(host: String, lost: LostHost) -> HostApply {
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

impl<'a> HostRun<'a> {
    fn new(
        engine: &'a Engine,
        link: Arc<Link>,
        plan: HostPlan,
        gates: Gates,
        run: &str,
        stop: &StopSwitch,
        towards: Towards,
    ) -> Self {
        let lane = Lane::new(plan);
        let roles: BTreeSet<String> = lane.remaining().iter().map(|i| i.role.clone()).collect();
        Self {
            engine,
            link,
            lane,
            gates,
            run: run.to_owned(),
            stop: stop.clone(),
            towards,
            roles,
            told: BTreeSet::new(),
            times: BTreeMap::new(),
            sequence: 0,
            resume: false,
        }
    }

    /// Tells the other hosts how far this one is.
    fn report(&mut self) {
        let roles = self.roles.iter().map(|role| {
            let (open, failed) = self.lane.role_state(role);
            (role.clone(), RoleState { open, failed })
        });
        let roles: BTreeMap<String, RoleState> = roles.collect();
        for (role, state) in roles.iter().filter(|(_, state)| !state.open) {
            if self.told.insert(role.clone()) {
                let (host, role, failed) = (self.lane.host.clone(), role.clone(), state.failed);
                self.engine.events().send(Event::RoleFinished { host, role, failed });
            }
        }
        self.gates.report(&self.lane.host, roles);
    }

    async fn complete(mut self) -> HostApply {
        let begun = Instant::now();
        let host = self.lane.host.clone();
        let items = self.lane.remaining().iter().filter(|i| i.is_pending()).count();
        self.engine.events().send(Event::ApplyStarted { host: host.clone(), items });
        let lost = self.work().await.err();
        if let Some(lost) = &lost {
            let message = lost.message.clone();
            self.engine.events().send(Event::Lost { host: host.clone(), message });
            self.lane.end_all(&ItemResult::Skipped { because: "the loss of the host".to_owned() });
        }
        self.report();
        let mut differences = Vec::new();
        let mut lost = lost;
        if lost.is_none() {
            match self.towards.differences(self.engine, &self.link, &self.lane).await {
                Ok(found) => differences = found,
                Err(error) => lost = Some(error),
            }
            self.engine
                .events()
                .send(Event::Verified { host: host.clone(), differences: differences.clone() });
            self.engine.close_run(&self.link, &self.run, "finished").await;
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

    async fn work(&mut self) -> Result<(), LostHost> {
        loop {
            self.report();
            if self.stop.is_stopped() {
                self.lane.end_all(&ItemResult::Stopped);
                return Ok(());
            }
            let gates = self.gates.clone();
            let report = gates.next_report();
            tokio::pin!(report);
            report.as_mut().enable();
            let host = self.lane.host.clone();
            let no_deferred = self.engine.options().no_deferred;
            match self.lane.next(no_deferred, &|role| gates.check(&host, role)) {
                Next::Done => return Ok(()),
                Next::Wait(role) => {
                    let on = gates.waits_for(&role);
                    self.engine.events().send(Event::Waiting { host, role, on });
                    tokio::select! {
                        () = report => {}
                        () = self.stop.stopped() => {}
                    }
                }
                Next::Replan => self.replan().await?,
                Next::Send(count) => self.send(count).await?,
            }
        }
    }

    async fn replan(&mut self) -> Result<(), LostHost> {
        self.resume = true;
        let fresh = self.towards.replan(self.engine, &self.link, &self.lane).await?;
        for item in self.lane.rebind(fresh) {
            let host = self.lane.host.clone();
            let contents = self.lane.contents().clone();
            self.engine.events().send(Event::Resolved { host, item: Box::new(item), contents });
        }
        Ok(())
    }

    /// Sends one stretch whole and takes its answers as they come.
    async fn send(&mut self, count: usize) -> Result<(), LostHost> {
        let stop_file = host::stop_file(&self.run);
        let mut works: BTreeMap<u32, Work> = BTreeMap::new();
        let mut items = Vec::new();
        let mut last_piece: BTreeMap<u32, u32> = BTreeMap::new();
        let mut next = 1;
        let stretch: Vec<Item> = self.lane.remaining().iter().take(count).cloned().collect();
        for item in &stretch {
            let work = match Work::new(item, &self.lane, &self.run, &mut self.sequence) {
                Ok(work) => work,
                Err(message) => {
                    // Only what another version of this program has planned can come here.
                    self.finish(
                        item,
                        ItemResult::Failed { message, output: String::new() },
                        &[],
                        Duration::ZERO,
                    );
                    continue;
                }
            };
            let needs = item.needs.iter().filter_map(|n| last_piece.get(n).copied()).collect();
            let pieces = work.items(needs, &mut next);
            if let Some(last) = pieces.last() {
                last_piece.insert(item.id, last.id);
            }
            for piece in &pieces {
                works.insert(piece.id, work.clone());
            }
            items.extend(pieces);
        }
        if items.is_empty() {
            return Ok(());
        }
        let prelude = std::mem::take(&mut self.resume).then(|| host::resume_script(&self.run));
        let batch = Batch { prelude, stop_file: Some(stop_file.clone()), items };
        let mut events = match self.link.shell.run(&batch) {
            Ok(events) => events,
            Err(error) => return Err(self.link.lost(&error)),
        };
        let mut stopping = false;
        let mut running: BTreeMap<u32, Running> = BTreeMap::new();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.stop.stopped(), if !stopping => {
                    stopping = true;
                    self.link.raise_stop(&stop_file).await;
                    continue;
                }
            };
            let event = match event {
                None => return Ok(()),
                Some(Ok(event)) => event,
                Some(Err(error)) => return Err(self.broken(&error, running)),
            };
            self.take(event, &works, &last_piece, &mut running);
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
                if let Entry::Vacant(first) = running.entry(item.id) {
                    first.insert(Running::default());
                    let address = item.address.clone();
                    self.engine.events().send(Event::ItemStarted { host, id: item.id, address });
                }
            }
            Said::Output { bytes, .. } => {
                let said = running.entry(item.id).or_default();
                let text = work.shown(said.complete_lines(&bytes));
                if !item.sensitive && !text.is_empty() {
                    self.engine.events().send(Event::ItemOutput { host, id: item.id, text });
                }
            }
            Said::Finished { status, duration, .. } => {
                let mut said = running.remove(&item.id).unwrap_or_default();
                said.took += duration;
                let is_last = last_piece.get(&item.id) == Some(&piece);
                if status.success() && !is_last {
                    running.insert(item.id, said);
                } else {
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
            self.lane.window(before, after);
        }
        match reading.result {
            None => self.lane.ask_to_look_again(),
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
        if !matches!(item.outcome, Outcome::Adopt(_)) || result.is_bad() {
            self.engine.events().send(Event::ItemFinished {
                host: self.lane.host.clone(),
                id: item.id,
                address: item.address.clone(),
                result,
                took,
            });
        }
    }

    /// The link broke in the middle: what was running is unknown, the rest was not tried.
    fn broken(&mut self, error: &ShellError, running: BTreeMap<u32, Running>) -> LostHost {
        let mut lost = self.link.lost(error);
        let open: Vec<Item> =
            self.lane.remaining().iter().filter(|i| running.contains_key(&i.id)).cloned().collect();
        if !open.is_empty() {
            let names: Vec<&str> = open.iter().map(|item| item.address.as_str()).collect();
            lost.message.push_str(&format!("; in the middle of: {}", names.join(", ")));
        }
        for item in open {
            let result = ItemResult::Unknown { message: lost.message.clone() };
            self.finish(&item, result, &[], Duration::ZERO);
        }
        lost
    }
}

#[derive(Debug, Default)]
struct Running {
    output: Vec<u8>,
    /// How much of it was shown.
    told: usize,
    took: Duration,
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
