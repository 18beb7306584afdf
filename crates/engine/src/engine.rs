//! The engine: one project, its hosts, and the sessions that stay open from the plan to the apply.

use crate::facts::{FACT_GROUPS, Groups};
use crate::heart::Heart;
use crate::observe::{Beside, observe};
use crate::ownership::Declares;
use crate::project::{HostSource, Part, role_graph, shown};
use crate::reach::{ClusterLink, Reach};
use crate::ways::no_session;
use crate::{
    Event, EventSink, FleetPlan, HostAnswer, HostEntry, HostResult, LostHost, Options, Purpose, Steps,
};
use converge_ledger::{NewBase, OwnedRecords};
use converge_model::inventory::Connection;
use converge_model::{Facts, Needs, Project};
use converge_planner::{Folded, History, HostPlan, Knowledge, Outcome, Outputs, RoleGraph, Summary, fold};
use converge_ssh::{Batch, Item, ItemResult, Session, Shell, ShellError, Stderr};
use converge_syntax::{Diagnostics, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Rounds of questions to one host for one plan. Each answers what was not known before, and what an item asks for follows from
/// what it was told, so they end by themselves, after three as a rule; this many are a fault of the program.
const ROUNDS: usize = 100;

/// An open session with a host, at the privilege at which its items run.
pub(crate) struct Link {
    pub host: String,
    pub shell: Shell,
    session: Session,
    become_: converge_ssh::Become,
    /// Beats while a run is open in this session.
    heart: Mutex<Option<Heart>>,
    /// What the host said about itself, once it was asked.
    facts: Mutex<Option<KnownFacts>>,
    /// Whether its shell knows how to look for facts that foreign code has moved.
    watches_facts: AtomicBool,
    /// What its next run gives it as its base of what is managed.
    pub base: Mutex<Option<NewBase>>,
}

impl Link {
    /// The host dropped out.
    pub fn lost(&self, error: &ShellError) -> LostHost {
        tracing::debug!(host = self.host, %error, "lost");
        let is_open = || self.heart.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        match error {
            ShellError::Closed { said, .. } if said.contains("signal TERM") && is_open() => LostHost {
                unreachable: true,
                ..LostHost::refused(format!(
                    "the host has ended this run by itself: it heard nothing of this controller for {} s (was the controller suspended, or the network cut?); what it has done stands in its records, and the next run goes on from there",
                    converge_store::host::SILENCE
                ))
            },
            error => lost(&self.session, error),
        }
    }

    /// Makes the loop on the host skip what has not begun.
    pub async fn raise_stop(&self, stop_file: &str) {
        let script = format!(": > {}", converge_resource::quote(stop_file));
        match self.session.shell(&self.become_).await {
            Ok(shell) => {
                let batch = Batch::of(vec![Item::new(1, script)]);
                if let Err(error) = shell.run_to_end(&batch).await {
                    tracing::warn!(host = self.host, %error, "the stop was not heard");
                }
            }
            Err(error) => tracing::warn!(host = self.host, %error, "the stop was not heard"),
        }
    }

    /// Lets the host know that this run's controller is alive, until [`Link::end_beating`].
    pub fn beat(&self, run: &str) {
        let heart = Heart::of(self.session.clone(), self.become_.clone(), run);
        *self.heart.lock().unwrap_or_else(PoisonError::into_inner) = Some(heart);
    }

    /// The run is over here.
    pub fn end_beating(&self) {
        *self.heart.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// A shell beside what the host is doing: what is asked there is for the caller alone.
    pub async fn aside(&self) -> Result<Aside, ShellError> {
        let shell = self.session.shell(&self.become_).await?;
        // As for the session's own shell: nothing waits for this answer.
        let _answers =
            shell.run(&Batch { prelude: Some(converge_store::host::library()), ..Batch::default() })?;
        Ok(Aside(shell))
    }

    /// Runs one script there.
    pub async fn ask_beside(&self, script: &str, seconds: u64) -> Result<ItemResult, ShellError> {
        self.aside().await?.ask(script, seconds).await
    }

    fn facts(&self) -> std::sync::MutexGuard<'_, Option<KnownFacts>> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn known_facts(&self) -> Option<serde_json::Value> {
        self.facts().as_ref().map(|known| known.now.clone())
    }

    /// What it said last, and what it said before this run changed anything.
    fn told(&self) -> Option<(serde_json::Value, serde_json::Value)> {
        self.facts().as_ref().map(|known| (known.now.clone(), known.before.clone()))
    }

    /// The groups that are still to be asked; `None` when all that is wanted is known.
    pub fn unknown_facts(&self, wanted: &Groups) -> Option<Groups> {
        match &*self.facts() {
            None => Some(wanted.clone()),
            Some(known) if known.stale => Some(wanted.clone()),
            Some(known) if wanted.is_subset(&known.groups) => None,
            Some(known) => Some(wanted.difference(&known.groups).copied().collect()),
        }
    }

    pub fn learn_facts(&self, facts: serde_json::Value, groups: &Groups) {
        let mut known = self.facts();
        let known = known.get_or_insert_with(KnownFacts::default);
        known.stale = false;
        known.groups.extend(groups);
        let serde_json::Value::Object(new) = facts else { return };
        for (name, value) in new {
            // What is asked for the first time in the middle of a run is the nearest to what was before it.
            known
                .before
                .as_object_mut()
                .and_then(|b| (!b.contains_key(&name)).then(|| b.insert(name.clone(), value.clone())));
            known.now.as_object_mut().and_then(|now| now.insert(name, value));
        }
    }

    /// The run has changed the host: its facts are asked again before anything is planned with them.
    pub fn facts_are_stale(&self) {
        if let Some(known) = &mut *self.facts() {
            known.stale = true;
        }
    }

    /// A new run begins: what a former one of this process has found is over.
    pub fn begin(&self) {
        let mut known = self.facts();
        if known.as_ref().is_some_and(|known| known.stale || known.now != known.before) {
            *known = None;
        }
    }

    /// Whether the shell is yet to be told how to look for facts. It is told once.
    pub fn must_learn_to_watch(&self) -> bool {
        !self.watches_facts.swap(true, Ordering::Relaxed)
    }
}

/// What a host said about itself.
struct KnownFacts {
    now: serde_json::Value,
    /// The same before this run changed anything.
    before: serde_json::Value,
    /// Which groups of facts that holds.
    groups: Groups,
    /// The run has changed the host since.
    stale: bool,
}

impl Default for KnownFacts {
    fn default() -> Self {
        let none = || serde_json::Value::Object(serde_json::Map::new());
        Self { now: none(), before: none(), groups: Groups::new(), stale: false }
    }
}

/// A shell of its own on a host.
pub(crate) struct Aside(Shell);

impl Aside {
    /// Runs a script.
    pub async fn ask(&self, script: &str, seconds: u64) -> Result<ItemResult, ShellError> {
        let item = Item {
            stderr: Stderr::Separate,
            timeout: Some(Duration::from_secs(seconds)),
            ..Item::new(1, script)
        };
        let (results, error) = self.0.run_to_end(&Batch::of(vec![item])).await?;
        match (error, results.into_iter().next()) {
            (Some(error), _) => Err(error),
            (None, Some(result)) => Ok(result),
            (None, None) => Err(ShellError::Closed { said: "no answer".to_owned(), open: Vec::new() }),
        }
    }
}

/// What a look at a host came to.
pub(crate) struct Looked {
    pub folded: Folded,
    pub known: Knowledge,
    /// What the host says of former runs, or why that is not understood.
    pub records: Option<Result<OwnedRecords, String>>,
    declares: Declares,
}

/// Why a host with which there was a session is out of the run.
fn lost(session: &Session, error: &ShellError) -> LostHost {
    let refused = matches!(
        error,
        ShellError::PasswordNeeded { .. }
            | ShellError::WrongPassword { .. }
            | ShellError::BecomeFailed { .. }
            | ShellError::NoChannel { .. }
    );
    LostHost { unreachable: !refused || session.is_closed(), ..LostHost::refused(error.to_string()) }
}

/// Looks, plans, applies, verifies, rolls back.
pub struct Engine {
    pub(crate) project: Project,
    pub(crate) graph: RoleGraph<Span>,
    options: Options,
    events: EventSink,
    links: tokio::sync::Mutex<BTreeMap<String, Arc<Link>>>,
    /// Whoever opens a session with a host holds its door.
    doors: tokio::sync::Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    pub(crate) clusters: tokio::sync::Mutex<BTreeMap<String, Arc<ClusterLink>>>,
    pub(crate) forks: Semaphore,
    /// Limits and keys of all sessions.
    pub(crate) ssh: converge_ssh::Options,
    /// The ways to the hosts, as far as they were asked for.
    pub(crate) ways: tokio::sync::Mutex<BTreeMap<String, Way>>,
}

/// Where a host is reached and as whom, or why that cannot be said.
type Way = Result<(converge_ssh::Target, converge_ssh::Become), String>;

/// Runs futures side by side on this task and keeps their order.
pub(crate) async fn side_by_side<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.into_iter().map(|f| (Box::pin(f), None)).collect();
    std::future::poll_fn(|context| {
        let mut waiting = false;
        for (future, output) in &mut pending {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *output = Some(value),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    pending.into_iter().filter_map(|(_, output)| output).collect()
}

impl Engine {
    /// An engine for this project. Nothing is contacted yet.
    ///
    /// # Errors
    /// Roles that require each other in a circle.
    pub fn new(project: Project, options: Options, events: EventSink) -> Result<Self, Diagnostics> {
        let forks = Semaphore::new(options.forks.max(1));
        let graph = role_graph(&project)?;
        let ssh = converge_ssh::Options {
            accept_new: options.accept_new_host_keys,
            ..converge_ssh::Options::default()
        };
        let (links, ways) = (tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        let (clusters, doors) = (tokio::sync::Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { project, graph, options, events, links, doors, clusters, forks, ssh, ways })
    }

    /// The graph of the project's roles.
    pub fn graph(&self) -> &RoleGraph<Span> {
        &self.graph
    }

    /// Waits until one more host may be worked on.
    pub(crate) async fn permit(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.forks.acquire().await.ok()
    }

    /// Lets a person decide before each item or each role of an apply.
    pub fn ask_before(&mut self, steps: Steps) {
        self.options.steps = Some(steps);
    }

    /// Lets what follows destroy these things, by ID, though nothing keeps them.
    pub fn allow_destroy(&mut self, ids: Vec<String>) {
        self.options.allow_destroy = ids;
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn events(&self) -> &EventSink {
        &self.events
    }

    /// The machines of this run: its hosts, and those through which its clusters are reached.
    pub(crate) fn machines(&self) -> Vec<String> {
        let mut machines: Vec<String> = Vec::new();
        for name in self.project.hosts() {
            let own = [name.clone()];
            for host in self.project.ways_to(name).unwrap_or(&own) {
                if !machines.contains(host) {
                    machines.push(host.clone());
                }
            }
        }
        machines
    }

    /// What this run works on, hosts and clusters, in inventory order.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.project.hosts().to_vec()
    }

    /// Looks at every host and plans. Changes nothing anywhere.
    ///
    /// # Errors
    /// What is wrong with the project, found without any host: nothing was contacted then.
    pub async fn plan(&self) -> Result<FleetPlan, Diagnostics> {
        self.check_without_hosts()?;
        let hosts = self.hosts();
        let plans = hosts.iter().map(|host| self.plan_one(host)).collect();
        let entries = side_by_side(plans).await;
        let mut plan = self.fleet(Purpose::Converge, entries);
        self.wait_for_joining(&mut plan).await;
        self.ask_the_ways_back(&mut plan).await;
        plan.order = self.order(&plan);
        Ok(plan)
    }

    /// Has what goes back ask the hosts that it needs.
    pub(crate) async fn ask_the_ways_back(&self, plan: &mut FleetPlan) {
        let mut known_as = BTreeMap::new();
        for host in crate::way_back::hosts_that_ask(plan) {
            let mut names = vec![host.clone()];
            let said = self.project.host_var(&host, "ansible_host").ok().flatten();
            if let Some(address) = said.and_then(|node| node.scalar_text()) {
                if let Ok(found) = tokio::net::lookup_host((address.as_str(), 22)).await {
                    names.extend(found.map(|socket| socket.ip().to_string()));
                }
                names.push(address);
            }
            known_as.insert(host, names);
        }
        crate::way_back::ask(plan, &known_as);
    }

    /// A new plan of these, without an order yet.
    pub(crate) fn fleet(&self, purpose: Purpose, hosts: Vec<HostEntry>) -> FleetPlan {
        let names = hosts.iter().map(|entry| &entry.host);
        let clusters = names.filter(|name| self.project.ways_to(name).is_some()).cloned().collect();
        let warnings = match purpose {
            Purpose::Converge => self.project.warnings().iter().map(|w| w.message.clone()).collect(),
            Purpose::Rollback(_) | Purpose::RollbackOf { .. } => Vec::new(),
        };
        let id = uuid::Uuid::now_v7().to_string();
        let returns = Vec::new();
        FleetPlan { id, purpose, created: now(), hosts, clusters, returns, warnings, order: Vec::new() }
    }

    /// Two owners of one thing, wrong parameters: all that shows without a host, on all hosts.
    ///
    /// # Errors
    /// All complaints, when every host has some.
    pub fn check_without_hosts(&self) -> Result<(), Diagnostics> {
        let mut found = Diagnostics::default();
        let hosts = self.hosts();
        let mut spoiled = 0;
        for host in &hosts {
            let nothing = Outputs::new();
            let source =
                HostSource::new(&self.project, &self.graph, host, &Facts::none(), Part::Whole, &nothing);
            let folded = fold(host, &source, &Knowledge::default(), &History::default());
            let mut own = Diagnostics::default();
            for conflict in &folded.conflicts {
                source.explain_conflict(conflict, &mut own);
            }
            source.take_complaints(&mut own);
            spoiled += usize::from(own.has_errors());
            for complaint in own.0 {
                // Every host of a group has the same complaint about the same place.
                if !found.iter().any(|f| f.message == complaint.message && f.span() == complaint.span()) {
                    found.push(complaint);
                }
            }
        }
        // What is wrong on some hosts only is their matter: the others go on.
        if found.has_errors() && spoiled == hosts.len() { Err(found) } else { Ok(()) }
    }

    pub(crate) async fn plan_one(&self, host: &str) -> HostEntry {
        let _permit = self.forks.acquire().await;
        let begun = Instant::now();
        let result = match self.reach(host).await {
            Err(lost) => Err(lost),
            Ok(reach) => {
                reach.begin();
                self.plan_with_records(&reach).await
            }
        };
        let result = match result {
            Ok(plan) => {
                self.events.send(Event::Planned { host: host.to_owned(), summary: plan.summary() });
                HostResult::Planned(plan)
            }
            Err(lost) => {
                self.events.send(Event::Lost { host: host.to_owned(), message: lost.message.clone() });
                HostResult::Lost(lost)
            }
        };
        HostEntry { host: host.to_owned(), result, took: begun.elapsed() }
    }

    /// Plans what is declared, and what is to become of what no longer is.
    pub(crate) async fn plan_with_records(&self, reach: &Reach) -> Result<HostPlan, LostHost> {
        let looked =
            self.look_and_plan(reach, Part::Converge, &History::default(), self.options.diffs, true).await?;
        let (mut plan, mut known) = (looked.folded.plan, looked.known);
        match looked.records {
            Some(Ok(records)) => self.own(reach, &mut plan, records, &looked.declares, &mut known).await?,
            Some(Err(message)) => {
                let message = format!("{}: {message}", reach.name());
                return Err(LostHost::refused(message));
            }
            None => {}
        }
        crate::unsaved::mark(reach, &mut plan, &known).await;
        Ok(plan)
    }

    /// Plans a part of the project on one host, asking it as often as it takes.
    pub(crate) async fn plan_part(
        &self,
        reach: &Reach,
        part: Part,
        history: &History,
        diffs: bool,
    ) -> Result<Folded, LostHost> {
        Ok(self.look_and_plan(reach, part, history, diffs, false).await?.folded)
    }

    /// The same; with `want_records`, what the host says of former runs travels in the first batch.
    pub(crate) async fn look_and_plan(
        &self,
        reach: &Reach,
        part: Part,
        history: &History,
        diffs: bool,
        want_records: bool,
    ) -> Result<Looked, LostHost> {
        let mut records = None;
        let mut known = match reach {
            Reach::Host(_) => Knowledge::default(),
            Reach::Cluster(cluster) => cluster.first_knowledge(self).await?,
        };
        let not_there = known.absent().is_some();
        let mut asked_for_diffs = !diffs;
        let host = reach.name();
        let needs = self.project.needs(host);
        let groups = self.groups_of(host, &needs);
        for other in &needs.facts_of {
            self.facts_of(other, &self.groups_of(other, &needs)).await?;
        }
        for round in 1..=ROUNDS {
            let facts = self.facts().await;
            let mut source = HostSource::new(&self.project, &self.graph, host, &facts, part, &Outputs::new());
            let mut folded = fold(host, &source, &known, history);
            // A list may be made of what a query has answered. Each pass answers one more, so this ends.
            let mut outputs = Outputs::new();
            while source.has_open_lists() && folded.outputs.len() > outputs.len() {
                outputs.clone_from(&folded.outputs);
                source = HostSource::new(&self.project, &self.graph, host, &facts, part, &outputs);
                folded = fold(host, &source, &known, history);
            }
            let want_facts = if needs.facts { reach.unknown_facts(&groups) } else { None };
            let mut asks = std::mem::take(&mut folded.asks);
            let owned = want_records && records.is_none() && !not_there;
            if asks.is_empty() && want_facts.is_none() && !owned {
                if asked_for_diffs || folded.diff_asks.is_empty() {
                    source.refuse_open_lists(&mut folded.plan);
                    refuse_what_is_lost(&mut folded.plan, &self.options.allow_destroy);
                    crate::apply::note_backups(&mut folded.plan);
                    source.locate(&mut folded.plan, &folded.outputs);
                    source.bind(&mut folded.plan, &folded.outputs);
                    let narrowed = self.project.is_narrowed();
                    let declares = match records {
                        Some(_) => Declares::of(&source, &folded.outputs, narrowed),
                        None => Declares::default(),
                    };
                    return Ok(Looked { folded, known, records, declares });
                }
                asked_for_diffs = true;
                asks = std::mem::take(&mut folded.diff_asks);
            }
            // What is asked together by all items is asked once it is known which items there are.
            if want_facts.is_some() {
                asks.retain(|probe| !converge_resources::asked_together(probe));
            }
            let beside = Beside { facts: want_facts.as_ref(), owned };
            let answered = reach.observe(&asks, beside, &mut known).await?;
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
                return Err(LostHost::refused(message));
            }
            records = answered.owned.or(records);
            if let (Some(facts), Some(groups)) = (answered.facts, &want_facts) {
                reach.learn_facts(facts, groups);
            }
            let host = host.to_owned();
            self.events.send(Event::Observed { host, round, probes: asks.len() });
        }
        Err(LostHost::refused("no plan".to_owned()))
    }

    /// What all hosts asked so far said about themselves.
    pub(crate) async fn facts(&self) -> Facts {
        let links = self.links.lock().await;
        let told = links.values().filter_map(|link| link.told().map(|told| (link.host.clone(), told)));
        Facts::in_a_run(told.map(|(host, (now, before))| (host, now, before)))
    }

    /// What a host is asked for by one that has these needs: with it comes what others in the run read of it.
    fn groups_of(&self, host: &str, needs: &Needs) -> Groups {
        let all = self.project.fact_names_of(host);
        FACT_GROUPS.into_iter().filter(|group| all.has(group) || needs.fact_names.has(group)).collect()
    }

    /// Asks a host for facts with these groups, if it was not asked yet.
    pub(crate) async fn facts_of(&self, host: &str, groups: &Groups) -> Result<Arc<Link>, LostHost> {
        let link = self.link(host).await?;
        if let Some(groups) = link.unknown_facts(groups) {
            let mut known = Knowledge::default();
            let round = observe(&link.shell, &BTreeSet::new(), Some(&groups), &mut known).await;
            if let Some(facts) = round.map_err(|error| link.lost(&error))?.facts {
                link.learn_facts(facts, &groups);
            }
        }
        Ok(link)
    }

    /// The facts of all hosts of this run, those of [`crate::FACT_GROUPS`] for which `wanted` holds among them. Changes nothing.
    pub async fn gather_facts(&self, wanted: impl Fn(&str) -> bool) -> Vec<HostAnswer> {
        let groups: Groups = FACT_GROUPS.into_iter().filter(|group| wanted(group)).collect();
        let hosts = self.machines();
        let asking = hosts.iter().map(|host| async {
            let _permit = self.forks.acquire().await;
            let result = self.facts_of(host, &groups).await;
            let result = result.map(|link| link.known_facts().unwrap_or_default());
            if let Err(lost) = &result {
                self.events.send(Event::Lost { host: host.clone(), message: lost.message.clone() });
            } else {
                self.events.send(Event::Planned { host: host.clone(), summary: Summary::default() });
            }
            HostAnswer { host: host.clone(), result }
        });
        side_by_side(asking.collect()).await
    }

    /// Plans anew in the middle of an apply.
    pub(crate) async fn plan_again(&self, reach: &Reach, history: &History) -> Result<Folded, LostHost> {
        reach.facts_are_stale();
        self.plan_part(reach, Part::Converge, history, self.options.diffs).await
    }

    /// What is there after an apply, planned anew. Leaves out `known` failures.
    pub(crate) async fn plan_after(
        &self,
        reach: &Reach,
        known: &BTreeSet<String>,
    ) -> Result<HostPlan, LostHost> {
        // What failed is known to be unlike; it must not make others wait for it.
        let history = History { over: known.clone(), ..History::default() };
        reach.facts_are_stale();
        Ok(self.plan_part(reach, Part::Whole, &history, false).await?.plan)
    }

    /// The session with a host, opened when it is first used.
    pub(crate) async fn link(&self, host: &str) -> Result<Arc<Link>, LostHost> {
        if self.project.in_maintenance(host) {
            return Err(LostHost::maintenance());
        }
        // A lane and a cluster's tunnel may come for it at once: there is one session, and one memory of what the host said.
        let door = Arc::clone(self.doors.lock().await.entry(host.to_owned()).or_default());
        let _one_at_a_time = door.lock().await;
        if let Some(link) = self.links.lock().await.get(host) {
            return Ok(Arc::clone(link));
        }
        self.events.send(Event::Connecting { host: host.to_owned() });
        let begun = Instant::now();
        let link = Arc::new(self.new_link(host).await?);
        self.events.send(Event::Connected { host: host.to_owned(), took: begun.elapsed() });
        self.links.lock().await.insert(host.to_owned(), Arc::clone(&link));
        Ok(link)
    }

    /// A session of its own with a host, beside any other one.
    pub(crate) async fn new_link(&self, host: &str) -> Result<Link, LostHost> {
        let (target, become_) = self.way(host).await.map_err(LostHost::refused)?;
        let session = self.enter(host, &target).await.1.map_err(|error| no_session(host, &error))?;
        let lost = |error: ShellError| lost(&session, &error);
        let shell = session.shell(&become_).await.map_err(lost)?;
        // Nothing waits for this answer: the first questions follow in the same packet.
        let prelude = Batch { prelude: Some(converge_store::host::library()), ..Batch::default() };
        let _answers = shell.run(&prelude).map_err(lost)?;
        Ok(Link {
            host: host.to_owned(),
            shell,
            session,
            become_,
            facts: Mutex::new(None),
            heart: Mutex::new(None),
            watches_facts: AtomicBool::new(false),
            base: Mutex::new(None),
        })
    }

    /// A new session with a host that has restarted, in place of the one that went with it.
    pub(crate) async fn link_again(&self, host: &str) -> Result<Arc<Link>, LostHost> {
        self.links.lock().await.remove(host);
        self.link(host).await
    }

    /// Puts a session back that was to be replaced.
    pub(crate) async fn keep_link(&self, link: &Arc<Link>) {
        self.links.lock().await.insert(link.host.clone(), Arc::clone(link));
    }

    pub(crate) fn project(&self) -> &Project {
        &self.project
    }

    pub(crate) fn connection(&self, host: &str) -> Result<Connection, Diagnostics> {
        let complaints = std::cell::RefCell::new(Diagnostics::new());
        let lookup = |name: &str| match self.project.host_var(host, name) {
            Ok(node) => node,
            Err(found) => {
                complaints.borrow_mut().extend(found.0);
                None
            }
        };
        let (connection, _warnings) = Connection::resolve(host, lookup, |node| Ok(node.clone()))?;
        complaints.into_inner().or_value(connection)
    }

    /// The path of the playbook.
    pub fn playbook(&self) -> String {
        self.project.playbook().path.to_string()
    }

    /// Ends all sessions.
    pub async fn close(self) {
        let links = std::mem::take(&mut *self.links.lock().await);
        let closing = links.into_values().filter_map(Arc::into_inner).map(|link| {
            // A host that no longer answers must not hold up the end.
            tokio::time::timeout(Duration::from_secs(2), link.shell.close())
        });
        side_by_side(closing.collect()).await;
    }
}

/// What destroys what nothing keeps is done only where somebody has allowed it by name.
fn refuse_what_is_lost(plan: &mut HostPlan, allowed: &[String]) {
    for item in &mut plan.items {
        let changes = item.changes().iter().map(|planned| &planned.change);
        let lost = changes.filter(|change| goes(change) && takes_along(change));
        let why = lost.filter_map(|change| crate::undo::destroys(change, allowed)).next();
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

/// The present moment, RFC 3339 UTC.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
