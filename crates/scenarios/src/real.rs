//! The gates on real hosts.

use crate::cluster::{self, Objects};
use crate::cluster_spec::ClusterSpec;
use crate::discover::Case;
use crate::expect::{self, Complaint};
use crate::given;
use crate::hosts::Hosts;
use crate::report::{CaseReport, Gate, GateReport, Mismatch, Outcome, Told};
use crate::run::{RunOptions, Where};
use crate::snapshot::{self, NOISE, is_among};
use crate::{project, recording, spoil};
use converge_engine::{
    ApplyReport, Engine, Event, EventSink, FleetPlan, HostResult, ItemResult, LostHost, Options, StopSwitch,
};
use converge_lab::kube::ApiServer;
use converge_planner::{Item, Outcome as Planned};
use converge_resource::{ApiRef, ObjectId, State};
use converge_syntax::{Diagnostic, Diagnostics};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(900);
/// Lets a command of a scenario ask the cluster.
const AS_ADMINISTRATOR: &str = "export KUBECONFIG=/etc/kubernetes/admin.conf PATH=\"$PATH:/run/lab\"; ";

/// How an item ended, in words.
pub(crate) fn ended(result: &ItemResult) -> String {
    match result {
        ItemResult::Changed => "changed".to_owned(),
        ItemResult::Unchanged => "unchanged".to_owned(),
        ItemResult::Failed { message, output } if output.is_empty() => format!("failed: {message}"),
        ItemResult::Failed { message, output } => format!("failed: {message}\n{output}"),
        ItemResult::Refused { message } => format!("refused: {message}"),
        ItemResult::Skipped { because } => format!("skipped because of {because}"),
        ItemResult::NotApplicable { why } => format!("not for this host: {why}"),
        ItemResult::Stopped => "stopped".to_owned(),
        ItemResult::PutBack { message, .. } => format!("put back: {message}"),
        ItemResult::Unknown { message } => format!("unknown: {message}"),
    }
}

/// One scenario on its way through the gates.
struct Trial<'a> {
    case: &'a Case,
    number: usize,
    options: &'a RunOptions,
    told: Sender<Told>,
    gates: Vec<GateReport>,
    /// The gate that is being tried: items that run belong to it.
    now: Arc<Mutex<Gate>>,
    /// All objects of the cluster before the first run.
    objects: Objects,
}

/// What a scenario runs on.
struct Site<'a> {
    /// Its hosts.
    names: &'a [String],
    /// The clusters that its roles act on.
    clusters: &'a [String],
    /// The API server of throw-away hosts.
    api: Option<&'a ApiServer>,
}

impl Site<'_> {
    /// Hosts and clusters.
    fn all(&self) -> impl Iterator<Item = &String> {
        self.names.iter().chain(self.clusters)
    }
}

/// What a gate found: mismatches and notes.
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

type Found = Result<Findings, LostHost>;

/// Runs one scenario.
pub(crate) async fn run(case: &Case, number: usize, options: &RunOptions, told: Sender<Told>) -> CaseReport {
    let begun = Instant::now();
    // Nobody listening is fine.
    let _gone = told.send(Told::Began { case: number });
    let mut trial = Trial {
        case,
        number,
        options,
        told,
        gates: Vec::new(),
        now: Arc::new(Mutex::new(Gate::Input)),
        objects: Objects::new(),
    };
    let mut hosts = None;
    trial.all(&mut hosts).await;
    let passed = trial.gates.iter().all(|g| g.outcome != Outcome::Failed);
    let kept = hosts.filter(|_| options.keep && !passed).and_then(Hosts::keep);
    CaseReport {
        role: case.role.clone(),
        scenario: case.scenario.name.clone(),
        file: case.scenario.file.clone().unwrap_or_else(|| case.dir.join("role.yaml")).into_string(),
        gates: trial.gates,
        kept,
        pure: false,
        took: begun.elapsed(),
    }
}

