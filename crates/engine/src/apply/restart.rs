//! A host that restarts in the middle of its lane: the session goes, another one comes, and the same run goes on in it.

use super::TargetRun;
use super::running::ItemProgress;
use crate::apply::work::Work;
use crate::connect::target;
use crate::{Activity, Event, ItemResult, TargetError};
use converge_host::HostConnection;
use converge_host::records as host;
use converge_planner::Item;
use converge_ssh::{Batch, ShellOutcome, Transport};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two attempts to reach a host that restarts.
const PAUSE: Duration = Duration::from_secs(1);

/// Seconds within which a host must be back, where its item does not say.
const DEADLINE: u64 = 600;

/// A host after its restart, or why it is lost; nothing where it has not restarted.
type ReturnedHost = Result<Arc<HostConnection>, Option<TargetError>>;

impl TargetRun {
    /// Restarts the host for this item, and ends the item in another session.
    pub(super) async fn restart(&mut self, id: u32) -> Result<(), TargetError> {
        let Some(item) = self.lane.remaining().iter().find(|i| i.id == id).cloned() else { return Ok(()) };
        let begun = self.progress.epoch.elapsed();
        let (host, address) = (self.lane.host.clone(), item.address.clone());
        self.context.events.send(Event::ItemStarted { host, id, address });
        let lost = self.restart_for(&item, begun).await;
        self.record_time(&item, begun, self.progress.epoch.elapsed());
        self.report();
        lost
    }

    async fn restart_for(&mut self, item: &Item, begun: Duration) -> Result<(), TargetError> {
        let host = self.lane.host.clone();
        let took = |run: &Self| run.progress.epoch.elapsed().saturating_sub(begun);
        let fail = |run: &mut Self, message: String| {
            let took = took(run);
            run.finish(item, ItemResult::Failed { message, output: String::new() }, &[], took);
        };
        let local = crate::connect::endpoints::endpoint(&self.context, &host)
            .await
            .is_ok_and(|(to, _)| to.transport == Transport::Local);
        if local {
            fail(self, "converge runs on this machine and does not restart it".to_owned());
            return Ok(());
        }
        let work = match Work::new(item, &self.lane, &self.run, &mut self.sending.sequence) {
            Ok(work) => work,
            Err(error) => {
                fail(self, error.to_string());
                return Ok(());
            }
        };
        let link = Arc::clone(self.target.host()?);
        let before = match boot_id(&link).await? {
            Some(before) => before,
            None => {
                fail(self, "its boot ID cannot be read, so a restart could not be detected".to_owned());
                return Ok(());
            }
        };
        // It answers before the host goes. Where the link breaks first, the boot ID tells what happened.
        let items = work.items(Vec::new(), &mut 1);
        let prelude = std::mem::take(&mut self.sending.resume).then(|| host::resume_script(&self.run));
        let stop_file = Some(host::stop_file(&self.run));
        let reply = link.run_to_end(&Batch { prelude, stop_file, items }).await;
        if let Ok((results, None)) = reply {
            match results.last().map(|r| &r.outcome) {
                Some(ShellOutcome::Finished { status, duration }) if !status.success() => {
                    let output = results.iter().flat_map(|r| r.output.iter().copied()).collect();
                    let reply = ItemProgress { output, took: *duration, ..ItemProgress::default() };
                    self.conclude(&work, *status, &reply);
                    return Ok(());
                }
                Some(ShellOutcome::Skipped(_)) => {
                    self.finish(item, ItemResult::Stopped, &[], Duration::ZERO);
                    return Ok(());
                }
                _ => {}
            }
        }
        let setting = item.settings.iter().find(|(name, _)| name == "CV_RESTART_LEFT");
        let within = setting.and_then(|(_, seconds)| seconds.parse().ok()).unwrap_or(DEADLINE);
        let deadline = Instant::now() + Duration::from_secs(within);
        let text = format!("the host restarts; it must be back within {within} s");
        self.context.events.send(Event::ItemOutput { host, id: item.id, text });
        match self.back(&before, within, deadline).await {
            Ok(link) => self.target = target::host(&self.context, link),
            Err(Some(lost)) => {
                let (took, message) = (took(self), lost.to_string());
                self.finish(item, ItemResult::Failed { message, output: String::new() }, &[], took);
                return Err(lost);
            }
            Err(None) => return self.stayed(item, &work, within, took(self)).await,
        }
        self.end_restart(item, &work, deadline, took(self)).await
    }

