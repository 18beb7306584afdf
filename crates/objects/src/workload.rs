//! The rollout of a Deployment, a DaemonSet or a StatefulSet in a cluster: whether its pods are complete, and with which
//! inputs they were started. The key is that of the Kubernetes object (`apps/v1/DaemonSet/NAMESPACE/NAME`).

use converge_resource::{
    ApiRef, ClusterPart, Disruption, DynClusterPart, DynNeeds, DynSharedObject, ErasedObject, Facets, Needs,
    Object, Place, Reversibility, SharedObject, Traits, state_of_words,
};

/// The annotation in which an older converge recorded the inputs of a workload: the digest of the resources that
/// `restart_on` names. The records of converge hold them now.
pub const STARTED_WITH: &str = "converge/started-with";

/// The annotation of its pods' template that a restart sets.
pub const RESTARTED: &str = "converge/restarted";

/// The state of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadState {
    /// No such workload.
    Absent,
    /// It is there.
    Running {
        /// The digest of the inputs that it was started with; `None` without a record.
        started_with: Option<String>,
        /// True if every wanted pod exists, has the present template and is ready; nodes that are not ready do not count.
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
    const TRAITS: Traits = Traits { back_last: true, ..Traits::NONE };
    const SHARED: &'static dyn DynSharedObject = &ErasedObject::<Self>::new();
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
    const CLUSTER: &'static dyn DynClusterPart = &ErasedObject::<Self>::new();
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

    fn disruption(from: &WorkloadState, to: Option<&WorkloadState>) -> Disruption {
        match to {
            Some(to) if !restarts(from, to) => Disruption::None,
            _ => Disruption::Restarts,
        }
    }
}

/// Seconds that a rollout may take.
pub const ROLLOUT: u64 = 600;

impl Needs for Workload {
    fn patience(_: &str) -> Option<u64> {
        Some(ROLLOUT)
    }
}

impl ClusterPart for Workload {
    const NEEDS_PODS: bool = true;

    fn api(key: &str) -> Option<ApiRef> {
        ApiRef::from_key(key)
    }
}

impl SharedObject for Workload {
    /// Whether its pods are complete is another matter.
    fn same(a: &WorkloadState, b: &WorkloadState) -> bool {
        !restarts(a, b)
    }
}

/// Whether the pods are restarted: they are to run with other inputs than they were started with. (A record that is only
/// adopted is no change.)
pub fn restarts(from: &WorkloadState, to: &WorkloadState) -> bool {
    match (from, to) {
        (
            WorkloadState::Running { started_with: was, .. },
            WorkloadState::Running { started_with: is, .. },
        ) => was != is,
        _ => false,
    }
}
