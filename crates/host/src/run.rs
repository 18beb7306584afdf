//! A host as an executor: one look, a run's beginning and end, and the records of runs.

use crate::connection::HostConnection;
use crate::observe::{TOO_LARGE, observe};
use crate::records::{self, LOCKED, Piece};
use bytes::Bytes;
use converge_executor::{
    Answers, Executor, Questions, RunEnd, RunMeta, TargetError, TargetFuture, without_name,
};
use converge_ledger::{Adoption, Records, Renaming, parse_records};
use converge_resource::{Content, ObjectId, quote};
use converge_ssh::{Batch, ShellError, ShellItem, ShellItemResult, Stderr};
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;

impl Executor for HostConnection {
    fn name(&self) -> &str {
        &self.host
    }

    fn observe<'a>(&'a self, questions: Questions<'a>) -> TargetFuture<'a, Result<Answers, TargetError>> {
        Box::pin(async move {
            let mut answers = observe(self, questions).await.map_err(|e| self.lost(&e))?;
            if let Some(Ok(managed)) = &mut answers.managed {
                *self.base.lock().unwrap_or_else(PoisonError::into_inner) = managed.base.take();
            }
            Ok(answers)
        })
    }

    fn open<'a>(&'a self, meta: &'a RunMeta) -> TargetFuture<'a, Result<(), TargetError>> {
        Box::pin(open(self, meta))
    }

    fn close<'a>(&'a self, run: &'a str, end: RunEnd) -> TargetFuture<'a, ()> {
        Box::pin(async move {
            self.end_beating();
            self.end(run, end).await;
        })
    }

    fn history(&self) -> TargetFuture<'_, Result<Records, TargetError>> {
        Box::pin(history(self))
    }
}

impl HostConnection {
    /// Ends the run's record and gives the lock back.
    async fn end(&self, run: &str, end: RunEnd) {
        let batch = Batch { prelude: Some(records::close_script(run, end)), ..Batch::default() };
        if let Ok((_, Some(error))) | Err(error) = self.run_to_end(&batch).await {
            tracing::warn!(host = self.host, %error, "the end of the run could not be recorded");
        }
    }

    /// Takes objects out of management, for rollbacks too. It is the run's own session: the host's lock is held.
    ///
    /// # Errors
    /// The journal could not be written, or the host is lost.
    pub async fn forget(&self, run: &str, objects: &BTreeSet<ObjectId>) -> Result<(), TargetError> {
        let script: Vec<String> = objects.iter().map(records::forget_script).collect();
        self.amend(run, &script.join(" && ")).await
    }

    /// Takes objects into management as they are. What they hold is kept before the first of them is managed.
    ///
    /// # Errors
    /// The content of one could not be kept, the journal could not be written, or the host is lost.
    pub async fn adopt(&self, run: &str, adoptions: &[Adoption]) -> Result<(), TargetError> {
        let saves = adoptions.iter().filter_map(records::adoption_save_script);
        let script: Vec<String> = saves.chain(adoptions.iter().map(records::adoption_script)).collect();
        self.amend(run, &script.join(" && ")).await
    }

    /// Gives what earlier runs of the project recorded under a name another one.
    ///
    /// # Errors
    /// The journal could not be written, or the host is lost.
    pub async fn rename(&self, run: &str, renaming: &Renaming) -> Result<(), TargetError> {
        self.amend(run, &records::rename_script(renaming)).await
    }

    /// Writes into the journal of a run.
    async fn amend(&self, run: &str, script: &str) -> Result<(), TargetError> {
        let script = format!("CV_RUN={}; {script}", quote(run));
        let piece = Piece { script, stdin: None, timeout: 600 };
        demand(self, item(1, piece, None), "the records of the run").await
    }
}

