//! The process that holds the components of an API server on loopback.

use super::control_plane::SHORT_LIVED;
use crate::command;
use crate::error::{LabError, Result};
use crate::host::ExecOutput;
use fs_err as fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

const LOCAL: &str = include_str!("../scripts/kube-local.sh");

/// The process that holds the others.
pub(crate) struct Supervisor {
    child: Child,
    pipes: Mutex<(Option<ChildStdin>, BufReader<ChildStdout>)>,
    folder: PathBuf,
    pub(crate) kubectl: PathBuf,
}

impl Supervisor {
    pub(super) fn start(folder: &Path, kubectl: PathBuf) -> Result<Self> {
        let mut shell = Command::new("setsid");
        shell.args(["sh", "-c", LOCAL, "converge-lab-kube"]).arg(folder);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = shell.spawn().map_err(|error| command::failed_start(&shell, &error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(LabError::Io(std::io::Error::other("the supervisor has no pipes")));
        };
        let pipes = Mutex::new((Some(input), BufReader::new(output)));
        Ok(Self { child, pipes, folder: folder.to_owned(), kubectl })
    }

    /// `START`, or a signal's name.
    pub(crate) fn control(&self, name: &str, verb: &str) -> Result<()> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let (input, output) = &mut *pipes;
        if let Some(input) = input {
            writeln!(input, "{verb} {name}")?;
        }
        let mut answer = String::new();
        output.read_line(&mut answer)?;
        if answer.trim() == "done" {
            return Ok(());
        }
        let what = format!("{verb} {name}");
        Err(LabError::Tool {
            command: what,
            status: "its supervisor is dead".to_owned(),
            detail: String::new(),
        })
    }

    pub(crate) fn kubectl(
        &self,
        seconds: u32,
        kubeconfig: &str,
        arguments: &[&str],
        input: &str,
    ) -> Result<ExecOutput> {
        let mut kubectl = Command::new("timeout");
        kubectl
            .args([&seconds.to_string(), "env", SHORT_LIVED])
            .arg(&self.kubectl)
            .arg(format!("--kubeconfig={kubeconfig}"));
        Ok(command::output_of(kubectl.args(arguments), input.as_bytes())?.into())
    }

    pub(crate) fn log_tail(&self) -> String {
        let mut out = String::new();
        for name in ["etcd", "apiserver", "controllers", "scheduler", "kwok"] {
            let text = fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for line in lines.get(lines.len().saturating_sub(5)..).unwrap_or_default() {
                out.push_str(&format!("\n{name}: {line}"));
            }
        }
        out
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        drop(pipes.0.take());
        drop(self.child.wait());
    }
}
