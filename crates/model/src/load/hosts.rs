//! Checks of each host: its variables, its clusters, its maintenance.

use super::{MAINTENANCE, unique};
use crate::clusters::Clusters;
use crate::declare::RegisteredResults;
use crate::empty;
use crate::fields::{nearest, wrong_type};
use crate::inventory::Inventory;
use crate::loaded::{FactNeeds, HostErrors, HostRole, Inner};
use crate::options::LoadOptions;
use crate::resolve::Resolution;
use crate::scope::Facts;
use camino::Utf8Path;
use converge_syntax::{Diagnostic, Diagnostics, Severity, Span, Value};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The hosts that `--limit` leaves.
pub(super) fn limited(
    options: &LoadOptions,
    inventory: &Inventory,
    hosts: &IndexMap<String, Vec<HostRole>>,
    clusters: &Clusters,
    diags: &mut Diagnostics,
    warnings: &mut Diagnostics,
) -> Vec<String> {
    let Some(limit) = &options.limit else {
        return hosts.keys().cloned().collect();
    };
    let Some(selection) = diags.take(inventory.select_limit(limit, Utf8Path::new("."))) else {
        return Vec::new();
    };
    warnings.extend(selection.warnings);
    // A cluster takes part if one of its entry hosts does.
    let takes_part = |name: &str| match clusters.entry_hosts(name) {
        Some(entry_hosts) => entry_hosts.iter().any(|host| selection.hosts.contains(host)),
        None => selection.hosts.iter().any(|host| host == name),
    };
    let selected: Vec<String> = hosts.keys().filter(|host| takes_part(host)).cloned().collect();
    if selected.is_empty() && !selection.hosts.is_empty() {
        warnings.push(
            Diagnostic::warning("no-hosts", "no play has a host of the limit")
                .at(&Span::nowhere("--limit"))
                .help(format!(
                    "hosts of the plays: {}",
                    hosts.keys().cloned().collect::<Vec<_>>().join(", ")
                )),
        );
    }
    selected
}

/// Resolves everything on every host without knowledge about the hosts: an error that shows now does not need any contact.
pub(super) fn check_hosts(inner: &Arc<Inner>, errors: &mut HostErrors) -> BTreeMap<String, FactNeeds> {
    let hosts: Vec<&String> = inner.hosts.keys().collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let share = hosts.len().div_ceil(workers).max(8);
    // One for all hosts, which then share `hostvars`.
    let facts = Facts::none();
    let facts = &facts;
    let mut needs = BTreeMap::new();
    std::thread::scope(|threads| {
        let work = |part: &[&String]| -> Vec<(String, FactNeeds, Diagnostics)> {
            part.iter().map(|host| check_host(inner, host, facts)).collect()
        };
        let running: Vec<_> = hosts.chunks(share).map(|part| threads.spawn(move || work(part))).collect();
        for (host, need, found) in running.into_iter().filter_map(|thread| thread.join().ok()).flatten() {
            if !found.is_empty() {
                errors.entry(host.clone()).or_default().extend(found);
            }
            needs.insert(host, need);
        }
    });
    needs
}

/// The hosts that the inventory takes out with `maintenance: true`.
pub(super) fn in_maintenance(inner: &Inner, diags: &mut Diagnostics) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let hosts = inner.hosts.keys().filter(|name| inner.clusters.entry_hosts(name).is_none());
    let entry_hosts = inner.clusters.names().filter_map(|name| inner.clusters.entry_hosts(name)).flatten();
    for host in hosts.chain(entry_hosts).collect::<BTreeSet<_>>() {
        match crate::report::host_var(inner, host, MAINTENANCE) {
            Ok(None) => {}
            Ok(Some(node)) => match &node.value {
                Value::Bool(true) => {
                    out.insert(host.clone());
                }
                Value::Bool(false) | Value::Null => {}
                _ => diags.push(
                    wrong_type(&node, "`maintenance`", "true or false").help("write `maintenance: true`"),
                ),
            },
            // A host about which this cannot be said must not be touched by mistake.
            Err(more) => diags.extend(more),
        }
    }
    out
}

pub(super) fn check_host(inner: &Arc<Inner>, host: &str, facts: &Facts) -> (String, FactNeeds, Diagnostics) {
    let registered = RegisteredResults::new();
    let plan = inner.clone().host_plan(host, facts, &registered);
    let mut found = plan.errors.clone();
    let mut needs = FactNeeds::default();
    for used in &plan.roles {
        for item in used.all() {
            match used.resolve(item, &registered) {
                Resolution::Invalid(more) => found.extend(more),
                Resolution::Unknown { names, .. } if item.selected => {
                    let own =
                        |names: &BTreeSet<String>| names.contains("facts") || names.contains("facts_before");
                    let possible = used.possible_lookups(item, names.clone());
                    // Which hosts a template goes over may follow from facts and results.
                    needs.facts_of_others |= possible.contains("hostvars");
                    let names = if own(&names) { names } else { possible };
                    needs.facts |= own(&names);
                    let others = names
                        .iter()
                        .filter_map(|name| name.strip_prefix("hostvars."))
                        .filter_map(|n| n.strip_suffix(".facts").or_else(|| n.strip_suffix(".facts_before")));
                    needs.facts_of.extend(others.map(str::to_owned));
                }
                _ => {}
            }
        }
    }
    // A cluster has no facts of its own: roles there read those of the host through which it is reached.
    let speaker = inner.clusters.speaker(host);
    if needs.facts && speaker != host {
        needs.facts = false;
        needs.facts_of.insert(speaker.to_owned());
    }
    if needs.facts || !needs.facts_of.is_empty() || needs.facts_of_others {
        needs.fact_names = crate::facts_read::read_by(inner, &plan);
    }
    (host.to_owned(), needs, unique(found))
}

/// A tag that nothing has would silently do nothing.
pub(super) fn unused_tags(
    options: &LoadOptions,
    inner: &Inner,
    diags: &mut Diagnostics,
    warnings: &mut Diagnostics,
) {
    let mut known: BTreeSet<&str> = ["all", "always", "never", "tagged", "untagged"].into();
    for play in &inner.playbook.plays {
        known.extend(play.tags.iter().map(String::as_str));
        known.extend(play.roles.iter().flat_map(|used| &used.tags).map(String::as_str));
    }
    known.extend(
        inner.roles.values().flat_map(|role| role.items()).flat_map(|item| &item.tags).map(String::as_str),
    );
    for (flag, tags) in [("--tags", &inner.filter.only), ("--skip-tags", &inner.filter.skip)] {
        for tag in tags.iter().filter(|tag| !known.contains(tag.as_str())) {
            let problem = empty::unknown_tag(options, flag, tag, nearest(tag, known.iter().copied()));
            let list = if problem.severity == Severity::Error { &mut *diags } else { &mut *warnings };
            list.push(problem);
        }
    }
}

/// A value that no password opens stops the run: one message, for however many hosts and places.
pub(super) fn vault_error(errors: &HostErrors, selected: &[String]) -> Option<Diagnostic> {
    let of_run = errors.iter().filter(|(host, _)| selected.contains(host));
    let all = of_run.flat_map(|(_, found)| found.iter()).filter(|problem| problem.code == "vault");
    let mut places = BTreeSet::new();
    let mut first: Option<Diagnostic> = None;
    for problem in all {
        places.insert(problem.span().map(ToString::to_string));
        first.get_or_insert_with(|| problem.clone());
    }
    let mut first = first?;
    if places.len() > 1 {
        first.message = format!("{} ({} values in all)", first.message, places.len());
    }
    Some(first)
}
