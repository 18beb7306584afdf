//! `converge vars`: every candidate of a variable, and who wins where.

use std::sync::Arc;

use converge_syntax::{Diagnostics, Node, Span};
use converge_template::{Outcome, Scope};
use indexmap::IndexMap;

use crate::inventory::encrypted_value;
use crate::project::Inner;
use crate::scope::{Facts, host_scope, hostvars, role_scope};
use crate::vars::{Candidate, Layers, VarReport, Winner, host_layers, role_layers};

/// A variable of a host outside any role.
pub(crate) fn host_var(project: &Arc<Inner>, host: &str, name: &str) -> Result<Option<Node>, Diagnostics> {
    let layers = host_layers(&project.shared.inventory, &project.shared.set, host);
    let Some(winner) = layers.get(name).and_then(|candidates| candidates.last()) else {
        return Ok(None);
    };
    if crate::inventory::is_encrypted(&winner.node) {
        return Err(encrypted_value(name, &winner.node).into());
    }
    let facts = Facts::none();
    let scope = host_scope(&project.shared, &facts, &hostvars(&project.shared, &facts), host);
    Ok(project.shared.engine.eval_value(&winner.node, &scope)?.known())
}

pub(crate) fn vars(project: &Arc<Inner>, host: &str, name: Option<&str>) -> Vec<VarReport> {
    let facts = Facts::none();
    let shared = &project.shared;
    let hosts = hostvars(shared, &facts);
    let mut reports: IndexMap<String, VarReport> = IndexMap::new();
    let scope = host_scope(shared, &facts, &hosts, host);
    let layers = host_layers(&shared.inventory, &shared.set, host);
    add(project, &mut reports, None, layers, &scope, name);
    for used in project.hosts.get(host).into_iter().flatten() {
        let Some((play, role_ref)) = project.play_use(used) else {
            continue;
        };
        let layers = role_layers(&shared.inventory, &shared.set, host, play, role_ref, &used.role);
        let made = role_scope(shared, &facts, &hosts, host, &used.role, &layers, &role_ref.role.span);
        add(project, &mut reports, Some(&used.role.name), layers, &made.scope, name);
    }
    let mut reports: Vec<VarReport> = reports.into_values().collect();
    reports.sort_by(|a, b| a.name.cmp(&b.name));
    reports.iter_mut().for_each(by_layer);
    reports
}

/// Adds what one scope has; a role is listed where another candidate wins than for the host.
fn add(
    project: &Inner,
    reports: &mut IndexMap<String, VarReport>,
    role: Option<&str>,
    layers: Layers,
    scope: &Scope,
    only: Option<&str>,
) {
    for (name, candidates) in layers {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let report = reports.entry(name.clone()).or_insert_with(|| VarReport {
            name: name.clone(),
            candidates: Vec::new(),
            winners: Vec::new(),
        });
        let mut last = None;
        for mut candidate in candidates {
            candidate.sensitive |= project.shared.secrets.contains(&name);
            last = Some(place(&mut report.candidates, candidate));
        }
        let Some(index) = last else {
            continue;
        };
        if report.winners.iter().any(|winner| winner.candidate == index) {
            continue;
        }
        let Some(candidate) = report.candidates.get(index) else {
            continue;
        };
        let (value, why) = shown(project, &name, candidate, scope);
        report.winners.push(Winner { role: role.map(str::to_owned), candidate: index, value, why });
    }
}

/// Sorts the candidates by layer. Within one, they are in the inventory's order already.
fn by_layer(report: &mut VarReport) {
    let mut order: Vec<usize> = (0..report.candidates.len()).collect();
    order.sort_by_key(|index| report.candidates.get(*index).map(|candidate| candidate.layer.rank()));
    report.candidates = order.iter().filter_map(|index| report.candidates.get(*index).cloned()).collect();
    for winner in &mut report.winners {
        winner.candidate =
            order.iter().position(|index| *index == winner.candidate).unwrap_or(winner.candidate);
    }
}

/// Puts a candidate among the others, once; gives its position.
fn place(all: &mut Vec<Candidate>, candidate: Candidate) -> usize {
    let same = |other: &Candidate| {
        other.layer == candidate.layer && other.within == candidate.within && other.key == candidate.key
    };
    if let Some(index) = all.iter().position(same) {
        return index;
    }
    all.push(candidate);
    all.len() - 1
}

/// The value of a variable as the scope has it, or why it is not shown.
fn shown(
    project: &Inner,
    name: &str,
    candidate: &Candidate,
    scope: &Scope,
) -> (Option<Node>, Option<String>) {
    if crate::inventory::is_encrypted(&candidate.node) {
        return (None, Some("encrypted".to_owned()));
    }
    // The scope has the checked value of an input; asking it by name also keeps what it was made of.
    let ask = Node::new(format!("{{{{ {name} }}}}"), Span::nowhere("vars"));
    let found = if scope.has(name) && crate::fields::is_identifier(name) {
        project.shared.engine.eval_value(&ask, scope)
    } else {
        project.shared.engine.eval_value(&candidate.node, &scope)
    };
    match found {
        Ok(Outcome::Known(found)) if found.sensitive || candidate.sensitive => {
            (None, Some("sensitive".to_owned()))
        }
        Ok(Outcome::Known(found)) => (Some(found.value), None),
        Ok(Outcome::Unknown { names, .. }) => {
            (None, Some(format!("waits for {}", names.into_iter().collect::<Vec<_>>().join(", "))))
        }
        Err(problems) => (
            None,
            Some(problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")),
        ),
    }
}
