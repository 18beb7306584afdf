//! An item that destroys what only a copy on this machine can bring back: the copy is made on a host, brought here in pieces and compared,
//! and only then the item begins.

use super::TargetRun;
use super::fetch::last_words;
use crate::{Activity, Event, ItemResult, NoBackup, StoredBackup, TargetError};
use converge_host::Aside;
use converge_planner::Item;
use converge_resource::{Backup, BackupResult, Digest, quote};
use converge_ssh::{ShellError, Status};
use converge_store::{BackupError, Backups, IncomingFile};
use std::time::Instant;

/// Bytes of one piece: below what a shell gives of one item's output, and all of the file that is ever in memory.
const PIECE: u64 = 4 << 20;

/// Seconds within which a piece must come, and the file must be taken away.
const PIECE_SECONDS: u64 = 300;

/// More than any etcd has: a host that says so is wrong, and would fill this machine's disk.
const MOST: u64 = 64 << 30;

/// The reason why a copy could not be copied to this machine.
#[derive(Debug, thiserror::Error)]
enum BringError {
    /// The host is not reached.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// This machine does not keep it.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The session is over.
    #[error(transparent)]
    Shell(#[from] ShellError),
    #[error("no answer within {0} s")]
    Late(u64),
    /// The script failed: its last words.
    #[error("{0}")]
    Reply(String),
    #[error("the host's report about the copy cannot be parsed")]
    Answer,
    #[error("{arrived} bytes arrived of {size}")]
    Short { arrived: u64, size: u64 },
    #[error("its file stays on the host: {0}")]
    Stays(Box<BringError>),
    /// The task that writes it has ended early.
    #[error(transparent)]
    Task(#[from] tokio::task::JoinError),
}

/// The result of fetching a copy.
enum CopyEnd {
    Stored(StoredBackup),
    /// There is nothing of the sort: why.
    Nothing(String),
    Stopped,
}

/// A file on a host.
struct Remote<'a> {
    path: &'a str,
    size: u64,
    digest: &'a Digest,
}

impl TargetRun {
    /// Brings what must be on this machine before this item begins. False where it may not begin: it has failed then, or the run is
    /// stopped.
    pub(super) async fn bring(&mut self, item: &Item) -> bool {
        let Some(backup) = item.backup.clone().filter(|_| !self.lane.is_backed_up(item)) else { return true };
        let begun = Instant::now();
        let host = self.lane.host.clone();
        let of = backup.host.clone().unwrap_or_else(|| host.clone());
        let on = format!("a {} of {of}", backup.what);
        self.context.events.send(Event::Waiting { host: host.clone(), role: item.role.clone(), on });
        let _brings = self.context.begin(&host, Activity::Backup { what: backup.what.clone() });
        let allowed = backup.unless_allowed.as_ref();
        let allowed = allowed.filter(|id| self.context.options.allow_destroy.contains(id));
        let stored = match (self.carry(&of, &backup).await, allowed) {
            (Ok(CopyEnd::Stored(stored)), _) => Ok(stored),
            (Ok(CopyEnd::Nothing(why)), _) => Err(NoBackup::NothingThere(why)),
            (Ok(CopyEnd::Stopped), _) => return false,
            (Err(error), Some(id)) => Err(NoBackup::Allowed { reason: error.to_string(), id: id.clone() }),
            (Err(why), None) => {
                let without = backup.unless_allowed.as_ref();
                let without = without.map(|id| format!("; `--allow-destroy {id}` goes on without it"));
                let message = format!(
                    "not begun: the {} of {of} could not be copied to this machine: {why}{}",
                    backup.what,
                    without.unwrap_or_default()
                );
                let failed = ItemResult::Failed { message, output: String::new() };
                self.finish(item, failed, &[], begun.elapsed());
                return false;
            }
        };
        let note = match &stored {
            Ok(stored) => format!("{}: {}", backup.what, stored.path),
            Err(why) => format!("no {}: {why}", backup.what),
        };
        self.lane.brought(item.id, note);
        self.context.events.send(Event::Backup { host, what: backup.what, stored });
        true
    }

