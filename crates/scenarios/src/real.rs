//! The gates on real hosts.

use crate::cluster::{self, Listed};
use crate::cluster_spec::ClusterSpec;
use crate::discover::Case;
use crate::expect::{self, Complaint};
use crate::given;
use crate::hosts::{Hosts, HostsError};
use crate::judge::{
    InitialState, InitialStates, add_what_waited, applied, as_before, as_planned, made_whole,
};
use crate::options::{RunOptions, Where};
use crate::project::{self, RoleSet};
use crate::pure::{self, LoadError};
use crate::report::{CaseReport, Gate, GateOutcome, GateReport, Mismatch, Progress};
use crate::snapshot::{self, NOISE, is_among};
use crate::{drift, leftovers, recording, whole};
use converge_engine::{
    Engine, Event, EventSink, FleetPlan, HostResult, ItemResult, Options, Scope, StopSwitch, TargetError,
    TimedEvent,
};
use converge_lab::kube::Kubectl;
use converge_planner::{Item, Outcome as Planned};
use converge_resource::{ObjectId, State};
use converge_syntax::{Diagnostic, Diagnostics};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(900);
/// Lets a command of a scenario ask the API server of its host.
const AS_ADMINISTRATOR: &str = "export KUBECONFIG=/etc/kubernetes/admin.conf PATH=\"$PATH:/run/lab\"; ";

/// The execution of one scenario: it passes the gates in order.
struct CaseRun<'a> {
    case: &'a Case,
    number: usize,
    options: &'a RunOptions,
    progress: Sender<Progress>,
    gates: Vec<GateReport>,
    /// The gate that is being tried: items that run belong to it.
    now: Arc<Mutex<Gate>>,
    /// All objects of the cluster before the first run.
    objects: Listed,
}

/// The targets of a scenario.
struct Site<'a> {
    /// Its hosts.
    names: &'a [String],
    /// The clusters that its roles act on.
    clusters: &'a [String],
    /// Who asks the cluster of disposable hosts.
    api: Option<&'a Kubectl>,
    /// Whether the hosts are the nodes of that cluster.
    whole: bool,
}

impl Site<'_> {
    /// Hosts and clusters.
    fn all(&self) -> impl Iterator<Item = &String> {
        self.names.iter().chain(self.clusters)
    }

    /// The paths of the hosts that are not compared.
    fn noise(&self) -> Vec<&'static str> {
        let nodes = if self.whole { whole::NOISE } else { &[] };
        [NOISE, nodes].concat()
    }
}

/// The findings of a gate: mismatches and notes.
#[derive(Default)]
struct Findings {
    wrong: Vec<Mismatch>,
    notes: Vec<String>,
}

impl Findings {
    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl From<Vec<Mismatch>> for Findings {
    fn from(wrong: Vec<Mismatch>) -> Self {
        Self { wrong, notes: Vec::new() }
    }
}

type GateResult = Result<Findings, TargetError>;

/// Runs one scenario.
pub(crate) async fn run(
    case: &Case,
    number: usize,
    options: &RunOptions,
    progress: Sender<Progress>,
) -> CaseReport {
    let begun = Instant::now();
    // Nobody listening is fine.
    let _gone = progress.send(Progress::Began { case: number });
    let mut case_run = CaseRun {
        case,
        number,
        options,
        progress,
        gates: Vec::new(),
        now: Arc::new(Mutex::new(Gate::Input)),
        objects: Listed::default(),
    };
    let mut hosts = None;
    case_run.all(&mut hosts).await;
    let passed = case_run.gates.iter().all(|g| g.outcome != GateOutcome::Failed);
    let remaining_hosts = hosts.filter(|_| options.keep && !passed).and_then(Hosts::keep);
    CaseReport {
        role: case.role.clone(),
        scenario: case.scenario.name.clone(),
        file: case.scenario.file.clone().unwrap_or_else(|| case.dir.join("role.yaml")).into_string(),
        gates: case_run.gates,
        remaining_hosts,
        pure: false,
        took: begun.elapsed(),
    }
}

impl CaseRun<'_> {
    fn doing(&self, gate: Gate, what: impl Into<String>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = gate;
        let _gone = self.progress.send(Progress::Doing { case: self.number, gate, what: what.into() });
    }

