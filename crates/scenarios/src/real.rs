//! The gates on real hosts.

mod gates;

use crate::cluster::{self, ClusterObjects};
use crate::cluster_spec::ClusterSpec;
use crate::discover::Case;
use crate::expect::{self, Complaint};
use crate::hosts::{HostsError, ScenarioHosts};
use crate::judge::{add_what_waited, applied, as_before, as_planned, made_whole};
use crate::options::{RunOptions, Where};
use crate::project::{self, RoleSet};
use crate::pure::{self, LoadError};
use crate::report::{CaseReport, Gate, GateOutcome, GateReport, Mismatch, ScenarioEvent};
use crate::snapshot::{self, NOISE};
use crate::{recording, whole};
use converge_engine::{
    Engine, Event, EventSink, FleetPlan, HostResult, Options, ProjectName, StopSwitch, TargetError,
    TimedEvent, exit_code,
};
use converge_lab::kube::Kubectl;
use converge_planner::Item;
use converge_syntax::{Diagnostic, Diagnostics};
use gates::{again, next_plan, starts, untouched};
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
    progress: Sender<ScenarioEvent>,
    gates: Vec<GateReport>,
    /// The gate that is being tried: items that run belong to it.
    now: Arc<Mutex<Gate>>,
    /// All objects of the cluster before the first run.
    objects: ClusterObjects,
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

type GateFindings = Result<Findings, TargetError>;

/// Runs one scenario.
pub(crate) async fn run(
    case: &Case,
    number: usize,
    options: &RunOptions,
    progress: Sender<ScenarioEvent>,
) -> CaseReport {
    let begun = Instant::now();
    // Nobody listening is fine.
    let _gone = progress.send(ScenarioEvent::Began { case: number });
    let mut case_run = CaseRun {
        case,
        number,
        options,
        progress,
        gates: Vec::new(),
        now: Arc::new(Mutex::new(Gate::Input)),
        objects: ClusterObjects::default(),
    };
    let mut hosts = None;
    case_run.all(&mut hosts).await;
    let passed = case_run.gates.iter().all(|g| g.outcome != GateOutcome::Failed);
    let remaining_hosts = hosts.filter(|_| options.keep && !passed).and_then(ScenarioHosts::keep);
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
        let _gone = self.progress.send(ScenarioEvent::Doing { case: self.number, gate, what: what.into() });
    }

    /// Writes down how a gate ended. False when the rest is not to be tried.
    fn close(&mut self, gate: Gate, begun: Instant, found: GateFindings) -> bool {
        let findings = found.unwrap_or_else(|lost| Findings {
            wrong: vec![Mismatch::new(lost.to_string())],
            notes: Vec::new(),
        });
        let outcome = if findings.wrong.is_empty() { GateOutcome::Passed } else { GateOutcome::Failed };
        let took = begun.elapsed();
        let _gone = self.progress.send(ScenarioEvent::GateOver { case: self.number, gate, outcome, took });
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

    async fn all(&mut self, hosts: &mut Option<ScenarioHosts>) {
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
    async fn make(&self, hosts: &mut Option<ScenarioHosts>) -> Result<(Engine, Vec<String>), Vec<Mismatch>> {
        let progress = self.progress.clone();
        let say = Arc::new(move |line: &str| {
            let _gone = progress.send(ScenarioEvent::Remark(line.to_owned()));
        });
        let usual = ClusterSpec::default();
        let needed = project::needs_cluster(self.case, &self.options.catalog).then_some(&usual);
        let spec = self.case.scenario.cluster.as_ref().or(needed);
        let made = match &self.options.hosts {
            Where::ThrowAway => ScenarioHosts::make(self.case, self.number, spec, say),
            Where::Inventory(_) if spec.is_some() => Err(HostsError::ClusterOnGiven),
            Where::Inventory(given) => {
                let needed = self.case.scenario.hosts.len();
                match given.names.get(..needed) {
                    Some(names) => Ok(ScenarioHosts::given(&given.inventories, names)),
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
    fn engine(
        &self,
        hosts: &ScenarioHosts,
        role_set: RoleSet,
    ) -> Result<(Engine, Vec<String>), Vec<Mismatch>> {
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
            become_password: self.options.become_password.clone(),
            keep_all_runs: true,
            helm: hosts.helm.clone(),
            folder: hosts.project_folder(),
            scope: ProjectName { playbook: playbook.to_owned(), inventory: "a test of the role".to_owned() },
            allow_destroy: self.case.scenario.allow_destroy.clone(),
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
                    let _gone = progress.send(ScenarioEvent::Doing { case, gate, what: address });
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
        let broken = plan.exit_code() == exit_code::FAILED
            || plan.hosts.iter().any(|h| matches!(h.result, HostResult::Lost(_)));
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
        const RETAINED: &str = "an earlier gate failed, and the hosts are kept";
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
        engine.allow_destroy([made_whole(&start), self.case.scenario.allow_destroy.clone()].concat());
        let engine: &Engine = engine;
        let report = engine.apply(plan.clone(), StopSwitch::new()).await;
        let run = report.run.clone();
        add_what_waited(&mut start, &report);
        if !self.close(Gate::Converge, begun, Ok(applied(&report, &plan).into())) {
            return self.not_run(RETAINED);
        }
        // If every item succeeded, the later gates tell more about differences from the declaration.
        let items = || report.hosts.iter().flat_map(|h| &h.items);
        let converged = items().all(|(_, r)| !r.is_bad()) && report.hosts.iter().all(|h| h.lost.is_none());

        let begun = Instant::now();
        if converged {
            if !self.close(Gate::AsPlanned, begun, Ok(as_planned(&plan, &report).into())) {
                return self.not_run(RETAINED);
            }
            let begun = Instant::now();
            self.doing(Gate::PlanIsEmpty, "");
            if !self.close(Gate::PlanIsEmpty, begun, next_plan(engine).await) {
                return self.not_run(RETAINED);
            }
            let begun = Instant::now();
            self.doing(Gate::ConvergeAgain, "");
            let found = again(engine, site).await;
            if !self.close(Gate::ConvergeAgain, begun, found) {
                return self.not_run(RETAINED);
            }
            let begun = Instant::now();
            self.doing(Gate::Verify, "");
            let found = self.verify(engine, site).await;
            if !self.close(Gate::Verify, begun, found) {
                return self.not_run(RETAINED);
            }
            // On a host on which the next plan is not empty, a finding would say nothing.
            if !self.failed(Gate::Converge) && !self.failed(Gate::PlanIsEmpty) && self.options.inject_drift {
                let begun = Instant::now();
                let found = self.drift(engine, site, &start, &plan).await;
                if !self.close(Gate::Drift, begun, found) {
                    return self.not_run(RETAINED);
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
}

/// The errors of role and scenario that show without a host.
fn refused_without_hosts(case: &Case, options: &RunOptions) -> Result<Diagnostics, LoadError> {
    match pure::imagined(case, options) {
        Ok((engine, _hosts)) => Ok(engine.check_without_hosts().err().unwrap_or_default()),
        Err(LoadError::Input(found)) => Ok(found),
        Err(error) => Err(error),
    }
}
