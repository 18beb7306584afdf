//! `converge vars`: every candidate of a variable, and who wins where.

use converge_syntax::{Diagnostic, Diagnostics, Node, Span};
use converge_template::{Evaluation, Scope};
use indexmap::IndexMap;

use crate::inventory::ConnectionSettings;
use crate::loaded::Inner;
use crate::scope::{Facts, host_scope, hostvars, role_scope};
use crate::vars::{Candidate, Layers, VarReport, Winner, host_layers, role_layers};

/// Reads variables of a host outside any role: as written by name, and rendered.
struct HostReader<'p> {
    project: &'p Inner,
    layers: Layers,
    scope: Scope,
}

impl<'p> HostReader<'p> {
    fn new(project: &'p Inner, host: &str) -> Self {
        let facts = Facts::none();
        let shared = &project.shared;
        let scope = host_scope(shared, &facts, &hostvars(shared, &facts), host);
        Self { project, layers: host_layers(&shared.inventory, &shared.set, host), scope }
    }

    fn written(&self, name: &str) -> Option<Node> {
        Some(self.layers.get(name)?.last()?.node.clone())
    }

    fn render(&self, node: &Node) -> Result<Node, Diagnostics> {
        match self.project.shared.engine.eval_value(node, &self.scope)? {
            Evaluation::Known(found) => Ok(found.value),
            Evaluation::Unknown { names, .. } => {
                let names: Vec<String> = names.into_iter().collect();
                let message =
                    format!("this must be known before the host is reached, and reads {}", names.join(", "));
                Err(Diagnostic::error("unknown-value", message).at(&node.span).into())
            }
        }
    }
}

/// A variable of a host outside any role.
pub(crate) fn host_var(project: &Inner, host: &str, name: &str) -> Result<Option<Node>, Diagnostics> {
    let reader = HostReader::new(project, project.clusters.speaker(host));
    match reader.written(name) {
        None => Ok(None),
        Some(node) => reader.render(&node).map(Some),
    }
}

/// The connection of a host.
pub(crate) fn connection(
    project: &Inner,
    host: &str,
) -> Result<(ConnectionSettings, Diagnostics), Diagnostics> {
    let reader = HostReader::new(project, host);
    ConnectionSettings::resolve(host, |name| reader.written(name), |node| reader.render(node))
}

/// The variables of a host, or of a cluster through its first entry host. Of a host that is one, the roles of the cluster count too.
pub(crate) fn vars(project: &Inner, target: &str, name: Option<&str>) -> Vec<VarReport> {
    let host = project.clusters.speaker(target);
    let facts = Facts::none();
    let shared = &project.shared;
    let hosts = hostvars(shared, &facts);
    let mut reports: IndexMap<String, VarReport> = IndexMap::new();
    let scope = host_scope(shared, &facts, &hosts, host);
    let layers = host_layers(&shared.inventory, &shared.set, host);
    add(project, &mut reports, None, layers, &scope, name);
    let clusters = project
        .clusters
        .names()
        .filter(|cluster| *cluster != target && project.clusters.speaker(cluster) == target);
    for used in [target].into_iter().chain(clusters).filter_map(|target| project.hosts.get(target)).flatten()
    {
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
    // The scope has the checked value of an input; asking it by name also keeps what it was made of.
    let ask = Node::new(format!("{{{{ {name} }}}}"), Span::nowhere("vars"));
    let found = if scope.has(name) && crate::fields::is_identifier(name) {
        project.shared.engine.eval_value(&ask, scope)
    } else {
        project.shared.engine.eval_value(&candidate.node, scope)
    };
    match found {
        Ok(Evaluation::Known(found)) if found.sensitive || candidate.sensitive => {
            (None, Some("sensitive".to_owned()))
        }
        Ok(Evaluation::Known(found)) => (Some(found.value), None),
        Ok(Evaluation::Unknown { names, .. }) => {
            (None, Some(format!("waits for {}", names.into_iter().collect::<Vec<_>>().join(", "))))
        }
        Err(problems) => (
            None,
            Some(problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")),
        ),
    }
}
