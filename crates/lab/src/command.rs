//! Runs the system's tools, as root.

use crate::error::{LabError, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// A command that runs as root: as it is for root, else through `sudo -n`.
pub(crate) fn root(program: &str) -> Command {
    if rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.args(["-n", "--", program]);
    command
}

/// Runs a command with no input and returns its output when it succeeded.
pub(crate) fn checked(command: &mut Command) -> Result<Output> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed_start(command, &error))?;
    success(command, output)
}

/// Runs a command as root; only success matters.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<()> {
    checked(root(program).args(args)).map(drop)
}

/// Whether a command as root succeeds.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    checked(root(program).args(args)).is_ok()
}

/// Writes a file owned by root, with the directories above it.
pub(crate) fn write(path: &Path, mode: &str, content: &str) -> Result<()> {
    let mut command = root("install");
    command.args(["-D", "-m", mode, "/dev/stdin"]).arg(path);
    with_input(&mut command, content.as_bytes()).map(drop)
}

/// Runs a command with the given input and returns its output when it succeeded.
pub(crate) fn with_input(command: &mut Command, input: &[u8]) -> Result<Output> {
    let output = output_of(command, input)?;
    success(command, output)
}

/// Runs a command with the given input, whatever its end.
pub(crate) fn output_of(command: &mut Command, input: &[u8]) -> Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed_start(command, &error))?;
    let (input_pipe, output_pipe, error_pipe) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let output = std::thread::scope(|scope| {
        // A tool that ends without reading its input has said so by its exit status.
        scope.spawn(move || input_pipe.map(|mut pipe| pipe.write_all(input)));
        let stdout = scope.spawn(|| to_the_end(output_pipe));
        let stderr = scope.spawn(|| to_the_end(error_pipe));
        keep_awake(&child);
        let status = child.wait()?;
        let read = |pipe: ScopedJoinHandle<'_, io::Result<Vec<u8>>>| {
            pipe.join().unwrap_or_else(|_| Err(io::Error::other("the thread that reads has died")))
        };
        io::Result::Ok(Output { status, stdout: read(stdout)?, stderr: read(stderr)? })
    })?;
    Ok(output)
}

fn to_the_end(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.map(|mut pipe| pipe.read_to_end(&mut bytes)).transpose()?;
    Ok(bytes)
}

/// Waits until a child has ended, and goes on with it where it was stopped. systemd stops every process of a host that goes down before it ends
/// them; nsenter stops itself when what it runs is stopped, and would neither wake up nor let the host end.
fn keep_awake(child: &Child) {
    let pid = Pid::from_child(child);
    let changes = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    while let Ok(Some(status)) = waitid(WaitId::Pid(pid), changes) {
        if !status.stopped() || kill_process(pid, Signal::CONT).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn success(command: &Command, output: Output) -> Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.trim().lines().collect();
    let detail = lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n");
    Err(LabError::Tool { command: shown(command), status: output.status.to_string(), detail })
}

/// The error for a command that could not be started.
pub(crate) fn failed_start(command: &Command, error: &io::Error) -> LabError {
    LabError::Tool { command: shown(command), status: error.to_string(), detail: String::new() }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    let first = line.lines().next().unwrap_or_default();
    first.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_tool_says_what_it_wrote() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo broken >&2; exit 3"]);
        let error = checked(&mut command).unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_missing_tool_is_an_error() {
        assert!(checked(&mut Command::new("/nonexistent/tool")).is_err());
    }

    #[test]
    fn a_tool_that_was_stopped_goes_on() {
        let output = output_of(Command::new("sh").args(["-c", "kill -STOP $$; echo awake"]), b"").unwrap();
        assert_eq!(output.stdout, b"awake\n");
    }

    #[test]
    fn input_larger_than_a_pipe_passes_through() {
        let input = vec![b'x'; 300_000];
        let output = with_input(&mut Command::new("cat"), &input).unwrap();
        assert_eq!(output.stdout, input);
    }
}
