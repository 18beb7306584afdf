//! Objects are managed no more: their records say so. Nothing else on the targets changes, but that the project's field manager gives up the fields of
//! objects of a cluster.

use crate::TargetError;
use crate::connect::runs::{bare_meta, close_run, open_run};
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::tasks::in_parallel;
use converge_cluster::StillOwned;
use converge_executor::RunEnd;
use converge_ledger::{Ledger, ProjectScope, RunRecord, stands_in_lines};
use converge_resource::ObjectId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The reason why an object cannot be forgotten: a mount's line stands in a file with those of others, and the file is one object; a rollback or prune
/// leaves all that a node stands on only for as long as the records know of the node.
#[must_use]
pub fn not_to_forget(object: &ObjectId) -> Option<&'static str> {
    let is_node =
        || converge_objects::object(&object.kind).is_some_and(|object| object.node().stays_unless_allowed());
    if stands_in_lines(object) {
        Some("its line is in a file with others")
    } else {
        is_node().then_some("a rollback would take away what this node stands on")
    }
}

/// The run that has taken objects out of management.
#[derive(Clone, Debug)]
pub struct Forgotten {
    /// Its ID.
    pub run: String,
    /// The targets, each with what stays the project's of the objects all the same, or with the reason why nothing was forgotten there.
    pub targets: Vec<(String, Result<Vec<String>, TargetError>)>,
}

/// Takes these objects of each target out of management, for prunes and rollbacks. The targets begin together: where one is locked, none forgets anything.
pub(crate) async fn forget(
    context: &Arc<RunContext>,
    chosen: Vec<(String, BTreeSet<ObjectId>)>,
) -> Forgotten {
    let run = uuid::Uuid::now_v7().to_string();
    let opening = chosen.iter().map(|(name, _)| {
        let (context, name) = (Arc::clone(context), name.clone());
        let meta = bare_meta(&context, &name, &run);
        async move { open_run(&context, &name, &meta).await }
    });
    let opened = in_parallel(opening).await;
    let is_refused = opened.iter().any(|r| r.as_ref().is_err_and(|lost| !lost.is_unreachable()));
    let ending = chosen.into_iter().zip(opened).map(|((name, objects), opened)| {
        let run = run.clone();
        async move {
            let result = match opened {
                Err(lost) => Err(lost),
                Ok(target) if is_refused => {
                    close_run(&target, &run, RunEnd::Refused).await;
                    let message = "nothing was forgotten here: the run could not begin on another target";
                    Err(TargetError::Refused(message.to_owned()))
                }
                Ok(target) => {
                    let forgotten = forget_on(&target, &run, &objects).await;
                    let end = if forgotten.is_ok() { RunEnd::Finished } else { RunEnd::Failed };
                    close_run(&target, &run, end).await;
                    forgotten
                }
            };
            (name, result)
        }
    });
    let targets = in_parallel(ending).await;
    Forgotten { run, targets }
}

async fn forget_on(
    target: &Target,
    run: &str,
    objects: &BTreeSet<ObjectId>,
) -> Result<Vec<String>, TargetError> {
    match target {
        Target::Host(link, _) => link.forget(run, objects).await.map(|()| Vec::new()),
        Target::Cluster(link) => {
            let gone = || TargetError::Unreachable("the cluster is not there any more".to_owned());
            let cluster = link.present().await.ok_or_else(gone)?;
            let still = cluster.forget(run, objects).await;
            let said = |still: Vec<StillOwned>| still.iter().map(ToString::to_string).collect();
            still
                .map(said)
                .map_err(|why| TargetError::Refused(format!("its records cannot be written: {why}")))
        }
    }
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
    let name = |object: &ObjectId| match object.kind.as_str() {
        "command" => {
            let change = runs.iter().flat_map(|run| &run.changes).find(|change| change.object == *object);
            change.map_or_else(|| "a command".to_owned(), |change| change.item.clone())
        }
        _ => object.to_string(),
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
        assert!(!of("path", "/etc/motd") && !of("unit", "a.service") && !of("package", "kubelet"));
    }
}