    /// Writes down how a gate ended. False when the rest is not to be tried.
    fn close(&mut self, gate: Gate, begun: Instant, found: GateResult) -> bool {
        let findings = found.unwrap_or_else(|lost| Findings {
            wrong: vec![Mismatch::new(lost.to_string())],
            notes: Vec::new(),
        });
        let outcome = if findings.wrong.is_empty() { GateOutcome::Passed } else { GateOutcome::Failed };
        let took = begun.elapsed();
        let _gone = self.progress.send(Progress::GateOver { case: self.number, gate, outcome, took });
        self.gates.push(GateReport {
            gate,
            outcome,
            mismatches: findings.wrong,
            notes: findings.notes,
            took,
        });
        // A host that a user wants to look at stays as the failure left it.
        outcome == GateOutcome::Passed || !self.options.keep
    }

    fn not_run(&mut self, why: &str) {
        for gate in Gate::ALL {
            if !self.gates.iter().any(|g| g.gate == gate) {
                self.gates.push(GateReport {
                    gate,
                    outcome: GateOutcome::NotRun,
                    mismatches: Vec::new(),
                    notes: vec![why.to_owned()],
                    took: Duration::ZERO,
                });
            }
        }
    }

    async fn all(&mut self, hosts: &mut Option<Hosts>) {
        let begun = Instant::now();
        self.doing(Gate::Input, "");
        match refused_without_hosts(self.case, self.options) {
            Err(error) => {
                self.close(Gate::Input, begun, Ok(vec![Mismatch::new(error.to_string())].into()));
                return self.not_run("the scenario cannot be read");
            }
            Ok(found) if found.has_errors() => {
                let wrong = if self.case.scenario.expect.errors.is_empty() {
                    expect::complaints(&found)
                } else {
                    let errors: Vec<&Diagnostic> =
                        found.iter().filter(|d| d.severity == converge_syntax::Severity::Error).collect();
                    let complaints: Vec<Complaint> = errors.into_iter().map(Complaint::of).collect();
                    expect::against_errors(&complaints, &self.case.scenario.expect.errors)
                };
                self.close(Gate::Input, begun, Ok(wrong.into()));
                return self.not_run("the input is refused, so there is nothing to do on a host");
            }
            Ok(_) => {
                self.close(Gate::Input, begun, Ok(Findings::default()));
            }
        }
        let begun = Instant::now();
        self.doing(Gate::Given, "makes the hosts");
        let (mut engine, clusters) = match self.make(hosts).await {
            Ok(made) => made,
            Err(found) => {
                self.close(Gate::Given, begun, Ok(Findings::from(found)));
                return self.not_run("there are no hosts");
            }
        };
        let names = hosts.as_ref().map(|h| h.names.clone()).unwrap_or_default();
        let api = hosts.as_ref().and_then(|h| h.kubectl.as_ref());
        let site = Site { names: &names, clusters: &clusters, api, whole: self.case.is_whole() };
        self.on_hosts(&mut engine, &site, begun).await;
        for host in &names {
            snapshot::forget(&engine, host).await;
        }
        engine.close().await;
    }

