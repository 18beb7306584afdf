//! Hosts of a scenario: thrown away afterwards, or those of an inventory.

use crate::cluster::{self, ClusterFault};
use crate::cluster_spec::{ClusterSpec, WholeSpec};
use crate::discover::Case;
use crate::project::inventory;
use crate::report::RemainingHosts;
use camino::Utf8PathBuf;
use converge_lab::kube::{ApiServer, Kubectl, Part, Repositories, device_plugin_image, ensure};
use converge_lab::{Host, Lab, LabError, LabOptions};
use converge_model::inventory::InventorySource;
use converge_resource::counted;
use serde_json::{Map, Value, json};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

pub use converge_lab::Missing;

/// The reason why a scenario has no hosts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostsError {
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error(transparent)]
    Cluster(#[from] ClusterFault),
    #[error("the inventory of the hosts cannot be written: {0}")]
    Inventory(#[from] io::Error),
    #[error("{}: the name is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
    #[error("a scenario with a cluster runs on disposable hosts only: leave --inventory out")]
    ClusterOnGiven,
    #[error("the scenario needs {}, and the inventory gives {given}", counted(*needed, "host"))]
    TooFew { needed: usize, given: usize },
    #[error("recorded answers are no hosts")]
    Recorded,
}

/// The start of the names of labs of this program; the process ID and a number follow.
const PREFIX: &str = "test-";

/// Everything that this machine lacks for the disposable hosts of these scenarios; nothing is changed.
pub fn missing(cases: &[Case]) -> Vec<Missing> {
    let mut out = converge_lab::missing();
    let whole = || cases.iter().filter_map(|case| case.scenario.cluster.as_ref()?.whole.as_ref());
    if whole().next().is_some() {
        out.extend(converge_lab::kube::missing(whole().any(|spec| !spec.gpus.is_empty())));
    }
    out
}

/// The hosts of one scenario while it runs.
pub(crate) struct ScenarioHosts {
    /// Their inventory.
    pub inventories: Vec<InventorySource>,
    /// The inventory's names of the scenario's hosts, in order.
    pub names: Vec<String>,
    /// Narrows an inventory to these hosts.
    pub limit: Option<String>,
    /// Who asks the cluster of disposable hosts.
    pub kubectl: Option<Kubectl>,
    /// The helm of the lab, for a scenario with a cluster of the lab.
    pub helm: Option<PathBuf>,
    /// The API server in the first of them. It goes before the hosts do.
    server: Option<ApiServer>,
    /// The package repositories that a whole cluster is installed from, served on the lab's network.
    _repositories: Option<Repositories>,
    lab: Option<Lab>,
    folder: Option<TempDir>,
}

const CONTROL_PLANE: &str = "k8s_control_plane";
const WORKERS: &str = "k8s_workers";

impl ScenarioHosts {
    /// Makes disposable hosts.
    pub fn make(
        case: &Case,
        number: usize,
        spec: Option<&ClusterSpec>,
        say: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, HostsError> {
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let whole = spec.and_then(|spec| spec.whole.as_ref());
        let mut options = LabOptions::new(name).install_nothing().on_progress(move |line| say(line));
        if whole.is_some() {
            options = options.kube();
        }
        let lab = Lab::open(options)?;
        let repositories = whole.map(|_| Repositories::serve(&lab)).transpose()?;
        let names = case.scenario.host_names();
        let hosts = lab.start_hosts(&names)?;
        if let Some(whole) = whole {
            give_gpus(&lab, &hosts, whole)?;
        }
        lab.write_ssh_files()?;
        let mut all = lab.variables();
        if let (Some(repositories), Some(first)) = (&repositories, hosts.first()) {
            all.extend(repositories.role_variables(first)?);
        }
        let own = |name: &str| {
            let address = hosts.iter().find(|h| h.name() == name).map(|h| h.address().to_string());
            address_of(address.unwrap_or_default())
        };
        let (folder, source) = inventory_file(&inventory(case, all, &groups(case), own))?;
        let (server, kubectl) = match (spec, hosts.first()) {
            (Some(spec), Some(first)) if spec.whole.is_none() => {
                (Some(cluster::start(first, spec)?), Some(Kubectl::of_api_server(first)))
            }
            (Some(_), Some(first)) => (None, Some(Kubectl::of_kubeadm(first))),
            _ => (None, None),
        };
        let helm = || ensure(&[Part::Helm])?.program("helm");
        let helm = spec.map(|_| helm()).transpose()?;
        Ok(Self {
            inventories: vec![source],
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            limit: None,
            kubectl,
            helm,
            server,
            _repositories: repositories,
            lab: Some(lab),
            folder: Some(folder),
        })
    }

    /// Hosts that are never contacted: for checks that need none.
    pub fn imagined(case: &Case) -> Result<Self, HostsError> {
        let names = case.scenario.host_names();
        // Addresses of the block for documentation: roles may write addresses of hosts into files.
        let address = |name: &str| {
            let number = names.iter().position(|n| *n == name).unwrap_or_default() + 1;
            address_of(format!("192.0.2.{number}"))
        };
        let (folder, source) = inventory_file(&inventory(case, Map::new(), &groups(case), address))?;
        Ok(Self {
            inventories: vec![source],
            names: case.scenario.host_names().iter().map(|n| (*n).to_owned()).collect(),
            limit: None,
            kubectl: None,
            helm: None,
            server: None,
            _repositories: None,
            lab: None,
            folder: Some(folder),
        })
    }

    /// Hosts that are there already.
    pub fn given(inventories: &[InventorySource], names: &[String]) -> Self {
        Self {
            inventories: inventories.to_vec(),
            names: names.to_vec(),
            limit: Some(names.join(":")),
            kubectl: None,
            helm: None,
            server: None,
            _repositories: None,
            lab: None,
            folder: None,
        }
    }

    /// The hosts of a whole cluster, which the scenario's names stand for.
    pub fn nodes(&self) -> Vec<Host> {
        let host = |name: &String| self.lab.as_ref()?.host(name);
        self.names.iter().filter_map(host).collect()
    }

    /// The folder of a project of their own on this machine.
    pub fn project_folder(&self) -> Option<Utf8PathBuf> {
        Utf8PathBuf::from_path_buf(self.folder.as_ref()?.path().to_owned()).ok()
    }

    /// Leaves the hosts running, and says how to get in.
    pub fn keep(self) -> Option<RemainingHosts> {
        let lab = self.lab?;
        if let Some(server) = self.server {
            server.leave_running();
        }
        let config = lab.ssh_config();
        let logins = self.names.iter().map(|n| format!("ssh -F {} {n}", config.display())).collect();
        // A lab that cannot be left is taken down: then there is nothing to say.
        lab.leave_running().ok()?;
        Some(RemainingHosts { logins, remove: "converge test --remove-kept".to_owned() })
    }
}

/// The groups by which the role `k8s` knows the hosts of a whole cluster.
fn groups(case: &Case) -> Vec<(&'static str, Vec<&str>)> {
    let names = case.scenario.host_names();
    match names.split_first().filter(|_| case.is_whole()) {
        Some((first, others)) => vec![(CONTROL_PLANE, vec![*first]), (WORKERS, others.to_vec())],
        None => Vec::new(),
    }
}

fn address_of(address: String) -> Map<String, Value> {
    Map::from_iter([("ansible_host".to_owned(), json!(address))])
}

/// Gives hosts their GPUs, and all of them the image with NVIDIA's device plugin, before images are imported.
fn give_gpus(lab: &Lab, hosts: &[Host], whole: &WholeSpec) -> Result<(), LabError> {
    if !whole.gpus.is_empty() {
        device_plugin_image(lab)?;
    }
    for (name, lines) in &whole.gpus {
        if let Some(host) = hosts.iter().find(|host| host.name() == name) {
            host.fake_gpus(lines)?;
        }
    }
    Ok(())
}

fn inventory_file(text: &str) -> Result<(TempDir, InventorySource), HostsError> {
    let folder = tempfile::Builder::new().prefix("converge-test-").tempdir()?;
    let path = Utf8PathBuf::from_path_buf(folder.path().join("hosts.yaml")).map_err(HostsError::NotUtf8)?;
    fs_err::write(&path, text)?;
    Ok((folder, InventorySource::Path(path)))
}

/// Takes away hosts that were left for a look; their labs' names come back.
///
/// # Errors
/// One that cannot be taken down.
pub fn remove_remaining_hosts() -> Result<Vec<String>, LabError> {
    converge_lab::remove_left(PREFIX)
}