    /// Has it made, and brings it here.
    async fn carry(&self, of: &str, backup: &Backup) -> Result<CopyEnd, BringError> {
        let link = match of == self.lane.host {
            true => std::sync::Arc::clone(self.target.host()?),
            false => crate::connect::sessions::link(&self.context, of).await?,
        };
        let recipients = crate::connect::clusters::recipients(&self.context, of)?;
        // A machine that cannot keep it says so before anybody makes it.
        let backups = Backups::of(&backup.of)?;
        let arriving = backups.begin(&recipients)?;
        let aside = link.aside().await.map_err(|e| link.lost(&e))?;
        let reply = ask(&aside, &backup.script, backup.seconds).await?;
        let made = BackupResult::read(&String::from_utf8_lossy(&reply));
        let (digest, size, path, remark) = match made {
            Some(BackupResult::File { digest, size, path, remark }) if size <= MOST => {
                (digest, size, path, remark)
            }
            Some(BackupResult::Nothing(why)) => return Ok(CopyEnd::Nothing(why)),
            _ => return Err(BringError::Answer),
        };
        let file = Remote { path: &path, size, digest: &digest };
        let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        let name = format!("{time}-{of}-{}.{}", backup.reason, backup.extension);
        let came = self.pieces(&aside, &file, arriving, &name).await;
        // It goes there whatever came of it. A host that is lost now removes it when it makes the next one.
        let gone = ask(&aside, &format!("rm -f -- {}", quote(&path)), PIECE_SECONDS).await;
        match came? {
            None => Ok(CopyEnd::Stopped),
            Some(path) => {
                gone.map_err(|error| BringError::Stays(Box::new(error)))?;
                Ok(CopyEnd::Stored(StoredBackup { path, size, remark }))
            }
        }
    }

    /// Brings the file piece by piece: its path here; nothing when the run was stopped.
    async fn pieces(
        &self,
        aside: &Aside,
        file: &Remote<'_>,
        mut arriving: IncomingFile,
        name: &str,
    ) -> Result<Option<String>, BringError> {
        while arriving.size() < file.size {
            if self.stop.is_stopped() {
                return Ok(None);
            }
            let at = arriving.size();
            let script = format!(
                "dd if={} bs={PIECE} skip={} count=1 iflag=fullblock 2>/dev/null",
                quote(file.path),
                at / PIECE
            );
            let piece = ask(aside, &script, PIECE_SECONDS).await?;
            if piece.len() as u64 != PIECE.min(file.size.saturating_sub(at)) {
                let arrived = at.saturating_add(piece.len() as u64);
                return Err(BringError::Short { arrived, size: file.size });
            }
            // The disk must not hold up the other hosts.
            let written =
                tokio::task::spawn_blocking(move || arriving.write(&piece).map(|()| arriving)).await;
            arriving = written??;
        }
        let (name, size, digest) = (name.to_owned(), file.size, file.digest.to_string());
        let finished = tokio::task::spawn_blocking(move || arriving.finish(&name, size, &digest)).await;
        Ok(Some(finished??.into_string()))
    }
}

/// The output of a script that succeeds; else the end of its error output.
async fn ask(aside: &Aside, script: &str, seconds: u64) -> Result<Vec<u8>, BringError> {
    let result = aside.ask(script, seconds).await?;
    match result.outcome {
        converge_ssh::ShellOutcome::Finished { status, .. } if status.success() && !result.cut => {
            Ok(result.output)
        }
        converge_ssh::ShellOutcome::Finished { status: Status::TimedOut, .. } => {
            Err(BringError::Late(seconds))
        }
        _ => Err(BringError::Reply(last_words(&result.stderr))),
    }
}