    /// Hosts, an engine for them, and the names of the clusters.
    async fn make(&self, hosts: &mut Option<Hosts>) -> Result<(Engine, Vec<String>), Vec<Mismatch>> {
        let progress = self.progress.clone();
        let say = Arc::new(move |line: &str| {
            let _gone = progress.send(Progress::Remark(line.to_owned()));
        });
        let usual = ClusterSpec::default();
        let needed = project::needs_cluster(self.case, &self.options.catalog).then_some(&usual);
        let spec = self.case.scenario.cluster.as_ref().or(needed);
        let made = match &self.options.hosts {
            Where::ThrowAway => Hosts::make(self.case, self.number, spec, say),
            Where::Inventory(_) if spec.is_some() => Err(HostsError::ClusterOnGiven),
            Where::Inventory(given) => {
                let needed = self.case.scenario.hosts.len();
                match given.names.get(..needed) {
                    Some(names) => Ok(Hosts::given(&given.inventories, names)),
                    None => Err(HostsError::TooFew { needed, given: given.names.len() }),
                }
            }
            Where::Recorded => Err(HostsError::Recorded),
        };
        let made = made.map_err(|error| vec![Mismatch::new(error.to_string())])?;
        let made = hosts.insert(made);
        if let Some(spec) = spec.filter(|spec| spec.whole.is_some()) {
            self.doing(Gate::Given, "makes the cluster");
            let (engine, _) = self.engine(made, RoleSet::Given)?;
            whole::raise(engine, made, spec).await?;
        }
        self.engine(made, RoleSet::Tested)
    }

    /// An engine for these roles of the scenario, and the names of the clusters.
    fn engine(&self, hosts: &Hosts, role_set: RoleSet) -> Result<(Engine, Vec<String>), Vec<Mismatch>> {
        let project = project::load(
            self.case,
            role_set,
            &self.options.catalog,
            hosts.inventories.clone(),
            &hosts.names,
            hosts.limit.clone(),
            &self.options.vault,
        );
        let project = project.map_err(|found| expect::complaints(&found))?;
        // Preconditions belong to another playbook: the tested role must not find them among its managed objects.
        let playbook = if role_set == RoleSet::Given { "preconditions" } else { "" };
        let engine_options = Options {
            operator: self.options.operator.clone(),
            inventory: "a test of the role".to_owned(),
            become_password: self.options.become_password.clone(),
            keep_all_runs: true,
            helm: hosts.helm.clone(),
            scope: Scope { playbook: playbook.to_owned(), ..Scope::default() },
            ..Options::default()
        };
        let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
        let (progress, case, now) = (self.progress.clone(), self.number, Arc::clone(&self.now));
        tokio::spawn(async move {
            while let Some(TimedEvent { event, .. }) = events.recv().await {
                let Event::ItemStarted { address, .. } = event else { continue };
                let gate = *now.lock().unwrap_or_else(PoisonError::into_inner);
                // The injected drift tells more than the item that corrects it.
                if gate != Gate::Drift {
                    let _gone = progress.send(Progress::Doing { case, gate, what: address });
                }
            }
        });
        let clusters =
            project.hosts().iter().filter(|name| project.entry_hosts(name).is_some()).cloned().collect();
        let engine = Engine::new(project, engine_options, EventSink::to(sender));
        engine.map(|engine| (engine, clusters)).map_err(|found| expect::complaints(&found))
    }

