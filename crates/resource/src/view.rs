//! What a resource may look at while it plans.

use crate::{ApiProbe, Content, Digest, Object, ObjectId, Probe, RunAnswer, State, Stop};
use serde::{Deserialize, Serialize};

/// What a deferred item waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The address of the earlier item, `role/resource name`; empty when it is no item.
    pub item: String,
    /// Why nothing can know before: `the package may bring /etc/foo.conf`.
    pub reason: String,
}

/// What `restart_on` names: another resource of the same role, as it will be when its turn is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// SHA-256 over the lines of all objects that it claims, after it.
    pub digest: String,
    /// True when this run changes it.
    pub changed: bool,
    /// The newest moment (a path's mtime) of its objects, in seconds since 1970.
    pub newest: Option<i64>,
}

/// Who restarts one unit in a run: one record says what it runs with, and it is restarted once, for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restarters {
    /// The key of the present item in the record.
    pub key: String,
    /// What earlier items of this run have the unit run with, by their keys.
    pub earlier: Vec<(String, crate::RunsWith)>,
    /// The item behind this one that restarts it, where there is one.
    pub later: Option<String>,
}

/// The virtual host: what was seen, with the results of all earlier items of the same run laid over it.
///
/// Methods return `Err(Stop)` when more must be known first, so that a plan reads with `?`.
pub trait View {
    /// The state of an object.
    ///
    /// # Errors
    /// `Stop::Ask` when it was not observed yet; `Stop::Failed` when it cannot be read.
    fn observed(&self, object: &ObjectId) -> Result<crate::Observed, Stop>;

    /// The content of this digest.
    ///
    /// # Errors
    /// `Stop::Ask(Probe::Content(path))` when it was not fetched yet; `Stop::Failed` when the file at `path` is too large.
    fn content(&self, path: &str, digest: &Digest) -> Result<Content, Stop>;

    /// The answer to a read-only script. It shows the host before this run: see [`View::pending`].
    ///
    /// # Errors
    /// `Stop::Ask` when it was not asked yet; `Stop::Failed` when it could not be run.
    fn run(&self, probe: &Probe) -> Result<RunAnswer, Stop>;

    /// The answer of a cluster's API. It shows the cluster before this run.
    ///
    /// # Errors
    /// `Stop::Ask` when it was not asked yet; `Stop::Failed` when it could not be asked.
    fn api(&self, probe: &ApiProbe) -> Result<serde_json::Value, Stop>;

    /// Why this object, absent now, may be there when the item's turn comes: an earlier item of this run
    /// installs a package or runs a command that may bring it. `None` when nothing of the sort comes first, or when
    /// an earlier item has determined the object since.
    fn may_appear(&self, object: &ObjectId) -> Option<Wait>;

    /// The earlier item of this run that changes this very object, if any: what follows from the object may then be otherwise.
    fn changed(&self, object: &ObjectId) -> Option<Wait> {
        let _ = object;
        None
    }

    /// The last earlier item of this run that changes something on this host, if any: what a script answers
    /// now it may not answer then.
    fn pending(&self) -> Option<Wait>;

    /// The last earlier item of this run that runs code which is not ours (a command, the scripts of a package), or may: what it
    /// leaves nothing can know.
    fn foreign(&self) -> Option<Wait> {
        None
    }

    /// The last earlier item of this run that changes, or may change, an object that matters. `matters` is told the object and whether
    /// foreign code changes it.
    fn pending_act(&self, matters: &dyn Fn(&ObjectId, bool) -> bool) -> Option<Wait> {
        let _ = matters;
        self.pending()
    }

    /// The objects of a kind whose states earlier items of this run determine.
    fn determined(&self, kind: &str) -> Vec<(ObjectId, State)> {
        let _ = kind;
        Vec::new()
    }

    /// Whether all that comes before is known. While it is not, nobody can say that nothing is pending.
    fn settled(&self) -> bool {
        true
    }

    /// The parts ([`crate::Resource::stage`]) of all items of this kind that are still to come, in their order, and which of them is
    /// this item's. `None` where nobody knows the others: then it asks alone.
    fn stages(&self) -> Option<(&[String], usize)> {
        None
    }

    /// Who else restarts this unit in this run.
    fn restarters(&self, unit: &ObjectId) -> Restarters {
        let _ = unit;
        Restarters::default()
    }

    /// The resource that `restart_on` names.
    ///
    /// # Errors
    /// `Stop::Invalid` when no earlier resource of the role has this name; `Stop::Deferred` when it is deferred itself.
    fn named(&self, name: &str) -> Result<Named, Stop>;
}

impl dyn View + '_ {
    /// The typed state of an object.
    ///
    /// # Errors
    /// As [`View::observed`]; `Stop::Failed` when the state is not of this object.
    pub fn state<O: Object>(&self, key: &str) -> Result<O::State, Stop> {
        let object = ObjectId::new(O::KIND, key);
        let observed = self.observed(&object)?;
        O::State::try_from(observed.state).map_err(|e| Stop::Failed(format!("{object}: {e}")))
    }

    /// Lets go on what shows how things are only when the items before it have been.
    ///
    /// # Errors
    /// `Stop::Deferred` when an earlier item of this run changes something.
    pub fn after_changes(&self) -> Result<(), Stop> {
        self.pending().map_or(Ok(()), |wait| Err(Stop::Deferred(wait)))
    }

    /// The same for what takes its time, such as a wait: it is not begun on the chance that nothing changes before it.
    ///
    /// # Errors
    /// `Stop::Deferred`, also while it is not known what earlier items do.
    pub fn after_all(&self) -> Result<(), Stop> {
        self.after_changes()?;
        if self.settled() {
            return Ok(());
        }
        let reason = "what comes before it is still looked at".to_owned();
        Err(Stop::Deferred(Wait { item: String::new(), reason }))
    }

    /// The raw state of an object.
    ///
    /// # Errors
    /// As [`View::observed`].
    pub fn raw(&self, object: &ObjectId) -> Result<State, Stop> {
        Ok(self.observed(object)?.state)
    }
}
