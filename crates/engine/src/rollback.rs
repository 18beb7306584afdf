//! Rolling back: an ordinary plan towards the states that a run saved.

use crate::engine::{Engine, side_by_side};
use crate::reach::Reach;
use crate::undo::{
    Undo, base_of, by_item, compose, owners_probe, role_of, stand_on_it, staying, take_contents, undo_item,
    without_gone_workloads,
};
use crate::{Event, FleetPlan, HostEntry, HostResult, HostSnapshots, LostHost, Purpose, Snapshot};
use converge_planner::{HostPlan, Item, Knowledge};
use converge_resource::{Answer, Probe};
use converge_ssh::{Batch, Item as ShellItem, Stderr};
use converge_store::host::{self, RunPurpose, RunRecord, SavedChange};
use converge_syntax::{Diagnostic, Diagnostics};
use std::collections::BTreeSet;
use std::time::Instant;

/// The newest run on a host that changed something and is neither a rollback nor rolled back, nor one of `passed`.
fn newest<'a>(records: &'a [RunRecord], passed: &BTreeSet<String>) -> Option<&'a str> {
    let candidates = records.iter().filter(|r| {
        r.purpose == RunPurpose::Converge
            && r.rolls_back.is_empty()
            && r.attempts.is_none()
            && r.rolled_back_by.is_none()
            && !passed.contains(&r.id)
            && r.changes.iter().any(SavedChange::may_have_happened)
    });
    candidates.map(|r| r.id.as_str()).max()
}

/// Whether nothing of this can be done now, on hosts that were all looked at.
fn nothing_to_do(plan: &FleetPlan) -> bool {
    plan.hosts
        .iter()
        .all(|h| matches!(&h.result, HostResult::Planned(plan) if !plan.items.iter().any(Item::is_pending)))
}

/// The runs of a host from this one on, oldest first: IDs sort by time.
fn runs_from<'a>(records: &'a [RunRecord], start: &str) -> Vec<&'a RunRecord> {
    let mut runs: Vec<&RunRecord> = records.iter().filter(|r| r.id.as_str() >= start).collect();
    runs.sort_by(|a, b| a.id.cmp(&b.id));
    runs
}

impl Engine {
    /// The snapshots of every host, newest first.
    pub async fn snapshots(&self) -> Vec<HostSnapshots> {
        let hosts = self.hosts();
        let reading = hosts.iter().map(|host| async move {
            match self.records(host).await {
                Err(lost) => HostSnapshots { host: host.clone(), runs: Vec::new(), lost: Some(lost) },
                Ok((_, records)) => HostSnapshots { host: host.clone(), runs: list(&records), lost: None },
            }
        });
        side_by_side(reading.collect()).await
    }

    /// Plans the way back: to the state before the run `to`, or before the newest run that is not rolled back yet. `roles` narrows
    /// it to items of these roles.
    ///
    /// # Errors
    /// A run that no host knows.
    pub async fn plan_rollback(&self, to: Option<&str>, roles: &[String]) -> Result<FleetPlan, Diagnostics> {
        let hosts = self.hosts();
        let read = side_by_side(hosts.iter().map(|host| self.records(host)).collect()).await;
        if let Some(id) = to {
            let known = read.iter().filter_map(|r| r.as_ref().ok()).flat_map(|(_, records)| records);
            if !known.into_iter().any(|r| r.id == id) && read.iter().all(Result::is_ok) {
                let message = format!("no host has a snapshot `{id}`");
                let help = "`converge snapshots` lists what can be rolled back to";
                return Err(Diagnostic::error("unknown-snapshot", message).help(help).into());
            }
            return Ok(self.plan_back_to(&hosts, &read, Some(id), roles).await);
        }
        let mut passed = BTreeSet::new();
        loop {
            let records = || read.iter().filter_map(|r| r.as_ref().ok()).map(|(_, records)| records);
            let start = records().filter_map(|records| newest(records, &passed)).max().map(str::to_owned);
            let plan = self.plan_back_to(&hosts, &read, start.as_deref(), roles).await;
            // A rollback that left something alone is gone on with, as long as there is something to do.
            let tried = |start: &String| records().flatten().any(|r| r.id == *start && r.rolled_back_in_part);
            match start.filter(tried) {
                Some(start) if nothing_to_do(&plan) => passed.insert(start),
                _ => return Ok(plan),
            };
        }
    }

    /// The way back before the run `start` on these hosts.
    async fn plan_back_to(
        &self,
        hosts: &[String],
        read: &[Result<(Reach, Vec<RunRecord>), LostHost>],
        start: Option<&str>,
        roles: &[String],
    ) -> FleetPlan {
        let planning = hosts.iter().zip(read).map(|(host, read)| self.plan_back(host, read, start, roles));
        let outcomes = side_by_side(planning.collect()).await;
        let undone = outcomes
            .iter()
            .flat_map(|(entry, runs)| runs.iter().map(|run| (entry.host.clone(), run.clone())))
            .collect();
        let purpose = if roles.is_empty() {
            Purpose::Rollback(undone)
        } else {
            Purpose::RollbackOf { roles: roles.to_vec(), before: undone }
        };
        let mut plan = self.fleet(purpose, outcomes.into_iter().map(|(entry, _)| entry).collect());
        crate::way_back::ask(&mut plan);
        plan.order = self.order(&plan);
        plan
    }

