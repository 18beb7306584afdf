//! Scenarios on recorded answers: no host, milliseconds.

use crate::discover::Case;
use crate::expect::{self, Complaint};
use crate::hosts::{HostsError, ScenarioHosts};
use crate::options::RunOptions;
use crate::project::{self, RoleSet};
use crate::recording::{self, RecordingError};
use crate::report::{CaseReport, Gate, GateOutcome, GateReport, Mismatch, ScenarioEvent};
use converge_engine::recorded::{HostRecording, RecordedContent, RecordedObject};
use converge_engine::{Engine, EventSink, Options};
use converge_objects::PathState;
use converge_resource::{Digest, State};
use converge_syntax::{Diagnostics, Severity};
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Runs one scenario.
pub(crate) fn run(
    case: &Case,
    number: usize,
    options: &RunOptions,
    progress: &Sender<ScenarioEvent>,
) -> CaseReport {
    let begun = Instant::now();
    let _gone = progress.send(ScenarioEvent::Began { case: number });
    let mut gates = Vec::new();
    let mut close = |gate: Gate, wrong: Vec<Mismatch>, notes: Vec<String>| {
        let outcome = if wrong.is_empty() { GateOutcome::Passed } else { GateOutcome::Failed };
        let took = begun.elapsed();
        let _gone = progress.send(ScenarioEvent::GateOver { case: number, gate, outcome, took });
        gates.push(GateReport { gate, outcome, mismatches: wrong, notes, took });
    };
    let errors = &case.scenario.expect.errors;
    match folded(case, options) {
        Err(LoadError::Input(found)) => {
            let wrong = if errors.is_empty() {
                expect::complaints(&found)
            } else {
                let own = found.iter().filter(|d| d.severity == Severity::Error).map(Complaint::of);
                expect::against_errors(&own.collect::<Vec<_>>(), errors)
            };
            close(Gate::Input, wrong, Vec::new());
        }
        Err(error) => close(Gate::Input, vec![Mismatch::new(error.to_string())], Vec::new()),
        Ok(_) if project::needs_cluster(case, &options.catalog) => {
            let note = "what a cluster answers is not recorded: its plan is tested on disposable hosts";
            close(Gate::Input, Vec::new(), vec![note.to_owned()]);
        }
        Ok((plan, notes)) => {
            close(Gate::Input, Vec::new(), Vec::new());
            let same = |host: &str| host.to_owned();
            let wrong = if errors.is_empty() {
                expect::against_plan(&plan, &case.scenario.expect, &case.role, &same)
            } else {
                expect::against_errors(&Complaint::of_plan(&plan), errors)
            };
            close(Gate::Plan, wrong, notes);
        }
    }
    for gate in Gate::ALL {
        if !gates.iter().any(|g| g.gate == gate) {
            gates.push(GateReport {
                gate,
                outcome: GateOutcome::NotRun,
                mismatches: Vec::new(),
                notes: vec!["a pure run has no host".to_owned()],
                took: Duration::ZERO,
            });
        }
    }
    CaseReport {
        role: case.role.clone(),
        scenario: case.scenario.name.clone(),
        file: case.scenario.file.clone().unwrap_or_else(|| case.dir.join("role.yaml")).into_string(),
        gates,
        remaining_hosts: None,
        pure: true,
        took: begun.elapsed(),
    }
}

/// The reason why role and scenario cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Errors in the scenario or its role, for the author.
    #[error(transparent)]
    Input(#[from] Diagnostics),
}

/// Role and scenario with hosts that are never contacted; their inventory exists as long as they do.
pub(crate) fn imagined(case: &Case, options: &RunOptions) -> Result<(Engine, ScenarioHosts), LoadError> {
    let hosts = ScenarioHosts::imagined(case)?;
    let project = project::load(
        case,
        RoleSet::Tested,
        &options.catalog,
        hosts.inventories.clone(),
        &hosts.names,
        None,
        &options.vault,
    )?;
    Ok((Engine::new(project, Options::default(), EventSink::default())?, hosts))
}

