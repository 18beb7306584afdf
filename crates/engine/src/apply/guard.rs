//! Guarded items: the host reverts them by itself unless a new session confirms them in time.

use super::TargetRun;
use crate::{Activity, Event, ItemResult, TargetError};
use converge_host::HostConnection;
use converge_host::records as host;
use converge_objects::is_action;
use converge_planner::{Item, ItemGuard};
use converge_resource::Reversibility;
use converge_ssh::{Batch, ShellError, ShellOutcome, Status};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two attempts to reach the host anew.
const PAUSE: Duration = Duration::from_secs(1);

/// The host reverts this much later than the controller gives up, so that the controller can request the revert first.
const MARGIN: Duration = Duration::from_secs(2);

/// Seconds that the host gets for putting back.
const ACTING: u64 = 150;

/// The reason why guarded changes are reverted.
#[derive(Debug, thiserror::Error)]
enum RevertCause {
    #[error("the run was stopped in the middle")]
    Stopped,
    /// One of the guarded items, by its address.
    #[error("`{0}` failed")]
    Failed(String),
    #[error("no new session within {seconds} s: {reason}")]
    NoSession { seconds: u64, reason: NoSession },
    #[error("a new session did not last: {0}")]
    SessionLost(AskError),
    /// The host asked what the change can break, and does not confirm it: its words.
    #[error("{0}")]
    Check(String),
}

/// The reason why there is no new session.
#[derive(Debug, thiserror::Error)]
enum NoSession {
    #[error("the host does not answer")]
    NoAnswer,
    #[error("{}", .0.to_string().trim_end_matches('.'))]
    Lost(TargetError),
}

/// The reason why a script has no end that is known.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("no answer within {0} s")]
    Late(u64),
    #[error(transparent)]
    Shell(#[from] ShellError),
    #[error("no answer")]
    NoAnswer,
}

/// The automatic revert of a lane.
#[derive(Default)]
pub(super) struct SwitchState {
    /// When the automatic revert of the guarded items was prepared last.
    armed: Option<Instant>,
    /// Switches of this run that are over.
    ended: u32,
}

impl SwitchState {
    /// A guarded item begins.
    pub(super) fn arm(&mut self) {
        self.armed = Some(Instant::now());
    }
}

/// The result of the automatic revert, as the host reports it.
enum AutoRevertResult {
    Whole,
    Partly,
    /// None was pending.
    NotArmed,
    /// It had nothing to revert.
    Nothing,
    /// It was confirmed, and only the answer was lost.
    Confirmed,
    /// Something could not be reverted so far, or the records are gone: the host's words. It goes on with it by itself.
    NotYet(String),
    /// It cannot be asked, or it is still at it: why.
    Open(String),
}

impl TargetRun {
    /// Sends guarded items. A session that breaks with them is no loss of the host yet: [`TargetRun::settle`] reaches it anew.
    pub(super) async fn guarded(&mut self, ids: &[u32]) {
        let stretch = || self.lane.remaining().iter().filter(|i| ids.contains(&i.id));
        let windows: u64 = stretch().filter_map(|i| i.guard).map(|g| g.seconds).sum();
        let within = Duration::from_secs(windows.saturating_add(ACTING));
        self.switch.arm();
        let broken = match self.target.host().cloned() {
            Err(lost) => Ok(Err(lost)),
            Ok(link) => tokio::time::timeout(within, self.send(&link, ids, None)).await,
        };
        let broken = match broken {
            Ok(Ok(())) => return,
            Ok(Err(lost)) => lost.to_string(),
            Err(_) => format!("no answer within {} s", within.as_secs()),
        };
        // An item without an end may or may not have changed something.
        let open: Vec<Item> = self.lane.remaining().iter().filter(|i| ids.contains(&i.id)).cloned().collect();
        for item in open {
            let message = format!("the session broke: {broken}");
            self.finish(&item, ItemResult::Unknown { message }, &[], Duration::ZERO);
        }
    }

    /// Confirms the guarded changes, or has the host revert them. Does nothing while further items can join them.
    pub(super) async fn settle(&mut self) -> Result<(), TargetError> {
        let last = self.lane.unconfirmed().last();
        let more = last.is_some_and(|(last, _)| self.lane.more_behind(last));
        self.settle_unless(more).await
    }

    /// The same, though more was to come behind it: it cannot begin now.
    pub(super) async fn settle_now(&mut self) -> Result<(), TargetError> {
        self.settle_unless(false).await
    }

