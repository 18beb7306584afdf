//! A stretch on a cluster: item after item through its API.

use super::TargetRun;
use crate::session::cluster::ClusterLink;
use crate::{Event, ItemResult, TargetError};
use converge_cluster::{Cluster, ClusterWork, WorkEnd, WorkResult};
use converge_planner::{Item, ItemOrigin, Outcome};
use converge_resource::Change;
use std::time::Duration;

impl TargetRun {
    /// Works on these items until one of them asks for a fresh look.
    pub(super) async fn send_to_cluster(
        &mut self,
        link: &ClusterLink,
        ids: &[u32],
    ) -> Result<(), TargetError> {
        let Some(cluster) = link.present().await else {
            return Err(TargetError::Unreachable("the cluster is not there".to_owned()));
        };
        self.target.open_late(&self.meta).await?;
        let stretch: Vec<Item> =
            self.lane.remaining().iter().filter(|i| ids.contains(&i.id)).cloned().collect();
        for item in stretch {
            if self.stop.is_stopped() {
                return Ok(());
            }
            let worked = self.work_on(&cluster, &item).await;
            if cluster.is_gone() && !cluster.answers().await {
                return Err(TargetError::Unreachable("the API server does not answer any more".to_owned()));
            }
            if worked {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Works on one item; true when what comes next must be decided anew.
    async fn work_on(&mut self, cluster: &Cluster, item: &Item) -> bool {
        let host = self.lane.host.clone();
        let begun = self.progress.epoch.elapsed();
        if !item.only_records() {
            let address = item.address.clone();
            self.context.events.send(Event::ItemStarted { host: host.clone(), id: item.id, address });
        }
        if matches!(item.outcome, Outcome::Forget(_)) {
            return self.disown(cluster, item).await;
        }
        let work = self.cluster_work(item);
        let events = self.context.events.clone();
        let tell = |text: &str| {
            if !item.sensitive {
                events.send(Event::ItemOutput { host: host.clone(), id: item.id, text: text.to_owned() });
            }
        };
        // A wait is given up when the run is stopped; a change that has begun is ended.
        let working = cluster.work(&self.run, &work, &tell);
        let worked = tokio::select! {
            worked = working => worked,
            () = self.stop.stopped(), if item.only_waits() => {
                self.finish(item, ItemResult::Stopped, &[], self.progress.epoch.elapsed().saturating_sub(begun));
                return true;
            }
        };
        let ended = self.progress.epoch.elapsed();
        self.record_time(item, begun, ended);
        let WorkResult { end, after, window, contents } = worked;
        self.lane.learn(contents);
        let foreign = window.is_some();
        if let Some((before, after)) = &window {
            self.lane.window(item, before, after);
        }
        let result = result_of(end, item.sensitive);
        let bad = result.is_bad();
        self.finish(item, result, &after, ended.saturating_sub(begun));
        self.report();
        foreign || bad
    }

    /// Takes things out of the record of managed objects; nothing else changes.
    async fn disown(&mut self, cluster: &Cluster, item: &Item) -> bool {
        let mut result = ItemResult::Unchanged;
        for object in &item.claims {
            if let Err(error) = cluster.disown(&self.run, object).await {
                result = ItemResult::Failed { message: error.to_string(), output: String::new() };
            }
        }
        let bad = result.is_bad();
        self.finish(item, result, &[], Duration::ZERO);
        bad
    }

    fn cluster_work(&self, item: &Item) -> ClusterWork {
        let (changes, adopt): (Vec<Change>, bool) = match &item.outcome {
            Outcome::Adopt(changes) => (changes.clone(), true),
            _ => (item.changes().iter().map(|c| c.change.clone()).collect(), false),
        };
        let declared = item.origin == ItemOrigin::Declared;
        let gives_back = item.origin == ItemOrigin::Prune && !item.parts.is_empty();
        let foreign = item.changes().iter().any(|c| c.opaque);
        let own = |object: &converge_resource::ObjectId| changes.iter().any(|c| c.object == *object);
        let watch = match foreign {
            true => self
                .lane
                .watched_around(item)
                .into_iter()
                .filter(|c| !own(&c.object))
                .map(|c| (c.object, c.state))
                .collect(),
            false => Vec::new(),
        };
        ClusterWork {
            in_part: crate::revert::flags::is_in_part(item),
            address: item.address.clone(),
            parts: item.parts.clone(),
            gives_back,
            // An object of which parts are given back stays with its roles.
            owner: if declared || gives_back { item.role.clone() } else { String::new() },
            sensitive: item.sensitive,
            changes,
            calls: item.calls.clone(),
            contents: self.lane.contents().clone(),
            watch,
            adopt,
            allow_destroy: self.context.options.allow_destroy.clone(),
        }
    }
}

/// The result of an item, for reports.
fn result_of(end: WorkEnd, sensitive: bool) -> ItemResult {
    match end {
        WorkEnd::Done => ItemResult::Changed,
        WorkEnd::Refused(_) if sensitive => ItemResult::Refused {
            message: "the state in the cluster differs from the planned one (sensitive, not shown)"
                .to_owned(),
        },
        WorkEnd::Refused(message) => ItemResult::Refused { message },
        WorkEnd::NotSaved(why) => ItemResult::Failed {
            message: format!("the state before could not be saved, so nothing was changed: {why}"),
            output: String::new(),
        },
        WorkEnd::Failed { .. } if sensitive => ItemResult::Failed {
            message: "failed; the message is sensitive and not shown".to_owned(),
            output: String::new(),
        },
        WorkEnd::Failed { message, output } => ItemResult::Failed { message, output },
    }
}