fn folded(case: &Case, options: &RunOptions) -> Result<(converge_engine::FleetPlan, Vec<String>), LoadError> {
    let (engine, _hosts) = imagined(case, options)?;
    let mut notes = Vec::new();
    let mut recordings = match recording::load(case)? {
        Some(recordings) => recordings,
        None => {
            notes.push(format!(
                "nothing is recorded for this scenario: hosts are taken for empty (record with `converge test {} --record`)",
                case.dir
            ));
            BTreeMap::new()
        }
    };
    let wanted = case.scenario.facts.as_ref().map(converge_syntax::Node::to_json);
    for name in case.scenario.host_names() {
        let known = recordings.contains_key(name);
        let recording = recordings.entry(name.to_owned()).or_default();
        if !known {
            usual_folders(recording);
            given_files(case, recording);
        }
        if let Some(wanted) = &wanted {
            let facts = recording.facts.get_or_insert_with(|| serde_json::json!({}));
            lay_over(facts, wanted);
        }
    }
    let (plan, assumed) = engine.plan_recorded(&recordings)?;
    for (host, objects) in assumed {
        let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
        notes.extend(names.iter().map(|n| format!("taken for absent: {n} on {host}, which is not recorded")));
    }
    Ok((plan, notes))
}

/// Folders that every host has.
fn usual_folders(recording: &mut HostRecording) {
    let folders = [
        "/",
        "/etc",
        "/etc/systemd",
        "/etc/systemd/system",
        "/home",
        "/opt",
        "/root",
        "/run",
        "/srv",
        "/usr",
        "/usr/bin",
        "/usr/lib",
        "/usr/local",
        "/usr/local/bin",
        "/usr/local/sbin",
        "/usr/sbin",
        "/usr/share",
        "/var",
        "/var/lib",
    ];
    for folder in folders {
        let state = PathState::Dir { mode: 0o755, owner: "root".to_owned(), group: "root".to_owned() };
        recording.objects.push(RecordedObject {
            kind: "path".to_owned(),
            key: folder.to_owned(),
            state: Some(State::from(state).line().to_owned()),
            moment: None,
            real: None,
            error: None,
        });
    }
}

/// Adds the files of the scenario's preconditions, for a host without a recording.
fn given_files(case: &Case, recording: &mut HostRecording) {
    for (path, file) in case.scenario.before.all_files() {
        let mode = file.mode.as_ref().and_then(|m| u32::from_str_radix(m, 8).ok());
        let owner = file.owner.unwrap_or_else(|| "root".to_owned());
        let group = file.group.unwrap_or_else(|| "root".to_owned());
        let state = if file.directory {
            PathState::Dir { mode: mode.unwrap_or(0o755), owner, group }
        } else {
            let text = file.content.unwrap_or_default();
            recording.contents.push(RecordedContent {
                path: path.to_owned(),
                text: Some(text.clone()),
                hex: None,
            });
            let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
            PathState::File {
                digest: Digest::of(text.as_bytes()),
                size: Some(size),
                mode: mode.unwrap_or(0o644),
                owner,
                group,
            }
        };
        recording.objects.push(RecordedObject {
            kind: "path".to_owned(),
            key: path.to_owned(),
            state: Some(State::from(state).line().to_owned()),
            moment: None,
            real: None,
            error: None,
        });
    }
}

/// Maps are merged, everything else is replaced.
fn lay_over(under: &mut serde_json::Value, over: &serde_json::Value) {
    match (under, over) {
        (serde_json::Value::Object(under), serde_json::Value::Object(over)) => {
            for (key, value) in over {
                lay_over(under.entry(key.clone()).or_insert(serde_json::Value::Null), value);
            }
        }
        (under, over) => *under = over.clone(),
    }
}
