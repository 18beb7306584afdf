//! The view of a host that a resource plans with.

use crate::{
    ApiProbe, Content, Digest, LocalProbe, NamedResource, Object, ObjectId, PreservedField, Probe, RunAnswer,
    State, Stop, Wait,
};

/// The items that restart or reload one unit in a run: they share one record of its inputs, and the unit is restarted or reloaded once for
/// all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restarters {
    /// The key of the present item in the record.
    pub key: String,
    /// The inputs that earlier items of this run have the unit run with, by their keys, in their present states: a restart finds them so, although
    /// others may have edited them since.
    pub earlier: Vec<(String, crate::RunsWith)>,
    /// The next item that restarts it, if there is one.
    pub later: Option<String>,
}

/// The virtual host: the states that were read, overlaid with the results of all earlier items of the same run.
///
/// Methods return `Err(Stop)` when more must be known first, so that a plan reads with `?`.
pub trait View {
    /// The state of an object.
    ///
    /// # Errors
    /// `Stop::Ask` when it was not observed yet; `Stop::Failed` when it cannot be read.
    fn observed(&self, object: &ObjectId) -> Result<crate::Observation, Stop>;

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

    /// The answer of the machine that runs converge.
    ///
    /// # Errors
    /// `Stop::Ask` when it was not asked yet; `Stop::Failed` when it could not be asked.
    fn local(&self, probe: &LocalProbe) -> Result<serde_json::Value, Stop> {
        Err(Stop::Ask(vec![Probe::Local(probe.clone())]))
    }

    /// The reason why this object, absent now, may exist when the item's turn comes: an earlier item of this run
    /// installs a package or runs a command that may bring it. `None` when nothing of the sort comes first, or when
    /// an earlier item has determined the object since.
    fn may_appear(&self, object: &ObjectId) -> Option<Wait>;

    /// The earlier item of this run that changes this object, if any: conclusions from its state may then be wrong.
    fn changed(&self, object: &ObjectId) -> Option<Wait> {
        let _ = object;
        None
    }

    /// The last earlier item of this run that changes something on this host, if any: a script may answer differently after
    /// it.
    fn pending(&self) -> Option<Wait>;

    /// The reason to wait for roles on other targets that come before the item's role and have something to do, or may have. Of those on this
    /// target [`View::pending`] speaks.
    fn other_targets(&self) -> Option<Wait> {
        None
    }

    /// The last earlier item of this run that runs foreign code (a command, the scripts of a package), or may run it: its
    /// effects cannot be known in advance.
    fn foreign(&self) -> Option<Wait> {
        None
    }

    /// The last earlier item of this run that changes, or may change, an object that matters. `matters` gets the object and
    /// whether foreign code changes it.
    fn pending_act(&self, matters: &dyn Fn(&ObjectId, bool) -> bool) -> Option<Wait> {
        let _ = matters;
        self.pending()
    }

    /// The objects of a kind whose states earlier items of this run determine. One whose state only follows from another object
    /// ([`Relations::follows`](crate::Relations::follows)) is none of them.
    fn determined(&self, kind: &str) -> Vec<(ObjectId, State)> {
        let _ = kind;
        Vec::new()
    }

    /// Whether an earlier item of this run decides this facet of an object, by its claim or by a change. An edit keeps the owner of a file.
    fn gives(&self, object: &ObjectId, facet: &str) -> bool {
        let _ = (object, facet);
        true
    }

    /// The fields of objects of a cluster that this run prunes: no resource of the project declares them any more.
    fn pruned_fields(&self) -> &[PreservedField] {
        &[]
    }

    /// Whether all results of earlier items are known. As long as they are not, no item can rely on that nothing is pending.
    fn settled(&self) -> bool {
        true
    }

    /// The parts ([`crate::Resource::stage`]) of all items of this kind that are not done, in their order, and the index of this
    /// item's. `None` if the others are not known: then the item asks alone.
    fn stages(&self) -> Option<(&[String], usize)> {
        None
    }

    /// The other items that restart this unit in this run.
    ///
    /// # Errors
    /// `Stop::Deferred` when an input of an earlier one is not known any more; as [`View::observed`].
    fn restarters(&self, unit: &ObjectId) -> Result<Restarters, Stop> {
        let _ = unit;
        Ok(Restarters::default())
    }

    /// The resource that `restart_on` names.
    ///
    /// # Errors
    /// `Stop::Invalid` when no earlier resource of the role has this name; `Stop::Deferred` when it is deferred itself.
    fn named(&self, name: &str) -> Result<NamedResource, Stop>;
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

    /// Defers a resource whose answers hold only after all earlier items.
    ///
    /// # Errors
    /// `Stop::Deferred` when an earlier item of this run changes something.
    pub fn after_changes(&self) -> Result<(), Stop> {
        self.pending().map_or(Ok(()), |wait| Err(Stop::Deferred(wait)))
    }

    /// The same for a resource that takes time, such as a wait: it must not begin before it is known that nothing changes first.
    ///
    /// # Errors
    /// `Stop::Deferred`, also while it is not known what earlier items do, and for roles on other targets that come first.
    pub fn after_all(&self) -> Result<(), Stop> {
        self.after_changes()?;
        if let Some(wait) = self.other_targets() {
            return Err(Stop::Deferred(wait));
        }
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