    async fn settle_unless(&mut self, more: bool) -> Result<(), TargetError> {
        let Some((last, _)) = self.lane.unconfirmed().last() else { return Ok(()) };
        let last = last.clone();
        let Some(ItemGuard { seconds, .. }) = last.guard else { return Ok(()) };
        let bad = self.lane.unconfirmed().iter().find(|(_, result)| result.is_bad());
        let bad = bad.map(|(item, result)| match result {
            ItemResult::Stopped => RevertCause::Stopped,
            _ => RevertCause::Failed(item.address.clone()),
        });
        let good = match bad {
            Some(why) => Err(why),
            None if more && self.stop.is_stopped() => Err(RevertCause::Stopped),
            None if more => return Ok(()),
            None => self.confirm(&last, seconds).await,
        };
        match good {
            Ok(()) => {
                self.switch.ended = self.switch.ended.saturating_add(1);
                let ended = self.lane.confirm();
                self.tell(ended);
                Ok(())
            }
            Err(reason) => self.put_back(&reason, seconds).await,
        }
    }

    fn tell(&mut self, ended: Vec<(Item, ItemResult)>) {
        for (item, result) in ended {
            self.context.events.send(Event::ItemFinished {
                host: self.lane.host.clone(),
                id: item.id,
                took: self.progress.times.get(&item.address).copied().unwrap_or_default(),
                address: item.address,
                result,
            });
        }
        self.switch.armed = None;
        self.report();
    }

