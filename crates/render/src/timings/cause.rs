//! The causes of times of a run.

use converge_engine::Activity;

/// The cause of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Turn,
    Connect,
    Read,
    Open,
    /// Resources of this kind.
    Kind(String),
    Replan,
    Verify,
    Settle,
    Confirm,
    Close,
}

impl Cause {
    pub(super) fn of(activity: &Activity) -> Option<Self> {
        Some(match activity {
            Activity::Turn => Self::Turn,
            Activity::Connect => Self::Connect,
            Activity::Plan | Activity::Records => Self::Read,
            Activity::Open => Self::Open,
            Activity::Replan => Self::Replan,
            Activity::Verify => Self::Verify,
            Activity::Settle { .. } => Self::Settle,
            Activity::Confirm { .. } => Self::Confirm,
            Activity::Close => Self::Close,
            _ => return None,
        })
    }

    /// The word of a document.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Connect => "connect",
            Self::Read => "read_and_plan",
            Self::Open => "begin_records",
            Self::Kind(_) => "resources",
            Self::Replan => "plan_again",
            Self::Verify => "verify",
            Self::Settle => "settle",
            Self::Confirm => "confirm",
            Self::Close => "end_records",
        }
    }
}
