//! The managed objects of each target, as its records tell, and whether they are still as runs left them. Changes nothing.

use crate::connect::target::connect;
use crate::context::RunContext;
use crate::plan::managed::undo_of;
use crate::revert::undo::shows;
use crate::revert::{layers, saved};
use crate::tasks::on_each;
use crate::{Activity, TargetError};
use converge_executor::Questions;
use converge_ledger::{OwnedObject, OwnedRecords, ProjectName, Undo};
use converge_planner::Knowledge;
use converge_resource::{ObjectId, Probe, State};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The managed objects of one target.
#[derive(Clone, Debug)]
pub struct HostManaged {
    /// The inventory's name.
    pub host: String,
    /// In the order in which they came to be managed.
    pub objects: Vec<ManagedObject>,
    /// The reason why they could not be read.
    pub lost: Option<TargetError>,
    /// The damaged parts of the records, which are ignored.
    pub remarks: Vec<String>,
}

/// One managed object.
#[derive(Clone, Debug)]
pub struct ManagedObject {
    /// The object.
    pub object: ObjectId,
    /// The role that manages it: the one that changed it last.
    pub role: String,
    /// The address of the resource that changed it last.
    pub item: String,
    /// When it came to be managed, RFC 3339 UTC.
    pub since: String,
    /// The run that first changed it.
    pub run: String,
    /// The project that manages it.
    pub scope: ProjectName,
    /// True for another project's.
    pub is_of_others: bool,
    /// True if it came with something that a resource manages, such as a package's dependency.
    pub by_product: bool,
    /// True if its resource was declared sensitive.
    pub sensitive: bool,
    /// The state before the first run that changed it.
    pub original: State,
    /// The state that the last run left.
    pub left: State,
    /// Its present state, if it was asked for.
    pub present: Option<Present>,
}

/// The present state of a managed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Present {
    /// It is as the runs left it.
    AsLeft,
    /// Somebody else has changed it, or a change was cut off.
    Differs(State),
    /// It cannot be read: why.
    Unknown(String),
}

/// The source of what is said of managed objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagedDetail {
    /// The records alone.
    Recorded,
    /// The records, compared with the present states.
    Compared,
}

/// Reads them on every target.
pub(crate) async fn managed_objects(context: &Arc<RunContext>, detail: ManagedDetail) -> Vec<HostManaged> {
    let _all = context.begin_all(Activity::CheckAll);
    let reading = on_each(context, context.targets(), |context, host| async move {
        match read(&context, &host, detail).await {
            Err(lost) => HostManaged { host, objects: Vec::new(), lost: Some(lost), remarks: Vec::new() },
            Ok((objects, remarks)) => HostManaged { host, objects, lost: None, remarks },
        }
    });
    reading.await
}

async fn read(
    context: &RunContext,
    host: &str,
    detail: ManagedDetail,
) -> Result<(Vec<ManagedObject>, Vec<String>), TargetError> {
    let target = connect(context, host).await?;
    // A cluster that is not there yet has no records.
    let _reason = target.absent(context).await?;
    let (nothing, mut known) = (BTreeSet::new(), Knowledge::default());
    let questions = Questions { probes: &nothing, facts: None, managed: true };
    let records: OwnedRecords =
        target.observe(questions, &mut known).await?.managed.transpose()?.unwrap_or_default();
    let mut undos = Vec::new();
    if detail == ManagedDetail::Compared {
        let objects = records.things.iter().map(|thing| Probe::Object(thing.object.clone()));
        let mounts = records.things.iter().flat_map(|thing| layers::probes(&thing.lies_in));
        let probes: BTreeSet<Probe> = objects.chain(mounts).collect();
        target.look(&probes, &mut known).await?;
        let whole = |thing| undo_of(thing, &[], &BTreeSet::new(), &known);
        undos.extend(records.things.iter().map(whole));
        layers::settle_observed_layers(&mut undos, &known);
        saved::learn_contents(&target, &mut undos, None, &mut known).await?;
    }
    let project = context.project_of(host);
    let object = |(at, thing): (usize, &OwnedObject)| ManagedObject {
        object: thing.object.clone(),
        role: thing.roles.first().cloned().unwrap_or_default(),
        item: thing.item.clone(),
        since: thing.since.clone(),
        run: thing.run.clone(),
        is_of_others: !project.is(&thing.scope),
        scope: thing.scope.clone(),
        by_product: thing.by_product,
        sensitive: thing.sensitive,
        original: thing.before.clone(),
        left: thing.left.clone(),
        present: undos.get(at).map(|undo| present(thing, undo, &known)),
    };
    Ok((records.things.iter().enumerate().map(object).collect(), records.broken))
}

/// Judged as by a prune.
fn present(thing: &OwnedObject, undo: &Undo, known: &Knowledge) -> Present {
    if !layers::is_visible(&thing.lies_in, known) {
        return Present::Unknown("something else is mounted above it".to_owned());
    }
    match known.observed(&thing.object) {
        Err(_) => {
            let why = known.answer(&Probe::Object(thing.object.clone())).map(|answer| match answer {
                converge_resource::Answer::Failed(why) => why.clone(),
                _ => "the answer is of another sort".to_owned(),
            });
            Present::Unknown(why.unwrap_or_else(|| "no answer".to_owned()))
        }
        Ok(found) => {
            let is_open = thing.open.is_some() && found.state != thing.left;
            if !is_open && shows(undo, &found.state, known) {
                Present::AsLeft
            } else {
                Present::Differs(found.state)
            }
        }
    }
}