impl Trial<'_> {
    fn doing(&self, gate: Gate, what: impl Into<String>) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = gate;
        let _gone = self.told.send(Told::Doing { case: self.number, gate, what: what.into() });
    }

    /// Writes down how a gate ended. False when the rest is not to be tried.
    fn close(&mut self, gate: Gate, begun: Instant, found: Found) -> bool {
        let findings = found.unwrap_or_else(|lost| Findings {
            wrong: vec![Mismatch::new(lost.message).lines(lost.help)],
            notes: Vec::new(),
        });
        let outcome = if findings.wrong.is_empty() { Outcome::Passed } else { Outcome::Failed };
        let took = begun.elapsed();
        let _gone = self.told.send(Told::GateOver { case: self.number, gate, outcome, took });
        self.gates.push(GateReport {
            gate,
            outcome,
            mismatches: findings.wrong,
            notes: findings.notes,
            took,
        });
        // A host that somebody wants to look at stays as the failure left it.
        outcome == Outcome::Passed || !self.options.keep
    }

    fn not_run(&mut self, why: &str) {
        for gate in Gate::ALL {
            if !self.gates.iter().any(|g| g.gate == gate) {
                self.gates.push(GateReport {
                    gate,
                    outcome: Outcome::NotRun,
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
            Err(why) => {
                self.close(Gate::Input, begun, Ok(vec![Mismatch::new(why)].into()));
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
        let (mut engine, clusters) = match self.make(hosts) {
            Ok(made) => made,
            Err(found) => {
                self.close(Gate::Given, begun, Ok(Findings::from(found)));
                return self.not_run("there are no hosts");
            }
        };
        let names = hosts.as_ref().map(|h| h.names.clone()).unwrap_or_default();
        let api = hosts.as_ref().and_then(|h| h.api.as_ref());
        self.on_hosts(&mut engine, &Site { names: &names, clusters: &clusters, api }, begun).await;
        for host in &names {
            snapshot::forget(&engine, host).await;
        }
        engine.close().await;
    }

    /// Hosts, an engine for them, and the names of the clusters.
    fn make(&self, hosts: &mut Option<Hosts>) -> Result<(Engine, Vec<String>), Vec<Mismatch>> {
        let told = self.told.clone();
        let say = Arc::new(move |line: &str| {
            let _gone = told.send(Told::Remark(line.to_owned()));
        });
        let usual = ClusterSpec::default();
        let needed = project::needs_cluster(self.case, &self.options.catalog).then_some(&usual);
        let spec = self.case.scenario.cluster.as_ref().or(needed);
        let made = match &self.options.hosts {
            Where::ThrowAway => Hosts::make(self.case, self.number, spec, say),
            Where::Inventory(_) if spec.is_some() => {
                Err("a scenario with a cluster runs on throw-away hosts only: leave --inventory out"
                    .to_owned())
            }
            Where::Inventory(given) => {
                let wanted = self.case.scenario.hosts.len();
                match given.names.get(..wanted) {
                    Some(names) => Ok(Hosts::given(&given.inventories, names)),
                    None => Err(format!(
                        "the scenario needs {wanted} hosts, and the inventory gives {}",
                        given.names.len()
                    )),
                }
            }
            Where::Recorded => Err("recorded answers are no hosts".to_owned()),
        };
        let made = made.map_err(|why| vec![Mismatch::new(why)])?;
        let made = hosts.insert(made);
        let project = project::load(
            self.case,
            &self.options.catalog,
            made.inventories.clone(),
            &made.names,
            made.limit.clone(),
            &self.options.vault,
        );
        let project = project.map_err(|found| expect::complaints(&found))?;
        let engine_options = Options {
            operator: self.options.operator.clone(),
            inventory: "a test of the role".to_owned(),
            become_password: self.options.become_password.clone(),
            keep_all_runs: true,
            ..Options::default()
        };
        let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
        let (told, case, now) = (self.told.clone(), self.number, Arc::clone(&self.now));
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                let Event::ItemStarted { address, .. } = event else { continue };
                let gate = *now.lock().unwrap_or_else(PoisonError::into_inner);
                // What is spoiled says more than the item that mends it.
                if gate != Gate::Drift {
                    let _gone = told.send(Told::Doing { case, gate, what: address });
                }
            }
        });
        let clusters =
            project.hosts().iter().filter(|name| project.ways_to(name).is_some()).cloned().collect();
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
        let identities = site.api.map(|api| cluster::at_rest(api, true)).transpose();
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
        let mut found = untouched(engine, names, "times", "planning changed the host").await;
        if let (Some(api), Ok(findings)) = (site.api, &mut found) {
            let differ = identities.and_then(|before| {
                Ok(cluster::differences(&before.unwrap_or_default(), &cluster::list(api, true)?))
            });
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
        let start = match starts(engine, site, &plan).await {
            Ok(start) => start,
            Err(lost) => {
                self.close(Gate::Converge, begun, Err(lost));
                return self.not_run("the host is lost");
            }
        };
        // What the run makes it may take away again, with all that is in it.
        engine.allow_destroy(made_whole(&start));
        let engine: &Engine = engine;
        let report = engine.apply(plan.clone(), StopSwitch::new()).await;
        let run = report.run.clone();
        if !self.close(Gate::Converge, begun, Ok(applied(&report, &plan).into())) {
            return self.not_run(KEPT);
        }
        // Where every item succeeded, the gates behind say more about what is not as declared.
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
            if !self.failed(Gate::Converge) && !self.failed(Gate::PlanIsEmpty) && self.options.spoil {
                let begun = Instant::now();
                let found = self.drift(engine, site, &start).await;
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
            nothing.note("the first run changed nothing, so there is nothing to put back");
            Ok(nothing)
        };
        self.close(Gate::Rollback, begun, found);
        let why =
            if self.options.spoil { "an earlier gate failed" } else { "it was not asked for (--no-spoil)" };
        self.not_run(why);
        self.gates.sort_by_key(|g| g.gate);
    }

    fn failed(&self, gate: Gate) -> bool {
        self.gates.iter().any(|g| g.gate == gate && g.outcome == Outcome::Failed)
    }

    /// What the scenario calls a host.
    fn scenario_name(&self, host: &str, names: &[String]) -> String {
        let position = names.iter().position(|n| n == host);
        let spec = position.and_then(|at| self.case.scenario.hosts.get(at));
        spec.map_or_else(|| host.to_owned(), |spec| spec.name.clone())
    }

    async fn given(&mut self, engine: &Engine, site: &Site<'_>) -> Found {
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
            snapshot::take(engine, host, "start", false).await?;
            snapshot::take(engine, host, "times", true).await?;
        }
        if let Some(api) = site.api {
            self.doing(Gate::Given, "lists the objects of the cluster");
            self.objects = cluster::at_rest(api, false).map_err(LostHost::refused)?;
        }
        Ok(findings)
    }

    async fn verify(&self, engine: &Engine, site: &Site<'_>) -> Found {
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
                let script = match site.api {
                    Some(_) => format!("{AS_ADMINISTRATOR}{}", after.value),
                    None => after.value.clone(),
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

    async fn drift(&self, engine: &Engine, site: &Site<'_>, start: &Starts) -> Found {
        let mut findings = Findings::default();
        let mut mended = 0;
        for host in site.all() {
            let before = start.get(host).cloned().unwrap_or_default();
            let doing = |what: String| self.doing(Gate::Drift, what);
            let api = site.api.filter(|_| site.clusters.contains(host));
            let spoiled = spoil::all(engine, host, api, &self.case.role, &before, doing).await?;
            mended += spoiled.mended;
            findings.wrong.extend(spoiled.wrong);
            findings.notes.extend(spoiled.left.into_iter().map(|l| format!("not spoiled: {l}")));
        }
        let things = if mended == 1 { "thing" } else { "things" };
        findings.notes.insert(0, format!("{mended} {things} spoiled, found and mended"));
        Ok(findings)
    }

    async fn rollback(&self, engine: &Engine, site: &Site<'_>, run: &str, start: &Starts) -> Found {
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
            findings.wrong.push(Mismatch::new(format!("`{}` cannot be put back", item.address)).lines([why]));
        }
        let report = engine.apply(plan.clone(), StopSwitch::new()).await;
        findings.wrong.extend(applied(&report, &plan));
        if let Some(api) = site.api {
            self.doing(Gate::Rollback, "compares the objects of the cluster");
            let left = cluster::left(api, &self.objects);
            findings.wrong.extend(as_before(left, "the cluster is not as it was"));
        }
        for host in site.names {
            self.doing(Gate::Rollback, "compares the file system");
            let before = start.get(host).cloned().unwrap_or_default();
            let objects: BTreeSet<ObjectId> = before.keys().cloned().collect();
            let now = engine.states(host, &objects).await?;
            for (object, was) in &before {
                let is = now.get(object).map_or("unknown", State::line);
                if is != was.line() {
                    findings.wrong.push(
                        Mismatch::new(format!("{object} on {host} is not as it was")).but(was.line(), is),
                    );
                }
            }
            let leaves: Vec<&str> = self.case.scenario.leaves.iter().map(|l| l.value.as_str()).collect();
            let (meant, left): (Vec<_>, Vec<_>) = snapshot::compare(engine, host, "start", false)
                .await?
                .into_iter()
                .filter(|d| !is_among(&d.path, NOISE.iter().copied()))
                .partition(|d| is_among(&d.path, leaves.iter().copied()));
            if !left.is_empty() {
                findings.wrong.push(
                    Mismatch::new(format!("the file system of {host} is not as it was"))
                        .but("every path as before the first run", format!("{} that differ", left.len()))
                        .lines(left.iter().map(snapshot::Difference::shown)),
                );
            }
            findings.notes.extend(meant.iter().map(|d| format!("left, as the scenario says: {}", d.shown())));
        }
        Ok(findings)
    }
}

/// What is wrong with role and scenario, as far as that shows without a host.
fn refused_without_hosts(case: &Case, options: &RunOptions) -> Result<Diagnostics, String> {
    let imagined = Hosts::imagined(case)?;
    let project =
        project::load(case, &options.catalog, imagined.inventories, &imagined.names, None, &options.vault);
    let engine = project.and_then(|p| Engine::new(p, Options::default(), EventSink::default()));
    Ok(engine.and_then(|engine| engine.check_without_hosts()).err().unwrap_or_default())
}

/// By host: what is claimed, as it is before the first run.
type Starts = BTreeMap<String, BTreeMap<ObjectId, State>>;

/// What the run makes anew and a rollback takes away only when that is allowed, by ID.
fn made_whole(start: &Starts) -> Vec<String> {
    let absent = start.values().flatten().filter(|(_, state)| state.is_absent());
    let whole = |key: &str| {
        ApiRef::from_key(key)
            .is_some_and(|object| ["Namespace", "CustomResourceDefinition"].contains(&object.kind.as_str()))
    };
    let made = absent.filter(|(object, _)| object.kind == "k8s" && whole(&object.key));
    made.map(|(object, _)| object.to_string()).collect()
}

/// What is wrong when a cluster has these differences.
fn as_before(found: Result<Vec<String>, String>, what: &str) -> Option<Mismatch> {
    match found {
        Ok(differ) if differ.is_empty() => None,
        Ok(differ) => {
            let found = format!("{} that differ", differ.len());
            Some(Mismatch::new(what).but("every object as before", found).lines(differ))
        }
        Err(why) => Some(Mismatch::new("the objects of the cluster cannot be compared").lines([why])),
    }
}

async fn starts(engine: &Engine, site: &Site<'_>, plan: &FleetPlan) -> Result<Starts, LostHost> {
    let mut out = Starts::new();
    for host in site.all() {
        let claims = engine.claims(host).await?;
        let mut objects: BTreeSet<ObjectId> =
            claims.iter().flat_map(|i| &i.claims).map(|c| c.object.clone()).collect();
        let planned = plan.planned().filter(|p| p.host == *host).flat_map(|p| &p.items);
        objects.extend(planned.flat_map(|i| i.claims.clone()));
        out.insert(host.clone(), engine.states(host, &objects).await?);
    }
    Ok(out)
}

/// What went wrong in an apply.
fn applied(report: &ApplyReport, plan: &FleetPlan) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    for host in &report.hosts {
        for (item, result) in host.items.iter().filter(|(_, r)| r.is_bad()) {
            wrong.push(
                Mismatch::new(format!("`{}` on {}", item.address, host.host))
                    .lines(ended(result).lines().map(str::to_owned))
                    .plan(plan, &[&item.address]),
            );
        }
        // A live check that does not hold is a matter of its own gate.
        let resources: Vec<String> = plan
            .planned()
            .filter(|p| p.host == host.host)
            .flat_map(|p| &p.items)
            .map(|i| format!("{}: ", i.address))
            .collect();
        let is_rollback = plan.purpose != converge_engine::Purpose::Converge;
        let own = |d: &&String| is_rollback || resources.iter().any(|r| d.starts_with(r.as_str()));
        for difference in host.differences.iter().filter(own) {
            wrong.push(
                Mismatch::new(format!("{} was looked at again, and is not as declared", host.host))
                    .lines([difference.clone()]),
            );
        }
        if let Some(lost) = &host.lost {
            wrong.push(Mismatch::new(lost.message.clone()).lines(lost.help.clone()));
        }
    }
    wrong
}

/// Where plan and apply say different things.
fn as_planned(plan: &FleetPlan, report: &ApplyReport) -> Vec<Mismatch> {
    let mut wrong = Vec::new();
    for host_plan in plan.planned() {
        let done: BTreeMap<&str, (&Item, &ItemResult)> = report
            .hosts
            .iter()
            .filter(|h| h.host == host_plan.host)
            .flat_map(|h| &h.items)
            .map(|(item, result)| (item.address.as_str(), (item, result)))
            .collect();
        for item in &host_plan.items {
            let did = done.get(item.address.as_str());
            let changes = |item: &Item| -> BTreeMap<String, String> {
                let all = item.changes().iter();
                all.map(|c| (c.change.object.to_string(), c.change.to.line().to_owned())).collect()
            };
            let (expected, found) = match (&item.outcome, did) {
                (Planned::Changed(_), None) => ("it changes".to_owned(), "it was left alone".to_owned()),
                (Planned::Changed(_), Some((_, ItemResult::Unchanged))) => {
                    ("it changes".to_owned(), "it turned out to be as declared".to_owned())
                }
                (Planned::Changed(_), Some((applied, ItemResult::Changed))) => {
                    let (said, did) = (changes(item), changes(applied));
                    if said == did {
                        continue;
                    }
                    let list = |all: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
                        let own = all.iter().filter(|(object, to)| other.get(*object) != Some(to));
                        let own: Vec<String> = own.map(|(object, to)| format!("{object} → {to}")).collect();
                        if own.is_empty() { "nothing more".to_owned() } else { own.join("\n") }
                    };
                    (list(&said, &did), list(&did, &said))
                }
                (Planned::Unchanged | Planned::Adopt(_), Some((_, ItemResult::Changed))) => {
                    ("it is as declared".to_owned(), "it was changed".to_owned())
                }
                (Planned::Deferred { objects, .. }, Some((applied, ItemResult::Changed))) => {
                    let more: Vec<String> = applied
                        .changes()
                        .iter()
                        .map(|c| &c.change.object)
                        .filter(|o| !objects.is_empty() && !objects.contains(o))
                        .map(ToString::to_string)
                        .collect();
                    if more.is_empty() {
                        continue;
                    }
                    (
                        "it changes only what it was deferred for".to_owned(),
                        format!("it changed {}", more.join(", ")),
                    )
                }
                _ => continue,
            };
            wrong.push(
                Mismatch::new(format!("`{}` on {}: plan and apply differ", item.address, host_plan.host))
                    .but(format!("as the plan said: {expected}"), format!("as the apply did: {found}"))
                    .plan(plan, &[&item.address]),
            );
        }
    }
    wrong
}

