//! An API server on this machine's own loopback, for tests that need no host.

use super::api::{ApiServer, PKI};
use super::control_plane::{
    Administrator, ApiOptions, LONG_LIVED, Layout, POD_LOG, Ports, SHORT_LIVED, log_text,
};
use super::parts;
use crate::command;
use crate::error::{LabError, Result};
use crate::host::ExecOutput;
use fs_err as fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

const LOCAL: &str = include_str!("../scripts/kube-local.sh");

/// An [`ApiServer`] on ports of its own of this machine's loopback. It needs no root. Dropping it, or the death of the process that
/// started it, ends everything and deletes its folder.
pub struct LocalApi {
    api: ApiServer,
    kubeconfig: PathBuf,
}

impl LocalApi {
    /// Starts one below `dir`, in a folder `kube-api` that must not be there yet, and waits until it answers.
    ///
    /// Errors when the programs cannot be had, or when a process does not get ready.
    pub fn start(dir: &Path, options: ApiOptions) -> Result<Self> {
        let parts = parts::ensure(&options.parts())?;
        let folder = fs::canonicalize(dir)?.join("kube-api");
        fs::create_dir(&folder)?;
        let layout = Layout {
            etc: folder.clone(),
            data: folder.join("data"),
            stages: folder.join("stages.yaml"),
            ports: free_ports()?,
        };
        fs::write(&layout.stages, layout.stages_text())?;
        fs::write(layout.pod_log(), log_text(POD_LOG))?;
        certificates(&layout, options.administrator)?;
        for component in options.components() {
            let program = parts.program(component.program())?.display().to_string();
            let words = std::iter::once(program).chain(component.arguments(&layout, &options));
            let line: Vec<String> = words.map(|word| format!("'{word}'")).collect();
            let file = folder.join(format!("{}.sh", component.name()));
            fs::write(file, format!("export {LONG_LIVED}\nexec {}\n", line.join(" ")))?;
        }
        let supervisor = Supervisor::start(&folder, parts.program("kubectl")?)?;
        let kubeconfig = folder.join("admin.conf");
        Ok(Self { api: ApiServer::on_loopback(supervisor, options, layout)?, kubeconfig })
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Deref for LocalApi {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        &self.api
    }
}

pub(crate) fn certificates(layout: &Layout, administrator: Administrator) -> Result<()> {
    let mut script = Command::new("sh");
    script.args(["-c", PKI, "converge-lab-pki"]).arg(&layout.etc);
    script.args([layout.ports.api.to_string(), administrator.days()]);
    command::checked(&mut script).map(drop)
}

/// The process that holds the others.
pub(crate) struct Supervisor {
    child: Child,
    pipes: Mutex<(Option<ChildStdin>, BufReader<ChildStdout>)>,
    folder: PathBuf,
    pub(crate) kubectl: PathBuf,
}

impl Supervisor {
    fn start(folder: &Path, kubectl: PathBuf) -> Result<Self> {
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

/// Ports that were free a moment ago: held together, so that they differ.
fn free_ports() -> Result<Ports> {
    let held = (0..6)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<std::io::Result<Vec<TcpListener>>>()?;
    let ports = held
        .iter()
        .map(|listener| listener.local_addr().map(|address| address.port()))
        .collect::<std::io::Result<Vec<u16>>>()?;
    match ports[..] {
        [api, etcd, etcd_peer, controllers, scheduler, kwok] => {
            Ok(Ports { api, etcd, etcd_peer, controllers, scheduler, kwok })
        }
        _ => Err(LabError::Io(std::io::Error::other("six ports were asked for"))),
    }
}