    async fn on_hosts(&mut self, engine: &mut Engine, site: &Site<'_>, begun: Instant) {
        let names = site.names;
        let given = self.given(engine, site).await;
        if !self.close(Gate::Given, begun, given) || self.failed(Gate::Given) {
            return self.not_run("the hosts are not as the scenario gives them");
        }

        let begun = Instant::now();
        self.doing(Gate::Plan, "");
        let (plan, recordings) = match engine.plan_and_record().await {
            Ok(made) => made,
            Err(found) => {
                self.close(Gate::Plan, begun, Ok(expect::complaints(&found).into()));
                return self.not_run("there is no plan");
            }
        };
        let own_name = |host: &str| self.scenario_name(host, names);
        let mut findings = Findings::from(expect::against_plan(
            &plan,
            &self.case.scenario.expect,
            &self.case.role,
            &own_name,
        ));
        let errors = &self.case.scenario.expect.errors;
        if !errors.is_empty() {
            findings.wrong = expect::against_errors(&Complaint::of_plan(&plan), errors);
        }
        if self.options.record && findings.wrong.is_empty() {
            let recordings =
                recordings.into_iter().map(|(host, r)| (self.scenario_name(&host, names), r)).collect();
            match recording::save(self.case, recordings) {
                Ok(path) => findings.note(format!("the answers are recorded in {path}")),
                Err(why) => {
                    findings.wrong.push(Mismatch::new(format!("the answers cannot be recorded: {why}")))
                }
            }
        }
        let broken =
            plan.exit_code() == 1 || plan.hosts.iter().any(|h| matches!(h.result, HostResult::Lost(_)));
        if !self.close(Gate::Plan, begun, Ok(findings)) {
            return self.not_run("an earlier gate failed, and the hosts are kept");
        }

        let begun = Instant::now();
        self.doing(Gate::PlanChangesNothing, "");
        let mut found =
            untouched(engine, site, &snapshot::beside("start"), "planning changed the host").await;
        if let (Some(api), Ok(findings)) = (site.api, &mut found) {
            let differ = cluster::list(api).map(|now| cluster::differences(&self.objects.exact, &now.exact));
            findings.wrong.extend(as_before(differ, "planning changed the cluster"));
        }
        if !self.close(Gate::PlanChangesNothing, begun, found) {
            return self.not_run("an earlier gate failed, and the hosts are kept");
        }
        if !errors.is_empty() {
            return self.not_run("the scenario expects that the run is refused");
        }
        if broken {
            return self.not_run("the plan cannot be carried out");
        }
        self.changes(engine, site, plan).await;
    }

    /// Everything after the first plan.
    async fn changes(&mut self, engine: &mut Engine, site: &Site<'_>, plan: FleetPlan) {
        const KEPT: &str = "an earlier gate failed, and the hosts are kept";
        let begun = Instant::now();
        self.doing(Gate::Converge, "");
        let mut start = match starts(engine, site, &plan).await {
            Ok(start) => start,
            Err(lost) => {
                self.close(Gate::Converge, begun, Err(lost));
                return self.not_run("the host is lost");
            }
        };
        // The run may remove objects that it creates, with everything in them.
        engine.allow_destroy(made_whole(&start));
        let engine: &Engine = engine;
        let report = engine.apply(plan.clone(), StopSwitch::new()).await;
        let run = report.run.clone();
        add_what_waited(&mut start, &report);
        if !self.close(Gate::Converge, begun, Ok(applied(&report, &plan).into())) {
            return self.not_run(KEPT);
        }
        // If every item succeeded, the later gates tell more about differences from the declaration.
        let items = || report.hosts.iter().flat_map(|h| &h.items);
        let converged = items().all(|(_, r)| !r.is_bad()) && report.hosts.iter().all(|h| h.lost.is_none());

        let begun = Instant::now();
        if converged {
            if !self.close(Gate::AsPlanned, begun, Ok(as_planned(&plan, &report).into())) {
                return self.not_run(KEPT);
            }
            let begun = Instant::now();
            self.doing(Gate::PlanIsEmpty, "");
            if !self.close(Gate::PlanIsEmpty, begun, next_plan(engine).await) {
                return self.not_run(KEPT);
            }
            let begun = Instant::now();
            self.doing(Gate::ConvergeAgain, "");
            let found = again(engine, site).await;
            if !self.close(Gate::ConvergeAgain, begun, found) {
                return self.not_run(KEPT);
            }
            let begun = Instant::now();
            self.doing(Gate::Verify, "");
            let found = self.verify(engine, site).await;
            if !self.close(Gate::Verify, begun, found) {
                return self.not_run(KEPT);
            }
            // On a host on which the next plan is not empty, a finding would say nothing.
            if !self.failed(Gate::Converge) && !self.failed(Gate::PlanIsEmpty) && self.options.inject_drift {
                let begun = Instant::now();
                let found = self.drift(engine, site, &start, &plan).await;
                if !self.close(Gate::Drift, begun, found) {
                    return self.not_run(KEPT);
                }
            }
        }

        let begun = Instant::now();
        self.doing(Gate::Rollback, "");
        let worked = plan.planned().flat_map(|p| &p.items).any(Item::is_pending);
        let found = if worked {
            self.rollback(engine, site, &run, &start).await
        } else {
            let mut nothing = Findings::default();
            nothing.note("the first run changed nothing, so there is nothing to revert");
            Ok(nothing)
        };
        self.close(Gate::Rollback, begun, found);
        let why = if self.options.inject_drift {
            "an earlier gate failed"
        } else {
            "it was not asked for (--no-drift)"
        };
        self.not_run(why);
        self.gates.sort_by_key(|g| g.gate);
    }

