//! Hosts of a scenario: thrown away afterwards, or those of an inventory.

use crate::cluster;
use crate::cluster_spec::ClusterSpec;
use crate::discover::Case;
use crate::project::inventory;
use crate::report::Kept;
use camino::Utf8PathBuf;
use converge_lab::kube::ApiServer;
use converge_lab::{Lab, LabOptions};
use converge_model::inventory::InventorySource;
use std::sync::Arc;
use tempfile::TempDir;

pub use converge_lab::{Missing, missing};

/// What the labs of this program are called, before the process and a number.
const PREFIX: &str = "test-";

/// The hosts of one scenario while it runs.
pub(crate) struct Hosts {
    /// Where their inventory is.
    pub inventories: Vec<InventorySource>,
    /// The inventory's names of the scenario's hosts, in order.
    pub names: Vec<String>,
    /// Narrows an inventory to these hosts.
    pub limit: Option<String>,
    /// The API server in the first of them. It goes before the hosts do.
    pub api: Option<ApiServer>,
    lab: Option<Lab>,
    _folder: Option<TempDir>,
}

impl Hosts {
    /// Makes throw-away hosts.
    pub fn make(
        case: &Case,
        number: usize,
        spec: Option<&ClusterSpec>,
        say: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, String> {
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let options = LabOptions::new(name).install_nothing().on_progress(move |line| say(line));
        let lab = Lab::open(options).map_err(|e| e.to_string())?;
        let names = case.scenario.host_names();
        let hosts = lab.start_hosts(&names).map_err(|e| e.to_string())?;
        lab.write_ssh_files().map_err(|e| e.to_string())?;
        let common =
            format!("-o UserKnownHostsFile={} -o StrictHostKeyChecking=yes", lab.known_hosts().display());
        let variables = |name: &str| {
            let address = hosts.iter().find(|h| h.name() == name).map(|h| h.address().to_string());
            vec![
                ("ansible_host".to_owned(), address.unwrap_or_default()),
                ("ansible_user".to_owned(), "root".to_owned()),
                ("ansible_ssh_private_key_file".to_owned(), lab.identity().display().to_string()),
                ("ansible_ssh_common_args".to_owned(), common.clone()),
            ]
        };
        let (folder, source) = inventory_file(&inventory(case, variables))?;
        let api = match (spec, hosts.first()) {
            (Some(spec), Some(first)) => Some(cluster::start(first, spec)?),
            _ => None,
        };
        Ok(Self {
            api,
            inventories: vec![source],
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            limit: None,
            lab: Some(lab),
            _folder: Some(folder),
        })
    }

    /// Hosts that nobody contacts: for what shows without any.
    pub fn imagined(case: &Case) -> Result<Self, String> {
        let names = case.scenario.host_names();
        // Addresses of the block for documentation: roles may write addresses of hosts into files.
        let address = |name: &str| {
            let number = names.iter().position(|n| *n == name).unwrap_or_default() + 1;
            vec![("ansible_host".to_owned(), format!("192.0.2.{number}"))]
        };
        let (folder, source) = inventory_file(&inventory(case, address))?;
        Ok(Self {
            inventories: vec![source],
            names: case.scenario.host_names().iter().map(|n| (*n).to_owned()).collect(),
            limit: None,
            api: None,
            lab: None,
            _folder: Some(folder),
        })
    }

    /// Hosts that are there already.
    pub fn given(inventories: &[InventorySource], names: &[String]) -> Self {
        Self {
            inventories: inventories.to_vec(),
            names: names.to_vec(),
            limit: Some(names.join(":")),
            api: None,
            lab: None,
            _folder: None,
        }
    }

    /// Leaves the hosts running, and says how to get in.
    pub fn keep(self) -> Option<Kept> {
        let lab = self.lab?;
        if let Some(api) = self.api {
            api.leave_running();
        }
        let config = lab.ssh_config();
        let logins = self.names.iter().map(|n| format!("ssh -F {} {n}", config.display())).collect();
        // A lab that cannot be left is taken down: then there is nothing to say.
        lab.leave_running().ok()?;
        Some(Kept { logins, remove: "converge test --remove-kept".to_owned() })
    }
}

fn inventory_file(text: &str) -> Result<(TempDir, InventorySource), String> {
    let folder = tempfile::Builder::new().prefix("converge-test-").tempdir().map_err(|e| e.to_string())?;
    let path = Utf8PathBuf::from_path_buf(folder.path().join("hosts.yaml"))
        .map_err(|p| format!("{}: the name is not UTF-8", p.display()))?;
    fs_err::write(&path, text).map_err(|e| e.to_string())?;
    Ok((folder, InventorySource::Path(path)))
}

/// Takes away hosts that were left for a look; their labs' names come back.
///
/// # Errors
/// One that cannot be taken down.
pub fn remove_kept() -> Result<Vec<String>, String> {
    converge_lab::remove_left(PREFIX).map_err(|e| e.to_string())
}
