//! Data that an item needs from another host.

use serde::{Deserialize, Serialize};

/// The status of a script of [`OtherHostQuestion`] that found nothing yet, although the present work on that host may still create it.
pub const FETCH_NOT_MADE: i32 = 75;
/// The status of a script of [`OtherHostQuestion`] whose answer only takes time.
pub const FETCH_NOT_READY: i32 = 74;

/// The name of another host that a rollback of an item needs besides the states of its objects, kept in the record of the
/// run. It holds names only: text from the records of a host is never run on another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRemoval {
    /// The inventory's name of the host that must be asked first.
    pub host: String,
    /// The object to remove, by its name on that host.
    pub name: String,
}

/// The request that an object makes from a [`NodeRemoval`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRemovalRequest {
    /// The question that the other host must answer first.
    pub fetch: OtherHostQuestion,
    /// Shell variables for the steps that read it.
    pub settings: Vec<(String, String)>,
    /// The effect on that host, for people.
    pub note: String,
}

/// A question to another host, asked when the item's turn comes: for a join token, or only whether that host is ready. The
/// answer may be a secret. It goes to the standard input of the item's first step through the controller's memory, and is
/// neither logged nor recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherHostQuestion {
    /// The inventory's name of the other host. It need not be among the hosts of the run.
    pub host: String,
    /// POSIX shell text that prints the answer. It ends with [`FETCH_NOT_MADE`] or [`FETCH_NOT_READY`] as long as there is no
    /// answer, and prints the reason on standard error; it is then run again. It finds in `CV_FETCH_FOR` the names and addresses by which
    /// the controller knows the host that asks, and in `CV_FETCH_SECONDS` the seconds that are left.
    pub script: String,
    /// Seconds within which the answer must come.
    pub seconds: u64,
    /// POSIX shell text that reverts the work that the script has begun there; it runs once if the answer does not come.
    pub give_up: Option<String>,
    /// A name for people: `a join token`.
    pub what: String,
}
