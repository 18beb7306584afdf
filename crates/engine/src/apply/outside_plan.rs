//! Differences between a fresh plan of an item and the one that was shown and agreed to.

use converge_resource::{ObjectId, State};

/// The reason why a fresh plan of an item is not inside the one that was shown and agreed to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OutsidePlan {
    /// An object that it changes is in another state than planned.
    #[error("{object} was planned as `{planned}` and is `{found}` now")]
    Moved { object: ObjectId, planned: State, found: State },
    /// An object that it would not change any more, and nobody of this run has brought there.
    #[error("{object} was planned as `{planned}` and someone else has changed it")]
    ChangedByOthers { object: ObjectId, planned: State },
    /// It would change one more.
    #[error("{0} would be changed too; it was not in the plan")]
    Added(ObjectId),
    /// It was deferred, and would touch what the plan has not named.
    #[error("it would touch {0}, which the plan did not name")]
    NotNamed(ObjectId),
}
