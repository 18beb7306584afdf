//! A cluster as an executor.

use crate::connect::Cluster;
use crate::error::RunRefusal;
use crate::record_error::RecordsError;
use converge_executor::{Answers, Executor, Questions, RunEnd, RunMeta, TargetError, TargetFuture};
use converge_ledger::Records;

/// A cluster whose records are not read must not be worked on.
fn unread(error: RecordsError) -> TargetError {
    TargetError::Refused(error.to_string())
}

impl Executor for Cluster {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn observe<'a>(&'a self, questions: Questions<'a>) -> TargetFuture<'a, Result<Answers, TargetError>> {
        Box::pin(async move {
            let managed = async {
                match questions.managed {
                    true => Some(self.owned().await.map_err(unread)),
                    false => None,
                }
            };
            let (answers, managed) = tokio::join!(self.answers_to(questions.probes), managed);
            if self.is_gone() {
                return Err(TargetError::Unreachable("the API server does not answer any more".to_owned()));
            }
            Ok(Answers { managed, ..answers })
        })
    }

    fn open<'a>(&'a self, meta: &'a RunMeta) -> TargetFuture<'a, Result<(), TargetError>> {
        Box::pin(async move {
            self.begin_run(meta).await.map_err(|refused| match refused {
                RunRefusal::Busy(who) => TargetError::Locked(who),
                RunRefusal::Unfit(why) => TargetError::Refused(why),
            })
        })
    }

    fn close<'a>(&'a self, run: &'a str, end: RunEnd) -> TargetFuture<'a, ()> {
        Box::pin(self.end_run(run, end))
    }

    fn history(&self) -> TargetFuture<'_, Result<Records, TargetError>> {
        Box::pin(async move { self.records().await.map_err(unread) })
    }
}