    fn failed(&self, gate: Gate) -> bool {
        self.gates.iter().any(|g| g.gate == gate && g.outcome == GateOutcome::Failed)
    }

    /// The name of a host in the scenario.
    fn scenario_name(&self, host: &str, names: &[String]) -> String {
        let position = names.iter().position(|n| n == host);
        let spec = position.and_then(|at| self.case.scenario.hosts.get(at));
        spec.map_or_else(|| host.to_owned(), |spec| spec.name.clone())
    }

    async fn given(&mut self, engine: &Engine, site: &Site<'_>) -> GateResult {
        let mut findings = Findings::default();
        for host in site.names {
            engine.keep_all_runs(host).await?;
            for (what, script) in given::scripts(&self.case.scenario.before) {
                self.doing(Gate::Given, what.clone());
                let answer = engine.script(host, &script, LIMIT).await?;
                if answer.status != 0 {
                    let output = format!("{}{}", answer.stdout, answer.stderr);
                    let lines: Vec<String> = output.lines().map(str::to_owned).collect();
                    let tail = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().to_vec();
                    findings.wrong.push(
                        Mismatch::new(format!("{host}: cannot {what} (status {})", answer.status))
                            .lines(tail),
                    );
                }
            }
            self.doing(Gate::Given, "lists the file system");
            snapshot::take(engine, host, "start", false, &site.noise()).await?;
        }
        if let Some(api) = site.api {
            self.doing(Gate::Given, "lists the objects of the cluster");
            self.objects = cluster::at_rest(api).map_err(|fault| TargetError::Refused(fault.to_string()))?;
        }
        Ok(findings)
    }

    async fn verify(&self, engine: &Engine, site: &Site<'_>) -> GateResult {
        let mut findings = Findings::default();
        let mut checks = 0;
        for host in engine.verify().await {
            if let Some(lost) = host.lost {
                return Err(lost);
            }
            checks += host.checks.len();
            for (address, why) in host.checks.into_iter().filter_map(|(a, why)| Some((a, why?))) {
                let what = format!("`{address}` does not hold on {}", host.host);
                findings.wrong.push(Mismatch::new(what).lines(why.lines().map(str::to_owned)));
            }
        }
        for after in &self.case.scenario.expect.after {
            for host in site.names {
                // Lets it ask the cluster.
                let script = match (site.api, site.whole) {
                    (None, _) => after.value.clone(),
                    (Some(_), true) => format!("export KUBECONFIG={}; {}", whole::KUBECONFIG, after.value),
                    (Some(_), false) => format!("{AS_ADMINISTRATOR}{}", after.value),
                };
                let answer = engine.script(host, &script, LIMIT).await?;
                checks += 1;
                if answer.status != 0 {
                    let output = format!("{}{}", answer.stdout, answer.stderr);
                    let mut mismatch = Mismatch::new(format!("a command of `after` failed on {host}"))
                        .but(format!("`{}` succeeds", after.value), format!("status {}", answer.status))
                        .lines(output.lines().map(str::to_owned));
                    mismatch.at = project::place(after);
                    findings.wrong.push(mismatch);
                }
            }
        }
        findings.note(match checks {
            0 => "the role has no live check".to_owned(),
            1 => "1 check".to_owned(),
            n => format!("{n} checks"),
        });
        Ok(findings)
    }

