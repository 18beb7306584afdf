//! An item that destroys what only a copy on this machine can bring back: the copy is made on a host, brought here in pieces and compared,
//! and only then the item begins.

use super::HostRun;
use super::fetch::last_words;
use crate::{Event, ItemResult, KeptBackup};
use converge_host::Aside;
use converge_planner::Item;
use converge_resource::{Backup, Digest, Made, quote};
use converge_ssh::Status;
use converge_store::{Arriving, Backups};
use std::time::Instant;

/// Bytes of one piece: below what a shell gives of one item's output, and all of the file that is ever in memory.
const PIECE: u64 = 4 << 20;

/// Seconds within which a piece must come, and the file must be taken away.
const PIECE_SECONDS: u64 = 300;

/// More than any etcd has: a host that says so is wrong, and would fill this machine's disk.
const MOST: u64 = 64 << 30;

/// The result of fetching a copy.
enum Came {
    Kept(KeptBackup),
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

impl HostRun {
    /// Brings what must be on this machine before this item begins. False where it may not begin: it has failed then, or the run is
    /// stopped.
    pub(super) async fn bring(&mut self, item: &Item) -> bool {
        let Some(backup) = item.backup.clone().filter(|_| !self.lane.is_backed_up(item)) else { return true };
        let begun = Instant::now();
        let host = self.lane.host.clone();
        let of = backup.host.clone().unwrap_or_else(|| host.clone());
        let on = format!("a {} of {of}", backup.what);
        self.context.events.send(Event::Waiting { host: host.clone(), role: item.role.clone(), on });
        let allowed = backup.unless_allowed.as_ref();
        let allowed = allowed.filter(|id| self.context.options.allow_destroy.contains(id));
        let kept = match (self.carry(&of, &backup).await, allowed) {
            (Ok(Came::Kept(kept)), _) => Ok(kept),
            (Ok(Came::Nothing(why)), _) => Err(why),
            (Ok(Came::Stopped), _) => return false,
            (Err(why), Some(id)) => Err(format!("{why}; `--allow-destroy {id}` goes on without it")),
            (Err(why), None) => {
                let without = backup.unless_allowed.as_ref();
                let without = without.map(|id| format!("; `--allow-destroy {id}` goes on without it"));
                let message = format!(
                    "not begun: a {} of {of} did not come to this machine: {why}{}",
                    backup.what,
                    without.unwrap_or_default()
                );
                let failed = ItemResult::Failed { message, output: String::new() };
                self.finish(item, failed, &[], begun.elapsed());
                return false;
            }
        };
        let note = match &kept {
            Ok(kept) => format!("{}: {}", backup.what, kept.path),
            Err(why) => format!("no {}: {why}", backup.what),
        };
        self.lane.brought(item.id, note);
        self.context.events.send(Event::Backup { host, what: backup.what, kept });
        true
    }

    /// Has it made, and brings it here.
    async fn carry(&self, of: &str, backup: &Backup) -> Result<Came, String> {
        let lost = |lost: crate::TargetError| lost.to_string();
        let link = match of == self.lane.host {
            true => std::sync::Arc::clone(self.target.host().map_err(lost)?),
            false => crate::connect::sessions::link(&self.context, of).await.map_err(lost)?,
        };
        let recipients = crate::connect::target::recipients(&self.context, of).map_err(lost)?;
        // A machine that cannot keep it says so before anybody makes it.
        let backups = Backups::of(&backup.of).map_err(|e| e.to_string())?;
        let arriving = backups.begin(&recipients).map_err(|e| e.to_string())?;
        let aside = link.aside().await.map_err(|e| link.lost(&e).to_string())?;
        let said = ask(&aside, &backup.script, backup.seconds).await?;
        let made = Made::read(&String::from_utf8_lossy(&said));
        let (digest, size, path, remark) = match made {
            Some(Made::File { digest, size, path, remark }) if size <= MOST => (digest, size, path, remark),
            Some(Made::Nothing(why)) => return Ok(Came::Nothing(why)),
            _ => return Err("what the host said of it is not understood".to_owned()),
        };
        let file = Remote { path: &path, size, digest: &digest };
        let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        let name = format!("{time}-{of}-{}.{}", backup.reason, backup.extension);
        let came = self.pieces(&aside, &file, arriving, &name).await;
        // It goes there whatever came of it. A host that is lost now removes it when it makes the next one.
        let gone = ask(&aside, &format!("rm -f -- {}", quote(&path)), PIECE_SECONDS).await;
        match came? {
            None => Ok(Came::Stopped),
            Some(path) => {
                gone.map_err(|why| format!("its file stays on the host: {why}"))?;
                Ok(Came::Kept(KeptBackup { path, size, remark }))
            }
        }
    }

    /// Brings the file piece by piece: its path here; nothing when the run was stopped.
    async fn pieces(
        &self,
        aside: &Aside,
        file: &Remote<'_>,
        mut arriving: Arriving,
        name: &str,
    ) -> Result<Option<String>, String> {
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
                let came = at.saturating_add(piece.len() as u64);
                return Err(format!("{came} bytes arrived of {}", file.size));
            }
            // The disk must not hold up the other hosts.
            let written =
                tokio::task::spawn_blocking(move || arriving.write(&piece).map(|()| arriving)).await;
            arriving = written.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        }
        let (name, size, digest) = (name.to_owned(), file.size, file.digest.to_string());
        let finished = tokio::task::spawn_blocking(move || arriving.finish(&name, size, &digest)).await;
        Ok(Some(finished.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?.into_string()))
    }
}

/// The output of a script that succeeds; else the end of its error output.
async fn ask(aside: &Aside, script: &str, seconds: u64) -> Result<Vec<u8>, String> {
    let result = aside.ask(script, seconds).await.map_err(|e| e.to_string())?;
    match result.outcome {
        converge_ssh::Outcome::Finished { status, .. } if status.success() && !result.cut => {
            Ok(result.output)
        }
        converge_ssh::Outcome::Finished { status: Status::TimedOut, .. } => {
            Err(format!("no answer within {seconds} s"))
        }
        _ => Err(last_words(&result.stderr)),
    }
}
