//! Objects are managed no more, or by another resource: their records say so. Nothing else on the targets changes, but that the project's field manager gives
//! up the fields of objects of a cluster that are managed no more.

use crate::TargetError;
use crate::connect::runs::{bare_meta, open_run};
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::tasks::in_parallel;
use converge_cluster::RemainingFields;
use converge_executor::RunEnd;
use converge_ledger::{Adoption, Ledger, ProjectScope, Renaming, RunRecord, stands_in_lines};
use converge_planner::Knowledge;
use converge_resource::{ObjectId, Probe};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The reason why an object cannot be forgotten: a mount's line stands in a file with those of others, and the file is one object; a rollback or prune
/// leaves all that a node stands on only for as long as the records know of the node.
#[must_use]
pub fn not_to_forget(object: &ObjectId) -> Option<&'static str> {
    if stands_in_lines(object) {
        Some("its line is in a file with others")
    } else {
        is_of_node(object).then_some("a rollback would remove objects that this node needs")
    }
}

/// The reason why an object cannot be moved to another role: `undo.sh` leaves what the role of a node has made, and knows no other name of that role.
#[must_use]
pub fn not_to_move(object: &ObjectId) -> Option<&'static str> {
    is_of_node(object).then_some("undo.sh finds the objects that this node needs by the name of their role")
}

fn is_of_node(object: &ObjectId) -> bool {
    converge_objects::object(&object.kind).is_some_and(|object| object.node().stays_unless_allowed())
}

/// A line in the records of a target about what is managed there.
#[derive(Clone, Debug)]
pub enum Amendment {
    /// These objects are out of management, for prunes and rollbacks.
    Forget(BTreeSet<ObjectId>),
    /// The records of a role or a resource are another one's.
    Rename(Renaming),
    /// These objects are managed as they are, if they are still in the states that were planned.
    Adopt(Vec<Adoption>),
}

impl Amendment {
    /// The word for objects of which the records say so now.
    #[must_use]
    pub fn past(&self) -> &'static str {
        match self {
            Self::Forget(_) => "forgotten",
            Self::Rename(_) => "moved",
            Self::Adopt(_) => "adopted",
        }
    }
}

/// The run that has amended records.
#[derive(Clone, Debug)]
pub struct AmendmentRun {
    /// Its ID.
    pub run: String,
    /// The targets, each with the forgotten objects that remain the project's, or with the reason why nothing was written there.
    pub targets: Vec<(String, Result<Vec<String>, TargetError>)>,
}

/// Amends the records of each target. The targets begin together: where one is locked, nothing is written anywhere.
pub(crate) async fn amend(context: &Arc<RunContext>, chosen: Vec<(String, Amendment)>) -> AmendmentRun {
    let run = uuid::Uuid::now_v7().to_string();
    let opening = chosen.iter().map(|(name, _)| {
        let (context, name) = (Arc::clone(context), name.clone());
        let meta = bare_meta(&context, &name, &run);
        async move { open_run(&context, &name, &meta).await }
    });
    let opened = in_parallel(opening).await;
    let is_refused = opened.iter().any(|r| r.as_ref().is_err_and(|lost| !lost.is_unreachable()));
    let ending = chosen.into_iter().zip(opened).map(|((name, amendment), opened)| {
        let run = run.clone();
        async move {
            let result = match opened {
                Err(lost) => Err(lost),
                Ok(target) if is_refused => {
                    target.close(&run, RunEnd::Refused).await;
                    let past = amendment.past();
                    let message =
                        format!("nothing was {past} here: the run could not begin on another target");
                    Err(TargetError::Refused(message))
                }
                Ok(target) => {
                    let written = amend_on(&target, &run, &amendment).await;
                    let end = if written.is_ok() { RunEnd::Finished } else { RunEnd::Failed };
                    target.close(&run, end).await;
                    written
                }
            };
            (name, result)
        }
    });
    let targets = in_parallel(ending).await;
    AmendmentRun { run, targets }
}

async fn amend_on(target: &Target, run: &str, amendment: &Amendment) -> Result<Vec<String>, TargetError> {
    let cluster = match target {
        Target::Host(link, _) => {
            let written = match amendment {
                Amendment::Forget(objects) => link.forget(run, objects).await,
                Amendment::Rename(renaming) => link.rename(run, renaming).await,
                Amendment::Adopt(adoptions) => match changed(target, adoptions).await? {
                    Some(object) => Err(TargetError::Refused(format!(
                        "{object} has changed since the plan: nothing was adopted here; run the command again"
                    ))),
                    None => link.adopt(run, adoptions).await,
                },
            };
            return written.map(|()| Vec::new());
        }
        Target::Cluster(link) => link.present().await,
    };
    let gone = || TargetError::Unreachable("the cluster is not there any more".to_owned());
    let cluster = cluster.ok_or_else(gone)?;
    let still = match amendment {
        Amendment::Forget(objects) => cluster.forget(run, objects).await,
        Amendment::Rename(renaming) => cluster.rename(run, renaming).await.map(|()| Vec::new()),
        Amendment::Adopt(_) => Ok(Vec::new()),
    };
    let texts = |still: Vec<RemainingFields>| still.iter().map(ToString::to_string).collect();
    still.map(texts).map_err(|why| TargetError::Refused(format!("its records cannot be written: {why}")))
}

/// The first of the objects that is not as it was planned.
async fn changed(target: &Target, adoptions: &[Adoption]) -> Result<Option<ObjectId>, TargetError> {
    let probes: BTreeSet<Probe> = adoptions.iter().map(|a| Probe::Object(a.object.clone())).collect();
    let mut known = Knowledge::default();
    target.look(&probes, &mut known).await?;
    let is_as_planned = |a: &&Adoption| known.observed(&a.object).is_ok_and(|found| found.state == a.state);
    Ok(adoptions.iter().find(|a| !is_as_planned(a)).map(|a| a.object.clone()))
}

/// The objects of a project that somebody has forgotten since a run, by their names: a command by its resource, since its key holds its scripts.
pub(crate) fn names_since(
    place: Option<usize>,
    runs: &[RunRecord],
    ledger: &Ledger<'_>,
    project: &ProjectScope,
) -> Vec<String> {
    let later = runs.iter().enumerate().skip(place.unwrap_or(runs.len()));
    let forgotten = later.filter(|(at, _)| ledger.is_of(*at, project)).flat_map(|(_, run)| &run.forgotten);
    let name = |object: &ObjectId| {
        if !converge_objects::traits_of(object).key_is_text {
            return object.to_string();
        }
        let change = runs.iter().flat_map(|run| &run.changes).find(|change| change.object == *object);
        change.map_or_else(|| format!("a {}", object.kind), |change| change.item.clone())
    };
    forgotten.map(name).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_among_others_and_nodes_cannot_be_forgotten() {
        let of = |kind: &str, key: &str| not_to_forget(&ObjectId::new(kind, key)).is_some();
        assert!(of("kubeadm", "node") && of("mount", "/mnt/a") && of("path", "/etc/fstab"));
        assert!(not_to_move(&ObjectId::new("kubeadm", "node")).is_some());
        assert!(not_to_move(&ObjectId::new("mount", "/mnt/a")).is_none());
        assert!(!of("path", "/etc/motd") && !of("unit", "a.service") && !of("package", "kubelet"));
    }
}
