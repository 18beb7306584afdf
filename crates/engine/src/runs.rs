//! Beginning and ending a run on hosts: locks and records.

use crate::engine::{Engine, side_by_side};
use crate::reach::{ClusterLink, Reach};
use crate::ways::bare;
use crate::{LostHost, Purpose};
use bytes::Bytes;
use converge_ledger::RunPurpose;
use converge_planner::{HostPlan, Item as PlannedItem, Outcome};
use converge_resource::Content;
use converge_ssh::{Batch, Item, ShellError};
use converge_store::host::{self, Piece, RunMeta};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Whether a run sets out to do this item; a rollback also what is refused now, and which the next one may be allowed to do.
fn is_set_out(item: &PlannedItem) -> bool {
    item.is_pending() || (item.kind == "rollback" && matches!(item.outcome, Outcome::Refused(_)))
}

impl Engine {
    /// What the record of a run on a host begins with.
    pub(crate) fn run_meta(&self, plan: &HostPlan, run: &str, purpose: &Purpose) -> RunMeta {
        let of_host = |runs: &[(String, String)]| -> Vec<String> {
            runs.iter().filter(|(host, _)| *host == plan.host).map(|(_, id)| id.clone()).collect()
        };
        let (of, rolls_back) = match purpose {
            Purpose::Converge => (RunPurpose::Converge, Vec::new()),
            Purpose::Rollback(runs) => (RunPurpose::Rollback(Vec::new()), of_host(runs)),
            Purpose::RollbackOf { roles, before } => (RunPurpose::Rollback(roles.clone()), of_host(before)),
        };
        RunMeta {
            id: run.to_owned(),
            time: crate::engine::now(),
            operator: self.options().operator.clone(),
            inventory: self.options().inventory.clone(),
            playbook: self.playbook(),
            purpose: of,
            scope: self.scope(&plan.host),
            rolls_back,
            planned: plan.items.iter().filter(|i| is_set_out(i)).map(|i| i.address.clone()).collect(),
        }
    }

    /// Takes the lock of every host that has work and begins the run there.
    pub(crate) async fn open_runs(
        &self,
        plans: &[HostPlan],
        metas: &[RunMeta],
    ) -> Vec<(String, Result<Reach, LostHost>)> {
        let opening = plans
            .iter()
            .zip(metas)
            .map(|(plan, meta)| async { (plan.host.clone(), self.open_run(&plan.host, meta).await) });
        side_by_side(opening.collect()).await
    }

    /// Takes the lock of one host and begins the run there, or goes on with it in another session.
    pub(crate) async fn open_run(&self, name: &str, meta: &RunMeta) -> Result<Reach, LostHost> {
        let link = match self.reach(name).await? {
            Reach::Cluster(cluster) => return self.open_cluster_run(cluster, meta).await,
            Reach::Host(link) => link,
        };
        let base = link.base.lock().unwrap_or_else(PoisonError::into_inner).take();
        let pieces = [Some(host::undo_piece()), base.map(|base| host::base_piece(&meta.id, &base))];
        let item = |(id, (piece, content)): (u32, (Piece, Content))| Item {
            payload: Some(Bytes::copy_from_slice(content.bytes())),
            timeout: Some(Duration::from_secs(piece.timeout)),
            ..Item::new(id, piece.script)
        };
        let items = (1..).zip(pieces.into_iter().flatten()).map(item).collect();
        let batch = Batch { prelude: Some(host::open_script(meta)), stop_file: None, items };
        let (results, error) = link.shell.run_to_end(&batch).await.map_err(|e| link.lost(&e))?;
        match error {
            // The lock is someone else's, or the host cannot take records: its own words say which.
            Some(ShellError::Prelude { said, .. }) => Err(LostHost::refused(bare(name, said.trim()))),
            Some(error) => Err(link.lost(&error)),
            // A base that is not taken is brought by the next run.
            None if results.first().is_some_and(converge_ssh::ItemResult::success) => {
                link.beat(&meta.id);
                Ok(Reach::Host(link))
            }
            None => {
                let said: Vec<String> =
                    results.iter().map(|r| String::from_utf8_lossy(&r.output).trim().to_owned()).collect();
                let message = format!("/var/lib/converge/undo.sh cannot be written: {}", said.join("; "));
                Err(LostHost::refused(message))
            }
        }
    }

    /// Takes the lock of a cluster. One that is not there yet is locked once it is.
    async fn open_cluster_run(&self, link: Arc<ClusterLink>, meta: &RunMeta) -> Result<Reach, LostHost> {
        if let Ok(cluster) = link.arrive(self).await? {
            cluster.open(meta).await.map_err(|refused| LostHost::refused(refused.to_string()))?;
            link.mark_open(Some(&meta.id)).await;
        }
        Ok(Reach::Cluster(link))
    }

    /// Ends the run on a host and gives its lock back. A host that no longer answers keeps an unfinished record.
    pub(crate) async fn close_run(&self, reach: &Reach, run: &str, result: &str) {
        let link = match reach {
            Reach::Host(link) => link,
            Reach::Cluster(link) => {
                if let (true, Some(cluster)) = (link.is_open(run).await, link.present().await) {
                    cluster.close(run, result).await;
                    link.mark_open(None).await;
                }
                return;
            }
        };
        link.end_beating();
        let batch = Batch { prelude: Some(host::close_script(run, result)), ..Batch::default() };
        if let Ok((_, Some(error))) | Err(error) = link.shell.run_to_end(&batch).await {
            tracing::warn!(host = link.host, %error, "the run's record could not be ended");
        }
    }
}
