//! Signs of life of a run's controller: without them the host ends the run and frees its lock.

use crate::records::{self as host, SILENCE};
use converge_ssh::{Batch, Become, Session, ShellError, ShellItem};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Between two signs of life: four of them may be lost.
const BEAT: Duration = Duration::from_secs(10);

/// Between two attempts to open a channel for them.
const AGAIN: Duration = Duration::from_secs(5);

/// Beats in a channel of its own, until it is dropped.
pub(crate) struct Heart(JoinHandle<()>);

impl Heart {
    /// For this run, which is open in another channel of the session.
    pub fn of(session: Session, become_: Become, run: &str) -> Self {
        let run = run.to_owned();
        Self(tokio::spawn(async move {
            loop {
                // A host that gives no second channel is not watched: its run lasts as long as its session.
                if let Err(error) = beat(&session, &become_, &run).await {
                    tracing::debug!(%error, "signs of life do not reach the host");
                }
                if session.is_closed() {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
        }))
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn beat(session: &Session, become_: &Become, run: &str) -> Result<(), ShellError> {
    let token = uuid::Uuid::now_v7().simple().to_string();
    let shell = session.shell(become_).await?;
    let mut script = host::watch_script(run, &token, SILENCE);
    for number in 1.. {
        let item = ShellItem { timeout: Some(Duration::from_secs(SILENCE)), ..ShellItem::new(1, script) };
        let (_, error) = shell.run_to_end(&Batch::of(vec![item])).await?;
        if let Some(error) = error {
            return Err(error);
        }
        tokio::time::sleep(BEAT).await;
        script = host::beat_script(run, &token, number);
    }
    Ok(())
}