    /// Reaches the host by a new connection, and has it ask what the change can break.
    async fn confirm(&self, item: &Item, seconds: u64) -> Result<(), RevertCause> {
        let host = self.lane.host.clone();
        let _confirms = self.context.begin(&host, Activity::Confirm { seconds });
        let text =
            format!("changed; reverted automatically unless a new session confirms it within {seconds} s");
        self.context.events.send(Event::ItemOutput { host, id: item.id, text });
        let deadline = self.deadline(seconds).checked_sub(MARGIN).unwrap_or_else(Instant::now);
        loop {
            let lost = match self.anew(deadline).await {
                Err(reason) => return Err(RevertCause::NoSession { seconds, reason }),
                Ok(link) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let reply = ask(&link, host::confirm_script(&self.run), left).await;
                    leave(link).await;
                    match reply {
                        Ok((Status::Exited(0), _)) => return Ok(()),
                        Ok((_, reply)) => return Err(RevertCause::Check(reply)),
                        Err(error) => error,
                    }
                }
            };
            if Instant::now() >= deadline {
                return Err(RevertCause::SessionLost(lost));
            }
        }
    }

    fn deadline(&self, seconds: u64) -> Instant {
        self.switch.armed.unwrap_or_else(Instant::now) + Duration::from_secs(seconds)
    }

    /// A new session, tried until the deadline.
    async fn anew(&self, deadline: Instant) -> Result<HostConnection, NoSession> {
        let mut why = NoSession::NoAnswer;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match tokio::time::timeout(
                left,
                crate::connect::sessions::new_link(&self.context, &self.lane.host),
            )
            .await
            {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(lost)) => why = NoSession::Lost(lost),
                Err(_) => return Err(why),
            }
            tokio::time::sleep(PAUSE.min(left)).await;
        }
    }

    /// Has the switch act, and says what became of it. The run goes on with what does not stand on it.
    async fn put_back(&mut self, why: &RevertCause, seconds: u64) -> Result<(), TargetError> {
        let _reverts = self.context.begin(&self.lane.host, Activity::Revert);
        let now = host::put_back_now_script(&self.run, ACTING, self.switch.ended);
        let link = Arc::clone(self.target.host()?);
        let (acted, link) = match ask(&link, now, Duration::from_secs(ACTING + 10)).await {
            Ok(reply) => (acted(&reply), None),
            // The session went with the change. The host acts by itself when the window is over.
            Err(_) => self.put_back_by_itself(seconds).await,
        };
        let became = match &acted {
            AutoRevertResult::Whole => "all changes are reverted".to_owned(),
            AutoRevertResult::Partly => {
                "not all changes could be reverted: see `journalctl -u converge-switch` on the host"
                    .to_owned()
            }
            AutoRevertResult::Nothing | AutoRevertResult::Confirmed => String::new(),
            AutoRevertResult::NotArmed => {
                "the host has no record of the guarded change, so it is not reverted automatically".to_owned()
            }
            AutoRevertResult::NotYet(reply) => reply.clone(),
            AutoRevertResult::Open(why) => {
                format!("the host reverts it by itself; whether it has is not known: {why}")
            }
        };
        if !matches!(acted, AutoRevertResult::NotArmed) {
            self.switch.ended = self.switch.ended.saturating_add(1);
        }
        let ended = self.lane.settle(|item, result| {
            let stays = matches!(acted, AutoRevertResult::Whole) && has_command_without_undo(item);
            let became = if stays { format!("{became}{STAYS}") } else { became.clone() };
            let (message, output) = match result {
                _ if matches!(acted, AutoRevertResult::Confirmed | AutoRevertResult::Nothing) => {
                    return result.clone();
                }
                // Nothing was changed before it would have been prepared.
                _ if matches!(acted, AutoRevertResult::NotArmed) && *result != ItemResult::Changed => {
                    return result.clone();
                }
                ItemResult::Refused { .. } | ItemResult::Stopped => return result.clone(),
                ItemResult::Failed { message, output } => (format!("{message}; {became}"), output.clone()),
                ItemResult::Unknown { message } => (format!("{message}; {became}"), String::new()),
                _ => (format!("{why}; {became}"), String::new()),
            };
            // Only a revert that is known to be whole is reported as one.
            match acted {
                AutoRevertResult::Partly | AutoRevertResult::NotArmed | AutoRevertResult::NotYet(_) => {
                    ItemResult::Failed { message, output }
                }
                AutoRevertResult::Open(_) => ItemResult::Unknown { message },
                _ => ItemResult::PutBack { message, output },
            }
        });
        self.tell(ended);
        // Foreign code of the guarded items may have changed more than was reverted.
        self.lane.ask_to_look_again();
        // Nothing else is done on the host meanwhile.
        if let AutoRevertResult::NotYet(reply) = acted {
            return Err(TargetError::Locked(reply));
        }
        match link {
            None => match acted {
                AutoRevertResult::Open(why) => Err(TargetError::Unreachable(why)),
                _ => Ok(()),
            },
            Some(link) => {
                let link = Arc::new(link);
                crate::connect::sessions::keep_link(&self.context, &link).await;
                self.target =
                    crate::connect::runs::open_run(&self.context, &self.lane.host, &self.meta).await?;
                Ok(())
            }
        }
    }

    /// Waits in a new session until the switch has acted.
    async fn put_back_by_itself(&self, seconds: u64) -> (AutoRevertResult, Option<HostConnection>) {
        let deadline = self.deadline(seconds) + Duration::from_secs(ACTING);
        loop {
            let link = match self.anew(deadline).await {
                Ok(link) => link,
                Err(reason) => return (AutoRevertResult::Open(reason.to_string()), None),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = host::put_back_script(&self.run, left.as_secs(), self.switch.ended);
            match ask(&link, wait, left + Duration::from_secs(10)).await {
                Ok(reply) => return (acted(&reply), Some(link)),
                // A session that came about during the change may go with it.
                Err(error) if Instant::now() >= deadline => {
                    return (AutoRevertResult::Open(error.to_string()), None);
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

/// Said of a command that the automatic revert does not take back.
const STAYS: &str = ", but not what the command itself did: it has no `undo`";

/// Whether a command of this item may have done something that nothing takes back.
fn has_command_without_undo(item: &Item) -> bool {
    item.changes().iter().any(|planned| {
        is_action(&planned.change.object) && matches!(planned.reversibility, Reversibility::Irreversible(_))
    })
}

/// Reads the status of [`host::put_back_script`].
fn acted((status, reply): &(Status, String)) -> AutoRevertResult {
    match status {
        Status::Exited(0) => AutoRevertResult::Whole,
        Status::Exited(1) => AutoRevertResult::Partly,
        Status::Exited(3) => AutoRevertResult::NotArmed,
        Status::Exited(4) => AutoRevertResult::Nothing,
        Status::Exited(5) => AutoRevertResult::NotYet(reply.clone()),
        Status::Exited(6) => AutoRevertResult::Confirmed,
        _ if reply.is_empty() => AutoRevertResult::Open("it takes too long".to_owned()),
        _ => AutoRevertResult::Open(reply.clone()),
    }
}

/// Runs one script in a session: how it ended and what it said.
async fn ask(link: &HostConnection, script: String, within: Duration) -> Result<(Status, String), AskError> {
    let item = converge_ssh::ShellItem { timeout: Some(within), ..converge_ssh::ShellItem::new(1, script) };
    let batch = Batch::of(vec![item]);
    let asked = tokio::time::timeout(within + PAUSE, link.run_to_end(&batch)).await;
    match asked {
        Err(_) => Err(AskError::Late(within.as_secs())),
        Ok(Err(error) | Ok((_, Some(error)))) => Err(error.into()),
        Ok(Ok((results, None))) => match results.into_iter().next().map(|r| (r.outcome, r.output)) {
            Some((ShellOutcome::Finished { status, .. }, output)) => {
                Ok((status, String::from_utf8_lossy(&output).trim().to_owned()))
            }
            _ => Err(AskError::NoAnswer),
        },
    }
}

/// Ends a session that was for one question.
async fn leave(link: HostConnection) {
    drop(tokio::time::timeout(Duration::from_secs(2), link.close()).await);
}