    /// Plans one host back to where it was before the run `start`. With it come the runs that this undoes.
    async fn plan_back(
        &self,
        host: &str,
        read: &Result<(Reach, Vec<RunRecord>), LostHost>,
        start: Option<&str>,
        roles: &[String],
    ) -> (HostEntry, Vec<String>) {
        let begun = Instant::now();
        let planned = match read {
            Err(lost) => Err(lost.clone()),
            Ok((reach, records)) => {
                let runs = start.map(|start| runs_from(records, start)).unwrap_or_default();
                let mut undos = compose(&runs);
                undos.retain(|u| roles.is_empty() || roles.iter().any(|r| role_of(&u.item) == r));
                let ids = runs.iter().map(|r| r.id.clone()).collect();
                self.plan_undos(reach, undos).await.map(|plan| (plan, ids))
            }
        };
        let (result, ids) = match planned {
            Ok((plan, ids)) => {
                self.events().send(Event::Planned { host: host.to_owned(), summary: plan.summary() });
                (HostResult::Planned(plan), ids)
            }
            Err(lost) => {
                self.events().send(Event::Lost { host: host.to_owned(), message: lost.message.clone() });
                (HostResult::Lost(lost), Vec::new())
            }
        };
        (HostEntry { host: host.to_owned(), result, took: begun.elapsed() }, ids)
    }

    async fn records(&self, name: &str) -> Result<(Reach, Vec<RunRecord>), LostHost> {
        let reach = self.reach(name).await?;
        let link = match &reach {
            Reach::Host(link) => link,
            Reach::Cluster(link) => {
                let records = match link.arrive(self).await? {
                    Ok(cluster) => cluster.records().await.map_err(LostHost::refused)?,
                    Err(_not_yet) => Vec::new(),
                };
                return Ok((reach, records));
            }
        };
        let item = ShellItem { stderr: Stderr::Separate, ..ShellItem::new(1, host::list_script()) };
        let (results, error) =
            link.shell.run_to_end(&Batch::of(vec![item])).await.map_err(|e| link.lost(&e))?;
        if let Some(error) = error {
            return Err(link.lost(&error));
        }
        let refused = LostHost::refused;
        let result = results.into_iter().next().ok_or_else(|| refused("gave no answer".to_owned()))?;
        if !result.success() {
            return Err(refused(String::from_utf8_lossy(&result.stderr).trim().to_owned()));
        }
        let records = host::parse_records(&String::from_utf8_lossy(&result.output))
            .map_err(|e| refused(e.to_string()))?;
        Ok((reach, records))
    }

    /// Looks at the objects and plans them back.
    async fn plan_undos(&self, reach: &Reach, mut undos: Vec<Undo>) -> Result<HostPlan, LostHost> {
        without_gone_workloads(&mut undos);
        let mut known = Knowledge::default();
        let mut objects: BTreeSet<Probe> = undos.iter().map(|u| Probe::Object(u.object.clone())).collect();
        objects.extend(undos.iter().filter_map(|u| owners_probe(&u.object, &u.before)));
        if !objects.is_empty() {
            reach.look(&objects, &mut known).await?;
        }
        reach.saved_contents(undos.iter(), &mut known).await?;
        let mut plan = HostPlan { host: reach.name().to_owned(), ..HostPlan::default() };
        let allowed = &self.options().allow_destroy;
        let stay = staying(&undos, &known, allowed);
        for (address, members) in by_item(undos) {
            let id = u32::try_from(plan.items.len()).unwrap_or(u32::MAX);
            let mut item = undo_item(id, &address, members, &mut known, allowed, &stay);
            item.needs = stand_on_it(&plan.items, &item);
            plan.items.push(item);
        }
        crate::former::releases_back(reach, &mut plan, &mut known).await?;
        crate::apply::note_backups(&mut plan);
        plan.base = base_of(&plan, &known);
        take_contents(&mut plan, &known);
        if self.options().diffs {
            self.contents_for_diffs(reach, &mut plan, &mut known).await?;
        }
        Ok(plan)
    }

    /// Reads the present and the saved content of files for the diff.
    pub(crate) async fn contents_for_diffs(
        &self,
        reach: &Reach,
        plan: &mut HostPlan,
        known: &mut Knowledge,
    ) -> Result<(), LostHost> {
        let mut probes = BTreeSet::new();
        for planned in plan.items.iter().filter(|i| !i.sensitive).flat_map(Item::changes) {
            let change = &planned.change;
            let Some(object) = converge_objects::object(&change.object.kind) else { continue };
            let (from, to) = (object.content(&change.from), object.content(&change.to));
            if change.object.kind != "path" || from == to {
                continue;
            }
            probes.extend(from.map(|_| Probe::Content(change.object.key.clone())));
            probes.extend(to.map(|digest| Probe::Content(host::blob_path(&digest))));
        }
        if probes.is_empty() {
            return Ok(());
        }
        reach.look(&probes, known).await?;
        for probe in &probes {
            if let Some(Answer::Content(Some(content))) = known.answer(probe) {
                plan.contents.insert(content.digest().clone(), content.clone());
            }
        }
        Ok(())
    }
}

fn list(records: &[RunRecord]) -> Vec<Snapshot> {
    let mut runs: Vec<&RunRecord> = records.iter().collect();
    runs.sort_by(|a, b| b.id.cmp(&a.id));
    runs.iter()
        .map(|r| Snapshot {
            run: r.id.clone(),
            time: r.time.clone(),
            operator: r.operator.clone(),
            purpose: match &r.purpose {
                RunPurpose::Undo => format!("undo.sh of {}", r.attempts.as_deref().unwrap_or("a run")),
                RunPurpose::Rollback(roles) if !roles.is_empty() => {
                    format!("rollback of {}", roles.join(", "))
                }
                _ if r.rolls_back.is_empty() => "converge".to_owned(),
                _ => format!("rollback of {}", r.rolls_back.join(", ")),
            },
            changes: r.changes.iter().filter(|c| c.may_have_happened()).count(),
            finished: r.finished,
            rolled_back_by: r.rolled_back_by.clone(),
        })
        .collect()
}
