//! What a Deployment, a DaemonSet or a StatefulSet of a cluster runs: whether its pods are complete, and what they were started with.
//! Its key is that of the object (`apps/v1/DaemonSet/NAMESPACE/NAME`).

use converge_resource::{ApiRef, Disruption, Facets, Object, Place, Reversibility, state_of_words};

/// The annotation in which an older converge kept what a workload was started with: the digest of what `restart_on` names. Now that stands in
/// our own records.
pub const STARTED_WITH: &str = "converge/started-with";

/// The annotation of its pods' template that a restart sets.
pub const RESTARTED: &str = "converge/restarted";

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadState {
    /// No such workload.
    Absent,
    /// It is there.
    Running {
        /// The digest of what it was started with; `None` when there is no record.
        started_with: Option<String>,
        /// Every pod that it wants is there, of the present template, and ready; nodes that are not ready themselves do not count.
        complete: bool,
    },
}

impl WorkloadState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Running { started_with, complete } => {
                let with = started_with.clone().unwrap_or_else(|| "-".to_owned());
                vec!["running".to_owned(), with, if *complete { "complete" } else { "incomplete" }.to_owned()]
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["running", with, complete @ ("complete" | "incomplete")] => Some(Self::Running {
                started_with: (*with != "-").then(|| (*with).to_owned()),
                complete: *complete == "complete",
            }),
            _ => None,
        }
    }
}

state_of_words!(WorkloadState);

/// The object.
pub struct Workload;

impl Object for Workload {
    const KIND: &'static str = "workload";
    const SHELL: &'static str = "";
    const PLACE: Place = Place::Cluster;
    const BACK_LAST: bool = true;
    type State = WorkloadState;

    fn title(key: &str, from: &WorkloadState, to: &WorkloadState) -> String {
        let name = ApiRef::from_key(key).map_or_else(|| key.to_owned(), |r| r.shown());
        if restarts(from, to) { format!("restart {name}") } else { format!("wait for {name}") }
    }

    /// A restart is not undone by another one: what it starts with is in what it reads.
    fn reversibility(_: &str, _: &WorkloadState, _: &WorkloadState) -> Reversibility {
        Reversibility::Reversible
    }

    fn facets(state: &WorkloadState) -> Facets {
        match state {
            WorkloadState::Absent => Vec::new(),
            WorkloadState::Running { started_with, complete } => vec![
                (
                    "started with",
                    started_with.as_deref().map_or("no record", |d| d.get(..12).unwrap_or(d)).to_owned(),
                ),
                ("pods", if *complete { "complete" } else { "incomplete" }.to_owned()),
            ],
        }
    }

    /// Whether its pods are complete is another matter.
    fn same(a: &WorkloadState, b: &WorkloadState) -> bool {
        !restarts(a, b)
    }

    fn disruption(from: &WorkloadState, to: Option<&WorkloadState>) -> Disruption {
        match to {
            Some(to) if !restarts(from, to) => Disruption::None,
            _ => Disruption::Restarts,
        }
    }
}

/// Whether the pods are started anew: they are to run with something else than they were started with. (A record that is only adopted is
/// no change.)
pub fn restarts(from: &WorkloadState, to: &WorkloadState) -> bool {
    match (from, to) {
        (
            WorkloadState::Running { started_with: was, .. },
            WorkloadState::Running { started_with: is, .. },
        ) => was != is,
        _ => false,
    }
}
