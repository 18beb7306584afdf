//! The findings of `converge doctor`.

use super::*;
use converge_engine::{Finding, Health, HostDoctor};

/// `converge doctor --output json`: the findings about hosts and clusters.
#[derive(Serialize, JsonSchema)]
pub struct DoctorDocument {
    /// The document's format
    pub format: DoctorFormat,
    /// Its version
    pub version: One,
    /// The hosts
    pub hosts: Vec<HostFindings>,
    /// The clusters
    pub clusters: Vec<ClusterFindings>,
}

/// The findings about a host.
#[derive(Serialize, JsonSchema)]
pub struct HostFindings {
    /// The inventory's name
    pub host: String,
    /// Its address
    pub address: String,
    /// The worst of the findings
    pub health: HealthEntry,
    /// True if the host was not reached, or refused the login
    pub unreachable: bool,
    /// The steps, up to the first that does not work
    pub findings: Vec<FindingEntry>,
}

/// The findings about a cluster.
#[derive(Serialize, JsonSchema)]
pub struct ClusterFindings {
    /// The name of the cluster
    pub cluster: String,
    /// The worst of the findings
    pub health: HealthEntry,
    /// True if its API was not reached, or refused the login
    pub unreachable: bool,
    /// The diagnoses
    pub findings: Vec<FindingEntry>,
}

/// The result of a step.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthEntry {
    /// As it must be
    Well,
    /// It works; something is odd
    Odd,
    /// It does not work
    Ill,
}

/// The result of one step.
#[derive(Serialize, JsonSchema)]
pub struct FindingEntry {
    /// The step of a host (`tcp`, `host key`, `login` …), or the diagnosis of a cluster
    pub step: String,
    /// Its result
    pub health: HealthEntry,
    /// The observation
    pub found: String,
    /// The cause, where the observation does not show it
    pub cause: Option<String>,
    /// The correction
    pub help: Option<String>,
    /// The role that corrects it
    pub role: Option<String>,
}

impl From<&[HostDoctor]> for DoctorDocument {
    fn from(all: &[HostDoctor]) -> Self {
        let findings = |of: &HostDoctor| of.findings.iter().map(FindingEntry::from).collect();
        let host = |of: &HostDoctor| HostFindings {
            host: of.host.clone(),
            address: of.address.clone(),
            health: of.health().into(),
            unreachable: of.unreachable,
            findings: findings(of),
        };
        let cluster = |of: &HostDoctor| ClusterFindings {
            cluster: of.host.clone(),
            health: of.health().into(),
            unreachable: of.unreachable,
            findings: findings(of),
        };
        Self {
            format: DoctorFormat,
            version: One,
            hosts: all.iter().filter(|of| !of.cluster).map(host).collect(),
            clusters: all.iter().filter(|of| of.cluster).map(cluster).collect(),
        }
    }
}

impl From<Health> for HealthEntry {
    fn from(health: Health) -> Self {
        match health {
            Health::Well => Self::Well,
            Health::Odd => Self::Odd,
            Health::Ill => Self::Ill,
        }
    }
}

impl From<&Finding> for FindingEntry {
    fn from(finding: &Finding) -> Self {
        Self {
            step: finding.step.to_owned(),
            health: finding.health.into(),
            found: finding.found.clone(),
            cause: finding.cause.clone(),
            help: finding.help.clone(),
            role: finding.role.map(str::to_owned),
        }
    }
}
