//! What an item needs from another host, as data.

use serde::{Deserialize, Serialize};

/// The status of a script of [`Fetch`] that found nothing yet, where the work under way on that host may still make it.
pub const FETCH_NOT_MADE: i32 = 75;
/// The status of one whose answer is only a matter of time.
pub const FETCH_NOT_READY: i32 = 74;

/// What a rollback of an item needs besides the states of its objects, kept in the record of its run. Names alone: a host's records are never run on
/// another host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayBack {
    /// The inventory's name of the host that must be asked first.
    pub host: String,
    /// What goes, by the name that it has there.
    pub name: String,
}

/// What an object makes of a [`WayBack`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goodbye {
    /// What the other host must have said first.
    pub fetch: Fetch,
    /// Shell variables for the steps that read it.
    pub settings: Vec<(String, String)>,
    /// For people: what happens there.
    pub note: String,
}

/// What an item asks another host for at its turn: a join token, or only the word that it is ready. What that host prints may be a
/// secret. It goes to the standard input of the item's first step through the controller's memory, and is neither logged nor recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// The inventory's name of the other host. It need not be among the hosts of the run.
    pub host: String,
    /// POSIX shell text that prints what is wanted. It ends with [`FETCH_NOT_MADE`] or [`FETCH_NOT_READY`] as long as that is
    /// not to be had, and says why on standard error; it is then run again.
    pub script: String,
    /// Seconds within which it must be had.
    pub seconds: u64,
    /// POSIX shell text that takes back what the script has begun there, run once when it is not had.
    pub give_up: Option<String>,
    /// What it is, for people: `a join token`.
    pub what: String,
}