    async fn drift(
        &self,
        engine: &Engine,
        site: &Site<'_>,
        start: &InitialStates,
        first: &FleetPlan,
    ) -> GateResult {
        let mut findings = Findings::default();
        let mut corrected = 0;
        for host in site.all() {
            let before = start.get(host).cloned().unwrap_or_default();
            let doing = |what: String| self.doing(Gate::Drift, what);
            let api = site.api.filter(|_| site.clusters.contains(host));
            let results = drift::all(engine, host, api, &self.case.role, &before, first, doing).await?;
            corrected += results.corrected;
            findings.wrong.extend(results.wrong);
            findings.notes.extend(results.left.into_iter().map(|l| format!("no drift: {l}")));
        }
        let things = if corrected == 1 { "object" } else { "objects" };
        findings.notes.insert(0, format!("drift injected, detected, corrected in {corrected} {things}"));
        Ok(findings)
    }

    async fn rollback(
        &self,
        engine: &Engine,
        site: &Site<'_>,
        run: &str,
        start: &InitialStates,
    ) -> GateResult {
        let mut findings = Findings::default();
        let plan = match engine.plan_rollback(Some(run), &[]).await {
            Ok(plan) => plan,
            Err(found) => return Ok(expect::complaints(&found).into()),
        };
        for item in plan.planned().flat_map(|p| &p.items) {
            let why = match &item.outcome {
                Planned::Failed(problem) => problem.message.clone(),
                Planned::Refused(why) => why.clone(),
                _ => continue,
            };
            findings.wrong.push(Mismatch::new(format!("`{}` cannot be reverted", item.address)).lines([why]));
        }
        let mut packages = BTreeMap::new();
        for host in site.names {
            let before = start.get(host).cloned().unwrap_or_default();
            packages.insert(host, leftovers::installed(engine, host, &before).await?);
        }
        let report = engine.apply(plan.clone(), StopSwitch::new()).await;
        findings.wrong.extend(applied(&report, &plan));
        if let Some(api) = site.api {
            self.doing(Gate::Rollback, "compares the objects of the cluster");
            let left = cluster::left(api, &self.objects.meant);
            findings.wrong.extend(as_before(left, "the cluster is not as it was"));
        }
        for host in site.names {
            self.doing(Gate::Rollback, "compares the file system");
            let before = start.get(host).cloned().unwrap_or_default();
            let objects: BTreeSet<ObjectId> = before.states.keys().cloned().collect();
            let now = engine.states(host, &objects).await?;
            for (object, was) in &before.states {
                let is = now.get(object).map_or("unknown", State::line);
                if is != was.line() {
                    findings.wrong.push(
                        Mismatch::new(format!("{object} on {host} is not as it was")).but(was.line(), is),
                    );
                }
            }
            let leaves: Vec<&str> = self.case.scenario.leaves.iter().map(|l| l.value.as_str()).collect();
            let (meant, left): (Vec<_>, Vec<_>) =
                snapshot::compare(engine, host, "start", false, &site.noise())
                    .await?
                    .into_iter()
                    .partition(|d| is_among(&d.path, leaves.iter().copied()));
            let own = packages.remove(host).unwrap_or_default();
            let (theirs, left) = leftovers::of_packages(engine, host, &own, left, &site.noise()).await?;
            if !left.is_empty() {
                findings.wrong.push(
                    Mismatch::new(format!("the file system of {host} is not as it was"))
                        .but("every path as before the first run", format!("{} that differ", left.len()))
                        .lines(left.iter().map(snapshot::Difference::shown)),
                );
            }
            let left_again = |d: &snapshot::Difference| {
                format!("left by the scripts of packages, whoever removes them: {}", d.shown())
            };
            findings.notes.extend(theirs.iter().map(left_again));
            findings.notes.extend(meant.iter().map(|d| format!("left, as the scenario says: {}", d.shown())));
        }
        Ok(findings)
    }
}

