//! An API server on this machine's own loopback, for tests that need no host.

use super::api::ApiServer;
use super::control_plane::{ApiOptions, LONG_LIVED, Layout, POD_LOG, Ports, log_text};
use super::parts;
use super::pki::certificates;
use super::supervisor::Supervisor;
use crate::error::{LabError, Result};
use fs_err as fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::path::{Path, PathBuf};

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
