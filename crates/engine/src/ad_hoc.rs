//! One command on many hosts, side by side.

use crate::context::RunContext;
use crate::tasks::on_each;
use crate::{Event, HostRan, RanCommand, TargetError};
use converge_ssh::{Batch, ShellEvent, ShellItem, Status, Stderr};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Bytes of each stream of one host that are kept; what is shown as it comes is not cut.
const RETAINED: usize = 1 << 20;
/// Pieces of output that wait to be shown; a host that writes faster waits.
const UNSHOWN: usize = 64;

/// A piece of output: whether it is standard error, bytes.
type OutputPiece = (bool, Vec<u8>);

/// Runs shell text on every host of this run, at most `forks` at once. `observed` gets what is written as it comes:
/// whether it is standard error, bytes. A command that takes longer than `limit` is ended on its host.
pub(crate) async fn run_command(
    context: &Arc<RunContext>,
    script: &str,
    limit: Duration,
    observed: &(dyn Fn(bool, &[u8]) + Sync),
) -> Vec<HostRan> {
    let hosts: Vec<String> = context.machines().to_vec();
    // A shell of its own: the command sees none of our functions, and what it sets is gone with it.
    // It goes through a pipe: all users of the host can read the list of processes.
    let script: Arc<str> = converge_resource::unlisted("", script).into();
    let (output, mut pieces) = mpsc::channel::<OutputPiece>(UNSHOWN);
    let mut running = pin!(on_each(context, &hosts, |context, host| {
        let (script, output) = (Arc::clone(&script), output.clone());
        async move {
            let _permit = context.permit(&host).await;
            let begun = Instant::now();
            let result = run_on(&context, &host, &script, limit, &output).await;
            if let Err(lost) = &result {
                context.events.send(Event::Lost { host: host.clone(), message: lost.to_string() });
            }
            HostRan { host, result, took: begun.elapsed() }
        }
    }));
    let ran = loop {
        tokio::select! {
            biased;
            Some((error, bytes)) = pieces.recv() => observed(error, &bytes),
            ran = &mut running => break ran,
        }
    };
    while let Ok((error, bytes)) = pieces.try_recv() {
        observed(error, &bytes);
    }
    ran
}

async fn run_on(
    context: &RunContext,
    host: &str,
    script: &str,
    limit: Duration,
    output: &mpsc::Sender<OutputPiece>,
) -> Result<RanCommand, TargetError> {
    let link = crate::connect::sessions::link(context, host).await?;
    let item =
        ShellItem { stderr: Stderr::Separate, timeout: Some(limit), ..ShellItem::new(1, script.to_owned()) };
    let mut events = link.run(&Batch::of(vec![item])).map_err(|e| link.lost(&e))?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut ran = RanCommand::default();
    let mut ended = false;
    while let Some(event) = events.next().await {
        match event.map_err(|e| link.lost(&e))? {
            ShellEvent::Output { bytes, stderr: err, .. } => {
                let retained = if err { &mut stderr } else { &mut stdout };
                let room = RETAINED.saturating_sub(retained.len()).min(bytes.len());
                ran.cut |= room < bytes.len();
                retained.extend_from_slice(bytes.get(..room).unwrap_or_default());
                // The caller has gone: so has this task, soon.
                let _gone = output.send((err, bytes.into())).await;
            }
            ShellEvent::Finished { status, cut, .. } => {
                ran.status = match status {
                    Status::Exited(code) => Some(code),
                    Status::TimedOut => None,
                };
                ran.cut |= cut;
                ended = true;
            }
            ShellEvent::Started(_) | ShellEvent::Skipped { .. } => {}
        }
    }
    if !ended {
        let message = format!("{host}: the result of the command was not received");
        return Err(TargetError::Unreachable(message));
    }
    ran.stdout = String::from_utf8_lossy(&stdout).into_owned();
    ran.stderr = String::from_utf8_lossy(&stderr).into_owned();
    Ok(ran)
}