/// The errors of role and scenario that show without a host.
fn refused_without_hosts(case: &Case, options: &RunOptions) -> Result<Diagnostics, LoadError> {
    match pure::imagined(case, options) {
        Ok((engine, _hosts)) => Ok(engine.check_without_hosts().err().unwrap_or_default()),
        Err(LoadError::Input(found)) => Ok(found),
        Err(error) => Err(error),
    }
}

async fn starts(engine: &Engine, site: &Site<'_>, plan: &FleetPlan) -> Result<InitialStates, TargetError> {
    let mut out = InitialStates::new();
    for host in site.all() {
        let claims = engine.claims(host).await?;
        let mut objects: BTreeSet<ObjectId> =
            claims.iter().flat_map(|i| &i.claims).map(|c| c.object.clone()).collect();
        let planned = plan.planned().filter(|p| p.host == *host).flat_map(|p| &p.items);
        objects.extend(planned.flat_map(|i| i.claims.clone()));
        let states = engine.states(host, &objects).await?;
        out.insert(host.clone(), InitialState { claims, states });
    }
    Ok(out)
}

/// A plan that has nothing to do.
async fn next_plan(engine: &Engine) -> GateResult {
    let plan = match engine.plan().await {
        Ok(plan) => plan,
        Err(found) => return Ok(expect::complaints(&found).into()),
    };
    let adopts = |i: &&Item| matches!(i.outcome, Planned::Adopt(_));
    let items = || plan.planned().flat_map(|p| &p.items);
    let open: Vec<&str> =
        items().filter(|i| i.is_pending() || adopts(i)).map(|i| i.address.as_str()).collect();
    if plan.is_empty() && open.is_empty() && plan.exit_code() == 0 {
        return Ok(Findings::default());
    }
    let found = format!("{} to do: {}", open.len(), open.join(", "));
    let mismatch = Mismatch::new("the role has changes just after it was applied");
    Ok(vec![mismatch.but("nothing to change", found).plan(&plan, &open)].into())
}

/// A second run, and that it left the hosts alone.
async fn again(engine: &Engine, site: &Site<'_>) -> GateResult {
    for host in site.names {
        snapshot::take(engine, host, "again", true, &site.noise()).await?;
    }
    let before = site.api.map(cluster::at_rest).transpose();
    let plan = match engine.plan().await {
        Ok(plan) => plan,
        Err(found) => return Ok(expect::complaints(&found).into()),
    };
    let report = engine.apply(plan.clone(), StopSwitch::new()).await;
    let mut wrong = applied(&report, &plan);
    for host in &report.hosts {
        for (item, _) in host.items.iter().filter(|(_, r)| *r == ItemResult::Changed) {
            wrong.push(
                Mismatch::new(format!("`{}` on {}", item.address, host.host))
                    .but("the second run changes nothing", "it was changed again")
                    .plan(&plan, &[&item.address]),
            );
        }
    }
    wrong.extend(untouched(engine, site, "again", "the second run changed the host").await?.wrong);
    if let Some(api) = site.api {
        let differ = before.and_then(|before| {
            Ok(cluster::differences(&before.unwrap_or_default().exact, &cluster::list(api)?.exact))
        });
        wrong.extend(as_before(differ, "the second run changed the cluster"));
    }
    Ok(wrong.into())
}

/// Whether no path was written since the list of this label was taken.
async fn untouched(engine: &Engine, site: &Site<'_>, label: &str, what: &str) -> GateResult {
    let mut findings = Findings::default();
    for host in site.names {
        let written = snapshot::compare(engine, host, label, true, &site.noise()).await?;
        let written: Vec<String> = written.iter().map(snapshot::Difference::shown).collect();
        if !written.is_empty() {
            let found = format!("{} written", written.len());
            findings.wrong.push(
                Mismatch::new(format!("{host}: {what}")).but("no path is written", found).lines(written),
            );
        }
    }
    Ok(findings)
}