async fn open(link: &HostConnection, meta: &RunMeta) -> Result<(), TargetError> {
    let base = link.base.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut items = vec![item(1, records::undo_question(), None)];
    items.extend(
        base.map(|base| records::base_piece(&meta.id, &base))
            .map(|(piece, text)| item(2, piece, Some(&text))),
    );
    let batch = Batch { prelude: Some(records::open_script(meta)), stop_file: None, items };
    let (results, error) = link.run_to_end(&batch).await.map_err(|e| link.lost(&e))?;
    let bare = |reply: &str| without_name(&link.host, reply.trim());
    match error {
        // The lock is someone else's, or the host cannot take records: its own words say which.
        Some(ShellError::Prelude { status: LOCKED, reply }) => return Err(TargetError::Locked(bare(&reply))),
        Some(ShellError::Prelude { reply, .. }) => return Err(TargetError::Refused(bare(&reply))),
        Some(error) => return Err(link.lost(&error)),
        None => {}
    }
    // A base that is not taken is brought by the next run.
    if !results.first().is_some_and(ShellItemResult::success) {
        let installed = install_undo(link).await;
        if installed.is_err() {
            // It has changed nothing, so no record of it stays.
            link.end(&meta.id, RunEnd::Failed).await;
        }
        installed?;
    }
    link.beat(&meta.id);
    Ok(())
}

/// Gives the host the `undo.sh` of this program: in its first run, and in the first of another version.
async fn install_undo(link: &HostConnection) -> Result<(), TargetError> {
    let (piece, text) = records::undo_piece();
    demand(link, item(1, piece, Some(&text)), "/var/lib/converge/undo.sh").await
}

/// Runs an item that writes `what`: the host is refused where it fails.
async fn demand(link: &HostConnection, item: ShellItem, what: &str) -> Result<(), TargetError> {
    let (results, error) = link.run_to_end(&Batch::of(vec![item])).await.map_err(|e| link.lost(&e))?;
    match (results.first(), error) {
        (_, Some(error)) => Err(link.lost(&error)),
        (Some(result), None) if result.success() => Ok(()),
        (result, None) => {
            let reply =
                result.map(|r| String::from_utf8_lossy(&r.output).trim().to_owned()).unwrap_or_default();
            Err(TargetError::Refused(format!("{what} cannot be written: {reply}")))
        }
    }
}

fn item(id: u32, piece: Piece, input: Option<&Content>) -> ShellItem {
    ShellItem {
        payload: input.map(|content| Bytes::copy_from_slice(content.bytes())),
        timeout: Some(Duration::from_secs(piece.timeout)),
        ..ShellItem::new(id, piece.script)
    }
}

async fn history(link: &HostConnection) -> Result<Records, TargetError> {
    let item = ShellItem { stderr: Stderr::Separate, ..ShellItem::new(1, records::list_script()) };
    let (results, error) = link.run_to_end(&Batch::of(vec![item])).await.map_err(|e| link.lost(&e))?;
    if let Some(error) = error {
        return Err(link.lost(&error));
    }
    let none = || TargetError::Refused("gave no answer".to_owned());
    read_history(&results.into_iter().next().ok_or_else(none)?)
}

/// The records in an answer, if they are in it as a whole.
fn read_history(result: &ShellItemResult) -> Result<Records, TargetError> {
    if !result.success() {
        return Err(TargetError::Refused(String::from_utf8_lossy(&result.stderr).trim().to_owned()));
    }
    if result.cut {
        return Err(TargetError::Refused(TOO_LARGE.to_owned()));
    }
    parse_records(&String::from_utf8_lossy(&result.output)).map_err(|e| TargetError::Refused(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_ssh::{ShellOutcome, Status};

    #[test]
    fn records_that_do_not_fit_into_an_answer_are_refused_and_not_read_in_part() {
        let outcome = ShellOutcome::Finished { status: Status::Exited(0), duration: Duration::ZERO };
        let output = b"converge\t6\nrun\ta\nclose\tfinished\n".to_vec();
        let whole = ShellItemResult { id: 1, outcome, output, stderr: Vec::new(), cut: false };
        assert_eq!(read_history(&whole).unwrap().runs.len(), 1);
        let why = read_history(&ShellItemResult { cut: true, ..whole }).unwrap_err().to_string();
        assert!(why.contains("larger than what is read") && why.contains("/var/lib/converge/runs"), "{why}");
    }
}
