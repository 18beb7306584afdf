//! The real host, asked through a program such as `ssh`.

use crate::ReplayError;
use crate::answer::RecordedAnswer;
use crate::framed::{Ends, ShellBeginning, end};
use bytes::Bytes;
use std::process::Stdio;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

/// Runs a command with all of its input to its end.
pub(crate) async fn plain(
    real: &[String],
    command: &str,
    input: &[u8],
) -> Result<RecordedAnswer, ReplayError> {
    let mut child = start(real, command)?;
    let mut stdin = child.stdin.take();
    let write = async {
        if let Some(stdin) = &mut stdin {
            stdin.write_all(input).await?;
        }
        drop(stdin);
        Ok(())
    };
    let (written, output): (std::io::Result<()>, _) = tokio::join!(write, child.wait_with_output());
    written?;
    let output = output?;
    let status = output.status.code().and_then(|code| u32::try_from(code).ok()).unwrap_or(255);
    // A command that ends has no marks: an empty one is nowhere.
    Ok(RecordedAnswer { output: vec![output.stdout.into()], errors: vec![output.stderr.into()], status })
}

/// Starts a framed shell, gives it all inputs of a session, and returns its answer to the last.
pub(crate) async fn framed(
    real: &[String],
    begin: &ShellBeginning,
    inputs: &[Bytes],
) -> Result<RecordedAnswer, ReplayError> {
    let mut child = start(real, &begin.command)?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(ReplayError::Protocol("no pipes"));
    };
    let [first, second] = &begin.mark;
    stdin.write_all(format!("{}\nN {first} {second}\n", begin.line).as_bytes()).await?;
    let mark = begin.whole_mark();
    let mut before = Ends::default();
    if let Some((_, earlier)) = inputs.split_last() {
        earlier.iter().for_each(|input| before.add(input));
    }
    let mut all = before;
    if let Some(last) = inputs.last() {
        all.add(last);
    }
    let write = async {
        for input in inputs {
            stdin.write_all(input).await?;
        }
        Ok::<_, ReplayError>(stdin)
    };
    let output = until(stdout, &mark, b'D', before.output, all.output);
    let errors = until(stderr, &mark, b'E', before.errors, all.errors);
    let (_stdin, output, errors) = tokio::try_join!(write, output, errors)?;
    Ok(RecordedAnswer::recorded(&output, &errors, &mark, 0))
}

fn start(real: &[String], command: &str) -> Result<Child, ReplayError> {
    let (program, arguments) = real.split_first().ok_or(ReplayError::Protocol("no real host"))?;
    let mut start = Command::new(program);
    start.args(arguments).arg(command).kill_on_drop(true);
    Ok(start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// The bytes between the ends of two batches.
async fn until(
    mut stream: impl AsyncRead + Unpin,
    mark: &[u8],
    letter: u8,
    from: usize,
    to: usize,
) -> Result<Vec<u8>, ReplayError> {
    let mut all = Vec::new();
    loop {
        if let Some(till) = end(&all, mark, letter, to) {
            let begin = end(&all, mark, letter, from).unwrap_or_default();
            // The greeting stands before the first frame.
            let begin = if from == 0 { memchr::memmem::find(&all, mark).unwrap_or(till) } else { begin };
            return Ok(all.get(begin..till).unwrap_or_default().to_vec());
        }
        if stream.read_buf(&mut all).await? == 0 {
            return Err(ReplayError::Ended(String::from_utf8_lossy(&all).into_owned()));
        }
    }
}
