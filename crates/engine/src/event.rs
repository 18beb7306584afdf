//! The one stream of events: what happens, as it happens. Renderers consume it; the engine never prints.

use crate::{Activity, ItemPhase};
use converge_planner::{Item, Summary};
use converge_resource::{Content, Digest};
use converge_ssh::Traffic;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;

/// An event with the time at which it was sent; a renderer may show it later.
#[derive(Clone, Debug)]
pub struct TimedEvent {
    /// When it was sent.
    pub at: Instant,
    /// The event.
    pub event: Event,
}

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A connection is being made.
    Connecting {
        /// The host.
        host: String,
    },
    /// The host answers.
    Connected {
        /// The host.
        host: String,
        /// The duration.
        took: Duration,
    },
    /// The host's key was not known; it was recorded and is trusted from now on, as was asked for.
    HostKeyRecorded {
        /// The host.
        host: String,
        /// Its type and fingerprint.
        key: String,
        /// The known_hosts file.
        file: String,
    },
    /// A login was signed with a private RSA key from a file; reported once for each file.
    RsaKeyFile {
        /// The host.
        host: String,
        /// The file.
        file: String,
    },
    /// The host is out of this run.
    Lost {
        /// The host.
        host: String,
        /// The reason and the correction.
        message: String,
    },
    /// A round of questions was answered.
    Observed {
        /// The host.
        host: String,
        /// Which round, from 1.
        round: usize,
        /// The number of questions.
        probes: usize,
    },
    /// The plan of a host is complete.
    Planned {
        /// The host.
        host: String,
        /// The number of items by result.
        summary: Summary,
    },
    /// The changes of a run are about to be made on all hosts that have any.
    RunStarted {
        /// The run.
        run: String,
        /// Its roles, each after those that it requires.
        roles: Vec<RoleWork>,
    },
    /// A role has nothing left to do on a host in this run.
    RoleFinished {
        /// The host.
        host: String,
        /// The role.
        role: String,
        /// Something of it failed, was refused or skipped there.
        failed: bool,
    },
    /// The first change of a run on this host is about to be made; the number of items to come.
    ApplyStarted {
        /// The host.
        host: String,
        /// Items that are pending.
        items: usize,
    },
    /// A host waits for a role on other hosts.
    Waiting {
        /// The host.
        host: String,
        /// The role that it goes on with.
        role: String,
        /// The roles that it waits for: `role a on h1, h2`.
        on: String,
    },
    /// All is done on a host, and what the run has set going there has not come to its end: it is waited for.
    Settling {
        /// The host.
        host: String,
        /// The conditions that do not hold yet: the item's address and the reason.
        on: Vec<String>,
        /// Seconds that are left to it.
        seconds: u64,
    },
    /// A copy that must be on this machine before an item begins has come, or is not needed.
    Backup {
        /// The host on which the item begins now.
        host: String,
        /// The kind of copy: `snapshot of etcd`.
        what: String,
        /// The copy that is kept, or the reason why none is.
        stored: Result<StoredBackup, NoBackup>,
    },
    /// A batch of a play has begun.
    BatchStarted {
        /// The play.
        play: String,
        /// Which one, from 1.
        number: usize,
        /// Of how many.
        of: usize,
        /// Its hosts.
        hosts: Vec<String>,
    },
    /// A deferred item is resolved: its own diff.
    Resolved {
        /// The host.
        host: String,
        /// The item as it is planned now.
        item: Box<Item>,
        /// Content for its diff.
        contents: BTreeMap<Digest, Content>,
    },
    /// Work on an item has begun.
    ItemStarted {
        /// The host.
        host: String,
        /// The item's number.
        id: u32,
        /// Its address.
        address: String,
    },
    /// A long step said something (a line or a part of it; never of a sensitive item).
    ItemOutput {
        /// The host.
        host: String,
        /// The item's number.
        id: u32,
        /// The text.
        text: String,
    },
    /// A remark of the host about an item, such as an edited configuration file that a package left in place.
    ItemNote {
        /// The host.
        host: String,
        /// The item's address.
        address: String,
        /// The remark.
        text: String,
    },
    /// An item is over.
    ItemFinished {
        /// The host.
        host: String,
        /// The item's number.
        id: u32,
        /// Its address.
        address: String,
        /// Its result.
        result: ItemResult,
        /// The duration.
        took: Duration,
    },
    /// The host was looked at again after the apply.
    Verified {
        /// The host.
        host: String,
        /// The differences from the plan; empty when there is none.
        differences: Vec<String>,
    },
    /// Something that takes time and is no item has begun.
    Began {
        /// The target; none where it is work on this machine.
        host: Option<String>,
        /// Its number, by which [`Event::Ended`] names it.
        span: u64,
        /// The activity.
        activity: Activity,
    },
    /// An activity is over, whatever came of it.
    Ended {
        /// Its number.
        span: u64,
    },
    /// An item in progress, or the group whose first item it is, has come to this part of its work. Hosts report it only with
    /// [`crate::Options::phases`].
    ItemPhase {
        /// The host.
        host: String,
        /// The item's number.
        id: u32,
        /// The part that begins.
        phase: ItemPhase,
    },
    /// Work on an item has ended without its result: nothing of it was done, and it begins again later.
    ItemPutOff {
        /// The host.
        host: String,
        /// The item's number.
        id: u32,
    },
    /// The traffic of a host's shell so far.
    Traffic {
        /// The host.
        host: String,
        /// The bytes of each way, and the batches.
        traffic: Traffic,
    },
    /// A stop was asked for: what is in flight ends, nothing new starts.
    Stopping,
}