    /// The host was asked to restart and is still there. It may yet go: nothing more is begun on it.
    async fn stayed(
        &mut self,
        item: &Item,
        work: &Work,
        within: u64,
        took: Duration,
    ) -> Result<(), TargetError> {
        // The session from before is the one that holds the lock.
        let link = Arc::clone(self.target.host()?);
        crate::connect::sessions::keep_link(&self.context, &link).await;
        let reply = converge_ssh::ShellItem::new(2, "cat /run/converge-restart 2>/dev/null");
        let batch = Batch::of(vec![work.after_restart(0), reply]);
        let answer = link.run_to_end(&batch).await;
        let output = match &answer {
            Ok((results, _)) => results.last().map(|r| String::from_utf8_lossy(&r.output).into_owned()),
            Err(_) => None,
        };
        let message = format!("{} did not restart within {within} s of the request", self.lane.host);
        let output = output.unwrap_or_default();
        self.finish(item, ItemResult::Failed { message, output }, &[], took);
        match answer {
            Ok((_, Some(error))) | Err(error) => return Err(link.lost(&error)),
            Ok(_) => {}
        }
        let because = "the requested restart did not happen".to_owned();
        self.lane.end_all(&ItemResult::Skipped { because });
        Ok(())
    }

    /// Takes the lock again, waits for the host's units, and goes on with the rest on a fresh look.
    async fn end_restart(
        &mut self,
        item: &Item,
        work: &Work,
        deadline: Instant,
        took: Duration,
    ) -> Result<(), TargetError> {
        let unknown = |run: &mut Self, lost: TargetError| {
            let message = format!("the host has restarted; then: {lost}");
            run.finish(item, ItemResult::Unknown { message }, &[], took);
            lost
        };
        if let Err(lost) = crate::connect::runs::open_run(&self.context, &self.lane.host, &self.meta).await {
            return Err(unknown(self, lost));
        }
        let _waits = self.context.begin(&self.lane.host, Activity::UnitsAfterRestart);
        let left = deadline.saturating_duration_since(Instant::now());
        let batch = Batch::of(vec![work.after_restart(left.as_secs())]);
        let link = Arc::clone(self.target.host()?);
        let (results, error) = match link.run_to_end(&batch).await {
            Ok(answer) => answer,
            Err(error) => return Err(unknown(self, link.lost(&error))),
        };
        let Some((result, status, duration)) = results.into_iter().next().and_then(|r| match r.outcome {
            ShellOutcome::Finished { status, duration } => Some((r, status, duration)),
            _ => None,
        }) else {
            let lost = error
                .map_or_else(|| TargetError::Refused("gave no answer".to_owned()), |error| link.lost(&error));
            return Err(unknown(self, lost));
        };
        let took = took.saturating_add(duration);
        let reply = ItemProgress { output: result.output, took, ..ItemProgress::default() };
        self.conclude(work, status, &reply);
        self.lane.restarted(&item.address);
        Ok(())
    }

    /// Tries to reach the host until it runs another boot, or the deadline.
    async fn back(&self, before: &str, within: u64, deadline: Instant) -> ReturnedHost {
        let host = &self.lane.host;
        let _restarts = self.context.begin(host, Activity::HostRestart { seconds: within });
        let mut why = None;
        loop {
            tokio::time::sleep(PAUSE).await;
            let left = deadline.saturating_duration_since(Instant::now());
            let attempt = async {
                let link = crate::connect::sessions::link_again(&self.context, host).await?;
                let boot = boot_id(&link).await?;
                Ok::<_, TargetError>((link, boot))
            };
            match tokio::time::timeout(left, attempt).await {
                Ok(Ok((link, Some(boot)))) if boot != before => return Ok(link),
                Ok(Ok(_)) => why = None,
                Ok(Err(lost)) => why = Some(lost),
                Err(_) => {}
            }
            if Instant::now() < deadline {
                continue;
            }
            return Err(why.map(|lost| {
                lost.map_message(|why| {
                    format!("{host} did not come back within {within} s of its restart: {why}")
                })
            }));
        }
    }
}

/// Which boot a host runs; `None` where it cannot say.
async fn boot_id(link: &HostConnection) -> Result<Option<String>, TargetError> {
    let script = "cv_boot_now && printf '%s\\n' \"$CV_BOOT\"";
    let item = converge_ssh::ShellItem {
        timeout: Some(Duration::from_secs(30)),
        ..converge_ssh::ShellItem::new(1, script)
    };
    let batch = Batch::of(vec![item]);
    let (results, error) = link.run_to_end(&batch).await.map_err(|e| link.lost(&e))?;
    if let Some(error) = error {
        return Err(link.lost(&error));
    }
    let reply =
        results.first().filter(|r| r.success()).map(|r| String::from_utf8_lossy(&r.output).into_owned());
    Ok(reply.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()))
}