/// A plan that has nothing to do.
async fn next_plan(engine: &Engine) -> Found {
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
    let mismatch = Mismatch::new("the role is not as declared just after it was applied");
    Ok(vec![mismatch.but("nothing to change", found).plan(&plan, &open)].into())
}

/// A second run, and that it left the hosts alone.
async fn again(engine: &Engine, site: &Site<'_>) -> Found {
    for host in site.names {
        snapshot::take(engine, host, "again", true).await?;
    }
    let before = site.api.map(|api| cluster::at_rest(api, true)).transpose();
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
    wrong.extend(untouched(engine, site.names, "again", "the second run changed the host").await?.wrong);
    if let Some(api) = site.api {
        let differ = before.and_then(|before| {
            Ok(cluster::differences(&before.unwrap_or_default(), &cluster::list(api, true)?))
        });
        wrong.extend(as_before(differ, "the second run changed the cluster"));
    }
    Ok(wrong.into())
}

/// Whether no path was written since the list of this label was taken.
async fn untouched(engine: &Engine, names: &[String], label: &str, what: &str) -> Found {
    let mut findings = Findings::default();
    for host in names {
        let written = snapshot::compare(engine, host, label, true).await?;
        let written: Vec<String> = written
            .iter()
            .filter(|d| !is_among(&d.path, NOISE.iter().copied()))
            .map(snapshot::Difference::shown)
            .collect();
        if !written.is_empty() {
            let found = format!("{} written", written.len());
            findings.wrong.push(
                Mismatch::new(format!("{host}: {what}")).but("no path is written", found).lines(written),
            );
        }
    }
    Ok(findings)
}