/// A file of a host that is kept on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBackup {
    /// Where it lies.
    pub path: String,
    /// The number of bytes that the host's file has.
    pub size: u64,
    /// The host's remark on it: `1234 keys`.
    pub remark: String,
}

/// The reason why no copy is kept, and the item begins nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBackup {
    /// The host has nothing of the sort: its words.
    #[error("{0}")]
    NothingThere(String),
    /// It could not be copied to this machine, and the user goes on without it.
    #[error("{reason}; `--allow-destroy {id}` goes on without it")]
    Allowed {
        /// The reason why it did not come.
        reason: String,
        /// The ID that the user has given.
        id: String,
    },
}

/// The work of a role in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleWork {
    /// The role.
    pub role: String,
    /// The roles that come before it.
    pub requires: Vec<String>,
    /// The number of items that it has to see to, by host.
    pub items: BTreeMap<String, usize>,
}

/// The result of an item.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemResult {
    /// It was changed.
    Changed,
    /// It is as declared already.
    Unchanged,
    /// Its condition does not hold on this host.
    NotApplicable {
        /// Which condition.
        why: String,
    },
    /// It failed: what was said.
    Failed {
        /// One line.
        message: String,
        /// The end of the output; empty for a sensitive item.
        output: String,
    },
    /// The host no longer shows what the change was planned against. Nothing was overwritten.
    Refused {
        /// The changed objects: planned and found states.
        message: String,
    },
    /// It was not tried: the address of what failed before it, or why.
    Skipped {
        /// Because of this.
        because: String,
    },
    /// It was not tried: the run was stopped.
    Stopped,
    /// It was guarded and not confirmed: the host has put it back, or is about to.
    PutBack {
        /// The reason, and the state that it left.
        message: String,
        /// The end of the output, where a step of it failed; empty for a sensitive item.
        output: String,
    },
    /// The link was lost while it ran: the result is not known.
    Unknown {
        /// The reason.
        message: String,
    },
}

impl ItemResult {
    /// True for what makes a run a failed one.
    pub fn is_bad(&self) -> bool {
        !matches!(self, Self::Changed | Self::Unchanged | Self::NotApplicable { .. })
    }
}

/// The receiver of events. Cheap to clone; events without a listener are dropped.
#[derive(Clone, Debug, Default)]
pub struct EventSink(Option<Arc<Listener>>);

#[derive(Debug)]
struct Listener {
    sender: UnboundedSender<TimedEvent>,
    spans: AtomicU64,
}

impl EventSink {
    /// Events go to this channel.
    pub fn to(sender: UnboundedSender<TimedEvent>) -> Self {
        Self(Some(Arc::new(Listener { sender, spans: AtomicU64::new(0) })))
    }

    /// Sends one event.
    pub fn send(&self, event: Event) {
        if let Some(listener) = &self.0 {
            // A renderer that has gone away is no reason to stop working.
            let _gone = listener.sender.send(TimedEvent { at: Instant::now(), event });
        }
    }

    /// A number for an activity, which no other one of this sink has.
    pub(crate) fn next_span(&self) -> u64 {
        self.0.as_ref().map_or(0, |listener| listener.spans.fetch_add(1, Ordering::Relaxed))
    }
}

/// An activity in progress. It is over when this is dropped, however its work ended.
#[derive(Debug)]
pub(crate) struct InProgress {
    events: EventSink,
    number: u64,
}

impl InProgress {
    /// Begins an activity on a target; with none, on this machine.
    pub fn begin(events: &EventSink, host: Option<&str>, activity: Activity) -> Self {
        let number = events.next_span();
        events.send(Event::Began { host: host.map(str::to_owned), span: number, activity });
        Self { events: events.clone(), number }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.events.send(Event::Ended { span: self.number });
    }
}
