//! Errors of a project that show without any host.

use crate::context::RunContext;
use crate::plan::source::{HostSource, ItemSelection};
use converge_model::Facts;
use converge_planner::{History, Knowledge, Outputs, fold};
use converge_syntax::Diagnostics;

/// Two owners of one thing, wrong parameters: all that shows without a host, on all hosts.
///
/// # Errors
/// All diagnostics, when every host or every cluster has some.
pub(crate) fn check_without_hosts(context: &RunContext) -> Result<(), Diagnostics> {
    let (found, on_all) = found_without_hosts(context);
    // Errors on some hosts only concern these: the others go on. Hosts that were made for a cluster are of no use without it.
    if found.has_errors() && on_all { Err(found) } else { Ok(()) }
}

/// All diagnostics that show without a host, each once, and whether every host has one, or every cluster.
pub(crate) fn found_without_hosts(context: &RunContext) -> (Diagnostics, bool) {
    let mut found = Diagnostics::default();
    let hosts = context.targets();
    let is_cluster = |target: &str| context.project.entry_hosts(target).is_some();
    let clusters = hosts.iter().filter(|host| is_cluster(host)).count();
    let (mut damaged, mut damaged_clusters) = (0, 0);
    for host in hosts {
        let nothing = Outputs::new();
        let source = HostSource::new(
            &context.project,
            &context.graph,
            host,
            &Facts::none(),
            ItemSelection::Whole,
            &nothing,
        );
        let folded = fold(host, &source, &Knowledge::default(), &History::default());
        let mut own = Diagnostics::default();
        for conflict in &folded.conflicts {
            source.explain_conflict(conflict, &mut own);
        }
        source.take_complaints(&mut own);
        if own.has_errors() {
            damaged += 1;
            damaged_clusters += usize::from(is_cluster(host));
        }
        for complaint in own.0 {
            // Every host of a group has the same diagnostic about the same place.
            if !found.iter().any(|f| f.message == complaint.message && f.span() == complaint.span()) {
                found.push(complaint);
            }
        }
    }
    (found, damaged == hosts.len() || clusters > 0 && damaged_clusters == clusters)
}
