//! The troubleshooting tables of GPU clusters: each diagnosis is a small pure function over the observations.

mod nim;
mod nodes;
mod operator;
mod plugin;
mod pods;
mod runners;
mod runtime;
mod sharing;

#[cfg(test)]
mod tests;

use super::view::ClusterView;
use super::{Finding, Health};

/// A diagnosis: what people notice, what it is, how it is found.
pub(super) struct Diagnosis {
    /// The name that doctor gives it.
    pub step: &'static str,
    /// The symptom that users notice.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page of the documentation is held to it"))]
    pub symptom: &'static str,
    /// The cause.
    pub cause: &'static str,
    /// The correction.
    pub help: &'static str,
    /// the role that corrects it.
    pub role: Option<&'static str>,
    /// The evidence, where this is the case, and how bad that is.
    pub look: fn(&ClusterView) -> Option<(Health, String)>,
}

/// All of them, in the order in which they are reported: one that explains others comes first.
pub(super) const TABLE: &[Diagnosis] = &[
    nodes::RUNC,
    nodes::NETWORK,
    nodes::NOT_READY,
    runtime::CGROUP,
    runtime::HANDLER,
    runtime::CLASS,
    operator::RELEASE,
    operator::OTHER_RELEASE,
    operator::TWO,
    operator::POLICY,
    operator::QUOTA,
    operator::SECURITY,
    plugin::LABEL,
    plugin::AMD_LABEL,
    plugin::TAINT,
    plugin::AMD_TAINT,
    sharing::REPLICAS,
    sharing::PROFILE,
    sharing::KEY,
    sharing::STALE,
    pods::IMAGE,
    pods::CRASH,
    plugin::GONE,
    plugin::AMD_GONE,
    plugin::NONE,
    plugin::AMD_NONE,
    plugin::SICK,
    plugin::AMD_SICK,
    sharing::SHARES,
    pods::ADMISSION,
    pods::FULL,
    pods::AMD_FULL,
    nim::KEY,
    nim::MODEL,
    runners::PLACE,
    runners::REQUEST,
];

/// The problems of a cluster.
pub(super) fn diagnose(view: &ClusterView) -> Vec<Finding> {
    let found = TABLE.iter().filter_map(|entry| {
        let (health, evidence) = (entry.look)(view)?;
        let finding = Finding::new(entry.step, health, evidence).because(entry.cause).help(entry.help);
        Some(Finding { role: entry.role, ..finding })
    });
    found.collect()
}
